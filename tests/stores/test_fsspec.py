"""Files at addresses that fsspec knows, in its own file systems of memory and of the disk."""

import io
import pickle
import time
from datetime import datetime, timedelta, timezone

import pandas as pd
import pytest
from contracts import StoreContract
from test_bucket import ROWS, X, contents, values_of

import dfgen
from dfgen.errors import (
    AccessError,
    ArgumentError,
    DecodeError,
    MissingFileError,
    ReadError,
)
from dfgen.manifest.path_roots import in_folder
from dfgen.samples.stores.remote.fsspec_files import FsspecFiles, of_fsspec
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, store_at

fsspec = pytest.importorskip("fsspec")

SECRET = "secret-of-the-tests"


@pytest.fixture(autouse=True)
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


class TestMemory(StoreContract):
    def make(self, folder, contents):
        system = fsspec.filesystem("memory")
        for name, data in contents.items():
            system.pipe_file(f"/{folder.name}/{name}", data)
        return FsspecFiles(), {name: f"memory://{folder.name}/{name}" for name in contents}

    def missing(self, folder):
        return "memory://missing"

    def test_lists_what_is_below_a_folder(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1", "b/c": b"12"})
        found = dict(store.list(f"memory://{tmp_path.name}/"))
        assert {path: head.size for path, head in found.items()} == {paths["a"]: 1, paths["b/c"]: 2}
        assert store.range(paths["b/c"], 1, 9) == b"2"

    def test_a_folder_is_no_file_and_is_not_read(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"12", "empty": b"", "b/c": b"12"})
        folder = paths["b/c"].removesuffix("/c")
        for looked in (store, store.look(folder)):
            assert looked.head(folder).problem == "not a regular file"
        for name, data in (("a", b"12"), ("empty", b"")):
            looked = store.look(paths[name])
            assert (looked.head("").size, looked.open("").read()) == (len(data), data)

    def test_an_open_file_is_written_and_what_it_raises_is_told(self, tmp_path):
        class Failing(io.BytesIO):
            def read(self, *given):
                raise RuntimeError

        store, _ = self.make(tmp_path, {})
        path = f"memory://{tmp_path.name}/new"
        store.write(path, io.BytesIO(b"abc" * 5_000_000))
        assert store.read(path) == b"abc" * 5_000_000
        with pytest.raises(ReadError, match=r"^the file cannot be read: fsspec raised Runtime"):
            store.write(path, Failing())


class TestLocal(StoreContract):
    def make(self, folder, contents):
        store = FsspecFiles()
        for name, data in contents.items():
            store.write(f"local://{folder}/{name}", data)
        return store, {name: f"local://{folder}/{name}" for name in contents}

    def missing(self, folder):
        return f"local://{folder}/missing"


def test_a_folder_of_it_is_built_verified_and_trained_on(memory, tmp_path):
    for key, data in contents().items():
        memory.pipe_file(f"/{key}", data)
    frame = dfgen.build_manifest(
        "memory://imgs", pattern="{kind}/{id:int}.png", out="memory://manifests/pets.parquet"
    )
    again = dfgen.read_manifest("memory://manifests/pets.parquet")
    pd.testing.assert_frame_equal(again, frame)
    assert frame.attrs["dfgen"]["root"] == "memory://imgs"
    with dfgen.Sequence(frame, X, y="kind", shuffle=False, batch_size=ROWS) as sequence:
        assert values_of(sequence[0]) == frame["id"].tolist()
    with dfgen.Sequence(
        frame[["id"]].assign(path=[key.removeprefix("imgs/") for key in sorted(contents())]),
        X, root="memory://imgs/", shuffle=False, batch_size=ROWS, label_mode=None,
    ) as sequence:  # fmt: skip
        assert values_of(sequence[0]) == frame["id"].tolist()
    memory.rm("/imgs/b/03.png")
    found = dfgen.verify("memory://manifests/pets.parquet")
    assert found["id"].tolist() == [3] and found["change"].tolist() == ["missing"]


