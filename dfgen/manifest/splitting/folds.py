"""The fold column: which part of the rows is left out of each training of a cross-validation."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.manifest.splitting.splits import assign_splits


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

    Rows fall as into splits of equal shares, `assign_splits`: by the hash of their id or group, so
    that rows that are added later move no old ones. With `stratify`, folds have the same number of
    rows of each class, and in all, give or take one; with groups as well, as nearly as those allow.
    Then rows that are added later may move old ones, but for those in `kept`.

    Args:
        ids: the id of each row.
        folds: how many, 2 to 127.
        seed: another seed gives other folds.
        stratify: the class of each row; missing values are a class of their own.
        group: rows of one group stay together.
        kept: the fold of each row that has one.

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
