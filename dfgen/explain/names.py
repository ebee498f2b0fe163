"""Warns about names that look alike, such as "train" and "Train "."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import warn
from dfgen.table.arrow_types import flattened, in_one, is_list, is_text, value_type

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_SHOWN = 3  # groups of names in a message
_LONGEST = 900  # characters of a message that is not shortened
_WARNED = set[tuple[str, frozenset[str]]]()


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
    kind = values.type if isinstance(values, pa.Array | pa.ChunkedArray) else kind
    groups = dict[str, list[str]]()
    for name in _distinct(values):
        groups.setdefault(folded(name), []).append(name)
    alike = [sorted(names, key=_oddity) for names in groups.values() if len(names) > 1]
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


def _distinct(values: Any) -> list[str]:
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        return [*dict.fromkeys(value for value in values if isinstance(value, str))]
    values = in_one(values.unify_dictionaries() if hasattr(values, "chunks") else values)
    if is_list(values.type):
        values = flattened(values)
    if not is_text(value_type(values.type)):
        return []
    is_dictionary = pa.types.is_dictionary(values.type)
    names = (values.dictionary if is_dictionary else pc.unique(values)).drop_null()
    odd = pc.any(pc.match_substring_regex(names, "[^!-~ ]|  |^ | $")).as_py()
    if not odd and len(pc.unique(pc.ascii_lower(names))) == len(names):  # fast, for 10^6 names
        return []
    return names.to_pylist()  # type: ignore[no-any-return]


def _oddity(name: str) -> tuple[bool, bool, str]:
    return name != _cleaned(name), name != name.lower(), name  # clean, lower-case names first


def _listed(names: list[str]) -> str:
    print_alike = any(_cleaned(name).split() != name.split() for name in names)
    return ", ".join(map(ascii if print_alike else repr, names))


def _code(column: str, alike: list[list[str]], kind: pa.DataType) -> str:
    """Return the line that gives all names of a group the first one."""
    here = f"df[{column!r}]"
    if is_list(kind):
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
