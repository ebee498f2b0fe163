"""A Sequence of a large manifest: its columns stay on the disk and hold what the frame holds."""

import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest import table_reading, writing
from dfgen.table.arrow_types import MappedColumn

ROWS = 40


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """A manifest in row groups of 7 rows, in the folder of its images, that counts as large."""
    monkeypatch.setattr(writing, "GROUP_ROWS", 7)
    monkeypatch.setattr(table_reading, "LEAST_ROWS", 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    numbers = np.arange(ROWS)
    for number in numbers:
        pixels = np.full((4, 4, 3), number, np.uint8)
        PIL.Image.fromarray(pixels).save(f"{number}.png")
    frame = pd.DataFrame(
        {
            "id": [f"row {number}" for number in numbers],
            "path": [f"{tmp_path}/{number}.png" for number in numbers],
            "kind": pd.Categorical.from_codes(numbers % 3, ["x", "é", "z"]),
            "age": np.where(numbers % 4, numbers / 2, np.nan),
            "note": [None if number % 3 == 1 else f"nöte {number}" for number in numbers],
            "tags": [["a"] * (number % 3) for number in numbers],
            "split": pd.Categorical(np.where(numbers % 5, "train", "val")),
        }
    )
    dfgen.write_manifest(frame, "pets.parquet")
    return Path("pets.parquet").absolute()


def opened(manifest, **options):
    options = {"y": "kind", "image_size": (4, 4), "batch_size": 8, **options}
    return dfgen.Sequence(manifest, **options)


def batches(manifest, **options):
    with opened(manifest, **options) as sequence:
        state = {**sequence.state_dict(), "checksum": None}
        return state, [[array.tobytes() for array in sequence[i]] for i in range(len(sequence))]


def row_files(tmp_path):
    return {path: path.stat().st_ino for path in (tmp_path / "cache").rglob("*.arrow")}


@pytest.mark.parametrize("where", [None, "split == 'train' and kind != 'z'", "id == 'row 7'"])
def test_batches_and_state_are_those_of_the_frame(pets, where):
    frame = dfgen.read_manifest(pets, where=where)
    assert batches(pets, where=where) == batches(frame)
    with opened(pets, where=where) as sequence:
        pd.testing.assert_frame_equal(sequence.manifest, frame)


def test_worker_processes_map_the_same_file(pets):
    options = {"use_multiprocessing": True, "workers": 2}
    assert batches(pets, **options) == batches(dfgen.read_manifest(pets), **options)


@pytest.mark.parametrize("ends", [None, ("/r/", ".png")])
def test_mapped_column_gives_one_and_several_values(tmp_path, ends):
    names = pa.array(["a", "b", "c"], pa.string())
    whole = ["a", "b", "c"] if ends is None else ["/r/a.png", "/r/b.png", "/r/c.png"]
    with pa.ipc.new_file(tmp_path / "x.arrow", pa.schema([("path", names.type)])) as file:
        for part in (names[:2], names[2:]):
            file.write(pa.record_batch([part], ["path"]))
    one = pickle.loads(pickle.dumps(MappedColumn(str(tmp_path / "x.arrow"), "path", ends)))
    assert [one[row].as_py() for row in range(len(one))] == whole and one.nbytes == 0
    assert one.take([2, 0]).to_pylist() == [whole[2], whole[0]]
    assert one.take([]).to_pylist() == []
    for part in (slice(1, None), slice(3, 9)):
        assert one[part].to_pylist() == whole[part]


def test_rows_are_mapped_once_per_manifest_version(pets, tmp_path):
    batches(pets)
    made = row_files(tmp_path)
    assert len(made) == 1
    batches(pets)
    assert row_files(tmp_path) == made
    changed = dfgen.read_manifest(pets).iloc[::-1]
    dfgen.write_manifest(changed, pets)
    assert batches(pets) == batches(changed)
    assert len(row_files(tmp_path)) == 2  # a training may still use the first
    for path in row_files(tmp_path):
        os.utime(path, (0, 0))  # unused for long
    for rows in range(10, 0, -1):
        dfgen.write_manifest(changed.head(rows), pets)
        batches(pets)
    assert not row_files(tmp_path).keys() & made.keys()


def test_truncated_row_file_is_made_again(pets, tmp_path):
    whole = batches(pets)
    for path in row_files(tmp_path):
        path.write_bytes(path.read_bytes()[:-9])
    assert batches(pets) == whole


def test_batches_stay_the_same_during_manifest_replacement(pets):
    before = batches(pets)[1]
    with opened(pets) as sequence:
        dfgen.write_manifest(dfgen.read_manifest(pets).iloc[::-1], pets)
        again = [[array.tobytes() for array in sequence[i]] for i in range(len(sequence))]
    assert again == before != batches(pets)[1]


def test_unwritable_cache_folder_is_a_warning(pets, tmp_path):
    frame = batches(dfgen.read_manifest(pets))
    (tmp_path / "cache").write_text("in the way")
    with pytest.warns(UserWarning, match="memory"):
        assert batches(pets) == frame


def test_conditions_on_frames_or_without_matches_are_rejected(pets):
    with pytest.raises(ArgumentError, match="where"):
        opened(dfgen.read_manifest(pets), where="age > 3")
    with pytest.raises(ManifestError, match="no rows"):
        opened(pets, where="kind == 'x' and kind == 'é'")


@pytest.mark.parametrize(
    ("where", "fold"), [(None, None), ("age > 3", 1), ("kind != 'x' or age > 3", None)]
)
def test_splits_are_those_of_the_frame(pets, where, fold):
    if fold is not None:
        frame = dfgen.read_manifest(pets).drop(columns="split")
        dfgen.write_manifest(dfgen.split(frame, folds=3), pets)
    options = {"y": "kind", "image_size": (4, 4), "batch_size": 8, "fold": fold}
    of_file = dfgen.sequences(pets, where=where, **options)
    of_frame = dfgen.sequences(dfgen.read_manifest(pets, where=where), **options)
    assert [*of_file] == [*of_frame] == ["train", "val"]
    for split, sequence in of_file.items():
        with sequence, of_frame[split] as other:
            assert sequence.state_dict() == other.state_dict()
            for mapped, held in zip(sequence, other, strict=True):
                np.testing.assert_equal(mapped, held)
            assert sequence.manifest["id"].tolist() == other.manifest["id"].tolist()


def test_root_of_a_moved_data_set_is_given(pets, tmp_path):
    os.rename(pets, "moved.parquet")
    frame = dfgen.read_manifest("moved.parquet", root=tmp_path)
    assert batches("moved.parquet", root=str(tmp_path)) == batches(frame)
    where = f"path != '{tmp_path}/3.png'"
    os.symlink(tmp_path, "other")
    for root, rows in ((tmp_path, ROWS - 1), (tmp_path / "other", ROWS)):
        with opened("moved.parquet", root=root, where=where, batch_size=1) as sequence:
            assert len(sequence) == len(sequence.manifest) == rows


@pytest.mark.parametrize(
    "rows", [{"id": ["a", None, "c"]}, {"id": [*"aba"]}, {"path": ["x", "", "y"]}]
)
def test_wrong_rows_of_another_program_are_refused(pets, rows):
    key = pq.read_schema(pets).metadata
    columns = {"id": [*"abc"], "path": [*"xyz"], **rows}
    pq.write_table(pa.table(columns).replace_schema_metadata(key), pets)
    with pytest.raises(ManifestError, match=next(iter(rows))):
        opened(pets, y=None, label_mode=None)


@pytest.mark.parametrize("processes", [False, True])
def test_pixels_of_a_mapped_manifest_are_cached(pets, processes):
    options = {"cache": "pixels", "workers": 2, "use_multiprocessing": processes}
    plain = batches(pets)
    for hits in (0, ROWS):
        assert batches(pets, **options)[1] == plain[1]
        with opened(pets, **options) as sequence:
            assert len([*sequence]) == len(sequence)
            assert sequence.metrics.cache_hits >= hits
