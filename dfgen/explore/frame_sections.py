"""The first sections of the page of a manifest: summary, sizes, problems."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError, count
from dfgen.explore.chosen_rows import problems
from dfgen.explore.frame_charts import MISSING, SizeFacts, far_out, size_counts, size_facts
from dfgen.explore.page_section import (
    Html,
    Section,
    element,
    facts_list,
    html_table,
    markup,
    note,
    relative,
    short,
    shown_columns,
    tiles,
)
from dfgen.explore.plain_words import day, nbytes, number, word
from dfgen.explore.predicted import own_labels
from dfgen.explore.svg_charts import bar, cloud, histogram
from dfgen.manifest.duplicates import copies_across, copies_in_groups
from dfgen.manifest.file_copies import file_copies
from dfgen.manifest.schema import PARTS, part_column

_HASHES = {"digest", "phash"}
_NOT_LOOKED_FOR = (
    "dfgen did not look for copies: the manifest has no hashes of its files. To have them, "
    'build it with facts="full" (--facts full), which decodes every file once.'
)
_GROUPS, _OF_GROUP = 20, 8
_PAIRS = 24


def copies_sections(frame: pd.DataFrame) -> list[Section]:
    """Return the sections of duplicates and of leaks; `frame` counts its index."""
    if not {*frame.columns} >= _HASHES:
        unknown = note(_NOT_LOOKED_FOR)
        return [Section(name.lower(), name, unknown) for name in ("Duplicates", "Leaks")]
    files = file_copies(frame)
    return [
        _duplicates(frame, copies_in_groups(frame, files)),
        _leaks(frame, copies_across(frame, files))
        if part_column(frame)
        else Section("leaks", "Leaks", note("There are no splits for a picture to leak between.")),
    ]


def _duplicates(frame: pd.DataFrame, found: pd.DataFrame) -> Section:
    groups = [rows for _, rows in found[found["group"] < _GROUPS].groupby("group")]
    kinds = found.drop_duplicates("group")["kind"].value_counts().sort_index()
    total = int(kinds.sum())
    head = "No picture has a copy."
    if groups:
        told = ", ".join(f"{size:,} {kind}" for kind, size in kinds.items())
        head = f"{count(total, 'group')} of copies ({told}), {len(found):,} rows."
        head += f" The first {_GROUPS}:" * (total > _GROUPS)
    body = markup([note(head), _side_by_side(_group(frame, rows) for rows in groups)])
    shown = [row for rows in groups for row in rows.index[:_OF_GROUP]]
    return Section(
        "duplicates", "Duplicates", body, total, "groups of copies", rows=shown,
        marks={"duplicate": found.index.tolist()},
    )  # fmt: skip


def _side_by_side(groups: Iterable[Html]) -> Html:
    return element("div", *(element("div", one, class_="group") for one in groups), class_="groups")


def _group(frame: pd.DataFrame, rows: pd.DataFrame) -> Html:
    some = rows.index[:_OF_GROUP]
    more = len(rows) - len(some)
    said = f"{rows['kind'].iloc[0]}, {count(len(rows), 'row')}"
    said += f"; {more:,} are not shown" * bool(more)
    part = part_column(frame)
    parts = () if part is None else map(short, frame[part].loc[some])
    return markup([element("p", said), tiles(f"Copies, {said}", some, parts)])


def _leaks(frame: pd.DataFrame, found: pd.DataFrame) -> Section:
    some = found.iloc[:_PAIRS]
    others = pd.Index(frame["id"]).get_indexer(some["other_id"]).tolist()
    pairs = [*zip(others, some.index.tolist(), strict=True)]
    head = "No picture of a split has a copy in another."
    if pairs:
        first = f" The first {len(some)}:" * (len(found) > len(some))
        head = f"{count(len(found), 'row')} with a copy in an earlier split, in pairs.{first}"
    boxes = [_pair(one, rows) for (_, one), rows in zip(some.iterrows(), pairs, strict=True)]
    body = markup([note(head), _side_by_side(boxes)])
    shown = [row for pair in pairs for row in pair]
    marks = {"leak": found.index.tolist()}
    return Section("leaks", "Leaks", body, len(found), "rows", alarms=True, rows=shown, marks=marks)


def _pair(leak: pd.Series, rows: Sequence[int]) -> Html:
    part = next(name for name in PARTS if name in leak)
    notes = short(leak[f"other_{part}"]), f"{short(leak[part])}: {leak['kind']}"
    return tiles(f"Copies, {leak['kind']}", rows, notes)


_CLASSES, _LARGEST = 40, 30  # of a table; of more, the largest and the smallest
_LABELS = 12
_PARTS = 6
_UNEVEN = 1.5  # times as large as the smallest class, before the page says so


def class_section(frame: pd.DataFrame, counts: Mapping[str, pd.DataFrame]) -> Section:
    """Return the rows of each class in each split, as `counts_by_label` has them, and numbers."""
    names = own_labels(frame)
    numbers = [name for name in names if name not in counts and _has_numbers(frame[name])]
    told = [name for name in names if name in counts or name in numbers]
    body = []
    for name in told[:_LABELS]:
        held = _class_table(counts[name]) if name in counts else _spread_of(frame[name])
        body += [element("h3", short(name)), held]
    if len(told) > _LABELS:
        body.append(note(f"{len(told) - _LABELS} more labels are not shown."))
    return Section("classes", "Classes", markup(body or [note("No column is a label.")]))


def _has_numbers(column: pd.Series) -> bool:
    is_known = pd.api.types.is_numeric_dtype(column) or _has_times(column)
    return is_known and bool(column.notna().any())


def _has_times(column: pd.Series) -> bool:
    return pd.api.types.is_datetime64_any_dtype(column)


def _spread_of(column: pd.Series) -> Html:
    if _has_times(column):  # in nanoseconds of UTC
        times = pd.to_datetime(column.dropna(), utc=True).astype("datetime64[ns, UTC]")
        values = times.astype(np.int64).to_numpy(np.float64)
        caption = f"{day(values.min())} to {day(values.max())}"
        chart = element("figure", element("figcaption", caption), histogram(values, told=day))
        return element("div", chart, class_="charts")
    values = column.to_numpy(np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    if not len(values):
        return note("No finite number.")
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):
        return note(f"{low:g} to {high:g}")
    caption = f"{number(low)} to {number(high)}, mean {number(values.mean())}"
    chart = element("figure", element("figcaption", caption), histogram(values))
    return element("div", chart, class_="charts")


def _class_table(counted: pd.DataFrame) -> Html:
    parts = counted.drop(columns=["rows", "share"])
    if not 0 < parts.shape[1] <= _PARTS:
        parts = counted[["rows"]]
    rows = parts.to_numpy()
    totals = rows.sum(axis=0)
    shares = rows / np.maximum(totals, 1)
    highest = shares.max(initial=0) or 1.0
    shown, said = _few_classes(counted)
    cells = [
        [_share(rows[at, part], shares[at, part], highest, part) for part in range(len(totals))]
        for at in shown
    ]
    lines = [[short(counted.index[at]), *row] for at, row in zip(shown, cells, strict=True)]
    sums = zip(parts.columns, totals.tolist(), strict=True)
    heads = ["class", *(f"{short(part)} ({total:,})" for part, total in sums)]
    return markup([html_table(heads, lines, "shares"), note(said) if said else ""])


def _few_classes(counted: pd.DataFrame) -> tuple[list[int], str]:
    """Return places of the classes that are shown, and what is said below their table."""
    known = counted["rows"].to_numpy()[counted.index != MISSING]
    said = []
    shown = [*range(len(counted))]
    if len(counted) > _CLASSES:
        order = np.argsort(-counted["rows"].to_numpy(), kind="stable")
        shown = [*order[:_LARGEST], *order[_LARGEST - _CLASSES :]]
        said.append(
            f"{len(known):,} classes: these are the {_LARGEST} largest and the "
            f"{_CLASSES - _LARGEST} smallest."
        )
    if len(known) and known.min() and known.max() > _UNEVEN * known.min():
        ratio = number(known.max() / known.min())
        said.append(f"The largest class has {ratio} times the rows of the smallest.")
    return shown, " ".join(said)


def _share(rows: int, share: float, highest: float, color: int) -> Html:
    told = element("span", f"{rows:,}", class_=None if rows else "alarm-text")
    return markup([told, " ", element("small", f"{share:.1%}"), bar(share / highest, color)])


_KINDS = 40  # of problems
_PICTURES = 24
_MARKED = 100_000  # rows with a problem that the gallery looks for


def summary_section(
    frame: pd.DataFrame, counts: Mapping[str, pd.DataFrame], others: Sequence[Section]
) -> Section:
    """Return the figures that are read first, and what each column holds."""
    facts = [("Rows", f"{len(frame):,}", _counts(frame, part_column(frame)), False)]
    if "bytes" in frame and frame["bytes"].notna().any():
        total = nbytes(float(frame["bytes"].sum()))
        facts.append(("Files", total, _counts(frame, "format"), False))
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
    told = element("summary", f"{count(len(frame.columns), 'column')} and their content")
    return Section(
        "summary", "Summary", markup([facts_list(facts), element("details", told, columns)])
    )


def _counts(frame: pd.DataFrame, name: str | None) -> str:
    found = [*frame[name].value_counts().items()] if name in frame else []
    told = ", ".join(f"{short(value)} {rows:,}" for value, rows in found[:5] if rows)
    return told + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def _column_row(frame: pd.DataFrame, name: str) -> tuple[object, ...]:
    column = frame[name]
    root = frame.attrs.get("dfgen", {}).get("root") if name == "path" else None
    filled = column.dropna()
    return short(name), str(column.dtype), len(column) - len(filled), _holds(filled, root)


def _holds(column: pd.Series, root: str | None) -> str:
    if not len(column):
        return "nothing"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return count(column.nunique(), "class")
    if pd.api.types.is_bool_dtype(column):
        return f"{int(column.sum()):,} true"
    if pd.api.types.is_numeric_dtype(column):
        return f"{number(float(column.min()))} to {number(float(column.max()))}"
    if _has_times(column):
        return f"{word(column.min())} to {word(column.max())}"
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
        counts = size_counts(facts)
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
