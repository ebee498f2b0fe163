"""Splitting: how the rows of a manifest are divided, by chance, by class, by time, into folds."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import pandas as pd

from dfgen.errors import ArgumentError, brief
from dfgen.manifest.splitting.folds import assign_folds
from dfgen.manifest.splitting.splits import assign_splits, check_shares
from dfgen.manifest.splitting.time_order import split_by_time
from dfgen.system import whole


@dataclass(frozen=True)
class Splitting:
    """The arguments of `dfgen.split`, which are those of a recipe too; `check` refuses clashes."""

    split: Mapping[str, float] | None = None
    folds: int | None = None
    stratify: str | None = None
    group: str | None = None
    order: str | None = None
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
        clashes = (
            (
                self.split is not None and self.folds is not None,
                "split= and folds= (--split, --folds) both divide the rows: give one of them",
            ),
            (
                self.split is None and self.folds is None and bool(self.named),
                "stratify=, group= and order= say how to split: give split=, as in "
                '{"train": 0.8, "val": 0.2} (--split train=0.8 --split val=0.2), or folds=5 '
                "(--folds 5)",
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
        if self.order is not None:
            return split_by_time(frame[self.order], frame["id"], self.split or {}, group)
        options: Any = {"seed": self.seed, "stratify": stratify, "group": group, "kept": kept}
        if self.folds is not None:
            return assign_folds(frame["id"], self.folds, **options)
        return assign_splits(frame["id"], self.split or {}, **options)
