"""Shares of an epoch: how much of it the rows of each source, or class, are."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, brief, listed

DrawnBy = str | Mapping[str, Mapping[Any, float]] | None
"""As of `dfgen.Sequence`: a column, or column -> what it holds -> its share of an epoch."""


def weights_of_shares(
    columns: Columns, balance: Mapping[str, Mapping[Any, float]]
) -> tuple[str, npt.NDArray[np.float64]]:
    """Return the column, and the weight of each row: its part of the share of its value.

    Raises:
        ArgumentError: it is no such mapping, or the shares are none of a whole.
        ManifestError: the column holds what has no share, or not what has one.
    """
    name, shares = next(iter(balance.items()), (None, None))
    if len(balance) != 1 or not isinstance(shares, Mapping) or not shares:
        raise ArgumentError(
            f"balance must be a column, or shares of what one holds, got {brief(balance)}: write "
            'balance={"source": {"ours": 0.7, "theirs": 0.3}}'
        )
    column, given = columns.check("balance", name), list(shares.values())
    if not all(isinstance(share, Real) and 0 <= share <= 2**53 for share in given):
        raise ArgumentError(f"shares must be numbers from 0 to 1, got balance={dict(balance)!r}")
    if abs((total := sum(given)) - 1) > 1e-6:
        instead = ""
        if total > 0:
            parts = {one: round(share / total, 4) for one, share in shares.items()}
            instead = f": in the same proportion they are {parts}"
        raise ArgumentError(
            f"the shares of balance={{{column!r}: ...}} sum to {total:g}, expected 1{instead}"
        )
    values = columns[column]
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    counts = _counts(column, values, shares)
    if counts.keys() != shares.keys():
        without = [one for one in counts if one not in shares]
        absent = [one for one in shares if one not in counts]
        what = f"holds {listed(without)}, without a share" if without else ""
        what = what or f"does not hold {listed(absent)}, which has one"
        raise ManifestError(
            f"balance={{{column!r}: ...}}: the column {what}: expected a share of each value in "
            "it, 0 of those that are not to be drawn, and of no others"
        )
    places = pc.index_in(values, value_set=pa.array([*shares], values.type)).to_numpy()
    each = np.array([share / counts[one] for one, share in shares.items()])
    weights: npt.NDArray[np.float64] = each[places]
    return column, weights


def _counts(column: str, values: pa.ChunkedArray, shares: Mapping[Any, float]) -> dict[Any, int]:
    """Return value -> its rows, of a column of whose type the values with a share may be."""
    is_bool = pa.types.is_boolean(values.type)
    known = [one for one in shares if one is not None]
    if not pa.types.is_nested(values.type) and all(
        isinstance(one, bool | np.bool_) == is_bool for one in known
    ):
        return {one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()}
    raise ManifestError(
        f"balance={{{column!r}: ...}}: the column is of {values.type}, and its shares are of "
        f"{listed(known)}: expected a column of text, numbers or booleans, and a share of each of "
        "its values, written as it is there"
    )
