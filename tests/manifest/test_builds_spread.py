import os
import random
import resource
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import flaky_executor
import psutil
import pyarrow.compute as pc
import pytest
from flaky_executor import FlakyExecutor
from full_disk import files_of_at_most
from PIL import Image
from spread_builds import FILES, SPLIT, build, write_images

import dfgen
from dfgen.errors import ArgumentError, WorkerError, WriteError
from dfgen.executors import Work, spread
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building import file_facts, kept_facts, scan
from dfgen.manifest.building.kept_facts import KeptFacts
from dfgen.manifest.fingerprint import fingerprint
from dfgen.stores.store import StorageOptions

pytestmark = pytest.mark.filterwarnings(
    "ignore:[0-9]+ problem", "ignore:.*more than one split", "ignore:Kept 1 row"
)
HOW = ("header", "full", "update header", "update full", "workers header", "workers full")
processes = partial(ProcessPoolExecutor, 1, get_context("forkserver"))


@pytest.fixture
def data(tmp_path, monkeypatch):
    write_images(tmp_path)
    monkeypatch.setattr(scan, "SPANS", {False: (4, 4), True: (4, 4)})
    return tmp_path


@pytest.fixture
def opened(monkeypatch):
    """Names of the files whose headers are read in this process."""
    names, read = [], file_facts.header_of
    monkeypatch.setattr(
        file_facts,
        "header_of",
        lambda file, limits: names.append(os.path.basename(file.name)) or read(file, limits),
    )
    return names


@pytest.mark.parametrize("facts", ["header", "full"])
def test_an_executor_that_drops_doubles_delays_and_reorders_gives_the_serial_manifest(data, facts):
    serial, seen = build(data, facts=facts), {}
    for seed in range(6):
        executor = FlakyExecutor(seed)
        spread = build(data, f"{seed}.parquet", facts=facts, executor=executor)
        assert fingerprint(spread) == fingerprint(serial)
        assert spread.equals(serial)
        seen = {name: seen.get(name, 0) + number for name, number in executor.faults.items()}
    assert all(seen.values()), seen


def test_a_manifest_that_grows_and_verify_are_the_same_over_an_executor(data):
    build(data)
    Image.new("L", (40, 3)).save(data / "imgs/cat/100.png")
    Image.new("L", (40, 3)).save(data / "imgs/cat/002.png")
    findings = [
        dfgen.verify(data / "m.parquet", decode=decode, executor=executor)
        for decode in (False, True)
        for executor in (None, FlakyExecutor(1))
    ]
    for one, other in (findings[:2], findings[2:]):
        assert one.equals(other) and {*one["change"]} == {"broken", "changed"}
    grown = {"update": data / "m.parquet"}
    serial = build(data, "serial.parquet", **grown)
    assert build(data, "spread.parquet", executor=FlakyExecutor(2), **grown).equals(serial)


