"""Builds and verify on executors: threads, processes, Dask, lost tasks and killed builds."""

import os
import random
import signal
import sys
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from functools import partial
from multiprocessing import get_context

import flaky_executor
import pandas as pd
import pytest
from command import run
from flaky_executor import FlakyExecutor
from full_disk import files_of_at_most
from PIL import Image
from public.trees import pets
from spread_builds import FILES, SPLIT, build, dask_scheduler, write_images

import dfgen
from dfgen.errors import ArgumentError, WorkerError, WriteError
from dfgen.executors import Work, spread
from dfgen.manifest.building import file_facts, scan
from dfgen.manifest.table_reading import read_table
from dfgen.stores.store import StorageOptions

pytestmark = pytest.mark.filterwarnings(
    "ignore:[0-9]+ problem", "ignore:.*more than one split", "ignore:Kept 1 row",
    "ignore:.*copy of their picture",
)  # fmt: skip
LOOPBACK = {"host": "127.0.0.1", "dashboard_address": ":0"}
HOW = ("header", "full", "update header", "update full", "workers header", "workers full")
processes = partial(ProcessPoolExecutor, 1, get_context("forkserver"))


@pytest.fixture
def data(tmp_path, monkeypatch):
    write_images(tmp_path)
    monkeypatch.setattr(scan, "SPANS", {False: (4, 4), True: (4, 4)})
    monkeypatch.setattr(file_facts, "KEPT_EVERY", 0)
    return tmp_path


@pytest.fixture
def opened(monkeypatch):
    """Names of the files that are opened in this process."""
    names, read = [], file_facts._read

    def noted(path, store, decode):
        names.append(os.path.basename(path))
        return read(path, store, decode)

    monkeypatch.setattr(file_facts, "_read", noted)
    return names


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **LOOPBACK) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


class Ending(ThreadPoolExecutor):
    """Calls a function before one of its tasks."""

    def __init__(self, left, end):
        super().__init__(1)
        self._left, self._end = left, end

    def submit(self, *call):
        self._left -= 1
        if not self._left:
            self._end(self)
        return super().submit(*call)


class Losing(ThreadPoolExecutor):
    """Loses the first two tasks, as an executor whose worker dies."""

    lost = 0

    def submit(self, call, /, *args, **kwargs):
        if self.lost == 2:
            return super().submit(call, *args, **kwargs)
        self.lost += 1
        future = Future()
        future.set_exception(BrokenExecutor("a worker died"))
        return future


def serial_and_spread(data, executor, **options):
    serial = build(data, "serial.parquet", **options)
    assert build(data, "spread.parquet", executor=executor, **options).equals(serial)


@pytest.mark.parametrize("kind", ["threads", "processes", "dask", "lost tasks"])
def test_executor_gives_the_rows_of_the_serial_build(data, kind, request):
    if kind == "dask":
        executor = request.getfixturevalue("client").get_executor(pure=False)
    else:
        executor = {"threads": ThreadPoolExecutor, "lost tasks": Losing}.get(kind)
        executor = executor(2) if executor else processes()
    for facts in ("header", "full"):
        serial_and_spread(data, executor, facts=facts)
    manifest = data / "serial.parquet"
    Image.new("L", (40, 3)).save(data / "imgs/cat/100.png")
    Image.new("L", (40, 3)).save(data / "imgs/cat/002.png")
    for decode in (False, True):
        found = dfgen.verify(manifest, decode=decode, executor=executor)
        pd.testing.assert_frame_equal(found, dfgen.verify(manifest, decode=decode))
        assert {*found["change"]} == {"broken", "changed"}
    build(data)
    serial_and_spread(data, executor, update=data / "m.parquet")
    if kind != "dask":
        executor.shutdown()


def test_dask_client_is_refused_with_its_executor(data, client):
    with pytest.raises(ArgumentError, match=r"client\.get_executor"):
        build(data, executor=client)


def test_dropped_doubled_delayed_and_reordered_tasks_change_nothing(data):
    serial, seen = build(data, facts="full"), {}
    for seed in range(6):
        executor = FlakyExecutor(seed)
        assert build(data, f"{seed}.parquet", facts="full", executor=executor).equals(serial)
        seen = {name: seen.get(name, 0) + number for name, number in executor.faults.items()}
    assert all(seen.values()), seen


def test_file_killing_workers_has_a_problem(data):
    deadly = partial(processes, initializer=flaky_executor.die_at, initargs=("013.png",))
    table, serial = build(data, executor=deadly), build(data, "serial.parquet")
    rows = [row for row in range(FILES) if table.slice(row, 1) != serial.slice(row, 1)]
    assert [table["path"][row].as_py()[-7:] for row in rows] == ["013.png"]
    assert table["problem"][rows[0]].as_py().startswith("each worker that read it was lost: ")


@pytest.mark.slow
def test_tasks_of_killed_dask_worker_are_redone(data, client):
    serial = build(data)
    (worker, pid), *_ = client.run(os.getpid).items()
    client.run(flaky_executor.die_at, workers=[worker])
    spread = build(data, "again.parquet", executor=client.get_executor(pure=False))
    assert spread.equals(serial) and pid not in client.run(os.getpid).values()


def test_lost_executor_is_named_and_build_resumes(data, opened):
    serial, folder = build(data), data / "again.parquet.building"
    whole, opened[:] = {*opened}, []
    with pytest.raises(WorkerError, match=rf"takes no more tasks(.|\n)*{folder} has the facts"):
        build(data, "again.parquet", executor=Ending(5, lambda pool: pool.shutdown()))
    kept, opened[:] = {*opened}, []
    assert folder.is_dir() and kept
    assert build(data, "again.parquet").equals(serial) and not folder.exists()
    assert {*opened} & kept <= {"010.png", "011.png"} and {*opened} | kept == whole


