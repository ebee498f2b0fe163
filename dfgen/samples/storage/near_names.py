"""Which name in a folder is meant by one that is not there: another extension, case, padding."""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

_COMPARED = 2_000  # names, letter by letter

_ANNOTATIONS = (".csv", ".json", ".txt", ".xml", ".yaml", ".yml")
"""Suffixes of what often lies beside a file of the same name."""


class LikeName(NamedTuple):
    """A name that is there, for one that is not.

    Args:
        name: that is there.
        what: how it differs, in words.
        source: what changes a column of such names, `{}` stands for it; "": nothing simple does.
        rename: makes the names that are there of others that differ in the same way.
    """

    name: str
    what: str
    source: str
    rename: Callable[[str], str]


def like_name(name: str, names: Iterable[str], sure: bool = False) -> LikeName | None:
    """Return the name that is meant, or None.

    Args:
        name: that is not there.
        names: that are.
        sure: leave out those that merely look like it.

    Example:
        >>> like_name("a.png", ["a.jpg", "b.jpg"]).source
        '{}.str.replace(".png", ".jpg")'
    """
    there = [one for one in names if not one.lower().endswith(_ANNOTATIONS)]
    found = next(filter(None, (_same(name, one) for one in there)), None)
    if found is not None and (found.source or not sure):
        return found
    if sure:
        return None
    similar = near_name(name, there)
    if similar is None:
        return None
    return LikeName(similar, "of nearly that name", "", lambda one: similar)


def near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that looks most like another, which differs in more than its digits."""
    letters = re.sub(r"\d", "", name)
    others = [one for one in names if re.sub(r"\d", "", one) != letters][:_COMPARED]
    folded = next((one for one in others if one.casefold() == name.casefold()), None)
    return folded or next(iter(get_close_matches(name, others, n=1, cutoff=0.7)), None)


def _same(name: str, there: str) -> LikeName | None:
    """Return how a name that is there says the same, or None."""
    return next((one for one in _ways(name, there) if one is not None), None)


def _ways(name: str, there: str) -> Iterator[LikeName | None]:
    (stem, suffix), (other, end) = os.path.splitext(name), os.path.splitext(there)
    if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", there):
        form = "NFC" if unicodedata.is_normalized("NFC", there) else "NFD"
        yield LikeName(
            there,
            "its accents stored otherwise",
            f'{{}}.str.normalize("{form}")',
            lambda one: unicodedata.normalize(form, one),  # type: ignore[arg-type]
        )
    if name == other and end:
        yield _with_extension(there, end, "{}.astype(str)", str)
    if suffix == ".0" and stem == other:
        source = "{}.astype(float).astype(int).astype(str)"
        yield _with_extension(there, end, source, lambda one: os.path.splitext(one)[0])
    if stem == other and suffix and end:
        what = "in another case" if suffix.lower() == end.lower() else "of another extension"
        source = f'{{}}.str.replace("{suffix}", "{end}")'
        yield LikeName(there, what, source, lambda one: one.replace(suffix, end))
    if name.casefold() == there.casefold():
        yield LikeName(there, "in another case", "", lambda one: there)
    if stem.isdigit() and other.isdigit() and int(stem) == int(other) and end:
        if suffix == end:
            yield LikeName(
                there,
                "with leading zeros",
                f"{{}}.str.zfill({len(there)})",
                lambda one: one.zfill(len(there)),
            )
        elif not suffix:
            width = len(other)
            source = f"{{}}.astype(str).str.zfill({width})"
            yield _with_extension(there, end, source, lambda one: one.zfill(width))
    before = there.removesuffix(name)
    if before != there and before and not before[-1].isalnum():
        source = f'"{before}" + {{}}'
        yield LikeName(there, "of a longer name", source, lambda one: before + one)
    if other.endswith(name) and not suffix and end:
        before = other.removesuffix(name)
        if before and not before[-1].isalnum():
            source = f'"{before}" + {{}}.astype(str)'
            yield _with_extension(there, end, source, lambda one: before + one)


def _with_extension(there: str, end: str, source: str, rename: Callable[[str], str]) -> LikeName:
    return LikeName(
        there, "the extension is missing", f'{source} + "{end}"', lambda one: rename(one) + end
    )
