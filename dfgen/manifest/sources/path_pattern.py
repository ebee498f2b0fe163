"""Patterns such as `{kind}/{shard}/{id:int}.jpg`: parts of a path become columns."""

import re
import string
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, quote
from dfgen.manifest.schema import FACTS, OF_WHOLE_FILES

FROM_PATH = {"name": r"(?s)^.*/", "stem": r"(?s)^.*/|\.[^./]*$", "relpath": r"\A\z"}
"""Key made of a path below the folder -> what is cut off from it."""
IGNORED = "_"
_RESERVED = {"path", *FACTS}.difference(OF_WHOLE_FILES)
_HELP = "Example: {kind}/{shard}/{id:int}.jpg. Write doubled braces for braces in a name"


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: the names of its fields in order, and those that are whole numbers.

    It stands for the whole path below the folder; a field for one or more characters, never for a
    `/`; `{_}` makes no column. Where two fields meet in one name, the first takes as much as it
    can. `regex` is the same for Arrow, with one named group a field.
    """

    text: str
    regex: str
    fields: tuple[str, ...]
    integers: frozenset[str]

    def extract(self, paths: pa.Array) -> pa.StructArray:
        """Return the fields of each path as text; null where the pattern does not fit."""
        return pc.extract_regex(paths, self.regex)

    def convert(self, name: str, values: pa.Array) -> pa.Array:
        """Return the values of a field of whole numbers as int64."""
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ManifestError(
                f"{{{name}:int}} of the pattern {quote(self.text)} met something that is not a "
                f"64-bit whole number: {error}. Write {{{name}}} to keep it as text"
            ) from None


def parse_pattern(text: str) -> Pattern:
    """Parse a pattern."""
    regex = r"\A"
    fields: list[str] = []
    integers: set[str] = set()
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ArgumentError(f"pattern={quote(text)}: {error}. {_HELP}") from None
    for literal, name, kind, conversion in parts:
        regex += re.escape(literal)
        if name is None:
            continue
        _check_field(text, name, fields, (kind or "") + (f"!{conversion}" if conversion else ""))
        characters = "[0-9]+" if kind else "[^/]+"
        if name == IGNORED:
            regex += characters
            continue
        fields.append(name)
        if kind:
            integers.add(name)
        regex += f"(?P<{name}>{characters})"
    if not fields:
        other = re.search(r"[*?<(\\\[]", text) is not None
        what = ": it is no glob and no regular expression" if other else ""
        raise ArgumentError(
            f"pattern={quote(text)} has no field in braces for a column{what}. {_HELP}"
        )
    return Pattern(text, regex + r"\z", tuple(fields), frozenset(integers))


def _check_field(text: str, name: str, earlier: list[str], kind: str) -> None:
    fault = ""
    if not name:
        fault = "has a part without a name: {}. Name it, or write {_} for what makes no column"
    elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        fault = f"has the field {quote(name)}: names are letters, digits and underscores"
    elif name in earlier:
        fault = f"has the field {quote(name)} twice: give each part a name of its own"
    elif name in _RESERVED:
        fault = f"has the field {quote(name)}, a column that dfgen fills: choose another name"
    elif kind not in ("", "int"):
        fault = f"has the type {quote(kind)} in {{{name}}}: the only type is int"
    if fault:
        raise ArgumentError(f"pattern={quote(text)} {fault}. {_HELP}")
