"""Passes that have ended, were closed, or are of the parent of a forked process."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from dfgen.errors import ArgumentError
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.reader import SampleReader

KINDS = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


def loader(paths, processes=False, **options):
    reader = SampleReader(
        np.arange(len(paths)), (BoundFeature("x", Image("path", size=(4, 4)), pa.array(paths)),)
    )
    options = {"batch_size": 4, "shuffle": False, "workers": 2, **options}
    return Loader(reader, use_multiprocessing=processes, **options)


def rows_of(batch):
    return batch.arrays["x"][:, 0, 0, 0].tolist()


def test_fault_16_a_pass_that_has_ended_or_was_closed_says_so_and_another_begins(files):
    made = loader(files[:8])
    batches = made.batches()
    assert [rows_of(batch) for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)
    stream = made.stream(0)
    stream.close()
    with pytest.raises(ArgumentError) as caught:
        next(stream)
    assert str(caught.value) == "these batches were closed: make a new pass, iter(seq)"
    assert rows_of(next(made.stream(1))) == [0, 1, 2, 3]
    made.close()
    made.close()
    for use in (lambda: made.batch(0, 0), lambda: next(made.stream(0)), lambda: next(stream)):
        with pytest.raises(ArgumentError, match="closed: make a new "):
            use()


@pytest.mark.parametrize("whole", [False, True], ids=["the stream", "the Sequence"])
def test_fault_16_who_waits_while_another_thread_closes_is_told(files, tmp_path, whole):
    pipe = str(tmp_path / "pipe.png")
    os.mkfifo(pipe)
    made = loader([*files[:3], pipe])
    stream, told = made.stream(0), []

    def wait():
        try:
            next(stream)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")

    waiting = threading.Thread(target=wait)
    waiting.start()
    with open(pipe, "wb"):  # opens as soon as a worker does
        (made if whole else stream).close()
        waiting.join(30)
    which = "this Sequence was closed: make a new one"
    which = which if whole else "these batches were closed: make a new pass, iter(seq)"
    assert told == [f"ArgumentError: {which}"]
    made.close()


def test_closing_while_processes_are_started_leaves_none(files, tmp_path):
    pipe = str(tmp_path / "pipe.png")
    os.mkfifo(pipe)
    before = set(psutil.Process().children())
    for _ in range(3):
        made = loader([pipe] * 4, processes=True)
        made.start(0, 0)
        while not any(worker.busy_with for worker in made._maker.pool.workers):
            pass
        made.close()
    _, left = psutil.wait_procs(set(psutil.Process().children()) - before, timeout=10)
    assert left == []


FORKING = """
import os, sys
from test_closing_and_forking import loader, rows_of

def outcome(ask):
    try:
        return rows_of(ask())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def in_child(what):
    pid = os.fork()
    if not pid:
        print(f"child: {what()}", flush=True)
        sys.exit()  # as a script does: what was to be done at its exit is done
    print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

paths = sys.argv[2:]
source, paths[6] = paths[6], "pipe.png"
os.mkfifo(paths[6])
made = loader(paths, sys.argv[1] == "processes")
stream = made.batches()
found = [rows_of(next(stream))]
workers = [worker._child.pid for worker in made._maker.pool.workers if hasattr(worker, "_child")]
in_child(lambda: outcome(lambda: next(stream)))
with open(source, "rb") as file, open(paths[6], "wb") as pipe:
    pipe.write(file.read())
found.append(rows_of(next(stream)))
in_child(lambda: [rows_of(made.batch(0, step)) for step in (0, 2, 3, 4)])
in_child(lambda: outcome(lambda: made.batch(0, 3)))
in_child(lambda: made.close())
found += [rows_of(next(stream)) for _ in range(3)]
print(found == [list(range(step, step + 4)) for step in range(0, 20, 4)], flush=True)
same = [worker._child.pid for worker in made._maker.pool.workers if hasattr(worker, "_child")]
print(same == workers, flush=True)
"""


@pytest.mark.slow
@KINDS
def test_fault_17_a_forked_process_is_told_and_leaves_the_workers_of_its_parent_alone(
    files, tmp_path, processes
):
    kind = "processes" if processes else "threads"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, kind, *files[:20]],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        cwd=tmp_path,
        timeout=50,
    )
    every = [list(range(step, step + 4)) for step in range(0, 20, 4)]
    assert (done.stdout.splitlines(), done.stderr) == (
        [
            "child: ArgumentError: this batch was begun before the process was forked, by workers "
            "that only its parent has: begin a new pass in the forked process, iter(seq), or have "
            "it make a Sequence of its own",
            "exit 0",
            f"child: {[every[0], *every[2:]]}",
            "exit 0",
            f"child: {every[3]}",
            "exit 0",
            "child: None",
            "exit 0",
            "True",
            "True",
        ],
        "",
    )
