"""Tasks over any executor: results as they come, what was lost again, slow ones twice.

A task is done in whole or not at all, and done twice does no harm. So an executor may drop, double,
delay or reorder what it was given. A task that ends each worker is halved until the one part that
does it is found.
"""

import pickle
import platform
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from dfgen import __version__
from dfgen.errors import ArgumentError, WorkerError, brief, reason, warn

LOSSES = 3  # of a task, before it is held to end its worker
ISOLATED = 100  # parts that end each worker: more are no fault of theirs
AHEAD = 64  # tasks in flight, where nobody tells how many workers there are
PATIENCE = 1.5  # times as long as the slowest task that is done: it is begun anew beside itself
PULSE = 5.0  # seconds without a result, after which is seen whether any may come
PROBE, PROBES = 60.0, 10  # seconds for a task that does nothing, and how often it is tried

_Task = TypeVar("_Task")
_Tasks = Callable[[int | None], Iterable[_Task]]
Made = Executor | Callable[[], Executor]
"""An executor, or what makes one, and another where its workers were lost."""


class Outcome(NamedTuple):
    """A task that came back: its result or its error, and from which host."""

    host: str
    version: str
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class Work(Generic[_Task]):
    """The work of each task, which may be of any kind that is hashable.

    Args:
        call: what the worker calls, found there by its name.
        arguments: gives those of a task; they travel, and storage options with them.
        name: how messages call a task.
        halves: the two parts of a task, none of what cannot be divided.
        ends_worker: the result of a task that cannot be divided and ends each worker, as told;
            None: that is an error.
        advice: what messages say of what was done so far.
    """

    call: Callable[..., Any]
    arguments: Callable[[_Task], tuple[Any, ...]]
    name: Callable[[_Task], str]
    halves: Callable[[_Task], Sequence[_Task]] = lambda task: ()
    ends_worker: Callable[[_Task, str], Any] | None = None
    advice: str = "give another one"


def check_executor(given: object) -> None:
    """Refuse what is neither an executor nor makes one."""
    submits = callable(getattr(given, "submit", None)) and not isinstance(given, type)
    if given is not None and not submits and (isinstance(given, type) or not callable(given)):
        raise ArgumentError(
            f"executor must be a concurrent.futures.Executor, got {brief(given)}: leave it out, "
            "or give a ProcessPoolExecutor()"
        )


def workers_of(executor: Any) -> int | None:
    """Return how many tasks an executor does at a time; None: it does not tell."""
    number = getattr(executor, "_max_workers", None)  # of Python, and of most others
    if (client := _dask_client(executor)) is not None:
        number = _threads_of(client)
    return number if isinstance(number, int) and number > 0 else None


def attempt(version: str, packed: bytes) -> Outcome:
    """Do a task in a worker; whatever it raises is returned, so that all else is a lost worker."""
    host = platform.node()
    if version != __version__:
        return Outcome(host, __version__)
    try:
        call, arguments = pickle.loads(zlib.decompress(packed))
        return Outcome(host, version, call(*arguments))
    except Exception as error:
        return Outcome(host, version, error=error)


def spread(given: Made, work: Work[_Task], tasks: _Tasks[_Task]) -> Iterator[tuple[_Task, Outcome]]:
    """Yield each task, or its parts, with what came of it, as they come.

    `tasks` are told how many workers there are, None where nobody tells.

    Raises:
        WorkerError: the executor takes no tasks, or loses them again and again; or its workers have
            another dfgen, or none.
    """
    run = _Run(given, work, tasks)
    try:
        yield from run.results()
    finally:
        run.leave()


@dataclass(frozen=True)
class _Copy(Generic[_Task]):
    """A task in flight; `alone` if it is held to end its worker."""

    task: _Task
    since: float
    alone: bool


