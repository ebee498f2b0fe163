"""How the rows of a manifest are divided into splits or folds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfgen.checks import whole
from dfgen.errors import EXAMPLES, ArgumentError, brief, quote, warn
from dfgen.explain.names import warn_of_lookalikes
from dfgen.manifest.duplicates import file_copies, first_rows, joined_rows
from dfgen.manifest.splitting.splits import assign_splits, check_shares, units_of

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
        """Warn about groups and classes that look alike in a table, from that of the user."""
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
        names = part.cat.categories if self.folds is None else range(self.folds)
        called = {name: f"Fold {name}" if self.folds else f'Split "{name}"' for name in names}
        for name in names:
            if not (part == name).any():
                warn(f"{called[name]} has no row. Give it a larger share, or more rows.")
        columns = [self.stratify] if self.stratify else [one for one in labels if one != self.group]
        more = "Add rows of the class" + ", or split with stratify=" * (self.stratify is None)
        for column in columns:
            if column not in frame or not isinstance(frame[column].dtype, pd.CategoricalDtype):
                continue
            counts = pd.crosstab(frame[column].astype(object), part.astype(object))
            for name in counts.columns:
                classes = counts.index[counts[name] == 0].tolist()
                if classes:
                    shown = ", ".join(quote(value) for value in classes[:EXAMPLES])
                    shown += f" and {len(classes) - EXAMPLES} more" * (len(classes) > EXAMPLES)
                    warn(f"{called[name]} has no row with {column} = {shown}. {more}.")


def _with_copies(frame: pd.DataFrame, ids: pd.Series, group: MaybeSeries) -> pd.Series:
    """Return groups that also hold the copies of their rows; a single row is its id."""
    units, keys = units_of(ids, group)
    rows = np.arange(len(frame))
    own = first_rows(units, len(keys))[units]
    links = np.concatenate([own, file_copies(frame).groups(None)])
    first = joined_rows(len(frame), np.tile(rows, 2), links)
    return pd.Series(np.array(keys, object)[units[first]], frame.index, name="group_duplicates")
