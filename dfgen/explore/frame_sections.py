"""The first sections of the page of a manifest: summary, sizes, problems."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError
from dfgen.explore.file_sizes import SizeFacts, far_out, size_facts
from dfgen.explore.html_text import Html, element, markup, short
from dfgen.explore.page_section import Section, facts_list, html_table, note, tiles
from dfgen.explore.problem_rows import problems
from dfgen.explore.row_cards import relative, shown_columns
from dfgen.explore.svg_charts import cloud, histogram, nbytes, number
from dfgen.manifest.schema import count, part_column

_KINDS = 40  # of problems
_PICTURES = 24
_MARKED = 100_000  # rows with a problem that the gallery looks for


def summary_section(
    frame: pd.DataFrame, counts: Mapping[str, pd.DataFrame], others: Sequence[Section]
) -> Section:
    """Return the figures that are read first, and what each column holds."""
    facts = [("Rows", f"{len(frame):,}", _splits(frame), False)]
    if "bytes" in frame and frame["bytes"].notna().any():
        facts.append(("Files", nbytes(float(frame["bytes"].sum())), _formats(frame), False))
    facts += [
        (short(name), f"{int((table['rows'] > 0).sum()):,}", "classes", False)
        for name, table in [*counts.items()][:3]
    ]
    facts += [
        (one.title, f"{one.count:,}", one.unit, one.alarms and one.count > 0)
        for one in others
        if one.count is not None
    ]
    columns = html_table(
        ("column", "type", "missing", "holds"),
        [_column_row(frame, name) for name in shown_columns(frame)],
    )
    told = element("summary", f"What the {count(len(frame.columns), 'column')} hold")
    return Section(
        "summary", "Summary", markup([facts_list(facts), element("details", told, columns)])
    )


def _splits(frame: pd.DataFrame) -> str:
    """Return the rows of each split, else of each fold."""
    part = part_column(frame)
    return "" if part is None else _counts(frame[part])


def _formats(frame: pd.DataFrame) -> str:
    return _counts(frame["format"]) if "format" in frame else ""


def _counts(column: pd.Series) -> str:
    """Return how often the most frequent values come."""
    found = [*column.value_counts().items()]
    told = ", ".join(f"{short(value)} {rows:,}" for value, rows in found[:5] if rows)
    return told + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def _column_row(frame: pd.DataFrame, name: str) -> tuple[object, ...]:
    column = frame[name]
    root = frame.attrs.get("dfgen", {}).get("root") if name == "path" else None
    filled = column.dropna()
    return short(name), str(column.dtype), len(column) - len(filled), _holds(filled, root)


def _holds(column: pd.Series, root: str | None) -> str:
    """Say in a few words what a column holds."""
    if not len(column):
        return "nothing"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return count(column.nunique(), "class")
    if pd.api.types.is_bool_dtype(column):
        return f"{int(column.sum()):,} true"
    if pd.api.types.is_numeric_dtype(column):
        return f"{number(float(column.min()))} to {number(float(column.max()))}"
    first = column.iloc[0]
    if isinstance(first, str):
        return f"{column.nunique():,} different, such as {short(relative(first, root))}"
    if isinstance(first, list | tuple | np.ndarray):
        return f"lists of {number(float(column.map(len).mean()))} values on average"
    return short(type(first).__name__)


def size_section(frame: pd.DataFrame) -> Section | None:
    """Return how large images and files are, and those far from the others; None if unknown."""
    try:
        facts = size_facts(frame)
    except ManifestError:
        return None
    far = far_out(frame, facts)
    some = far.iloc[:_PICTURES]
    body: list[object] = [element("div", *_size_charts(facts), class_="charts")]
    if len(far):
        first = f", the {len(some)} farthest of {len(far):,}" * (len(far) > len(some))
        body.append(element("h3", f"Far from the others{first}"))
        body.append(tiles("Far from the others", some.index, map(short, some["why"])))
    return Section("sizes", "Sizes", markup(body), rows=some.index.tolist())


def _size_charts(facts: dict[str, SizeFacts]) -> Iterator[Html]:
    if "width" in facts:
        pairs = pd.DataFrame({name: facts[name] for name in ("width", "height")})
        counts = pairs[pairs.min(axis=1) > 0].value_counts().reset_index()
        if len(counts):
            chart = cloud(*(counts[name].to_numpy() for name in ("width", "height", "count")))
            caption = f"Width and height in pixels: {count(len(counts), 'size')}"
            yield element("figure", element("figcaption", caption), chart)
    for name, told in (("aspect", "Width : height"), ("bytes", "Bytes of a file")):
        if name in facts and (facts[name] > 0).any():
            values = facts[name][facts[name] > 0]
            caption = f"{told}, median {number(float(np.median(values)))}"
            chart = histogram(values, log=True)
            yield element("figure", element("figcaption", caption), chart)


def problem_section(frame: pd.DataFrame) -> Section | None:
    """Return the rows whose files cannot be used; None if the manifest does not tell."""
    try:
        broken = problems(frame)
    except ManifestError:
        return None
    kinds = broken["problem"].map(lambda text: str(text).partition(":")[0]).value_counts()
    shown = broken.index[:_PICTURES].tolist()
    body: list[object] = [note("No file has a problem, as far as the manifest says.")]
    if shown:
        rows = [(short(kind), int(rows)) for kind, rows in [*kinds.items()][:_KINDS]]
        first = f"The first {len(shown)} of {len(broken):,}:" * (len(broken) > len(shown))
        body = [html_table(("problem", "rows"), rows), note(first), tiles("Problems", shown)]
    marks = {"problem": broken.index[:_MARKED].tolist()}
    return Section(
        "problems", "Problems", markup(body), len(broken), rows=shown, marks=marks, alarms=True
    )
