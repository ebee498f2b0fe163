"""Progress bars in terminals and notebooks."""

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
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    in_notebook = "IPKernelApp" in getattr(shell, "config", ())  # whose output is no terminal
    is_terminal = False
    with suppress(AttributeError, ValueError):  # stderr is None or closed
        is_terminal = sys.stderr.isatty()
    options["disable"] = total == 0 or not (in_notebook or is_terminal)
    return tqdm(total=total, desc=what, unit=unit, delay=_DELAY * in_notebook, **options)
