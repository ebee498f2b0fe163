"""Where files are that are not where a table says: below another root, or written otherwise."""

import os
import re
from collections.abc import Sequence
from itertools import islice

from dfgen.manifest.schema import quote

LEVELS = 4
"""Folders above the root that are looked in."""
BELOW = 200
"""Folders in the root that are looked in."""


def what_finds(paths: Sequence[str], folder: str) -> str:
    """Return what to change so that a few files are found, or nothing.

    Args:
        paths: absolute, as they were looked for.
        folder: the absolute folder where relative ones started.
    """
    written = [path.removeprefix(f"{folder.rstrip('/')}/") for path in paths]
    if all(path.startswith("~") for path in written):
        return 'Paths start with "~", which is not expanded: os.path.expanduser does it'
    parts = [re.split(r"[\\/]+", path) for path in written]
    places = [folder, *_above(folder), *_below(folder)]
    for cut in range(min(map(len, parts))):
        if any(names[:cut] != parts[0][:cut] for names in parts):
            break
        for place in places:
            if all(os.path.isfile(os.path.join(place, *names[cut:])) for names in parts):
                return _said(written[0], cut, place, folder)
    if not any(os.path.splitext(path)[1] for path in written):
        shown = ", ".join(quote(path) for path in dict.fromkeys(written))
        return f"Is {shown} the path of a file? Name the column of paths, path_column="
    return ""


def _above(folder: str) -> list[str]:
    found = []
    for _ in range(LEVELS):
        folder = os.path.dirname(folder)
        if os.path.dirname(folder) == folder:
            break
        found.append(folder)
    return found


def _below(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in islice(entries, BELOW) if entry.is_dir())
    except OSError:
        return []


def _said(path: str, cut: int, place: str, folder: str) -> str:
    """Say what of a path to change, and the root below which it then is."""
    steps = []
    if cut:
        head = re.match(rf"(?:[^\\/]*[\\/]+){{{cut}}}", path)
        steps.append(f"without {quote(head[0] if head else path)} before them")
    if "\\" in path:
        steps.append("with / in place of each backslash")
    if place != folder or re.match(r"/|[A-Za-z]:", path):
        steps.append(f"with root={quote(place)} (--root)")
    return f"They are found {', '.join(steps)}"
