"""HTML of a page: text is escaped unless it is `Html`; sections, and cards of rows."""

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import legible
from dfgen.explore.plain_words import word
from dfgen.explore.predicted import heads_of
from dfgen.manifest.schema import FACTS, PARTS, label_columns

_LONGEST = 200
_UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: object) -> Html:
    """Return text as markup that shows it; what is `Html` stays as it is."""
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def markup(parts: Iterable[object]) -> Html:
    """Return several texts or `Html` as one."""
    return Html("".join(map(escaped, parts)))


def element(name: str, *inside: object, **attributes: object) -> Html:
    """Return an element of what is inside; `class_` is class, `data_rows` is data-rows."""
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    told = "".join(f' {key}="{escaped(value)}"' for key, value in named if value is not None)
    return Html(f"<{name}{told}>{markup(inside)}</{name}>")


def short(value: object) -> str:
    """Return a value as text that fits: long ones lose their middle, addresses their secrets."""
    return legible(str(value), _LONGEST)


def json_block(data: Any) -> Html:
    """Return JSON that may stand within <script>: no `</script>` nor `<!--` can be in it.

    Source: https://html.spec.whatwg.org/multipage/scripting.html, "Restrictions for contents of
    script elements".
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Html(text.translate(_UNSAFE))


def source_hash(text: str) -> str:
    """Return how a Content-Security-Policy calls one inline script or style: by its hash."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@dataclass(frozen=True)
class Section:
    """A part of the page.

    `name` is its place in the address, `count` a number beside its link and in the summary, `unit`
    what is counted, where the title does not say it; `alarms`: any is one too many. `rows` are
    positions of those whose pictures it shows, `marks` words said of rows, by which the gallery can
    be filtered.
    """

    name: str
    title: str
    body: Html
    count: int | None = None
    unit: str = ""
    alarms: bool = False
    rows: Sequence[int] = ()
    marks: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def html(self) -> Html:
        """Return its markup."""
        heading = element("h2", self.title, id=f"{self.name}-title")
        return element(
            "section", heading, self.body, id=self.name, aria_labelledby=f"{self.name}-title"
        )

    def link(self) -> Html:
        """Return the link to it."""
        told = () if self.count is None else (" ", element("b", f"{self.count:,}"))
        return element("a", self.title, *told, href=f"#{self.name}")


def note(*inside: object) -> Html:
    """Return a paragraph in a quiet color."""
    return element("p", *inside, class_="note")


def tiles(label: str, rows: Iterable[int], notes: Iterable[str] = ()) -> Html:
    """Return a box that the page fills with pictures of rows, and a note of each."""
    told = [*notes]
    return element(
        "ul", class_="tiles", aria_label=f"{label}. Arrow keys move, Enter opens",
        data_rows=json.dumps([*rows]), data_notes=json.dumps(told) if told else None,
    )  # fmt: skip


def html_table(heads: Iterable[object], rows: Iterable[Iterable[object]], class_: str = "") -> Html:
    """Return a table; the first cell of a row is its head, columns of ints stand right."""
    cells = [[*row] for row in rows]
    right = {at for row in cells[:1] for at, value in enumerate(row) if isinstance(value, int)}
    body = [
        element("tr", element("th", first, scope="row"), *map(_cell, rest))
        for first, *rest in cells
    ]
    head = element(
        "tr",
        *(
            element("th", name, scope="col", class_="number" if at in right else None)
            for at, name in enumerate(heads)
        ),
    )
    made = element("table", element("thead", head), element("tbody", *body), class_=class_ or None)
    return element("div", made, class_="scroll")


def _cell(value: object) -> Html:
    if isinstance(value, int):
        return element("td", f"{value:,}", class_="number")
    return element("td", value)


def facts_list(facts: Iterable[tuple[object, object, str, bool]]) -> Html:
    """Return figures as cards: what each is, its value, a smaller word, whether it alarms."""
    return element(
        "dl",
        markup(
            element(
                "div", element("dt", what), element("dd", value, element("small", more)),
                class_="alarm" if alarms else None,
            )
            for what, value, more, alarms in facts
        ),
        class_="cards",
    )  # fmt: skip


_COUNTS = ("bytes", "frames", "height", "sample_rate", "width")
_HIDDEN = ("mtime_ns", "index", "shard", "row")
_OF_MODEL = ("prob", "row_weight")  # not told of a row, beside y_true, y_pred and loss
_COLUMNS = 40  # told of each row
_BYTES = 3000  # of JSON told of a row
_CHOICES = 200  # of a filter
_FILTERS = 4
_EXACT = 2**53  # JavaScript's numbers are whole up to here


