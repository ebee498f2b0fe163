"""`dfgen demo`: digits, a model of two outputs, and photographs that tutorials begin with."""

from pathlib import Path

import pandas as pd
import pytest
from command import run

import dfgen
from dfgen import demo
from dfgen.errors import WriteError


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    ended = run("demo", "--keep", folder, "--no-train")
    assert (ended.returncode, ended.stderr) == (0, "") and f"{folder}/photographs" in ended.stdout
    return folder


def test_digits_are_kept_with_their_manifest(kept):
    df = dfgen.read_manifest(kept / "digits.parquet")
    assert len(df) == 1797 and df["problem"].isna().all()
    assert df["split"].value_counts().to_dict() == {"train": 1438, "val": 359}
    labels = pd.read_csv(kept / "labels.csv").set_index("object_id")["digit"]
    assert labels.loc[df["id"]].astype(str).tolist() == df["digit"].tolist()


def test_photographs_have_labels_boxes_and_masks(kept):
    folder = kept / "photographs"
    photos = dfgen.build_manifest(
        folder / "photos", labels=folder / "labels.csv", on="stem=photo", facts="full"
    )
    assert len(photos) == 594 and photos["problem"].isna().all()
    assert photos["thing"].value_counts().unique().tolist() == [99]
    coins = dfgen.build_manifest(coco=folder / "coins.json", images=folder / "coins")
    coins["mask"] = coins["path"].str.replace("/coins/", "/masks/").str.replace(".jpg", ".png")
    image, mask = dfgen.Image(size=(128, 128)), dfgen.Mask("mask")
    with dfgen.Sequence(coins, image, mask, shuffle=False) as seq:
        for (_, masks), row in zip(seq, range(0, len(coins), 32), strict=True):
            filled = masks.reshape(len(masks), -1).any(axis=1)
            assert (filled == (coins["boxes"].str.len()[row : row + 32] > 0)).all()
    folders = dfgen.build_manifest(folder / "folders", pattern="{split}/{thing}/{id}.jpg")
    assert len(folders) == 120 and {*folders["split"]} == {"train", "val"}


def test_the_archive_is_small_and_names_its_licences(kept):
    assert (Path(dfgen.__file__).parent / "data/photographs.zip").stat().st_size < 2_000_000
    assert "CC BY 2.0" in (kept / "photographs/README.md").read_text()


def test_a_second_run_leaves_corrected_labels(kept):
    table = kept / "photographs/labels.csv"
    corrected = table.read_text() + "p9999,cat,cat-0\n"
    table.write_text(corrected)
    demo.unpack_photographs(kept / "photographs")
    assert table.read_text() == corrected


def test_files_of_others_are_not_overwritten(tmp_path):
    (tmp_path / "labels.csv").write_text("id,kind\n0,cat\n")
    with pytest.raises(WriteError, match="table of the demo"):
        demo.demo(keep=tmp_path, train=False)
    with pytest.raises(WriteError, match="has other files"):
        demo.unpack_photographs(tmp_path)
    assert (tmp_path / "labels.csv").read_text() == "id,kind\n0,cat\n"
    ended = run("demo", "--no-train", "--keep", tmp_path / "labels.csv")
    assert ended.returncode == 1 and str(tmp_path) in ended.stderr


@pytest.mark.slow
@pytest.mark.backend
def test_the_model_learns_the_digits():
    ended = run("demo")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "def train_model(df" in ended.stdout and "--keep" in ended.stdout
