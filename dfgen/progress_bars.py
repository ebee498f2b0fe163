"""Progress bars: in a terminal and in a notebook, and none where the output goes to a file."""

import contextlib
import os
import sys
import warnings
from typing import Any

_SIZE = (80, 24)  # columns and lines of a terminal that does not tell its own
_DELAY = 0.5  # seconds until a notebook shows one, as bars stay in it


def progress(total: float | None, what: str, unit: str, **how: Any) -> Any:
    """Return a bar of tqdm, to be entered and updated.

    Args:
        total: how many there are; None: not known.
        what: what is done, as `"Reading headers"`.
        unit: what is counted, with a blank before it, as `" files"`.
        how: other arguments of tqdm.

    Example:
        >>> with progress(3, "Counting", " sheep") as bar:
        ...     bar.update(3)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets a notebook shows the bar as text
        from tqdm.auto import tqdm  # late: it loads asyncio
    if total != 0 and _in_notebook():
        return tqdm(total=total, desc=what, unit=unit, delay=_DELAY, **how)
    with contextlib.suppress(OSError):
        if not os.get_terminal_size(sys.__stderr__.fileno()).columns:  # type: ignore[union-attr]
            how = {"ncols": _SIZE[0], "nrows": _SIZE[1], **how}
    off = total == 0 or sys.stderr is None or sys.stderr.closed
    return tqdm(total=total, desc=what, unit=unit, disable=off or None, **how)


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs the code, whose output is no terminal and shows bars."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config
