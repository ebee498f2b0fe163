"""Figures and tables of a data set: `df.dfgen.show()`, the same as functions, and reports.

Functions named `show...` return a figure with the frame it shows as `table`; others return frames.
`import dfgen.explore` adds the accessor `df.dfgen` to every DataFrame. Figures need matplotlib, of
the extra `explore`.
"""

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd

from dfgen.explore.charts import classes, problems, show_balance, show_sizes
from dfgen.explore.mistakes import Mistakes, mistakes
from dfgen.explore.report import report
from dfgen.explore.show import show, show_duplicates, show_leaks

__all__ = [
    "FrameAccessor", "Mistakes", "classes", "mistakes", "problems", "report", "show",
    "show_balance", "show_duplicates", "show_leaks", "show_sizes",
]  # fmt: skip


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
