"""Patterns such as `{kind}/{shard}/{id:int}.jpg`: parts of a path become columns."""

import re
import string
from dataclasses import dataclass

import pyarrow as pa

from dfgen.errors import ArgumentError, ManifestError, quote
from dfgen.manifest.schema import FACTS, OF_WHOLE_FILES

FROM_PATH = {"name": r"(?s)^.*/", "stem": r"(?s)^.*/|\.[^./]*$", "relpath": r"\A\z"}
"""Key made of a path below the folder -> the parts that are cut off."""
_IGNORED = "_"
_RESERVED = {"path", *FACTS}.difference(OF_WHOLE_FILES)
_HELP = "Example: {kind}/{shard}/{id:int}.jpg. Write doubled braces for braces in a name"


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: its fields in order, and its fields of whole numbers.

    It describes the whole path below the folder. A field matches one or more characters, but no
    `/`. `{_}` makes no column. `regex` is the same for Arrow, with one named group a field.
    """

    text: str
    regex: str
    fields: tuple[str, ...]
    integers: frozenset[str]

    def convert(self, name: str, values: pa.Array) -> pa.Array:
        """Return the values of a field of whole numbers as int64."""
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ManifestError(
                f"{{{name}:int}} of the pattern {quote(self.text)} matched a number that has not "
                f"64 bits: {error}. Write {{{name}}} to keep it as text"
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
        fault = _fault(name, fields, (kind or "") + (f"!{conversion}" if conversion else ""))
        if fault:
            raise ArgumentError(f"pattern={quote(text)} has {fault}. {_HELP}")
        characters = "[0-9]+" if kind else "[^/]+"
        if name == _IGNORED:
            regex += characters
            continue
        fields.append(name)
        if kind:
            integers.add(name)
        regex += f"(?P<{name}>{characters})"
    if not fields:
        raise ArgumentError(
            f"pattern={quote(text)} has no field in braces for a column; it is neither a glob nor "
            f"a regular expression. {_HELP}"
        )
    return Pattern(text, regex + r"\z", tuple(fields), frozenset(integers))


def _fault(name: str, earlier: list[str], kind: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return f"the field {quote(name)}, expected a name of letters, digits and underscores"
    if name in earlier:
        return f"the field {quote(name)} twice: give each part its own name"
    if name in _RESERVED:
        return f"the field {quote(name)}, a column that dfgen fills: choose another name"
    return f"the type {quote(kind)} in {{{name}}}: the only type is int" * (kind not in ("", "int"))
