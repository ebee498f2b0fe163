"""Worker processes that die, in any way and at any moment: replaced, or what they died of named."""

import contextlib
import ctypes
import os
import resource
import signal
import threading
from pathlib import Path

import cv2
import numpy as np
import psutil
import pyarrow as pa
import pytest
from processes_of import children

from dfgen.errors import ReadError, TransformError, WorkerError
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.array import Array
from dfgen.samples.features.image import Image
from dfgen.samples.features.number import Number
from dfgen.samples.features.text import Text
from dfgen.samples.reader import SampleReader

ROWS = 24


def loader(transform=None, parts=(), workers=1, processes=True, **options):
    numbers = BoundFeature("number", Number("number"), np.arange(ROWS, dtype=np.int32))
    reader = SampleReader(np.arange(ROWS), (numbers, *parts), transform)
    options = {"batch_size": 4, "shuffle": False, **options}
    made = Loader(reader, workers=workers, use_multiprocessing=processes, **options)
    return contextlib.closing(made)


def numbers_of(made, epoch=0):
    return [int(number) for batch in made.batches(epoch) for number in batch.arrays["number"]]


def kill(processes):
    for process in processes:
        process.kill()
    for process in processes:  # until they are dead, whoever waits for them
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                pass


def same(sample, rng):
    return sample


def shift(sample, rng):
    return {**sample, "number": sample["number"] + rng.integers(1000, dtype=np.int32)}


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_fault_01_processes_killed_between_batches_are_replaced_and_the_bytes_are_the_same(workers):
    with (
        loader(shift, workers=0, processes=False, shuffle=True) as expected,
        loader(shift, workers=workers, shuffle=True, max_queue_size=2) as made,
    ):
        pairs = zip(expected.batches(), made.batches(), strict=True)
        for step, (one, other) in enumerate(pairs):
            assert one.arrays["number"].tobytes() == other.arrays["number"].tobytes()
            if step % 3 == 0:
                kill(children())


@pytest.mark.slow
def test_fault_01_no_row_is_blamed_for_what_comes_after_it():
    """An idle process has the last row that it made behind it."""
    with loader(same, max_queue_size=1) as made:
        for epoch in range(4):
            assert numbers_of(made, epoch) == [*range(ROWS)]
            kill(children())


BYTES = 1 << 20  # of a row's text


@pytest.mark.parametrize(
    "moments", [[0.0, 0.7], pytest.param(np.linspace(0, 1.05, 12), marks=pytest.mark.slow)]
)
def test_fault_02_a_process_killed_while_it_writes_its_reply_loses_nothing(tmp_path, moments):
    """A thread of it kills it as soon as so much of the reply is written, of each batch in turn."""
    moments = [int(moment * 4 * BYTES) + 1 for moment in moments]

    def written():
        return int(Path("/proc/self/io").read_text().split()[3])

    def die_writing(sample, rng):
        died = len(os.listdir(tmp_path))
        if died < len(moments) and sample["number"] == 4 * (died % 6) + 3:
            open(tmp_path / str(died), "x").close()
            end = written() + moments[died]

            def watch():
                while written() < end:
                    pass
                os.kill(os.getpid(), signal.SIGKILL)

            threading.Thread(target=watch, daemon=True).start()
        return sample

    texts = [chr(65 + row) * BYTES for row in range(ROWS)]
    parts = (BoundFeature("text", Text("text"), pa.array(texts)),)
    with loader(die_writing, parts, max_queue_size=1) as made:
        for _ in range(0, len(moments), 6):
            found = [text for batch in made.batches() for text in batch.arrays["text"]]
            assert found == texts
    assert len(os.listdir(tmp_path)) == len(moments)


def test_fault_03_where_every_process_is_killed_the_rows_in_flight_are_named():
    """By what does not mind which row it is, as the system where memory is short."""
    stop = threading.Event()

    def kill_all():
        while not stop.is_set():
            for child in children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()

    with loader(same, batch_size=3) as made:
        killing = threading.Thread(target=kill_all)
        killing.start()
        with pytest.raises(WorkerError) as caught:
            made.batch(0, 2)
        stop.set()
        killing.join()
        assert str(caught.value) == (
            "a worker process cannot start (killed by SIGKILL): see what it printed. It was to "
            "make row id=6 and 1 more"
        )
        assert numbers_of(made) == [*range(ROWS)]


