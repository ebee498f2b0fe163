"""HTML of a page: text is escaped unless it is `Html`; sections, and what they share."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dfgen.errors import legible

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
