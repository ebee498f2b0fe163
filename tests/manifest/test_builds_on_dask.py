"""Builds on a real Dask cluster: worker processes on a loopback port."""

import os
import signal
import sys
from concurrent.futures import Executor

import command
import dask
import flaky_executor
import pytest
from distributed import Client, LocalCluster
from spread_builds import build, dask_scheduler, write_images

import dfgen
from dfgen.errors import WorkerError
from dfgen.executors import Work, spread
from dfgen.manifest.building import kept_facts, scan
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.io import read_table

pytestmark = pytest.mark.filterwarnings(
    "ignore:[23] problems", "ignore:.*more than one split", "ignore:Kept 1 row"
)
LOOPBACK = {"host": "127.0.0.1", "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **LOOPBACK) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def executor(client):
    return client.get_executor(pure=False)


@pytest.fixture
def data(tmp_path, monkeypatch):
    write_images(tmp_path)
    monkeypatch.setattr(scan, "SPANS", {False: (4, 4), True: (4, 4)})
    return tmp_path


def test_a_cluster_builds_grows_and_verifies_as_one_process(data, executor):
    serial, full = build(data), build(data, "full.parquet", facts="full")
    assert build(data, executor=executor).equals(serial)
    spread = build(data, "full.parquet", facts="full", executor=executor)
    assert spread.equals(full) and fingerprint(spread) == fingerprint(full)
    os.rename(data / "imgs/cat/002.png", data / "imgs/cat/100.png")
    one, other = (dfgen.verify(data / "m.parquet", executor=each) for each in (None, executor))
    assert one.equals(other) and {*one["change"]} == {"broken", "missing"}
    grown = {"update": data / "m.parquet"}
    serial = build(data, "serial.parquet", **grown)
    assert build(data, "spread.parquet", executor=executor, **grown).equals(serial)


def test_commands_take_the_address_of_a_scheduler(data, client):
    address, how = client.scheduler.address, ("--pattern", "{kind}/{id}.png")
    serial = build(data, split=None)
    made = command.run(
        "build-manifest", data / "imgs", *how, "--out", data / "d.parquet", "--dask", address
    )
    assert made.returncode == 0, made.stderr
    assert read_table(data / "d.parquet")[0].equals(serial)
    assert command.run("verify", data / "d.parquet", "--dask", address).returncode == 1
    size = ("--image-size", "8,8")
    for name, more in (("one", ()), ("other", ("--dask", address))):
        packed = command.run("pack", data / "d.parquet", "--out", data / name, *size, *more)
        assert packed.returncode == 0, packed.stderr
    one, other = (sorted((data / name).glob("*.arrow")) for name in ("one", "other"))
    assert [each.read_bytes() for each in one] == [each.read_bytes() for each in other]
    refused = command.run("verify", data / "one", "--dask", address)
    assert refused.returncode == 2 and "--dask" in refused.stderr
    assert command.run("verify", data / "one", "--workers", 2).stderr == ""


def test_tasks_are_as_many_as_the_threads_of_all_workers_ask_for(executor):
    seen = []
    work = Work(flaky_executor.seen_there, lambda task: (), str)
    assert [*spread(executor, work, lambda workers: seen.append(workers) or [])] == []
    assert seen == [2]


def test_workers_with_another_dfgen_are_named_with_their_host(data, client, executor):
    client.run(flaky_executor.be_of, "0.0.1")
    with pytest.raises(WorkerError) as caught:
        build(data, executor=executor)
    client.run(flaky_executor.be_of, dfgen.__version__)
    assert str(caught.value) == (
        f"the worker on {os.uname().nodename} has dfgen 0.0.1, and here is {dfgen.__version__}: "
        "install the same on all hosts"
    )


def test_workers_without_the_files_are_named_with_host_and_path(data, executor, monkeypatch):
    monkeypatch.chdir(data)
    host = os.uname().nodename
    said = (
        rf"^/proc/self/cwd/imgs/(cat|dog)/\d+\.png is there, and the worker on {host} says: the "
        "file does not exist. Its workers need the same files at the same paths: mount them there$"
    )
    with pytest.raises(WorkerError, match=said):
        dfgen.build_manifest("/proc/self/cwd/imgs", executor=executor)  # each process has its own


class Killing(Executor):
    """Kills the scheduler as soon as six tasks are sent."""

    def __init__(self, executor, scheduler):
        self._client, self._executor, self._scheduler = executor._client, executor, scheduler
        self._left = 6

    def submit(self, *call):
        self._left -= 1
        if not self._left:
            os.kill(self._scheduler.pid, signal.SIGKILL)
            self._scheduler.join()
        return self._executor.submit(*call)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_said_and_the_next_build_goes_on(data, monkeypatch):
    monkeypatch.setattr(kept_facts, "KEPT_EVERY", 0)
    serial = build(data)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "8s"}),  # before it gives up
        dask_scheduler() as (scheduler, address),
        Client(address, set_as_default=False) as client,
    ):
        client.wait_for_workers(1)
        executor = Killing(client.get_executor(pure=False), scheduler)
        with pytest.raises(WorkerError) as caught:
            build(data, "again.parquet", executor=executor)
    kept = data / "again.parquet.building"
    assert str(caught.value) == (
        "the executor takes no more tasks: its Dask client has lost the scheduler. Finished work "
        f"is not lost: run it again with another executor, and it goes on: {kept} has the facts"
    )
    assert [*kept.glob("*.arrow")]
    assert build(data, "again.parquet").equals(serial)


def test_what_dask_cannot_do_is_said_by_the_command(data, monkeypatch):
    def said(*more):
        done = command.run("build-manifest", data / "imgs", "--out", data / "m.parquet", *more)
        assert done.returncode == 1 and not (data / "m.parquet").exists()
        return done.stderr

    with dask.config.set({"distributed.comm.timeouts.connect": "100ms"}):
        assert said("--dask", "tcp://127.0.0.1:9").startswith(
            "dfgen: --dask tcp://127.0.0.1:9: no scheduler answers: "
        )
    for address in ("nonsense", "", "http://127.0.0.1:9"):
        assert "is not the address of a scheduler" in said("--dask", address)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert 'pip install "keras-dfgen[dask]"' in said("--dask", "tcp://127.0.0.1:9")


@pytest.mark.slow
def test_the_tasks_of_a_worker_that_is_killed_are_done_by_another(data, client, executor):
    serial = build(data)
    (worker, pid), *_ = client.run(os.getpid).items()
    client.run(flaky_executor.die_at, workers=[worker])
    assert build(data, "again.parquet", executor=executor).equals(serial)
    assert pid not in client.run(os.getpid).values()


@pytest.mark.slow
def test_a_cluster_without_workers_is_told_and_waited_for(data):
    with (
        LocalCluster(n_workers=0, **LOOPBACK) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        executor, told = client.get_executor(pure=False), r"\S+ has no workers, and is waited for: "
        with pytest.raises(UserWarning, match=told):  # an error in tests
            build(data, executor=executor)
        cluster.scale(1)
        client.wait_for_workers(1)
        assert build(data, executor=executor).equals(build(data))
