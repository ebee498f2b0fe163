"""Keys of two sides that do not match: counts, examples, the likeliest cause."""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, count, quote, warn

_SHOWN = 3


class JoinSide(NamedTuple):
    """One side of a join: all keys as text, which lack a partner, and words for that."""

    keys: pa.ChunkedArray
    lonely: pa.ChunkedArray
    words: str


def _without(pattern: str, replacement: str = "") -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    return lambda keys: pc.replace_substring_regex(keys, pattern, replacement)


_EXTENSION, _FOLDER = r"\.[A-Za-z][A-Za-z0-9]{0,4}$", r"(?s)^.*[/\\]"
_CAUSES: dict[str, tuple[str, Callable[[pa.ChunkedArray], pa.ChunkedArray]]] = {
    "blanks around keys": ("remove them with .str.strip() in pandas", pc.utf8_trim_whitespace),
    "upper and lower case": ("write both in the same case", pc.utf8_lower),
    "the extension": ("join on stem if keys have none, else on name", _without(_EXTENSION)),
    "the folder": ("join on relpath if keys are whole paths, else on name", _without(_FOLDER)),
    "the folder and the extension": (
        "join on stem if keys have neither, else cut both off",
        _without(f"{_FOLDER}|{_EXTENSION}"),
    ),
    "leading zeros": ("use {field:int} in the pattern", _without(r"^0+([0-9])", r"\1")),
    "whole numbers that became floats": (
        'convert them: .astype(float).astype("int64") in pandas, without missing values',
        _without(r"^([+-]?[0-9]+)\.0+$", r"\1"),
    ),
    "the Unicode form": (
        'write both in NFC: .str.normalize("NFC") in pandas',
        lambda keys: pc.utf8_normalize(keys, form="NFC"),
    ),
}
"""Cause -> advice, and the function that removes it. Of equal causes the first is named."""


def check_partners(unmatched: str, title: str, *sides: JoinSide, paths: bool = False) -> None:
    """Raise, or warn of rows that are dropped, if keys have no partner, as `unmatched` says.

    The error begins with the title. Keys that are `paths` cannot be joined in another way.
    """
    lines = [title]
    for keys, lonely, words in sides if unmatched != "keep" else ():
        number = pc.sum(lonely).as_py() or 0
        if number and unmatched == "drop":
            check = " Check that both belong together." * (number > len(keys) / 2)
            warn(f"Left out {number:,} of {len(keys):,}: {words}.{check}")
        elif number:
            examples = ", ".join(map(quote, keys.filter(lonely)[:_SHOWN].to_pylist()))
            more = ", ..." * (number > _SHOWN)
            lines.append(f"{number:,} of {len(keys):,} {words}: {examples}{more}")
    if len(lines) == 1:
        return
    if cause := _likeliest_cause(*sides):
        name, cured = cause
        advice = "rename the files" if paths else _CAUSES[name][0]
        lines.append(f"Likely cause: {name}, {count(cured, 'key')} would match without: {advice}.")
    lines.append(
        'To build anyway: unmatched="keep" (missing labels, rows with a problem) or "drop" '
        "(--unmatched keep|drop)"
    )
    raise ManifestError("\n".join(lines))


def _likeliest_cause(left: JoinSide, right: JoinSide) -> tuple[str, int] | None:
    """Return the cause without which most keys match, and the number of these keys."""
    best = None
    for name, (_, plain) in _CAUSES.items():
        ours, theirs = plain(left.keys), plain(right.keys)
        cured = max(
            pc.sum(pc.and_(side.lonely, pc.is_in(own, value_set=other))).as_py() or 0
            for side, own, other in ((left, ours, theirs), (right, theirs, ours))
        )
        if cured and (best is None or cured > best[1]):
            best = (name, cured)
    return best
