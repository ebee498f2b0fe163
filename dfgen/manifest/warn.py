"""Warnings about a manifest, a frame, x and y."""

import sys
import warnings

from dfgen.errors import legible


def warn(message: str) -> None:
    """Warn in the name of the caller's own line, however deep in dfgen it is noticed."""
    # no stacklevel is right for every x and y, and skip_file_prefixes came with Python 3.12
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dfgen."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(legible(message, 1_000), stacklevel=depth)
