"""Builds and verify on executors: threads, processes, a Dask cluster, and lost tasks."""

from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pandas as pd
import pytest
from public.trees import pets

import dfgen
from dfgen.errors import ArgumentError


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


@pytest.fixture(params=["threads", "processes", "dask", "lost tasks"])
def executor(request):
    if request.param == "dask":
        distributed = pytest.importorskip("distributed")
        options = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
        with (
            distributed.LocalCluster(dashboard_address=None, **options) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client.get_executor(pure=False)
        return
    pool = {"threads": ThreadPoolExecutor(2), "lost tasks": Losing(1)}.get(request.param)
    with pool or ProcessPoolExecutor(1, get_context("forkserver")) as executor:
        yield executor


@pytest.mark.filterwarnings("ignore:1 problem", "ignore:.*copy of their picture")
def test_executor_gives_the_rows_of_the_serial_build(tmp_path, executor):
    frame = pets(tmp_path, 9)
    with open(frame["path"][5], "r+b") as file:
        file.truncate(30)
    options = {"pattern": "{kind}/{id}.png", "split": {"a": 0.5, "b": 0.5}, "facts": "full"}
    serial, spread = (
        dfgen.build_manifest(tmp_path / "imgs", executor=each, out=tmp_path / name, **options)
        for each, name in ((None, "m.parquet"), (executor, "n.parquet"))
    )
    pd.testing.assert_frame_equal(spread, serial)
    assert spread["problem"].notna().tolist() == [row == 5 for row in range(9)]
    pd.testing.assert_frame_equal(dfgen.read_manifest(tmp_path / "n.parquet"), serial)
    found = dfgen.verify(frame, decode=True, executor=executor)
    pd.testing.assert_frame_equal(found, dfgen.verify(frame, decode=True))
    assert found["change"].tolist() == ["broken"]


def test_other_objects_are_no_executors(tmp_path):
    with pytest.raises(ArgumentError, match="executor"):
        pets(tmp_path, 2, executor="processes")
