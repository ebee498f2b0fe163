"""How well a pack in its own order mixes classes: how many of them a batch has, on average."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.binding.row_windows import window_bytes
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.windows import Windows, fitting
from dfgen.manifest.schema import label_columns
from dfgen.samples.arrow_types import in_one, is_text

BATCH = 32


class Mixing(NamedTuple):
    """Classes in a batch, expected.

    Args:
        column: whose classes.
        classes: how many there are.
        packed: in a batch of 32 of the pack.
        shuffled: in one of a full shuffle.
    """

    column: str
    classes: int
    packed: float
    shuffled: float

    def __str__(self) -> str:
        return (
            f"A batch of {BATCH} rows will have {self.packed:.1f} of the {self.classes} classes of "
            f"{self.column!r} on average; of a full shuffle it has {self.shuffled:.1f}"
        )


def mixing(table: pa.Table, starts: Integers, nbytes: Integers) -> Mixing | None:
    """Return how well classes mix in the windows of a Sequence; None where no column has classes.

    Args:
        table: the columns of the manifest in the order of the pack.
        starts: the first row of each shard, and the number of rows.
        nbytes: of each shard.
    """
    known = [name for name in label_columns(table.column_names) if _has_classes(table[name].type)]
    if not known:
        return None
    codes = _codes(in_one(table[known[0]]))
    classes = int(codes.max(initial=0)) + 1
    counts = np.zeros((len(starts) - 1, classes), np.int64)
    np.add.at(counts, (np.repeat(np.arange(len(starts) - 1), np.diff(starts)), codes), 1)
    windows = Windows(starts, fitting(window_bytes(None), int(nbytes.mean())))
    last = windows.window(int(starts[-1]) - 1, seed=0, epoch=0)
    blocks = (windows.blocks_of(number, seed=0, epoch=0) for number in range(last + 1))
    drawn = np.array([counts[some].sum(axis=0) for some in blocks])
    packed = float(np.average(expected_classes(drawn, BATCH), weights=drawn.sum(axis=1)))
    shuffled = float(expected_classes(counts.sum(axis=0)[None], BATCH)[0])
    return Mixing(known[0], classes, packed, shuffled)


def expected_classes(counts: Integers, batch: int) -> npt.NDArray[np.float64]:
    """Return how many classes a batch has on average that is drawn without replacement.

    That is the sum over classes of 1 - C(N - n, batch) / C(N, batch), the hypergeometric chance
    that one of its n among N rows is drawn.

    Args:
        counts: rows of each class, shape (sets, classes).
        batch: rows that are drawn of each set; all, where it has no more.

    Example:
        >>> expected_classes(np.array([[1, 1], [2, 0]]), 1).tolist()
        [1.0, 1.0]
    """
    rows = counts.sum(axis=1, keepdims=True)
    absent = np.ones(counts.shape)
    for drawn in range(batch):
        absent *= np.clip(rows - counts - drawn, 0, None) / np.maximum(rows - drawn, 1)
    found: npt.NDArray[np.float64] = np.where(counts > 0, 1 - absent, 0).sum(axis=1)
    return found


def _has_classes(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind)


def _codes(values: Any) -> Integers:
    """Return the number of each row's class; those without one are one more class."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    codes: Integers = values.indices.fill_null(len(values.dictionary)).to_numpy().astype(np.int64)
    return np.unique(codes, return_inverse=True)[1].reshape(-1)
