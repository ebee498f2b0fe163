"""What the page of a manifest says of its rows: summary, classes, sizes, problems."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dfgen.explore.html_text import Html, element, markup, short
from dfgen.explore.page_section import Section, facts_list, html_table, note, tiles
from dfgen.explore.row_cards import class_columns, is_classes, relative, shown_columns
from dfgen.explore.svg_charts import bar, cloud, histogram, nbytes, number
from dfgen.manifest.schema import PARTS, count, label_columns

_CLASSES, _LARGEST = 40, 30  # of a table; of more, the largest and the smallest
_LABELS = 12
_PARTS = 6
_PICTURES = 24
_UNEVEN = 1.5  # times as large as the smallest class, before the page says so
_ENDS = 4  # rows shown of each end


def part_of(frame: pd.DataFrame) -> str | None:
    """Return the column that says which part of the rows is for what."""
    return next((name for name in PARTS if name in frame), None)


def summary_section(frame: pd.DataFrame, others: Sequence[Section]) -> Section:
    """Return the figures that are read first, and what each column holds."""
    facts = [_rows_fact(frame)]
    if "bytes" in frame and frame["bytes"].notna().any():
        facts.append(("Files", nbytes(float(frame["bytes"].sum())), _formats(frame), False))
    facts += [
        (short(name), f"{frame[name].nunique():,}", "classes", False)
        for name in class_columns(frame)[:3]
    ]
    facts += [
        (one.title, f"{one.count:,}", "", one.name in ("problems", "leaks") and one.count > 0)
        for one in others
        if one.count is not None
    ]
    columns = html_table(
        ("column", "type", "missing", "holds"),
        [_column_row(frame, name) for name in shown_columns(frame)],
    )
    told = element("summary", f"What the {count(len(frame.columns), 'column')} hold")
    body = [facts_list(facts), element("details", told, columns)]
    return Section("summary", "Summary", markup(body))


def _rows_fact(frame: pd.DataFrame) -> tuple[object, object, str, bool]:
    parts = ""
    if (part := part_of(frame)) is not None:
        sizes = frame[part].value_counts(sort=False)
        parts = ", ".join(f"{short(name)} {size:,}" for name, size in [*sizes.items()][:_PARTS])
    return "Rows", f"{len(frame):,}", parts, False


def _formats(frame: pd.DataFrame) -> str:
    if "format" not in frame:
        return ""
    counts = frame["format"].value_counts()
    return ", ".join(f"{short(name)} {size:,}" for name, size in [*counts.items()][:4] if size)


def _column_row(frame: pd.DataFrame, name: str) -> tuple[object, ...]:
    column = frame[name]
    missing = int(column.isna().sum())
    return short(name), str(column.dtype), missing, _holds(column.dropna())


def _holds(column: pd.Series) -> str:
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
        shown = relative(first, column.attrs.get("dfgen", {}).get("root"))
        return f"{column.nunique():,} different, such as {short(shown)}"
    if isinstance(first, list | tuple | np.ndarray):
        return f"lists of {number(float(column.map(len).mean()))} values on average"
    return short(type(first).__name__)


def class_section(frame: pd.DataFrame) -> Section:
    """Return how many rows of each class are in which split, and how numbers lie."""
    body: list[Html] = []
    names = label_columns([*frame.columns])
    for name in names:
        if len(body) == _LABELS:
            body.append(note(f"{len(names) - _LABELS} more labels are not shown."))
            break
        made = _label(frame, name)
        if made:
            body.append(made)
    return Section("classes", "Classes", markup(body) or note("No column is a label."))


def _label(frame: pd.DataFrame, name: str) -> Html:
    column = frame[name]
    heading = element("h3", short(name))
    if is_classes(column):
        return markup([heading, _class_table(frame, column)])
    if pd.api.types.is_numeric_dtype(column) and column.notna().any():
        values = column.dropna().to_numpy(float)
        caption = f"{number(values.min())} to {number(values.max())}, mean {number(values.mean())}"
        chart = element("figure", element("figcaption", caption), histogram(values))
        return markup([heading, element("div", chart, class_="charts")])
    lists = column.dropna()
    if len(lists) and isinstance(lists.iloc[0], list | tuple | np.ndarray):
        single = lists.explode().dropna()
        if is_classes(single):
            rows = frame.loc[single.index]
            return markup([heading, _class_table(rows, single.set_axis(rows.index))])
    return Html()


def _class_table(frame: pd.DataFrame, column: pd.Series) -> Html:
    """Return a table of rows a class, with bars that compare splits by their shares."""
    part = part_of(frame)
    whole = pd.Series("rows", frame.index) if part is None else frame[part]
    label = column.astype(object).where(column.notna(), None)
    kinds = (
        column.cat.categories
        if hasattr(column, "cat")
        else sorted(label.dropna().unique(), key=str)
    )
    counts = pd.crosstab(label.to_numpy(), whole.to_numpy())
    counts = counts.reindex(index=kinds, fill_value=0)
    if isinstance(whole.dtype, pd.CategoricalDtype):
        counts = counts.reindex(columns=[c for c in whole.cat.categories if c in counts])
    if counts.shape[1] > _PARTS:
        counts = counts.sum(axis=1).to_frame("rows")
    shown, said = _few_classes(counts, int(column.isna().sum()))
    totals = counts.sum()
    shares = counts.div(totals.clip(lower=1))
    highest = float(shares.to_numpy().max(initial=0)) or 1.0
    rows = [
        (
            short(kind),
            *(
                _share(counts.at[kind, part], shares.at[kind, part], highest, at)
                for at, part in enumerate(counts.columns)
            ),
        )
        for kind in shown
    ]
    sums = zip(counts.columns, totals.tolist(), strict=True)
    heads = ["class", *(f"{short(part)} ({total:,})" for part, total in sums)]
    return markup([html_table(heads, rows, "shares"), note(said) if said else ""])


def _few_classes(counts: pd.DataFrame, missing: int) -> tuple[list[object], str]:
    """Return the classes of a table, and what is said below it."""
    kinds, said = [*counts.index], []
    totals = counts.sum(axis=1)
    if len(kinds) > _CLASSES:
        order = totals.sort_values(ascending=False, kind="stable").index
        kinds = [*order[:_LARGEST], *order[_LARGEST - _CLASSES :]]
        said.append(
            f"{len(order):,} classes: these are the {_LARGEST} largest and the "
            f"{_CLASSES - _LARGEST} smallest"
        )
    if totals.min() and totals.max() > _UNEVEN * totals.min():
        said.append(
            f"The largest class has {number(totals.max() / totals.min())} times the rows of the "
            "smallest"
        )
    if missing:
        said.append(f"{count(missing, 'row')} without")
    return kinds, ". ".join(said) + "." * bool(said)


def _share(rows: Any, share: Any, highest: float, color: int) -> Html:
    told = element("span", f"{rows:,}", class_=None if rows else "alarm-text")
    return markup([told, " ", element("small", f"{share:.1%}"), bar(share / highest, color)])


def size_section(frame: pd.DataFrame) -> Section | None:
    """Return how large images and files are, and those at the ends; None if nothing is known."""
    charts = [*_size_charts(frame)]
    if not charts:
        return None
    ends = [*_size_ends(frame)]
    body = [element("div", *charts, class_="charts")]
    if ends:
        rows, notes = zip(*ends, strict=True)
        body += [element("h3", "At the ends"), tiles("Smallest and largest", rows, notes)]
        return Section("sizes", "Sizes", markup(body), rows=rows)
    return Section("sizes", "Sizes", markup(body))


def _size_charts(frame: pd.DataFrame) -> Iterator[Html]:
    if _known(frame, "width") and _known(frame, "height"):
        both = frame[["width", "height"]].dropna().astype(float)
        counts = both.value_counts().reset_index()
        chart = cloud(*(counts[name].to_numpy() for name in ("width", "height", "count")))
        caption = f"Width and height in pixels: {count(len(counts), 'size')}"
        yield element("figure", element("figcaption", caption), chart)
        aspect = (both["width"] / both["height"]).to_numpy()
        caption = f"Width : height, median {np.median(aspect):.3g}"
        yield element("figure", element("figcaption", caption), histogram(aspect, log=True))
    if _known(frame, "bytes"):
        values = frame["bytes"].dropna().to_numpy(float)
        caption = f"Bytes of a file, median {nbytes(float(np.median(values)))}"
        yield element("figure", element("figcaption", caption), histogram(values, log=True))


def _known(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and bool((frame[name] > 0).any())


def _size_ends(frame: pd.DataFrame) -> Iterator[tuple[int, str]]:
    """Yield positions of the rows at the ends of areas and of aspects, with what they are."""
    if not (_known(frame, "width") and _known(frame, "height")):
        return
    size = frame[["width", "height"]].astype(float).set_axis(range(len(frame)))
    size = size.dropna()
    area, aspect = size["width"] * size["height"], size["width"] / size["height"]
    wanted = (("smallest", area, True), ("largest", area, False), ("narrowest", aspect, True),
              ("widest", aspect, False))  # fmt: skip
    seen: set[int] = set()
    for word, values, ascending in wanted:
        if values.nunique() < 2:
            continue
        for at in values.sort_values(ascending=ascending, kind="stable").index[:_ENDS]:
            if at not in seen:
                seen.add(at)
                width, height = size.loc[at].astype(int)
                yield int(at), f"{word}: {width} x {height}"


def problem_section(frame: pd.DataFrame) -> Section | None:
    """Return the rows whose files cannot be used; None if the manifest does not tell."""
    if "problem" not in frame:
        return None
    broken = np.flatnonzero(frame["problem"].notna().to_numpy()).tolist()
    told = frame["problem"].iloc[broken]
    kinds = told.map(lambda text: str(text).partition(":")[0]).value_counts()
    shown = broken[:_PICTURES]
    body: list[object] = [note("Every file could be used when the manifest was built.")]
    if broken:
        rows = [(short(kind), int(rows)) for kind, rows in [*kinds.items()][:_CLASSES]]
        said = f"The first {len(shown)} of {len(broken):,}:" if len(broken) > len(shown) else ""
        body = [html_table(("problem", "rows"), rows), note(said) if said else "",
                tiles("Rows with problems", shown)]  # fmt: skip
    return Section(
        "problems", "Problems", markup(body), len(broken), shown, {"problem": broken[:100_000]}
    )
