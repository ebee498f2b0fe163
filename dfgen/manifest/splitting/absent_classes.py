"""Splits and folds without a row, or without one of some class."""

import pandas as pd

from dfgen.manifest.schema import EXAMPLES, quote
from dfgen.manifest.splitting.split_rules import Splitting


def missing_classes(part: pd.Series, labels: pd.Series) -> dict[object, list[object]]:
    """Return the classes of which a split or fold has no row, for those that lack any.

    Example:
        >>> missing_classes(pd.Series(["train", "val"]), pd.Series(["cat", "dog"]))
        {'train': ['dog'], 'val': ['cat']}
    """
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
