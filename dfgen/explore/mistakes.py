"""Mistakes of a model: confusion, its worst rows, and labels that are likely wrong."""

import csv
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.errors import ArgumentError, ManifestError, brief, column_list, warn
from dfgen.explore.chosen_rows import check_known
from dfgen.explore.figures import new_figure
from dfgen.explore.picture_grid import show
from dfgen.explore.plain_words import one_line
from dfgen.explore.predicted import SUGGESTED, heads_of, own_labels
from dfgen.manifest.schema import PARTS
from dfgen.manifest.sources.table_format import as_cell
from dfgen.system import refuse_others, write_whole
from dfgen.table.any_table import Table, data_frame

_MOST = 30  # classes that are drawn
_WRITTEN = 15  # whose counts are written too
_DOUBTED = 1 / 3  # of the labels: a model that doubts more is wrong itself
_FEW = 20  # rows, of which that says nothing


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
        middle = {"ha": "center", "va": "center"}
        axes.text(column, row, f"{counts[row, column]}", fontsize=7, color=colour, **middle)
    return figure


ENOUGH = 5
"""Rows of a class, below which the mean probability of its rows says little."""


def suspected(
    labels: npt.NDArray[np.int64], prob: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the class that each row likely is of, -1 where its label is as good, and how.

    The threshold of a class is the mean probability that the rows of its label have for it. A row
    is counted into the likeliest class whose threshold it reaches; those that are counted into
    another class than their label says are the entries off the diagonal of the confident joint
    (section 3.1 of the paper; its method C in section 3.2). Classes of fewer than 5 rows have no
    threshold. Where fewer than two have one, a row is suspected of being of its likeliest class.

    `labels` are class numbers, `prob` (rows, classes) of a model that was not trained on these
    rows. Returns class numbers, and whether there were thresholds.
    """
    rows = np.arange(len(labels))
    counts = np.bincount(labels, minlength=prob.shape[1])
    sums = np.bincount(labels, prob[rows, labels].astype(np.float64), minlength=prob.shape[1])
    enough = counts >= ENOUGH
    has_thresholds = int(enough.sum()) > 1
    if has_thresholds:
        thresholds = np.where(enough, sums / np.maximum(counts, 1), np.inf)
        reached = np.where(prob >= thresholds, prob, -1)
    else:
        reached = prob
    likeliest = reached.argmax(axis=1)
    is_other = (likeliest != labels) & (reached[rows, likeliest] >= 0)
    return np.where(is_other, likeliest, -1), has_thresholds


@dataclass(frozen=True, repr=False, eq=False)
class Mistakes:
    """The findings of `dfgen.explore.mistakes`; a notebook and a terminal show it in short.

    Args:
        frame: the rows that have a label and a prediction, with their pictures' paths; `loss` is
            there in any case.
        head: which output of the model: what ends its columns, "" of a model of one.
        confusion: how many rows of each class (down) are predicted as which (across).
        classes: of each class `rows`, `precision`, `recall`, `f1`, mean `loss`, and the class that
            it is most often `taken_for`.
        mislabels: the rows whose label is likely wrong, the likeliest first: `id`, `path`,
            `y_true`, `suggested`, the probabilities of both, and `loss`.
        label: the column of the manifest that holds the labels; None: none is the same as y_true.
        said: all of it in a sentence.
    """

    frame: pd.DataFrame
    head: str
    confusion: pd.DataFrame
    classes: pd.DataFrame
    mislabels: pd.DataFrame
    label: str | None
    said: str

    @property
    def worst(self) -> pd.DataFrame:
        """The rows that are predicted wrong, the highest loss first."""
        wrong = self._names("y_true") != self._names("y_pred")
        return self.frame[wrong].sort_values(f"loss{self.head}", ascending=False)

    def show(
        self,
        n: int = 16,
        *,
        by: str | None = None,
        caption: str | Iterable[str] | None = None,
        root: str | None = None,
    ) -> Any:
        """Show the rows of the highest loss as pictures, with what the model says of them.

        Args:
            n: rows in all.
            by: some of each value of this column, such as `"y_true"`, or `"y_pred"`.
            caption: as of `show`.
            root: folder where relative paths begin.
        """
        return show(self.frame, n, by=by, sort=f"-loss{self.head}", caption=caption, root=root)

    def show_mislabels(
        self, n: int = 16, *, caption: str | Iterable[str] | None = None, root: str | None = None
    ) -> Any:
        """Show the rows whose label is likely wrong as pictures, the likeliest first.

        Args:
            n: rows in all.
            caption: as of `show`.
            root: folder where relative paths begin.
        """
        found = {name: self.mislabels[name] for name in (SUGGESTED, "prob_own")}
        rows = self.frame.loc[self.mislabels.index].assign(**found)
        return show(rows, n, sort="prob_own", caption=caption, root=root)

    def show_confusion(self) -> Any:
        """Show the confusion matrix, of the 30 classes that are confused most."""
        return confusion_figure(self.confusion)

    def write(self, path: str | os.PathLike[str] = "to_fix.csv") -> pd.DataFrame:
        """Write the likely mislabels as a table of corrections that `dfgen.update_labels` takes.

        It has the ids and the suggested labels. Take out the rows whose label is right after all:
        `show_mislabels` shows them. Text like a formula (`=1+1`) stands after a `'`, so that no
        spreadsheet runs it; `update_labels` takes the `'` off.

        Args:
            path: of the .csv file.

        Returns:
            The corrections, as a frame of `id` and the label column.

        Raises:
            ArgumentError: the path is of no .csv file.
            ManifestError: no column of the frame has the labels, or it has no ids.
            WriteError: the file cannot be written, or is there and no table of a few corrections.
        """
        if os.path.splitext(path)[1].lower() != ".csv":
            raise ArgumentError(
                f"path={brief(path)}: corrections are written as .csv alone. For another format "
                'take the frame that write returns: corrections = wrong.write("to_fix.csv")'
            )
        lacks = None if "id" in self.mislabels else "no column id"
        if self.label is None:
            advice = "name it, as in dfgen.explore.mistakes(frame, label=...)"
            lacks = f"no label column that is y_true: {advice}"
        if lacks is not None:
            raise ManifestError(
                f"the frame has {lacks}. Columns: {column_list(self.frame.columns)}"
            )
        found = pd.DataFrame(
            {"id": self.mislabels["id"], self.label: self.mislabels["suggested"].astype(object)}
        )
        text = _csv(found)
        if weak := _weak(found, self.frame):
            warn(f"{len(found):,} of {len(self.frame):,} labels are to be corrected{weak}")
        refuse_others(os.path.abspath(path), "table of corrections", self._is_corrections)
        write_whole(os.path.abspath(path), lambda file: file.write(text))
        return found

    def _is_corrections(self, file: IO[bytes]) -> bool:
        """Whether a file has the columns of corrections, and not all rows, as labels have."""
        head = [*csv.reader([file.readline().decode(errors="replace")])]
        named = head == [["id", as_cell(self.label)]]
        return named and sum(1 for _ in file) < len(self.frame)

    def _names(self, kind: str) -> "pd.Series[Any]":
        return self.frame[f"{kind}{self.head}"].astype(object)

    def __repr__(self) -> str:
        return f"{self.said}\n{self.classes}\n[.show(), .show_confusion(), .mislabels, .write()]"

    def _repr_html_(self) -> str:
        return (
            pd.DataFrame({"": [self.said]}).to_html(index=False, header=False, border=0)
            + self.classes.to_html(float_format="{:.3g}".format, max_rows=40)
            + self.mislabels.head(10).to_html(float_format="{:.3g}".format)
        )


def mistakes(predicted: Table, *, head: str | None = None, label: str | None = None) -> Mistakes:
    """Find out where a model is wrong: what it confuses, its worst rows, and wrong labels.

    A label is likely wrong where confident learning counts its row into another class (Northcutt et
    al. 2021), or, where there are fewer than two classes of 5 rows, where the model predicts
    another one. For that the model must not have been trained on these rows: take those of
    validation, or of each fold the model that has not seen it.

    Args:
        predicted: the frame of `dfgen.predict_frame` or `dfgen.evaluate_frame`, of classes.
        head: which output of the model, where it has several.
        label: the column of the manifest that holds the labels, for `write`; None: the one that is
            the same as `y_true`.

    Returns:
        `Mistakes`: frames to go on with, and figures. If the model has no loss, the loss is minus
        the logarithm of the probability of the own label.

    Raises:
        ManifestError: the frame is no such frame, has no labels, what is predicted is no class, or
            labels, predictions and probabilities are of different classes.
        ArgumentError: the model has several outputs, and `head` names none of them.

    Example:
        >>> wrong = dfgen.explore.mistakes(dfgen.predict_frame(model, val))  # doctest: +SKIP
        >>> wrong.show()
        >>> wrong.write("to_fix.csv")
        >>> dfgen.update_labels("pets.parquet", "to_fix.csv")
    """
    frame = data_frame(predicted)
    frame = frame if frame.index.is_unique else frame.reset_index(drop=True)
    if label is not None:
        check_known("label", label, frame)
    end = _head(frame, head)
    names = _class_names(frame, end)
    told = frame[frame[f"y_true{end}"].notna() & frame[f"y_pred{end}"].notna()]
    if not len(told):
        raise ManifestError(f"none of the {len(frame):,} rows has a label and a prediction")
    classes = pd.Index(names, dtype=object)
    true, said = (
        classes.get_indexer(told[f"{kind}{end}"].astype(object)).astype(np.int64)
        for kind in ("y_true", "y_pred")
    )
    prob = np.stack(told[f"prob{end}"].to_list()) if f"prob{end}" in told else None
    if min(true.min(), said.min()) < 0 or (prob is not None and prob.shape[1] != len(names)):
        raise ManifestError(
            f"y_true{end}, y_pred{end} and prob{end} are not of the same classes, {brief(names)}: "
            f"give the frame as predict_frame returns it, with all categories of y_pred{end}"
        )
    if f"loss{end}" not in told:
        own = (true == said) if prob is None else prob[np.arange(len(told)), true]
        told = told.assign(**{f"loss{end}": -np.log(np.maximum(own, 1e-7))})
    confusion = confusion_of(true, said, names)
    mislabels, how = _mislabels(told, end, true, prob, names)
    missing = len(frame) - len(told)
    parts = [
        f"{len(told):,} rows, {np.mean(true == said):.1%} right, {(true != said).sum():,} wrong",
        f"{missing:,} without a label or a prediction" if missing else "",
        f"{len(mislabels):,} labels likely wrong, by {how}{_weak(mislabels, told)}",
    ]
    table = class_table(confusion, told[f"loss{end}"].to_numpy(np.float64), true)
    label = _label_column(frame, end) if label is None else label
    return Mistakes(told, end, confusion, table, mislabels, label, "; ".join(filter(None, parts)))


def _weak(mislabels: pd.DataFrame, told: pd.DataFrame) -> str:
    if len(told) <= _FEW or len(mislabels) <= _DOUBTED * len(told):
        return ""
    return ". These are too many to be wrong: the model is too weak to judge labels"


def _head(frame: pd.DataFrame, head: str | None) -> str:
    heads = heads_of(frame)
    if not heads and "y_true" in frame and "loss" in frame:
        raise _no_classes("the frame", frame)  # of masks, say
    if not heads:
        raise ManifestError(
            "expected the frame of dfgen.predict_frame, got one without y_pred. Columns: "
            f"{column_list(frame.columns)}"
        )
    wanted = heads[0] if head is None and len(heads) == 1 else f"_{head}" if head else ""
    if wanted not in heads:
        of_classes = [one for one in heads if _tells_classes(frame, one)]
        if head is None and not of_classes:
            raise _no_classes(f"y_pred{heads[0]}", frame)
        known = ", ".join(repr(one[1:]) for one in of_classes or heads)
        raise ArgumentError(f"head={head!r}: expected one of the outputs of the model, {known}")
    if f"y_true{wanted}" not in frame:
        raise ManifestError("the frame has no labels, y_true: predict rows of a Sequence with y")
    return wanted


def _class_names(frame: pd.DataFrame, end: str) -> list[Any]:
    said = frame[f"y_pred{end}"]
    if isinstance(said.dtype, pd.CategoricalDtype):
        return said.cat.categories.tolist()
    known = frame[f"prob{end}"].dropna().head(1).tolist() if f"prob{end}" in frame else []
    if not known or not _tells_classes(frame, end):
        raise _no_classes(f"y_pred{end}", frame)
    return list(range(len(known[0])))


def _tells_classes(frame: pd.DataFrame, end: str) -> bool:
    said = frame[f"y_pred{end}"]
    is_named = isinstance(said.dtype, pd.CategoricalDtype)
    return is_named or (f"prob{end}" in frame and not said.map(pd.api.types.is_list_like).any())


def _no_classes(what: str, frame: pd.DataFrame) -> ManifestError:
    advice = "df.dfgen.show() shows what a model says of each row"
    if "loss" in frame:
        advice = 'df.dfgen.show(sort="-loss") shows the worst rows of any model'
    return ManifestError(f"{what} holds no classes, one in each row: {advice}")


def _mislabels(
    told: pd.DataFrame,
    end: str,
    true: npt.NDArray[np.int64],
    prob: npt.NDArray[Any] | None,
    names: list[Any],
) -> tuple[pd.DataFrame, str]:
    """Return the rows whose label is likely wrong, the likeliest first, and how they were found."""
    if prob is None:
        prob = np.eye(len(names))[pd.Categorical(told[f"y_pred{end}"], names).codes]
    suggested, has_thresholds = suspected(true, prob)
    places = np.flatnonzero(suggested >= 0)
    own, other = prob[places, true[places]], prob[places, suggested[places]]
    order = np.lexsort((-other, own))
    places, own, other = places[order], own[order], other[order]
    rows = told.iloc[places]
    kept = rows[[name for name in ("id", "path", *PARTS) if name in rows]]
    found = kept.assign(
        y_true=rows[f"y_true{end}"],
        suggested=pd.Categorical([names[one] for one in suggested[places]], names),
        prob_own=own,
        prob_suggested=other,
        loss=rows[f"loss{end}"],
    )
    return found, "confident learning" if has_thresholds else "the likeliest class"


def _label_column(frame: pd.DataFrame, end: str) -> str | None:
    true = frame[f"y_true{end}"]
    text = true.astype(object).map(str, na_action="ignore")
    for name in own_labels(frame):
        column = frame[name]
        if column.isna().equals(true.isna()) and column.astype(object).map(
            str, na_action="ignore"
        ).equals(text):
            return name
    return None


def _csv(table: pd.DataFrame) -> bytes:
    cells = {as_cell(name): [*map(as_cell, table[name])] for name in table.columns}
    written = pd.DataFrame(cells)
    text = written.to_csv(index=False)
    if "\r" in text:  # which pandas leaves bare
        text = written.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)
    return text.encode()
