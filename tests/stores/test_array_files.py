"""Rows of array files: taken many at a time, read ahead where they lie, within bounds of memory."""

import errno
import gc
from pathlib import Path

import h5py
import numpy as np
import pytest
from messages import message_of

from dfgen.errors import DecodeError
from dfgen.limits import Limits
from dfgen.samples.stores import array_files, store
from dfgen.samples.stores.array_files import (
    MOST_OPEN,
    OpenArrays,
    UnpackedBlocks,
    UnpackedRows,
    check_row,
    read_texts,
    unpacked,
)
from dfgen.samples.stores.local_files import Files

ROWS = np.arange(20 * 6, dtype="<i4").reshape(20, 6)


@pytest.fixture
def paths(tmp_path):
    """The same numbers, written in each way that rows can lie."""
    made = {name: str(tmp_path / name) for name in ("x.npy", "f.npy", "x.h5", "plain.h5")}
    np.save(made["x.npy"], ROWS)
    np.save(made["f.npy"], np.asfortranarray(ROWS))
    with h5py.File(made["x.h5"], "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(8, 4))
        file.create_dataset("y", data=ROWS + 1000)
    with h5py.File(made["plain.h5"], "w") as file:
        file["x"] = ROWS
    return made


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "plain.h5"])
def test_rows_are_taken_at_once_in_any_order(paths, name):
    files, indices, told = Files(), np.array([19, 0, 7, 8, 7]), []
    out = np.empty((5, 6), "<i4")
    assert files.take(paths[name], indices, out, "x" if name[-1] == "5" else None) is True
    assert out.tolist() == ROWS[indices].tolist()
    dataset = "x" if name == "x.h5" else None
    check = lambda *known: told.append(known)  # noqa: E731
    assert files.take(paths[name], indices, out, dataset, check) and len(told) == 1
    assert told[0] == files.head(paths[name])[:2]


@pytest.mark.parametrize("name", ["x.npy", "x.h5"])
def test_rows_that_cannot_be_taken_as_they_are_stay_for_one_at_a_time(paths, name):
    files, path, dataset = Files(), paths[name], "x" if name == "x.h5" else None
    for indices, shape, dtype in (
        ([20], (1, 6), "<i4"), ([-1], (1, 6), "<i4"), ([0], (1, 5), "<i4"),
        ([0], (1, 6, 1), "<i4"), ([0], (1, 6), "<u4"),
    ):  # fmt: skip
        out = np.full(shape, 7, dtype)
        assert files.take(path, np.array(indices), out, dataset) is False
        assert (out == 7).all()
    wide = np.zeros((1, 12), "<i4")[:, ::2]
    assert files.take(path, np.array([3]), wide, dataset) is (name == "x.h5")
    for other in (f"{path}.none", paths["f.npy"]):
        assert files.take(other, np.array([0]), np.empty((1, 6), "<i4")) is False

    def refused(size, time):
        raise DecodeError("changed")

    assert files.take(path, np.array([0]), np.empty((1, 6), "<i4"), dataset, refused) is False

    def exhausted(size, time):
        raise MemoryError

    for ask in (files.take, lambda p, i, o, *more: files.row(p, 0, *more)):
        with pytest.raises(MemoryError):
            ask(path, np.array([0]), np.empty((1, 6), "<i4"), dataset, exhausted)


def test_rows_are_read_ahead_where_they_lie_and_no_others(paths, monkeypatch):
    asked, files = [], Files()
    monkeypatch.setattr(store, "read_ahead", lambda path, extents: asked.append((path, extents)))

    def ahead(name, start, stop, dataset=None):
        asked.clear()
        files.ahead(paths[name], start, stop, dataset)
        [(path, extents)] = asked
        data = Path(path).read_bytes()
        assert path == paths[name]
        return [np.frombuffer(data[at : at + size], "<i4") for at, size in extents]

    for name in ("x.npy", "plain.h5"):
        [found] = ahead(name, 3, 5)
        assert found.tolist() == ROWS[3:5].ravel().tolist()
    found = ahead("x.h5", 8, 17, "x")  # of the chunks (8, 4), of which the last ones are filled up
    chunks = [ROWS[8:16, :4], ROWS[8:16, 4:], ROWS[16:, :4], ROWS[16:, 4:]]
    assert len(found) == len(chunks)
    for one, chunk in zip(found, chunks, strict=True):
        assert one.reshape(8, 4)[: len(chunk), : chunk.shape[1]].tolist() == chunk.tolist()
    assert ahead("f.npy", 0, 2) == []
    asked.clear()
    files.ahead("s3://bucket/x.npy", 0, 2)
    files.ahead(f"{paths['x.npy']}.none", 0, 2)
    assert asked == []


def test_chunks_that_were_never_written_are_not_read_ahead(tmp_path, monkeypatch):
    asked, path = [], str(tmp_path / "x.h5")
    monkeypatch.setattr(store, "read_ahead", lambda path, extents: asked.extend(extents))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (20, 4), "<i4", chunks=(8, 4))[8:16] = 1
    Files().ahead(path, 0, 20)
    assert [size for _, size in asked] == [8 * 4 * 4]


