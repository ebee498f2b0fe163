"""Ways in which one key is written differently, and which of them explains a mismatch."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import quote

SAMPLE = 50_000  # keys of each side by which causes are compared
KEYS_TRIED = 50  # of these, for a prefix or suffix
LONGEST_KEY = 100  # characters of a key in which a prefix is looked for

_PARTS = re.compile(r"[^\W\d_]+|\d+|[\W_]")  # words, numbers, and each other character


@dataclass(frozen=True)
class JoinKeys:
    """All keys of one side of a join, and which of them have no partner."""

    keys: pa.ChunkedArray
    lonely: pa.ChunkedArray

    @cached_property
    def unmatched(self) -> pa.ChunkedArray:
        """The keys without a partner."""
        return self.keys.filter(self.lonely)

    def sample(self) -> "JoinKeys":
        """Return some of the keys without a partner, and of the others, at random."""
        lonely = self.lonely.to_numpy()
        alone = int(np.count_nonzero(lonely))
        most = np.where(lonely, SAMPLE / max(1, alone), SAMPLE / max(1, len(lonely) - alone))
        if most.min(initial=1) >= 1:
            return self
        kept = pa.array(np.random.default_rng(0).random(len(lonely)) < most)
        return JoinKeys(self.keys.filter(kept), self.lonely.filter(kept))


@dataclass(frozen=True)
class Cause:
    """A way in which keys often differ: they agree once it is taken away."""

    name: str
    advice: str
    normalise: Callable[[pa.ChunkedArray], pa.ChunkedArray]


@dataclass(frozen=True)
class Cure:
    """The likely cause, and how many unmatched files and labels match without it."""

    cause: Cause
    files: int
    labels: int


def _without(pattern: str, replacement: str = "") -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    return lambda keys: pc.replace_substring_regex(keys, pattern, replacement)


# Two are undone in this order, the first leaving the other a key as it expects it. Of those that
# explain equally much the first is named, so narrow ones come before wide ones.
CAUSES = (
    Cause(
        "blanks or line ends", "remove them around the keys: .str.strip() in pandas",
        pc.utf8_trim_whitespace,
    ),
    Cause(
        'quotes, or the ="..." of Excel',
        "remove the quotes, .str.strip(\"='\\\"\") in pandas, in a column that is text",
        _without(r"""^=?["'](.*)["']$""", r"\1"),
    ),
    Cause("separator", "write / in the table, no backslash", _without(r"\\", "/")),
    Cause(
        "Unicode form", 'write both in NFC: .str.normalize("NFC") in pandas',
        lambda keys: pc.utf8_normalize(keys, form="NFC"),
    ),
    Cause("case", "write both in the same case", pc.utf8_lower),
    Cause("blank, - and _", "write the same one on both sides", _without("[ _-]+", "_")),
    Cause(
        "directory",
        "join on relpath where the table's paths start at the folder given, on name where they "
        "have no folder; cut off what stands before",
        _without(r"(?s)^.*[/\\]"),
    ),
    Cause(
        "extension",
        "join on stem where the table has none, on name where it has the same one; else cut it "
        "off in the table",
        _without(r"\.[A-Za-z][A-Za-z0-9]{0,4}$"),
    ),
    Cause(
        "whole numbers as floats",
        "a column with a missing value becomes float in pandas: drop such rows, then "
        '.astype(float).astype("int64")',
        _without(r"^([+-]?[0-9]+)\.0+$", r"\1"),
    ),
    Cause(
        "leading zeros",
        "write them on both sides, or use {field:int} in the pattern",
        _without(r"^0+([0-9])", r"\1"),
    ),
)  # fmt: skip


