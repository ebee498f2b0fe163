"""Rows of .npy and HDF5: taken a chunk at once, unpacked once a pass, in bounded memory."""

import os
import shutil
import subprocess
import sys
import threading

import cv2
import h5py
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DecodeError
from dfgen.loading.loader import Loader
from dfgen.stores.stores import Stores

N = 240
VALUES = (np.arange(N)[:, None, None] + np.arange(35).reshape(5, 7)).astype(np.float32)


def write(folder):
    """One array in each way that a file may hold it, every 35 numbers those of their row."""
    np.save(f"{folder}/plain.npy", VALUES)
    np.save(f"{folder}/fortran.npy", np.asfortranarray(VALUES))
    np.save(f"{folder}/swapped.npy", VALUES.astype(">f4"))
    np.save(f"{folder}/wide.npy", VALUES.astype("f8"))
    np.save(f"{folder}/bytes.npy", VALUES.astype("i2"))
    with h5py.File(f"{folder}/odd.h5", "w") as file:
        file.create_dataset("a", data=np.zeros(3, np.uint8))
        file.create_dataset("x", data=VALUES)
    with h5py.File(f"{folder}/packed.h5", "w") as file:
        chunks = (16, 2, 7)
        file.create_dataset("x", data=VALUES, chunks=chunks, compression="gzip", shuffle=True)


NAMES = ["plain.npy", "fortran.npy", "swapped.npy", "wide.npy", "bytes.npy", "odd.h5", "packed.h5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("arrays")
    write(found)
    return found


def frame_of(folder, *names):
    parts = [pd.DataFrame({"path": f"{folder}/{name}", "index": np.arange(N)}) for name in names]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(id=np.arange(len(frame)))


def loader_of(frame, x=None, window=10_000, workers=2, **options):
    name = str(frame["path"].iloc[0])
    dataset = "x" if name.endswith(".h5") else None
    x = x or dfgen.Array("path", shape=(5, 7), index="index", dataset=dataset)
    found = bind(SequenceArguments(frame, x, label_mode=None, window=window))
    options = {"batch_size": 32, "workers": workers, **options}
    return Loader(found.reader, order=found.order, **options)


def rows_and_values(loader, epoch=0):
    batches = [loader.batch(epoch, step) for step in range(len(loader))]
    name = next(iter(batches[0].arrays))
    rows = np.concatenate([batch.rows for batch in batches])
    return rows, np.concatenate([batch.arrays[name] for batch in batches])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 2}])
def test_every_row_comes_once_with_its_own_numbers(folder, name, options):
    loader = loader_of(frame_of(folder, name), **options)
    rows, values = rows_and_values(loader)
    loader.close()
    assert sorted(rows) == list(range(N)) and rows.tolist() != sorted(rows)
    np.testing.assert_array_equal(values, VALUES[rows])


@pytest.mark.parametrize("name", ["plain.npy", "packed.h5"])
def test_on_processes_too(folder, name):
    loader = loader_of(frame_of(folder, name), workers=1, use_multiprocessing=True)
    rows, values = rows_and_values(loader)
    loader.close()
    np.testing.assert_array_equal(values, VALUES[rows])


def test_rows_of_several_files_meet_in_a_batch(folder):
    frame = frame_of(folder, "plain.npy", "bytes.npy", "wide.npy", "fortran.npy")
    loader = loader_of(frame.sample(frac=0.5, random_state=0), window=1_000_000)
    rows, values = rows_and_values(loader)
    loader.close()
    order = frame.sample(frac=0.5, random_state=0)["index"].to_numpy()
    np.testing.assert_array_equal(values, VALUES[order[rows]])


@pytest.mark.parametrize("name", ["plain.npy", "wide.npy", "odd.h5", "packed.h5"])
def test_rows_are_taken_a_chunk_at_once(folder, name, monkeypatch):
    monkeypatch.setattr(Stores, "row", None)
    loader = loader_of(frame_of(folder, name), workers=0)
    rows, values = rows_and_values(loader)
    np.testing.assert_array_equal(values, VALUES[rows])


