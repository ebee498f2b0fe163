"""SIGTERM, by which schedulers announce the end of a process: noticed, not obeyed at once."""

import contextlib
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Never

from dfgen.platform_calls import after_fork, waking_pipe
from dfgen.training.fit_pass import Interruption

_GRACE = 3.0  # seconds that a step which waits for its batch gets to end after all
_PIPE = list[int]()  # its two ends, for all, as long as the process lives
_CAME = list[int]()  # SIGTERMs that came through it: a list, as any thread may add to it


class Sigterm:
    """Notices SIGTERM while something runs, by `runs` of a frame, so that it can end in order.

    A second one ends the process at once. Python runs handlers in its main thread, which on
    TensorFlow does not come by while a step waits for its batch. So the system also writes the
    number of the signal into a pipe, where whoever makes that batch looks for it.

    A `fit` that fails leaves its Sigterm watching, and one that calls another `fit` is to notice
    what comes meanwhile and later. So the newest one that runs notices it, of those that are still
    there. Forked processes notice nothing, and what comes while none runs is the program's.
    """

    def __init__(self, runs: Callable[[FrameType | None], bool]) -> None:
        self._runs = runs
        self._before: Any = None  # the handler of the program
        self._outer = list["weakref.ref[Sigterm]"]()  # whose place this one takes, the newest last
        self._leave: Any = None
        self._process: int | None = None  # that in which it watches
        self._heard = 0  # signals of _CAME that are not for this one
        self._since: float | None = None
        self.noticed = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sigterm":
        """Return one that does not watch."""
        return Sigterm(self._runs)

    def watch(self, leave: Callable[[], Any]) -> None:
        """Begin to notice; without effect outside of the main thread, where Python forbids it."""
        self.noticed, self._since = False, None
        self._leave = weakref.WeakMethod(leave)
        if _in_main_thread():
            before = signal.getsignal(signal.SIGTERM)
            if before != self._notice:
                self._outer = []
                if isinstance(outer := getattr(before, "__self__", None), Sigterm):
                    self._outer = [each for each in outer._outer if each() not in (None, self)]
                    self._outer.append(weakref.ref(outer))
                    before = outer._before
                self._before = before
                signal.signal(signal.SIGTERM, self._notice)
            self._process = os.getpid()
            if not _PIPE:
                _PIPE.extend(waking_pipe() or ())
            if _PIPE:
                _write_into(_PIPE[1])
        self._heard = _came()

    def unwatch(self) -> None:
        """Put the handler before back."""
        self._process = None
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) == self._notice:
            if outside := self._outside():
                signal.signal(signal.SIGTERM, outside[0]._notice)
                return
            _write_into(-1)
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)

    def end(self) -> Never:
        """Call the handler before, if the program had one, and leave as one that SIGTERM ends."""
        _write_into(-1)
        signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        if callable(self._before):
            self._before(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def look(self) -> None:
        """Give up a batch that any thread waits for, when SIGTERM came a while ago."""
        if not isinstance(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), Sigterm):
            return  # the program has set a handler meanwhile
        written = _came() - self._heard
        if written > 1:
            os._exit(128 + signal.SIGTERM)
        if (self.noticed or written) and self._since is None:
            self._since = time.monotonic()
        if self._since is not None and time.monotonic() - self._since > _GRACE:
            leave = self._leave()
            if leave is not None:
                raise Interruption(leave)

    def _notice(self, number: int, frame: FrameType | None) -> None:
        watching = [self, *self._outside()]
        running = [each for each in watching if each._watches and each._runs(frame)]
        noticed = any(each.noticed for each in running or [self])
        if running and not noticed:
            running[0].noticed = True
        elif callable(self._before) and not noticed:
            for each in watching:
                each._heard, each._since = _came(), None
            self._before(number, frame)
        elif self._before != signal.SIG_IGN or noticed:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    @property
    def _watches(self) -> bool:
        return self._process == os.getpid()

    def _outside(self) -> "list[Sigterm]":
        """Return those that watch besides, the newest first."""
        found = [each() for each in reversed(self._outer)]
        return [each for each in found if each is not None and each._watches]


def _came() -> int:
    """Return how many SIGTERMs have come through the pipe."""
    with contextlib.suppress(BlockingIOError):
        while _PIPE:
            _CAME.extend(each for each in os.read(_PIPE[0], 64) if each == signal.SIGTERM)
    return len(_CAME)


def _write_into(end: int) -> None:
    """Have the system write signals there, -1: nowhere, unless an event loop has it elsewhere."""
    other = signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    if other not in (-1, *_PIPE):
        signal.set_wakeup_fd(other)


def _forked() -> None:
    """Leave the pipe to the process that this one is forked from."""
    _write_into(-1)
    _PIPE.clear()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


after_fork(_forked)
