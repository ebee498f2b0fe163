"""`df.dfgen`: looking at a frame in a word or two."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd

from dfgen.explore.chosen_rows import problems
from dfgen.explore.class_counts import balance, classes
from dfgen.explore.file_sizes import sizes
from dfgen.explore.picture_grid import show, show_duplicates, show_leaks

P = ParamSpec("P")
R = TypeVar("R")


def _of_frame(
    function: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate["FrameAccessor", P], R]:
    """Return a function of a manifest as a method, of its frame."""

    @wraps(function)
    def method(self: "FrameAccessor", /, *given: P.args, **named: P.kwargs) -> R:
        return function(self._frame, *given, **named)

    return method


@pd.api.extensions.register_dataframe_accessor("dfgen")
class FrameAccessor:
    """The methods of `df.dfgen`; each is a function of `dfgen.explore` too, which explains it.

    Example:
        >>> import dfgen.explore  # doctest: +SKIP
        >>> df.dfgen.show(by="kind")
        >>> df.dfgen.classes()
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    show = _of_frame(show)
    classes = _of_frame(classes)
    balance = _of_frame(balance)
    sizes = _of_frame(sizes)
    problems = _of_frame(problems)
    duplicates = _of_frame(show_duplicates)
    leaks = _of_frame(show_leaks)
