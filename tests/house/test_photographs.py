"""The photographs that the demo keeps: true labels, outlines that fit, known faults."""

import json
import wave
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from dfgen.cli import app
from dfgen.errors import WriteError
from dfgen.photographs import FOLDER, THINGS, write_photographs


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


def test_coins_of_val_are_on_no_image_of_train(kept):
    table = pd.read_csv(kept / "coins.csv")
    sizes = table.groupby("split")["diameter_mm"].agg(set)
    assert table["split"].value_counts().to_dict() == {"train": 192, "val": 96}
    assert len(sizes["train"] | sizes["val"]) > 12


def test_sounds_last_between_four_and_twelve_tenths(kept):
    table = pd.read_csv(kept / "sounds.csv")
    assert table["kind"].value_counts().to_dict() == {"bell": 60, "drum": 60, "flute": 60}
    for name in table["sound"]:
        with wave.open(str(kept / f"sounds/{name}.wav")) as sound:
            assert 0.4 <= sound.getnframes() / sound.getframerate() <= 1.2


def test_a_table_of_somebody_else_is_never_written_over(tmp_path):
    (tmp_path / "labels.csv").write_text("mine\n")
    with pytest.raises(WriteError, match=r"labels\.csv"):
        write_photographs(tmp_path)
    assert (tmp_path / "labels.csv").read_text() == "mine\n"
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]
