"""Other reasons why files and labels do not match: files left out, another column or key."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.building.label_keys import key_text, whole_numbers
from dfgen.manifest.schema import quote
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.path_pattern import FROM_PATH, Pattern, parse_pattern
from dfgen.table.arrow_types import is_text

PATHS_SHOWN = 3
FILES_TRIED = 1_000
"""Files with which other keys are tried."""
FEW_FILES = 10
"""Files that one row of labels may have before it looks as if they had little in common."""
_ROW_NUMBERS = "Unnamed: "


def lines_of_left_out(
    skipped: Mapping[str, list[str]], pattern: Pattern | None, field: str, wanted: pa.ChunkedArray
) -> list[str]:
    """Return lines on the files left out, and how many of them rows of labels ask for.

    Args:
        skipped: reason -> paths below the folder.
        pattern: the pattern that left them out, if there is one.
        field: what of a path is its key.
        wanted: keys of the rows without a file.
    """
    lines = []
    paths = pa.array(skipped.get(NO_FIT, ()), pa.string())
    if pattern is not None and len(paths) and len(wanted):
        lines.append(f"The pattern {quote(pattern.text)} left out {len(paths):,} files:")
        for what, regex, advice in _near_misses(pattern):
            fields = pc.extract_regex(paths, regex)
            if fields.null_count < len(fields):
                near, found = paths.filter(fields.is_valid()), fields.drop_null()
                number = _asked_for(near, field, wanted, found)
                asked = f", of which {number:,} are those of rows without a file" if number else ""
                lines.append(f"  {len(near):,} {what}: {_some(near)}{asked}{advice}")
                paths = paths.filter(fields.is_null())
    for reason, names in sorted(skipped.items()):
        found = pa.array(names, pa.string())
        if reason != NO_FIT and (number := _asked_for(found, field, wanted)):
            lines.append(
                f"{number:,} of the {len(names):,} paths left out as {reason} have such a name: "
                f"{_some(found)}"
            )
    return lines


def _some(paths: pa.Array) -> str:
    more = ", ..." * (len(paths) > PATHS_SHOWN)
    return ", ".join(map(quote, paths[:PATHS_SHOWN].to_pylist())) + more


def _asked_for(
    paths: pa.Array, field: str, wanted: pa.ChunkedArray, fields: pa.Array | None = None
) -> int:
    """Count the paths that rows ask for by the field of a pattern, the key itself, or the stem.

    Paths that share a key do not count: nothing tells which of them is meant.
    """
    named = [] if fields is None else [each.name for each in fields.type]
    cut = FROM_PATH["stem" if field in named else field if field in FROM_PATH else "name"]
    keys = [pc.replace_substring_regex(paths, each, "") for each in (cut, FROM_PATH["stem"])]
    keys += [pc.struct_field(fields, field)] if field in named else []
    counts = (pc.value_counts(each.filter(pc.is_in(each, value_set=wanted))) for each in keys)
    return max(pc.sum(pc.equal(each.field("counts"), 1)).as_py() or 0 for each in counts)


def _near_misses(pattern: Pattern) -> Iterator[tuple[str, str, str]]:
    """Yield what paths near a pattern have otherwise, a regex for these, and what to do."""
    text, regex = pattern.text, pattern.regex
    own = ' is for these: build with each pattern and unmatched="drop", and pandas.concat, or move '
    widened = re.sub(r"\.[A-Za-z0-9]+$", ".{_}", text)
    if widened != text:
        takes = f"; pattern={quote(widened)} takes any"
        yield "with another extension", parse_pattern(widened).regex, takes
    yield "in another case", f"(?i){regex}", "; write the pattern as they are, or rename them"
    if pattern.integers:
        free = regex.replace("[0-9]+", "[^/]+")
        yield "with more than digits", free, "; write the field without :int to take them as text"
    deeper = regex.replace(r"\A", r"\A(?:[^/]+/)+", 1)
    yield "in folders further below", deeper, f"; pattern={quote('{_}/' + text)}{own}them"
    upper = text.partition("/")[2]
    if re.search(r"{[A-Za-z]", upper):
        yield "one folder above", parse_pattern(upper).regex, f"; pattern={quote(upper)}{own}them"
    yield "unlike it", r"(?s)(?P<_>.*)", ""


def names_of(files: pa.Table) -> list[str]:
    """Return the keys that files have: fields, and what is made of their paths."""
    return [*dict.fromkeys([*(n for n in files.column_names if n != "path"), *FROM_PATH])]


def keys_of(files: pa.Table, field: str) -> pa.ChunkedArray:
    """Return one key of each file."""
    if field in files.column_names and field != "path":
        return key_text(files[field], field, "the source")
    return pc.replace_substring_regex(files["path"], FROM_PATH[field], "")


@dataclass(frozen=True)
class FileKeys:
    """All that may be the key of files: fields of the pattern, and what is made of their paths."""

    files: pa.Table
    integers: Collection[str] = ()  # fields that are compared as whole numbers

    @cached_property
    def some(self) -> dict[str, pa.ChunkedArray]:
        """The keys of a few files, from all over the table, by name."""
        step = -(-len(self.files) // FILES_TRIED) or 1
        few = self.files.take(pa.array(range(0, len(self.files), step), pa.int64()))
        return {name: keys_of(few, name) for name in names_of(few)}

    def told_apart(self, name: str, labels: pa.ChunkedArray) -> str:
        """Return how many files match a column by a key, and a row; nothing if it is no such key.

        One row labels a few files at most; where it labels more than one, most rows have a file.
        """
        keys = keys_of(self.files, name)
        labels = labels.cast(pa.string())
        if name in self.integers:
            keys, labels = whole_numbers(keys), whole_numbers(labels)
        rows = pc.value_counts(keys.filter(pc.is_in(keys, value_set=labels))).field("counts")
        most = pc.max(rows).as_py() or 0
        if not most or most > FEW_FILES or (most > 1 and len(rows) < len(labels) / 2):
            return ""
        each = "one file a row" if most == 1 else f"up to {most} files a row"
        return f"{pc.sum(rows).as_py():,} of {len(keys):,}, {each}"


def lines_of_other_keys(files: FileKeys, labels: pa.Table, pair: tuple[str, str]) -> list[str]:
    """Return lines on what the key column is, and what would match more files.

    Args:
        files: the keys of the files.
        labels: the label table.
        pair: the names of the field and the column that do not match.
    """
    field, column = pair
    lines = []
    if column.startswith(_ROW_NUMBERS):
        lines.append(
            f"The column {quote(column)} holds the row numbers that pandas writes: leave them out "
            "with to_csv(index=False)"
        )
    known = _shares({field: files.some[field]}, labels[column])[field]
    better = best_pair(files, labels, known)
    return [*lines, f'on="{better[0]}" would match more files: {better[1]}'] if better else lines


def best_pair(files: FileKeys, labels: pa.Table, more_than: float = 0) -> tuple[str, str] | None:
    """Return `FIELD=COLUMN` of the keys that match the most files, most of them, and how many.

    Only keys that tell files apart, and are no row numbers.
    """
    found = [
        (share, field, column)
        for column in labels.column_names
        if not column.startswith(_ROW_NUMBERS)
        and pc.count_distinct(labels[column]).as_py() == len(labels)
        for field, share in _shares(files.some, labels[column]).items()
        if share > max(more_than, 0.5)
    ]
    for _, field, column in sorted(found, key=lambda one: -one[0]):
        if said := files.told_apart(field, labels[column]):
            return f"{field}={column}", said
    return None


def _shares(files: Mapping[str, pa.ChunkedArray], labels: pa.ChunkedArray) -> dict[str, float]:
    """Return which share of the keys of each kind stands in a column."""
    if not (is_text(labels.type) or pa.types.is_integer(labels.type)):
        return dict.fromkeys(files, 0)
    labels = labels.cast(pa.string())
    wanted = pa.chunked_array([chunk for keys in files.values() for chunk in keys.chunks])
    there = labels.filter(pc.is_in(labels, value_set=wanted))
    return {
        name: (pc.mean(pc.is_in(keys, value_set=there)).as_py() or 0)
        for name, keys in files.items()
    }
