"""Reads and decodes that never return, or late: another worker takes over, and the epoch ends."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from loaders import batches_of

from dfgen.errors import ReadTimeoutError
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.samples.features.arrays import Array
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundFeature, SampleReader

KINDS = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


def loader(paths, processes=False, timeout=0.5, feature=None, **options):
    feature = feature or Image("path", size=(4, 4))
    reader = SampleReader(np.arange(len(paths)), (BoundFeature("x", feature, pa.array(paths)),))
    return Loader(
        reader,
        **{
            "batch_size": 4,
            "workers": 2,
            "use_multiprocessing": processes,
            "limits": Limits(read_timeout=timeout),
            **options,
        },
    )


def rows_of(batch):
    return batch.arrays["x"][:, 0, 0, 0].tolist()


def let_go(pipe):
    """End the reads of a pipe, so that the threads that are stuck in them end."""
    writer = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, b"x")
    os.close(writer)


@pytest.fixture
def pipes(tmp_path):
    """Return a function: paths of pipes that nobody writes to, whose reads never return."""
    made = []

    def make(count):
        made.extend(str(tmp_path / f"{len(made) + each}.png") for each in range(count))
        for path in made[-count:]:
            os.mkfifo(path)
        return made[-count:]

    yield make
    for path in made:
        let_go(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "rows"),
    [(False, (4, 5)), (False, (8, 12)), (True, (5, 17))],
    ids=["one batch", "two batches", "processes"],
)
def test_hung_reads_are_skipped_and_other_rows_kept(files, pipes, processes, rows):
    seconds = 1.5 if processes else 0.5
    paths = files[:20]
    for row, pipe in zip(rows, pipes(2), strict=True):
        paths[row] = pipe
    made = loader(paths, processes, seconds, on_error="skip")
    for _ in range(2):
        found = [row for batch in batches_of(made) for row in rows_of(batch)]
        assert found == [0 if row in rows else row for row in range(20)]
        told = {row: (found.stage, found.epoch) for row, found in made.problems.items()}
        assert told == dict.fromkeys(rows, ("timeout", 0))
        assert {found.reason for found in made.problems.values()} == {
            f"to read and decode its file took longer than limits.read_timeout={seconds} seconds"
        }
    assert made.metrics.abandoned == 2
    made.close()


def test_late_row_is_reported_with_its_own_batch(files, pipes):
    paths = files[:16]
    paths[1], paths[11] = pipes(2)
    made = loader(paths, on_error="skip")
    problems = [[*made.problems] for _ in batches_of(made)]
    assert problems == [[1], [1], [1, 11], [1, 11]]
    made.close()


@pytest.mark.slow
@KINDS
def test_hung_user_decode_times_out(files, pipes, processes):
    (pipe,) = pipes(1)

    def decode(data):
        if data == third:
            with open(pipe, "rb") as file:
                file.read()
        return np.full(2, len(data))

    third = Path(files[3]).read_bytes()
    feature = Array("path", (2,), decode=decode)
    made = loader(files[:8], processes, 1.5 if processes else 0.5, feature, on_error="skip")
    assert len(list(batches_of(made))) == 2
    assert [*made.problems] == [3]
    assert made.metrics.abandoned == 1
    made.close()


def test_more_than_32_stuck_threads_are_an_error(pipes):
    limits = Limits(read_timeout=0.1, problems=1.0)
    options = {"on_error": "skip", "workers": 16, "batch_size": 48}
    made = loader(pipes(40), limits=limits, **options)
    with pytest.raises(ReadTimeoutError, match="32 files took longer"):
        list(batches_of(made))
    assert made.metrics.abandoned == 32
    made.close()


def test_read_timeout_needs_workers(files):
    made = loader(files[:4], workers=0, timeout=Limits().read_timeout)
    assert len(list(batches_of(made))) == 1
    with pytest.raises(ValueError, match="needs workers"):
        loader(files[:4], workers=0, timeout=60)


@KINDS
def test_closing_wakes_waiters_of_a_hung_read(files, pipes, processes):
    made = loader([*files[:3], *pipes(1)], processes, timeout=None)
    told = []

    def wait():
        try:
            made.batch(0, 0)
        except ValueError as error:
            told.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not any(worker.file() for worker in made._workers.started):
        threading.Event().wait(0.01)
    made.close()
    waiting.join(30)
    assert told == ["this Sequence was closed: make a new one"]


def test_slow_reads_change_nothing(files, tmp_path):
    """Every fourth file comes through a pipe, the last ones first, after all others."""
    paths, fed = files[:24], {}
    for row in range(0, 24, 4):
        fed[row] = str(tmp_path / f"{row}.png")
        os.mkfifo(fed[row])
        paths[row] = fed[row]

    def feed():
        for row in reversed(fed):
            with open(files[row], "rb") as source, open(fed[row], "wb") as pipe:
                pipe.write(source.read())

    feeding = threading.Thread(target=feed)
    made = loader(paths, timeout=30, workers=len(fed))
    feeding.start()
    found = [rows_of(batch) for batch in batches_of(made)]
    feeding.join()
    fast = loader(files[:24])
    assert found == [rows_of(batch) for batch in batches_of(fast)]
    assert made.metrics.abandoned == 0
    made.close()
    fast.close()


@pytest.mark.slow
def test_abandoned_process_leaves_no_memory_behind(files, pipes):
    paths = files[:8]
    paths[2], paths[6] = pipes(2)
    made = loader(paths, True, 1.5, on_error="skip", workers=1)
    assert len(list(batches_of(made))) == 2
    assert made.metrics.abandoned == 2
    deadline = time.monotonic() + 20
    while (shared := Path("/proc/self/maps").read_text().count("memfd:dfgen")) > 1:
        assert time.monotonic() < deadline, shared
        gc.collect()
    made.close()


def test_work_of_an_abandoned_worker_is_repeated(files):
    """Its read came back just then, and it went on to the next chunk."""
    given_up = []

    def decode(data):
        if data == first and not given_up:
            given_up.extend(made._workers.started)
            [pool] = made._workers._pools.values()
            pool.replace(given_up[0])
        return np.full(2, len(data))

    first = Path(files[0]).read_bytes()
    made = loader(files[:8], feature=Array("path", (2,), decode=decode), workers=1)
    sizes = [batch.arrays["x"][:, 0].tolist() for batch in batches_of(made)]
    assert sizes == [[os.path.getsize(path) for path in files[at : at + 4]] for at in (0, 4)]
    assert given_up and made.metrics.abandoned == 1
    made.close()


STOPPED = """
import os, signal, sys, threading, time
import numpy as np, pyarrow as pa
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.samples.reader import BoundFeature
from dfgen.samples.features.arrays import Array
from dfgen.samples.reader import SampleReader

