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
PULSE, PROBE = 5.0, 60.0  # seconds between looks at the executor; for a task that does nothing

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
    submits = callable(getattr(given, "submit", None)) and not isinstance(given, type)
    is_client = submits and hasattr(given, "get_executor")  # of Dask
    makes = callable(given) and not isinstance(given, type)
    if given is not None and (is_client or not (submits or makes)):
        advice = "leave it out, or give a ProcessPoolExecutor()"
        advice = "give client.get_executor(pure=False)" if is_client else advice
        raise ArgumentError(
            f"executor must be a concurrent.futures.Executor, got {brief(given)}: {advice}"
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

    `tasks` is called with the number of workers, or None if that is unknown.

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
    alone = False
    try:
        while waiting or suspects or flying:
            try:
                while waiting and len(flying) < window and not alone:
                    flying[run.submit(waiting[0])] = waiting[0]
                    waiting.popleft()
                if suspects and not flying:
                    flying[run.submit(suspects[0])] = suspects[0]
                    suspects.popleft()
                    alone = True
            except WorkerError:
                if not flying:  # otherwise the results that are still to come are yielded first
                    raise
            done, _ = wait(flying, PULSE, FIRST_COMPLETED)
            if not done:
                run.check_client()
            for future in done:
                task, was_alone = flying.pop(future), alone
                alone = False
                try:
                    outcome: Outcome = future.result()
                except Exception as error:
                    run.check(task, error)
                    losses[task] += 1
                    if was_alone and (parts := work.halves(task)):
                        suspects.extendleft(reversed(parts))
                    elif losses[task] < LOSSES:
                        (suspects if was_alone else waiting).appendleft(task)
                    elif not was_alone:
                        losses[task] = 0
                        suspects.append(task)
                    else:
                        run.probe(error)
                        isolated += 1
                        why = f"each worker that read it was lost: {reason(error)}"
                        if work.ends_worker is None or isolated > ISOLATED:
                            raise WorkerError(f"{work.name(task)}: {why}") from error
                        yield task, Outcome("", work.ends_worker(task, why))
                    continue
                if outcome.error is not None:
                    outcome.error.add_note(f"on {outcome.host}, {work.name(task)}")
                    raise outcome.error
                yield task, outcome
    finally:
        run.leave(flying)


class _Run(Generic[_Task]):
    """An executor that is created again, if that is possible, after its workers were lost."""

    def __init__(self, given: Made, work: Work[_Task]) -> None:
        self._make = None if hasattr(given, "submit") else given
        self.executor: Any = given if self._make is None else self._make()
        self._work = work

    def submit(self, task: _Task) -> Future[Any]:
        try:
            return self._submit(attempt, __version__, self._work.call, *self._work.arguments(task))
        except Exception as error:
            self.check(task, error)
            raise

    def _submit(self, *call: Any) -> Future[Any]:
        try:
            return self.executor.submit(*call)  # type: ignore[no-any-return]
        except Exception as error:
            if _is_of_python(error):
                raise
            if self._make is None:
                raise self._gone(reason(error)) from error
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = self._make()
        return self.executor.submit(*call)  # type: ignore[no-any-return]

    def check(self, task: _Task, error: Exception) -> None:
        """Raise if a task failed on its way to a worker, and not with it."""
        if _is_of_python(error):
            raise WorkerError(
                f"the executor cannot run {self._work.name(task)}: {reason(error)}. Its workers "
                f"need dfgen {__version__}, as here, and the task must be picklable"
            ) from error

    def check_client(self) -> None:
        """Raise if a Dask client has lost its scheduler: its futures stay pending."""
        if getattr(getattr(self.executor, "_client", None), "status", "") == "closed":
            raise self._gone("its Dask client has lost the scheduler")

    def probe(self, lost: Exception) -> None:
        """Raise if the executor does not even run a task that does nothing."""
        try:
            self._submit(platform.node).result(PROBE)
        except Exception:
            raise self._gone(reason(lost)) from lost

    def _gone(self, why: str) -> WorkerError:
        return WorkerError(
            f"the executor takes no more tasks: {why.rstrip('.')}. Finished work is not lost: "
            f"{self._work.advice}"
        )

    def leave(self, futures: Iterable[Future[Any]]) -> None:
        for future in futures:
            future.cancel()
        if self._make is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)


def _is_of_python(error: Exception) -> bool:
    """Whether an error is of pickling or importing a task, not of a lost worker."""
    of_python = isinstance(error, pickle.PickleError) or type(error).__module__ == "builtins"
    return of_python and not isinstance(error, OSError | RuntimeError)
