"""A Sequence of a manifest in parts: its columns stay on the disk, and say what a frame says."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pytest

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.loading.workers.worker_tuning import may_be_processes
from dfgen.manifest import parts_writer
from dfgen.manifest.column_files import ColumnFiles
from dfgen.table.mapped_column import HeldColumn, MappedColumn

ROWS = 40


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """A manifest in parts of 7 rows, in a folder with its images."""
    monkeypatch.setattr(parts_writer, "PART_ROWS", 7)
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
    dfgen.write_manifest(frame, "pets.manifest")
    return Path("pets.manifest").absolute()


def opened(manifest, **options):
    options = {"y": "kind", "image_size": (4, 4), "batch_size": 8, **options}
    return dfgen.Sequence(manifest, **options)


def batches(manifest, **options):
    with opened(manifest, **options) as sequence:
        state = {**sequence.state_dict(), "checksum": None}
        return state, [[array.tobytes() for array in sequence[i]] for i in range(len(sequence))]


def column_files(folder):
    return {path: path.stat().st_ino for path in Path(folder).rglob("*.arrow")}


@pytest.mark.parametrize("where", [None, "split == 'train' and kind != 'z'", "id == 'row 7'"])
def test_batches_and_state_are_those_of_the_frame(pets, where):
    frame = dfgen.read_manifest(pets, where=where)
    assert batches(pets, where=where) == batches(frame)
    with opened(pets, where=where) as sequence:
        pd.testing.assert_frame_equal(sequence.manifest, frame)


def test_worker_processes_map_the_same_files(pets):
    frame = dfgen.read_manifest(pets)
    options = {"use_multiprocessing": True, "workers": 2}
    assert batches(pets, **options) == batches(frame)


def test_processes_are_tried_for_small_files_as_they_are_for_those_of_a_frame(pets):
    with opened(pets) as sequence:
        assert may_be_processes(sequence._loader.reader)


def test_every_column_says_what_the_frame_says(pets):
    frame = dfgen.read_manifest(pets, where="age > 3")
    with opened(pets, where="age > 3") as sequence:
        columns = sequence._binding.columns
        assert isinstance(columns.source, ColumnFiles)
        table = columns.source.to_table()
        for name in frame:
            told = [None if one != one else one for one in frame[name].astype(object).map(plain)]
            assert table[name].to_pylist() == told, name
        assert columns.part(np.arange(len(frame)) < 2)["id"].to_pylist() == [*frame["id"][:2]]


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_no_row_is_held_in_memory(pets):
    with opened(pets) as sequence:
        reader = sequence._binding.reader
        assert isinstance(reader.ids, MappedColumn)
        image, label = reader.features
        assert isinstance(image.values, MappedColumn)
        assert not label.values.flags.owndata
        assert len(list(pets.rglob("*-*.arrow"))) == 3  # id, path, kind


def test_paths_of_a_mapped_column_are_whole_by_one_and_by_several(tmp_path):
    names = pa.array(["a", "b", "c"], pa.large_string())
    with pa.ipc.new_file(tmp_path / "path.arrow", pa.schema([("path", names.type)])) as file:
        file.write(pa.record_batch([names], ["path"]))
    for ends, whole in (
        (None, ["a", "b", "c"]),
        (("/r/", ".png"), [*map("/r/{}.png".format, "abc")]),
    ):
        mapped = MappedColumn(str(tmp_path / "path.arrow"), "path", ends)
        for one in mapped, HeldColumn(names, ends):
            assert one.nbytes == (0 if one is mapped else names.nbytes)
            one = pickle.loads(pickle.dumps(one))
            assert [one[row].as_py() for row in range(len(one))] == whole
            assert one.take([2, 0]).to_pylist() == [whole[2], whole[0]]
            for part in (slice(1, None), slice(None, None, -1), slice(3, 9)):
                assert one[part].to_pylist() == whole[part]
                assert one[part].type == one.type == names.type


def test_columns_are_made_once_and_again_when_the_manifest_changed(pets):
    batches(pets)
    made = column_files(pets)
    assert made
    batches(pets)
    assert column_files(pets) == made
    changed = dfgen.read_manifest(pets).iloc[::-1]
    dfgen.write_manifest(changed, pets)
    assert batches(pets) == batches(changed)
    assert column_files(pets).keys() > made.keys()  # of a training that goes on
    for key in (pets / ".columns").iterdir():
        os.utime(key, (0, 0))  # unused for long
    for rows in range(10, 1, -1):
        dfgen.write_manifest(changed.head(rows), pets)
        batches(pets)
    assert not column_files(pets).keys() & made.keys()
    assert len([*(pets / ".columns").iterdir()]) == 9  # a training may be at each


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[:99] + b"?" + data[100:]]
)
def test_a_damaged_column_is_made_again(pets, damage):
    whole = batches(pets)
    for path in column_files(pets):
        path.write_bytes(damage(path.read_bytes()))
    assert batches(pets) == whole


def test_batches_stay_the_same_while_the_manifest_is_replaced(pets):
    before = batches(pets)[1]
    with opened(pets) as sequence:
        dfgen.write_manifest(dfgen.read_manifest(pets).iloc[::-1], pets)
        again = [[array.tobytes() for array in sequence[i]] for i in range(len(sequence))]
    assert again == before != batches(pets)[1]


def test_a_damaged_part_is_told_before_training(pets):
    part = sorted(pets.glob("part-*"))[2]
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ManifestError, match=f"{part} is cut short"):
        opened(pets)
    part.unlink()
    with pytest.raises(FileNotFoundError, match=f"{part} is missing, which holds"):
        opened(pets)


def test_columns_lie_in_the_cache_of_the_user_where_the_folder_takes_none(pets, tmp_path):
    (pets / ".columns").write_text("in the way")
    whole = batches(pets)
    assert len(column_files(tmp_path / "cache" / "dfgen")) == 3
    assert whole == batches(dfgen.read_manifest(pets))


@pytest.mark.slow
def test_processes_that_open_it_together_make_its_columns_once(pets):
    code = (
        "from dfgen.limits import DEFAULT\n"
        "from dfgen.manifest.table_reading import column_files\n"
        "from dfgen.samples.stores.remote.store_options import StorageOptions\n"
        "files, _ = column_files('pets.manifest', None, DEFAULT, StorageOptions(), None)\n"
        "print([files.path(name) for name in files.column_names], len(files.to_table()))"
    )
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[0] for process in both]
    assert told[0] == told[1] and told[0].endswith(f" {ROWS}\n")


def test_a_condition_on_a_frame_and_one_that_keeps_nothing_are_refused(pets):
    with pytest.raises(ArgumentError, match="where='age > 3' filters the files of a manifest"):
        opened(dfgen.read_manifest(pets), where="age > 3")
    with pytest.raises(ManifestError, match=r"filtered by a value .* Those of 'kind' are 'x', 'é'"):
        opened(pets, where="kind == 'y'")


@pytest.mark.parametrize(
    ("where", "fold"), [(None, None), ("age > 3", 1), ("kind != 'x' or age > 3", None)]
)
def test_splits_are_mapped_and_those_of_the_frame(pets, where, fold):
    if fold is not None:
        frame = dfgen.read_manifest(pets).drop(columns="split")
        dfgen.write_manifest(dfgen.split(frame, folds=3), pets)
    options = {"y": "kind", "image_size": (4, 4), "batch_size": 8, "fold": fold}
    of_parts = dfgen.sequences(pets, where=where, **options)
    of_frame = dfgen.sequences(dfgen.read_manifest(pets, where=where), **options)
    assert [*of_parts] == [*of_frame] == ["train", "val"]
    for split, sequence in of_parts.items():
        with sequence, of_frame[split] as other:
            assert sequence.state_dict() == other.state_dict()
            for mapped, held in zip(sequence, other, strict=True):
                np.testing.assert_equal(mapped, held)
            assert isinstance(sequence._binding.reader.ids, MappedColumn)
            ids = sequence.manifest["id"].tolist()
            assert ids == other.manifest["id"].tolist()


@pytest.mark.slow
def test_splits_of_a_condition_and_of_worker_processes_keep_their_files(pets):
    options = {"y": "kind", "image_size": (4, 4)}
    for where in ("age > 3", "age > 4"):
        of_parts = dfgen.sequences(
            pets, where=where, use_multiprocessing=True, workers=1, **options
        )
        of_frame = dfgen.sequences(dfgen.read_manifest(pets, where=where), **options)
        for split, sequence in of_parts.items():
            with sequence, of_frame[split] as other:
                for mapped, held in zip(sequence, other, strict=True):
                    np.testing.assert_equal(mapped, held)


def test_a_root_that_moved_is_given(pets, tmp_path):
    os.rename("pets.manifest", "moved.manifest")
    frame = dfgen.read_manifest("moved.manifest", root=tmp_path)
    assert batches("moved.manifest", root=str(tmp_path)) == batches(frame)
    where = f"path != '{tmp_path}/3.png'"  # which is of one root alone
    os.symlink(tmp_path, "other")
    for root, rows in ((tmp_path, ROWS - 1), (tmp_path / "other", ROWS)):
        with opened("moved.manifest", root=root, where=where, batch_size=1) as sequence:
            assert len(sequence) == len(sequence.manifest) == rows
