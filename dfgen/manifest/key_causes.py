"""Ways in which one key is written differently, and which of them explains a mismatch."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import combinations
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.schema import quote

SAMPLE = 4_000  # unmatched keys of each side by which causes are compared
KEYS_TRIED = 50  # of these, for a prefix or suffix
LONGEST_KEY = 100  # characters of a key in which a prefix is looked for


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


def _rewritten(
    pattern: str, rewrite: Callable[[str], str]
) -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    """Return what applies a function to the keys of a pattern."""

    def normalise(keys: pa.ChunkedArray) -> pa.ChunkedArray:
        keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        odd = pc.match_substring_regex(keys, pattern)
        fresh = pa.array(map(rewrite, keys.filter(odd).to_pylist()), keys.type)
        return pa.chunked_array([pc.replace_with_mask(keys, odd, fresh)])

    return normalise


def _digits(key: str) -> str:
    """Return a number in scientific notation with all of its digits, if it is whole."""
    number = Decimal(key)
    return str(int(number)) if number == number.to_integral_value() else key


# They are undone in this order, each leaving the next a key as it expects it. Of those that explain
# equally much the first is named, so narrow ones come before wide ones.
CAUSES = (
    Cause(
        "line ends",
        "remove the line ends from the keys: .str.strip() in pandas",
        _without(r"[\r\n]+$"),
    ),
    Cause(
        "blanks", "remove the blanks around the keys: .str.strip() in pandas",
        pc.utf8_trim_whitespace,
    ),
    Cause(
        'the ="..." of Excel', "save the keys without it, in a column that is text",
        _without(r'^="(.*)"$', r"\1"),
    ),
    Cause("quotes", "remove the quotes from the keys", _without(r"""^["'](.*)["']$""", r"\1")),
    Cause(
        "URL encoding", "decode one side, in Python with urllib.parse.unquote",
        _rewritten("%[0-9A-Fa-f]{2}", unquote),
    ),
    Cause("separator", "write / in the table, no backslash", _without(r"\\", "/")),
    Cause(
        "Unicode form", "write both in NFC: .str.normalize(\"NFC\") in pandas",
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
        '.astype("int64"), or read the column with dtype=str',
        _without(r"^([+-]?[0-9]+)\.0+$", r"\1"),
    ),
    Cause(
        "scientific notation", "save the column as text: digits that are not shown are lost",
        _rewritten(r"^[0-9](\.[0-9]+)?[eE]\+?[0-9]{1,2}$", _digits),
    ),
    Cause(
        "thousands separators", "save the column without them, or pandas.read_csv(thousands=)",
        _rewritten(
            r"^[0-9]{1,3}(?:(,[0-9]{3})+|(\.[0-9]{3})+|([ '\x{2019}\x{A0}\x{202F}][0-9]{3})+)$",
            lambda key: re.sub("[^0-9]", "", key),
        ),
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

    Of many keys a sample is compared, and what explains most of it is counted on all.
    """
    present = [cause for cause in causes if _changes(cause, files) or _changes(cause, labels)]
    some = _partners(files, labels, present)
    both = [_both(*pair) for pair in combinations(present, 2)]
    best = _best([*present, *both], *some)
    best = best and _cured(best.cause, files, labels)
    if best is None or not _all_of_a_side(best, files, labels):
        found = [affix for each in (None, *present) for affix in _affixes(files, labels, each)]
        best = _best(found, files, labels, best)
    return best


def _all_of_a_side(cure: Cure, files: JoinKeys, labels: JoinKeys) -> bool:
    return cure.files == len(files.unmatched) or cure.labels == len(labels.unmatched)


def _best(
    causes: list[Cause], files: JoinKeys, labels: JoinKeys, best: Cure | None = None
) -> Cure | None:
    """Return what cures most, the first of equals."""
    for cause in causes:
        cure = _cured(cause, files, labels)
        if cure.files + cure.labels > (best.files + best.labels if best else 0):
            best = cure
    return best


def _cured(cause: Cause, files: JoinKeys, labels: JoinKeys) -> Cure:
    """Count what matches; several files may share a row of labels, never the reverse."""
    lost, free = labels.unmatched, files.keys
    free = free.filter(pc.invert(pc.is_in(free, value_set=labels.keys)))
    mended = _count_in(cause.normalise(files.unmatched), cause.normalise(labels.keys))
    return Cure(cause, mended, _count_in(cause.normalise(lost), cause.normalise(free)))


def _count_in(keys: pa.ChunkedArray, known: pa.ChunkedArray) -> int:
    return pc.sum(pc.is_in(keys, value_set=known)).as_py() or 0


def _some(keys: pa.ChunkedArray, most: int) -> pa.ChunkedArray:
    """Return keys from all over a column."""
    return keys.take(pa.array(range(0, len(keys), -(-len(keys) // most) or 1), pa.int64()))


def _changes(cause: Cause, side: JoinKeys) -> bool:
    keys = _some(side.unmatched, SAMPLE)
    return bool(pc.any(pc.not_equal(keys, cause.normalise(keys))).as_py())


def _both(first: Cause, then: Cause) -> Cause:
    return Cause(
        f"{first.name}, and {then.name}",
        f"{first.advice}; and {then.advice}",
        lambda keys: then.normalise(first.normalise(keys)),
    )


def _partners(files: JoinKeys, labels: JoinKeys, causes: list[Cause]) -> tuple[JoinKeys, JoinKeys]:
    """Return a sample of the unmatched keys with all that they may match by any of the causes."""
    if max(len(files.keys), len(labels.keys)) <= SAMPLE:
        return files, labels
    plain = [reduce(lambda k, cause: cause.normalise(k), causes, s.keys) for s in (files, labels)]
    lonely = [
        _some(keys.filter(side.lonely), SAMPLE)
        for keys, side in zip(plain, (files, labels), strict=True)
    ]
    wanted = pa.chunked_array([chunk for keys in lonely for chunk in keys.chunks])
    kept = [pc.is_in(keys, value_set=wanted) for keys in plain]
    fewer = [
        JoinKeys(side.keys.filter(keep), side.lonely.filter(keep))
        for side, keep in zip((files, labels), kept, strict=True)
    ]
    return fewer[0], fewer[1]


def _affixes(files: JoinKeys, labels: JoinKeys, before: Cause | None) -> Iterator[Cause]:
    """Yield the prefix and suffix that the keys of one side have more, where most have them."""
    plain = before.normalise if before else lambda keys: keys
    lost, lonely = plain(files.unmatched), plain(labels.unmatched)
    if not (len(lost) and len(lonely)):
        return
    for longer, shorter, advice in (
        (lost, lonely, "let the pattern hold it, as in {}{{id}}{}"),
        (lonely, lost, "cut it off in the table: .str.removeprefix({}).str.removesuffix({})"),
    ):
        found = _common_affix(_some(longer, KEYS_TRIED).to_pylist(), shorter)
        if found is None:
            continue
        prefix, suffix = found
        parts = " and ".join(
            f"the {what} {quote(part)}"
            for what, part in (("prefix", prefix), ("suffix", suffix))
            if part
        )
        shown = (quote(prefix), quote(suffix)) if longer is lonely else found
        pattern = rf"(?s)^{re.escape(prefix)}(.+){re.escape(suffix)}$"
        cause = Cause(parts, advice.format(*shown), _without(pattern, r"\1"))
        yield _both(before, cause) if before else cause


def _common_affix(keys: list[str], known: pa.ChunkedArray) -> tuple[str, str] | None:
    """Return what most of a few keys have before and after one that is known."""
    cuts = [
        (key[start:end], key[:start], key[end:])
        for key in keys
        if len(key) <= LONGEST_KEY
        for start in range(len(key))
        for end in range(start + 1, len(key) + 1)
        if _parts_at(key, start) and _parts_at(key, end)
    ]
    if not cuts:
        return None
    there = pc.is_in(pa.array([cut[0] for cut in cuts], known.type), value_set=known).to_pylist()
    votes = Counter(cut[1:] for cut, is_key in zip(cuts, there, strict=True) if is_key)
    [(affix, number)] = votes.most_common(1) or [(("", ""), 0)]
    return affix if number >= max(2, len(keys) / 2) and any(affix) else None


def _parts_at(key: str, place: int) -> bool:
    """Whether a key may be cut there: not within a word, nor within a number."""
    if place in (0, len(key)):
        return True
    kinds = [(char.isdigit(), char.isalpha()) for char in key[place - 1 : place + 1]]
    return kinds[0] != kinds[1] or kinds[0] == (False, False)
