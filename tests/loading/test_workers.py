"""Batches: buffers, weights, chunks, and functions that ask, print, fork or fail."""

import functools
import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import cloudpickle
import cv2
import numpy as np
import pandas as pd
import pytest
from cases import each
from public.leftovers import nothing_left as nothing_left
from public.leftovers import of_pass
from public.numbered import PROCESSES, rows_of, sequence
from public.test_workers import PIXELS, PNG
from public.test_workers import frame as frame
from public.test_workers import ordered as ordered

import dfgen
from dfgen.errors import ArgumentError, DecodeError, TransformError
from dfgen.loading.order.epochs import Plan
from dfgen.loading.pending_batch import Buffers, batch_weights
from dfgen.loading.workers.chunks import chunk_sizes
from dfgen.spec import Spec


@each("shape", [(), (3,), (7, 5, 3)])
@each("dtype", ["uint8", "float16", "float32", "int64"])
def test_buffers_are_aligned_and_contiguous(shape, dtype):
    for size in (1, 3, 64):
        array = Buffers({"a": Spec(shape, np.dtype(dtype))}).batch(size)["a"]
        assert (array.shape, array.dtype) == ((size, *shape), dtype)
        assert array.ctypes.data % 64 == 0 and array.flags.c_contiguous


def test_memory_in_use_is_not_reused():
    buffers = Buffers({"a": Spec((64, 64, 3), np.dtype("uint8"))})
    first = buffers.batch(16)["a"]
    address = first.ctypes.data
    part = first[3, 1:5].reshape(-1)[::2]
    del first
    assert buffers.batch(16)["a"].ctypes.data != address
    del part
    assert buffers.batch(8)["a"].ctypes.data == address
    assert buffers.batch(16)["a"].ctypes.data == address


def test_reused_memory_is_large_enough():
    size = 1 << 20
    specs = [{"a": Spec((size + more,), np.dtype(np.uint8))} for more in (0, 8, 24, 40, 63)]
    for larger in specs:
        buffers = Buffers(specs[0])
        buffers.batch(1)
        assert buffers.batch(1, larger)["a"].shape == (1, *larger["a"].shape)


@each(
    ("plan", "step", "given", "lost", "weights"),
    [
        (Plan(10, 4), 2, None, (), [1, 1]),
        (Plan(10, 4), 0, [1, 2, 3, 4], (), [1, 2, 3, 4]),
        (Plan(10, 4), 0, [1, 2, 3, 4], [0, 3], [0, 4, 6, 0]),
        (Plan(10, 4), 2, None, [0, 1], [0, 0]),
        (Plan(10, 4, tail="pad"), 0, None, (), [1.2] * 4),
        (Plan(10, 4, tail="pad"), 2, None, (), [1.2, 1.2, 0, 0]),
        (Plan(10, 4, tail="pad"), 2, None, [1, 3], [2.4, 0, 0, 0]),
        (Plan(10, 4, (1, 2), tail="pad"), 2, None, (), [0, 0]),
    ],
)
def test_weights_keep_the_mean_over_rows(plan, step, given, lost, weights):
    given = None if given is None else np.array(given, np.float32)
    found = batch_weights(plan, step, given, lost)
    assert found.dtype == np.float32 and found.tolist() == pytest.approx(weights)


@each(
    ("depth", "workers", "row", "processes", "sizes"),
    [
        (10, 2, 1, False, (16, 64)),
        (2, 8, 1, False, (4, 8)),
        (10, 8, 1 << 19, False, (4, 40)),
        (10, 8, 1 << 19, True, (4, 8)),
        (1, 0, 1, False, (64, 64)),
    ],
)
def test_chunks_keep_all_workers_busy(depth, workers, row, processes, sizes):
    assert chunk_sizes(64, depth, workers, row, processes) == sizes


def test_later_batches_are_made_in_large_chunks(frame):
    with ordered(frame, "unnamed", workers=2, batch_size=8) as seq:
        of_pass(seq)
        assert seq.metrics.samples >= 23 and seq.metrics.workers == 2


def test_only_the_requested_batch_is_made_without_workers():
    seq = sequence(40)
    batches = iter(seq)
    for made in (1, 2):
        next(batches)
        assert seq.metrics.samples == 4 * made


def test_a_failed_batch_is_made_again_on_request(frame):
    path = frame.path[7]
    os.rename(path, f"{path}.away")
    with ordered(frame) as seq:
        batches = iter(seq)
        next(batches)
        for _ in range(2):
            with pytest.raises(dfgen.DfgenError, match="r7"):
                next(batches)
        os.rename(f"{path}.away", path)
        assert next(batches)[1].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("way", ["caller", "threads"])
