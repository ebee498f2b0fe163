"""What docs/about/promises.md says of workers, where rows come from caches, packs, archives and
tables, beside other functions, and however a program ends."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from pathlib import Path

import keras  # noqa: F401  # in no case's time
import numpy as np
import psutil
import pytest
from places import PLACES, Held, held, png
from processes_of import children

import dfgen
from dfgen.errors import DfgenError, ReadTimeoutError, WorkerError
from dfgen.limits import Limits
from dfgen.samples.features.array import Array
from dfgen.samples.features.column import Column

pytestmark = [pytest.mark.slow, pytest.mark.alarm(300)]
ROWS, BAD = 12, 7
PROCESSES = {"workers": 2, "use_multiprocessing": True}
KINDS = pytest.mark.parametrize(
    "workers", [{"workers": 2}, PROCESSES], ids=["threads", "processes"]
)
everywhere = pytest.mark.parametrize("place", PLACES)


def rows_in(place, folder):
    numbers = range(ROWS)
    return held(place, folder, numbers if place == "rows" else [png(row) for row in numbers])


def same(sample, rng):
    return sample


def end_children():
    found = children()
    for child in found:
        child.kill()
    psutil.wait_procs(found, timeout=30)


@pytest.mark.parametrize("place", ["cache", "memory", "tar", "list", "pack", "rows"])
def test_killed_workers_are_replaced_and_all_rows_come_wherever_they_are(tmp_path, place):
    rows = rows_in(place, tmp_path)
    plain, _ = rows.batches(epochs=2)
    with rows.loader(max_queue_size=1, **PROCESSES) as loader:
        found = []
        for epoch in range(2):
            for batch in loader.batches(epoch):
                found.append({name: np.array(array) for name, array in batch.arrays.items()})
                if len(found) in (1, 5):
                    end_children()
    for one, other in zip(plain, found, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def die(sample, rng):
    if next(iter(sample.values())).max() in (BAD, BAD - 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


@pytest.mark.parametrize("place", ["memory", "cache", "table", "pack"])
def test_rows_on_which_every_process_dies_are_named_or_skipped_wherever_they_are(tmp_path, place):
    rows = rows_in(place, tmp_path)
    rows.rows(epochs=1)
    with pytest.raises(WorkerError, match=rf"row id=({BAD}|{BAD - 1})\b"):
        rows.batches(transform=die, **PROCESSES)
    found, problems = rows.rows(epochs=2, transform=die, on_error="skip", **PROCESSES)
    assert found == [0 if row in (BAD, BAD - 1) else row for row in range(ROWS)] * 2
    assert sorted(problems) == [str(BAD - 1), str(BAD)]


@pytest.mark.parametrize("place", ["zip", "tar", "table"])
def test_a_decoder_that_crashes_names_its_row_wherever_the_file_is(tmp_path, place):
    rows = rows_in(place, tmp_path)
    bad = png(BAD)

    def decode(data):
        if data == bad:
            os.abort()
        return np.frombuffer(data[:8], np.uint8)

    rows = Held(rows.manifest, Array("path", (8,), "uint8", decode=decode), name="array")
    with pytest.raises(WorkerError, match=rf"^row id={BAD}\b.*SIGABRT"):
        rows.batches(**PROCESSES)
    found, problems = rows.rows(on_error="skip", **PROCESSES)
    assert list(problems) == [str(BAD)]
    assert [row for row, value in enumerate(found) if not value] == [BAD]


class Leaving(SystemExit):
    """As some libraries have one of their own."""


def leave_by(error):
    raise error


EXITS = {
    "sys.exit": lambda: sys.exit(0),
    "own": lambda: leave_by(Leaving("own")),
    "os._exit": lambda: os._exit(0),
}


@KINDS
@pytest.mark.parametrize("exit", EXITS)
@pytest.mark.parametrize("where", ["transform", "column", "cached"])
def test_an_exit_of_any_kind_names_its_row_in_any_function(tmp_path, where, exit, workers):
    """`os._exit` ends the program where threads call it."""
    leave, workers = EXITS[exit], PROCESSES if exit == "os._exit" else workers
    rows = rows_in("memory" if where == "cached" else "pack", tmp_path)

    def transform(sample, rng):
        return leave() if sample["image"].max() == BAD else sample

    def of_column(number):
        return leave() if number == BAD else np.float32(number)

    options = {"transform": transform}
    if where == "column":
        rows.x, options = {"image": rows.x, "number": Column("id", of_column)}, {}
    with pytest.raises(DfgenError, match=rf"id={BAD}\b"):
        rows.batches(**options, **workers)


PROGRAM = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
import numpy as np
from places import held, png

def same(sample, rng):
    return sample

signal.signal(signal.SIGINT, signal.default_int_handler)
place, folder = sys.argv[1], Path(sys.argv[2])
numbers = range(12)
rows = held(place, folder, numbers if place == "rows" else [png(row) for row in numbers])
"""
FOR_EVER = """
with rows.loader(transform=same, workers=2, use_multiprocessing=True) as loader:
    next(loader.batches(0))
    print("ready", flush=True)
    epoch = 0
    while True:
        list(loader.batches(epoch))
        epoch += 1
"""


