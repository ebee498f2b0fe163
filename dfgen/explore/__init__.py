"""Figures and tables of a data set: `df.dfgen.show()`, the same as functions, and reports.

Functions named `show...` return a figure with the frame it shows as `table`; others return frames.
`import dfgen.explore` adds the accessor `df.dfgen` to every DataFrame. Figures need matplotlib, of
the extra `explore`.
"""

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd

from dfgen.explore.charts import classes as classes
from dfgen.explore.charts import problems as problems
from dfgen.explore.charts import show_balance as show_balance
from dfgen.explore.charts import show_sizes as show_sizes
from dfgen.explore.mistakes import Mistakes as Mistakes
from dfgen.explore.mistakes import mistakes as mistakes
from dfgen.explore.report import report as report
from dfgen.explore.show import show as show
from dfgen.explore.show import show_duplicates as show_duplicates
from dfgen.explore.show import show_leaks as show_leaks


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: "FrameAccessor", /, *args: Any, **kwargs: Any) -> Any:
        return function(self._frame, *args, **kwargs)

    return method


@pd.api.extensions.register_dataframe_accessor("dfgen")
class FrameAccessor:
    """The accessor `df.dfgen`; each method is a function of `dfgen.explore`, applied to `df`.

    Example:
        >>> import dfgen.explore  # doctest: +SKIP
        >>> df.dfgen.show(by="kind")
        >>> df.dfgen.classes()
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    show = _method(show)
    show_balance = _method(show_balance)
    show_sizes = _method(show_sizes)
    show_duplicates = _method(show_duplicates)
    show_leaks = _method(show_leaks)
    classes = _method(classes)
    problems = _method(problems)