begun = threading.Event()

def decode(data):
    begun.set()
    for _ in range(4):  # each ends at once if the process was stopped meanwhile, all do not
        time.sleep(0.2)
    return np.frombuffer(data, np.uint8)[:2]

x = BoundFeature("x", Array("path", (2,), "uint8", decode=decode), pa.array([sys.argv[1]] * 8))
loader = Loader(
    SampleReader(np.arange(8), (x,)), batch_size=2, workers=2, limits=Limits(read_timeout=2)
)
rows, ahead = [], loader.stream(0)
for batch in (next(ahead) for _ in range(len(loader))):
    rows += batch.rows.tolist()
    if sys.argv[2] == "trains" and len(rows) == 2:  # nobody waits for a batch
        begun.clear(), begun.wait()
        os.kill(os.getpid(), signal.SIGSTOP)
    elif len(rows) == 2:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGSTOP)).start()
loader.close()
assert sorted(rows) == [*range(8)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("main_thread", ["waits", "trains"])
def test_time_stopped_does_not_count_as_read_time(tmp_path, main_thread):
    (tmp_path / "two").write_bytes(b"ab")
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "two"), main_thread]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    os.waitpid(child.pid, os.WUNTRACED)
    threading.Event().wait(4)  # that is the case: longer than a read may take
    os.kill(child.pid, signal.SIGCONT)
    said = child.communicate()[1]
    assert (child.returncode, said) == (0, "")