def likely_cause(
    files: JoinKeys, labels: JoinKeys, causes: tuple[Cause, ...] = CAUSES
) -> Cure | None:
    """Return the cause, two of them, or a prefix or suffix, that would match most keys.

    A sample of many keys is compared, and what explains most of it is counted on all.
    """
    some = files.sample(), labels.sample()
    found = [cause for cause in causes if any(_changes(cause, side) for side in some)]
    found += [_both(*pair) for pair in combinations(found, 2)]
    found += [*_affixes(files, labels)]
    cures = [_cured(cause, *some) for cause in found]
    for cure in sorted(cures, key=lambda cure: -cure.files - cure.labels):
        counted = _cured(cure.cause, files, labels) if cure.files else cure
        if counted.files:
            return counted
    return None


def _cured(cause: Cause, files: JoinKeys, labels: JoinKeys) -> Cure:
    """Count the files and labels without a partner that match; keys that become one do not."""
    lost, free = (_told_apart(cause, side) for side in (files, labels))
    return Cure(cause, _count_in(lost, free), _count_in(free, lost))


def _told_apart(cause: Cause, side: JoinKeys) -> pa.ChunkedArray:
    """Return what becomes of the keys without a partner, but those that become another key too."""
    made = pc.value_counts(cause.normalise(pc.unique(side.keys)))
    several = made.filter(pc.greater(made.field("counts"), 1)).field("values")
    lost = cause.normalise(side.unmatched)
    return lost.filter(pc.invert(pc.is_in(lost, value_set=several)))


def _count_in(keys: pa.ChunkedArray, known: pa.ChunkedArray) -> int:
    return pc.sum(pc.is_in(keys, value_set=known)).as_py() or 0


def _changes(cause: Cause, side: JoinKeys) -> bool:
    keys = side.unmatched
    return bool(pc.any(pc.not_equal(keys, cause.normalise(keys))).as_py())


def _both(first: Cause, then: Cause) -> Cause:
    return Cause(
        f"{first.name}, and {then.name}",
        f"{first.advice}; and {then.advice}",
        lambda keys: then.normalise(first.normalise(keys)),
    )


def _affixes(files: JoinKeys, labels: JoinKeys) -> Iterator[Cause]:
    """Yield the prefix and suffix that the keys of one side have more, where most have them."""
    lost, lonely = files.unmatched, labels.unmatched
    for longer, shorter in ((lost, lonely), (lonely, lost)):
        prefix, suffix = _common_affix(longer[:: -(-len(longer) // KEYS_TRIED) or 1], shorter)
        if not (prefix or suffix):
            continue
        ends = {"prefix": prefix, "suffix": suffix}
        name = " and ".join(f"the {what} {quote(end)}" for what, end in ends.items() if end)
        cuts = "".join(f".str.remove{what}({quote(end)})" for what, end in ends.items() if end)
        pattern = rf"(?s)^{re.escape(prefix)}(.+){re.escape(suffix)}$"
        advice = f"let the pattern hold it, as in {prefix}{{id}}{suffix}"
        if pc.any(pc.match_substring(shorter, "/")).as_py():  # which no field holds
            parts = [quote(prefix)] * bool(prefix) + ["keys"] + [quote(suffix)] * bool(suffix)
            advice = f"put it to the keys of the table: {' + '.join(parts)}"
        if longer is lonely:
            advice = f"cut it off in the table: {cuts}"
        yield Cause(name, advice, _without(pattern, r"\1"))


def _common_affix(keys: pa.ChunkedArray, known: pa.ChunkedArray) -> tuple[str, str]:
    """Return what most of a few keys have before and after one that is known."""
    cuts = [
        (key[start:end], (key[:start], key[end:]))
        for key in keys.to_pylist()
        if len(key) <= LONGEST_KEY
        for start, end in combinations([*(m.start() for m in _PARTS.finditer(key)), len(key)], 2)
    ]
    wanted = pa.array([middle for middle, _ in cuts], known.type)
    there = {*known.filter(pc.is_in(known, value_set=wanted)).to_pylist()}
    votes = Counter(affix for middle, affix in cuts if middle in there)
    [(best, number)] = votes.most_common(1) or [(("", ""), 0)]
    return best if number >= max(2, len(keys) / 2) else ("", "")
