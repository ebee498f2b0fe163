"""A built manifest in words: rows, classes, splits, problems, and what was left out."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dfgen.errors import count
from dfgen.manifest.schema import label_columns, part_column

CLASSES = 20
"""The kind of the finding of rows whose file does not exist."""
_MEND = (
    "Replace or convert these files, or leave their rows out; once the manifest is built, df = "
    'df[df["problem"].isna()]'
)


@dataclass(frozen=True)
class BuildReport:
    """Everything that a build did besides making rows."""

    skipped: Mapping[str, list[str]] = field(default_factory=dict)  # reason -> paths
    notes: tuple[str, ...] = ()  # what was done with rows that did not match
    warnings: tuple[str, ...] = ()  # what the user should look at


def summarize(frame: pd.DataFrame, report: BuildReport | None = None) -> str:
    """Describe a manifest, and what its build left out, in a few lines of text."""
    report = report or BuildReport()
    lines = [count(len(frame), "row")]
    if part := part_column(frame):
        sizes = frame[part].value_counts(sort=False).sort_index()
        lines[0] += ": " + ", ".join(
            f"{size} {'fold ' * (part == 'fold')}{name} ({size / len(frame):.1%})"
            for name, size in sizes.items()
        )
    for name in label_columns(list(frame.columns)):
        lines += _label_lines(frame, name)
    lines += [*problem_lines(frame), *lines_of_skipped(report.skipped), *report.notes]
    lines += [f"Warning: {warning}" for warning in report.warnings]
    return "\n".join(lines)


def figures(frame: pd.DataFrame, report: BuildReport) -> dict[str, Any]:
    """Describe a manifest for scripts, in plain JSON types; null where there are no splits."""
    counted = {
        name: {str(key): int(rows) for key, rows in frame[name].value_counts(sort=False).items()}
        for name in frame.columns
        if isinstance(frame[name].dtype, pd.CategoricalDtype) and name != "format"
    }
    folds = frame["fold"].value_counts().sort_index() if "fold" in frame else None
    return {
        "rows": len(frame),
        "columns": list(frame.columns),
        "splits": counted.pop("split", None),
        **({} if folds is None else {"folds": {str(k): int(n) for k, n in folds.items()}}),
        "labels": counted,
        "problems": problems_of(frame),
        "left_out": dict(report.skipped),
        "notes": list(report.notes),
        "warnings": list(report.warnings),
    }


def lines_of_skipped(skipped: Mapping[str, list[str]]) -> list[str]:
    """Return one line a reason for which paths were left out."""
    return [
        f"Left out: {count(len(paths), 'path')}, {reason}: {_some(paths)}"
        for reason, paths in sorted(skipped.items())
    ]


def _label_lines(frame: pd.DataFrame, name: str) -> list[str]:
    column = frame[name]
    missing = int(column.isna().sum())
    lack = f", {count(missing, 'row')} without" if missing else ""
    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_string_dtype(column):
        lines = _class_lines(frame, name)
        heads = part_column(frame) is not None
        classes = len(lines) - heads
        if classes > CLASSES:
            lines[CLASSES + heads :] = [f"and {classes - CLASSES} more"]
        return [f"{name}: {count(classes, 'class')}{lack}", *(f"  {line}" for line in lines)]
    if missing == len(column):
        return [f"{name}: nothing in {count(missing, 'row')}"]
    if pd.api.types.is_numeric_dtype(column):
        return [f"{name}: {column.min():g} to {column.max():g}, mean {column.mean():g}{lack}"]
    if pd.api.types.infer_dtype(column) in ("date", "datetime64"):
        return [f"{name}: {column.dropna().min()} to {column.dropna().max()}{lack}"]
    if column.map(pd.api.types.is_list_like, na_action="ignore").all():
        return [f"{name}: {int(column.str.len().sum())} in {count(len(column) - missing, 'row')}"]
    return [f"{name}: {column.dtype}{lack}"]


def _class_lines(frame: pd.DataFrame, name: str) -> list[str]:
    """Return one line a class with its rows, by split or fold, where there are some, as heads."""
    rows = frame[name].value_counts(sort=False).sort_index().rename("").to_frame()
    if part := part_column(frame):
        rows = frame.groupby([name, part], observed=False).size().unstack(fill_value=0)
    names = [" ".join(str(value).splitlines()) for value in rows.index]
    cells = [[str(value) for value in row] for row in rows.to_numpy().tolist()]
    if part:
        names, cells = ["", *names], [[str(column) for column in rows.columns], *cells]
    wide = max(map(len, names), default=0)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([name.ljust(wide), *(cell.rjust(w) for cell, w in zip(row, widths, strict=True))])
        for name, row in zip(names, cells, strict=True)
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
