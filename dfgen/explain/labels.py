"""Warns about suspicious labels: names that look alike, lists in text, infinite numbers.

`class_names=` of a feature ends the warnings about its classes.
"""

import re
import unicodedata
from ast import literal_eval
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import KAGGLE_ADVICE, KAGGLE_RUNS, ManifestError, listed, warn
from dfgen.table.arrow_types import LISTS, TEXT, flattened, in_one, lengths_of, value_type

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_SHOWN = 3  # groups of names in a message
_LONGEST = 900  # characters of a message that is not shortened
_WARNED = set[tuple[str, frozenset[str]]]()

_FEW = 20  # fewer rows can all have different classes


def folded(name: str) -> str:
    """Return a form that is equal for names that look alike.

    Example:
        >>> folded("Two  dogs ") == folded("two dogs")
        True
    """
    return _cleaned(_cleaned(name).casefold())


def _cleaned(name: str) -> str:
    """Return a name in NFC, without invisible characters and superfluous blanks."""
    if not name.isascii():
        name = unicodedata.normalize("NFC", _INVISIBLE.sub("", name))
    return " ".join(name.split())


def warn_of_lookalikes(
    column: str,
    values: pa.Array | pa.ChunkedArray | Iterable[object],
    source: object = None,
    kind: pa.DataType | None = None,
) -> None:
    """Warn once per process about different values of a column that look alike.

    They are equal after NFC, removing blanks and zero-width characters, and case folding.

    Args:
        column: the name of the column.
        values: its values, text, categories or lists of text; or their distinct names.
        source: the table of the user. Code is advised if it is a DataFrame.
        kind: the type of the column, if `values` are names.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        kind = values.type
    else:
        values = pa.array([value for value in values if isinstance(value, str)], pa.string())
    values = in_one(values.unify_dictionaries() if hasattr(values, "chunks") else values)
    values = flattened(values) if isinstance(values.type, LISTS) else values
    if value_type(values.type) not in TEXT:
        return
    is_dictionary = pa.types.is_dictionary(values.type)
    distinct = (values.dictionary if is_dictionary else pc.unique(values)).drop_null()
    odd = pc.any(pc.match_substring_regex(distinct, "[^!-~ ]|  |^ | $")).as_py()
    if not odd and pc.count_distinct(pc.ascii_lower(distinct)).as_py() == len(distinct):
        return  # fast, for 10^6 names
    groups = dict[str, list[str]]()
    for name in distinct.to_pylist():
        groups.setdefault(folded(name), []).append(name)
    alike = [
        # clean names and those in lower case first
        sorted(names, key=lambda name: (name != _cleaned(name), name != name.lower(), name))
        for names in groups.values()
        if len(names) > 1
    ]
    key = column, frozenset(name for names in alike for name in names)
    if not alike or key in _WARNED:
        return
    _WARNED.add(key)
    shown = "; ".join(_listed(names) for names in alike[:_SHOWN])
    more = f"; and {len(alike) - _SHOWN:,} more groups" * (len(alike) > _SHOWN)
    message = f"column {column!r} has values that look alike, and count as different: {shown}{more}"
    advice = ". If they are the same, "
    of_pandas = type(source).__module__.partition(".")[0] == "pandas"
    code = _code(column, alike[:_SHOWN], kind) if of_pandas and kind is not None else ""
    if not code or len(message) + len(advice) + len(code) > _LONGEST:
        code = "correct them where they come from"
    warn(message + advice + code)


def _listed(names: list[str]) -> str:
    print_alike = any(_cleaned(name).split() != name.split() for name in names)
    return ", ".join(map(ascii if print_alike else repr, names))


def _code(column: str, alike: list[list[str]], kind: pa.DataType) -> str:
    """Return the line that gives all names of a group the first one."""
    here = f"df[{column!r}]"
    if isinstance(kind, LISTS):
        same = {name: names[0] for names in alike for name in names[1:]}
        pairs = ", ".join(f"{name!a}: {first!a}" for name, first in same.items())
        value = f"[{{{pairs}}}.get(name, name) for name in names]"
        return f'{here} = {here}.map(lambda names: {value}, na_action="ignore")'
    line = here
    for first, *others in alike:
        line += f".where(~{here}.isin([{', '.join(map(ascii, others))}]), {first!a})"
    if pa.types.is_dictionary(kind):
        odd = ", ".join(ascii(name) for names in alike for name in names[1:])
        line += f".cat.remove_categories([{odd}])"
    return f"{here} = {line}"


def check_classes(rows: Any, column: str, names: pa.Array, single: bool) -> None:
    """Warn about class names of a target that look like a mistake, or reject them.

    Args:
        rows: the columns of the manifest, Arrow arrays by name.
        column: the target column.
        names: its distinct values; the categories if it is a dictionary array.
        single: a row has one class, not a list of them.

    Raises:
        ManifestError: the names are blank, or the text of lists.
    """
    categories = pa.types.is_dictionary(names.type)
    names = names.dictionary.drop_null() if categories else names
    here = f"column {column!r}"
    if names.type not in TEXT:
        if not single and sorted(map(repr, names[:3].to_pylist())) == ["0", "1"]:
            _warn_of_vectors(rows[column], column)
        return
    shown = names.slice(0, 1_000).to_pylist()  # parsed one by one
    if any(_is_list(name) for name in shown[:10] if name[:1] == "["):
        raise ManifestError(
            f"{here} has the text of lists, such as {shown[0]!r}, expected class names or lists. "
            f"Convert it: import ast; df[{column!r}] = df[{column!r}].map(ast.literal_eval)"
        )
    if len(shown) > 1 and all(map(KAGGLE_RUNS.fullmatch, shown[:10])):
        advice = KAGGLE_ADVICE.format(column)
        raise ManifestError(f"{here} has {shown[0]!r}, expected class names. {advice}")
    bare = pc.utf8_trim_whitespace(names)
    blank = names.filter(pc.equal(bare, "")).to_pylist()
    if blank and (number := _count(rows, column, blank)):
        raise ManifestError(
            f"{here} has the blank class {blank[0]!r} in {number:,} rows, expected a name. "
            "Drop these rows or make them missing; if it is a class, give class_names="
        )
    no_values = pa.array(["nan", "<NA>", "NaT"], names.type)  # "None" can be a name
    missing = names.filter(pc.is_in(names, no_values)).to_pylist()
    if missing and (number := _count(rows, column, missing)):
        rows_without = f"df = df[~df[{column!r}].isin({missing})]"
        if not single:
            kept = f"[name for name in names if name not in {missing}]"
            rows_without = f"df[{column!r}] = df[{column!r}].map(lambda names: {kept})"
        warn(
            f"{here} has the class {listed(missing)} in {number:,} rows, the text of missing "
            f"values. Drop them, {rows_without}, or give class_names="
        )
    if single and not categories and len(rows) >= _FEW and len(names) > 0.9 * len(rows):
        warn(
            f"{here} has {len(names):,} classes in {len(rows):,} rows, such as {shown[0]!r}, "
            f"expected several rows of each class. For numbers write df[{column!r}] = "
            f"pd.to_numeric(df[{column!r}]), for texts x=dfgen.Text({column!r}); for such classes "
            "give class_names="
        )
    elif single and (separator := _separator(shown)):
        several = next(name for name in shown if separator in name)
        warn(
            f"{here} has the class {several!r}, which looks like several labels, expected one "
            f'class. For several write y=dfgen.MultiLabel({column!r}, sep="{separator}"), '
            "else give class_names="
        )


def warn_of_infinite(target: Any) -> None:
    """Warn about numbers in a target that make the loss NaN."""
    values = target.values
    if target.feature.kind != "number" or values.dtype.kind != "f":
        return
    finite = np.isfinite(values)
    if not finite.all():
        row, *place = np.argwhere(~finite)[0].tolist()
        column = target.feature.columns[place[0] if place else 0]
        warn(
            f"target {column!r} is {values[(row, *place)]} in row {row}, and infinite in "
            f"{(~finite).sum():,} places: one makes the loss NaN. Drop such rows: "
            f"df = df[np.isfinite(df[{column!r}])]"
        )


def _is_list(name: str) -> bool:
    """Tell whether a name is the text of a list, or its first part, as `sep=` leaves it."""
    try:
        return name[:2] in ("['", '["') or isinstance(literal_eval(name), list)
    except (ValueError, SyntaxError):
        return False


def _count(rows: Any, column: str, names: list[str]) -> int:
    """Count the labels with these names; a category can have no rows."""
    values = rows[column]
    labels = flattened(values) if isinstance(values.type, LISTS) else values
    labels = labels.cast(value_type(labels.type))
    return int(pc.sum(pc.is_in(labels, pa.array(names, labels.type))).as_py() or 0)


def _separator(names: list[str]) -> str | None:
    """Return what separates labels in a text: some parts are names too, or first and not first.

    In "Paris, France" and "animal|cat" each part has its place, so they are names.
    """
    for separator in (",", ";", "|"):
        several = [name.split(separator) for name in names if separator in name]
        first = {parts[0].strip() for parts in several} | {*names}
        others = {part.strip() for parts in several for part in parts[1:]}
        if len(several) >= max(2, 0.2 * len(names)) and 3 * len(first & others) >= len(others):
            return separator
    return None


def _warn_of_vectors(values: Any, column: str) -> None:
    lengths = {*lengths_of(values).tolist()} if isinstance(values.type, LISTS) else {0}
    if len(values) > 1 and len(lengths) == 1 and min(lengths) > 2:
        number = min(lengths)
        warn(
            f"column {column!r} has lists of {number} zeros and ones, expected lists of labels, "
            f"such as [0, 2]. For vectors write y=dfgen.Column({column!r}, np.array, "
            f"shape=({number},)), else give class_names="
        )
