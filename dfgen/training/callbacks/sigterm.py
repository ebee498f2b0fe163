"""SIGTERM, by which schedulers announce the end of a process: noticed, not obeyed at once."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Never


class Sigterm:
    """Notices SIGTERM while something runs, so that it can end in order.

    `runs` tells whether that runs in a frame or one of its callers; else the signal does what it
    did before.
    """

    def __init__(self, runs: Callable[[FrameType | None], bool]) -> None:
        self._runs = runs
        self._before: Any = None
        self.noticed = False

    def watch(self) -> None:
        """Begin to notice; without effect outside of the main thread, where Python forbids it."""
        self.noticed = False
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGTERM)
            if before != self._notice:
                self._before = before
                signal.signal(signal.SIGTERM, self._notice)

    def unwatch(self) -> None:
        """Put the handler before back."""
        if signal.getsignal(signal.SIGTERM) == self._notice:
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)

    def end(self) -> Never:
        """Call the handler before, if the program had one, and leave as one that SIGTERM ends."""
        handler = self._before
        while isinstance(owner := getattr(handler, "__self__", None), Sigterm):
            handler = owner._before  # left there by a `fit` that failed
        signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
        if callable(handler):
            handler(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def _notice(self, number: int, frame: FrameType | None) -> None:
        if self._runs(frame):
            self.noticed = True
        elif callable(self._before):
            self._before(number, frame)
        elif self._before != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
