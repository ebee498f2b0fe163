"""A system that has no more memory, threads or descriptors to give."""

import os
import resource
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import keras  # noqa: F401  # in no time of a case
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import WorkerError
from dfgen.loading.workers.pool import Pool, Worker

MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def small_group(tmp_path):
    """A folder of the kernel: a process that enters it is killed above 200 MB, by the kernel."""
    group = MEMORY / f"dfgen-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(200 << 20))
    except OSError as error:
        pytest.skip(f"no group of processes can be made, which needs root and cgroup 1: {error}")
    yield group
    for _ in range(1000):  # until the killed ones have left it
        with suppress(OSError):
            group.rmdir()
            return
        threading.Event().wait(0.01)
    pytest.fail(f"{group} is not left: {(group / 'cgroup.procs').read_text().split()}")


@pytest.mark.slow
def test_worker_killed_for_memory_is_named_with_row(frame, small_group):
    def greedy(sample, rng, group=str(small_group)):
        if sample["label"]:
            Path(group, "cgroup.procs").write_text(str(os.getpid()))
            np.ones(1 << 30, np.uint8)
        return sample

    options = {"y": "label", "image_size": (4, 4), "batch_size": 2, "shuffle": False, "workers": 1}
    with (
        dfgen.Sequence(frame(4), transform=greedy, use_multiprocessing=True, **options) as seq,
        pytest.raises(WorkerError) as caught,
    ):
        list(seq)
    assert str(caught.value).startswith("row id=1, path=")
    assert str(caught.value).endswith(
        "3 worker processes died on this row (the last: killed by SIGKILL, as the system does "
        "if memory is short: see its log, dmesg)"
    )


@contextmanager
def stacks_of(size):
    """Threads that ask for so much memory: the system refuses what no address space holds."""
    before = threading.stack_size(size)
    try:
        yield
    finally:
        threading.stack_size(before)


TOO_LARGE = 1 << 47


def test_thread_start_failure_is_explained_without_losing_rows(frame):
    options = {"y": "label", "image_size": (4, 4), "batch_size": 4, "shuffle": False, "workers": 2}
    with dfgen.Sequence(frame(12), **options) as seq:
        with stacks_of(TOO_LARGE), pytest.raises(WorkerError) as caught:
            list(seq)
        assert "ulimit -u" in str(caught.value)
        assert [int(row) for x, _ in seq for row in x[:, 0, 0, 0]] == [*range(12)]


def test_stuck_worker_is_kept_without_a_replacement():
    pool = Pool(1, Worker)
    pool.submit(lambda worker: None)
    with stacks_of(TOO_LARGE), pytest.raises(WorkerError, match="cannot start"):
        pool.replace(pool.workers[0])
    assert [worker.abandoned for worker in pool.workers] == [False] and not pool.replaced
    pool.close()


def test_worker_error_is_not_mistaken_for_system_error():
    def make():
        raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match="of its own") as caught:
        Pool(2, make).submit(lambda worker: None)
    assert caught.type is RuntimeError


@pytest.fixture(scope="module")
def packed(files, tmp_path_factory):
    """A pack of 66 shards."""
    pack = tmp_path_factory.mktemp("places") / "packed"
    df = pd.DataFrame({"id": range(66), "path": files[:66], "label": [*"ab"] * 33})
    dfgen.pack(df, pack, image_size=(4, 4), shard_size=1)
    assert len(os.listdir(pack)) > 64
    return pack


@pytest.mark.parametrize("processes", [False, True])
def test_sixty_four_descriptors_suffice_for_more_shards(packed, processes):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    options = {"y": None, "label_mode": None, "batch_size": 8, "image_size": (4, 4), "workers": 2}
    try:
        with dfgen.Sequence(packed, use_multiprocessing=processes, **options) as seq:
            assert sorted(int(row) for (x,) in seq for row in x[:, 0, 0, 0]) == [*range(66)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
