"""Large array files: their rows as a manifest, and as batches that come out right."""

import os
from collections import Counter

import h5py
import numpy as np
import pandas as pd
import pytest
from contracts import SourceContract
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError
from dfgen.manifest.sources import SOURCES
from dfgen.samples.stores.local_files import Files

ROWS = 100


class TestNpy(SourceContract):
    expected = [{"id": row, "path": "x.npy", "index": row} for row in range(3)]  # noqa: RUF012

    def source(self, *arguments):
        return SOURCES["arrays"].read(*arguments)

    def make(self, folder):
        np.save(folder / "x.npy", np.zeros((3, 2), "f4"))
        return (f"{folder}/x.npy",)

    def missing(self, folder):
        return (f"{folder}/nowhere.npy",)


class TestHdf5(TestNpy):
    expected = [  # noqa: RUF012
        {"id": row, "path": "x.h5", "index": row, "age": row / 2, "kind": "äb"[row]}
        for row in range(2)
    ]

    def make(self, folder):
        with h5py.File(folder / "x.h5", "w") as file:
            file["x"] = np.zeros((2, 5, 5))
            file["kind"] = ["ä", "b"]
            file["age"] = [0, 0.5]
        return (f"{folder}/x.h5",)


class TestSeveral(TestNpy):
    expected = [  # noqa: RUF012
        {"id": f"{name}#{row}", "path": name, "index": row}
        for name in ("a.npy", "b/c.npy")
        for row in range(2)
    ]

    def make(self, folder):
        (folder / "b").mkdir()
        for name in ("a.npy", "b/c.npy"):
            np.save(folder / name, np.zeros((2, 2), "f4"))
        return ([f"{folder}/a.npy", f"{folder}/b/c.npy"],)

    def missing(self, folder):
        return (f"{folder}/nowhere.npy",)


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """Rows that count on from row to row, in x.npy and, with labels, in x.h5."""
    monkeypatch.chdir(tmp_path)
    values = np.arange(ROWS * 12, dtype=np.int32).reshape(ROWS, 3, 4)
    np.save("x.npy", values)
    np.save("fortran.npy", np.asfortranarray(values))
    with h5py.File("x.h5", "w") as file:
        file["x"] = values
        file["small/y"] = values[:, 0]
        file["kind"] = [b"cat", b"dog"] * (ROWS // 2)
    return values


FILES = [("x.npy", None), ("fortran.npy", None), ("x.h5", "x")]


@pytest.mark.parametrize(("name", "dataset"), FILES)
@pytest.mark.parametrize("processes", [False, True])
def test_every_row_is_trained_on_once_with_its_own_numbers(numbers, name, dataset, processes):
    frame = dfgen.build_manifest(arrays=name)
    x = dfgen.Array("path", shape=(3, 4), dtype="int32", index="index", dataset=dataset)
    seen = []
    with dfgen.Sequence(
        frame, x, dfgen.Number("id"), batch_size=16, workers=1, use_multiprocessing=processes
    ) as seq:
        for batch in range(len(seq)):
            values, ids = (np.asarray(array) for array in seq[batch])
            np.testing.assert_array_equal(values, numbers[ids])
            seen += ids.tolist()
    assert sorted(seen) == list(range(ROWS))
    assert seen != sorted(seen)


def test_a_manifest_file_trains_too_and_keeps_its_index(numbers):
    frame = dfgen.build_manifest(arrays="x.h5", out="m.parquet")
    back = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(back, frame)
    assert frame.attrs["dfgen"]["labels"] == {
        "kind": {"kind": "category", "class_names": ["cat", "dog"]}
    }
    x = dfgen.Array("path", shape=(4,), index="index", dataset="small/y")
    with dfgen.Sequence("m.parquet", x, batch_size=10, shuffle=False) as seq:
        values, labels = seq[3]
    np.testing.assert_array_equal(values, numbers[30:40, 0])
    assert np.asarray(labels).tolist() == [0, 1] * 5


def test_rows_of_a_filtered_frame_stay_the_rows_of_the_file(numbers):
    frame = dfgen.build_manifest(arrays="x.npy")
    rows = frame.iloc[[70, 3, 41]]
    x = dfgen.Array("path", shape=(3, 4), index="index")
    with dfgen.Sequence(rows, x, batch_size=3, shuffle=False, label_mode=None) as seq:
        np.testing.assert_array_equal(seq[0][0], numbers[[70, 3, 41]].astype("f4"))
    np.testing.assert_array_equal(x(frame.iloc[70]), numbers[70])


def test_labels_are_joined_by_index(numbers):
    labels = pd.DataFrame({"row": np.arange(ROWS)[::-1], "age": np.arange(ROWS)[::-1] * 2})
    frame = dfgen.build_manifest(arrays="x.npy", labels=labels, on="index=row")
    assert (frame["age"] == frame["index"] * 2).all()


def test_a_file_that_is_replaced_is_opened_anew(tmp_path):
    arrays, path = Files(), f"{tmp_path}/x.npy"
    for number in (1, 2):
        np.save(f"{tmp_path}/new.npy", np.full((2, 3), number))
        os.replace(f"{tmp_path}/new.npy", path)
        assert arrays.row(path, 1).tolist() == [number] * 3


def test_rows_of_a_large_file_take_no_memory_of_their_own(tmp_path):
    path = f"{tmp_path}/x.npy"
    values = np.lib.format.open_memmap(path, "w+", "u1", (1 << 20, 1 << 20))  # 1 TB, a hole
    values[999_999, -1] = 7
    values.flush()
    assert Files().row(path, 999_999)[-1] == 7
    frame = pd.DataFrame({"id": [0], "path": [path], "index": [999_999]})
    x = dfgen.Array("path", shape=(1 << 20,), dtype="uint8", index="index")
    with dfgen.Sequence(frame, x, batch_size=1) as seq:
        assert np.asarray(seq[0][0])[0, -1] == 7


@pytest.mark.parametrize(
    ("path", "index", "dataset", "message"),
    [
        ("x.npy", 100, None, "the array has 100 rows, there is no row 100"),
        ("x.npy", -1, None, "the array has 100 rows, there is no row -1"),
        ("x.npy", 0, "x", "dataset='x' is for HDF5 files, this is a .npy file"),
        ("x.h5", 0, None, "the HDF5 file has several arrays: write dataset= of kind, small/y, x"),
        ("x.h5", 0, "z", "the HDF5 file has no array 'z': write dataset= of kind, small/y, x"),
        ("text.npy", 0, None, "neither .npy nor HDF5: the file begins with b'text'"),
        ("one.npy", 0, None, "the array is a single number: it has no rows"),
        ("huge.npy", 0, None,
         f"truncated .npy file: float64 of shape ({10**10}, {10**10}) takes {8 * 10**20:,} bytes "
         "after the header, 24 are there"),
    ],
)  # fmt: skip
def test_rows_that_are_not_there_are_refused(numbers, path, index, dataset, message):
    with open("text.npy", "w") as file:
        file.write("text")
    np.save("one.npy", np.float32(1))
    with open("huge.npy", "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**10, 10**10)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(24))
    with pytest.raises(DecodeError) as caught:
        Files().row(path, index, dataset)
    assert str(caught.value) == message


def test_a_bad_row_names_its_id_path_and_index(numbers):
    frame = pd.DataFrame({"id": ["r"], "path": ["x.npy"], "index": [500]})
    x = dfgen.Array("path", shape=(3, 4), index="index")
    with dfgen.Sequence(frame, x, batch_size=1) as seq, pytest.raises(DecodeError) as caught:
        seq[0]
    assert str(caught.value) == (
        "row id='r', path={'path': 'x.npy', 'index': 500}: the array has 100 rows, there is no row "
        "500"
    )


def test_arguments_that_make_no_sense_are_refused(numbers):
    frame = dfgen.build_manifest(arrays="x.npy")
    assert message_of(ArgumentError, dfgen.Sequence, frame, label_mode=None) == (
        'x="path" and the column index are rows of array files of int32 (3, 4): for numbers write '
        'x=dfgen.Array("path", shape=(3, 4), index="index"), for images x=dfgen.Image("path", '
        'size=..., index="index")'
    )
    assert message_of(ArgumentError, dfgen.Array, "path", shape=(3,), dataset="x") == (
        "dataset='x' is for rows of HDF5 files: name their column, as in index=\"index\""
    )
    x = dfgen.Array("path", shape=(3, 4), index="index")
    with pytest.raises(ManifestError) as caught:
        dfgen.Sequence(frame.assign(index=0.5), x, label_mode=None)
    assert str(caught.value) == (
        "column 'index' holds double, 0 of them missing: expected whole numbers, which row of its "
        "file each row is"
    )


def test_files_that_are_no_arrays_are_refused(numbers):
    with h5py.File("odd.h5", "w") as file:
        file["x"], file["y"] = np.zeros((3, 2)), np.zeros((4, 2))
    with open("text.h5", "w") as file:
        file.write("text")
    for name, message in (
        ("odd.h5", "odd.h5 holds x (3, 2), y (4, 2): expected arrays of one length. Write what "
         "belongs together into a file of its own"),
        ("text.h5", "text.h5 cannot be read: neither .npy nor HDF5: the file begins with "
         "b'text'"),
        (["x.h5", "x.npy"], f"x.npy has the label arrays none, {os.getcwd()}/x.h5 has kind "
         "(string). Build files that differ on their own, and pandas.concat them"),
    ):  # fmt: skip
        assert message_of(ManifestError, dfgen.build_manifest, arrays=name) == message


@pytest.mark.parametrize("name", ["path", "index"])
def test_label_arrays_called_as_what_dfgen_fills_are_refused(tmp_path, name):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file[name] = np.zeros((3, 4)), [1, 2, 3]
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(arrays=tmp_path / "x.h5")
    message = f"{tmp_path}/x.h5 has a label array '{name}', which dfgen fills. Rename it"
    assert str(caught.value) == message


def test_label_arrays_of_the_other_byte_order_are_read(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["y"] = np.zeros((3, 4)), np.array([1, 2, 3], ">i4")
    assert dfgen.build_manifest(arrays=tmp_path / "x.h5")["y"].tolist() == [1, 2, 3]


@pytest.mark.slow
def test_a_damaged_hdf5_file_is_a_problem_and_no_foreign_error(tmp_path):
    with h5py.File(tmp_path / "whole.h5", "w") as file:
        pixels = np.arange(4000, dtype=np.float32).reshape(100, 40)
        file.create_dataset("group/pixels", data=pixels, chunks=(10, 40), compression="gzip")
        file.create_dataset("labels", data=np.arange(100))
    whole, rng, raised = (tmp_path / "whole.h5").read_bytes(), np.random.default_rng(0), Counter()
    for number in range(400):
        damaged = bytearray(whole)
        for place in rng.integers(8, len(whole), 3):
            damaged[place] = rng.integers(256)
        path = tmp_path / f"{number}.h5"
        path.write_bytes(damaged)
        for act in (
            lambda path=str(path): Files().row(path, 99, "group/pixels"),
            lambda path=str(path): dfgen.build_manifest(arrays=path),
        ):
            try:
                act()
            except DfgenError as error:
                raised[type(error.__cause__).__name__] += 1
    assert raised["KeyError"]
    assert raised["RuntimeError"]


def shard(name, shape, dtype="float32"):
    np.save(f"{name}.npy", np.arange(np.prod(shape)).reshape(shape).astype(dtype))


@pytest.mark.parametrize(
    ("shape", "dtype", "shown", "add"),
    [
        ((6,), "int64", "6 rows of int64 ()", "df[\"y\"] = numpy.load('y.npy')"),
        ((4,), "int64", "4 rows of int64 ()", "df[\"y\"] = numpy.load('y.npy')"),
        ((6, 4, 4), "f8", "6 rows of float64 (4, 4)", "shape=(4, 4), index=\"index\")"),
        ((6, 3), "f4", "6 rows of float32 (3,)",
         "df[\"y_path\"] = os.path.abspath('y.npy'), which is read by "
         'dfgen.Array("y_path", shape=(3,), index="index")'),
        ((4, 4, 4), "f8", None, None),
    ],
)  # fmt: skip
def test_files_of_like_rows_are_one_array_and_x_and_y_are_told_how_to_be_columns(
    tmp_path, monkeypatch, shape, dtype, shown, add
):
    monkeypatch.chdir(tmp_path)
    shard("x", (6, 4, 4))
    shard("y", shape, dtype)
    if shown is None:  # of other lengths and precision
        frame = dfgen.build_manifest(arrays=["x.npy", "y.npy"])
        assert frame["index"].tolist() == [*range(6), *range(4)]
        return
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(arrays=["x.npy", "y.npy"])
    message = str(caught.value)
    assert message.startswith(
        f"x.npy has 6 rows of float32 (4, 4), y.npy has {shown}: rows of several files follow each "
        "other, and these are not alike. If they are x and y of the same rows, build from the "
    )
    assert message.endswith(add)
