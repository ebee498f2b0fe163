"""The message on files and labels that do not match: how many, nearest names, likely cause."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.key_causes import CAUSES, Cause, Cure, JoinKeys, likely_cause
from dfgen.manifest.schema import count, first, quote

COMPARED = 1_000  # keys, letter by letter
CHARACTERS = 4_000  # keys whose characters a key is tried with


@dataclass(frozen=True)
class Words:
    """The message: its first sentence, and what follows `3 of 10` on each side.

    `nouns` are what files and labels are called. A side without words is not told.
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
        lonely = len(side.unmatched)
        if lonely and what:
            rest = len(side.keys) - lonely
            lines.append(f"{lonely:,} of {len(side.keys):,} {what}, {rest:,} have one:")
            nearest = nearest_keys(first(side.unmatched), other.keys, cure)
            lines += [
                f"  {quote(key)}" + (f", nearest: {quote(near)}" if near else "")
                for key, near in nearest.items()
            ]
    if cure:
        told = zip((cure.files, cure.labels), words.nouns, (words.files, words.labels), strict=True)
        matched = " and ".join(
            f"{cured:,} of these {noun}" for cured, noun, what in told if cured and what
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


class Lonely(NamedTuple):
    """How many of how many have no partner, what they are called, and the rest of a sentence."""

    number: int
    total: int
    noun: str
    rest: str


def what_became(unmatched: str, *sides: Lonely) -> tuple[str, ...]:
    """Return notes on files without labels, and on labels without a file, in this order."""
    ends = ("labels are missing there", "the column problem says so")
    notes = []
    for (number, total, noun, rest), end in zip(sides, ends, strict=True):
        if number and unmatched == "drop":
            most = (
                f", most of {total:,}: check that both belong together."
                if number > total / 2
                else "."
            )
            notes.append(f"Left out {count(number, noun)} {rest}{most}")
        elif number:
            notes.append(f"Kept {count(number, noun)} {rest}: {end}.")
    return tuple(notes)


def nearest_keys(
    keys: list[str], known: pa.ChunkedArray, cure: Cure | None = None
) -> dict[str, str | None]:
    """Return the nearest of the known keys for each of a few keys, None where none is near.

    That is what the cause makes equal, else a key with one character added, left out or changed,
    one as long first; of few known keys, else the one that looks most like it.

    Example:
        >>> nearest_keys(["pets_1"], pa.chunked_array([["pet_10", "pet_1", "dog_1"]]))
        {'pets_1': 'pet_1'}
    """
    nearest: dict[str, str | None] = dict.fromkeys(keys)
    if cure:
        form_of = cure.cause.normalise
        forms = form_of(pa.chunked_array([keys]))
        same = known.filter(pc.is_in(form_of(known), value_set=forms))[::-1]  # the first wins
        by_form = dict(zip(form_of(same).to_pylist(), same.to_pylist(), strict=True))
        nearest = dict(zip(keys, map(by_form.get, forms.to_pylist()), strict=True))
    known = known.drop_null()
    letters = {"", *"".join(known[:CHARACTERS].to_pylist())}
    edits = {key: _edits(key, letters) for key in keys if nearest[key] is None and len(key) > 2}
    wanted = pa.array({*()}.union(*edits.values()), known.type)
    there = known.filter(pc.is_in(known, value_set=wanted)).to_pylist()
    few = known.to_pylist() if len(known) <= COMPARED else []
    for key, near in edits.items():
        found = sorted((name for name in there if name in near), key=lambda n: len(n) != len(key))
        nearest[key] = next(iter(found or get_close_matches(key, few, 1, cutoff=0.7)), None)
    return nearest


def _edits(key: str, letters: set[str]) -> set[str]:
    """Return the keys with one character added, left out or changed, `""` being among letters."""
    return {
        key[:place] + letter + key[place + cut :]
        for place in range(len(key) + 1)
        for letter in letters
        for cut in (0, 1)
    }