def test_a_file_that_kills_each_worker_is_found_and_has_a_problem(data):
    deadly = partial(processes, initializer=flaky_executor.die_at, initargs=("013.png",))
    table = build(data, executor=deadly).to_pylist()
    serial = build(data, "serial.parquet").to_pylist()
    bad = {row["path"][-7:]: row["problem"] for row in table if row["problem"]}
    assert bad.pop("013.png").startswith("each worker that read it was lost: ")
    assert len(bad) == 2
    assert [a for a, b in zip(table, serial, strict=True) if a != b] == [table[6 + FILES // 2]]


def test_an_executor_that_is_gone_is_said_and_the_next_goes_on(data, monkeypatch, opened):
    monkeypatch.setattr(kept_facts, "KEPT_EVERY", 0)
    serial = build(data)
    read, opened[:] = [*opened], []

    class Ending(ThreadPoolExecutor):
        left = 5

        def submit(self, *call):
            self.left -= 1
            if not self.left:
                self.shutdown()
            return super().submit(*call)

    folder = data / "again.parquet.building"
    with pytest.raises(WorkerError) as caught:
        build(data, "again.parquet", executor=Ending(1))
    assert str(caught.value) == (
        "the executor takes no more tasks: cannot schedule new futures after shutdown. Finished "
        f"work is not lost: run it again with another executor, and it goes on: {folder} has the "
        "facts"
    )
    kept, opened[:] = {*opened}, []
    assert folder.is_dir() and kept
    assert build(data, "again.parquet").equals(serial)
    assert {*opened} & kept <= {"010.png", "011.png"} and {*opened} | kept == {*read}


@pytest.mark.parametrize(
    ("facts", "kills"),
    [("header", 3), *(pytest.param(facts, 20, marks=pytest.mark.slow) for facts in HOW)],
)
def test_a_build_that_is_killed_anywhere_goes_on(data, opened, facts, kills):
    change, _, kind = facts.rpartition(" ")
    how, workers = {"facts": kind}, 1 if change == "workers" else None
    if change == "update":
        build(data, "old.parquet", **how)
        how["update"] = data / "old.parquet"
        for row in range(100, 160):
            Image.new("L", (40, 3), row).save(data / f"imgs/cat/{row}.png")
    serial, context = build(data, "serial.parquet", **how), get_context("forkserver")
    arguments = {"source": data / "imgs", "pattern": "{kind}/{id}.png", "split": SPLIT, **how}
    kept = KeptFacts.beside(str(data / "m.parquet"), facts.endswith("full"), DEFAULT)
    died = random.Random(facts).sample(range(60), kills)
    for event in died:
        given = (event, {**arguments, "out": data / "m.parquet"}, workers)
        process = context.Process(target=flaky_executor.build_and_die, args=given)
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        before = kept.read()
        known = before.filter(pc.is_valid(before["format"]))["path"].to_pylist() if before else ()
        opened.clear()
        assert build(data, **how).equals(serial)
        assert not {*opened} & {*map(os.path.basename, known)}
        os.unlink(data / "m.parquet")


def test_facts_that_a_build_of_other_limits_has_kept_are_not_taken():
    ways = [(full, limits) for full in (True, False) for limits in (DEFAULT, Limits(file_bytes=9))]
    assert len({KeptFacts.beside("m.parquet", *way).kind for way in ways}) == len(ways)


def test_a_disk_that_is_full_is_said_and_what_was_kept_stays(data, monkeypatch, opened):
    monkeypatch.setattr(kept_facts, "KEPT_EVERY", 0)
    serial = build(data)
    folder = data / "again.parquet.building"

    class Filling(ThreadPoolExecutor):
        left = 6

        def submit(self, *call):
            self.left -= 1
            if not self.left:
                resource.setrlimit(resource.RLIMIT_FSIZE, (900, resource.RLIM_INFINITY))
            return super().submit(*call)

    said = rf"^{folder}/\S+\.arrow cannot be written: \[Errno 27\] File too large\. Nothing was "
    with files_of_at_most(10**9), Filling(1) as executor, pytest.raises(WriteError, match=said):
        build(data, "again.parquet", executor=executor)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert kept and all(name.endswith(".arrow") for name in kept)
    with files_of_at_most(900), pytest.raises(WriteError, match=r"cannot be written: .* too large"):
        build(data, "again.parquet")
    assert kept == {path.name: path.read_bytes() for path in folder.iterdir()}
    opened.clear()
    assert build(data, "again.parquet").equals(serial) and len(opened) < FILES


def test_the_processes_of_a_command_that_is_killed_end(data, tmp_path):
    given = (0, {"source": data / "imgs", "out": data / "m.parquet"}, 2)
    process = get_context("forkserver").Process(target=flaky_executor.build_and_die, args=given)
    process.start()
    seen = {}
    while process.is_alive():  # its workers are seen sooner or later, as they take long to start
        with suppress(psutil.NoSuchProcess):
            seen |= {one.pid: one for one in psutil.Process(process.pid).children(recursive=True)}
        process.join(0.01)
    assert process.exitcode == -signal.SIGKILL
    assert len(seen) >= 2
    _, alive = psutil.wait_procs(seen.values(), timeout=60)
    assert not alive


class Elsewhere(Executor):
    """Its worker does not see a folder."""

    def __init__(self, folder):
        self._folder = folder

    def submit(self, call, *arguments):
        future = Future()
        hidden = self._folder.with_name("hidden")
        os.rename(self._folder, hidden)
        future.set_result(call(*arguments))
        os.rename(hidden, self._folder)
        return future


@pytest.mark.parametrize("options", [{}, {"facts": "full"}])
def test_workers_without_the_files_are_named_with_host_and_path(data, options):
    said = rf"{data}/imgs/.*\.png is there, and the worker on .* says: the file does not exist\. "
    with pytest.raises(WorkerError, match=said):
        build(data, executor=Elsewhere(data / "imgs"), **options)


def test_workers_with_another_dfgen_are_named(data):
    with (
        processes(initializer=flaky_executor.be_of) as executor,
        pytest.raises(WorkerError, match=r"the worker on .* has dfgen 0\.0\.1, and here is "),
    ):
        build(data, executor=executor)


def test_limits_and_storage_options_travel_to_workers():
    access = file_facts.Access(2, dfgen.Limits(file_bytes=9), StorageOptions({"token": "x"}))
    with processes() as executor:
        work = Work(flaky_executor.seen_there, lambda task: (access,), str)
        [(_, outcome)] = spread(executor, work, lambda workers: [0])
        assert outcome.result == (2, 9, {"token": "x"})


def test_what_is_no_executor_is_refused(data):
    for given in (4, ThreadPoolExecutor, "tcp://host:8786"):
        with pytest.raises(
            ArgumentError, match=r"executor must be a concurrent\.futures\.Executor"
        ):
            dfgen.build_manifest(Path(data), executor=given)
