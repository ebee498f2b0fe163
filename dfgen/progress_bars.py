"""Progress bars in terminals and notebooks."""

import os
import sys
import warnings
from contextlib import suppress
from typing import Any

_DELAY = 0.5  # seconds until a notebook shows a bar, because bars stay in it


def progress(total: float | None, what: str, unit: str, **options: Any) -> Any:
    """Return a bar of tqdm. It is disabled if stderr is not a terminal, closed or missing.

    Args:
        total: the number of items, or None if it is unknown.
        what: the activity, as "Reading headers".
        unit: the unit after a blank, as " files".
        options: other arguments of tqdm.

    Example:
        >>> with progress(3, "Counting", " sheep") as bar:
        ...     bar.update(3)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets a notebook shows the bar as text
        from tqdm.auto import tqdm  # late: it loads asyncio
    if total != 0 and _in_notebook():
        return tqdm(total=total, desc=what, unit=unit, delay=_DELAY, **options)
    shown = False
    with suppress(AttributeError, OSError, ValueError):  # stderr is None, closed or replaced
        shown = total != 0 and sys.stderr.isatty()
        if shown and not os.get_terminal_size(sys.stderr.fileno()).columns:
            options = {"ncols": 80, "nrows": 24, **options}
    return tqdm(total=total, desc=what, unit=unit, disable=not shown, **options)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs the code. Its output is no terminal, but shows bars."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config
