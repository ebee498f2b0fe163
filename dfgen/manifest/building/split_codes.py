"""The split column: which rows are for training, validation and test.

All functions are pure: the same keys, shares and seed give the same splits on every machine. The
number behind each row is `uniform(key, seed)`; docs/reference/manifests.md specifies it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.errors import EXAMPLES, ArgumentError, ManifestError, brief, quote

Codes = npt.NDArray[np.intp]
Reals = npt.NDArray[np.float64]


def check_shares(shares: Mapping[str, float]) -> None:
    """Raise unless the shares are positive numbers with a sum of 1."""
    example = 'as in {"train": 0.8, "val": 0.2} (--split train=0.8 --split val=0.2)'
    if not isinstance(shares, Mapping) or not all(
        isinstance(name, str)
        and name.isprintable()
        and name
        and isinstance(share, Real)
        and share > 0
        for name, share in shares.items()
    ):
        raise ArgumentError(f"split={brief(shares)}: expected names and shares above 0, {example}")
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise ArgumentError(
            f"split={brief(dict(shares))}: the shares add up to {total:g}, expected 1, {example}"
        )


def uniform(keys: Sequence[object], seed: int) -> Reals:
    """Return a number in [0, 1) for each key: BLAKE2b-64 of seed, newline and key, over 2^64."""
    begun = hashlib.blake2b(f"{seed}\n".encode(), digest_size=8)
    digests = bytearray()
    for key in keys:
        one = begun.copy()
        one.update(str(key).encode("utf-8", "surrogatepass"))
        digests += one.digest()
    return np.frombuffer(digests, "<u8") / 2.0**64


def assign_splits(
    ids: pd.Series,
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    stratify: pd.Series | None = None,
    group: pd.Series | None = None,
    kept: pd.Series | None = None,
    level: bool = False,
) -> pd.Categorical:
    """Return the split of each row; missing classes count as one class.

    Without `stratify`, the hash of the id (or group) decides: shares are approximate, and rows that
    are added later move no row. With `stratify`, each class has exactly its shares, rounded to
    rows; the rest goes to the first splits, or with `level` to the splits with the fewest rows.
    With both, whole groups are dealt so that every class comes as near to its shares as the groups
    allow. Then rows that are added later may move rows, unless their split is `kept`; new rows join
    their group and fill up the shares.
    """
    check_shares(shares)
    names, known = _known_codes(len(ids), list(shares), kept)
    weights = np.array([shares.get(name, 0) for name in names]) / sum(shares.values())
    units, unit_keys = units_of(ids, group)
    settled = np.full(len(unit_keys), -1)  # the split of each unit, by its last row
    settled[units[known >= 0]] = known[known >= 0]
    numbers = np.zeros(len(unit_keys))
    free = np.flatnonzero(settled < 0)
    numbers[free] = uniform([unit_keys[unit] for unit in free], seed)
    if stratify is None:
        bounds = np.cumsum(weights)[: len(shares) - 1]
        codes = np.searchsorted(bounds, numbers, side="right")
        codes = np.where(settled < 0, codes, settled)[units]
    else:
        classes, _ = pd.factorize(_class_values(stratify), use_na_sentinel=False)
        if group is None:
            codes = _exact(classes, numbers, weights, settled, level)
        else:
            codes = _dealt(classes, units, numbers, weights, settled)[units]
    codes = np.where(known < 0, codes, known)
    return pd.Categorical(np.array(names, object)[codes], categories=names)


def _known_codes(rows: int, names: list[str], kept: pd.Series | None) -> tuple[list[str], Codes]:
    """Return the names of all splits, and the number of the split of each row, or -1."""
    if kept is None:
        return names, np.full(rows, -1)
    names = [*names, *(name for name in kept.dropna().unique() if name not in names)]
    return names, pd.Categorical(kept, categories=names).codes.astype(np.intp)


def units_of(ids: pd.Series, group: pd.Series | None) -> tuple[Codes, list[object]]:
    """Return the unit of each row (itself, or its group), and the key of each unit."""
    if group is None:
        return np.arange(len(ids)), ids.tolist()
    empty = np.flatnonzero(group.isna() | group.isin(["", "nan"]))
    if len(empty):
        shown = ", ".join(f"{row} (id {quote(ids.iloc[row])})" for row in empty[:EXAMPLES])
        raise ManifestError(
            f'{len(empty)} rows have no "{group.name}", by which rows are grouped: row {shown}. '
            "Fill them in, or leave group (--group) out"
        )
    codes, keys = pd.factorize(_scalars(group, "grouped"))
    if pd.api.types.is_float_dtype(keys) and (keys % 1 == 0).all():
        keys = keys.astype(np.int64)  # a missing value elsewhere made floats of whole numbers
    return codes, list(keys)


def _scalars(values: pd.Series, done: str) -> pd.Series:
    objects = values.dtype == object or isinstance(values.dtype, pd.ArrowDtype)
    if objects and values.map(pd.api.types.is_list_like).any():
        raise ManifestError(
            f'"{values.name}" holds lists, so rows cannot be {done} by it. Make a column with one '
            "value a row first"
        )
    return values


def _class_values(stratify: pd.Series) -> pd.Series:
    if (
        pd.api.types.is_float_dtype(stratify)
        and not (stratify.dropna().astype(float) % 1 == 0).all()
    ):
        raise ManifestError(
            f'"{stratify.name}" holds fractions, so it cannot be stratified by. Make classes '
            f'first: df["age_band"] = pandas.cut(df["{stratify.name}"], 5)'
        )
    return _scalars(stratify, "stratified").astype(object)


def _exact(classes: Codes, numbers: Reals, weights: Reals, settled: Codes, level: bool) -> Codes:
    """Deal the rows of each class, in the order of their numbers, by exact shares.

    Rows that are settled count: the others fill up what each split lacks.
    """
    if not len(classes):
        return settled
    order = np.lexsort((numbers, classes))
    codes, filled = settled.copy(), np.zeros(len(weights), np.intp)
    starts = np.flatnonzero(np.diff(classes[order], prepend=-1))
    for rows in sorted(np.split(order, starts[1:]), key=lambda rows: float(numbers[rows[0]])):
        free = rows[settled[rows] < 0]
        if not len(free):
            continue
        lacking = whole_shares(len(rows), weights, filled)
        if len(free) < len(rows):
            full = np.bincount(settled[rows][settled[rows] >= 0], minlength=len(weights))
            lacking = np.maximum(lacking - full, 0)
            lacking = whole_shares(len(free), lacking / lacking.sum(), filled)
        codes[free] = np.repeat(np.arange(len(weights)), lacking)
        filled += np.bincount(codes[rows], minlength=len(weights)) * level
    return codes


def whole_shares(rows: int, weights: Reals, filled: Codes) -> Codes:
    """Return the rows of each split: rounded down, the rest to the largest fractions.

    Equal ones go to the least filled, then to the first.
    """
    wanted = weights * rows
    counts = np.floor(wanted + 1e-9).astype(np.intp)
    largest = np.lexsort((filled, counts - wanted))
    counts[largest[: rows - counts.sum()]] += 1
    return counts


def _dealt(classes: Codes, units: Codes, numbers: Reals, weights: Reals, settled: Codes) -> Codes:
    """Give each group, the largest first, to the split that lacks most of what it holds."""
    counts = pd.crosstab(units, classes).to_numpy()
    lacking = np.outer(weights, counts.sum(axis=0))
    codes = settled.copy()
    for unit in np.lexsort((numbers, -counts.sum(axis=1), settled < 0)):  # settled ones first
        if settled[unit] < 0:
            codes[unit] = np.argmax(lacking @ counts[unit])
        lacking[codes[unit]] -= counts[unit]
    return codes
