"""What else may be why files and labels do not match: files left out, another column or key."""

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.schema import quote
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.path_pattern import FROM_PATH, Pattern, parse_pattern
from dfgen.samples.arrow_types import is_text

PATHS_SHOWN = 3

Keys = Mapping[str, pa.ChunkedArray]


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
    """Count the paths that rows ask for by the field of a pattern, the key itself, or the stem."""
    named = [] if fields is None else [each.name for each in fields.type]
    cut = FROM_PATH["stem" if field in named else field if field in FROM_PATH else "name"]
    keys = [pc.replace_substring_regex(paths, each, "") for each in (cut, FROM_PATH["stem"])]
    keys += [pc.struct_field(fields, field)] if field in named else []
    return max(pc.sum(pc.is_in(each, value_set=wanted)).as_py() or 0 for each in keys)


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


def lines_of_other_keys(files: Keys, labels: pa.Table, pair: tuple[str, str]) -> list[str]:
    """Return lines on what the key column is, and what would match more files.

    Args:
        files: keys of some files, of each kind that they have.
        labels: the label table.
        pair: the names of the field and the column that do not match.
    """
    field, column = pair
    lines = []
    if column.startswith("Unnamed: "):
        lines.append(
            f"The column {quote(column)} holds the row numbers that pandas writes: leave them out "
            "with to_csv(index=False)"
        )
    known = _shares({field: files[field]}, labels[column])[field]
    better = best_pair(files, labels, known)
    return [*lines, f'on="{better}" would match more files'] if better else lines


def best_pair(files: Keys, labels: pa.Table, more_than: float = 0) -> str:
    """Return `FIELD=COLUMN` of the keys that match the most files, most of them; else nothing."""
    best, most = "", max(more_than, 0.5)
    for column in labels.column_names:
        for field, share in _shares(files, labels[column]).items():
            if share > most and pc.count_distinct(labels[column]).as_py() == len(labels):
                best, most = f"{field}={column}", share
    return best


def _shares(files: Keys, labels: pa.ChunkedArray) -> dict[str, float]:
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