@pytest.mark.filterwarnings("ignore:.*neither its folder")
def test_files_of_this_machine_may_have_their_manifest_in_a_bucket(memory, tmp_path):
    for key, data in contents().items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)
    out = "memory://manifests/of/pets.parquet"
    frame = dfgen.build_manifest(tmp_path / "imgs", pattern="{kind}/{id:int}.png", out=out)
    pd.testing.assert_frame_equal(dfgen.read_manifest(out), frame)
    assert dfgen.verify(out).empty
    pd.testing.assert_frame_equal(dfgen.build_manifest(update=out), frame)


def test_no_relative_root_leaves_its_bucket():
    assert in_folder("memory://bucket/manifests", "../../../imgs") == "memory://bucket/imgs"


class Told(fsspec.AbstractFileSystem):
    """A file system that says of a file what it is made with."""

    protocol = "told"
    cachable = False

    def info(self, path, **more):
        return self.storage_options["info"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_size_time_and_version_are_those_that_a_system_tells_by_any_name(monkeypatch, zone):
    fsspec.register_implementation("told", Told, clobber=True)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    at, second = datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000
    for info, head in (
        ({}, (0, None, None, None)),
        ({"size": None, "type": "directory"}, (0, None, None, "not a regular file")),
        ({"size": 5, "mtime": second + 0.25, "ino": 7}, (5, second * 10**9 + 250_000_000, 7, None)),
        ({"size": 5, "mtime": None, "modified": at, "ETag": None, "etag": "a"},
         (5, second * 10**9, "a", None)),
        ({"type": "file", "LastModified": at.replace(tzinfo=timezone(timedelta(hours=1)))},
         (0, (second - 3600) * 10**9, None, None)),
        ({"last_modified": "2023-11-14T22:13:20", "md5Hash": "b"}, (0, second * 10**9, "b", None)),
        ({"created": "2023-11-14T22:13:20.000001+01:00", "checksum": 3},
         (0, (second - 3600) * 10**9 + 1000, 3, None)),
        ({"mtime": "yesterday"}, (0, None, None, None)),
        ({"mtime": [5]}, (0, None, None, None)),
    ):  # fmt: skip
        assert FsspecFiles(options=StorageOptions({"info": info})).head("told://a") == head
    monkeypatch.undo()
    time.tzset()


def test_schemes_that_neither_knows_have_no_store():
    assert has_store("memory") and has_store("sftp") and has_store("s3")
    assert not (has_store("gopher") or has_store("file") or has_store("") or of_fsspec("C"))
    assert isinstance(store_at("memory://a"), FsspecFiles)


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ArgumentError) as error:
        FsspecFiles().read("libarchive://a.png")
    assert str(error.value).startswith("libarchive:// needs a package that is not there: ")


class Refusing(fsspec.AbstractFileSystem):
    """A file system that raises what it is made with, and says its key."""

    protocol = "refusing"
    cachable = False

    def __init__(self, kind=None, key=None, **more):
        super().__init__(**more)
        if kind is None:
            raise ValueError(f"no kind for {key}")
        self.kind, self.key = kind, key

    def cat_file(self, path, **more):
        raise self.kind(f"refused with {self.key}")


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (PermissionError, AccessError, "the file cannot be read: refusing:// refuses it. "),
        (RuntimeError, ReadError, "the file cannot be read: fsspec raised RuntimeError"),
        (NotADirectoryError, MissingFileError, "the file does not exist"),
        (IsADirectoryError, DecodeError, "the file cannot be read: it is a folder"),
        (None, ArgumentError, "storage_options cannot open refusing://: ValueError. Given: kind, "),
    ],
)
def test_no_key_is_shown_by_what_a_file_system_raises(kind, error, message):
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    store = FsspecFiles(options=StorageOptions({"kind": kind, "key": SECRET}))
    with pytest.raises(error) as caught:
        store.read("refusing://a.png")
    assert str(caught.value).startswith(message)
    assert SECRET not in str(caught.value) + repr(store)
    assert SECRET.encode() not in pickle.dumps(store)


def test_memory_that_ends_is_not_the_fault_of_a_file():
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    with pytest.raises(MemoryError):
        FsspecFiles(options=StorageOptions({"kind": MemoryError})).read("refusing://a.png")
