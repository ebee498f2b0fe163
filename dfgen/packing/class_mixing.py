"""How well a pack in its own order mixes classes: how many of them a batch has, on average."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.loading.order.permutation import Integers, permutation
from dfgen.manifest.schema import label_columns
from dfgen.samples.arrow_types import in_one, is_text

WINDOW = 1_000_000_000  # bytes: that of a Sequence by default
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
    """Return how well classes mix in windows of 1 GB; None where no column has classes.

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
    windows = _windows(counts, nbytes)
    rows = windows.sum(axis=1)
    packed = float((expected_classes(windows, BATCH) * rows).sum() / rows.sum())
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


def _windows(counts: Integers, nbytes: Integers) -> Integers:
    """Return the classes of each window of shards, as an epoch draws them."""
    shards = len(counts)
    each = max(2, WINDOW // max(1, int(nbytes.mean())))
    order = permutation(np.arange(shards), shards, seed=0, epoch=0, tag="shard")
    found: Integers = np.add.reduceat(counts[order], np.arange(0, shards, each))
    return found


def _has_classes(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind)


def _codes(values: Any) -> Integers:
    """Return the number of each row's class; those without one are one more class."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    codes: Integers = values.indices.fill_null(len(values.dictionary)).to_numpy().astype(np.int64)
    return np.unique(codes, return_inverse=True)[1].reshape(-1)
