"""Words for files and labels that do not match: how many, what is nearest, why, what would match.

The message holds as well: the files that a build left out, by how they miss its pattern, and
another column or key. A join that it recommends tells files apart, and says how many it labels.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import count, first, quote
from dfgen.manifest.building.key_causes import CAUSES, Cause, Cure, JoinKeys, likely_cause
from dfgen.table.arrow_types import is_text

COMPARED = 5_000  # keys, letter by letter; of more, none is called the nearest
PATHS_SHOWN = 3
FILES_TRIED = 1_000  # with which other keys are tried
FEW_FILES = 10
"""Files that one row of labels may have before it looks as if they had little in common."""
ROW_NUMBERS = "Unnamed: "
"""How a column begins that has no name in its file, as pandas calls it."""


@dataclass(frozen=True)
class Words:
    """The first sentence of the message, and what follows `3 of 10` on each side; "": nothing.

    `nouns` are what files and labels are called.
    """

    title: str
    files: str
    labels: str
    nouns: tuple[str, str] = ("files", "rows")


def join_fault(
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
            lines += lines_of_nearest(side.unmatched, other.keys, cure)
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
        'To go on anyway: unmatched="keep" (missing labels, rows with a problem) or "drop" '
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
            check = f", most of {total:,}: check that both belong together"
            most = check if number > total / 2 else ""
            notes.append(f"Left out {count(number, noun)} {rest}{most}.")
        elif number:
            notes.append(f"Kept {count(number, noun)} {rest}: {end}.")
    return tuple(notes)


def lines_of_nearest(
    keys: pa.ChunkedArray, known: pa.ChunkedArray, cure: Cure | None
) -> Iterator[str]:
    """Yield a line for each of the first keys, with the nearest of those that are known."""
    for key, near in nearest_keys(first(keys), known, cure).items():
        yield f"  {quote(key)}" + (f", nearest: {quote(near)}" if near else "")


def nearest_keys(
    keys: list[str], known: pa.ChunkedArray, cure: Cure | None = None
) -> dict[str, str | None]:
    """Return the nearest of the known keys for each of a few keys, None where none is near.

    That is what the cause makes equal; of few known keys, else the one that looks most like it.

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
    few = known.drop_null().to_pylist() if len(known) <= COMPARED else []
    for key in (one for one, near in nearest.items() if near is None and len(one) > 2):
        nearest[key] = next(iter(get_close_matches(key, few, 1, cutoff=0.7)), None)
    return nearest