@contextlib.contextmanager
def program(code, place, folder, *more):
    command = [sys.executable, *more, place, str(folder), *sys.path]
    command[1:1] = [] if more else ["-c", PROGRAM + code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
    with subprocess.Popen(command, process_group=0, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("place", ["cache", "memory", "zip", "pack"])
def test_ctrl_c_is_one_interrupt_wherever_rows_are_and_what_is_kept_stays_whole(tmp_path, place):
    with program(FOR_EVER, place, tmp_path) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        workers = psutil.Process(process.pid).children()
        os.killpg(process.pid, signal.SIGINT)
        told = process.communicate(timeout=50)[1]
    assert (process.returncode, told.count("Traceback")) == (-signal.SIGINT, 1), told
    assert told.endswith("\nKeyboardInterrupt\n"), told
    assert psutil.wait_procs(workers, timeout=30)[1] == []
    if place == "cache":
        assert rows_in("cache", tmp_path).rows(epochs=2)[0] == [*range(ROWS)] * 2


ENDINGS = {
    "SIGKILL": lambda process: process.kill(),
    "SIGTERM": lambda process: process.terminate(),
    "SIGHUP": lambda process: process.send_signal(signal.SIGHUP),
    "SIGQUIT": lambda process: process.send_signal(signal.SIGQUIT),
    "SIGABRT": lambda process: process.send_signal(signal.SIGABRT),
}


@pytest.mark.parametrize(
    ("place", "ending"),
    [*zip(["cache", "memory", "pack", "cache", "memory"], ENDINGS, strict=True)],
)
def test_no_process_is_left_whatever_ends_the_program_and_wherever_its_rows_are(
    tmp_path, place, ending
):
    with program(FOR_EVER, place, tmp_path) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
        ENDINGS[ending](process)
        process.wait(timeout=50)
        assert psutil.wait_procs(workers, timeout=30)[1] == []


@KINDS
@everywhere
def test_what_nobody_holds_is_freed_with_all_that_it_has_open(tmp_path, place, workers):
    """Half a pass, an error that is kept, and a batch that is kept; the case before looks for what
    is left: descriptors, children, threads."""
    rows = rows_in(place, tmp_path)
    options = {"x": rows.x, "y": None, "label_mode": None, "batch_size": 4, **rows.more}

    def use():
        seq = dfgen.Sequence(rows.manifest, **options, **workers)
        batches = iter(seq)
        kept = next(batches)
        caught = None
        try:
            raise ValueError(batches)
        except ValueError as error:
            caught = error
        return weakref.ref(seq), kept, caught

    before = {*threading.enumerate()}
    reference, kept, caught = use()
    assert caught.args
    del caught
    for _ in range(3):
        gc.collect()
    assert reference() is None
    for thread in {*threading.enumerate()} - before:
        thread.join(timeout=30)
        stack = sys._current_frames().get(thread.ident)
        assert not thread.is_alive(), "".join(traceback.format_stack(stack))
    del kept


SCRIPT = """
print("the script runs", flush=True)
found = []
with rows.loader(transform=same, workers=2, use_multiprocessing=True) as loader:
    for epoch in range(2):
        for batch in loader.batches(epoch):
            array = batch.arrays[rows.name]
            found += array.reshape(len(array), -1).max(axis=1).astype(int).tolist()
print(found, flush=True)
"""


@pytest.mark.parametrize(
    ("place", "how"),
    [("cache", "file"), ("memory", "-c"), ("pack", "-m"), ("memory", "-"), ("cache", "another")],
)
def test_no_program_needs_a_guard_however_it_is_begun_and_wherever_its_rows_are(
    tmp_path, place, how
):
    (tmp_path / "train.py").write_text(PROGRAM + SCRIPT)
    (tmp_path / "runs.py").write_text(
        "import runpy, sys\nrunpy.run_path('train.py', run_name='__main__')\n"
    )
    begun = {"-c": [], "file": ["train.py"], "-m": ["-m", "train"], "-": ["-"]}
    more = begun.get(how, ["runs.py"])
    command = [sys.executable, *(more or ["-c", PROGRAM + SCRIPT]), place, str(tmp_path), *sys.path]
    done = subprocess.run(
        command, input=PROGRAM + SCRIPT, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"the script runs\n{[*range(ROWS)] * 2}\n", done.stderr


@KINDS
@pytest.mark.parametrize("place", ["cache", "memory", "list", "mask", "table"])
def test_a_read_that_does_not_come_back_is_late_wherever_it_is(tmp_path, place, workers):
    """A pipe stands in the place of a file, of which its head says that it is none."""
    rows = rows_in("cache" if place == "table" else place, tmp_path)
    if place in ("cache", "memory"):
        rows.rows(epochs=1)
    path = tmp_path / "imgs" / f"{BAD}.png"
    path.unlink()
    os.mkfifo(path)
    if place == "table":
        frame = rows.manifest.drop(columns="path")
        rows = Held(frame.assign(path=[{"bytes": None, "path": p} for p in rows.manifest["path"]]))
    limits = Limits(read_timeout=1)
    try:
        with pytest.raises(ReadTimeoutError, match=f"id={BAD}"):
            rows.batches(limits=limits, **workers)
        found, problems = rows.rows(on_error="skip", limits=limits, **workers)
        assert found == [0 if row == BAD else row for row in range(ROWS)]
        assert list(problems) == [str(BAD)]
    finally:
        for _ in range(2):
            writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            os.write(writer, b"x")
            os.close(writer)
    assert Path(path).is_fifo()
