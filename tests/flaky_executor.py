"""An executor that loses, drops, doubles, delays and reorders tasks, and workers that are odd."""

import os
import random
import signal
import warnings
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from threading import Lock

import dfgen
from dfgen import executors
from dfgen.commands.options import executor_of
from dfgen.manifest.building import file_facts, scan


class FlakyExecutor(Executor):
    """Does each task with odds, one at a time: `faults` counts what went wrong.

    No task is lost twice, because a file that is lost three times has a problem.

    Args:
        seed: of the faults.
    """

    _max_workers = 4

    def __init__(self, seed):
        self._random, self._lock, self._pool = random.Random(seed), Lock(), ThreadPoolExecutor(1)
        self._waiting, self._lost = [], set()
        self.faults = dict.fromkeys(("drop", "lose", "double", "reorder"), 0)

    def submit(self, call, /, *arguments):
        future = Future()
        with self._lock:
            self._waiting.append((future, call, arguments))
        self._pool.submit(self._step)
        return future

    def _step(self):
        with self._lock:
            place = self._random.randrange(len(self._waiting))
            self.faults["reorder"] += place > 0
            future, call, arguments = self._waiting.pop(place)
        fault = self._random.choice([*[""] * 6, "double", "lose", "drop"])
        if fault in ("drop", "lose"):
            fault = "" if repr(arguments) in self._lost else fault
            self._lost.add(repr(arguments))
        self.faults |= {fault: self.faults.get(fault, 0) + 1}
        if fault == "drop":
            future.cancel()
            future.set_running_or_notify_cancel()
        elif future.set_running_or_notify_cancel():
            if fault == "lose":
                future.set_exception(BrokenExecutor("a worker is gone"))
            else:
                _ = fault == "double" and call(*arguments)
                future.set_result(call(*arguments))


def die_at(name=""):
    """Have this process die when it opens a file of that name, or any."""
    read = file_facts._read

    def deadly(path, store, decode):
        if name in ("", os.path.basename(path)):
            os.kill(os.getpid(), signal.SIGKILL)
        return read(path, store, decode)

    file_facts._read = deadly


def seen_there(access):
    """Return what a worker has of what was given here."""
    return access.workers, access.limits.decoded_bytes, dict(access.options)


def be_of(version="0.0.1"):
    """Have this process run another version of dfgen."""
    executors.__version__ = version


def build_and_die(event, arguments, workers=None):
    """Build a manifest, and die of SIGKILL in the midst of reading, writing or renaming a file.

    `event` counts these, from 0; all facts are kept at once. `workers` are processes that read.
    """
    left = iter(range(event, -1, -1))

    def dying(call):
        def counted(*given, **named):
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **named)

        return counted

    file_facts.TASK = file_facts.DECODED = 4
    file_facts.KEPT_EVERY = 0
    file_facts.header_of = dying(file_facts.header_of)
    file_facts.decode_whole = dying(file_facts.decode_whole)
    for name in ("fsync", "replace", "rename", "makedirs", "unlink"):
        setattr(os, name, dying(getattr(os, name)))
    scan.SPANS = {False: (4, 4), True: (4, 4)}
    warnings.simplefilter("ignore")
    with executor_of(workers, None) as executor:
        dfgen.build_manifest(**arguments, executor=executor)