def test_contiguous_hdf5_array_is_mapped_like_npy(folder):
    rows = Stores().arrays.array(f"{folder}/odd.h5", "x")
    assert type(rows) is np.ndarray and not rows.flags.writeable
    np.testing.assert_array_equal(rows, VALUES)


def test_unusual_hdf5_arrays_are_read_by_h5py(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["flags"] = VALUES[:4] > 3
        kind = h5py.h5t.STD_I16LE.copy()
        kind.set_precision(12)
        space = h5py.h5s.create_simple((4, 35))
        twelve = h5py.h5d.create(file.id, b"twelve", kind, space)
        twelve.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(140, dtype=np.int16).reshape(4, 35))
        file.create_dataset("unwritten", (4, 2), "f4")
    for name, expected in (("flags", VALUES[3] > 3), ("twelve", np.arange(105, 140)),
                           ("unwritten", [0, 0])):  # fmt: skip
        np.testing.assert_array_equal(Stores().row(f"{tmp_path}/x.h5", 3, name), expected)


def test_missing_row_is_named_in_the_error(folder):
    frame = frame_of(folder, "plain.npy").assign(index=np.arange(N) + 1)
    with pytest.raises(DecodeError) as caught:
        rows_and_values(loader_of(frame))
    assert str(caught.value) == (
        f"row id=239, path={{'path': '{folder}/plain.npy', 'index': 240}}: the array has 240 rows, "
        "there is no row 240"
    )


def test_changed_file_is_rejected_or_skipped(folder, tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    known = os.path.getsize(tmp_path / "x.npy") - 1
    frame = frame_of(tmp_path, "x.npy").assign(bytes=known)
    with pytest.raises(DecodeError, match=f"{known + 1:,} bytes.*{known:,}"):
        rows_and_values(loader_of(frame))
    skipping = loader_of(frame.assign(bytes=[known] + [known + 1] * (N - 1)), on_error="skip")
    batches = [skipping.batch(0, step) for step in range(len(skipping))]
    assert sum(len(batch.skipped) for batch in batches) == 1
    skipping.close()


def test_numbers_out_of_range_are_rejected_with_row(tmp_path):
    values = np.zeros((N, 2), "i8")
    values[70, 1] = 300
    np.save(tmp_path / "x.npy", values)
    frame = frame_of(tmp_path, "x.npy")
    x = dfgen.Array("path", shape=(2,), dtype="uint8", index="index")
    with pytest.raises(DecodeError) as caught:
        rows_and_values(loader_of(frame, x))
    assert str(caught.value) == (
        f"row id=70, path={{'path': '{tmp_path}/x.npy', 'index': 70}}: the array holds 0 to 300, "
        "more than uint8 can hold"
    )


def note_advice(monkeypatch, path, note):
    """Have `note` called with what the system is told of this file, and of no other test's."""

    def noted(descriptor, *given):
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            note(*given)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)  # which tells what is in the cache already


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system reads nothing ahead")
def test_shuffled_column_reads_ahead_only_its_rows(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros((2_000, 1_000), np.uint8))
    asked = []
    note_advice(monkeypatch, tmp_path / "x.npy", lambda *given: asked.append(given[:2]))
    index = np.arange(2_000)[::-1] * 401 % 2_000
    frame = pd.DataFrame({"id": range(2_000), "path": f"{tmp_path}/x.npy", "index": index})
    x = dfgen.Array("path", shape=(1_000,), index="index")
    found = bind(SequenceArguments(frame, x, label_mode=None, window=100_000))
    [*found.reader.ahead(np.array([0, 5, 7, 1_999]))]
    head = os.path.getsize(tmp_path / "x.npy") - 2_000_000
    assert sorted(index[[0, 5, 7, 1_999]].tolist()) == [0, 792, 1_594, 1_599]
    assert asked == [
        (head + 1_000 * row, 1_000 * rows) for row, rows in ((0, 1), (792, 1), (1_594, 6))
    ]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system reads nothing ahead")
