"""Interruption: what ends the wait for a batch when the process is to end."""

from collections.abc import Callable
from typing import Any


class Interruption(Exception):
    """A batch is given up since the process is to end; `leave` ends it, in the main thread."""

    def __init__(self, leave: Callable[[], Any]) -> None:
        super().__init__("the process is to end")
        self.leave = leave
