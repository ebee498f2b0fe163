"""Every store keeps the contract, and one from outside is one class and one line."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from contracts import StoreContract, npy, png
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError, MissingFileError
from dfgen.samples.stores.array_files import MOST_OPEN
from dfgen.samples.stores.local_files import Files
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import (
    STORES,
    Several,
    examples_of_schemes,
    schemes_of,
    store_at,
    store_of,
    without_store,
)
from dfgen.samples.stores.store import Head, Store


@dataclass(frozen=True)
class Memory(Store):
    """Bytes by their address, with the time at which they were put there."""

    held: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)

    def read(self, path):
        if not self._found(path)[0]:
            raise DecodeError("the file is empty (0 bytes)")
        return self._found(path)[0]

    def head(self, path):
        data, time = self._found(path)
        return Head(len(data), time)

    def _found(self, path):
        if path not in self.held:
            raise MissingFileError("the file does not exist")
        return self.held[path]


class TestMemory(StoreContract):
    def make(self, folder, contents):
        held = {f"memory://{name}": (data, 10**18 + 1) for name, data in contents.items()}
        return Memory(held), {name: f"memory://{name}" for name in contents}

    def missing(self, folder):
        return "memory://missing"


class TestSeveral(StoreContract):
    def make(self, folder, contents):
        paths, held = {}, {}
        for number, (name, data) in enumerate(contents.items()):
            paths[name] = f"memory://{name}" if number % 2 else str(folder / name)
            held[paths[name]] = (data, 10**18 + 1)
            (folder / name).write_bytes(data)
        return Several({"memory": Memory(held), "": Files()}), paths

    def missing(self, folder):
        return str(folder / "missing")


class TestFiles(StoreContract):
    def make(self, folder, contents):
        paths = {}
        for name, data in contents.items():
            paths[name] = str(folder / name)
            (folder / name).write_bytes(data)
        return Files(), paths

    def missing(self, folder):
        return str(folder / "missing")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (".", "the file cannot be read: Is a directory"),
            ("loop", "the file cannot be read: Too many levels of symbolic links"),
            ("nul\0", "the file cannot be read: embedded null byte"),
            ("x" * 300, "the file cannot be read: File name too long"),
        ],
    )
    def test_what_cannot_be_read_says_why(self, tmp_path, name, message):
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        assert message_of(DecodeError, Files().read, f"{tmp_path}/{name}") == message

    def test_a_file_is_no_folder(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1"})
        with pytest.raises(DfgenError, match=r"^the file does not exist$"):
            store.read(paths["a"] + "/b")


@pytest.fixture
def memory(monkeypatch):
    """The contents of `memory://`."""
    held = {}
    monkeypatch.setitem(STORES, "memory", lambda: Memory(held))
    return held


@pytest.fixture
def listed(memory, tmp_path):
    """A listing of ten images in memory, whose value is their number, and its path."""
    for row in range(10):
        memory[f"memory://imgs/{row}.png"] = png(row), 10**18 + row
    pd.DataFrame({"path": list(memory), "id": range(10)}).to_csv(tmp_path / "l.csv", index=False)
    return str(tmp_path / "l.csv")


def build(listed, **options):
    return dfgen.build_manifest(labels=listed, path_column="path", **options)


@pytest.mark.parametrize("processes", [False, True])
def test_a_store_from_outside_trains(listed, processes):
    options = {"workers": 1, "use_multiprocessing": processes, "shuffle": False}
    x = dfgen.Image("path", size=(6, 8), color_mode="grayscale")
    with dfgen.Sequence(build(listed), x, batch_size=5, label_mode=None, **options) as seq:
        found = [np.unique(image) for batch in range(2) for image in np.asarray(seq[batch][0])]
    assert found == [[row] for row in range(10)]


def test_fault_72_a_listing_that_repeats_a_page_doubles_no_row_and_an_omission_is_seen_by_diff(
    listed, memory, monkeypatch, tmp_path
):
    """Nobody can tell an object that a listing leaves out from one that is not there."""

    class Listing(Memory):
        def list(self, prefix):
            for page in pages:
                yield from ((path, self.head(path)) for path in page)

    monkeypatch.setitem(STORES, "memory", lambda: Listing(memory))
    first, second = [*memory][:5], [*memory][5:]
    pages = first, second
    whole = dfgen.build_manifest("memory://imgs", out=tmp_path / "m.parquet")
    assert len(whole) == 10
    pages = first, second, first
    with pytest.raises(ManifestError, match=r'ids that are on several rows \(5\): "0.png" \(rows'):
        dfgen.build_manifest("memory://imgs")
    pages = first, []
    short = dfgen.build_manifest("memory://imgs", out=tmp_path / "short.parquet")
    assert (
        dfgen.diff(tmp_path / "m.parquet", tmp_path / "short.parquet")["change"].tolist()
        == ["removed"] * 5
    )
    with pytest.warns(UserWarning, match="Kept 5 rows of .* that the source no longer gives"):
        kept = dfgen.build_manifest("memory://imgs", update=tmp_path / "m.parquet")
    assert (len(short), len(kept)) == (5, 10)


def test_its_files_have_facts_and_are_verified(listed, memory, tmp_path):
    frame = build(listed, out=tmp_path / "m.parquet")
    facts = frame[["mtime_ns", "format", "width", "height", "channels"]]
    assert frame["problem"].isna().all()
    assert facts.head(2).to_numpy().tolist() == [[10**18 + row, "png", 8, 6, 1] for row in range(2)]
    assert frame["bytes"].tolist() == [len(data) for data, _ in memory.values()]
    assert dfgen.verify(tmp_path / "m.parquet").empty
    del memory["memory://imgs/3.png"]
    memory["memory://imgs/4.png"] = png(4, size=(7, 8)), 2 * 10**18
    memory["memory://imgs/5.png"] = b"text", 10**18
    found = dfgen.verify(tmp_path / "m.parquet").set_index("id")
    assert found["change"].astype(str).to_dict() == {3: "missing", 5: "broken", 4: "changed"}
    assert found.loc[3, "detail"] == "the file does not exist"


def test_files_in_several_stores_train_together(listed, tmp_path):
    frame = build(listed).drop(columns=["bytes", "mtime_ns"])
    (tmp_path / "0.png").write_bytes(png(200))
    frame.loc[0, "path"] = f"{tmp_path}/0.png"
    x = dfgen.Image("path", size=(6, 8), color_mode="grayscale")
    with dfgen.Sequence(frame, x, batch_size=10, shuffle=False, label_mode=None) as seq:
        found = np.asarray(seq[0][0])[:, 0, 0, 0].tolist()
    assert found == [200, *range(1, 10)]


def test_addresses_that_no_store_reads_are_refused(listed, tmp_path):
    pd.DataFrame({"path": ["gopher://a.png"], "id": [1]}).to_csv(listed, index=False)
    with pytest.raises(ArgumentError, match=r"^gopher://a.png is an address, "):
        build(listed)
    build(listed, facts="none", out=tmp_path / "m.parquet")
    with pytest.raises(ManifestError, match=r"gopher://a\.png"):
        dfgen.verify(tmp_path / "m.parquet")


def test_the_store_follows_from_the_schemes_of_all_paths(memory):
    paths = {"local": pa.array(["a", "gopher://b"]), "memory": pa.array(["memory://a"])}
    assert store_of([]) == store_of([paths["local"]]) == Files()
    assert store_of([pa.chunked_array([paths["memory"]])]) == Memory(memory)
    both = Several({"": Files(), "memory": Memory(memory)})
    assert store_of([paths["memory"], paths["local"]]) == both
    assert store_of([pa.concat_arrays(paths.values())]) == both
    assert without_store(pa.array(["memory://a", "gopher://b"])).to_pylist() == ["gopher://b"]


def test_each_of_several_stores_has_the_limits_and_options(memory):
    limits, options = dfgen.Limits(file_bytes=2), StorageOptions({"region": "a"})
    paths = pa.array(["memory://a", "b"])
    both = store_of([paths], limits, options)
    assert both.limits == limits and both.options == options
    for path in paths.to_pylist():
        for one in (both.of(path), store_at(path, limits, options)):
            assert one.limits == limits and one.options == options
    memory["memory://a"] = b"123", 10**18
    with pytest.raises(DecodeError, match=r"the file has 3 bytes, more than limits\.file_bytes=2"):
        both.read("memory://a")


def test_bytes_and_paths_that_rows_hold_are_read_by_one_store(memory, tmp_path):
    memory["memory://a"] = b"123", 10**18
    (tmp_path / "b").write_bytes(b"12345")
    files = pa.array([{"bytes": b"1234", "path": "x"}, {"bytes": None, "path": "memory://a"}])
    both, here = store_of([files, pa.array(["b"])]), {"bytes": b"1234", "path": "x"}
    there, local = {"bytes": None, "path": "memory://a"}, str(tmp_path / "b")
    for content, data, time in (
        (here, b"1234", None), (b"1", b"1", None), (there, b"123", 10**18),
        ("memory://a", b"123", 10**18), (local, b"12345", os.stat(local).st_mtime_ns),
    ):  # fmt: skip
        told = []
        with both.open(content) as file:
            assert both.read(content) == file.read() == data
        assert both.head(content)[:2] == (len(data), time)
        assert both.read_as(content, lambda *known, told=told: told.append(known)) == data
        assert told == [(len(data), time if content is local else None)] * (time is not None)
        assert both.look(content) is both
    for nothing in (b"", {"bytes": b"", "path": "x"}):
        assert message_of(DecodeError, both.read, nothing) == "the file is empty (0 bytes)"
    neither = {"bytes": None, "path": None}
    assert message_of(DecodeError, both.head, neither) == "neither bytes nor a path"
    assert both.look(neither) is both
    assert not both.far


def test_one_path_of_each_scheme_is_an_example():
    paths = pa.array(["b/a", "s3://b/c", None, "memory://a", "s3://b/d", "e"])
    assert examples_of_schemes(paths).to_pylist() == ["b/a", "s3://b/c", "memory://a"]
    assert examples_of_schemes(paths[1:2]).to_pylist() == ["s3://b/c"]
    assert examples_of_schemes(paths[3:5]).to_pylist() == ["memory://a", "s3://b/d"]
    assert len(examples_of_schemes(paths[:0])) == 0
    for part, schemes in (
        (paths, {"", "s3", "memory"}), (paths[:0], set()), (paths[:1], {""}),
        (pa.chunked_array([paths[:1], paths[4:]]), {"", "s3"}), (paths[2:4], {"", "memory"}),
        (pa.array([["a:b", "s3://c"], []]), {"", "s3"}), (pa.array(["x" * (1 << 18) + ":"]), {""}),
        (pa.array(["s3://a", "S3A://b", "1://c"]), {"s3", "S3A", ""}),
    ):  # fmt: skip
        assert schemes_of(part) == schemes
    assert schemes_of(pa.array(["x" * ((1 << 18) - 2), "s3://c"])) == {"", "s3"}


def test_a_relative_path_stays_below_the_folder_of_then(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.npy").write_bytes(npy([[len(name), ord(name)]]))
    monkeypatch.chdir(tmp_path / "a")
    files = Files().within(None)
    monkeypatch.chdir(tmp_path / "b")
    for one, value in ((files, ord("a")), (files.within(None), ord("b")), (Files(), ord("b"))):
        assert one.row("x.npy", 0).tolist() == [1, value]
        with one.open("x.npy") as file:
            assert file.read() == one.read("x.npy") == npy([[1, value]])
    assert files == Files() and files.head("x.npy").size == len(npy([[1, 97]]))


def test_a_file_that_tells_no_size_or_another_is_read_to_its_end(tmp_path, monkeypatch):
    data = bytes(range(256)) * 1500
    (tmp_path / "a").write_bytes(data)
    for size in (0, 200_000, 500_000):  # as it was, or is to be
        monkeypatch.setattr(os, "fstat", lambda file, size=size: SimpleNamespace(st_size=size))
        assert Files().read(str(tmp_path / "a")) == data


def test_a_file_of_known_size_is_read_whole_where_a_file_system_hands_out_less(
    tmp_path, monkeypatch
):
    data, read = bytes(range(256)) * 100, os.read
    (tmp_path / "a").write_bytes(data)
    monkeypatch.setattr(os, "read", lambda file, most: read(file, min(most, 4096)))
    assert Files().read_as(str(tmp_path / "a"), lambda *known: None) == data


def test_a_large_file_is_refused_by_its_size_before_it_is_read(tmp_path, monkeypatch):
    path, asked, read = str(tmp_path / "a"), [], os.read
    with open(path, "wb") as file:
        file.truncate(10**6)
    monkeypatch.setattr(os, "read", lambda file, most: asked.append(most) or read(file, most))
    small = Files().within(dfgen.Limits(file_bytes=10**6 - 1))
    with pytest.raises(DecodeError, match="the file has 1,000,000 bytes, more than"):
        small.read(path)
    assert len(asked) == 1
    assert Files().within(dfgen.Limits(file_bytes=10**6)).read(path) == bytes(10**6)
    assert len(asked) == 4  # its begin, its rest, and that nothing follows
    told = []
    assert len(Files().read_as(path, lambda *known: told.append(known))) == 10**6
    assert told == [(10**6, os.stat(path).st_mtime_ns)]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files as Linux does")
@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_array_files_that_are_open_are_few_and_closed_in_the_end(tmp_path, suffix):
    paths = [f"{tmp_path}/{number}.{suffix}" for number in range(MOST_OPEN + 40)]
    for number, path in enumerate(paths):
        values = np.full((2, 3), number)
        if suffix == "npy":
            np.save(path, values)
        else:
            with h5py.File(path, "w") as file:
                file["x"] = values
    store, before = Files(), descriptors()
    held = store.open_rows(paths[0])
    for _ in range(2):
        for number, path in enumerate(paths):
            assert store.row(path, 1).tolist() == [number] * 3
    assert MOST_OPEN <= descriptors() - before <= MOST_OPEN + 1
    store.close()
    assert held[1].tolist() == [0] * 3  # what is in use is not taken away
    del held
    assert descriptors() == before


def test_threads_share_the_open_files(tmp_path):
    paths = [f"{tmp_path}/{number}.npy" for number in range(MOST_OPEN + 20)]
    for number, path in enumerate(paths):
        np.save(path, np.full((1, 500), number))
    store, rng = Files(), np.random.default_rng(0)
    asked = rng.integers(0, len(paths), 4000).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: store.row(paths[number], 0), asked))
    assert [values.tolist() for values in found] == [[number] * 500 for number in asked]
