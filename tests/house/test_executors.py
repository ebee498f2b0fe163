"""Tasks over an executor whose time is simulated, so that each test is exact and takes no time."""

import math
import operator
import pickle
import platform
import zlib
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future
from types import SimpleNamespace

import pytest
from cases import each

from dfgen import executors
from dfgen.errors import ArgumentError, WorkerError
from dfgen.executors import Work, spread, workers_of

GONE = BrokenExecutor("a worker is gone")
FOR_EVER = math.inf


class Simulated(Executor):
    """Does all tasks at the same time, each as long as `fate(task, nth try)` says, or loses it.

    Args:
        fate: seconds, or the error with which the try of a task is lost.
        takes: how many tasks it takes before it is shut down.
    """

    def __init__(self, fate=lambda task, nth: 1, workers=2, takes=math.inf):
        self.fate, self._max_workers, self.takes = fate, workers, takes
        self.now, self.sent, self.tries, self.ends, self.futures = 0.0, [], Counter(), {}, []
        self.probes, self.ended = iter(()), None

    def submit(self, call, /, *arguments):
        if len(self.sent) == self.takes:
            raise RuntimeError("shut down.")
        if call is platform.node:
            return SimpleNamespace(result=self.probe)
        future, made = Future(), call(*arguments)
        task = made.result
        self.sent.append((self.now, task))
        self.tries[task] += 1
        fate = self.fate(task, self.tries[task])
        self.ends[future] = self.now + (0 if isinstance(fate, Exception) else fate), fate, made
        self.futures.append(future)
        return future

    def wait(self, futures, seconds, when):
        assert when == FIRST_COMPLETED and futures and self.now < 1000
        end = min(self.ends[future][0] for future in futures)
        if end > self.now + seconds:
            self.now += seconds
            return [], futures
        self.now = max(self.now, end)
        done = [future for future in futures if self.ends[future][0] <= self.now]
        for future in done:
            _, fate, made = self.ends[future]
            if isinstance(fate, Exception):
                future.set_exception(fate)
            else:
                future.set_result(made)
        return done, futures

    def probe(self, seconds):
        fate = next(self.probes, 0)
        self.now += 0 if fate is GONE else min(fate, seconds)
        if fate:
            raise TimeoutError if fate is FOR_EVER else fate

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.ended = wait, cancel_futures


@pytest.fixture
def came(monkeypatch):
    """Return a function: (task, result, when) of each task that came back from an executor."""

    def come(executor, tasks, call=int, arguments=lambda task: (task,), **work):
        monkeypatch.setattr(executors, "wait", executor.wait)
        monkeypatch.setattr(executors, "time", SimpleNamespace(monotonic=lambda: executor.now))
        work = Work(call, arguments, "task {}".format, **work)
        executor.told = []
        for task, outcome in spread(
            executor, work, lambda workers: executor.told.append(workers) or tasks
        ):
            yield task, outcome.result, executor.now

    return come


