"""Join files with a table of labels: by a key that both have, never by position."""

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, count, did_you_mean, first, quote
from dfgen.explain.joins import (
    FEW_FILES,
    FileKeys,
    LeftOut,
    Lonely,
    NearMiss,
    Words,
    best_pair,
    explain,
    lines_of_left_out,
    lines_of_other_keys,
    what_became,
)
from dfgen.explain.key_causes import JoinKeys
from dfgen.manifest.building.label_keys import key_text, label_keys, whole_numbers
from dfgen.manifest.building.recipe import split_on
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.path_pattern import FROM_PATH, Pattern, parse_pattern
from dfgen.manifest.sources.source import RowGroup


def join(
    files: pa.Table,
    labels: pa.Table,
    on: str,
    *,
    pattern: Pattern | None = None,
    unmatched: str = "error",
    keep_key: bool = False,
    table: str = "the label table",
    skipped: Mapping[str, list[str]] | None = None,
) -> RowGroup:
    """Give each file the row of the label table that has the same key.

    Keys are compared as text; `{id:int}` fields as whole numbers, so 7 is 007. Several files may
    share a row of labels; a key stands in one row of the table only. The arguments are those of
    `build_manifest`, with the `table` as messages call it, and whether to `keep_key` as a column;
    files that were `skipped` are named by messages.
    """
    field, column = split_on(on)
    whole_fields = pattern.integers if pattern else ()
    whole = field in whole_fields

    def compared(name: str, keys: pa.ChunkedArray) -> pa.ChunkedArray:
        return whole_numbers(keys) if name in whole_fields else keys

    every = FileKeys(files, _names_of(files), _keys_of, compared)
    if field not in every.names:
        raise ArgumentError(_no_field(every, field, labels))
    file_keys = compared(field, _keys_of(files, field))
    keys = label_keys(labels, column, table, whole, file_keys)
    given, labels = labels, labels.drop_columns([column])
    _check_names(files, labels, table)
    if keep_key and column not in files.column_names:
        files = files.append_column(column, file_keys)
    found = pc.index_in(file_keys, value_set=keys)
    without_labels = pc.is_null(found)
    without_file = pc.invert(pc.is_in(keys, value_set=file_keys))
    counts = (pc.sum(without_labels).as_py() or 0, pc.sum(without_file).as_py() or 0)
    if any(counts) and unmatched == "error":
        words = Words(
            f'files and {table} do not match on {field} = "{column}".',
            f"files have no row in {table}",
            f"rows of {table} have no file",
        )
        sides = JoinKeys(file_keys, without_labels), JoinKeys(keys, without_file)
        more = lines_of_left_out(_left_out(skipped or {}, pattern), every, field, sides[1])
        more += lines_of_other_keys(every, given, field, column)
        raise ManifestError(explain(*sides, words, more=more))
    if unmatched == "drop":
        files, found = files.filter(pc.is_valid(found)), found.drop_null()
    rows = files
    for name in labels.column_names:
        rows = rows.append_column(name, labels[name].take(found))
    if unmatched == "keep" and counts[1]:
        lost = keys.filter(without_file)
        rows = _append_without_file(rows, labels.filter(without_file), lost, (field, column))
    lonely = Lonely(counts[0], len(file_keys), "file", f"without a row in {table}")
    spare = Lonely(counts[1], len(keys), "row", f"of {table} without a file")
    shared = _shared_rows(every.files["path"], file_keys, keys, on, table)
    return RowGroup(rows, notes=what_became(unmatched, lonely, spare), warnings=shared)


def _names_of(files: pa.Table) -> list[str]:
    """Return the keys that files have: fields, and what is made of their paths."""
    return [*dict.fromkeys([*(n for n in files.column_names if n != "path"), *FROM_PATH])]


def _keys_of(files: pa.Table, field: str) -> pa.ChunkedArray:
    if field in files.column_names and field != "path":
        return key_text(files[field], field, "the source")
    return pc.replace_substring_regex(files["path"], FROM_PATH[field], "")


def _left_out(skipped: Mapping[str, list[str]], pattern: Pattern | None) -> LeftOut:
    others = {reason: paths for reason, paths in skipped.items() if reason != NO_FIT}
    if pattern is None:
        return LeftOut(others)
    return LeftOut(others, skipped.get(NO_FIT, []), pattern.text, [*_near_misses(pattern)])


