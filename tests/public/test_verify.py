"""A manifest compared with the disk: missing, truncated and changed files."""

import os

import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError, MissingFileError
from public.trees import image, pets

EXPECTED = {"000": "missing", "001": "broken"} | dict.fromkeys(["002", "003", "004"], "changed")


@pytest.fixture
def out(tmp_path):
    """A manifest of six files, of which five changed since."""
    paths = pets(tmp_path, 6, out=tmp_path / "m.parquet").set_index("id")["path"]
    os.remove(paths["000"])
    os.truncate(paths["001"], 20)
    os.utime(paths["002"], ns=(7, 7))
    image(tmp_path / "imgs/dog/003.png", 3, (5, 6))
    time = os.stat(paths["004"]).st_mtime_ns
    with open(paths["004"], "ab") as file:
        file.write(b"more")
    os.utime(paths["004"], ns=(time, time))
    return tmp_path / "m.parquet"


@pytest.mark.parametrize("kind", ["path", "frame"])
def test_each_difference_is_a_row(out, kind):
    found = dfgen.verify(out if kind == "path" else dfgen.read_manifest(out)).set_index("id")
    assert found["change"].to_dict() == EXPECTED
    paths = dfgen.read_manifest(out).set_index("id")["path"]
    assert found["path"].to_dict() == paths[list(EXPECTED)].to_dict()
    assert "7" in found["detail"]["002"] and "width" in found["detail"]["003"]
    assert "bytes" in found["detail"]["004"] and "mtime" not in found["detail"]["004"]


def test_unchanged_files_give_no_rows(tmp_path):
    frame, path = pets(tmp_path, 5, out=tmp_path / "m.parquet"), tmp_path / "m.parquet"
    assert dfgen.verify(path, decode=True).empty and dfgen.verify(frame).empty
    none = frame[["id", "path"]].copy()
    none.attrs = {}
    os.rename(tmp_path / "imgs", tmp_path / "moved")
    assert dfgen.verify(path, root=tmp_path / "moved").empty
    assert dfgen.verify(none)["id"].tolist() == none["id"].tolist()


def test_written_facts_are_those_of_the_disk(out):
    before = dfgen.read_manifest(out)
    assert dfgen.verify(out, write=True).set_index("id")["change"].to_dict() == EXPECTED
    after = dfgen.read_manifest(out)
    same = ["id", "path", "kind"]
    pd.testing.assert_frame_equal(before[same], after[same])
    after = after.set_index("id")
    assert after.index[after["problem"].notna()].tolist() == ["000", "001"]
    assert after.loc["002", "mtime_ns"] == 7 and after.loc["003", "width"] == 5
    again = dfgen.verify(out).set_index("id")["change"].to_dict()
    assert again == {"000": "missing", "001": "broken"}


def test_decode_finds_damage_behind_a_good_header(tmp_path):
    image(tmp_path / "a.jpg", 1)
    path = image(tmp_path / "big.jpg", 2, (300, 200))
    os.truncate(path, path.stat().st_size - 500)
    frame = dfgen.build_manifest(tmp_path)
    assert frame["problem"].isna().all() and dfgen.verify(frame).empty
    found = dfgen.verify(frame, decode=True)[["id", "change"]]
    assert found.values.tolist() == [["big.jpg", "broken"]]


def test_wrong_arguments_are_named(out):
    with pytest.raises(MissingFileError, match=r"gone\.parquet"):
        dfgen.verify(out.with_name("gone.parquet"))
    with pytest.raises(ArgumentError, match="write"):
        dfgen.verify(dfgen.read_manifest(out), write=True)
