"""Splitting: how the rows of a manifest are divided, by chance, by class, by time, into folds."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError, brief
from dfgen.manifest.file_copies import file_copies, first_rows, joined_rows
from dfgen.manifest.splitting.folds import assign_folds
from dfgen.manifest.splitting.splits import assign_splits, check_shares, units_of
from dfgen.manifest.splitting.time_order import split_by_time
from dfgen.system import whole

_HOW = (
    'say how to split: give split=, as in {"train": 0.8, "val": 0.2} (--split train=0.8 --split '
    "val=0.2), or folds=5 (--folds 5)"
)


@dataclass(frozen=True)
class Splitting:
    """The arguments of `dfgen.split`, which are those of a recipe too; `check` refuses clashes."""

    split: Mapping[str, float] | None = None
    folds: int | None = None
    stratify: str | None = None
    group: str | None = None
    order: str | None = None
    group_duplicates: bool = False
    seed: int = 0

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
            (
                self.split is None and self.folds is None and bool(self.named),
                f"stratify=, group= and order= {_HOW}",
            ),
            (
                self.split is None and self.folds is None and self.group_duplicates,
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
        """Return the split or fold of each row.

        Args:
            frame: the manifest.
            unit: the column whose rows stay together, `group` or what the recipe says.
            kept: the part of each row that has one.
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
