"""Which class is taken for which: counts, how well each class is told, and a picture of it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.explore.figures import new_figure, one_line

_MOST = 30  # classes that are drawn
_WRITTEN = 15  # whose counts are written too


def confusion_of(
    true: npt.NDArray[np.int64], said: npt.NDArray[np.int64], names: list[Any]
) -> pd.DataFrame:
    """Return how many rows of each class, down, are predicted as which, across."""
    count = len(names)
    table = np.bincount(true * count + said, minlength=count * count).reshape(count, count)
    return pd.DataFrame(table, pd.Index(names, name="true"), pd.Index(names, name="predicted"))


def class_table(
    confusion: pd.DataFrame, loss: npt.NDArray[np.float64], true: npt.NDArray[np.int64]
) -> pd.DataFrame:
    """Return of each class how well it is told from the others."""
    table = confusion.to_numpy()
    right, rows, said = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    with np.errstate(invalid="ignore"):
        precision, recall = right / said, right / rows
        f1 = 2 * right / (rows + said)
        known = ~np.isnan(loss)
        sums = np.bincount(true[known], loss[known], minlength=len(rows))
        mean_loss = sums / np.bincount(true[known], minlength=len(rows))
    wrong = table - np.diag(right)
    names = confusion.index.to_numpy(object)
    taken_for = np.where(wrong.any(axis=1), names[wrong.argmax(axis=1)], None)
    return pd.DataFrame(
        {
            "rows": rows, "precision": precision, "recall": recall, "f1": f1, "loss": mean_loss,
            "taken_for": taken_for,
        },
        confusion.index.rename("class"),
    )  # fmt: skip


def confusion_figure(confusion: pd.DataFrame) -> Any:
    """Draw rows of true, columns of predicted classes, as shares of the rows of a class.

    If there are more than 30 classes, those that are confused most.
    """
    wrong = confusion.to_numpy() - np.diag(np.diag(confusion))
    most = np.sort(np.argsort(-(wrong.sum(0) + wrong.sum(1)), kind="stable")[:_MOST])
    table, classes = confusion.iloc[most, most], len(confusion)
    counts = table.to_numpy()
    side = 2 + 0.32 * len(table)
    figure = new_figure(side + 0.6, side, confusion)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, "Blues", vmin=0, vmax=1)
    names = [one_line(name, 14) for name in table.index]
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=90, parse_math=False)
    axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
    axes.set(xlabel="predicted", ylabel="true")
    some = f", the {len(table)} confused most" if len(table) < classes else ""
    axes.set_title(f"{classes:,} classes{some}", fontsize=9, loc="left")
    for row, column in np.argwhere(counts > 0) if len(table) <= _WRITTEN else ():
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(
            column,
            row,
            f"{counts[row, column]}",
            ha="center",
            va="center",
            fontsize=7,
            color=colour,
        )
    return figure
