"""Finds what is near a path without a file: which mistake it may be, and what to write.

It is asked once a program is about to end with an error, never while files are read.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import unquote

from dfgen.errors import ArgumentError, DfgenError, MissingFileError
from dfgen.samples.stores.archives.archive_paths import Member, member_of
from dfgen.samples.stores.archives.members import Archives

_NAMES = 5_000  # that are compared
_SHOWN = 3


def near_member(member: Member) -> str:
    """Return what an archive has instead of a member: of the same name, in its folder, anywhere."""
    try:
        names = [*dict.fromkeys(Archives().contents(member).names)]
    except (DfgenError, OSError) as error:
        return str(error)
    folder, _, last = member.name.rpartition("/")
    alike = [name for name in names if name.rpartition("/")[2] == last]
    beside = [name for name in names if name.rpartition("/")[0] == folder]
    found = alike[:_SHOWN] or get_close_matches(
        member.name, (beside or names)[:_NAMES], n=_SHOWN, cutoff=0.0
    )
    return f"the archive has {', '.join(map(repr, found)) or 'no members'}" + ", ..." * (
        len(names) > len(found)
    )


_NAMES = 5_000  # of a folder that are looked at
_CHILDREN = 50  # of its folders
_FOLDERS = 100  # that are looked into for a file

_ADDRESS = re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"^[A-Za-z]:(?=/)")
_ANNOTATIONS = (".csv", ".json", ".txt", ".xml", ".yaml", ".yml")  # often beside a file of the name

Change = Callable[[str], str]


@dataclass(frozen=True)
class Begin:
    """The folder where the relative paths of a column begin.

    Args:
        column: its name.
        root: the folder; None: the working folder.
        of: the function that takes another root, where a manifest names this one.
    """

    column: str
    root: str | None = None
    of: str = ""

    def at(self, path: str) -> str:
        """Return where a path is looked for."""
        return os.path.abspath(os.path.join(self.root or "", path))

    def change(self, source: str) -> str:
        """Return what changes the paths of the frame; `{}` stands for them."""
        here = f'df["{self.column}"]'
        return f"write {here} = {source.replace('{}', here)}"

    def rooted(self, folder: str) -> str:
        """Return how to have paths begin in another folder."""
        below = os.path.relpath(folder)
        if below == "." and not self.of:
            return "leave root= out"
        shown = folder if below.startswith("..") else below
        return f'give {f"{self.of} " if self.of else ""}root="{shown}"'


class Near(NamedTuple):
    """The files and folders near a path.

    Args:
        what: in words, what is there, or which mistake it is.
        steps: what to write, if all paths have that fault; "": nothing simple.
        place: returns where other paths would be found, if they have the same fault.
    """

    what: str
    steps: str
    place: Change

    @property
    def advice(self) -> str:
        """Both as one text."""
        return f"{self.what}: {self.steps}" if self.steps else self.what


class _Rewrite(NamedTuple):
    """A fault of a whole path.

    Args:
        what: in words; `sure` ones are told even where the mended path has other faults.
        source: what mends a column of paths, `{}` stands for it.
        mended: does it.
        sure: whether no path is right that has it.
    """

    what: str
    source: str
    mended: Change
    sure: bool = False


_REWRITES = (
    _Rewrite(
        '"file://" is no part of a path',
        '{}.str.removeprefix("file://")',
        lambda path: path.removeprefix("file://"),
        sure=True,
    ),
    _Rewrite('"~" is not expanded', "{}.map(os.path.expanduser)", os.path.expanduser, sure=True),
    _Rewrite('"$" is not expanded', "{}.map(os.path.expandvars)", os.path.expandvars, sure=True),
    _Rewrite("it has blanks or a line end around it", "{}.str.strip()", str.strip),
    _Rewrite("it has %20 or the like in it", "{}.map(urllib.parse.unquote)", unquote),
    *(
        _Rewrite(
            "its accents are stored otherwise",
            f'{{}}.str.normalize("{form}")',
            partial(unicodedata.normalize, form),
        )
        for form in ("NFC", "NFD")
    ),
    _Rewrite(
        "backslashes part no folders here",
        r'{}.str.replace("\\", "/")',
        lambda path: path.replace("\\", "/") if os.sep == "/" else path,
        sure=True,
    ),
)


def near(path: str, begin: Begin, alone: bool = False) -> Near | None:
    """Return what is near a path of a table at which there is no file, or None.

    Args:
        path: as the table has it.
        begin: where it begins.
        alone: whether other files of the table are there, so that no other folder is meant.

    Example:
        >>> near("gs://bucket/a.jpg", Begin("path")).what
        '"gs://" begins an address, which no store reads'
    """
    if member := _member(path):
        if os.path.exists(member.archive):
            return Near(near_member(member), "", begin.at)
        return near(member.archive, begin, alone=True)
    if address := _ADDRESS.match(path):
        return Near(
            f'"{address[0]}" begins an address, which no store reads',
            "copy the files to a disk, or mount the store as a folder, and give paths",
            begin.at,
        )
    return (
        _rewritten(path, begin, alone)
        or _named_otherwise(path, begin, [begin.at("")])
        or (None if alone else _elsewhere(path, begin))
        or (None if alone else _named_otherwise(path, begin, chain(*_around(begin))))
    )


def near_missing(files: Iterable[tuple[str, str]]) -> str:
    """Return what is near the first of some files, by column and path, that is not there, or ""."""
    for column, path in files:
        if _is_missing(path):
            found = near(path, Begin(column), alone=True)
            return "" if found is None else found.what
    return ""


def _member(path: str) -> Member | None:
    try:
        return member_of(path)
    except ArgumentError:
        return None


def _is_missing(path: str) -> bool:
    if _member(path) is None:
        return not _ADDRESS.match(path) and not os.path.exists(path)
    try:
        return Archives().head(path) is None
    except MissingFileError:
        return True
    except DfgenError:
        return False


def around(path: str, begin: Begin) -> str:
    """Return what there is where a path ends to be one, the most like it first."""
    folder, part = os.path.split(begin.at(path))
    while folder != os.path.dirname(folder) and not os.path.exists(folder):
        folder, part = os.path.split(folder)
    names = get_close_matches(part, _names(folder), n=3, cutoff=0.0)
    holds = f"holds {', '.join(map(repr, names))}" if names else "is empty"
    lacks = "" if part == os.path.basename(path) else f"there is no folder {part!r} in it, it "
    return f"The folder {folder!r}: {lacks}{holds}" + (", ..." if len(names) == 3 else "")


def _rewritten(path: str, begin: Begin, alone: bool) -> Near | None:
    for rewrite in _REWRITES:
        other = rewrite.mended(path)
        there = other != path and os.path.exists(begin.at(other))
        if there or (other != path and rewrite.sure):
            then = None if there else near(other, begin, alone)
            steps = begin.change(rewrite.source) + (f". Then {then.advice}" if then else "")
            place = then.place if then else begin.at
            return Near(rewrite.what, steps, _after(rewrite.mended, place))
    return None


def _after(mended: Change, place: Change) -> Change:
    return lambda path: place(mended(path))


def _elsewhere(path: str, begin: Begin) -> Near | None:
    """Find the end of a path, as long as can be, in a folder around where it should begin."""
    parts = [part for part in _DRIVE.sub("", path).split("/") if part not in ("", ".")]
    cuts = range(1 if begin.of else len(parts))  # those of a manifest are absolute in its frame
    for folders in _around(begin):
        held = {folder: set(_names(folder)) for folder in folders}
        for cut in cuts:
            end = "/".join(parts[cut:])
            for folder, names in held.items():
                there = os.path.join(folder, end)
                if parts[cut] in names and there != begin.at(path) and os.path.exists(there):
                    return _moved(path, end, folder, begin)
    return None


def _moved(path: str, end: str, folder: str, begin: Begin) -> Near:
    before = path.removesuffix(end)
    steps = [begin.change(f'{{}}.str.removeprefix("{before}")')] if before else []
    if folder != begin.at(""):
        steps.append(begin.rooted(folder))
    return Near(
        f"{end!r} is in {folder!r}",
        ", and ".join(steps),
        lambda one: os.path.join(folder, one.removeprefix(before)),
    )


def _named_otherwise(path: str, begin: Begin, folders: Iterable[str]) -> Near | None:
    """Find a file of another extension, case or padding, below the first folder that has it."""
    for folder in folders:
        where = os.path.dirname(os.path.join(folder, path))
        found = next(filter(None, (_likeness(path, there) for there in _names(where))), None)
        if found is not None:
            steps = [begin.change(found.source)] if found.source else []
            if folder != begin.at(""):
                steps.append(begin.rooted(folder))
            place = _after(found.mended, partial(os.path.join, folder))
            return Near(f"{found.what} in {where!r}", ", and ".join(steps), place)
    return None


def _likeness(path: str, there: str) -> _Rewrite | None:
    """Return what makes the name of a path one that is there, or None."""
    above, name = os.path.split(path)
    (stem, suffix), (other, end) = os.path.splitext(name), os.path.splitext(there)
    if end.lower() in _ANNOTATIONS:
        return None
    if stem == other and suffix and end and suffix != ".0":
        source = f'{{}}.str.replace("{suffix}", "{end}")'
        differs = "in another case" if suffix.lower() == end.lower() else "of another extension"
        return _Rewrite(f"{there!r}, {differs}, is", source, lambda one: one.replace(suffix, end))
    if name.casefold() == there.casefold():
        return _Rewrite(f"{there!r}, in another case, is", "", str)
    number, to_text = name, ".astype(str)"
    if suffix == ".0":
        number, to_text = stem, ".astype(float).astype(int).astype(str)"
    width = 0
    if number != other and not above and number.isdecimal() and other.isdecimal():
        width = len(other) * (int(number) == int(other))
    if not end or number.zfill(width) != other:
        return None
    zeros = f".str.zfill({width})" if width else ""
    return _Rewrite(
        f"{there!r} is",
        f'{{}}{to_text}{zeros} + "{end}"',
        lambda one: one.removesuffix(".0").zfill(width) + end,
    )


def _names(folder: str) -> list[str]:
    """Return what is in a folder, but hidden files; nothing where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in islice(entries, _NAMES))
            return sorted(name for name in names if not name.startswith("."))
    except (OSError, ValueError):
        return []


def _around(begin: Begin) -> Iterator[list[str]]:
    """Yield the folders around where paths begin: above a root and below first, then beside."""
    start, cwd = begin.at(""), os.getcwd()
    above = [] if begin.root is None else [os.path.dirname(start)]
    yield _folders_below([start, cwd, *above], 3)
    yield _folders_below([os.path.dirname(cwd)], 2)


def _folders_below(folders: list[str], depth: int) -> list[str]:
    """Return folders and those in them so deep, the nearest first."""
    found: dict[str, None] = {}
    for _ in range(depth + 1):
        folders = [folder for folder in folders if folder not in found][: _FOLDERS - len(found)]
        found.update(dict.fromkeys(folders))
        folders = [
            os.path.join(folder, name)
            for folder in folders
            for name in [name for name in _names(folder) if "." not in name][:_CHILDREN]
        ]
    return [*found]
