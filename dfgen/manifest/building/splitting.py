"""Divide the rows of a manifest into splits or folds.

The same keys, shares and seed give the same splits on every machine. The number behind each row is
`uniform(key, seed)`; docs/reference/manifests.md specifies it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Never

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dfgen.errors import (
    EXAMPLES,
    ArgumentError,
    ManifestError,
    brief,
    column_list,
    did_you_mean,
    quote,
    warn,
    whole,
)
from dfgen.explain.labels import warn_of_lookalikes
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.manifest.duplicates import file_copies, first_rows, joined_rows, warn_of_leaks
from dfgen.manifest.io import Path, frame_of_manifest, write_manifest
from dfgen.manifest.schema import FACTS, PARTS, label_columns
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import check_names

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


MaybeSeries = pd.Series | None


@dataclass(frozen=True)
class Splitting:
    """The arguments of a split; see `dfgen.split`."""

    split: Mapping[str, float] | None = None
    folds: int | None = None
    stratify: str | None = None
    group: str | None = None
    group_duplicates: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        whole("seed", self.seed)
        how = 'say how to split, split={"train": 0.8, "val": 0.2} (--split train=0.8) or folds=5'
        if self.split is not None and self.folds is not None:
            raise ArgumentError("split= and folds= both say how to split: leave one of them out")
        for name in ("stratify", "group", "group_duplicates"):
            if (value := getattr(self, name)) and not self.divides:
                raise ArgumentError(f"{name}={brief(value)}: {how}")
        if self.stratify is not None and self.stratify == self.group:
            raise ArgumentError(
                f"stratify= and group= are both {quote(self.group)}: its groups stay whole, so "
                "they cannot be in all splits. Leave one of them out"
            )
        if self.split is not None:
            check_shares(self.split)
        if self.folds is not None:
            whole("folds", self.folds, least=2, most=127)

    @property
    def divides(self) -> bool:
        """Whether it makes splits or folds."""
        return self.split is not None or self.folds is not None

    @property
    def column(self) -> str:
        """The column of the parts."""
        return "split" if self.folds is None else "fold"

    @property
    def named(self) -> dict[str, str]:
        """Argument -> the column that it names."""
        columns = {"stratify": self.stratify, "group": self.group}
        return {name: column for name, column in columns.items() if column is not None}

    def warn_of_lookalikes(self, frame: pd.DataFrame, source: object) -> None:
        """Warn about groups and classes that look alike; `source` is the table of the user."""
        for name in self.named.values():
            keys = [key for key in frame[name].unique() if isinstance(key, str)]
            names = pa.array(keys, pa.string())
            categorical = isinstance(frame[name].dtype, pd.CategoricalDtype)
            warn_of_lookalikes(name, names.dictionary_encode() if categorical else names, source)

    def parts(self, frame: pd.DataFrame, kept: MaybeSeries = None) -> pd.Series:
        """Return the split or fold of each row; rows that have one in `kept` keep it."""
        ids = frame["id" if "id" in frame else "path"]
        stratify = None if self.stratify is None else frame[self.stratify]
        group = None if self.group is None else frame[self.group]
        if self.group_duplicates:
            group = _with_copies(frame, ids, group)
            if self.group is None and stratify is not None:
                kept = self._several(ids, stratify, group, kept)
                group = None
        return pd.Series(self._assigned(ids, stratify, group, kept), frame.index)

    def _several(
        self, ids: pd.Series, stratify: pd.Series, group: pd.Series, kept: MaybeSeries
    ) -> pd.Series:
        """Return the parts of groups of several rows; then the rest can have exact shares."""
        several = group.duplicated(keep=False).to_numpy()
        before = None if kept is None else kept[several]
        dealt = self._assigned(ids[several], stratify[several], group[several], before)
        parts = np.full(len(ids), None, object) if kept is None else kept.to_numpy(object).copy()
        parts[several] = np.asarray(dealt, object)
        return pd.Series(parts, ids.index)

    def _assigned(
        self, ids: pd.Series, stratify: MaybeSeries, group: MaybeSeries, kept: MaybeSeries
    ) -> Any:
        options: Any = {"seed": self.seed, "stratify": stratify, "group": group}
        if self.folds is None:
            return assign_splits(ids, self.split or {}, kept=kept, **options)
        names = [str(fold) for fold in range(self.folds)]
        known = None if kept is None else kept.astype("Int64").astype("string")
        shares = dict.fromkeys(names, 1 / self.folds)
        folds = assign_splits(ids, shares, kept=known, level=True, **options)
        numbers = np.array([int(name) for name in folds.categories], np.int8)
        return numbers[np.asarray(folds.codes)]

    def warn_of_lacking(self, frame: pd.DataFrame, labels: list[str]) -> None:
        """Warn of each split or fold without rows, or without rows of a class."""
        if self.column not in frame:
            return
        part = frame[self.column]
        kind = "Split" if self.folds is None else "Fold"
        for name in part.cat.categories if self.folds is None else range(self.folds):
            if not (part == name).any():
                warn(f"{kind} {quote(name)} has no row. Give it a larger share, or more rows.")
        columns = [self.stratify] if self.stratify else [one for one in labels if one != self.group]
        more = "Add rows of the class" + ", or split with stratify=" * (self.stratify is None)
        for column in columns:
            if column not in frame or not isinstance(frame[column].dtype, pd.CategoricalDtype):
                continue
            counts = pd.crosstab(frame[column].astype(object), part.astype(object))
            for name in counts.columns:
                classes = counts.index[counts[name] == 0].tolist()
                if classes:
                    shown = ", ".join(map(quote, classes))
                    warn(f"{kind} {quote(name)} has no row with {column} = {shown}. {more}.")


def _with_copies(frame: pd.DataFrame, ids: pd.Series, group: MaybeSeries) -> pd.Series:
    """Return groups that also hold the copies of their rows; a single row is its id."""
    units, keys = units_of(ids, group)
    rows = np.arange(len(frame))
    own = first_rows(units, len(keys))[units]
    links = np.concatenate([own, file_copies(frame).groups(None)])
    first = joined_rows(len(frame), np.tile(rows, 2), links)
    return pd.Series(np.array(keys, object)[units[first]], frame.index, name="group_duplicates")


def split(
    manifest: Path | Table,
    shares: Mapping[str, float] | None = None,
    *,
    folds: int | None = None,
    stratify: str | None = None,
    group: str | None = None,
    group_duplicates: bool = False,
    seed: int = 0,
    out: Path | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Return a manifest with a new split of all its rows: the column `split`, or `fold`.

    Use it to change shares, names or seed, or to make folds for cross-validation. To give a split
    to new rows only, update the manifest: `build_manifest(update=...)`. Rows that are added later
    move no row, unless the split has `stratify` or `group_duplicates`.

    Args:
        manifest: a file, or a frame or another table; older splits and folds are replaced. Rows
            without column `id` are split by `path`.
        shares: each split and its share, as in `{"train": 0.8, "val": 0.2}`.
        folds: the number of folds instead of shares. The column `fold` holds 0 to folds - 1, int8;
            `dfgen.sequences(df, fold=0)` validates on fold 0 and trains on the others.
        stratify: the column whose classes get exactly these shares, or fill folds evenly.
        group: the column whose groups stay whole.
        group_duplicates: keep copies of a picture in one split: rows of the same file, bytes or
            nearly the same perceptual hash. Needs a manifest built with `facts="full"`.
        seed: another seed gives another split.
        out: also write the manifest to this file (the command: by default the manifest itself).
        **unknown: none: arguments of other libraries are reported with their names here.

    Returns:
        A new frame. The recipe in its attrs makes the same split.

    Raises:
        ArgumentError: the shares do not add up to 1, arguments do not go together, or there is no
            such column.
        ManifestError: a row has no group, or the classes are fractions.

    Example:
        >>> df = pd.DataFrame({"id": range(4), "path": [*"abcd"], "kind": ["cat", "dog"] * 2})
        >>> split(df, {"train": 0.5, "val": 0.5}, stratify="kind")["split"].tolist()
        ['train', 'train', 'val', 'val']
    """
    refuse_unknown(split, unknown)
    how = Splitting(shares, folds, stratify, group, group_duplicates, seed)
    if not how.divides:
        raise ArgumentError(
            'split received neither shares nor folds: give {"train": 0.8, "val": 0.2} (--split '
            "train=0.8 --split val=0.2), or folds=5 (--folds 5)"
        )
    frame = frame_of_manifest(manifest)
    check_names([*frame.columns], "the manifest")
    for argument, name in how.named.items():
        if name not in frame:
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column of the manifest."
                f"{did_you_mean(name, frame.columns)} Columns: {column_list(frame.columns)}"
            )
    if not {"id", "path"} & {*frame.columns}:
        raise ManifestError(
            'the manifest has neither "id" nor "path", by which rows are split. Rename the column '
            f"that identifies rows to id. Columns: {column_list(frame.columns)}"
        )
    known = frame.attrs.get("dfgen")
    parts = how.parts(frame)
    how.warn_of_lookalikes(frame, manifest)
    from_source = any(name in frame for name in PARTS)
    frame = frame.drop(columns=[name for name in PARTS if name in frame])
    place = len([name for name in frame.columns if name not in FACTS])
    frame.insert(place, how.column, parts)
    frame.attrs = {"dfgen": {**known, "recipe": _recipe(known, how, from_source)}} if known else {}
    if out is not None:
        write_manifest(frame, out)
    warn_of_leaks(frame, copies=not group_duplicates)
    how.warn_of_lacking(frame, label_columns(list(frame.columns)))
    return frame


def _recipe(known: dict[str, Any], how: Splitting, was_split: bool) -> dict[str, Any] | None:
    """Return the recipe with the new split; unchanged if its source has the old one."""
    recipe = known.get("recipe")
    if not recipe or (was_split and not {"split", "folds"} & {*recipe}):
        return recipe
    asked = {**recipe, **vars(how), "split": dict(how.split) if how.split else None}
    return {name: value for name, value in asked.items() if value}
