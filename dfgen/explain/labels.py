"""Warns before training of labels, named by nobody, that look like a mistake."""

import re
from ast import literal_eval
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import EXAMPLES, ManifestError, listed, warn
from dfgen.explain.findings import Finding
from dfgen.samples.bound_feature import BoundFeature
from dfgen.table.arrow_types import flattened, is_list, is_text, lengths_of, value_type

SENTENCES = "sentences as classes"
MANY_CLASSES = "nearly as many classes as rows"
"""The kind of a finding that texts to read and ids give too: no fault where nobody asks for y."""

_SENTENCES = 20  # names that may be long, as of places
_OF_MISSING = ("nan", "<NA>", "NaT")  # what astype(str) makes of missing values; "None" is a name
RARE = 20  # how many times as often a name stands as the one that looks like a slip for it
_SHOWN = 1_000  # names that are looked at one by one
_VECTOR = re.compile(r"\[\s*[\d.][\d.eE+-]*(\s+[\d.eE+-]+)+\s*\]")  # as NumPy writes it
_NUMBER = re.compile(r"\s*[+-]?\d+(,\d{3})*([.,]\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*")


def check_classes(
    rows: Any, column: str, names: pa.Array, single: bool, sep: str | None = None
) -> None:
    """Refuse or warn of class names of a target, which nobody has given, that look like none.

    The arguments are those of `class_findings`.
    """
    for finding in class_findings(rows, column, names, single, sep):
        if finding.stops:
            raise ManifestError(str(finding))
        warn(str(finding))


def class_findings(
    rows: Any, column: str, names: pa.Array, single: bool, sep: str | None = None
) -> Iterator[Finding]:
    """Yield the faults of class names that nobody has given.

    `rows` are the columns of the manifest, Arrow arrays by name, asked for if something is wrong;
    `names` those of the column, distinct: of a dictionary its values, which may be in no row.
    `single`: a row has one, not a list. The texts of the column were split by `sep`.
    """
    fixed = pa.types.is_dictionary(names.type)
    names = names.dictionary.drop_null() if fixed else names
    if not is_text(names.type):
        if not single and sorted(map(repr, names[:3].to_pylist())) == ["0", "1"]:
            yield from _vectors(rows[column], column)
        return
    shown = names.slice(0, _SHOWN).to_pylist()
    yield from _lists(rows, column, shown, single)
    guessed = single and not fixed
    if guessed and len(rows) >= 20 and len(names) > 0.9 * len(rows):
        numbers = _are_numbers(shown)
        yield Finding(
            "numbers as text" if numbers else MANY_CLASSES,
            len(rows),
            f"column {column!r} has {len(names):,} classes in {len(rows):,} rows, as {shown[0]!r}: "
            "expected several rows of each class",
            (
                _numbers_of(column, shown)
                if numbers
                else f"for texts to read write dfgen.Text({column!r}) in x, for an id choose "
                "another y"
            )
            + ", for such classes class_names=",
            mark="; ",
        )
        return
    if guessed and _are_sentences(shown):
        yield Finding(
            SENTENCES,
            len(rows),
            f"column {column!r} has {len(names):,} classes which look like sentences, as "
            f"{shown[0]!r}: expected names of classes",
            f"for texts to read write dfgen.Text({column!r}) in x, for such classes class_names=",
            mark="; ",
        )
    bare = pc.utf8_trim_whitespace(names)
    yield from _blank(rows, column, names, names.filter(pc.equal(bare, "")))
    yield from _missing(
        rows, column, names.filter(pc.is_in(names, pa.array(_OF_MISSING, names.type)))
    )
    yield from _alike(rows, column, names, bare)
    if guessed and _are_numbers(shown) and _comma(shown) is not None:
        example = next(name for name in shown if "," in name)
        comma = "its thousands apart" if _comma(shown) == "" else "a decimal comma"
        yield Finding(
            "numbers as text",
            len(rows),
            f"column {column!r} has the class {example!r}, a number with {comma}: expected names "
            "of classes",
            f"{_numbers_of(column, shown)}, for such classes class_names=",
            (example,),
            mark="; ",
        )
    elif single or sep is not None:
        yield from _several(rows, column, shown, sep)


def warn_of_infinite(target: BoundFeature) -> None:
    """Warn of numbers that make a loss NaN."""
    values = target.values
    if target.feature.kind != "number" or values.dtype.kind != "f":
        return
    finite = np.isfinite(values)
    if not finite.all():
        row, *place = np.argwhere(~finite)[0].tolist()
        column = target.feature.columns[place[0] if place else 0]
        warn(
            f"target {column!r} is {values[(row, *place)]} in row {row}, and infinite "
            f"{(~finite).sum():,} times in all: expected finite numbers, for one makes the loss "
            f"NaN; drop such rows: df = df[np.isfinite(df[{column!r}])]"
        )


