"""Stores: archives, array files, errors of servers, secrets, and relative paths after chdir."""

import os
import pickle
import tarfile
import threading
import zipfile

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from public.leftovers import nothing_left as nothing_left
from public.leftovers import passes, pictures, written
from servers import http_server, s3_server

import dfgen
from dfgen.errors import AccessError, ArgumentError, DecodeError, MissingFileError, ReadError
from dfgen.loading.prefetch import Prefetch
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import Stores, store_at, store_of, without_store

ALLOWED = {"client_options": {"allow_http": True}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"hello")
    return tmp_path


def test_local_files_are_read_by_parts_and_sizes(folder):
    stores, path = Stores(), f"{folder}/a.bin"
    assert stores.read(path) == stores.read(path, 5) == b"hello"
    assert stores.range(path, 1, 3) == b"el" and stores.head(path).size == 5
    head, file = stores.begin(path)
    with file:
        assert (head.size, file.read()) == (5, b"hello")
    for size in (4, 6):
        with pytest.raises(DecodeError, match=str(size)):
            stores.read(path, size)
    os.truncate(path, 0)
    with pytest.raises(DecodeError, match="empty"):
        stores.read(path)
    os.mkfifo(folder / "pipe")
    head, file = stores.begin(f"{folder}/pipe")
    file.close()
    assert head.problem
    large = os.urandom(300_000)
    (folder / "large").write_bytes(large)
    assert stores.read(f"{folder}/large") == stores.read(f"{folder}/large", len(large)) == large


def test_contents_of_rows(folder):
    stores = Stores()
    assert stores.read({"bytes": b"1", "path": None}) == stores.read(b"1") == b"1"
    assert stores.read({"bytes": None, "path": f"{folder}/a.bin"}) == b"hello"
    with pytest.raises(DecodeError):
        stores.head({"bytes": None, "path": None})


def zipped(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, data in members.items():
            file.writestr(name, data)


def test_members_of_a_zip_that_changes(folder):
    path = folder / "a.zip"
    data = {"x/größe.txt": b"1" * 50_000, "b.txt": b"2", "x/": b""}
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        zipped(path, data, compression=compression)
        stores = Stores()
        assert stores.read(f"zip://x/größe.txt::{path}", 50_000) == data["x/größe.txt"]
        head, file = stores.begin(f"zip://x/größe.txt::{path}")
        assert (head.size, file.read(3)) == (50_000, b"111")
    zipped(path, {"b.txt": b"22", "./c.txt": b"c"})
    assert stores.read(f"zip://b.txt::{path}") == b"22"
    assert stores.read(f"zip://c.txt::{path}") == b"c"
    with pytest.raises(MissingFileError, match="has no file"):
        stores.read(f"zip://d.txt::{path}")
    zipped(path, {"b.txt": b"22"}, compression=zipfile.ZIP_LZMA)
    assert "zip -0" in stores.head(f"zip://b.txt::{path}").problem
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DecodeError, match="damaged"):
        stores.read(f"zip://b.txt::{path}")
    stores.close()


def test_members_of_a_tar(folder):
    path = folder / "a.tar"
    with tarfile.open(path, "w") as file:
        file.add(folder / "a.bin", "./a.bin")
    stores = Stores()
    assert stores.read(f"tar://a.bin::{path}") == stores.begin(f"tar://a.bin::{path}")[1].read()
    with tarfile.open(folder / "b.tar.gz", "w:gz") as file:
        file.add(folder / "a.bin")
    with pytest.raises(DecodeError, match=r"b.tar.gz' is compressed.*gunzip"):
        stores.read(f"tar://a.bin::{folder}/b.tar.gz")
    for wrong in ("zip://a.png", f"zip://a::zip://b::{path}", "zip://a::s3://b/c.zip"):
        with pytest.raises((ArgumentError, DecodeError), match="member"):
            stores.read(wrong)
    stores.close()


@pytest.mark.parametrize("place", ["file", "zip", "npy"])
def test_relative_paths_start_where_the_sequence_was_made(tmp_path, monkeypatch, place):
    frame = written(tmp_path / "imgs", pictures(5)[1])
    zipped(tmp_path / "a.zip", {f"{r}.png": data for r, data in enumerate(pictures(5)[1])})
    np.save(tmp_path / "a.npy", pictures(5)[0])
    paths = {"file": "imgs/{}.png", "zip": "zip://{}.png::a.zip", "npy": "a.npy"}[place]
    rows = frame.assign(path=[paths.format(row) for row in range(5)], index=range(5))
    x = dfgen.Image("path", size=(9, 7), index="index" if place == "npy" else None)
    monkeypatch.chdir(tmp_path)
    with dfgen.Sequence(rows, x, "number", batch_size=5, shuffle=False) as seq:
        monkeypatch.chdir("/")
        np.testing.assert_array_equal(seq[0][0], pictures(5)[0])


