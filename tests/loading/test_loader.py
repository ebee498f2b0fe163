"""The loader by itself: blocks of the order, streams, buffers, threads."""

import contextlib
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pytest
from cases import each

from dfgen.errors import ArgumentError, DfgenError, MissingFileError
from dfgen.limits import Limits
from dfgen.loading.buffers import Buffers
from dfgen.loading.generators import batch_rng
from dfgen.loading.loader import Loader
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.problems import Problem
from dfgen.loading.workers.chunks import chunk_sizes
from dfgen.loading.workers.threads import Threads, ThreadWorker
from dfgen.machine import usable_cpus
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader
from dfgen.spec import Spec


def loader(rows, **options):
    """A loader of rows without files: one number, which is the row."""
    numbers = BoundFeature("number", Number("number"), np.arange(rows, dtype=np.int32))
    return Loader(SampleReader(np.arange(rows), (numbers,)), **{"batch_size": 4, **options})


def image_paths(folder, count):
    """Files of 2x2 pixels that hold their number."""
    paths = [str(folder / f"{number}.png") for number in range(count)]
    for number, path in enumerate(paths):
        cv2.imwrite(path, np.full((2, 2, 3), number, np.uint8))
    return paths


def image_loader(paths, **options):
    parts = (BoundFeature("image", Image("path", size=(2, 2)), pa.array(paths)),)
    return Loader(SampleReader(np.arange(len(paths)), parts), **{"batch_size": 4, **options})


class Broken(Image):
    """An image with a mistake in its code."""

    def read(self, *arguments):
        return 1 // 0


def test_a_batch_of_the_last_epoch_of_a_long_run_costs_no_earlier_one():
    found = loader(10**6, batch_size=100)
    batch = found.batch(10**6, 9_999)
    assert batch.arrays["number"].tolist() == batch.rows.tolist()
    assert sorted(set(batch.rows.tolist())) == sorted(batch.rows.tolist())


