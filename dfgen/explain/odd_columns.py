"""Faults of the columns of a table that somebody wrote: names, types and values that look wrong."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import count
from dfgen.explain.findings import Finding
from dfgen.explain.joins import ROW_NUMBERS
from dfgen.explain.labels import MANY_CLASSES, RARE, SENTENCES, class_findings
from dfgen.table.arrow_types import is_text

_TRIED = 1_000  # values of a column that are looked at one by one
_SLIPS = 2, 10  # rows that a slip may be in: 2 of any number; 10, where they are 1 % or less
_SHORT = 3  # letters of a name below which another letter is another name
_FLOAT = r"^-?[0-9]+\.0+$"
_ISO = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d\d(:\d\d(\.\d+)?)?)?Z?")
_DAY = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)")


@dataclass(frozen=True)
class NamedRows:
    """A table whose rows have ids, as messages name them; `class_findings` reads it by column."""

    table: pa.Table
    ids: str | None = None  # the column that is called `id` here

    @property
    def names(self) -> list[str]:
        """The columns; `id` is one of them if the rows have ids."""
        return [*self.table.column_names, *(["id"] if self.ids else [])]

    def __getitem__(self, name: str) -> pa.Array:
        values = self.table[self.ids if self.ids and name == "id" else name].combine_chunks()
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values

    def __len__(self) -> int:
        return len(self.table)


def column_findings(rows: NamedRows, columns: Iterable[str], asked: bool) -> Iterator[Finding]:
    """Yield the faults of label columns; `asked` says that the user named them as labels.

    Texts that nearly all differ are no classes, which is a fault only in a column that was named.
    """
    for name in columns:
        values = rows[name]
        missing = values.null_count
        if missing:
            lonely = pc.indices_nonzero(pc.is_null(values))[:3].to_pylist()
            yield Finding(
                "missing labels",
                missing,
                f"column {name!r} is missing in {missing:,} of {len(rows):,} rows, "
                f"{', '.join(_called(rows, row) for row in lonely)}",
                f"fill them in, drop such rows, df = df[df[{name!r}].notna()], or leave them out "
                'of the loss with missing="ignore"',
                tuple(str(rows["id"][row]) for row in lonely) if rows.ids else (),
                mark=": ",
            )
        if name.startswith(ROW_NUMBERS):
            yield Finding(
                "columns without a name",
                len(rows),
                f"column {name!r} has no name in the file: it holds the row numbers "
                "that pandas writes, or its header is empty",
                "leave it out with to_csv(index=False), or give it a name",
                mark="; ",
            )
            continue
        yield from _constant(name, values)
        if not is_text(values.type):
            continue
        dates = [*_dates(name, values)]
        yield from dates
        if not dates:
            for finding in class_findings(rows, name, pc.unique(values).drop_null(), single=True):
                if asked or finding.kind not in (MANY_CLASSES, SENTENCES):
                    yield finding
            yield from _twins(name, values)


def key_findings(name: str, keys: pa.ChunkedArray) -> Iterator[Finding]:
    """Yield the fault of keys that were whole numbers and are written as floats."""
    if pa.types.is_floating(keys.type):
        odd = len(keys) - keys.null_count
        examples = keys.drop_null()[:3].to_pylist()
    elif is_text(keys.type):
        floats = keys.filter(pc.fill_null(pc.match_substring_regex(keys, _FLOAT), False))
        odd, examples = len(floats), floats[:3].to_pylist()
    else:
        return
    if odd:
        yield Finding(
            "ids written as floats",
            odd,
            f"column {name!r} holds whole numbers as floats in {odd:,} rows, as "
            f"{', '.join(map(str, examples))}: pandas makes them of a column with a missing value",
            f'drop the rows without one, then df[{name!r}] = df[{name!r}].astype(float).astype("'
            'int64")',
            tuple(map(str, examples)),
            mark="; ",
        )


def _called(rows: NamedRows, row: int) -> str:
    return f"row {row}" + (f" (id {rows['id'][row]})" if rows.ids else "")


def _constant(name: str, values: pa.Array) -> Iterator[Finding]:
    if len(values) < 2 or values.null_count or pa.types.is_nested(values.type):
        return
    if pc.count_distinct(values).as_py() == 1:
        yield Finding(
            "constant columns",
            len(values),
            f"column {name!r} is {values[0].as_py()!r} in all {len(values):,} rows: a model "
            "learns nothing from it",
            f"leave it out: df = df.drop(columns={name!r})",
            (str(values[0]),),
            mark="; ",
        )


def _dates(name: str, values: pa.Array) -> Iterator[Finding]:
    texts = pc.unique(values).drop_null()[:_TRIED].to_pylist()
    if not texts:
        return
    if all(map(_ISO.fullmatch, texts)):
        kind, which, how, other = "dates as text", "", "", ""
    else:
        days = [*filter(None, map(_DAY.fullmatch, texts))]
        if len(days) < len(texts):
            return
        sep, year = days[0][2], "%Y" if len(days[0][4]) == 4 else "%y"
        day_first = any(int(day[1]) > 12 for day in days)
        month_first = any(int(day[3]) > 12 for day in days)
        kind, which, other = "dates as text", "", ""
        if day_first == month_first:
            kind, which = "dates that are ambiguous", ", which may be day first or month first"
            other = f"; if the month is first, format={f'%m{sep}%d{sep}{year}'!r}"
            if day_first:
                which, other = ", some day first and some month first", ", once all are alike"
        order = f"%m{sep}%d{sep}" if month_first and not day_first else f"%d{sep}%m{sep}"
        how = f", format={order + year!r}"
    yield Finding(
        kind,
        len(values) - values.null_count,
        f"column {name!r} holds dates as text, as {texts[0]!r}{which}",
        f"make times of them: df[{name!r}] = pd.to_datetime(df[{name!r}]{how}){other}",
        tuple(texts[:3]),
        mark="; ",
    )


def _twins(name: str, values: pa.Array) -> Iterator[Finding]:
    """Yield the fault of rare names that are one letter away from a frequent one."""
    counts = pc.value_counts(values.drop_null())
    if not 1 < len(counts) <= _TRIED:
        return
    rows = {one["values"]: one["counts"] for one in counts.to_pylist()}
    near: dict[str, list[str]] = {}
    for one in rows:
        for form in {one, *(one[:place] + one[place + 1 :] for place in range(len(one)))}:
            near.setdefault(form, []).append(one)
    twins = {
        rare: common
        for group in near.values()
        for rare in group
        for common in group
        if _is_rare(rows[rare], rows[common]) and _one_letter_apart(rare, common)
    }
    if twins:
        shown = [
            f"{rare!r} ({count(rows[rare], 'row')}) beside {common!r} ({rows[common]:,})"
            for rare, common in twins.items()
        ]
        more = f", and {len(shown) - 3:,} more such" if len(shown) > 3 else ""
        yield Finding(
            "labels that look misspelt",
            sum(rows[rare] for rare in twins),
            f"column {name!r} has {', '.join(shown[:3])}{more}: expected one name a class",
            f"if they are one, df[{name!r}] = df[{name!r}].replace({dict([*twins.items()][:3])})",
            tuple(twins),
            mark="; ",
        )


def _is_rare(rows: int, beside: int) -> bool:
    """Whether a name in so many rows may be a slip for one in others: not boat beside goat."""
    few, most = _SLIPS
    return rows * RARE <= beside and rows <= min(most, max(few, beside // 100))


def _one_letter_apart(one: str, other: str) -> bool:
    """Whether two words differ by a letter: left out, put in, another, or two that changed places.

    Those that differ by a digit, by case or blanks alone do not.
    """
    if min(len(one), len(other)) < _SHORT or one.strip().lower() == other.strip().lower():
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    left, right = one[start : len(one) - end], other[start : len(other) - end]
    swapped = len(left) == len(right) == 2 and left == right[::-1]
    return (swapped or max(len(left), len(right)) == 1) and (left + right).isalpha()
