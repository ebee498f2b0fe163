"""Splitting: how the rows of a manifest are divided, by chance, by class, by time, into folds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import EXAMPLES, ArgumentError, ManifestError, brief, quote
from dfgen.manifest.file_copies import file_copies, first_rows, joined_rows
from dfgen.manifest.sources.source import TEXT, argument_field
from dfgen.manifest.splitting.splits import assign_splits, check_shares, units_of, whole_shares
from dfgen.system import whole
from dfgen.table.arrow_types import are_numbers


def split_by_time(
    times: pd.Series, ids: pd.Series, shares: Mapping[str, float], group: pd.Series | None = None
) -> pd.Categorical:
    """Say for each row which split it belongs to: the earliest rows to the first, and so on.

    Each split has exactly its share, rounded to rows, but that rows of the same time stay together,
    in the split of the first of them. A group stands where its latest row does.

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


def assign_folds(
    ids: pd.Series,
    folds: int,
    *,
    seed: int = 0,
    stratify: pd.Series | None = None,
    group: pd.Series | None = None,
    kept: pd.Series | None = None,
) -> npt.NDArray[np.int8]:
    """Say for each row which fold it belongs to, 0 to folds - 1.

    Rows fall as into splits of equal shares, `assign_splits`. With `stratify`, folds have the same
    number of rows of each class, and in all, give or take one; with groups, as nearly as those
    allow.

    Example:
        >>> assign_folds(pd.Series(range(6)), 3, stratify=pd.Series(list("aaabbb"))).tolist()
        [1, 0, 2, 0, 2, 1]
    """
    names = [str(fold) for fold in range(folds)]
    known = None if kept is None else kept.astype("Int64").astype("string")
    found = assign_splits(
        ids,
        dict.fromkeys(names, 1 / folds),
        seed=seed,
        stratify=stratify,
        group=group,
        kept=known,
        level=True,
    )
    numbers = np.array([int(name) for name in found.categories], np.int8)
    return numbers[np.asarray(found.codes)]


_HOW = (
    'say how to split: give split=, as in {"train": 0.8, "val": 0.2} (--split train=0.8 --split '
    "val=0.2), or folds=5 (--folds 5)"
)


@dataclass(frozen=True)
class Splitting:
    """The arguments of `dfgen.split`, which are those of a recipe too; `check` refuses clashes.

    The signatures of `build_manifest` and `split` name them once more; recipes, their checks and
    the options of both commands follow from them.
    """

    split: Mapping[str, float] | None = argument_field(
        (dict,), "A split and its share, as train=0.8. Repeatable.", "NAME=SHARE"
    )
    folds: int | None = argument_field(
        (int,), "Make a column fold, 0 to N - 1, instead of splits.", "N"
    )
    stratify: str | None = argument_field(TEXT, "Column whose classes get exactly these shares.")
    group: str | None = argument_field(TEXT, "Column whose groups stay whole.")
    order: str | None = argument_field(
        TEXT, "Column of times: the earliest rows are the first split."
    )
    group_duplicates: bool = argument_field(
        (bool,),
        "Keep copies of a picture in one split; needs a build with --facts full.",
        default=False,
    )
    seed: int = argument_field((int,), "Another seed gives another split. Default: 0.", default=0)

    @property
    def divides(self) -> bool:
        """Whether it makes splits or folds."""
        return self.split is not None or self.folds is not None

    @property
    def column(self) -> str:
        """The column that it fills."""
        return "split" if self.folds is None else "fold"

    @property
    def named(self) -> dict[str, str]:
        """Argument -> the column that it names."""
        names = {"stratify": self.stratify, "group": self.group, "order": self.order}
        return {argument: name for argument, name in names.items() if name is not None}

    def check(self) -> None:
        """Raise if arguments do not go together."""
        for argument, name in self.named.items():
            if not isinstance(name, str):
                raise ArgumentError(
                    f"{argument}={brief(name)}: expected the name of one column, as in "
                    f'{argument}="kind"'
                )
        if not isinstance(self.seed, Integral):
            raise ArgumentError(f"seed={brief(self.seed)}: expected a whole number, as in seed=0")
        if not isinstance(self.group_duplicates, bool):
            raise ArgumentError(
                f"group_duplicates={brief(self.group_duplicates)}: expected True or False"
            )
        clashes = (
            (
                self.split is not None and self.folds is not None,
                "split= and folds= (--split, --folds) both divide the rows: give one of them",
            ),
            (not self.divides and bool(self.named), f"stratify=, group= and order= {_HOW}"),
            (
                not self.divides and self.group_duplicates,
                f"group_duplicates= {_HOW.replace('say', 'says', 1)}",
            ),
            (
                self.order is not None and self.folds is not None,
                "order= gives the earliest rows to the first split; folds have no order. Leave one "
                "of order= and folds= (--order, --folds) out",
            ),
            (
                self.order is not None and self.stratify is not None,
                "order= leaves to time how many rows of a class a split has: leave stratify= "
                "(--stratify) out",
            ),
        )
        for wrong, advice in clashes:
            if wrong:
                raise ArgumentError(advice)
        if self.split is not None:
            check_shares(self.split)
        if self.folds is not None:
            whole("folds", self.folds, least=2, most=127)

    def parts(self, frame: pd.DataFrame, unit: str | None, kept: pd.Series | None = None) -> Any:
        """Return the split or fold of each row of a manifest.

        Rows of one `unit` stay together, a column; `kept` has the part of each row that has one.
        """
        stratify = None if self.stratify is None else frame[self.stratify]
        group = None if unit is None else frame[unit]
        if self.group_duplicates:
            group = with_copies(frame, group)
            if unit is None and stratify is not None and self.order is None:
                return self._exact_beside(group, frame["id"], stratify, kept)
        if self.order is not None:
            return split_by_time(frame[self.order], frame["id"], self.split or {}, group)
        return self._assigned(frame["id"], stratify, group, kept)

    def _exact_beside(
        self, group: pd.Series, ids: pd.Series, stratify: pd.Series, kept: pd.Series | None
    ) -> Any:
        """Deal the groups of several rows; the others fill up the exact shares of each class."""
        several = group.duplicated(keep=False).to_numpy()
        before = None if kept is None else kept[several]
        dealt = self._assigned(ids[several], stratify[several], group[several], before)
        parts = np.full(len(ids), None, object) if kept is None else kept.to_numpy(object).copy()
        parts[several] = np.asarray(dealt, object)
        return self._assigned(ids, stratify, None, pd.Series(parts, ids.index))

    def _assigned(
        self,
        ids: pd.Series,
        stratify: pd.Series | None,
        group: pd.Series | None,
        kept: pd.Series | None,
    ) -> Any:
        options: Any = {"seed": self.seed, "stratify": stratify, "group": group, "kept": kept}
        if self.folds is not None:
            return assign_folds(ids, self.folds, **options)
        return assign_splits(ids, self.split or {}, **options)


