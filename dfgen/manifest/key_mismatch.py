"""Why files and labels do not match: nearest names, and the likely cause."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.schema import count, first, quote

NEIGHBOURS = 50


@dataclass(frozen=True)
class JoinKeys:
    """All keys of one side of a join, and which of them have no partner."""

    keys: pa.ChunkedArray
    lonely: pa.ChunkedArray

    @property
    def unmatched(self) -> pa.ChunkedArray:
        """The keys without a partner."""
        return self.keys.filter(self.lonely)


@dataclass(frozen=True)
class Words:
    """What the message says: its first sentence, and what follows `3 of 10` on each side."""

    title: str
    files: str
    labels: str


@dataclass(frozen=True)
class Cause:
    """A way in which keys often differ: they agree once it is taken away."""

    name: str
    advice: str
    normalise: Callable[[pa.ChunkedArray], pa.ChunkedArray]


def _without(pattern: str, replacement: str = "") -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    return lambda keys: pc.replace_substring_regex(keys, pattern, replacement)


# The first that explains most is named, so narrow ones come first.
CAUSES = (
    Cause("separator", "write / in the table, no backslash", _without(r"\\", "/")),
    Cause("case", "write both in the same case", pc.utf8_lower),
    Cause("blanks", "remove the blanks around the keys", pc.utf8_trim_whitespace),
    Cause(
        "leading zeros",
        "write them on both sides, or use {field:int} in the pattern",
        _without(r"^0+([0-9])", r"\1"),
    ),
    Cause("Unicode form", "write both in NFC", lambda keys: pc.utf8_normalize(keys, form="NFC")),
    Cause(
        "extension",
        "join on stem where the table has none, on name where it has one",
        _without(r"\.[A-Za-z0-9]{1,5}$"),
    ),
    Cause(
        "directory",
        "join on relpath where the table has folders, on name where it has none",
        _without(r"(?s)^.*[/\\]"),
    ),
)


def explain(
    files: JoinKeys, labels: JoinKeys, words: Words, causes: tuple[Cause, ...] = CAUSES
) -> str:
    """Return the message for files without labels and labels without a file."""
    cause, cured = _likely_cause(files, labels, causes)
    lines = [words.title]
    for side, other, what in ((files, labels, words.files), (labels, files, words.labels)):
        lonely = side.unmatched
        if not len(lonely):
            continue
        lines.append(f"{len(lonely)} of {len(side.keys)} {what}:")
        nearest = _nearest(first(lonely), other.keys, cause)
        lines += [
            f"  {quote(key)}" + (f", nearest: {quote(near)}" if near else "")
            for key, near in nearest.items()
        ]
    if cause:
        lines.append(f"Likely cause: {cause.name}; {cured} would match: {cause.advice}.")
    lines.append(
        'Or go on with unmatched="keep" (missing labels, rows with a problem) or "drop" '
        "(--unmatched keep|drop)"
    )
    return "\n".join(lines)


def what_became(
    unmatched: str, files: tuple[int, str, str], labels: tuple[int, str, str]
) -> tuple[str, ...]:
    """Return notes on files without labels and labels without a file (number, noun, the rest)."""
    said = ((files, "labels are missing there"), (labels, "the column problem says so"))
    notes = {f"{count(number, noun)} {rest}": end for (number, noun, rest), end in said if number}
    if unmatched == "drop":
        return tuple(f"Left out {what}." for what in notes)
    return tuple(f"Kept {what}: {end}." for what, end in notes.items())


def _likely_cause(
    files: JoinKeys, labels: JoinKeys, causes: tuple[Cause, ...]
) -> tuple[Cause | None, int]:
    """Return the cause that would mend most keys, and how many files and rows those are."""
    best: tuple[Cause | None, int] = (None, 0)
    for cause in causes:
        cured = 0
        for side, other in ((files, labels), (labels, files)):
            mended = pc.is_in(
                cause.normalise(side.unmatched), value_set=cause.normalise(other.keys)
            )
            cured += pc.sum(mended).as_py() or 0
        if cured > best[1]:
            best = (cause, cured)
    return best


def _nearest(keys: list[str], known: pa.ChunkedArray, cause: Cause | None) -> dict[str, str | None]:
    """Return the nearest of the known keys for each of a few keys."""
    nearest: dict[str, str | None] = dict.fromkeys(keys)
    if cause:
        places = pc.index_in(
            cause.normalise(pa.chunked_array([keys])), value_set=cause.normalise(known)
        )
        for key, place in zip(keys, places.to_pylist(), strict=True):
            nearest[key] = None if place is None else known[place].as_py()
    missing = [key for key, near in nearest.items() if near is None]
    if missing:
        names = sorted(known.to_pylist())
        backwards = sorted(name[::-1] for name in names)
        for key in missing:
            candidates = _around(names, key)
            candidates += [name[::-1] for name in _around(backwards, key[::-1])]
            close = get_close_matches(key, dict.fromkeys(candidates), n=1)
            nearest[key] = close[0] if close else None
    return nearest


def _around(names: list[str], key: str) -> list[str]:
    """Return the neighbours of a key in the alphabet: what begins like it stands there."""
    place = bisect_left(names, key)
    return names[max(0, place - NEIGHBOURS) : place + NEIGHBOURS]
