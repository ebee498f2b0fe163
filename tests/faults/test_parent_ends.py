"""Workers end with their program, however and wherever it ends, and never keep it."""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest

PROGRAM = """
import os, sys, threading
import numpy as np
import pyarrow as pa
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader

def stay(sample, rng):
    import threading
    threading.Event().wait()

def same(sample, rng):
    return sample

def loader(processes, transform=same, **options):
    numbers = BoundFeature("number", Number("number"), np.arange(24, dtype=np.int32))
    reader = SampleReader(np.arange(24), (numbers,), transform)
    return Loader(reader, **{"batch_size": 4, "shuffle": False, "workers": 2,
                             "use_multiprocessing": processes, **options})
"""
KINDS = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


@contextlib.contextmanager
def started(code, *arguments):
    command = [sys.executable, "-c", PROGRAM + code, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as program:
        try:
            yield program
        finally:
            program.kill()


def spent(process):
    return sum(process.cpu_times()[:2])


MOMENTS = [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8]
few = [pytest.param(each, marks=() if each == 0.1 else pytest.mark.slow) for each in MOMENTS]


@pytest.mark.parametrize("moment", few)
def test_fault_09_workers_that_are_being_started_end_with_a_killed_parent(moment):
    """After so many seconds of CPU time of the first worker."""
    code = "print('made', flush=True)\nloader(True, stay).batch(0, 0)\n"
    with started(code) as parent:
        assert parent.stdout.readline() == "made\n"
        while not (workers := psutil.Process(parent.pid).children()):
            assert parent.poll() is None
        while spent(workers[0]) < moment and workers[0].status() != psutil.STATUS_SLEEPING:
            pass
        workers = psutil.Process(parent.pid).children()
        parent.kill()
        assert psutil.wait_procs(workers, timeout=30)[1] == []
        assert parent.stderr.read() == ""


def test_fault_09_workers_that_are_busy_for_ever_end_with_a_killed_parent(tmp_path):
    """A pipe ends for its reader when the last process that has it open for writing has ended."""
    os.mkfifo(tmp_path / "pids")
    code = """
def tell(sample, rng, path=sys.argv[1]):  # of this program, not of a worker
    import os
    pids = open(path, "w")
    print(os.getpid(), file=pids, flush=True)
    stay(sample, rng)

loader(True, tell).batch(0, 0)
"""
    with started(code, tmp_path / "pids") as parent, open(tmp_path / "pids") as pids:
        assert len({pids.readline(), pids.readline()}) == 2
        parent.kill()
        assert pids.read() == ""


ENDINGS = {
    "at the end": "pass",
    "sys.exit": "sys.exit()",
    "an error": "raise SystemExit(0) from KeyError()",
    "in the middle of a pass": "next(batches); next(batches)",
    "from a thread": "thread = threading.Thread(target=lambda: next(batches)); thread.start()",
    "with a thread that waits": "threading.Thread(target=wait, daemon=True).start()",
}


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("ending", ENDINGS)
def test_fault_14_a_program_ends_at_once_with_full_queues(processes, ending):
    code = f"""
made = loader({processes}, max_queue_size=50)
batches = made.batches()
next(batches)

def wait():
    try:
        list(batches)
    except ValueError:  # they were closed
        pass

{ENDINGS[ending]}
"""
    with started(code) as program:
        told = program.communicate(timeout=50)
    assert (program.returncode, *told) == (0, "", "")


@KINDS
def test_fault_14_a_program_ends_while_its_workers_are_stuck(processes):
    """They make a row that takes for ever; no one waits for them."""
    code = f"""
stuck = os.pipe()

def tell(sample, rng, told=stuck[1]):
    import os, threading
    threading.Event().wait()

made = loader({processes}, tell, workers=3)
made.start(0, 0)
while not any(worker.busy_with for worker in made._maker.pool.workers):
    pass
"""
    with started(code) as program:
        told = program.communicate(timeout=50)
    assert (program.returncode, *told) == (0, "", "")