SPANS = {
    "call": range,
    "arguments": lambda task: (task.start, task.stop),
    "halves": lambda task: [task[: len(task) // 2], task[len(task) // 2 :]] * (len(task) > 1),
}


def test_each_task_comes_back_with_its_result_and_twice_as_many_are_sent_as_there_are_workers(came):
    executor = Simulated(workers=3)
    found = came(executor, range(20))
    assert next(found) == (0, 0, 1.0)
    assert executor.sent == [(0, task) for task in range(6)] and executor.told == [3]
    assert [task for task, _, _ in found] == [*range(1, 20)]
    found = came(executor := Simulated(workers=None), range(100))
    assert next(found) and len(executor.sent) == 64


def test_a_task_that_takes_half_as_long_again_as_the_slowest_is_begun_anew_beside_itself(came):
    for first in (FOR_EVER, 1.375):  # or both copies come back at the same time
        slow = Simulated(lambda task, nth, first=first: (0.5, first, 0.625)[nth * (task > 2)])
        assert [when for _, _, when in came(slow, range(5))] == [0.5, 0.5, 0.5, 1.375, 1.875]
        assert slow.sent[5:] == [(0.75, 3), (1.25, 4)]
    assert not slow.futures[3].cancelled()


def test_a_task_is_under_way_three_times_at_most(came):
    slow = Simulated(lambda task, nth: 50 if task == 3 else 2)
    assert [*came(slow, range(4))][-1] == (3, 3, 50)
    assert slow.sent[4:] == [(3, 3), (6, 3)] and all(one.cancelled() for one in slow.futures[4:])


def test_nothing_is_begun_anew_before_half_of_the_tasks_are_done(came):
    slow = Simulated(lambda task, nth: 10 if task and nth == 1 else 1)
    assert {when for _, _, when in came(slow, range(4))} == {1, 10} and len(slow.sent) == 4
    slow = Simulated(lambda task, nth: 10 if task > 1 and nth == 1 else 1)
    assert {when for _, _, when in came(slow, range(4))} == {1, 2.5} and len(slow.sent) == 6


def test_nothing_is_begun_anew_while_other_tasks_need_the_workers(came):
    slow = Simulated(lambda task, nth: 100 if (task, nth) == (0, 1) else 1, workers=1)
    assert [*came(slow, range(6))][-1] == (0, 0, 6.01)
    assert slow.sent[2:6] == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_a_task_that_was_lost_is_begun_again_unless_another_copy_is_under_way(came):
    lost = Simulated(lambda task, nth: (GONE, CancelledError(), ConnectionError(), 1)[nth - 1])
    with pytest.raises(WorkerError, match=r"^task 4: each worker that read it was lost: "):
        [*came(Simulated(lambda task, nth: GONE), [4])]
    assert [*came(lost, [4])] == [(4, 4, 1)] and lost.tries == {4: 4}
    fates = {1: 100, 2: GONE, 3: 2}
    slow = Simulated(lambda task, nth: fates[nth] if task == 3 else 2)
    assert [*came(slow, range(4))][-1] == (3, 3, 5.01)  # the copy that was sent when that was lost
    assert slow.tries[3] == 3


def test_a_task_that_ends_each_worker_is_halved_until_the_part_that_does_is_found(came):
    deadly = Simulated(lambda task, nth: GONE if 5 in task else 1)
    found = came(deadly, [range(8), range(8, 9)], ends_worker=lambda *told: told, **SPANS)
    said = "each worker that read it was lost: a worker is gone"
    assert [(task, result) for task, result, _ in found] == [
        (range(8, 9), range(8, 9)),
        (range(4), range(4)),
        (range(4, 5), range(4, 5)),
        (range(5, 6), (range(5, 6), said)),
        (range(6, 8), range(6, 8)),
    ]
    assert [deadly.tries[one] for one in (range(8), range(4, 8), range(4, 6), range(5, 6))] == [
        4, 1, 1, 3
    ]  # fmt: skip


def test_a_task_held_to_end_its_worker_is_alone_and_not_begun_anew(came):
    deadly = Simulated(lambda task, nth: 1 if task else GONE if nth < 4 else 50)
    assert [*came(deadly, range(4))][-1] == (0, 0, 51) and deadly.tries[0] == 4


def test_a_task_without_parts_is_tried_three_times_alone(came):
    deadly = Simulated(lambda task, nth: GONE)
    with pytest.raises(WorkerError) as caught:
        [*came(deadly, [7])]
    assert str(caught.value) == (
        "task 7: each worker that read it was lost: a worker is gone. It was tried 3 times, alone"
    )
    assert deadly.tries[7] == 6


def test_as_many_parts_as_that_end_each_worker_are_no_fault_of_theirs(came, monkeypatch):
    monkeypatch.setattr(executors, "ISOLATED", 3)
    kept = {"ends_worker": lambda task, told: "bad"}
    assert len([*came(Simulated(lambda task, nth: GONE), range(3), **kept)]) == 3
    with pytest.raises(WorkerError, match=r"^task 3: each worker that read it was lost: "):
        [*came(Simulated(lambda task, nth: GONE), range(4), **kept)]


def test_an_executor_that_does_nothing_at_all_is_an_error_within_a_minute(came):
    said = (
        "^the executor takes no more tasks: a worker is gone. Finished work is not "
        "lost: give another one$"
    )
    for fates, seconds in (([GONE] * 10, 0), ([FOR_EVER] * 10, 60), ([FOR_EVER, GONE] * 5, 60)):
        dead = Simulated(lambda task, nth: GONE)
        dead.probes = iter(fates)
        with pytest.raises(WorkerError, match=said):
            [*came(dead, [7])]
        assert dead.tries[7] == 3 and dead.now == seconds
    shaken = Simulated(lambda task, nth: GONE if nth < 4 else 1)
    shaken.probes = iter([GONE] * 9)
    assert [*came(shaken, [7])] == [(7, 7, 1)]


def test_an_executor_that_takes_no_more_gives_its_results_before_the_error(came):
    found = came(Simulated(takes=3), range(9), advice="go on")
    assert [next(found)[0] for _ in range(3)] == [0, 1, 2]
    said = "^the executor takes no more tasks: shut down. Finished work is not lost: go on$"
    with pytest.raises(WorkerError, match=said):
        next(found)


def test_a_slow_task_comes_though_the_executor_takes_no_copy_of_it(came):
    slow = Simulated(lambda task, nth: 9 if task else 1, takes=2)
    assert [*came(slow, range(2))] == [(0, 0, 1), (1, 1, 9)]


def test_the_executor_that_a_function_makes_is_replaced_and_shut_down_and_another_is_not(came):
    first, second, given = (Simulated(lambda task, nth: 1 + task, takes=n) for n in (1, 9, 9))
    second.wait = lambda *given, wait=first.wait: wait(*given)
    second.ends = first.ends
    makes = iter([first, second])

    def make():
        return next(makes)

    make.wait, make.now = first.wait, 0.0
    found = came(make, range(9))
    assert next(found)[0] == 0 and first.ended == (False, True) and second.ended is None
    found.close()
    assert second.ended == (False, True) and all(one.cancelled() for one in second.futures)
    found = came(given, range(9))
    next(found)
    found.close()
    assert (
        given.ended is None and [one.cancelled() for one in given.futures] == [False] + [True] * 3
    )


def test_an_error_of_a_task_is_raised_with_its_host_and_name(came):
    class Worker(Simulated):
        def submit(self, call, /, *arguments):
            future = Future()
            self.ends[future] = 0, 0, call(*arguments)
            return future

    with pytest.raises(ZeroDivisionError) as caught:
        [*came(Worker(), [0], call=operator.truediv, arguments=lambda task: (1, task))]
    assert caught.value.__notes__ == [f"on {platform.node()}, task 0"]


def test_what_a_worker_returns_tells_its_host_and_its_dfgen():
    packed, own = zlib.compress(pickle.dumps((int, ("7",)))), executors.__version__
    assert executors.attempt(own, packed) == (platform.node(), own, 7, None)
    assert executors.attempt("0.0.1", packed) == (platform.node(), own, None, None)


@each("error", [TypeError("no"), AttributeError("no"), pickle.UnpicklingError("no")])
def test_a_call_that_fails_on_its_way_is_an_error_at_once(came, error):
    with pytest.raises(WorkerError, match=r"^the executor cannot run task 7: .*no\. Its "):
        [*came(Simulated(lambda task, nth: error), [7])]


@each("needed", [lambda: 0, memoryview(b""), type("Local", (), {})()])
def test_arguments_that_cannot_travel_are_refused(came, needed):
    with pytest.raises(ArgumentError, match=r"^what is needed for task 7 cannot travel to "):
        [*came(Simulated(), [7], arguments=lambda task: (needed,))]


class Client:
    """A client of Dask."""

    def __init__(self, *threads, status="running"):
        self.status, self.scheduler = status, SimpleNamespace(address="tcp://host:8786")
        self.threads = threads

    def nthreads(self):
        """Return the threads of each worker."""
        if None in self.threads:
            raise OSError("it tries to connect again")
        return dict(enumerate(self.threads))


def of_dask(client, *given):
    """Return an executor of a client of Dask."""
    executor = Simulated(*given)
    executor._client, executor._max_workers = client, 7
    return executor


@each(
    ("executor", "workers"),
    [
        (Simulated(workers=5), 5),
        (Simulated(workers=1), 1),
        (Simulated(workers=0), None),
        (Simulated(workers="4"), None),
        (object(), None),
        (of_dask(Client(2, 3)), 5),
        (of_dask(Client()), None),
        (of_dask(Client(None)), None),
        (of_dask(Client(2, status="connecting")), None),
        (of_dask(object()), 7),
    ],
)
def test_an_executor_tells_how_many_workers_it_has(executor, workers):
    assert workers_of(executor) == workers


def test_a_dask_cluster_without_workers_is_waited_for_with_one_warning(came):
    said = (
        "^tcp://host:8786 has no workers, and is waited for: `dask worker tcp://host:8786` starts "
        "one$"
    )
    with pytest.warns(UserWarning, match=said) as told:
        assert [*came(of_dask(Client(), lambda task, nth: 17), [7])] == [(7, 7, 17)]
    assert len(told) == 1 and told[0].filename == __file__
    for client in (Client(1), Client(None), Client(status="connecting")):
        assert [*came(of_dask(client, lambda task, nth: 17), [7])] == [(7, 7, 17)]


def test_a_dask_client_without_its_scheduler_is_an_error_and_keeps_its_futures(came):
    lost = of_dask(Client(status="closed"), lambda task, nth: FOR_EVER)
    said = "^the executor takes no more tasks: its Dask client has lost the scheduler. Finished "
    with pytest.raises(WorkerError, match=said):
        [*came(lost, [7])]
    assert lost.now == 5 and not lost.futures[0].cancelled()
