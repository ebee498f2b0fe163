"""Splits by time: what comes first is trained on, what comes last is tested on."""

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.manifest.schema import EXAMPLES, quote
from dfgen.manifest.splitting.splits import check_shares, units_of, whole_shares
from dfgen.samples.arrow_types import are_numbers


def split_by_time(
    times: pd.Series, ids: pd.Series, shares: Mapping[str, float], group: pd.Series | None = None
) -> pd.Categorical:
    """Say for each row which split it belongs to: the earliest rows to the first, and so on.

    Each split has exactly its share, rounded to rows, but that rows of the same time stay together,
    in the split of the first of them. A group stands where its latest row does.

    Args:
        times: of each row: dates, times or numbers, none missing.
        ids: the id of each row, for messages.
        shares: split -> share, the earliest first, with a sum of 1.
        group: rows of one group stay together.

    Example:
        >>> list(split_by_time(pd.Series([3, 1, 2]), pd.Series("abc"), {"train": 0.6, "val": 0.4}))
        ['val', 'train', 'train']
    """
    check_shares(shares)
    ranks = _ranks(times, ids)
    if group is not None:
        units, _ = units_of(ids, group)
        ranks = pd.Series(ranks).groupby(units).transform("max").to_numpy()
    weights = np.array(list(shares.values())) / sum(shares.values())
    in_order = np.sort(ranks)
    parts = np.repeat(np.arange(len(weights)), whole_shares(len(ranks), weights))
    found = parts[np.searchsorted(in_order, ranks, side="left")]
    return pd.Categorical(np.array(list(shares), object)[found], categories=list(shares))


def _ranks(times: pd.Series, ids: pd.Series) -> npt.NDArray[np.int64]:
    """Return numbers in the order of the times, the same for the same time."""
    try:
        if times.dtype == object and times.map(_has_zone).nunique() > 1:
            raise pa.ArrowTypeError("times with and without a zone")  # Arrow takes these as of UTC
        half = times.dtype == np.float16  # which Arrow does not rank
        values = pa.array(times.astype(np.float32) if half else times, from_pandas=True)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        values = pa.nulls(0, pa.string())
    if not (pa.types.is_temporal(values.type) or are_numbers(values.type)):
        raise ManifestError(
            f"order={quote(times.name)}: the column holds {times.dtype}, expected dates, times or "
            f"numbers. Make them first: df[{quote(times.name)}] = "
            f"pandas.to_datetime(df[{quote(times.name)}])"
        )
    empty = pc.indices_nonzero(values.is_null()).to_pylist()
    if empty:
        shown = ", ".join(f"{row} (id {quote(ids.iloc[row])})" for row in empty[:EXAMPLES])
        raise ManifestError(
            f"{len(empty)} rows have no {quote(times.name)}, by which rows are put in order: row "
            f"{shown}. Fill them in, or drop them"
        )
    ranks: npt.NDArray[np.int64] = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _has_zone(time: object) -> bool | None:
    """Whether a time has a time zone; None of what is no time."""
    return time.tzinfo is not None if isinstance(time, datetime) else None