def test_hdf5_rows_in_chunks_and_other_files(tmp_path):
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(4, 2), compression="gzip")
        file["text"] = ["a", "b"]
        file["away"] = h5py.ExternalLink("other.h5", "x")
    arrays, path = Stores().arrays, f"{tmp_path}/a.h5"
    out = np.empty((3, 3), np.float32)
    assert arrays.take(path, np.array([7, 0, 7]), out, "x")
    np.testing.assert_array_equal(out, values[[7, 0, 7]])
    assert not arrays.take(path, np.array([20]), out[:1], "x")
    arrays.ahead(path, np.array([1, 9]), "x")
    for name in ("text", "away"):
        with pytest.raises(DecodeError, match="numbers in the HDF5 file: x"):
            arrays.row(path, 0, name)
    assert arrays.row(path, 2).tolist() == values[2].tolist()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        layout = h5py.VirtualLayout((20, 3), "f4")
        layout[:] = h5py.VirtualSource(path, "x", (20, 3))
        file.create_virtual_dataset("x", layout)
    with pytest.raises(DecodeError, match="other files"):
        arrays.row(f"{tmp_path}/b.h5", 0)
    arrays.close()


def test_options_are_never_shown(tmp_path):
    options = StorageOptions({"secret_access_key": "hush"})
    assert "hush" not in repr(options) + repr(Stores(options=options).options)
    assert pickle.loads(pickle.dumps(Stores(options=options))).options == options
    with pytest.raises(ArgumentError, match="no_such_option") as error:
        Stores(options={"no_such_option": "hush"}).read("s3://bucket/a.png")
    assert "hush" not in str(error.value)
    with pytest.raises(ArgumentError, match="password") as error:
        store_at("https://me:hush@host/a.png")
    assert "hush" not in str(error.value)
    with pytest.raises(ArgumentError, match="dict"):
        StorageOptions("region")


def test_schemes_and_remote_columns():
    assert without_store(pa.array(["s3://a", "x.png", "gopher://b"])).to_pylist() == [
        "x.png", "gopher://b",
    ]  # fmt: skip
    assert not store_of([pa.array(["a.png", "zip://a::b.zip"])]).far
    assert store_of([pa.array(["a.png", "s3://b/c.png"])]).far


@pytest.fixture
def server():
    with http_server({"a.bin": b"hello" * 20_000, "none.bin": b""}) as server:
        yield server


def test_http_by_parts_and_without_ranges(server):
    stores, url = Stores(options=ALLOWED), f"{server.url}/a.bin"
    head, file = stores.begin(url)
    assert head.size == 100_000 and file.read() == stores.read(url, 100_000)
    assert stores.range(url, 2, 7) == b"llohe" and stores.head(url) == head
    assert stores.begin(f"{server.url}/none.bin")[0].size == 0
    with pytest.raises(DecodeError, match="empty"):
        stores.read(f"{server.url}/none.bin")
    with pytest.raises(ArgumentError, match="labels="):
        [*stores.list(server.url)]
    stores.close()


@pytest.mark.parametrize(
    ("status", "error", "word"),
    [(401, AccessError, "Authorization"), (403, AccessError, "403"),
     (404, MissingFileError, "exist"),
     (500, ReadError, "500")],
)  # fmt: skip
def test_errors_by_status(server, status, error, word):
    server.faults.status = status
    options = ALLOWED | {"retry_config": {"max_retries": 0}}
    stores, url = Stores(options=options), f"{server.url}/a.bin?sig=hush"
    for ask in (stores.read, stores.head, stores.begin):
        with pytest.raises(error, match=word) as raised:
            ask(url)
        assert "hush" not in str(raised.value)


def test_a_bucket_is_listed_and_written():
    with s3_server({"bucket": {"a/b.bin": b"1"}}) as server:
        stores = Stores(options=server.options)
        stores.write("s3://bucket/a/c.bin", b"22")
        found = {path: head.size for path, head in stores.list("s3://bucket/a")}
        assert found == {"s3://bucket/a/b.bin": 1, "s3://bucket/a/c.bin": 2}
        with pytest.raises(AccessError, match="no bucket"):
            stores.read("s3://other/a.bin")
        stores.close()


def test_prefetched_files_are_kept_until_dropped():
    reads, go = [], threading.Event()

    def read(path):
        reads.append(path)
        go.wait(60)
        if path == "bad":
            raise MissingFileError("gone")
        return path.encode()

    prefetch = Prefetch(read)
    prefetch.expect(["a", "b", "a", "bad"])
    go.set()
    assert prefetch.take("a") == b"a"
    with pytest.raises(MissingFileError):
        prefetch.take("bad")
    assert prefetch.take("c") is None
    prefetch.drop(["a", "b", "a", "bad"])
    assert prefetch.take("a") is None and sorted(reads) in (["a", "b", "bad"], ["a", "bad"])
    prefetch.close()


def test_prefetch_does_not_block_at_its_bound():
    prefetch = Prefetch(lambda path: bytes(1 << 26))
    paths = [str(number) for number in range(12)]
    prefetch.expect(paths)
    for path in paths:
        data = prefetch.take(path)
        assert data is None or len(data) == 1 << 26
        prefetch.drop([path])
    prefetch.close()


def test_bytes_and_missing_files_in_one_column(tmp_path):
    content = [{"bytes": pictures(1)[1][0], "path": None}, {"bytes": None, "path": "gone.png"}]
    frame = pd.DataFrame({"id": ["r0", "r1"], "path": content, "number": [0, 1]})
    with pytest.raises(MissingFileError, match="r1"):
        passes(frame)