@dataclass(frozen=True)
class FileKeys:
    """All that may be the key of files: fields of the pattern, and what is made of their paths."""

    files: pa.Table  # with `path`
    names: list[str]  # of the keys
    of: Callable[[pa.Table, str], pa.ChunkedArray]  # a key of each of some files, as text
    compared: Callable[[str, pa.ChunkedArray], pa.ChunkedArray]  # those of a name, as a join does

    @cached_property
    def some(self) -> dict[str, pa.ChunkedArray]:
        """The keys of a few files, from all over the table, by name."""
        step = -(-len(self.files) // FILES_TRIED) or 1
        few = self.files.take(pa.array(range(0, len(self.files), step), pa.int64()))
        return {name: self.of(few, name) for name in self.names}

    def told_apart(self, name: str, labels: pa.ChunkedArray) -> str:
        """Return how many files match a column by a key, and a row; nothing if it is no such key.

        One row labels a few files at most; where it labels more than one, most rows have a file.
        """
        keys = self.compared(name, self.of(self.files, name))
        labels = self.compared(name, labels.cast(pa.string()))
        rows = pc.value_counts(keys.filter(pc.is_in(keys, value_set=labels))).field("counts")
        most = pc.max(rows).as_py() or 0
        if not most or most > FEW_FILES or (most > 1 and len(rows) < len(labels) / 2):
            return ""
        each = "one file a row" if most == 1 else f"up to {most} files a row"
        return f"{pc.sum(rows).as_py():,} of {len(keys):,}, {each}"


class NearMiss(NamedTuple):
    """Paths that a pattern does not fit: in what, a regex with its fields, and what to write."""

    what: str
    regex: str
    advice: str


@dataclass(frozen=True)
class LeftOut:
    """Paths that a build left out, by reason; those that its pattern does not fit, and why."""

    skipped: Mapping[str, list[str]]
    misfits: list[str] = dataclasses.field(default_factory=list)
    pattern: str = ""
    near_misses: Sequence[NearMiss] = ()


def lines_of_left_out(left: LeftOut, files: FileKeys, field: str, wanted: JoinKeys) -> list[str]:
    """Return lines on the files left out, and how many of them rows without a file ask for."""
    lines, rows = [], wanted.unmatched
    paths = pa.array(left.misfits, pa.string())
    if len(paths) and len(rows):
        lines.append(f"The pattern {quote(left.pattern)} left out {len(paths):,} files:")
        for what, regex, advice in left.near_misses:
            fields = pc.extract_regex(paths, regex)
            if fields.null_count < len(fields):
                near, found = paths.filter(fields.is_valid()), fields.drop_null()
                number = _asked_for(near, files, field, rows, found)
                asked = f", of which {number:,} are those of rows without a file" if number else ""
                lines.append(f"  {len(near):,} {what}: {_some(near)}{asked}{advice}")
                paths = paths.filter(fields.is_null())
    for reason, names in sorted(left.skipped.items()):
        skipped = pa.array(names, pa.string())
        if number := _asked_for(skipped, files, field, rows):
            lines.append(
                f"{number:,} of the {len(names):,} paths left out as {reason} have such a name: "
                f"{_some(skipped)}"
            )
    return lines


def _some(paths: pa.Array) -> str:
    more = ", ..." * (len(paths) > PATHS_SHOWN)
    return ", ".join(map(quote, paths[:PATHS_SHOWN].to_pylist())) + more


def _asked_for(
    paths: pa.Array,
    files: FileKeys,
    field: str,
    wanted: pa.ChunkedArray,
    fields: pa.Array | None = None,
) -> int:
    """Count the paths that rows ask for by the field of a pattern, the key itself, or the stem.

    Paths that share a key do not count: nothing tells which of them is meant.
    """
    table = pa.table({"path": paths})
    own = [] if fields is None or field not in [one.name for one in fields.type] else [field]
    keys = [pc.struct_field(fields, name) for name in own]
    name = "stem" if own else field if field in ("stem", "relpath") else "name"
    keys += [files.of(table, each) for each in (name, "stem")]
    counts = (pc.value_counts(each.filter(pc.is_in(each, value_set=wanted))) for each in keys)
    return max(pc.sum(pc.equal(each.field("counts"), 1)).as_py() or 0 for each in counts)


def lines_of_other_keys(files: FileKeys, labels: pa.Table, field: str, column: str) -> list[str]:
    """Return lines on what the column that does not match is, and on what would match more."""
    lines = []
    if column.startswith(ROW_NUMBERS):
        lines.append(
            f"The column {quote(column)} holds the row numbers that pandas writes: leave them out "
            "with to_csv(index=False)"
        )
    known = _shares({field: files.some[field]}, labels[column])[field]
    if better := best_pair(files, labels, max(known, 0.5)):
        lines.append(f'on="{"=".join(better[0])}" would match more files: {better[1]}')
    return lines


def best_pair(
    files: FileKeys, labels: pa.Table, more_than: float = 0.5, distinct: float = 1
) -> tuple[tuple[str, str], str] | None:
    """Return field and column of the keys that match the most files, and how many.

    That is a share of the files of `more_than`. Only keys that tell files apart, and are no row
    numbers; a share of `distinct` of the rows have a key of their own.
    """
    found = [
        (share, field, column)
        for column in labels.column_names
        if not column.startswith(ROW_NUMBERS)
        and _can_be_keys(labels[column].type)
        and len(labels)
        and pc.count_distinct(labels[column]).as_py() >= distinct * len(labels)
        for field, share in _shares(files.some, labels[column]).items()
        if share > more_than
    ]
    for _, field, column in sorted(found, key=lambda one: -one[0]):
        if said := files.told_apart(field, labels[column]):
            return (field, column), said
    return None


def _shares(files: Mapping[str, pa.ChunkedArray], labels: pa.ChunkedArray) -> dict[str, float]:
    if not _can_be_keys(labels.type):
        return dict.fromkeys(files, 0)
    labels = labels.cast(pa.string())
    wanted = pa.chunked_array([chunk for keys in files.values() for chunk in keys.chunks])
    there = labels.filter(pc.is_in(labels, value_set=wanted))
    return {
        name: (pc.mean(pc.is_in(keys, value_set=there)).as_py() or 0)
        for name, keys in files.items()
    }


def _can_be_keys(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_integer(kind)
