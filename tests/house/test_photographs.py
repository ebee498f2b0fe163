"""The photographs that the demo keeps: true labels, outlines that fit, known faults."""

import json
import shutil
import wave
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from dfgen.cli import app
from dfgen.errors import WriteError
from dfgen.photographs import FOLDER, MM_PER_PIXEL, THINGS, TRAIN_ENDS, write_photographs


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    result = CliRunner().invoke(app, ["demo", "--keep", str(folder), "--no-train"])
    assert result.exit_code == 0 and "photographs" in result.output
    assert [path.name for path in folder.iterdir()] == ["photographs"]
    return folder / "photographs"


def test_no_train_without_keep_says_what_to_give():
    result = CliRunner().invoke(app, ["demo", "--no-train"])
    assert result.exit_code == 2 and "--keep DIR" in result.output


@pytest.mark.slow
def test_two_times_give_equal_files(kept, tmp_path):
    write_photographs(tmp_path)
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) > 1500
    assert all((tmp_path / name).read_bytes() == (kept / name).read_bytes() for name in files)


def test_each_cut_is_of_the_thing_that_its_label_names(kept):
    labels = pd.read_csv(kept / "labels.csv")
    photographs = {
        thing: np.asarray(Image.open(FOLDER / f"{thing}.jpg").convert("RGB"), float)
        for thing in THINGS
    }
    for photo, thing, part in labels.sample(24, random_state=0).itertuples(index=False):
        (path,) = kept.glob(f"photos/*/{photo}.jpg")
        cut = np.asarray(Image.open(path).convert("RGB"), float)
        row, column = divmod(int(part.rpartition("-")[2]), 3)
        whole = photographs[thing]
        high, wide = whole.shape[0] // 3, whole.shape[1] // 3
        tile = whole[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
        windows = np.lib.stride_tricks.sliding_window_view(tile, cut.shape)
        nearest = np.abs(windows[:, :, 0, ::8, ::8] - cut[::8, ::8]).mean((2, 3, 4)).min()
        assert nearest < 12, (photo, thing, part)


def test_the_messy_table_has_the_faults_that_its_readme_names(kept):
    labels = pd.read_csv(kept / "labels.csv", index_col="photo")["thing"]
    messy = pd.read_csv(kept / "messy.csv")
    assert messy.photo.duplicated().sum() == 1
    assert set(messy.photo) - set(labels.index) == {"p9001", "p9002"}
    assert len(set(labels.index) - set(messy.photo)) == 2
    known = (
        messy[messy.photo.isin(labels.index)].drop_duplicates("photo").set_index("photo")["thing"]
    )
    plain = known.str.strip().str.lower()
    assert (plain != labels[plain.index]).sum() == 6
    assert (known != plain).sum() == 12


def test_outlines_and_masks_of_coins_are_the_same_pixels(kept):
    coins = json.loads((kept / "coins.json").read_bytes())
    counts = pd.read_csv(kept / "coins.csv", index_col="coin")["coins"]
    for image in coins["images"]:
        outlines = [one for one in coins["annotations"] if one["image_id"] == image["id"]]
        name = Path(image["file_name"]).stem
        assert len(outlines) == counts[name]
        drawn = Image.new("L", (image["width"], image["height"]))
        for one in outlines:
            ImageDraw.Draw(drawn).polygon(one["segmentation"][0], fill=1)
        mask = np.asarray(Image.open(kept / f"masks/{name}.png"))
        assert (np.asarray(drawn) != mask).mean() < 0.002


def test_no_image_of_val_shows_a_coin_of_train(kept):
    """Each is found in the photograph, on its own side of the column that parts them."""
    photograph = Image.open(FOLDER / "coins.jpg")
    table = pd.read_csv(kept / "coins.csv")
    assert table["split"].value_counts().to_dict() == {"train": 192, "val": 96}
    left = np.asarray(photograph.crop((0, 0, int(TRAIN_ENDS), photograph.height)))
    right = np.asarray(photograph.crop((int(TRAIN_ENDS), 0, photograph.width, photograph.height)))
    for coin, split, mm in table[["coin", "split", "mm_per_pixel"]].itertuples(index=False):
        window = Image.open(kept / f"coins/{coin}.jpg")
        side = round(window.width * mm / MM_PER_PIXEL)
        small = np.asarray(window.resize((side, side)))
        own, other = (left, right) if split == "train" else (right, left)
        near = cv2.matchTemplate(own, small, cv2.TM_CCOEFF_NORMED).max()
        assert near > 0.93 and near > cv2.matchTemplate(other, small, cv2.TM_CCOEFF_NORMED).max()


def test_sounds_last_between_four_and_twelve_tenths(kept):
    table = pd.read_csv(kept / "sounds.csv")
    assert table["kind"].value_counts().to_dict() == {"bell": 60, "drum": 60, "flute": 60}
    for name in table["sound"]:
        with wave.open(str(kept / f"sounds/{name}.wav")) as sound:
            assert 0.4 <= sound.getnframes() / sound.getframerate() <= 1.2


def test_a_second_run_leaves_corrected_labels(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "again")
    (tmp_path / "again/labels.csv").write_text("photo,thing,part\np0000,cat,cat-0\n")
    write_photographs(tmp_path / "again")
    assert "p0000,cat" in (tmp_path / "again/labels.csv").read_text()


@pytest.mark.parametrize("name", ["labels.csv", "coins.json", "README.md"])
def test_a_file_of_somebody_else_is_never_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(WriteError, match="holds other files: expected an empty folder"):
        write_photographs(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]
