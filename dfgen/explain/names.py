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


def warn_of_lookalikes(column: str, values: pa.Array | pa.ChunkedArray | Iterable[object]) -> None:
    """Warn once per process about different values of a column that look alike.

    They are equal after NFC, removing blanks and zero-width characters, and case folding.

    Args:
        column: the name of the column.
        values: its values, text, categories or lists of text; or their distinct names.
    """
    groups = dict[str, list[str]]()
    for name in _distinct(values):
        groups.setdefault(folded(name), []).append(name)
    alike = [sorted(names, key=str.swapcase) for names in groups.values() if len(names) > 1]
    key = column, frozenset(name for names in alike for name in names)
    if not alike or key in _WARNED:
        return
    _WARNED.add(key)
    shown = "; ".join(_listed(names) for names in alike[:3])
    more = f"; and {len(alike) - 3:,} more groups" * (len(alike) > 3)
    warn(
        f"column {column!r} has values that look alike, and count as different: {shown}{more}. If "
        "they are the same, write them in one way in the table"
    )


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


def _listed(names: list[str]) -> str:
    print_alike = any(_cleaned(name).split() != name.split() for name in names)
    return ", ".join(map(ascii if print_alike else repr, names))