class _Run(Generic[_Task]):
    def __init__(self, given: Made, work: Work[_Task], tasks: _Tasks[_Task]) -> None:
        check_executor(given)
        self._make = None if hasattr(given, "submit") else given
        self._executor: Any = given if self._make is None else self._make()
        workers = workers_of(self._executor)
        self._work, self._waiting = work, deque(tasks(workers))
        self._half = len(self._waiting) / 2
        self._window = 2 * (workers or AHEAD // 2)
        self._suspects, self._losses = deque[_Task](), Counter[_Task]()
        self._flying: dict[Future[Any], _Copy[_Task]] = {}
        self._slowest, self._isolated, self._told = 0.0, 0, False

    def leave(self) -> None:
        for future in () if _has_lost_scheduler(self._executor) else self._flying:
            future.cancel()
        if self._make is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def results(self) -> Iterator[tuple[_Task, Outcome]]:
        while self._waiting or self._suspects or self._flying:
            self._fill()
            done, _ = wait(self._flying, self._patience(), FIRST_COMPLETED)
            for future in done:
                copy = self._flying.pop(future, None)
                if copy is not None:  # else its other copy came first
                    yield from self._taken(copy, future)
            if not done:
                self._check_client()
                self._double()

    def _fill(self) -> None:
        """Send tasks; where the executor takes no more, raise once those that it has are back."""
        try:
            while self._waiting and len(self._flying) < self._window:
                self._send(self._waiting[0])
                self._waiting.popleft()
            if self._suspects and not self._flying:
                self._send(self._suspects[0], alone=True)
                self._suspects.popleft()
        except WorkerError:
            if not self._flying:
                raise

    def _send(self, task: _Task, alone: bool = False) -> None:
        try:
            packed = pickle.dumps((self._work.call, self._work.arguments(task)))
            packed = zlib.compress(packed, 1)  # paths to a tenth
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            name = self._work.name(task)
            raise ArgumentError(
                f"what is needed for {name} cannot travel to a worker: {reason(error)}. Leave "
                "executor= out, or give what can be pickled"
            ) from error
        future = self._submit(attempt, __version__, packed)
        self._flying[future] = _Copy(task, time.monotonic(), alone)

    def _submit(self, *call: Any) -> Future[Any]:
        try:
            return self._executor.submit(*call)  # type: ignore[no-any-return]
        except Exception as error:
            if self._make is None:
                raise self._gone(error) from error
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._make()
        return self._executor.submit(*call)  # type: ignore[no-any-return]

    def _taken(self, copy: _Copy[_Task], future: Future[Any]) -> Iterator[tuple[_Task, Outcome]]:
        """Yield what came of a task; begin it again where it was lost."""
        try:
            outcome: Outcome = future.result()
        except Exception as error:
            yield from self._lost(copy, error)
            return
        if outcome.version != __version__:
            raise WorkerError(
                f"the worker on {outcome.host} has dfgen {outcome.version}, and here is "
                f"{__version__}: install the same on all hosts"
            )
        if outcome.error is not None:
            outcome.error.add_note(f"on {outcome.host}, {self._work.name(copy.task)}")
            raise outcome.error
        self._slowest = max(self._slowest, time.monotonic() - copy.since)
        for other in [key for key, each in self._flying.items() if each.task == copy.task]:
            other.cancel()
            del self._flying[other]
        yield copy.task, outcome

    def _lost(self, copy: _Copy[_Task], error: Exception) -> Iterator[tuple[_Task, Outcome]]:
        """Begin a task again; after three times find which part of it ends the workers."""
        if _is_of_python(error):
            raise WorkerError(
                f"the executor cannot run {self._work.name(copy.task)}: {reason(error)}. Its "
                f"workers need dfgen {__version__}, as here, and the task must be picklable"
            ) from error
        task = copy.task
        if any(each.task == task for each in self._flying.values()):
            return
        if parts := copy.alone and self._work.halves(task):
            self._suspects.extendleft(reversed(parts))
            return
        self._losses[task] += 1
        if self._losses[task] < LOSSES:
            (self._suspects if copy.alone else self._waiting).appendleft(task)
            return
        self._probe(error)
        if not copy.alone:
            self._losses[task] = 0
            self._suspects.append(task)
            return
        self._isolated += 1
        told = f"each worker that read it was lost: {reason(error)}"
        if self._work.ends_worker is None or self._isolated > ISOLATED:
            raise WorkerError(
                f"{self._work.name(task)}: {told}. It was tried {LOSSES} times, alone"
            ) from error
        yield task, Outcome("", __version__, self._work.ends_worker(task, told))

    def _probe(self, lost: Exception) -> None:
        """Raise if the executor does not even do what is nothing, not once."""
        until = time.monotonic() + PROBE
        for _ in range(PROBES):
            with suppress(Exception):
                self._submit(platform.node).result(max(0.0, until - time.monotonic()))
                return
        raise self._gone(lost) from lost

    def _gone(self, error: Exception) -> WorkerError:
        why = reason(error).rstrip(".")
        if _has_lost_scheduler(self._executor):
            why = "its Dask client has lost the scheduler"
        return WorkerError(
            f"the executor takes no more tasks: {why}. Finished work is not lost: "
            f"{self._work.advice}"
        )

    def _check_client(self) -> None:
        """Raise if nothing will come any more of what was sent; tell who is waited for."""
        if _has_lost_scheduler(self._executor):
            raise self._gone(ConnectionError())
        client = _dask_client(self._executor)
        if client is not None and not self._told and _threads_of(client) == 0:
            self._told = True
            address = client.scheduler.address
            warn(f"{address} has no workers, and is waited for: `dask worker {address}` starts one")

    def _slow(self) -> list[tuple[float, _Task]]:
        """Return the tasks that may be begun anew, and in how many seconds."""
        copies, now = Counter(copy.task for copy in self._flying.values()), time.monotonic()
        left = len(self._suspects) + len(copies)
        if self._waiting or left > self._half or len(self._flying) >= self._window:
            return []
        return [
            (copy.since + PATIENCE * self._slowest * copies[copy.task] - now, copy.task)
            for copy in self._flying.values()
            if not copy.alone and copies[copy.task] < LOSSES
        ]

    def _patience(self) -> float:
        slow = [seconds for seconds, _ in self._slow()]
        return min(PULSE, max(0.01, min(slow))) if slow else PULSE

    def _double(self) -> None:
        for seconds, task in self._slow():
            if seconds <= 0:
                with suppress(WorkerError):  # it takes no more, and may still end those it has
                    self._send(task)


def _has_lost_scheduler(executor: Any) -> bool:
    """Whether an executor is of a Dask client that is closed: its futures stay pending for ever."""
    client = _dask_client(executor)
    return client is not None and client.status == "closed"


def _dask_client(executor: Any) -> Any:
    """Return the client of an executor of Dask; None: it is another one."""
    client = getattr(executor, "_client", None)
    return client if hasattr(client, "nthreads") else None


def _threads_of(client: Any) -> int | None:
    """Return the threads of a Dask client's workers; None: its scheduler does not answer now."""
    with suppress(Exception):  # of sockets, while it tries to connect again
        return sum(client.nthreads().values()) if client.status == "running" else None
    return None


def _is_of_python(error: Exception) -> bool:
    """Whether the call itself failed on its way, as no worker that was lost does."""
    of_python = isinstance(error, pickle.PickleError) or type(error).__module__ == "builtins"
    return of_python and not isinstance(error, OSError)