def with_copies(frame: pd.DataFrame, group: pd.Series | None) -> pd.Series:
    """Return the group of each row, joined with those of its copies; alone, a row is its id."""
    units, keys = units_of(frame["id"], group)
    rows = np.arange(len(frame))
    own = first_rows(units, len(keys))[units]
    links = np.concatenate([own, file_copies(frame).groups(None)])
    first = joined_rows(len(frame), np.tile(rows, 2), links)
    return pd.Series(np.array(keys, object)[units[first]], frame.index, name="group_duplicates")


def missing_classes(part: pd.Series, labels: pd.Series) -> dict[object, list[object]]:
    """Return the classes of which a split or fold has no row, for those that lack any."""
    counts = pd.crosstab(labels.astype(object), part.astype(object))
    return {
        name: counts.index[counts[name] == 0].tolist()
        for name in counts.columns
        if (counts[name] == 0).any()
    }


def lacking_rows(
    frame: pd.DataFrame, labels: list[str], how: Splitting, ours: bool = True
) -> tuple[str, ...]:
    """Return a warning for each split or fold that has no row, or none of a class it should have.

    If the split is not ours but came with the rows, shares are no advice.
    """
    part = frame[how.column]
    names = part.cat.categories if how.folds is None else range(how.folds)
    called = {name: f'Split "{name}"' if how.folds is None else f"Fold {name}" for name in names}
    empty = [name for name in names if not (part == name).any()]
    messages = [f"{called[name]} has no row.{_mend(how) * ours}" for name in empty]
    columns = [how.stratify] if how.stratify else [name for name in labels if name != how.group]
    for column in columns:
        if column not in frame or not isinstance(frame[column].dtype, pd.CategoricalDtype):
            continue
        for name, classes in missing_classes(part, frame[column]).items():
            shown = ", ".join(quote(value) for value in classes[:EXAMPLES])
            more = f" and {len(classes) - EXAMPLES} more" if len(classes) > EXAMPLES else ""
            messages.append(
                f"{called[name]} has no row with {column} = {shown}{more}. {_advice(how, column)}"
            )
    return tuple(messages)


def _mend(how: Splitting) -> str:
    units = "rows" if how.group is None else "groups"
    if how.folds is not None:
        return f" Take fewer folds, give it more {units}, or try another seed (--seed)."
    if how.order is not None:
        return " Give it a larger share: rows of one time stay together, with the first of them."
    return f" Give it a larger share or more {units}, or try another seed (--seed)."


def _advice(how: Splitting, column: str) -> str:
    fewer = ", take fewer folds" if how.folds is not None else ""
    if how.stratify is not None:
        return f"Give the class more rows{fewer}, or leave it out."
    if how.order is not None:
        return "Time says which rows a split has: move the shares, or leave the class out."
    return (
        f"Split with stratify={column} (--stratify {column}){fewer}, or give the class more rows."
    )
