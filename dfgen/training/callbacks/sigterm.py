"""SIGTERM, with which schedulers announce the end of a process: noted, and obeyed after a step."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Never


class Sigterm:
    """Notes SIGTERM while its `fit` runs, by `runs` of a frame.

    A second one ends the process at once. At other times, as after a `fit` that failed or within
    another one, and in forked processes, the handler before is called.
    """

    def __init__(self, runs: Callable[[FrameType | None], bool]) -> None:
        self._runs = runs
        self.noticed = False
        self._before: Any = None
        self._process: int | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sigterm":
        """Return one that does not watch."""
        return Sigterm(self._runs)

    def watch(self) -> None:
        """Begin to note SIGTERM; without effect outside of the main thread."""
        self.noticed = False
        if threading.current_thread() is threading.main_thread():
            self._process = os.getpid()
            if signal.getsignal(signal.SIGTERM) != self._note:
                self._before = signal.signal(signal.SIGTERM, self._note)

    def unwatch(self) -> None:
        """Put the handler before back."""
        if self._process is not None and signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        self._process = None

    def end(self) -> Never:
        """Call the handler that the program had, if any, and exit as SIGTERM does."""
        before = self._before
        while isinstance(other := getattr(before, "__self__", None), Sigterm):
            before = other._before  # of a fit that failed, or one around this one
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
        if callable(before):
            before(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        runs = self._process == os.getpid() and self._runs(frame)
        if runs and not self.noticed:
            self.noticed = True
        elif callable(self._before) and not self.noticed:
            self._before(number, frame)
        elif self._before != signal.SIG_IGN or self.noticed:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
