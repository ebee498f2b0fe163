"""Tasks on any executor. Lost tasks are tried again, and a file that kills workers is isolated.

A task is done in whole or not at all, and may be done twice. So an executor may drop, delay and
reorder tasks.
"""

import pickle
import platform
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from dfgen import __version__
from dfgen.errors import ArgumentError, WorkerError, brief, reason

LOSSES = 3  # of a task among others before it runs alone, and alone before it is to blame
ISOLATED = 100  # tasks that kill workers: with more, the executor is to blame
AHEAD = 64  # tasks in flight if the number of workers is unknown
PULSE = 5.0  # seconds between looks at a Dask client

_Task = TypeVar("_Task")
Made = Executor | Callable[[], Executor]
"""An executor, or a function that creates one, and another if its workers were lost."""


class Outcome(NamedTuple):
    """The result or the error of a task, and the host that it ran on."""

    host: str
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class Work(Generic[_Task]):
    """What to do with each task, which may be any hashable object.

    Args:
        call: the function that workers call; it is pickled by its name.
        arguments: returns the arguments for a task. They are pickled.
        name: returns the name of a task for messages.
        halves: returns the two parts of a task, or nothing if it cannot be divided.
        ends_worker: returns the result of a task that kills its workers, given the reason; None
            makes that an error.
        advice: what to do about work that is left if the executor fails.
    """

    call: Callable[..., Any]
    arguments: Callable[[_Task], tuple[Any, ...]]
    name: Callable[[_Task], str]
    halves: Callable[[_Task], Sequence[_Task]] = lambda task: ()
    ends_worker: Callable[[_Task, str], Any] | None = None
    advice: str = "give another one"


def check_executor(given: object) -> None:
    """Raise an ArgumentError for an object that is no executor and does not create one."""
    is_client = hasattr(given, "get_executor")  # of Dask
    makes = callable(getattr(given, "submit", given)) and not isinstance(given, type)
    if given is not None and (is_client or not makes):
        raise ArgumentError(
            f"executor must be a concurrent.futures.Executor, got {brief(given)}: leave it out, or "
            "give a ProcessPoolExecutor(); of a Dask client give client.get_executor(pure=False)"
        )


def workers_of(executor: Any) -> int | None:
    """Return how many tasks an executor runs at a time, or None if that is unknown."""
    number = getattr(executor, "_max_workers", None)  # of Python, and of most others
    client: Any = getattr(executor, "_client", None)
    with suppress(Exception):  # not Dask, or its scheduler does not answer now
        number = sum(client.nthreads().values())
    return number if isinstance(number, int) and number > 0 else None


def attempt(version: str, call: Callable[..., Any], *arguments: Any) -> Outcome:
    """Run a task in a worker and return its error, so that other errors mean a lost worker."""
    host = platform.node()
    try:
        if version != __version__:
            raise WorkerError(
                f"the worker on {host} has dfgen {__version__}, and here is {version}: install "
                "the same on all hosts"
            )
        return Outcome(host, call(*arguments))
    except Exception as error:
        return Outcome(host, error=error)


def spread(
    given: Made, work: Work[_Task], tasks: Callable[[int | None], Iterable[_Task]]
) -> Iterator[tuple[_Task, Outcome]]:
    """Yield each task, or its parts, with its outcome, in the order in which they end.

    `tasks` is called with the number of workers, or None if that is unknown. A task that was lost
    several times is divided, and its parts run alone.

    Raises:
        WorkerError: the executor takes no tasks, or loses them again and again; or its workers
            have another dfgen, or none.
    """
    check_executor(given)
    run = _Run(given, work)
    workers = workers_of(run.executor)
    waiting, window = deque(tasks(workers)), 2 * (workers or AHEAD // 2)
    suspects, losses, isolated = deque[_Task](), Counter[_Task](), 0
    flying: dict[Future[Any], _Task] = {}
    is_alive = False
    try:
        while waiting or suspects or flying:
            try:
                if suspects and not flying:
                    flying[run.submit(suspects[0])] = suspects[0]
                while waiting and not suspects and len(flying) < window:
                    flying[run.submit(waiting[0])] = waiting[0]
                    waiting.popleft()
            except WorkerError:
                if not flying:  # otherwise the results that are still to come are yielded first
                    raise
            done, _ = wait(flying, PULSE, FIRST_COMPLETED)
            client = getattr(run.executor, "_client", None)
            if not done and getattr(client, "status", "") == "closed":  # futures stay pending
                raise run.gone("its Dask client has lost the scheduler")
            for future in done:
                task = flying.pop(future)
                if task in suspects:
                    suspects.remove(task)
                try:
                    outcome: Outcome = future.result()
                except Exception as error:
                    run.check(task, error)
                    losses[task] += 1
                    if losses[task] < LOSSES:
                        waiting.appendleft(task)
                    elif parts := work.halves(task):
                        suspects.extend(parts)
                        losses.update(dict.fromkeys(parts, LOSSES))
                    elif losses[task] < 2 * LOSSES:
                        suspects.append(task)
                    else:
                        isolated += 1
                        why = f"each worker that read it was lost: {reason(error)}"
                        if work.ends_worker is None or isolated > ISOLATED or not is_alive:
                            raise WorkerError(f"{work.name(task)}: {why}") from error
                        yield task, Outcome("", work.ends_worker(task, why))
                    continue
                if outcome.error is not None:
                    outcome.error.add_note(f"on {outcome.host}, {work.name(task)}")
                    raise outcome.error
                is_alive = True
                yield task, outcome
    finally:
        for future in flying:
            future.cancel()
        run.leave()


class _Run(Generic[_Task]):
    """An executor that is created again, if that is possible, after its workers were lost."""

    def __init__(self, given: Made, work: Work[_Task]) -> None:
        self._make = None if hasattr(given, "submit") else given
        self.executor: Any = given if self._make is None else self._make()
        self._work = work

    def submit(self, task: _Task) -> Future[Any]:
        call = attempt, __version__, self._work.call, *self._work.arguments(task)
        try:
            return self.executor.submit(*call)  # type: ignore[no-any-return]
        except Exception as error:
            self.check(task, error)
            if self._make is None:
                raise self.gone(reason(error)) from error
        self.leave()
        self.executor = self._make()
        return self.executor.submit(*call)  # type: ignore[no-any-return]

    def check(self, task: _Task, error: Exception) -> None:
        """Raise if a task could not be pickled or imported; otherwise its worker was lost."""
        of_python = isinstance(error, pickle.PickleError) or type(error).__module__ == "builtins"
        if of_python and not isinstance(error, OSError | RuntimeError):
            raise WorkerError(
                f"the executor cannot run {self._work.name(task)}: {reason(error)}. Its workers "
                f"need dfgen {__version__}, as here, and the task must be picklable"
            ) from error

    def gone(self, why: str) -> WorkerError:
        """Return the error that the executor takes no more tasks."""
        return WorkerError(
            f"the executor takes no more tasks: {why.rstrip('.')}. Finished work is not lost: "
            f"{self._work.advice}"
        )

    def leave(self) -> None:
        if self._make is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
