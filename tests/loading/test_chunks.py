"""Chunks by themselves, and the worker that makes them: what is read, told, counted and left."""

import contextlib
import errno
import io
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from types import ModuleType, SimpleNamespace

import cloudpickle
import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each
from full_disk import files_of_at_most

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, MissingFileError, TransformError, WorkerError
from dfgen.loading.loader import Loader
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.problems import Failure
from dfgen.loading.workers import processes, shared_memory
from dfgen.loading.workers.chunks import Chunk, ChunkMaker
from dfgen.loading.workers.pool import Pool
from dfgen.loading.workers.process_main import (
    NO_ROW,
    STARTING,
    _portable,
    _received,
    _SharedStopwatch,
)
from dfgen.loading.workers.processes import ProcessWorker, _take_along, pickled
from dfgen.loading.workers.shared_memory import SharedPickle
from dfgen.loading.workers.threads import Threads, ThreadWorker, Worker
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader

ROWS = 8


@pytest.fixture
def frame(tmp_path):
    """A frame of PNG files of 2x2 pixels that hold their row, and of copies that hold it twice."""
    for row in range(ROWS):
        for name, value in (("a", row), ("b", 2 * row)):
            cv2.imwrite(f"{tmp_path}/{name}{row}.png", np.full((2, 2, 3), value, np.uint8))
    paths = {name: [f"{tmp_path}/{name}{row}.png" for row in range(ROWS)] for name in "ab"}
    return pd.DataFrame({"id": range(ROWS), **paths, "number": range(ROWS)})


def reader_of(frame, x, **options):
    return bind(SequenceArguments(frame, x, None, label_mode=None, **options)).reader


def image(name="a", **options):
    return Image(name, size=(2, 2), **options)


