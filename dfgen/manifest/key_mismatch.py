"""The message on files and labels that do not match: how many, nearest names, likely cause."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.key_causes import CAUSES, Cause, Cure, JoinKeys, likely_cause
from dfgen.manifest.nearest_keys import nearest_keys
from dfgen.manifest.schema import count, first, quote


@dataclass(frozen=True)
class Words:
    """What the message says: its first sentence, and what follows `3 of 10` on each side.

    `nouns` are what files and labels are called.
    """

    title: str
    files: str
    labels: str
    nouns: tuple[str, str] = ("files", "rows")


def explain(
    files: JoinKeys,
    labels: JoinKeys,
    words: Words,
    causes: tuple[Cause, ...] = CAUSES,
    more: Sequence[str] = (),
) -> str:
    """Return the message for files without labels and labels without a file.

    `more` are lines on what else may be the cause.
    """
    cure = likely_cause(files, labels, causes)
    lines = [words.title]
    for side, other, what in ((files, labels, words.files), (labels, files, words.labels)):
        lonely = side.unmatched
        if not len(lonely):
            continue
        rest = len(side.keys) - len(lonely)
        lines.append(f"{len(lonely):,} of {len(side.keys):,} {what}, {rest:,} have one:")
        nearest = _nearest(first(lonely), other.keys, cure)
        lines += [
            f"  {quote(key)}" + (f", nearest: {quote(near)}" if near else "")
            for key, near in nearest.items()
        ]
    if cure:
        matched = " and ".join(
            f"{cured:,} of these {noun}"
            for cured, noun in zip((cure.files, cure.labels), words.nouns, strict=True)
            if cured
        )
        lines.append(
            f"Likely cause: {cure.cause.name}; {matched} would match: {cure.cause.advice}."
        )
    lines += more
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


def _nearest(keys: list[str], known: pa.ChunkedArray, cure: Cure | None) -> dict[str, str | None]:
    """Return the nearest of the known keys for each of a few: what the cause makes equal, first."""
    nearest: dict[str, str | None] = dict.fromkeys(keys)
    if cure:
        normalise = cure.cause.normalise
        places = pc.index_in(normalise(pa.chunked_array([keys])), value_set=normalise(known))
        for key, place in zip(keys, places.to_pylist(), strict=True):
            nearest[key] = None if place is None else known[place].as_py()
    missing = [key for key, near in nearest.items() if near is None]
    return nearest | nearest_keys(missing, known)
