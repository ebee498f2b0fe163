"""SIGTERM, by which schedulers announce the end of a job."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Never


class Sigterm:
    """Notes SIGTERM while a `fit` of this process runs in the main thread, by `is_running`.

    A second SIGTERM has the effect that the program has set, as has any SIGTERM in a forked process
    and after a `fit` that failed.
    """

    def __init__(self, is_running: Callable[[], bool]) -> None:
        self._is_running, self._process = is_running, os.getpid()
        self._previous: Any = None
        self.noticed = False

    def watch(self) -> None:
        """Replace the handler; without effect outside of the main thread."""
        with suppress(ValueError):
            self._previous = signal.signal(signal.SIGTERM, self._note) or signal.SIG_DFL

    def unwatch(self) -> None:
        """Put the previous handler back."""
        if signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._previous)

    def exit(self) -> Never:
        """Call the handler that the program has set, if any, and exit with status 143."""
        previous = self._previous
        while isinstance(other := getattr(previous, "__self__", None), Sigterm):
            previous = other._previous  # of a fit that failed, or that runs around this one
        signal.signal(signal.SIGTERM, previous)
        if callable(previous):
            previous(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.noticed and os.getpid() == self._process and self._is_running():
            self.noticed = True
        else:
            signal.signal(number, self._previous)
            signal.raise_signal(number)
