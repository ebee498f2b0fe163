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

from dfgen.platform_calls import waking_pipe
from dfgen.training.fit_pass import Interruption

_GRACE = 3.0  # seconds that a step which waits for its batch gets to end after all
_ENDS = set[int]()  # where the system writes: of pipes of whoever watches, or of a failed `fit`


class Sigterm:
    """Notices SIGTERM while something runs, by `runs` of a frame, so that it can end in order.

    A second one ends the process at once. Python runs handlers in its main thread, which on
    TensorFlow does not come by while a step waits for its batch. So the system also writes the
    number of the signal into a pipe, where whoever makes that batch looks for it.
    """

    def __init__(self, runs: Callable[[FrameType | None], bool]) -> None:
        self._runs = runs
        self._before: Any = None
        self._leave: Any = None
        self._pipe: tuple[int, int] | None = None
        self._written = 0  # signals that came through the pipe
        self._since: float | None = None
        self.noticed = False

    def watch(self, leave: Callable[[], Any]) -> None:
        """Begin to notice; without effect outside of the main thread, where Python forbids it."""
        self.noticed, self._since, self._written = False, None, 0
        self._leave = weakref.WeakMethod(leave)
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGTERM)
            if before != self._notice:
                self._before = before
                signal.signal(signal.SIGTERM, self._notice)
            self._open_pipe()

    def unwatch(self) -> None:
        """Put the handler before back."""
        if signal.getsignal(signal.SIGTERM) == self._notice:
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        self._close_pipe()

    def end(self) -> Never:
        """Call the handler before, if the program had one, and leave as one that SIGTERM ends."""
        handler = self._before
        while isinstance(owner := getattr(handler, "__self__", None), Sigterm):
            handler = owner._before  # left there by a `fit` that failed
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
        self._close_pipe()
        if callable(handler):
            handler(signal.SIGTERM, None)
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
        if self._runs(frame) and not self.noticed:
            self.noticed = True
        elif callable(self._before) and not self.noticed:
            self._before(number, frame)
        elif self._before != signal.SIG_IGN or self.noticed:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _open_pipe(self) -> None:
        if self._pipe is not None:
            return
        other = signal.set_wakeup_fd(-1)
        if other != -1 and other not in _ENDS:  # of an event loop
            signal.set_wakeup_fd(other)
            return
        self._pipe = waking_pipe()
        if self._pipe is None:
            return
        _ENDS.add(self._pipe[1])
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._close = weakref.finalize(self, _close, self._pipe, other)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe = None
            self._close()


def _close(pipe: tuple[int, int], before: int) -> None:
    if threading.current_thread() is threading.main_thread():
        other = signal.set_wakeup_fd(-1)
        other = before if other == pipe[1] and before in _ENDS else other
        if other not in (-1, pipe[1]):
            signal.set_wakeup_fd(other)
        _ENDS.discard(pipe[1])
        for end in pipe:
            os.close(end)
