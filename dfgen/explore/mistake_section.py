"""The section on a model's predictions: where it is wrong."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError
from dfgen.explore.mistakes import Mistakes, mistakes
from dfgen.explore.page_section import (
    Html,
    Section,
    element,
    html_table,
    markup,
    note,
    short,
    tiles,
)
from dfgen.explore.plain_words import number, word
from dfgen.explore.predicted import heads_of

_MATRIX = 20  # classes of a confusion matrix; of more, the pairs that are confused most
_CLASSES = 40
_PICTURES = 24
_WRONG, _DOUBTFUL = "predicted wrong", "likely mislabel"


def mistake_section(frame: pd.DataFrame) -> Section:
    """Return what is confused with what, the worst rows and likely mislabels, for each head.

    `frame` has the columns of predictions, and an index that counts its rows.
    """
    body: list[Html] = []
    shown: list[int] = []
    marks: dict[str, dict[int, None]] = {}
    for head in heads_of(frame):
        if head:
            body.append(element("h3", short(head[1:])))
        try:
            found = mistakes(frame, head=head[1:] or None)
        except ManifestError:  # it has no classes, or no labels
            worst = _highest(frame, head)
            body += _tiles("Worst by loss", worst, head)
            shown += worst.index[:_PICTURES].tolist()
            continue
        body += _of_head(found)
        for word_said, rows in ((_WRONG, found.worst), (_DOUBTFUL, found.mislabels)):
            shown += rows.index[:_PICTURES].tolist()
            marks.setdefault(word_said, {}).update(dict.fromkeys(rows.index.tolist()))
    return Section(
        "mistakes", "Mistakes", markup(body), len(marks[_WRONG]) if marks else None,
        "rows predicted wrong", rows=shown, marks={name: [*rows] for name, rows in marks.items()},
    )  # fmt: skip


def _highest(frame: pd.DataFrame, head: str) -> pd.DataFrame:
    loss = f"loss{head}"
    rows = frame[frame[loss].notna()] if loss in frame else frame.iloc[:0]
    return rows.sort_values(loss, ascending=False, kind="stable") if len(rows) else rows


def _of_head(found: Mistakes) -> Iterator[Html]:
    yield note(found.said)
    yield _confusion(found.confusion)
    yield _class_table(found.classes)
    yield from _tiles("Worst by loss", found.worst, found.head)
    yield from _tiles("Likely mislabels", found.mislabels, found.head)


def _tiles(title: str, rows: pd.DataFrame, head: str) -> Iterator[Html]:
    some = rows.iloc[:_PICTURES]
    first = f", the first {len(some)} of {len(rows):,}" * (len(rows) > len(some))
    yield element("h4", title + first)
    yield tiles(title, some.index, _notes(head, some)) if len(some) else note("None.")


def _notes(head: str, rows: pd.DataFrame) -> Iterator[str]:
    for row in rows.to_dict("records"):
        if "suggested" in row:
            told = f"{word(row['suggested'])} {row['prob_suggested']:.0%}"
            yield short(f"{word(row['y_true'])} → {told}")
        else:
            said = " → ".join(word(row[f"{kind}{head}"]) for kind in ("y_true", "y_pred"))
            yield short(f"{said}, loss {row[f'loss{head}']:.3g}")


def _confusion(confusion: pd.DataFrame) -> Html:
    """Return a matrix, true classes down; of many classes the pairs that are confused most."""
    table = confusion.to_numpy()
    if len(table) > _MATRIX:
        return _pairs(confusion)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    names = [short(name) for name in confusion.index]
    rows = [
        element(
            "tr",
            element("th", name, scope="row"),
            *(
                _cell(int(table[at, to]), float(shares[at, to]), at == to)
                for to in range(len(names))
            ),
        )
        for at, name in enumerate(names)
    ]
    heads = element("tr", element("td"), *(element("th", name, scope="col") for name in names))
    made = element(
        "table",
        element("caption", "Rows of each class (down), by the predicted class (across)"),
        element("thead", heads),
        element("tbody", *rows),
        class_="confusion",
    )
    return element("div", made, class_="scroll", tabindex=0, role="region", aria_label="Confusion")


def _cell(rows: int, share: float, is_right: bool) -> Html:
    strength = int(np.ceil(4 * share)) if rows else 0
    kind = "right" if is_right else "wrong"
    return element(
        "td", f"{rows:,}" if rows else "·", class_=f"{kind} h{strength}" if rows else None
    )


def _pairs(confusion: pd.DataFrame) -> Html:
    table = confusion.to_numpy().copy()
    np.fill_diagonal(table, 0)
    order = np.argsort(-table, axis=None, kind="stable")[:_CLASSES]
    places = zip(*np.unravel_index(order, table.shape), strict=True)
    names = [short(name) for name in confusion.index]
    rows = [(names[at], names[to], int(table[at, to])) for at, to in places if table[at, to]]
    return html_table(("true", "predicted as", "rows"), rows)


def _class_table(classes: pd.DataFrame) -> Html:
    worst = classes.sort_values("f1", kind="stable", na_position="last")
    rows = [
        (
            short(name),
            int(one["rows"]),
            *(_share(one[kind]) for kind in ("precision", "recall", "f1")),
            number(float(one["loss"])) if np.isfinite(one["loss"]) else "",
            "" if one["taken_for"] is None else short(one["taken_for"]),
        )
        for name, one in zip(worst.index[:_CLASSES], worst.to_dict("records"), strict=False)
    ]
    heads = ("class", "rows", "precision", "recall", "F1", "loss", "taken for")
    more = len(classes) - len(rows)
    said = note(f"The {len(rows)} worst of {len(classes):,} classes.") if more else Html()
    return markup([html_table(heads, rows, "scores"), said])


def _share(value: float) -> str:
    return f"{value:.1%}" if np.isfinite(value) else ""
