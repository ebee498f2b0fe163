"""Tasks over an executor that loses some of them, as real ones do with the workers they ran on."""

import math
import operator
import pickle
import platform
from collections import Counter
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from types import SimpleNamespace

import pytest
from cases import each

from dfgen import executors
from dfgen.errors import ArgumentError, WorkerError
from dfgen.executors import Work, check_executor, spread, workers_of

GONE = BrokenExecutor("a worker is gone")


class Simulated(Executor):
    """Runs a task at once, or loses it with the error that `fate(task, nth try)` returns.

    Args:
        fate: returns the error, or None.
        takes: how many tasks it takes before it is shut down.
    """

    def __init__(self, fate=lambda task, nth: None, workers=2, takes=math.inf):
        self.fate, self._max_workers, self.takes = fate, workers, takes
        self.tries, self.sent, self.ended = Counter(), [], None

    def submit(self, call, /, *arguments):
        if len(self.sent) == self.takes:
            raise RuntimeError("shut down.")
        future = Future()
        outcome = call(*arguments)
        task = outcome.result
        self.sent.append(task)
        self.tries[task] += 1
        error = self.fate(task, self.tries[task])
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.ended = wait, cancel_futures


def results(executor, tasks, call=int, arguments=lambda task: (task,), **work):
    work = Work(call, arguments, "task {}".format, **work)
    found = spread(executor, work, lambda workers: tasks)
    return sorted(((task, outcome.result) for task, outcome in found), key=str)


SPANS = {
    "call": range,
    "arguments": lambda task: (task.start, task.stop),
    "halves": lambda task: [task[: len(task) // 2], task[len(task) // 2 :]] * (len(task) > 1),
}


def test_two_tasks_per_worker_are_in_flight():
    for workers, most in ((3, 6), (None, 64)):
        executor, work = Simulated(workers=workers), Work(int, lambda task: (task,), str)
        found = spread(executor, work, lambda workers: range(100 + (workers or 0)))
        assert next(found) and len(executor.sent) == most
        assert len([*found]) == 99 + (workers or 0)


def test_lost_tasks_are_tried_again():
    lost = Simulated(lambda task, nth: (GONE, CancelledError(), ConnectionError(), None)[nth - 1])
    assert results(lost, range(5)) == [(task, task) for task in range(5)]
    assert set(lost.tries.values()) == {4}


def test_a_task_that_kills_workers_is_halved():
    deadly = Simulated(lambda task, nth: GONE if 5 in task else None)
    found = results(deadly, [range(8), range(8, 9)], ends_worker=lambda *told: told, **SPANS)
    spans = [range(4), range(4, 5), range(5, 6), range(6, 8), range(8, 9)]
    assert [task for task, _ in found] == spans
    assert dict(found)[range(5, 6)] == (
        range(5, 6), "each worker that read it was lost: a worker is gone"
    )  # fmt: skip


def test_a_deadly_task_without_parts_is_an_error():
    deadly = Simulated(lambda task, nth: GONE)
    with pytest.raises(WorkerError, match=r"^task 7: each worker that read it was lost: a worker"):
        results(deadly, [7])
    assert deadly.tries[7] == 6


def test_too_many_deadly_tasks_are_an_error(monkeypatch):
    monkeypatch.setattr(executors, "ISOLATED", 3)
    kept = {"ends_worker": lambda task, told: "bad"}
    fate = {"fate": lambda task, nth: GONE if task else None}
    assert len(results(Simulated(**fate), range(4), **kept)) == 4
    with pytest.raises(WorkerError, match=r"^task [1-4]: each worker that read it was lost: "):
        results(Simulated(**fate), range(5), **kept)


def test_an_executor_that_runs_nothing_is_an_error():
    dead = Simulated(lambda task, nth: GONE)
    with pytest.raises(WorkerError, match=r"^task 7: each worker that read it was lost: a worker"):
        results(dead, [7], ends_worker=lambda task, told: "bad")


def test_closed_executor_returns_its_results_first():
    work = Work(int, lambda task: (task,), "task {}".format, advice="go on")
    found = spread(Simulated(takes=3), work, lambda workers: range(9))
    assert {next(found)[0] for _ in range(3)} == {0, 1, 2}
    with pytest.raises(WorkerError, match=r"no more tasks: shut down\. Finished .* lost: go on$"):
        next(found)


def test_only_created_executors_are_replaced_and_shut_down():
    first, second, own = Simulated(takes=3), Simulated(), Simulated()
    makes = iter([first, second])
    assert len(results(lambda: next(makes), range(9))) == 9
    assert first.ended == second.ended == (False, True)
    assert len(results(own, range(9))) == 9 and own.ended is None


def test_errors_of_tasks_have_host_and_name():
    class Worker(Simulated):
        def submit(self, call, /, *arguments):
            future = Future()
            future.set_result(call(*arguments))
            return future

    with pytest.raises(ZeroDivisionError) as caught:
        results(Worker(), [0], call=operator.truediv, arguments=lambda task: (1, task))
    assert caught.value.__notes__ == [f"on {platform.node()}, task 0"]


@each("error", [TypeError("no"), ImportError("no"), pickle.PicklingError("no")])
def test_unsendable_task_is_an_error_at_once(error):
    def refuse(*_):
        raise error

    refusing = Simulated()
    refusing.submit = refuse
    for executor in (Simulated(lambda task, nth: error), refusing):
        with pytest.raises(WorkerError, match=r"^the executor cannot run task 7: no\. Its "):
            results(executor, [7])


def of_dask(status="running", nthreads=dict):
    executor = Simulated(workers=7)
    executor._client = SimpleNamespace(status=status, nthreads=nthreads)
    return executor


@each(
    ("executor", "workers"),
    [
        (Simulated(workers=5), 5),
        (Simulated(workers=0), None),
        (Simulated(workers="4"), None),
        (object(), None),
        (of_dask(nthreads=lambda: {"a": 2, "b": 3}), 5),
        (of_dask(nthreads=dict), None),
        (of_dask(nthreads=lambda: 1 / 0), 7),
    ],
)
def test_the_number_of_workers_of_an_executor(executor, workers):
    assert workers_of(executor) == workers


def test_a_dask_client_without_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr(executors, "PULSE", 0.01)
    lost = of_dask(status="closed")
    lost.submit = lambda *call: Future()
    with pytest.raises(WorkerError, match="its Dask client has lost the scheduler"):
        results(lost, [7])


@each("given", [4, Executor, "tcp://host:1"])
def test_other_objects_are_no_executors(given):
    with pytest.raises(ArgumentError, match=r"executor must be a concurrent\.futures\.Executor"):
        check_executor(given)