def _lists(rows: Any, column: str, names: list[str], single: bool) -> Iterator[Finding]:
    """Yield the fault of the text of lists, as a CSV makes it, also where `sep` split it."""
    if not any("[" in name for name in names[:10]):
        return
    texts, how = [name.strip() for name in names], "ast.literal_eval"
    if not single:
        begins, ends = {text[:2] for text in texts}, {text[-2:] for text in texts}
        lists = bool(begins & {"['", '["'} and ends & {"']", '"]'})
    elif any(map(_VECTOR.fullmatch, texts)):
        lists, how = True, 'lambda text: np.fromstring(text.strip("[]"), sep=" ").tolist()'
    else:
        lists = bool(texts) and all(map(_is_list, texts))
    if lists:
        yield Finding(
            "lists as text",
            len(rows),
            f"column {column!r} holds the text of lists, as {names[0]!r}, expected the name of a "
            "class, or lists: a CSV file has none",
            f"Make them again: df[{column!r}] = df[{column!r}].map({how}), or keep the table as "
            "Parquet",
            (names[0],),
            stops=True,
        )


def _is_list(text: str) -> bool:
    try:
        return text[:1] == "[" and isinstance(literal_eval(text), list)
    except (ValueError, SyntaxError):
        return False


def _are_sentences(names: list[str]) -> bool:
    """Whether more than 20 names have mostly five words or more."""
    long = sum(len(name.split()) > 4 for name in names)
    return len(names) > _SENTENCES and 2 * long > len(names)


def _are_numbers(names: list[str]) -> bool:
    return all(_NUMBER.fullmatch(name or "") for name in names)


def _comma(numbers: list[str]) -> str | None:
    """Return what commas in numbers stand for: "." or, of thousands, ""; None without commas."""
    commas = [number for number in numbers if "," in number]
    if not commas:
        return None
    return "" if all(map(_THOUSANDS.fullmatch, commas)) else "."


def _numbers_of(column: str, names: list[str]) -> str:
    point = _comma(names)
    comma = "" if point is None else f'.str.replace(",", "{point}")'
    return f"for numbers write df[{column!r}] = pd.to_numeric(df[{column!r}]{comma})"


def _blank(rows: Any, column: str, names: pa.Array, blank: pa.Array) -> Iterator[Finding]:
    where = _where(rows, column, blank)
    if where is None:
        return
    values = rows[column].type
    mended = (
        f"write [] where a row has no label, df[{column!r}] = df[{column!r}].map(lambda labels: "
        "[label for label in labels if label.strip()])"
        if is_list(values)
        else f"make them missing, df[{column!r}] = df[{column!r}].cat.remove_categories("
        f"{blank.to_pylist()}), and drop them, df = df[df[{column!r}].notna()]"
        if pa.types.is_dictionary(values)
        else f"drop such rows, df = df[df[{column!r}].str.strip() != '']"
    )
    yield Finding(
        "blank labels",
        where.rows,
        f"column {column!r} holds {listed(blank.to_pylist())} as a class, {where.told}: expected a "
        "name",
        f"{mended}; if it is a class, name all: class_names=[{listed(sorted(names.to_pylist()))}]",
        where.ids,
        stops=True,
        mark="; ",
    )


def _missing(rows: Any, column: str, missing: pa.Array) -> Iterator[Finding]:
    where, gone = _where(rows, column, missing), missing.to_pylist()
    if where is not None:
        yield Finding(
            "missing labels as text",
            where.rows,
            f"column {column!r} has the class {listed(gone)}, {where.told}, as astype(str) makes "
            "it of missing values: expected names of classes",
            f"drop such rows, df = df[~df[{column!r}].isin({gone})], or if it is a class, name "
            "all: class_names=",
            where.ids,
            mark="; ",
        )


def _vectors(values: Any, column: str) -> Iterator[Finding]:
    lengths = {*lengths_of(values).tolist()} if is_list(values.type) else {0}
    if len(values) > 1 and len(lengths) == 1 and min(lengths) > 2:
        yield Finding(
            "vectors as labels",
            len(values),
            f"column {column!r} has the labels 0 and 1 in lists of {min(lengths)}: expected the "
            "labels that a row has, as [0, 2]",
            f"for vectors of zeros and ones write dfgen.Column({column!r}, np.array, "
            f"shape=({min(lengths)},)), else class_names=",
            mark="; ",
        )


