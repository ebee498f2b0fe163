"""What every source must do: a test class to inherit."""

import io
import pickle

import h5py
import numpy as np
import pytest
from PIL import Image

from dfgen.errors import DecodeError, DfgenError


class StoreContract:
    """What every store must do. Give `make` (a store that holds these contents, and the path of
    each by name) and `missing` (a path that it does not hold).
    """

    def make(self, folder, contents: dict[str, bytes]) -> tuple:
        raise NotImplementedError

    def missing(self, folder) -> str:
        raise NotImplementedError

    def test_gives_back_the_bytes(self, tmp_path):
        contents = {"a": b"1", "b": bytes(range(256)) * 5000, "\u00e4 \u4e2d.bin": b"\0"}
        store, paths = self.make(tmp_path, contents)
        for _ in range(2):
            assert {name: store.read(path) for name, path in paths.items()} == contents

    def test_survives_pickle(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1", "x.npy": npy([[1], [2]])})
        store.row(paths["x.npy"], 0)
        copy = pickle.loads(pickle.dumps(store))
        assert copy == store
        assert copy.read(paths["a"]) == b"1"
        assert copy.row(paths["x.npy"], 1) == [2]

    def test_missing_bytes_are_refused(self, tmp_path):
        store, _ = self.make(tmp_path, {"a": b"1"})
        path = self.missing(tmp_path)
        for ask in (store.read, store.head, lambda path: store.row(path, 0), self.begin_of(store)):
            with pytest.raises(FileNotFoundError) as caught:
                ask(path)
        assert isinstance(caught.value, FileNotFoundError)
        for ask in (store.read, store.head, lambda path: store.row(path, 0)):
            with pytest.raises(DfgenError, match=r"^the file does not exist$"):
                ask(path)

    def test_no_bytes_are_refused(self, tmp_path):
        store, paths = self.make(tmp_path, {"empty": b""})
        with pytest.raises(DecodeError) as caught:
            store.read(paths["empty"])
        assert str(caught.value) == "the file is empty (0 bytes)"

    def test_knows_size_and_time_without_reading(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"12345", "b": b"1"})
        heads = {name: store.head(path) for name, path in paths.items()}
        assert {name: head.size for name, head in heads.items()} == {"a": 5, "b": 1}
        assert all(head.mtime_ns > 10**18 and head.problem is None for head in heads.values())
        assert heads == {name: store.head(path) for name, path in paths.items()}

    def begin_of(self, store):
        def begin(path):
            with store.open(path) as file:
                return file.read(3)

        return begin

    def test_opens_files_that_can_be_sought_in(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"0123456789"})
        assert self.begin_of(store)(paths["a"]) == b"012"
        with store.open(paths["a"]) as file:
            assert (file.seek(7), file.read()) == (7, b"789")
        assert store.range(paths["a"], 3, 5) == b"34"
        assert store.range(paths["a"], 8, 20) == b"89"  # where it ends

    def test_reads_rows_of_array_files(self, tmp_path):
        rows = np.arange(12, dtype="i4").reshape(4, 3)
        hdf5 = io.BytesIO()
        with h5py.File(hdf5, "w") as file:
            file["x"], file["y"] = rows, rows + 100
        fortran = npy(np.asfortranarray(rows))
        contents = {"x.npy": npy(rows), "f.npy": fortran, "x.h5": hdf5.getvalue()}
        store, paths = self.make(tmp_path, contents)
        for _ in range(2):
            for index in (3, 0, 2):
                for name, dataset, more in (
                    ("x.npy", None, 0), ("f.npy", None, 0), ("x.h5", "x", 0), ("x.h5", "y", 100)
                ):  # fmt: skip
                    found = store.row(paths[name], index, dataset)
                    assert found.tolist() == (rows[index] + more).tolist()
            store.close()  # they are opened again
        with pytest.raises(DecodeError, match=r"^the array has 4 rows, there is no row 4$"):
            store.row(paths["x.npy"], 4)


def png(value, size=(6, 8)):
    """Return a gray PNG file of one value."""
    file = io.BytesIO()
    Image.new("L", size[::-1], value).save(file, "PNG")
    return file.getvalue()


def npy(values) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(values))
    return file.getvalue()