@pytest.mark.parametrize("name", ["plain.npy", "odd.h5", "packed.h5"])
def test_thread_reads_ahead_first_and_next_window(folder, name, tmp_path, monkeypatch):
    asked, done = [], threading.Event()

    def note(start, length, advice):
        asked.append((start, length, threading.current_thread().name))
        done.set()

    shutil.copy(folder / name, tmp_path)
    note_advice(monkeypatch, tmp_path / name, note)
    loader = loader_of(frame_of(tmp_path, name), window=4_000, workers=0)
    loader.batch(0, 0)
    assert done.wait(60)
    wait_for_next_window(loader)
    order = loader.order
    rows = np.concatenate([order.rows_of(0, window, loader.plan) for window in (0, 1)])
    assert {thread for _, _, thread in asked} == {"dfgen-0"}
    data = (folder / name).read_bytes()
    if name != "packed.h5":
        read = b"".join(data[start : start + length] for start, length, _ in asked)
        assert all(VALUES[row].tobytes() in read for row in rows.tolist())
    else:
        with h5py.File(folder / name) as file:
            places = [(row // 16 * 16, column, 0) for row in rows.tolist() for column in (0, 2, 4)]
            chunks = [file["x"].id.get_chunk_info_by_coord(place) for place in places]
        for begin, end in {(one.byte_offset, one.byte_offset + one.size) for one in chunks}:
            assert any(start <= begin and end <= start + length for start, length, _ in asked)
    asked.clear()
    loader.batch(0, 0)
    wait_for_next_window(loader)
    assert asked == []
    before = threading.active_count()
    loader.close()
    assert threading.active_count() == before - 1


def wait_for_next_window(loader):
    done = threading.Event()
    loader._next._pool.submit(lambda worker: done.set())
    assert done.wait(60)


SPARSE = """
import sys
import numpy as np, pandas as pd
import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader

def own():  # without mapped files, whose pages the system frees when it needs memory
    with open("/proc/self/status") as file:
        sizes = {name: value for name, value in (line.split(":") for line in file)}
    return sum(int(sizes[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1000

rows, width = 3 * 10**6, 10**6
path = sys.argv[1]
np.lib.format.open_memmap(path, "w+", "u1", (rows, width)).flush()
frame = pd.DataFrame({"path": path, "index": np.arange(rows)})
frame["id"] = frame["index"]
x = dfgen.Array("path", shape=(width,), dtype="uint8", index="index")
found = bind(SequenceArguments(frame, x, label_mode=None, window=32_000_000))
loader = Loader(found.reader, order=found.order, batch_size=4, workers=2, max_queue_size=2)
most, begin = 0, 0
for epoch, first in ((0, 0), (1, 600_000)):  # at once, wherever a training goes on
    stream = loader.stream(epoch, first)
    for step in range(80):
        next(stream)
        if epoch == 0 and step == 4:
            begin = own()
        most = max(most, own())
    stream.close()
print(most - begin)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is in memory")
def test_three_terabytes_train_in_little_memory(tmp_path):
    """The file is a hole; 640 MB of its rows go through windows of 32 MB."""
    done = subprocess.run(
        [sys.executable, "-c", SPARSE, f"{tmp_path}/x.npy"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * 32 * 10**6


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system reads nothing ahead")
@pytest.mark.parametrize("memory", [1 << 34, 1 << 10])
def test_small_pack_is_read_ahead_once(tmp_path, monkeypatch, memory):
    paths = [str(tmp_path / f"{row}.png") for row in range(8)]
    for path in paths:
        cv2.imwrite(path, np.zeros((4, 4, 3), np.uint8))
    dfgen.pack(pd.DataFrame({"id": range(8), "path": paths}), tmp_path / "pack", image_size=(4, 4))
    asked = []
    shard = tmp_path / "pack" / "shard-00000.arrow"
    note_advice(monkeypatch, shard, lambda *given: asked.append(given))
    monkeypatch.setattr("dfgen.loading.prefetch.machine_memory", lambda: memory)
    found = bind(SequenceArguments(tmp_path / "pack", label_mode=None))
    loader = Loader(found.reader, order=found.order, batch_size=4, workers=0)
    for epoch in range(3):
        loader.batch(epoch, 0)
        wait_for_next_window(loader)
    assert len(asked) == (1 if memory > 1 << 20 else 4)
    loader.close()