def deadly(folder, poison, **options):
    """A loader whose decoder ends its process by some rows, and their paths."""
    paths = [str(folder / f"{row}.bin") for row in range(ROWS)]
    for row, path in enumerate(paths):
        Path(path).write_bytes(b"poison" if row in poison else bytes([row]))

    def decode(data):
        if data == b"poison":
            with open(folder / "deaths", "ab") as deaths:
                deaths.write(data)
            ctypes.string_at(0)
        return np.frombuffer(data, np.uint8)

    parts = (BoundFeature("x", Array("path", (1,), "uint8", decode=decode), pa.array(paths)),)
    return loader(parts=parts, **options), paths


def test_fault_04_a_decoder_that_ends_its_process_is_an_error_that_names_row_and_path(tmp_path):
    making, paths = deadly(tmp_path, {13}, workers=2)
    with making as made, pytest.raises(WorkerError) as caught:
        numbers_of(made)
    assert str(caught.value) == (
        f"row id=13, path={paths[13]!r}: 3 worker processes died on this row (the last: killed by "
        "SIGSEGV)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("bad", [(6,), pytest.param((4, 6, 13), marks=pytest.mark.slow)])
def test_fault_08_rows_that_kill_any_process_are_skipped_and_kill_no_more_later(tmp_path, bad):
    making, _ = deadly(tmp_path, bad, max_queue_size=1, on_error="skip")
    with making as made:
        for epoch in range(3):
            batches = [*made.batches(epoch)]
            found = [int(x) for batch in batches for x in batch.arrays["x"][:, 0]]
            assert found == [0 if row in bad else row for row in range(ROWS)]
            assert [4 * at + place for at in range(6) for place in batches[at].skipped] == [*bad]
        died = "3 worker processes died on this row (the last: killed by SIGSEGV)"
        assert {row: tuple(why) for row, why in made.problems.items()} == dict.fromkeys(
            bad, ("worker", died, 0)
        )
    assert (tmp_path / "deaths").read_bytes() == b"poison" * 3 * len(bad)


@pytest.mark.slow
def test_fault_07_a_process_without_memory_says_so_and_goes_on_when_there_is_some(tmp_path):
    """The limit comes from outside, and later; no row is taken for bad."""
    path = str(tmp_path / "large.png")
    cv2.imwrite(path, np.full((5000, 5000, 3), 7, np.uint8))
    parts = (BoundFeature("x", Image("path", size=(4, 4)), pa.array([path] * ROWS)),)
    with loader(parts=parts, on_error="skip", batch_size=1, max_queue_size=1) as made:
        made.batch(0, 0)
        [child] = children()
        room = (child.memory_info().vms, resource.RLIM_INFINITY)
        before = resource.prlimit(child.pid, resource.RLIMIT_AS, room)
        with pytest.raises(ReadError) as caught:
            made.batch(0, 4)
        assert str(caught.value).startswith(f"row id=4, path={path!r}: ")
        assert "memory" in str(caught.value)
        assert "tried 5 times" in str(caught.value)
        resource.prlimit(child.pid, resource.RLIMIT_AS, before)
        assert (made.batch(0, 4).arrays["x"] == 7).all()
        assert children() == [child]
        assert not made.problems


def test_fault_07_a_transform_that_finds_no_memory_names_its_row():
    def greedy(sample, rng):
        if sample["number"] == 9:
            room = psutil.Process().memory_info().vms + (1 << 26)
            resource.setrlimit(resource.RLIMIT_AS, (room, room))
            np.ones(1 << 28, np.uint8)
        return sample

    with loader(greedy) as made, pytest.raises(TransformError) as caught:
        numbers_of(made)
    assert str(caught.value) == (
        "row id=9: the transform raised MemoryError: Unable to allocate 256. MiB for an array with "
        "shape (268435456,) and data type uint8"
    )