def test_a_transform_may_ask_another_sequence_only(frame, way):
    other, asked = ordered(frame), []

    def ask(sample, rng):
        asked.append(other[1][1].tolist())
        own[1]

    with other, ordered(frame, way, transform=ask) as own:
        for _ in range(2):
            with pytest.raises(TransformError, match="asks that Sequence for a batch"):
                own[0]
    assert [4, 5, 6, 7] in asked


class Broken(dfgen.Array):
    """A feature with a mistake in its code."""

    def read(self, *arguments):
        return 1 // 0


@pytest.mark.parametrize("way", ["caller", "threads", "process"])
def test_mistakes_in_programs_skip_no_row(frame, way):
    with (
        ordered(frame, way, Broken("path", (2,)), on_error="skip") as seq,
        pytest.raises(ZeroDivisionError) as caught,
    ):
        seq[0]
    assert "r0" in caught.value.__notes__[0] and seq.problems.empty


def test_batches_larger_than_memory_are_rejected(frame, monkeypatch):
    nbytes = PIXELS[0].size * 4
    for memory in (nbytes + 64, nbytes - 1):
        monkeypatch.setattr("dfgen.loading.loader.machine_memory", lambda memory=memory: memory)
        if memory > nbytes:
            ordered(frame).close()
    with pytest.raises(ArgumentError, match="a row of 'image'"):
        ordered(frame)


def test_bad_decoder_rows_are_blank_in_place(frame):
    def decode(data):
        if PNG.index(data) in (0, 5, 6):
            raise DecodeError("bad")
        return np.frombuffer(data[:2], np.uint8)

    x = dfgen.Array("path", (2,), "uint8", decode=decode)
    with ordered(frame, "threads", x, on_error="skip", batch_size=8) as seq:
        pixels, rows, weights = seq[0]
    share = np.float32(8 / 5)
    assert weights.tolist() == [0, *[share] * 4, 0, 0, share]
    assert rows.tolist() == [0, 1, 2, 3, 4, 0, 0, 7] and not pixels[[0, 5, 6]].any()


def test_a_printing_forking_transform_leaves_the_parent_alone(frame, capfd):
    def talk(sample, rng):
        print("of Python")
        os.write(1, b"of C\n")
        assert sys.stdin.read() == "" and os.read(0, 1) == b""
        if os.fork():
            assert os.wait()[1] == 0
            return sample
        os._exit(0)

    with ordered(frame, "process", transform=talk) as seq:
        assert of_pass(seq)[1] == [*range(23)]
    output = capfd.readouterr()
    assert output.out == "" and "of C\n" in output.err


def test_processes_make_columns_without_files():
    with sequence(8, shuffle=False, **PROCESSES) as seq:
        assert [rows_of(batch) for batch in seq] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert seq.metrics.use_multiprocessing and seq.metrics.samples >= 8


def test_processes_that_cannot_start_are_an_error(frame, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/python")
    with ordered(frame, "process") as seq, pytest.raises(dfgen.DfgenError, match="/no/python"):
        seq[0]


def test_functions_of_modules_that_cannot_be_imported(tmp_path, monkeypatch):
    file = tmp_path / "loaded_by_path.py"
    file.write_text(
        "def double(sample, rng):\n    sample['number'] += sample['number']\n    return sample"
    )
    spec = importlib.util.spec_from_file_location("loaded_by_path", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "loaded_by_path", module)
    spec.loader.exec_module(module)
    for transform in (module.double, functools.partial(module.double)):
        with sequence(4, transform=transform, shuffle=False, **PROCESSES) as seq:
            assert seq[0][0].tolist() == [0, 2, 4, 6]
    cloudpickle.unregister_pickle_by_value(module)
    old_finder = SimpleNamespace(find_module=lambda *_: None)
    monkeypatch.setattr(sys, "meta_path", [old_finder, *sys.meta_path])
    with sequence(4, transform=lambda sample, rng: sample, shuffle=False, **PROCESSES) as seq:
        assert seq[0][0].tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_program_may_end_with_unfinished_batches(tmp_path):
    """OpenCV would abort the process if its thread were stopped by the interpreter."""
    noise = np.random.default_rng(0).integers(256, size=(2000, 2000, 3), dtype=np.uint8)
    path = tmp_path / "large.png"
    cv2.imwrite(str(path), noise)
    pd.DataFrame({"id": range(400), "path": str(path)}).to_csv(tmp_path / "rows.csv", index=False)
    script = """
import sys, pandas as pd, dfgen
frame = pd.read_csv(sys.argv[1])
batches = iter(dfgen.Sequence(frame, image_size=(64, 64), label_mode=None, batch_size=4, workers=3))
next(batches)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "rows.csv")]
    for _ in range(3):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0 and "Traceback" not in ended.stderr
