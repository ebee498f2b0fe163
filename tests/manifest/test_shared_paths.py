"""Rows of one file in several splits are told, once, by all that makes or uses splits."""

import numpy as np
import pyarrow as pa
import pytest

import dfgen
from dfgen.manifest.duplicates import shared_paths

TOLD = (
    "2 paths in rows of several splits, as {!r}, {!r}: they are trained on and measured "
    'on. Keep the rows of a file in one split: group="path" (--group path)'
)
SHARES = {"train": 0.5, "val": 0.5}


@pytest.fixture
def crops(frame):
    """Two rows of each file, of which two files have one in each split."""
    df = frame(12)
    df["path"] = np.repeat(df["path"].to_numpy()[:6], 2)
    return df.assign(split=["train"] * 6 + ["train", "val"] * 2 + ["val"] * 2)


def told(caught):
    return [str(one.message) for one in caught]


def shared(df):
    return TOLD.format(*df["path"].iloc[[6, 8]])


def test_sequences_tell_of_files_in_several_splits_once(crops):
    with pytest.warns(UserWarning) as caught:
        dfgen.sequences(crops, y="label", image_size=(4, 4))
    assert told(caught) == [shared(crops)]
    assert caught[0].filename == __file__


def test_fold_sequences_report_files_in_both_parts(crops):
    folds = crops.assign(fold=[0] * 6 + [1, 2] * 2 + [2] * 2).drop(columns="split")
    dfgen.sequences(folds, y="label", image_size=(4, 4), fold=0)
    with pytest.warns(UserWarning) as caught:
        dfgen.sequences(folds, y="label", image_size=(4, 4), fold=1)
    assert told(caught) == [shared(crops)]


@pytest.mark.filterwarnings("ignore:.* has no row")
@pytest.mark.parametrize("how", [{"shares": SHARES}, {"folds": 2}])
def test_only_splits_of_rows_report_shared_files(crops, how):
    with pytest.warns(UserWarning) as caught:
        df = dfgen.split(crops, **how)
    part = df["fold" if "folds" in how else "split"]
    count = int((part.groupby(df["path"]).nunique() > 1).sum())
    shared = [text for text in told(caught) if 'group="path"' in text]
    assert len(shared) == 1
    assert shared[0].startswith(f"{count} path")
    dfgen.split(crops, **how, group="path")


@pytest.mark.filterwarnings("ignore:.* has no row")
def test_built_manifest_reports_files_in_several_splits(crops, tmp_path):
    table = tmp_path / "labels.csv"
    crops[["id", "path", "label"]].to_csv(table, index=False)
    asked = {"labels": table, "path_column": "path", "id": "id", "facts": "none", "split": SHARES}
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest(**asked)
    assert sum('group="path" (--group path)' in text for text in told(caught)) == 1
    dfgen.build_manifest(**asked, group="path")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_equal_paths_are_found_wherever_they_lie(kind):
    paths = ["a", "b/c.png", "d" * 40, "e" * 40, "/data/one.png", "", "é" * 5]
    assert shared_paths(pa.array(paths, kind)[1:], np.arange(6)) is None
    for at, text in enumerate(paths):
        rows = pa.array(["zz", *paths, text, None, None], kind)[1:]
        parts = np.arange(len(rows))
        assert shared_paths(rows, parts).startswith(
            f"1 path in rows of several splits, as {text!r}:"
        )
        parts[len(paths)] = at
        assert shared_paths(rows, parts) is None


def test_path_categories_are_compared_but_other_columns_ignored():
    paths = pa.array(["/data/a.png", "/data/a.png"]).dictionary_encode()
    assert shared_paths(paths, np.array([0, 1])).startswith("1 path ")
    assert shared_paths(pa.array([1, 1]), np.array([0, 1])) is None
    assert shared_paths(pa.array([], pa.string()), np.array([], np.int64)) is None