class Chunked:
    """An array in chunks of 10 rows, which notes what is unpacked."""

    chunks, shape, dtype = (10, 5), (40, 5), np.dtype("u1")

    def __init__(self, values=0):
        self.asked, self.values = [], values

    def __getitem__(self, rows):
        self.asked.append(rows.start)
        count = len(range(*rows.indices(40)))
        return (
            np.full((count, 5), self.values, np.uint8) + np.arange(count, dtype=np.uint8)[:, None]
        )


def test_blocks_that_were_asked_for_last_stay_unpacked_within_memory():
    blocks, one, other = UnpackedBlocks(most=150), Chunked(), Chunked(100)  # three of 50 bytes
    rows, others = UnpackedRows(one, blocks), UnpackedRows(other, blocks)
    assert len(rows) == 40
    assert [rows[row].tolist() for row in (0, 19, 9)] == [[0] * 5, [9] * 5, [9] * 5]
    assert others[5].tolist() == [105] * 5
    assert (one.asked, other.asked) == ([0, 10], [0])
    rows[0], others[1], rows[21]  # of the block at 10, which was asked for first, nothing stays
    assert (one.asked, other.asked) == ([0, 10, 20], [0])
    rows[11], rows[1]
    assert one.asked == [0, 10, 20, 10, 0]
    del others, rows
    gc.collect()
    assert blocks._held == 0 and not blocks._blocks and not blocks._asked


def test_a_chunk_that_would_fill_memory_is_not_kept():
    array = Chunked()
    assert unpacked(array, UnpackedBlocks(most=199)) is array
    assert isinstance(unpacked(array, UnpackedBlocks(most=200)), UnpackedRows)
    assert unpacked(ROWS, UnpackedBlocks(most=200)) is ROWS


def test_a_file_is_opened_once_in_each_version_and_again_where_descriptors_have_run_out():
    opened, arrays = [], OpenArrays()

    def opener(path, dataset):
        opened.append((path, dataset))
        if path == "full" and len(opened) == 4:
            raise OSError(errno.EMFILE, "Too many open files")
        if path == "broken":
            raise OSError(errno.EIO, "Input/output error")
        return [len(opened)]

    assert arrays.get("a", None, 1, opener) is arrays.get("a", None, 1, opener)
    arrays.get("a", "x", 1, opener)
    assert arrays.get("a", None, 2, opener) == [3]
    assert opened == [("a", None), ("a", "x"), ("a", None)]
    assert arrays.get("full", None, 1, opener) == [5]
    arrays.get("a", None, 2, opener)  # it was closed for that
    assert opened[3:] == [("full", None), ("full", None), ("a", None)]
    with pytest.raises(OSError, match="Input/output error"):
        arrays.get("broken", None, 1, opener)
    before = len(opened)
    for number in range(MOST_OPEN):
        arrays.get(f"{number}", None, 1, opener)
    for number in range(MOST_OPEN):
        arrays.get(f"{number}", None, 1, opener)
    assert len(opened) == before + MOST_OPEN
    arrays.get("a", None, 2, opener)
    assert len(opened) == before + MOST_OPEN + 1


def test_texts_are_read_of_a_file_or_its_bytes_and_arrays_of_others_are_told(tmp_path):
    path, texts = tmp_path / "a.h5", ["a", "\u00e4\n", ""]
    with h5py.File(path, "w") as file:
        file["text"] = np.array(texts, h5py.string_dtype())
        file["square"] = np.array([texts[:2], texts[1:]], h5py.string_dtype())
        file["x"] = ROWS
    wanted = {"text": texts, "x": None, "square": ["a", "\u00e4\n", "\u00e4\n", ""]}
    for source in (str(path), path.read_bytes()):
        assert read_texts(source, ["text", "x", "square"]) == wanted
    assert message_of(DecodeError, read_texts, str(path), ["none"]) == (
        "its text cannot be read: 'none'"
    )


def test_memory_of_mapped_files_is_given_back_in_time(paths, monkeypatch):
    given = []
    monkeypatch.setattr(array_files, "give_back", given.append)
    files = Files().holding(100)  # a row has 24 bytes
    for row, times in ((0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 2)):
        files.row(paths["x.npy"], row)
        assert len(given) == times, row
    files.row(paths["x.h5"], 0, "x")  # unpacked: it is counted as a block
    assert files.take(paths["x.npy"], np.arange(3), np.empty((3, 6), "<i4"))
    assert len(given) == 3
    assert Files().arrays.most == 2 * 10**9 and files.arrays.most == 100


def test_a_row_or_a_chunk_that_takes_too_much_is_refused_by_its_bytes():
    limits = Limits(decoded_bytes=24)
    check_row(ROWS, limits)
    assert message_of(DecodeError, check_row, ROWS, Limits(decoded_bytes=23)) == (
        "a row of the array, int32 of shape (6,), has 24 bytes, more than limits.decoded_bytes=23: "
        "if you trust it, give limits=dfgen.Limits(decoded_bytes=24)"
    )
    assert message_of(DecodeError, check_row, Chunked(), limits) == (
        "a chunk of the array, uint8 of shape (10, 5), has 50 bytes, more than "
        "limits.decoded_bytes=24: if you trust it, give limits=dfgen.Limits(decoded_bytes=50)"
    )