def chunks_of_batches(monkeypatch, batches, **options):
    """The rows of the chunks that some batches of a stream were made of, by batch."""
    made, fill = [], ThreadWorker.fill

    def noted(worker, chunk, arrays, cancelled):
        made.append(chunk.rows)
        return fill(worker, chunk, arrays, cancelled)

    monkeypatch.setattr(ThreadWorker, "fill", noted)
    with contextlib.closing(loader(10_000, shuffle=False, **options)) as found:
        stream = found.stream(0)
        for _ in range(batches):
            next(stream)
    sizes = {}
    for rows in made:
        sizes.setdefault(int(rows[0]) // found.batch_size, []).append(len(rows))
    return [sizes[batch] for batch in range(batches)]


def test_all_workers_share_a_first_batch_and_make_later_ones_in_large_chunks(monkeypatch):
    found = chunks_of_batches(monkeypatch, 3, batch_size=24, workers=2)
    assert found == [[6] * 4, [24], [24]]


def test_chunks_are_small_enough_for_each_worker_to_have_two(monkeypatch):
    found = chunks_of_batches(monkeypatch, 3, batch_size=24, workers=6, max_queue_size=2)
    assert found == [[2] * 12, [4] * 6, [4] * 6]


def left_elsewhere(found, stream):
    found.park(stream)
    found.stream(7)


def guessed_wrong(found, stream):
    stream.position = (7, 0)
    stream._refill()


@pytest.mark.parametrize(
    "leave",
    [lambda found, stream: stream.close(), left_elsewhere, guessed_wrong],
    ids=["closed", "left elsewhere", "guessed wrong"],
)
def test_batches_that_nobody_wants_any_more_are_not_made(leave):
    made, gate = [], threading.Event()

    class Slow(SampleReader):
        reads_rows = True

        def read(self, row, out, rng, watch):
            gate.wait()
            made.append(row)

    numbers = BoundFeature("number", Number("number"), np.arange(400, dtype=np.int32))
    found = Loader(Slow(np.arange(400), (numbers,)), batch_size=4, workers=1, max_queue_size=20)
    stream = found.stream(0)
    stream._refill()
    leave(found, stream)
    gate.set()
    assert found.batch(7, 0).rows.tolist() == found.epochs().batch(7, 0).rows.tolist()
    assert {*found.epochs().batch(7, 0).rows.tolist()} <= {*made[: 4 + 4]}


def test_a_worker_is_replaced_once_and_not_after_the_end():
    begun, threads = threading.Event(), Threads(1, lambda: ThreadWorker(None))
    threads.submit(lambda worker: begun.set())
    assert begun.wait(30)
    for _ in range(2):
        threads.replace(threads.workers[0])
    assert len(threads.workers) == 2
    threads.close()
    threads.replace(threads.workers[1])
    assert len(threads.workers) == 2


def test_chunks_of_processes_are_of_4_mib_at_most():
    assert chunk_sizes(64, 10, 8, row=1 << 19, processes=False) == (4, 40)
    assert chunk_sizes(64, 10, 8, row=1 << 19, processes=True) == (4, 8)


def test_threads_run_every_task_in_order_and_end_when_closed():
    done, threads = [], Threads(1, lambda: ThreadWorker(None))
    for number in range(100):
        threads.submit(lambda worker, number=number: done.append(number))
    ended = threading.Event()
    threads.submit(lambda worker: ended.set())
    assert ended.wait(30)
    assert done == [*range(100)]
    threads.close()
    with pytest.raises(ArgumentError, match="this Sequence was closed: make a new one"):
        threads.submit(lambda worker: None)


def test_closing_while_another_thread_waits_gives_it_an_error_and_no_hang(monkeypatch):
    monkeypatch.setattr("dfgen.loading.workers.threads._PATIENCE", 0.01)
    entered, gate = threading.Event(), threading.Event()

    class Slow(SampleReader):
        reads_rows = True

        def read(self, row, out, rng, watch):
            entered.set()
            gate.wait(30)

    numbers = BoundFeature("number", Number("number"), np.arange(40, dtype=np.int32))
    found = Loader(Slow(np.arange(40), (numbers,)), batch_size=4, workers=1)
    caught = []

    def wait():
        try:
            found.batch(0, 0)
        except DfgenError as error:
            caught.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    entered.wait(30)
    found.close()
    gate.set()
    waiting.join(30)
    assert caught == ["this Sequence was closed: make a new one"]


@pytest.mark.slow
def test_a_program_may_end_with_batches_in_the_making(tmp_path):
    """OpenCV would abort the process if its thread were stopped by the interpreter."""
    image = tmp_path / "large.png"
    noise = np.random.default_rng(0).integers(256, size=(2000, 2000, 3), dtype=np.uint8)
    cv2.imwrite(str(image), noise)
    script = """
import sys
import numpy as np, pyarrow as pa
from dfgen.loading.loader import Loader
from dfgen.samples.features.image import Image
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader
part = BoundFeature("image", Image(size=(64, 64)), pa.array([sys.argv[1]] * 400))
stream = Loader(SampleReader(np.arange(400), (part,)), batch_size=4, workers=3).stream(0)
next(stream)
"""
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", script, str(image)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert (ended.returncode, ended.stderr) == (0, "")


def test_usable_cpus_are_those_of_the_affinity_mask():
    assert usable_cpus() >= 1


@each("shape", [(), (3,), (7, 5, 3)])
@each("dtype", ["uint8", "float16", "float32", "int64"])
def test_buffers_are_aligned_and_of_one_piece(shape, dtype):
    for size in (1, 3, 64):
        array = Buffers({"a": Spec(shape, np.dtype(dtype))}).batch(size)["a"]
        assert (array.shape, array.dtype) == ((size, *shape), dtype)
        assert array.ctypes.data % 64 == 0 and array.flags.c_contiguous


def test_memory_is_used_again_only_when_no_part_of_it_is_held():
    buffers = Buffers({"a": Spec((64, 64, 3), np.dtype("uint8"))})
    first = buffers.batch(16)["a"]
    address = first.ctypes.data
    part = first[3, 1:5].reshape(-1)[::2]
    del first
    assert buffers.batch(16)["a"].ctypes.data != address
    del part
    assert buffers.batch(8)["a"].ctypes.data == address
    second = buffers.batch(16)["a"]
    assert second.ctypes.data == address  # the shorter batch is gone already


def test_memory_given_back_by_a_short_batch_serves_a_full_one():
    buffers = Buffers({"a": Spec((64, 64, 3), np.dtype("uint8"))})
    short = buffers.batch(8)["a"]
    del short
    full = buffers.batch(16)["a"]
    full[...] = 7
    assert (full == 7).all()


def test_a_reader_without_rows_has_no_batches():
    with contextlib.closing(Loader(SampleReader(pa.array([]), ()), batch_size=4)) as found:
        assert len(found) == 0


class TestBatches:
    def test_hold_the_rows_and_ids_of_one_epoch_and_training_does_not_notice(self):
        ids = pa.array([f"r{row}" for row in range(10)])
        numbers = BoundFeature("number", Number("number"), np.arange(10, dtype=np.int32))
        found = Loader(SampleReader(ids, (numbers,)), batch_size=4, workers=2)
        with contextlib.closing(found):
            stream = found.stream(0)
            next(stream)
            found.park(stream)
            batches = list(found.batches(epoch=5))
            rows = np.concatenate([batch.rows for batch in batches])
            assert rows.tolist() == permutation(range(10), 10, seed=0, epoch=5).tolist()
            for batch in batches:
                assert batch.arrays["number"].tolist() == batch.rows.tolist()
                assert batch.weights.tolist() == [1] * len(batch.rows)
            assert found.stream(0, 1) is stream
            next(stream)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_make_nothing_beyond_the_epoch(self, workers):
        with contextlib.closing(loader(10, workers=workers)) as found:
            assert [len(batch.rows) for batch in found.batches()] == [4, 4, 2]
        assert (found.metrics.samples, found.metrics.batches) == (10, 3)

    def test_of_another_plan_leave_out_nothing(self):
        with contextlib.closing(loader(10, drop_remainder=True, workers=1)) as found:
            given = replace(found.given, tail="short")
            assert [len(batch.rows) for batch in found.batches(plan=given)] == [4, 4, 2]
            assert [len(batch.rows) for batch in found.batches()] == [4, 4]


def test_a_batch_that_failed_is_made_again_when_it_is_asked_for_again(tmp_path):
    path = tmp_path / "late.png"
    paths = [*image_paths(tmp_path, 7), str(path)]
    with contextlib.closing(image_loader(paths, shuffle=False, workers=2)) as found:
        stream = found.stream(0)
        next(stream)
        for _ in range(2):
            with pytest.raises(MissingFileError, match="row id=7"):
                next(stream)
            assert stream.position == (0, 1)
        cv2.imwrite(str(path), np.full((2, 2, 3), 9, np.uint8))
        assert next(stream).arrays["image"][:, 0, 0, 0].tolist() == [4, 5, 6, 9]


@pytest.mark.parametrize("use_multiprocessing", [False, True])
def test_a_mistake_in_a_program_is_no_problem_of_a_row(tmp_path, use_multiprocessing):
    """With on_error="skip" it would train on zeros."""
    options = {"workers": 1, "on_error": "skip", "use_multiprocessing": use_multiprocessing}
    parts = (
        BoundFeature("image", Broken("path", size=(2, 2)), pa.array(image_paths(tmp_path, 4))),
    )
    found = Loader(SampleReader(np.arange(4), parts), batch_size=4, shuffle=False, **options)
    with contextlib.closing(found), pytest.raises(ZeroDivisionError) as caught:
        found.batch(0, 0)
    assert caught.value.__notes__[0] == f"while reading row id=0, path='{tmp_path / '0.png'}'"
    assert not found.problems


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_bad_rows_in_any_chunk_are_known_by_their_place_in_the_batch(tmp_path, workers):
    paths = image_paths(tmp_path, 11)
    for row in (0, 5, 6, 10):
        Path(paths[row]).unlink()
    options = {"batch_size": 8, "shuffle": False, "on_error": "skip", "workers": workers}
    with contextlib.closing(image_loader(paths, **options)) as found:
        first, last = found.batches()
        assert sorted(found.problems) == [0, 5, 6, 10]
    assert found.metrics.samples == 7
    assert (sorted(first.skipped), last.skipped) == ([0, 5, 6], (2,))
    share = np.float32(8 / 5)
    assert first.weights.tolist() == [0, *[share] * 4, 0, 0, share]
    assert last.weights.tolist() == [1.5, 1.5, 0]
    assert first.arrays["image"][:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 0, 0, 7]


def test_known_problems_stay_blank_where_no_row_is_read():
    found = loader(6, shuffle=False, on_error="skip", problems={2: "known"})
    batch = found.batch(0, 0)
    assert batch.arrays["number"].tolist() == [0, 1, 0, 3]
    assert batch.skipped == (2,)
    assert found.problems == {2: Problem("known", "known", None)}


def test_without_workers_only_the_batch_that_is_asked_for_is_made():
    found = loader(40, workers=0)
    stream = found.stream(0)
    for made in (1, 2):
        next(stream)
        assert found.metrics.samples == 4 * made


def test_hosts_draw_apart_for_their_parts_of_a_batch():
    def drawn(host):
        def draw(batch, rng):
            return {"number": batch["number"] * 0 + np.float32(rng.integers(10**6))}

        made = loader(8, workers=0, shard=(host, 2), batch_transform=draw)
        return made.batch(3, 1).arrays["number"].tolist()

    assert [drawn(host) for host in (0, 1)] == [
        [batch_rng(0, 3, 1, host).integers(10**6)] * 2 for host in (0, 1)
    ]


def test_memory_that_is_used_again_has_room_for_a_batch_that_is_a_little_larger():
    size = 1 << 20
    specs = [{"a": Spec((size + more,), np.dtype(np.uint8))} for more in (0, 8, 24, 40, 63)]
    for larger in specs:
        buffers = Buffers(specs[0])
        buffers.batch(1)
        assert buffers.batch(1, larger)["a"].shape == (1, *larger["a"].shape)


def test_a_batch_that_takes_more_than_the_memory_of_the_machine_is_refused(tmp_path, monkeypatch):
    paths = image_paths(tmp_path, 6)
    for memory in (48, 47):  # of a batch of four images of 2x2 pixels
        monkeypatch.setattr("dfgen.loading.loader.machine_memory", lambda memory=memory: memory)
        if memory == 48:
            image_loader(paths).close()
    with pytest.raises(ArgumentError) as caught:
        image_loader(paths)
    assert str(caught.value) == (
        "a batch of 4 rows takes 0.0 GB, but this machine has 0.0 GB of memory: a row of 'image' "
        "has the shape (2, 2, 3) and uint8 numbers. Make batch_size= smaller, or image_size="
    )
    monkeypatch.setattr("dfgen.loading.loader.machine_memory", lambda: 6 * 12)
    image_loader(paths, batch_size=100).close()  # there are six rows


def test_dropping_the_remainder_keeps_a_full_batch_and_allows_no_rows():
    for rows in (4, 0):
        with contextlib.closing(loader(rows, drop_remainder=True)) as found:
            assert len(found) == rows // 4


def test_twice_as_many_batches_are_made_ahead_as_are_taken_at_once_if_memory_allows(tmp_path):
    found = loader(40, workers=2, max_queue_size=3)
    assert [found.depth_for(at_once) for at_once in (1, 2, 4)] == [3, 4, 8]
    assert loader(40, workers=0, max_queue_size=3).depth_for(4) == 1
    small = Limits(memory=48 * 5)
    paths = image_paths(tmp_path, 12)
    bounded = image_loader(paths, workers=1, max_queue_size=9, limits=small)
    assert [bounded.depth_for(at_once) for at_once in (1, 2, 9)] == [5, 5, 5]
