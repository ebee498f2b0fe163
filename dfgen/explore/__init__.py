"""Looking at data: `df.dfgen.show()` and its like, the plain functions behind them, and reports.

`import dfgen.explore` gives every DataFrame the accessor `df.dfgen`. Pictures are drawn by
matplotlib, of the extra `explore`; it is loaded when the first is asked for.
"""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd

from dfgen.explore.batch_pictures import batch as batch
from dfgen.explore.batch_pictures import draws as draws
from dfgen.explore.chosen_rows import problems as problems
from dfgen.explore.class_counts import balance as balance
from dfgen.explore.class_counts import classes as classes
from dfgen.explore.file_sizes import sizes as sizes
from dfgen.explore.mistakes import Mistakes as Mistakes
from dfgen.explore.mistakes import mistakes as mistakes
from dfgen.explore.picture_grid import show as show
from dfgen.explore.picture_grid import show_duplicates as show_duplicates
from dfgen.explore.picture_grid import show_leaks as show_leaks
from dfgen.explore.report_file import report as report
from dfgen.explore.thumbnails import thumbnails as thumbnails
from dfgen.explore.visible_pixels import Thumbnail as Thumbnail

P = ParamSpec("P")
R = TypeVar("R")


def _of_frame(
    function: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate["FrameAccessor", P], R]:
    @functools.wraps(function)
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
