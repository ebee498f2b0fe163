"""Copies in several splits, of which the manifest knows: told once, where rows are measured on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.manifest.schema import PARTS
from dfgen.manifest.splitting.leaking_splits import told
from dfgen.manifest.warn import warn


def warn_of_leaks(columns: Columns, whole: bool = False, fold: int | None = None) -> None:
    """Warn of rows whose picture stands in an earlier split, as the manifest was split.

    A Sequence knows its own rows alone. So it is told of those that have their copy elsewhere: that
    of "val" is, that of "train" is not, nor is one of all splits together. Only the few rows that
    the manifest names are looked for: where they were left out, or are in another split now,
    nothing is said.

    Args:
        columns: some rows of a manifest, or all.
        whole: whether both sides are looked for, as of all rows.
        fold: of `whole`, the one that validates.
    """
    leaks = columns.leaks
    if not leaks or "id" not in columns.names:
        return
    examples = leaks["examples"]
    rows, others = (_parts_of(columns, [one[at] for one in examples]) for at in (0, 2))
    for row, part, other, place in examples:
        if fold is not None and fold not in (part, place):
            continue
        there = others.get(other, _NOWHERE) in (place, None) if whole else other not in others
        if rows.get(row, _NOWHERE) in (part, None) and there:
            warn(told(leaks["rows"], row, part, other, place))
            return


def without_leaks(columns: Columns) -> Columns:
    """Return columns that say nothing of leaks, as a frame of theirs does not."""
    source = columns.source
    if columns.leaks and isinstance(source, pd.DataFrame):
        source = source.copy(deep=False)
        known = {name: value for name, value in source.attrs["dfgen"].items() if name != "leaks"}
        source.attrs = {**source.attrs, "dfgen": known}
    return replace(columns, source=source, leaks=None)


_NOWHERE = object()


def _parts_of(columns: Columns, ids: list[Any]) -> Mapping[Any, Any]:
    """Return the split of those of these ids that are there; None where there are no splits."""
    known = columns["id"]
    try:
        wanted = pa.array(ids, known.type)
    except (pa.ArrowException, TypeError, OverflowError):  # of other ids than these rows have
        return {}
    places = pc.indices_nonzero(pc.is_in(known, value_set=wanted))
    part = next((name for name in PARTS if name in columns.names), None)
    found = known.take(places).to_pylist()
    if part is None:
        return dict.fromkeys(found)
    return dict(zip(found, columns[part].take(places).to_pylist(), strict=True))
