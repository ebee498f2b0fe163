"""A built manifest in words: rows, classes, splits, problems, and what was left out."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from dfgen.errors import count


@dataclass(frozen=True)
class BuildReport:
    """Everything that a build did besides making rows."""

    skipped: Mapping[str, list[str]] = field(default_factory=dict)  # reason -> paths
    notes: tuple[str, ...] = ()  # what was done with rows that did not match
    warnings: tuple[str, ...] = ()  # what the user should look at


def lines_of_skipped(skipped: Mapping[str, list[str]]) -> list[str]:
    """Return one line a reason for which paths were left out."""
    return [
        f"Left out: {count(len(paths), 'path')}, {reason}: {_some(paths)}"
        for reason, paths in sorted(skipped.items())
    ]


def problems_of(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the kinds of problems, and what the rows of each are called."""
    if "problem" not in frame or not frame["problem"].notna().any():
        return {}
    broken = frame[frame["problem"].notna()]
    kinds = broken["problem"].str.partition(":")[0]
    names = broken["path" if "path" in broken else "id"].astype(str)
    return {kind: rows.tolist() for kind, rows in names.groupby(kinds, sort=False)}


def problem_lines(frame: pd.DataFrame) -> list[str]:
    """Return how many rows have a problem, and one line a kind of it; nothing where none has."""
    problems = problems_of(frame)
    if not problems:
        return []
    lines = [f"  {len(names)}  {kind}: {_some(names)}" for kind, names in sorted(problems.items())]
    return [f"{count(sum(map(len, problems.values())), 'problem')}:", *lines]


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(os.fspath(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
