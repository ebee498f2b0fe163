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
_ENDS = list[int]()  # the writing ends of pipes that are open, the newest last


class Sigterm:
    """Notices SIGTERM while something runs, by `runs` of a frame, so that it can end in order.

    A second one ends the process at once. Python runs handlers in its main thread, which on
    TensorFlow does not come by while a step waits for its batch. So the system also writes the
    number of the signal into a pipe, where whoever makes that batch looks for it.

    A `fit` that fails leaves its Sigterm watching. The next one takes its place, and gives it back
    if it is still there, as that of a `fit` that has called the next one. Forked processes notice
    nothing.
    """

    def __init__(self, runs: Callable[[FrameType | None], bool]) -> None:
        self._runs = runs
        self._before: Any = None  # the handler of the program
        self._outer: Any = None  # whose place this one takes, if it is still there
        self._leave: Any = None
        self._process = os.getpid()
        self._pipe: tuple[int, int] | None = None
        self._written = 0  # signals that came through the pipe
        self._since: float | None = None
        self.noticed = False

    def watch(self, leave: Callable[[], Any]) -> None:
        """Begin to notice; without effect outside of the main thread, where Python forbids it."""
        self.noticed, self._since, self._written = False, None, 0
        self._leave = weakref.WeakMethod(leave)
        if _in_main_thread():
            before = signal.getsignal(signal.SIGTERM)
            if before != self._notice:
                self._outer = None
                if isinstance(outer := getattr(before, "__self__", None), Sigterm):
                    self._outer, before = weakref.WeakMethod(outer._notice), outer._before
                self._before = before
                signal.signal(signal.SIGTERM, self._notice)
            self._process = os.getpid()
            self._open_pipe()

    def unwatch(self) -> None:
        """Put the handler before back."""
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) == self._notice:
            outer = None if self._outer is None else self._outer()
            signal.signal(signal.SIGTERM, outer or self._before or signal.SIG_DFL)
        self._close_pipe()

    def end(self) -> Never:
        """Call the handler before, if the program had one, and leave as one that SIGTERM ends."""
        signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        self._close_pipe()
        if callable(self._before):
            self._before(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def look(self) -> None:
        """Give up a batch that any thread waits for, when SIGTERM came a while ago."""
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                self._written += os.read(self._pipe[0], 64).count(signal.SIGTERM)
        if self._written > 1:
            os._exit(128 + signal.SIGTERM)
        if (self.noticed or self._written) and self._since is None:
            self._since = time.monotonic()
        if self._since is not None and time.monotonic() - self._since > _GRACE:
            leave = self._leave()
            if leave is not None:
                raise Interruption(leave)

    def _notice(self, number: int, frame: FrameType | None) -> None:
        is_forked = self._process != os.getpid()
        if not is_forked and self._runs(frame) and not self.noticed:
            self.noticed = True
        elif callable(self._before) and not self.noticed:
            self._before(number, frame)
        elif self._before != signal.SIG_IGN or self.noticed:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _open_pipe(self) -> None:
        self._close_pipe()  # which may hold what came before
        if _let_go() and (pipe := waking_pipe()) is not None:
            self._pipe = pipe
            _ENDS.append(pipe[1])
            signal.set_wakeup_fd(pipe[1], warn_on_full_buffer=False)
            self._close = weakref.finalize(self, _close, pipe)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe = None
            self._close()


def _close(pipe: tuple[int, int]) -> None:
    if _in_main_thread():
        is_free = _let_go()
        _ENDS.remove(pipe[1])
        if is_free and _ENDS:
            signal.set_wakeup_fd(_ENDS[-1], warn_on_full_buffer=False)
        for end in pipe:
            os.close(end)


def _let_go() -> bool:
    """Have the system write into no pipe of ours; False: it still writes into another one."""
    other = signal.set_wakeup_fd(-1)
    if other in (-1, *_ENDS):
        return True
    signal.set_wakeup_fd(other)  # of an event loop
    return False


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


after_fork(_let_go)