@pytest.mark.slow
def test_killed_dask_scheduler_is_named_and_build_resumes(data):
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    serial = build(data)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "8s"}),  # before it gives up
        dask_scheduler() as (scheduler, address),
        distributed.Client(address, set_as_default=False) as client,
    ):
        client.wait_for_workers(1)
        inner = client.get_executor(pure=False)

        class Killing(Executor):
            _client, left = inner._client, 6

            def submit(self, *call):
                self.left -= 1
                if not self.left:
                    os.kill(scheduler.pid, signal.SIGKILL)
                    scheduler.join()
                return inner.submit(*call)

        with pytest.raises(WorkerError, match="lost the scheduler"):
            build(data, "again.parquet", executor=Killing())
    assert [*(data / "again.parquet.building").glob("*.arrow")]
    assert build(data, "again.parquet").equals(serial)


@pytest.mark.parametrize(
    ("facts", "kills"),
    [("header", 3), *(pytest.param(facts, 8, marks=pytest.mark.slow) for facts in HOW)],
)
def test_a_build_that_is_killed_anywhere_continues(data, opened, facts, kills):
    change, _, kind = facts.rpartition(" ")
    how, workers = {"facts": kind}, 1 if change == "workers" else None
    if change == "update":
        build(data, "old.parquet", **how)
        how["update"] = data / "old.parquet"
        for row in range(100, 160):
            Image.new("L", (40, 3), row).save(data / f"imgs/cat/{row}.png")
    serial, context = build(data, "serial.parquet", **how), get_context("forkserver")
    arguments = {"source": data / "imgs", "pattern": "{kind}/{id}.png", "split": SPLIT, **how}
    for event in random.Random(facts).sample(range(60), kills):
        given = (event, {**arguments, "out": data / "m.parquet"}, workers)
        process = context.Process(target=flaky_executor.build_and_die, args=given)
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        kept = len([*data.glob("m.parquet.building/*.arrow")])
        opened.clear()
        assert build(data, **how).equals(serial)
        files = FILES + 2 * (change == "update")  # all new ones, and 2 old ones that are broken
        assert len(opened) <= files + 2 - 4 * kept  # 4 files each, but broken ones are read again
        os.unlink(data / "m.parquet")


def test_full_disk_is_named_and_facts_stay(data, opened):
    import resource

    serial, folder = build(data), data / "again.parquet.building"
    limit = (900, resource.RLIM_INFINITY)
    filling = Ending(6, lambda pool: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    with files_of_at_most(10**9), filling, pytest.raises(WriteError, match=f"{folder}/"):
        build(data, "again.parquet", executor=filling)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert kept and all(name.endswith(".arrow") for name in kept)
    opened.clear()
    assert build(data, "again.parquet").equals(serial) and len(opened) < FILES


def test_facts_of_other_limits_are_not_reused(data, opened):
    with pytest.raises(WorkerError):
        build(data, executor=Ending(9, lambda pool: pool.shutdown()))
    opened.clear()
    build(data, limits=dfgen.Limits(decoded_bytes="1GB"))
    assert len(opened) == FILES


def test_second_build_of_one_manifest_is_rejected(data):
    class Other(ThreadPoolExecutor):
        def submit(self, *call):
            with pytest.raises(WriteError, match=r"m\.parquet"):
                build(data)
            return super().submit(*call)

    build(data, executor=Other(1))


@pytest.mark.parametrize("options", [{}, {"facts": "full"}])
def test_worker_without_files_names_host_and_path(data, options):
    class Elsewhere(Executor):
        def submit(self, call, *arguments):
            future, hidden = Future(), data / "hidden"
            os.rename(data / "imgs", hidden)
            future.set_result(call(*arguments))
            os.rename(hidden, data / "imgs")
            return future

    with pytest.raises(WorkerError, match=rf"{data}/imgs/(.|\n)*{os.uname().nodename}"):
        build(data, executor=Elsewhere(), **options)


def test_workers_with_another_dfgen_are_named(data):
    with (
        processes(initializer=flaky_executor.be_of) as executor,
        pytest.raises(WorkerError, match=r"the worker on .* has dfgen 0\.0\.1, and here is "),
    ):
        build(data, executor=executor)


def test_limits_and_storage_options_travel_to_workers():
    access = file_facts.Access(2, dfgen.Limits(decoded_bytes=9), StorageOptions({"token": "x"}))
    with processes() as executor:
        work = Work(flaky_executor.seen_there, lambda task: (access,), str)
        [(_, outcome)] = spread(executor, work, lambda workers: [0])
        assert outcome.result == (2, 9, {"token": "x"})


def test_other_objects_are_no_executors(tmp_path):
    for given in (4, ThreadPoolExecutor, "tcp://host:8786"):
        with pytest.raises(ArgumentError, match="executor"):
            pets(tmp_path, 2, executor=given)


def test_commands_take_the_address_of_a_scheduler(data, client, monkeypatch):
    serial = build(data, split=None)
    arguments = ("build-manifest", data / "imgs", "--pattern", "{kind}/{id}.png", "--out")
    made = run(*arguments, data / "d.parquet", "--dask", client.scheduler.address)
    assert made.returncode == 0, made.stderr
    assert read_table(data / "d.parquet")[0].equals(serial)
    assert run("verify", data / "d.parquet", "--dask", client.scheduler.address).returncode == 1
    for address in ("nonsense", "", "http://127.0.0.1:9"):
        done = run(*arguments, data / "e.parquet", "--dask", address)
        assert done.returncode == 1 and "is not the address of a scheduler" in done.stderr
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = run(*arguments, data / "e.parquet", "--dask", "tcp://127.0.0.1:9")
    assert 'pip install "keras-dfgen[dask]"' in done.stderr