def _near_misses(pattern: Pattern) -> Iterator[NearMiss]:
    text, regex = pattern.text, pattern.regex
    own = ' is for these: build with each pattern and unmatched="drop", and pandas.concat, or move '
    widened = re.sub(r"\.[A-Za-z0-9]+$", ".{_}", text)
    if widened != text:
        takes = f"; pattern={quote(widened)} takes any"
        yield NearMiss("with another extension", parse_pattern(widened).regex, takes)
    case = "; write the pattern as they are, or rename them"
    yield NearMiss("in another case", f"(?i){regex}", case)
    if pattern.integers:
        free = regex.replace("[0-9]+", "[^/]+")
        as_text = "; write the field without :int to take them as text"
        yield NearMiss("with more than digits", free, as_text)
    deeper = regex.replace(r"\A", r"\A(?:[^/]+/)+", 1)
    moved = f"; pattern={quote('{_}/' + text)}{own}them"
    yield NearMiss("in folders further below", deeper, moved)
    upper = text.partition("/")[2]
    if re.search(r"{[A-Za-z]", upper):
        moved = f"; pattern={quote(upper)}{own}them"
        yield NearMiss("one folder above", parse_pattern(upper).regex, moved)
    yield NearMiss("unlike it", r"(?s)(?P<_>.*)", "")


def _shared_rows(
    paths: pa.ChunkedArray, file_keys: pa.ChunkedArray, keys: pa.ChunkedArray, on: str, table: str
) -> tuple[str, ...]:
    """Return what to say where few rows of many label all files: the key may tell none apart.

    A table whose rows have many files each, of a patient or a video, is meant so.
    """
    rows = pc.value_counts(file_keys.filter(pc.is_in(file_keys, value_set=keys)))
    most = pc.max(rows.field("counts")).as_py() or 0
    if most <= FEW_FILES or len(rows) >= len(keys) / 2:
        return ()
    key = rows.field("values")[pc.index(rows.field("counts"), most).as_py()]
    some = first(paths.filter(pc.equal(file_keys, key)))[:3]
    return (
        f"on={quote(on)}: {count(len(rows), 'row')} of the {len(keys):,} of {table} "
        f"{'labels' if len(rows) == 1 else 'label'} {pc.sum(rows.field('counts')).as_py():,} "
        f"files, as {quote(key.as_py())} {most:,} files: {', '.join(map(quote, some))}, ... If "
        "they are not meant to share labels, join on a key that tells files apart. If they are, "
        "leave the rows without a file out of the table",
    )


def _check_names(files: pa.Table, labels: pa.Table, table: str) -> None:
    clash = sorted(set(files.column_names) & set(labels.column_names))
    if clash:
        raise ManifestError(
            f'the column "{clash[0]}" is in {table} and also comes from the files. Rename it in '
            "the table, or name the columns that you want with label= (--label)"
        )


def _no_field(files: FileKeys, field: str, labels: pa.Table) -> str:
    """Return the message on a key that files do not have."""
    near = did_you_mean(field, files.names)
    advice = f"{near} A field of the pattern, such as {{id}}, is one too"
    if field in labels.column_names:
        pair = best_pair(files, labels.select([field]))
        as_in = f'as in on="{pair[0]}", which matches {pair[1]}' if pair else f'on="FIELD={field}"'
        advice = f" It is a column of the table: write FIELD=COLUMN, {as_in}"
    return f"on={quote(field)} is not a key of a file. Keys: {', '.join(files.names)}.{advice}"


def _append_without_file(
    rows: pa.Table, labels: pa.Table, keys: pa.ChunkedArray, key: tuple[str, str]
) -> pa.Table:
    """Add labels without a file. The key stands in for the path that nobody knows."""
    known = {name: labels[name] for name in labels.column_names}
    known |= {name: keys for name in key if name in rows.column_names}
    known |= {
        "path": keys,
        "problem": pc.binary_join_element_wise(
            f"no file for this row of labels: {key[1]} ", keys, ""
        ),
    }
    rows = rows.append_column("problem", pa.nulls(len(rows), pa.string()))
    extra = [known.get(field.name, pa.nulls(len(labels), field.type)) for field in rows.schema]
    return pa.concat_tables([rows, pa.table(extra, schema=rows.schema)])
