"""Looking at data: `df.dfgen.show()` and its like, the plain functions behind them, and reports.

`show`, and all whose names begin with it, return a figure, whose `table` is the frame that it
shows. All others return what they are called, as a frame.

`import dfgen.explore` gives every DataFrame the accessor `df.dfgen`. Pictures are drawn by
matplotlib, of the extra `explore`; it is loaded when the first is asked for.
"""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd

from dfgen.explore.batch_pictures import show_batch as show_batch
from dfgen.explore.batch_pictures import show_draws as show_draws
from dfgen.explore.chosen_rows import problems as problems
from dfgen.explore.frame_charts import classes as classes
from dfgen.explore.frame_charts import show_balance as show_balance
from dfgen.explore.frame_charts import show_sizes as show_sizes
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
    show_balance = _of_frame(show_balance)
    show_sizes = _of_frame(show_sizes)
    show_duplicates = _of_frame(show_duplicates)
    show_leaks = _of_frame(show_leaks)
    classes = _of_frame(classes)
    problems = _of_frame(problems)
