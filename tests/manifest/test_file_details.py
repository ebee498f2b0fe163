"""Manifest files that move, change or cannot be written."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from public.test_manifest_files import ROWS as ROWS
from public.test_manifest_files import manifest as manifest
from public.test_manifest_files import sample as sample
from public.trees import pets

import dfgen
from dfgen.errors import DfgenError, ManifestError, WriteError


def test_labels_changed_by_another_program_are_warned_of(manifest):
    table = pq.read_table(manifest)
    place = table.column_names.index("low")
    pq.write_table(table.set_column(place, "low", pa.array(np.arange(ROWS) // 2)), manifest)
    with pytest.warns(UserWarning, match=r"m\.parquet"):
        dfgen.read_manifest(manifest)


def test_manifest_and_files_move_together(tmp_path):
    (tmp_path / "first/m").mkdir(parents=True)
    pets(tmp_path / "first", 4, out=tmp_path / "first/m/pets.parquet")
    path = (tmp_path / "first").rename(tmp_path / "second") / "m/pets.parquet"
    frame = dfgen.read_manifest(path)
    assert frame["path"].map(os.path.exists).all()
    assert frame.attrs["dfgen"]["root"] == f"{tmp_path}/second/imgs"
    assert dfgen.read_manifest(path, root="/other")["path"][0] == "/other/cat/000.png"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda f: f.drop(columns="id"), "id"), (lambda f: f.assign(id="aa"), "aa"),
        (lambda f: f.assign(id=[None, *f["id"][1:]]), "id"),
        (lambda f: f.assign(path=["", *f["path"][1:]]), "path"),
        (lambda f: f.assign(path=[*f["path"][1:], "/far/z.png"]), r"z\.png"),
    ],
)  # fmt: skip
def test_wrong_frame_is_not_written(tmp_path, manifest, change, word):
    before = manifest.read_bytes()
    with pytest.raises(ManifestError, match=word):
        dfgen.write_manifest(change(sample(tmp_path)), manifest, root=tmp_path)
    assert manifest.read_bytes() == before


def test_wrong_paths_are_named(tmp_path):
    frame = sample(tmp_path)
    frame[["low"]].to_parquet(tmp_path / "other.parquet")
    for name in ("gone.parquet", "other.parquet"):
        with pytest.raises(DfgenError, match=name):
            dfgen.read_manifest(tmp_path / name)
    for name in ("x.csv", "nowhere/x.parquet", "other.parquet"):
        with pytest.raises(WriteError, match=name):
            dfgen.write_manifest(frame, tmp_path / name)


def test_filtered_in_place_is_as_small_as_elsewhere(tmp_path):
    frame = sample(tmp_path, 3000)
    for name, rows in {"m": 3000, "n": 5}.items():
        dfgen.write_manifest(frame[:rows], tmp_path / f"{name}.parquet")
    dfgen.write_manifest(dfgen.read_manifest(tmp_path / "m.parquet")[:5], tmp_path / "m.parquet")
    sizes = [os.path.getsize(tmp_path / f"{name}.parquet") for name in "mn"]
    assert sizes[0] < 1.2 * sizes[1]