def sampled(frame: pd.DataFrame, most: int, seed: int, labels: list[str]) -> list[int]:
    """Return positions of at most so many rows, in their order.

    They are drawn by `seed`, in turn from each class of the first of `labels` that has one class a
    row, so that rare classes are seen.
    """
    if len(frame) <= most:
        return list(range(len(frame)))
    drawn = np.random.default_rng(seed).permutation(len(frame))
    label = next((name for name in labels if not _has_lists(frame[name])), None)
    if label is not None:
        codes = pd.Series(pd.factorize(frame[label])[0][drawn])
        drawn = drawn[np.argsort(codes.groupby(codes).cumcount().to_numpy(), kind="stable")]
    return sorted(drawn[:most].tolist())


def _has_lists(column: pd.Series) -> bool:
    return any(pd.api.types.is_list_like(value) for value in column.dropna().iloc[:1])


def shown_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns told of a row: its name, its part, labels, then facts of its file."""
    names = [*frame.columns]
    first = [name for name in ("id", "path", *PARTS) if name in names]
    hidden = {*_HIDDEN, *(f"{kind}{head}" for head in heads_of(frame) for kind in _OF_MODEL)}
    labels = [name for name in label_columns(names) if name not in hidden]
    facts = [name for name in FACTS if name in names and name not in _HIDDEN]
    return [*first, *labels[: max(0, _COLUMNS - len(first) - len(facts))], *facts]


def cards(
    frame: pd.DataFrame,
    positions: Iterable[int],
    classes_of: list[str],
    marks: Mapping[str, Iterable[int]],
    caption: list[str] | None = None,
) -> dict[str, Any]:
    """Return what the page knows of rows, in JSON types; rows are called by their position.

    `classes_of` are the columns of classes; `marks` words, such as duplicate, and the rows they are
    said of. `caption` are the columns below each picture; None: the first two of classes.
    """
    names = [*dict.fromkeys([*shown_columns(frame), *(caption or ())])]
    wanted = sorted(set(positions))
    few = frame.iloc[wanted]
    root = frame.attrs.get("dfgen", {}).get("root")
    if "path" in few:
        few = few.assign(path=[relative(path, root) for path in few["path"]])
    columns = [[_plain(value) for value in few[name].astype(object)] for name in names]
    rows = {position: _card([*values]) for position, *values in zip(wanted, *columns, strict=True)}
    for mark, said_of in marks.items():
        for position in set(said_of) & rows.keys():
            rows[position].setdefault("marks", []).append(mark)
    titles = [name for name in classes_of if name in names]
    return {
        "columns": [{"name": short(name), "counts": name in _COUNTS} for name in names],
        "name": next((names.index(name) for name in ("id", "path") if name in names), 0),
        "path": names.index("path") if "path" in names else -1,
        "caption": [names.index(name) for name in (caption or titles[:2])],
        "filters": [*_filters(few, names, columns, titles)],
        "marks": [mark for mark, said_of in marks.items() if set(said_of) & rows.keys()],
        "rows": rows,
    }


def _filters(
    few: pd.DataFrame, names: list[str], columns: list[list[Any]], titles: list[str]
) -> Iterator[dict[str, Any]]:
    single = [name for name in titles if not _has_lists(few[name])]
    asked = [name for name in [*PARTS, *single, "format"] if name in names]
    found = 0
    for name in asked:
        place = names.index(name)
        values = {value for value in columns[place] if value is not None}
        if 1 < len(values) <= _CHOICES and found < _FILTERS:
            found += 1
            order = _in_order(few[name], values)
            yield {"column": place, "values": order + [None] * (None in columns[place])}


def _in_order(column: pd.Series, values: set[Any]) -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = dict.fromkeys(_plain(value) for value in column.cat.categories)
        return [value for value in known if value in values]
    return sorted(values, key=lambda value: (str(type(value)), value))


def relative(path: Any, root: str | None) -> Any:
    """Return a path without the folder that all files of a manifest are in."""
    return path.removeprefix(f"{root}/") if root and isinstance(path, str) else path


def _card(values: list[Any]) -> dict[str, Any]:
    card: dict[str, Any] = {"values": values}
    used = 0
    for place, value in enumerate(values):
        used += len(json_block(value).encode())
        if used > _BYTES:
            card["values"] = [*values[:place], *[None] * (len(values) - place)]
            card["more"] = f"{len(values) - place} more columns, for which there is no room here"
            break
    return card


def _plain(value: Any) -> Any:
    """Return a value of any column as a number, a short text, or None where there is none."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, dict):
        return short(", ".join(f"{key}: {_plain(one)}" for key, one in value.items()))
    if isinstance(value, list | tuple | set | np.ndarray):
        return short(", ".join(str(_plain(one)) for one in [*value][:20]))
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return int(value) if abs(int(value)) <= _EXACT else str(value)
    if isinstance(value, float | np.floating):
        if math.isfinite(value):
            return float(f"{value:.6g}")
        return None if math.isnan(value) else str(value)
    return short(word(value))