class Noted(Stopwatch):
    """Notes each stage and the row of it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __call__(self, stage, nbytes=0):
        super().__call__(stage, nbytes)
        self.seen.append((stage, self.row))


def made(reader, rows=range(ROWS), skip=False, cancelled=lambda: False, fill=None, **options):
    """Return the arrays of a chunk, what stays blank, and the stopwatch."""
    chunk = Chunk(0, np.array(rows), np.zeros(len(rows), int), **options)
    arrays = {
        name: np.full((len(rows), *spec.shape), 99, spec.dtype)
        for name, spec in reader.specs.items()
    }
    stopwatch, maker = Noted(), ChunkMaker(reader, 0, skip)
    if fill is None:
        return arrays, maker.fill(chunk, arrays, stopwatch, cancelled), stopwatch
    return arrays, fill(maker).fill(chunk, arrays, cancelled), None


def numbers_in(pixels):
    return pixels[:, 0, 0, 0].tolist()


def test_each_row_that_is_read_is_told_with_its_stages_and_time_on_a_cpu_counts(frame):
    arrays, blanks, watch = made(reader_of(frame, image()), [3, 5])
    assert (numbers_in(arrays["image"]), blanks) == ([3, 5], {})
    assert watch.seen[0] == ("table", -1) and watch.seen[-1] == ("idle", 5)
    assert [row for stage, row in watch.seen if stage == "read"] == [3, 5]
    assert watch.counts["samples"] == 2 and watch.seconds["cpu"] > 0
    arrays, _, watch = made(reader_of(frame, "number"), [3, 5])
    assert watch.seen == [("table", -1), ("idle", -1)] and arrays["number"].tolist() == [3, 5]
    assert watch.counts["samples"] == 2 and watch.seconds["cpu"] == 0


def test_what_is_cached_is_taken_at_once_and_what_is_known_to_be_bad_stays_blank(frame):
    reader = reader_of(frame, image(), cache="memory")
    for known, hits in (({2}, 0), ({2}, ROWS - 1), ((), ROWS - 1), ({2, 5}, ROWS)):
        arrays, blanks, watch = made(reader, skip=True, known=known)
        assert numbers_in(arrays["image"]) == [0 if row in known else row for row in range(ROWS)]
        assert blanks == dict.fromkeys(known) and watch.counts["samples"] == ROWS - len(known)
        assert watch.counts["cache_hits"] == hits
        assert watch.seen[:3] == [("table", -1), ("read", 0), ("table", 0)]
    assert [stage for stage, _ in watch.seen[3:]] == ["idle"]


def test_rows_that_the_cache_lacks_are_read(frame):
    x = {"one": image(), "other": image("b", flip="horizontal", scale="0..1")}
    reader, plain = (reader_of(frame, x, cache=cache) for cache in ("memory", None))
    made(reader, [1, 2, 3])
    for rows in (range(ROWS), [1, 2, 3]):
        (one, _, _), (other, _, _) = made(reader, rows), made(plain, rows)
        assert all((one[name] == other[name]).all() for name in one)


def test_rows_are_made_until_nobody_wants_them(frame):
    reader, left = reader_of(frame, image()), iter([False] * 3 + [True])
    arrays, _, watch = made(reader, cancelled=lambda: next(left))
    assert numbers_in(arrays["image"]) == [0, 1, 2] + [99] * 5 and watch.counts["samples"] == 3
    for wanted, abandoned in ((True, True), (False, False), (True, False)):

        def worker(maker, abandoned=abandoned):
            one = ThreadWorker(maker)
            one.abandoned = abandoned
            return one

        arrays, _, _ = made(reader, cancelled=lambda wanted=wanted: not wanted, fill=worker)
        assert (arrays["image"][0] == 0).all() == (wanted and not abandoned)


def test_a_bad_row_is_told_by_its_stage_and_by_its_file_where_there_are_several(frame):
    for name, row in (("a", 1), ("b", 2)):
        with open(frame[name][row], "wb") as file:
            file.write(b"no image")
    one, both = (reader_of(frame, x) for x in (image(), {"x": image(), "y": image("b")}))
    arrays, blanks, watch = made(one, skip=True)
    [(place, found)] = blanks.items()
    assert (place, found.stage) == (1, "decode") and numbers_in(arrays["image"])[:3] == [0, 0, 2]
    assert found.reason.startswith("not an image") and watch.counts["samples"] == ROWS - 1
    _, blanks, _ = made(both, skip=True)
    assert [(place, found.reason.partition(":")[0]) for place, found in blanks.items()] == [
        (row, f"a='{frame['a'][row]}', b='{frame['b'][row]}'") for row in (1, 2)
    ]
    with pytest.raises(DecodeError, match=r"^row id=1, a="):
        made(one)


def test_a_missing_file_names_the_files_of_its_row(frame):
    os.remove(frame["b"][4])
    reader = reader_of(frame, {"x": image(), "y": image("b")})
    with pytest.raises(MissingFileError, match=r"^row id=4, "):
        made(reader)


def test_a_function_may_ask_another_loader_for_a_batch_and_never_its_own():
    def loader(transform=None):
        numbers = BoundFeature("number", Number("number"), np.arange(4))
        reader = SampleReader(np.arange(4), (numbers,), transform)
        return Loader(reader, batch_size=2, shuffle=False, workers=0)

    other, asked = loader(lambda sample, rng: sample), []

    def ask(sample, rng):
        asked.append(other.batch(0, 1).arrays["number"].tolist())
        own.batch(0, 1)

    own = loader(ask)
    for _ in range(2):
        with pytest.raises(TransformError, match="asks that Sequence for a batch"):
            own.batch(0, 0)
    assert asked == [[2, 3]] * 2


def test_tasks_that_nobody_has_begun_are_told_of_the_end(monkeypatch):
    monkeypatch.setattr("dfgen.loading.workers.threads._PATIENCE", 0.01)
    threads, begun, gate, told = Threads(2, Worker), threading.Barrier(3), threading.Event(), []

    def wait(worker):
        begun.wait(30)
        gate.wait(30)

    for task in (wait, wait, told.append):
        threads.submit(task)
    begun.wait(30)
    threads.close()
    assert [worker.abandoned for worker in told] == [True] and threads.closed
    gate.set()
    for one in threads._threads:
        one.join(30)
        assert not one.is_alive() and one.daemon


def test_a_wait_for_a_batch_looks_at_it_now_and_then():
    def waits_for(times, timeout, **state):
        waits = []
        pending = SimpleNamespace(**{"late": set(), "cancelled": False, **state})
        pending.wait = lambda seconds: waits.append(seconds) or len(waits) > times
        return pool.wait(pending, timeout), waits

    pool = Pool(ChunkMaker(SampleReader(np.arange(1), ()), 0, False), 1, False, {}, 1)
    assert waits_for(3, None) == (set(), [1.0] * 4)
    assert waits_for(2, 2.0) == (set(), [0.5] * 3) and waits_for(1, 100.0) == (set(), [1.0] * 2)
    assert waits_for(9, None, late={4}) == ({4}, [])
    with pytest.raises(ArgumentError, match="this Sequence was closed"):
        waits_for(9, None, cancelled=True)
    pool.close()
    with pytest.raises(ArgumentError, match="this Sequence was closed"):
        waits_for(9, None)


def test_a_file_that_takes_too_long_is_given_up_once_however_long_nobody_waited(monkeypatch):
    class Busy(Worker):
        in_hand = None

        def file(self):
            return self.in_hand

    told, clock = [], SimpleNamespace(now=1000.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr("dfgen.loading.workers.pool.time", clock)
    pool = Pool(ChunkMaker(SampleReader(np.arange(1), ()), 0, False), 2, False, {}, 1)
    pool._make_worker = lambda process: Busy
    pool.run(lambda worker: None)

    def waited(worker=None, row=None, step=0.0):
        """Wait for a batch that is made 20 seconds after a step; return its late rows, and when."""
        pending, end = SimpleNamespace(late=set(), cancelled=False), clock.now + step + 20
        pending.give_up = lambda row: told.append(row) or pending.late.add(row)
        if worker is not None:
            worker.busy_with, worker.in_hand = pending, (row, clock.now)
        clock.now += step  # in which nobody waits: of training, or the program was stopped

        def wait(seconds):
            clock.now += seconds
            return clock.now >= end

        pending.wait = wait
        return pool.wait(pending, 9.0), clock.now - end + 20

    one, other = pool.workers
    assert waited() == (set(), 20)
    assert waited(one, 7) == ({7}, 10) and one.abandoned and not other.abandoned
    assert waited() == (set(), 20) and pool.abandoned == 1 and len(pool.workers) == 3
    assert waited(other, 8, step=2.0) == ({8}, 8)
    assert waited(pool.workers[2], 9, step=5.0) == ({9}, 10)
    assert told == [7, 8, 9]
    pool.close()


# Processes


def worker_of(frame, skip=True):
    maker = ChunkMaker(reader_of(frame, image()), 0, skip)
    return ProcessWorker(maker, pickled(maker), {}, 1)


class Child:
    """A process that has ended, or never does unless it is killed."""

    def __init__(self, code=-9, ends=True):
        self.stdin, self.stdout, self.code, self.ends = io.BytesIO(), io.BytesIO(), code, ends

    def wait(self, patience=None):
        if not self.ends:
            raise subprocess.TimeoutExpired("", patience)
        return self.code

    def kill(self):
        self.ends = True


@each(
    ("code", "how", "short"),
    [
        (3, "exit code 3", ""),
        (0, "exit code 0", ""),
        (-signal.SIGSEGV, "killed by SIGSEGV", ""),
        (-9, "killed by SIGKILL", ", as the system does where memory is short: see its log, dmesg"),
    ],
)
def test_a_row_on_which_three_processes_die_is_skipped_or_told(frame, code, how, short):
    def bury(worker, *rows):
        for row in rows:
            worker._header, worker._child = np.array([1.0, row, 0]), Child(code)
            found = worker._bury(chunk, deaths)
            assert worker._child is None and worker._header[0] == 0
        return found

    chunk, where = Chunk(0, np.arange(4), np.zeros(4)), f"row id=2, a='{frame['a'][2]}'"
    died = f"3 worker processes died on this row (the last: {how}{short})"
    made = f"row id=0, a='{frame['a'][0]}' and 3 more"
    deaths = Counter()
    assert bury(worker_of(frame), 2, 2) == {} and bury(worker_of(frame), 2) == {2: ("worker", died)}
    assert bury(worker_of(frame), 1, 1, NO_ROW, NO_ROW, NO_ROW) == {}  # the three do not count
    for rows, skip, said in (
        ((2, 2, 2), False, f"{where}: {died}"),
        ((0, 0, 0), False, f"{where}: {died}".replace("2", "0", 1).replace("a2", "a0")),
        ((STARTING,) * 3, True, f"a worker process cannot start ({how}): see what it printed. It "
         f"was to make {made}"),
        ((0, 1, 2, 3, 0, 1), True, f"6 worker processes died while they made {made} (the last: "
         f"{how}), less than 3 times on any row: {processes._OTHER_CAUSES}"),
    ):  # fmt: skip
        deaths = Counter()
        with pytest.raises(WorkerError) as caught:
            bury(worker_of(frame, skip), *rows)
        assert str(caught.value) == said
    worker = worker_of(frame)
    worker._header, worker._child = np.zeros(3), Child(5, ends=False)
    assert worker._end() == 5 and worker._end() == 0


def test_a_chunk_is_asked_of_another_process_when_one_dies_and_blames_its_rows(frame):
    def ask(chunk, arrays):
        known.append(chunk.known)
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    worker, known, why = worker_of(frame), [], Failure("worker", "died")
    worker._ask, worker._bury = ask, lambda chunk, deaths: {2: why} if len(known) == 2 else {}
    worker._memory = bytearray(64)
    reply = {2: None, 3: Failure("read", "x")}, {"read": 5.0}, Counter(samples=2), None, {}
    answers = iter([EOFError(), BrokenPipeError(), pickle.UnpicklingError(), reply])
    chunk = Chunk(0, np.arange(4), np.zeros(4))
    assert worker.fill(chunk, {}, lambda: False) == {2: why, 3: Failure("read", "x")}
    assert known == [(), set(), {2}, {2}]
    assert worker.stopwatch.seconds["read"] == 5.0 and worker.stopwatch.counts["samples"] == 2
    answers = iter([(*reply[:3], KeyError("of the process"), {})])
    with pytest.raises(KeyError, match="of the process"):
        worker.fill(chunk, {}, lambda: False)
    assert worker.fill(chunk, {}, lambda: True) == {}
    worker.abandoned, answers = True, iter([EOFError()])
    assert worker.fill(chunk, {}, lambda: False) == {}


@each(
    ("number", "tries", "more"),
    [(errno.EMFILE, 3, True), (errno.ENFILE, 3, True), (errno.ENOMEM, 3, False),
     (errno.ENOENT, 1, False)],
)  # fmt: skip
def test_a_process_that_cannot_start_is_tried_again_if_that_may_pass(
    frame, monkeypatch, number, tries, more
):
    def fail(*given, **options):
        tried.append(given)
        raise OSError(number, "no")

    tried, waits, worker = [], [], worker_of(frame)
    with monkeypatch.context() as patch:
        patch.setattr(processes, "WAITS", (0.1, 0.4))
        patch.setattr(processes, "waited", lambda wait, cancelled: waits.append(wait) or True)
        patch.setattr(processes.subprocess, "Popen", fail)
        with pytest.raises(WorkerError) as caught:
            worker._spawned_at_last()
        said = f"a worker process cannot start: [Errno {number}] no"
        assert str(caught.value) == said + processes._MORE_FILES * more and len(tried) == tries
        assert waits == [0.1, 0.4][: tries - 1]
    with monkeypatch.context() as patch:
        patch.setattr(processes.subprocess, "Popen", fail)
        patch.setattr(processes, "WAITS", (1000.0,))
        worker.abandon()
        with pytest.raises(WorkerError, match="cannot start"):
            worker._spawned_at_last()
    worker.close()


def test_the_row_in_hand_is_seen_from_outside_while_its_file_is_read(frame):
    header, worker = np.zeros(3), worker_of(frame)
    assert worker.file() is None
    worker._header, watch = header, _SharedStopwatch(header)
    for row in (7, 3):
        watch.row = row
        watch("read")
        since = watch.since
        for stage in ("read", "decode", "resize"):
            _ = stage == "read" or watch(stage)
            assert worker.file() == (row, since)
        watch("transform", 5)
        assert worker.file() is None and header[1] == row
    watch.leave_row()
    assert header[1] == NO_ROW and watch.stage == "idle"
    seconds, counts = watch.take()
    assert counts == {"bytes": 10} and seconds["read"] > 0
    assert {*watch.take()[0].values()} == {0.0} and watch.counts == {}


def test_an_error_comes_from_a_process_as_it_is_or_told_by_another_if_it_cannot_travel():
    class Local(Exception):
        pass

    noted = TransformError("of dfgen")
    noted.add_note("in the function")
    assert _portable(noted).__notes__ == ["in the function"]
    for error, kind, said in (
        (KeyError("a"), KeyError, "'a'"),
        (TransformError("plain"), TransformError, "plain"),
        (Local("odd"), WorkerError, "Local: odd"),
    ):
        found = pickle.loads(pickle.dumps(_portable(error)))
        assert (type(found), str(found)) == (kind, said)
        [note] = found.__notes__
        assert note.startswith("In the worker process:\n") and type(error).__name__ in note


def test_a_process_to_which_nothing_more_is_sent_ends():
    whole = pickle.dumps((1, 2))
    assert _received(io.BytesIO(whole)) == (1, 2)
    for cut in (b"", whole[:-2]):
        with pytest.raises(SystemExit):
            _received(io.BytesIO(cut))


def test_modules_that_no_process_can_import_travel_with_the_functions_in_them(monkeypatch):
    before = cloudpickle.list_registry_pickle_by_value()
    monkeypatch.setitem(sys.modules, "a_job.of_mine", ModuleType("a_job.of_mine"))
    monkeypatch.setitem(sys.modules, "alias", sys.modules["json"])
    for name in (None, "", "no_module", "__main__", "json", "alias", "dfgen.spec"):
        _take_along(name)
    assert cloudpickle.list_registry_pickle_by_value() == before
    for _ in range(2):
        _take_along("a_job.of_mine")
    assert cloudpickle.list_registry_pickle_by_value() - before == {"a_job.of_mine"}
    cloudpickle.unregister_pickle_by_value(sys.modules["a_job.of_mine"])


def test_memory_that_processes_share_is_given_back_and_what_has_no_room_is_told(monkeypatch):
    sent = SharedPickle(np.zeros(1 << 20))
    (handle,) = sent.handles
    assert os.fstat(handle).st_size == 1 << 23
    del sent
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
    monkeypatch.setattr(shared_memory, "HAS_MEMORY_FILES", False)
    size = (5 << 20) + 7
    file, memory = shared_memory.shared_memory(size)
    assert (len(memory), os.fstat(file.fileno()).st_size, file.tell()) == (size, size, 0)
    with files_of_at_most(900), pytest.raises(WorkerError) as caught:
        shared_memory.shared_memory(size)
    assert str(caught.value).startswith("5,242,887 bytes that workers share have no room in ")
    for one in (memory, file):
        one.close()


@pytest.mark.skipif(not shared_memory.HAS_MEMORY_FILES, reason="no memory without a name here")
def test_a_lack_of_descriptors_is_not_told_as_one_of_the_memory_that_processes_share():
    old, free = resource.getrlimit(resource.RLIMIT_NOFILE), os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, old[1]))  # for the file, not its memory
    try:
        with pytest.raises(OSError, match="Too many open files"):
            shared_memory.shared_memory(1 << 12)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)


def test_a_transform_that_prints_reads_or_forks_leaves_the_parent_alone(frame, capfd):
    def talk(sample, rng):
        print("of Python")
        os.write(1, b"of C\n")
        assert sys.stdin.read() == "" and os.read(0, 1) == b""
        return sample

    class Forking(Image):
        def read(self, *given):
            if os.fork():
                assert os.wait()[1] == 0
            return super().read(*given)

    reader = reader_of(frame, {"image": Forking("a", size=(2, 2))}, transform=talk)
    with contextlib.closing(
        Loader(reader, batch_size=4, shuffle=False, use_multiprocessing=True, workers=1)
    ) as one:
        found = [row for batch in one.batches() for row in numbers_in(batch.arrays["image"])]
    told = capfd.readouterr()
    assert found == [*range(ROWS)] and told.out == "" and "of C\n" in told.err


def test_a_column_without_files_needs_no_row_by_row_work_in_a_process(frame):
    reader = SampleReader(pa.array(range(ROWS)), reader_of(frame, "number").features)
    given = {"batch_size": 4, "shuffle": False, "use_multiprocessing": True, "workers": 2}
    with contextlib.closing(Loader(reader, **given)) as one:
        assert [batch.arrays["number"].tolist() for batch in one.batches()] == [
            [0, 1, 2, 3], [4, 5, 6, 7]
        ]  # fmt: skip
        assert one.metrics.use_multiprocessing and one.metrics.samples == ROWS