class _Where(NamedTuple):
    rows: int
    told: str  # how many, and which is the first
    ids: tuple[str, ...]  # of the first few


def _where(rows: Any, column: str, names: pa.Array) -> _Where | None:
    """Return in which rows some names are; None if in none."""
    if not len(names):
        return None
    values = rows[column]
    labels = flattened(values) if is_list(values.type) else values
    known = labels.cast(value_type(labels.type))
    places = pc.indices_nonzero(pc.is_in(known, value_set=names.cast(known.type)))
    if is_list(values.type):
        places = pc.unique(pc.list_parent_indices(values).take(places))
    if not len(places):
        return None
    row, ids = places[0].as_py(), []
    if "id" in rows.names:
        ids = rows["id"].take(places[:EXAMPLES]).to_pylist()
    known_as = f" (id {ids[0]!r})" if ids else ""
    told = f"in {len(places):,} rows, the first is row {row}{known_as}"
    return _Where(len(places), told, tuple(map(str, ids)))


def _alike(rows: Any, column: str, names: pa.Array, bare: pa.Array) -> Iterator[Finding]:
    """Yield the fault of names that differ by case or blanks."""
    folded = pc.utf8_lower(bare)
    forms = pc.value_counts(folded)
    twice = forms.filter(pc.greater(forms.field("counts"), 1)).field("values")
    if not len(twice):
        return
    values = rows[column]
    labels = flattened(values) if is_list(values.type) else values
    counted = pc.value_counts(labels.cast(value_type(labels.type))).to_pylist()
    counts = {one["values"]: one["counts"] for one in counted}
    each = pa.table({"name": names, "form": folded}).filter(pc.is_in(folded, value_set=twice))
    of_form: dict[str, dict[str, int]] = {}
    for one in each.to_pylist():
        of_form.setdefault(one["form"], {})[one["name"]] = counts.get(one["name"], 0)
    found = [(group, rare) for group in of_form.values() if (rare := _rarer(group))]
    if not found:
        return
    where = _where(rows, column, pa.array([name for _, rare in found for name in rare], names.type))
    alike = [*found[0][0]]
    more = f", and {len(found) - 1:,} more such" if len(found) > 1 else ""
    yield Finding(
        "labels that differ by case or blanks",
        where.rows if where else 0,
        f"column {column!r} has the classes {listed(alike)}{more}, which differ by case or blanks "
        "alone: expected one name a class",
        f"if they are one, df[{column!r}] = df[{column!r}].str.strip().str.lower(); if not, name "
        "all: class_names=",
        tuple(alike[:EXAMPLES]),
        mark="; ",
    )


def _rarer(rows: dict[str, int]) -> list[str]:
    """Return the names of one form without the most frequent, as a slip for which others stand.

    Names of one or two letters may well differ by case, as CO and Co do, unless one is rare.
    """
    most, *others = sorted(rows, key=rows.__getitem__, reverse=True)
    if len(most.strip()) > 2 or len({name.strip() for name in rows}) == 1:
        return others
    return [name for name in others if rows[name] * RARE <= rows[most]]


def _several(rows: Any, column: str, names: list[str], sep: str | None) -> Iterator[Finding]:
    """Yield the fault of names that are several labels in one text, also split by `sep`."""
    found = next((one for one in (",", ";", "|") if one != sep and _recur(names, one)), None)
    if found is None or _are_numbers(names):
        return
    held = [name for name in names if found in name]
    if sep is None and _where(rows, column, pa.array(held)) is None:
        return
    split = "" if sep is None else f", split by {sep!r}"
    expected, several = (
        ("one class a row", "for several ") if sep is None else ("one label in each", "")
    )
    yield Finding(
        "several labels in one text",
        len(rows),
        f"column {column!r} has the class {held[0]!r}{split}, which looks like several labels: "
        f"expected {expected}",
        f'{several}write y=dfgen.MultiLabel({column!r}, sep="{found}"), else class_names=',
        tuple(held[:EXAMPLES]),
        mark="; ",
    )


def _recur(names: list[str], separator: str) -> bool:
    """Whether names have parts that stand now first and now later, as tags do.

    Parts of "Paris, France" and of "animal|cat" keep to their places.
    """
    several = sum(separator in name for name in names)
    if several < 2 or several < 0.2 * len(names):
        return False
    places: dict[str, set[int]] = {}
    for name in names:
        for place, part in enumerate(name.split(separator)):
            places.setdefault(part.strip(), set()).add(place)
    moving = sum(len(found) > 1 for found in places.values())
    return moving >= 0.25 * len(places)
