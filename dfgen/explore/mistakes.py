"""Mistakes of a model: its confusion matrix, worst rows, and labels that are likely wrong."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.errors import ArgumentError, ManifestError, brief, column_list
from dfgen.explore.charts import SUGGESTED, own_labels, suffixes_of
from dfgen.explore.figures import new_figure
from dfgen.explore.show import show
from dfgen.explore.tiles import one_line, require_column
from dfgen.files import refuse_others, write_whole
from dfgen.manifest.schema import PARTS
from dfgen.table.any_table import Table, data_frame

_Array = npt.NDArray[Any]
_CLASSES, _NUMBERED = 30, 15  # classes of a drawn matrix; of one with counts in its cells
_ENOUGH = 5  # rows of a class, for a threshold
_WEAK_SHARE, _FEW = 1 / 3, 20  # mislabels that a model must not exceed, of more rows than this
_WEAK = "too many to be wrong: the model is too weak to judge labels"


@dataclass(frozen=True, repr=False, eq=False)
class Mistakes:
    """The result of `dfgen.explore.mistakes`.

    Args:
        frame: the rows with a label and a prediction.
        suffix: suffix of the prediction columns, "" for a model of one output.
        confusion: rows of each true class (index) predicted as each class (columns).
        classes: scores of each class, and the class that it is most often `taken_for`.
        mislabels: the rows whose label is likely wrong, the likeliest first.
        label: the label column of the manifest, None if none equals `y_true`.
        summary: one sentence about all of it.
    """

    frame: pd.DataFrame
    suffix: str
    confusion: pd.DataFrame
    classes: pd.DataFrame
    mislabels: pd.DataFrame
    label: str | None
    summary: str

    @property
    def worst(self) -> pd.DataFrame:
        """The wrongly predicted rows, the highest loss first."""
        true, pred = self.frame[f"y_true{self.suffix}"], self.frame[f"y_pred{self.suffix}"]
        wrong = self.frame[true.astype(object) != pred.astype(object)]
        return wrong.sort_values(f"loss{self.suffix}", ascending=False, kind="stable")

    def show(self, n: int = 16, *, by: str | None = None, root: Any = None) -> Any:
        """Show the `n` rows of the highest loss as pictures, wrong predictions in red.

        `by` and `root` are those of `dfgen.explore.show`, as in `by="y_true"`.
        """
        return show(self.frame, n, by=by, sort=f"-loss{self.suffix}", root=root)

    def show_mislabels(self, n: int = 16, *, root: Any = None) -> Any:
        """Show `n` rows whose label is likely wrong as pictures, the likeliest first."""
        columns = self.mislabels[[SUGGESTED, "prob_own"]]
        rows = pd.concat([self.frame.loc[columns.index], columns], axis=1)
        return show(rows, n, sort="prob_own", root=root)

    def show_confusion(self) -> Any:
        """Show the confusion matrix as shares of each true class, of the 30 most confused."""
        table = self.confusion.to_numpy()
        wrong = table - np.diag(np.diag(table))
        most = np.sort(np.argsort(-(wrong.sum(0) + wrong.sum(1)), kind="stable")[:_CLASSES])
        counts, side = table[np.ix_(most, most)], 2 + 0.32 * len(most)
        figure = new_figure(side + 0.6, side, self.confusion)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        axes.imshow(shares, "Blues", vmin=0, vmax=1)
        names = [one_line(name, 14) for name in self.confusion.index[most]]
        axes.set_xticks(range(len(names)), names, fontsize=7, rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
        axes.set(xlabel="predicted", ylabel="true")
        axes.set_title(f"{len(most)} of {len(table):,} classes", fontsize=9, loc="left")
        for row, column in np.argwhere(counts > 0) if len(most) <= _NUMBERED else ():
            look: Any = {"color": "white" if shares[row, column] > 0.5 else "black", "fontsize": 7}
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", **look)
        return figure

    def write(self, path: str | os.PathLike[str] = "to_fix.csv") -> pd.DataFrame:
        """Write `id` and the suggested label as a CSV file for `dfgen.update_labels`.

        Look at `show_mislabels` first, and delete the lines whose label is right.

        Args:
            path: the .csv file. Defaults to `"to_fix.csv"`.

        Raises:
            ArgumentError: if the path does not end in .csv.
            ManifestError: if the frame has no ids, or no label column equals `y_true`.
            WriteError: if the path cannot be written, or another file exists there.
        """
        path = os.path.abspath(path)
        if not path.lower().endswith(".csv"):
            raise ArgumentError(f"path={path!r}: expected a .csv file, such as to_fix.csv")
        label, total = self.label, len(self.frame)
        if "id" not in self.mislabels or label is None:
            raise ManifestError(
                "corrections need the column id and a label column that equals y_true: name it, "
                f"mistakes(df, label=...). Columns: {column_list(self.frame.columns)}"
            )
        rows = pd.DataFrame({"id": self.mislabels["id"], label: self.mislabels[SUGGESTED]})
        head = rows[:0].to_csv(index=False).strip().encode()
        refuse_others(
            path, "table of corrections",
            lambda file: file.readline().strip() == head and sum(1 for _ in file) < total,
        )  # fmt: skip
        write_whole(path, lambda file: file.write(rows.to_csv(index=False).encode()))
        return rows

    def __repr__(self) -> str:
        return f"{self.summary}\n{self.classes}\n[.show(), .show_confusion(), .mislabels, .write()]"


def mistakes(predicted: Table, *, head: str | None = None, label: str | None = None) -> Mistakes:
    """Find the mistakes of a classifier: confused classes, worst rows, and wrong labels.

    Labels are judged by confident learning (Northcutt et al. 2021), so predict rows that the model
    was not trained on: the validation set, or each fold by the model that has not seen it.

    Args:
        predicted: the frame of `dfgen.predict_frame`.
        head: str, an output of a model with several. Defaults to None.
        label: str, the label column of the manifest, for `write`. Defaults to None, the column that
            equals `y_true`.

    Returns:
        `Mistakes`, with frames and figures. Without a loss, it is -log of the probability.

    Raises:
        ManifestError: if the frame has no class predictions and labels, or they do not match.
        ArgumentError: if the model has several outputs, and `head` names none of them.

    Example:
        >>> wrong = dfgen.explore.mistakes(dfgen.predict_frame(model, val))  # doctest: +SKIP
        >>> wrong.show()
        >>> wrong.write("to_fix.csv")
        >>> dfgen.update_labels("pets.parquet", "to_fix.csv")
    """
    frame = data_frame(predicted)
    frame = frame if frame.index.is_unique else frame.reset_index(drop=True)
    if label is not None:
        require_column("label", label, frame)
    suffix = _suffix(frame, head)
    names = ("y_true", "y_pred", "prob", "loss")
    of_true, of_pred, of_prob, of_loss = (f"{name}{suffix}" for name in names)
    rows = frame[frame[of_true].notna() & frame[of_pred].notna()]
    if not len(rows):
        raise ManifestError(f"none of the {len(frame):,} rows has a label and a prediction")
    classes = pd.Index(_class_names(frame, suffix), dtype=object)
    true, pred = (classes.get_indexer(rows[name].astype(object)) for name in (of_true, of_pred))
    prob = np.stack(rows[of_prob].to_list()) if of_prob in rows else np.eye(len(classes))[pred]
    if min(true.min(), pred.min()) < 0 or prob.shape[1] != len(classes):
        raise ManifestError(
            f"{of_true}, {of_pred} and {of_prob} do not have the same classes, "
            f"{brief(classes.tolist())}: pass the frame of predict_frame with all categories"
        )
    if of_loss not in rows:
        own = prob[np.arange(len(rows)), true]
        rows = rows.assign(**{of_loss: -np.log(np.maximum(own, 1e-7))})
    table = np.bincount(true * len(classes) + pred, minlength=len(classes) ** 2)
    axes = classes.rename("true"), classes.rename("predicted")
    confusion = pd.DataFrame(table.reshape(len(classes), -1), *axes)
    mislabels = _mislabels(rows, suffix, true, prob, classes)
    weak = f", {_WEAK}" * (len(rows) > _FEW and len(mislabels) > _WEAK_SHARE * len(rows))
    summary = (
        f"{len(rows):,} rows, {np.mean(true == pred):.1%} right, {(true != pred).sum():,} wrong; "
        + f"{len(frame) - len(rows):,} without a label or a prediction; " * (len(rows) < len(frame))
        + f"{len(mislabels):,} labels likely wrong{weak}"
    )
    scores = _scores(confusion, rows[of_loss].groupby(true).mean())
    texts = frame[of_true].astype("string")
    same = [one for one in own_labels(frame) if frame[one].astype("string").equals(texts)]
    if label is None:
        label = next(iter(same), None)
    elif label not in same:
        raise ManifestError(f"label={label!r} differs from {of_true}, expected one of {same}")
    return Mistakes(rows, suffix, confusion, scores, mislabels, label, summary)


def _suffix(frame: pd.DataFrame, head: str | None) -> str:
    """Return the suffix of the columns of an output of classes."""
    suffixes = suffixes_of(frame)
    known = [one for one in suffixes if f"y_true{one}" in frame and _class_names(frame, one)]
    only = suffixes[0] if len(suffixes) == 1 else ""
    suffix = f"_{head}" if head else only
    if suffix not in known:
        raise (ArgumentError if known else ManifestError)(
            f"head={head!r}: expected an output with classes in y_true and y_pred of "
            f"dfgen.predict_frame, got {[one[1:] for one in known]} and the columns "
            f'{column_list(frame.columns)}; df.dfgen.show(sort="-loss") shows any worst rows'
        )
    return suffix


def _class_names(frame: pd.DataFrame, suffix: str) -> list[Any]:
    """Return the categories of the predictions, else class indices; empty without classes."""
    predicted = frame[f"y_pred{suffix}"]
    if isinstance(predicted.dtype, pd.CategoricalDtype):
        return predicted.cat.categories.tolist()
    known = predicted.dropna().index[:1]
    if f"prob{suffix}" not in frame or any(map(pd.api.types.is_list_like, predicted[known])):
        return []
    return [*range(max(map(len, frame.loc[known, f"prob{suffix}"]), default=0))]


def _scores(confusion: pd.DataFrame, loss: "pd.Series[Any]") -> pd.DataFrame:
    right = pd.Series(np.diag(confusion), confusion.index.rename("class"))
    rows, predicted = (confusion.sum(axis=axis).set_axis(right.index) for axis in (1, 0))
    wrong = (confusion - np.diag(right)).set_axis(right.index)
    columns = {
        "rows": rows, "precision": right / predicted, "recall": right / rows,
        "f1": 2 * right / (rows + predicted),
        "loss": loss.reindex(range(len(rows))).set_axis(right.index),
        "taken_for": wrong.idxmax(axis=1).where(wrong.any(axis=1), None),
    }  # fmt: skip
    return pd.DataFrame(columns)


def _mislabels(
    rows: pd.DataFrame, suffix: str, true: _Array, prob: _Array, classes: "pd.Index[Any]"
) -> pd.DataFrame:
    """Return the rows that the confident joint (section 3.1 of the paper) counts in another class.

    Only classes with 5 rows have a threshold; with fewer than two such classes, the most
    probable class is used.
    """
    every, reached = np.arange(len(true)), prob
    counts = np.bincount(true, minlength=len(classes))
    sums = np.bincount(true, prob[every, true].astype(float), minlength=len(classes))
    if (counts >= _ENOUGH).sum() > 1:
        thresholds = np.where(counts >= _ENOUGH, sums / np.maximum(counts, 1), np.inf)
        reached = np.where(prob >= thresholds, prob, -1)
    best = reached.argmax(axis=1)
    places = np.flatnonzero((best != true) & (reached[every, best] >= 0))
    own, other = prob[every, true], prob[every, best]
    places = places[np.lexsort((-other[places], own[places]))]
    chosen = rows.iloc[places]
    return chosen[[name for name in ("id", "path", *PARTS) if name in rows]].assign(
        y_true=chosen[f"y_true{suffix}"],
        suggested=pd.Categorical(classes[best[places]], classes),
        prob_own=own[places],
        prob_suggested=other[places],
        loss=chosen[f"loss{suffix}"],
    )
