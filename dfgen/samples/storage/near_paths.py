"""What is near a path at which there is no file: which mistake it may be, and what to write.

Each rule is a function of a path, of where it begins, and of what a `Disk` tells. They run once a
program is about to end with an error, never while files are read.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import unquote

from dfgen.samples.storage.near_names import like_name, near_name

_NAMES = 10_000  # of a folder that are looked at
_CHILDREN = 50  # of its folders
_FOLDERS = 100  # that are looked into for a file

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_DRIVE = re.compile(r"^[A-Za-z]:(?=/)")


class Disk(NamedTuple):
    """What is asked of a file system.

    Args:
        exists: whether there is a file or a folder at a path.
        names: of the files and folders in a folder; none where it cannot be listed.
    """

    exists: Callable[[str], bool]
    names: Callable[[str], list[str]]


def _listed(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, _NAMES))
    except (OSError, ValueError):
        return []


DISK = Disk(os.path.exists, _listed)


@dataclass(frozen=True)
class Begin:
    """Where the relative paths of a column begin.

    Args:
        column: its name.
        root: the folder; None: the working folder.
        cwd: the working folder, absolute.
        of: the function that takes another root, where a manifest names this one.
    """

    column: str
    root: str | None
    cwd: str
    of: str = ""

    def at(self, path: str) -> str:
        """Return where a path is looked for."""
        return os.path.normpath(os.path.join(self.cwd, self.root or "", path))

    def change(self, source: str) -> str:
        """Return what changes the paths of the frame; `{}` stands for them."""
        here = f'df["{self.column}"]'
        return f"write {here} = {source.replace('{}', here)}"

    def rooted(self, folder: str) -> str:
        """Return how to have paths begin in another folder."""
        if folder == self.cwd and not self.of:
            return "leave root= out"
        below = os.path.relpath(folder, self.cwd)
        shown = folder if below.startswith("..") else below
        return f'give {f"{self.of} " if self.of else ""}root="{shown}"'


class Near(NamedTuple):
    """What is near a path.

    Args:
        what: in words, what is there, or which mistake it is.
        steps: what to write, if all paths have that fault; "": nothing simple.
        place: returns where other paths would be found, if they have the same fault.
    """

    what: str
    steps: str
    place: Callable[[str], str]

    @property
    def advice(self) -> str:
        """Both as one text."""
        return f"{self.what}: {self.steps}" if self.steps else self.what


def near(path: str, begin: Begin, disk: Disk = DISK, alone: bool = False) -> Near | None:
    """Return what is near a path of a table at which there is no file, or None.

    Args:
        path: as the table has it.
        begin: where it begins.
        disk: where files may be.
        alone: whether other files of the table are there, so that no other folder is meant.

    Example:
        >>> disk = Disk(lambda path: path == "/d/imgs/a.jpg", {"/d": ["imgs"]}.get)
        >>> near("imgs/a.jpg", Begin("path", "imgs", "/d"), disk).advice
        "'imgs/a.jpg' is in '/d': leave root= out"
    """
    rules = (_of_address, _expanded, _cleaned, _with_slashes, _beside)
    others = () if alone else (_elsewhere, _of_name, _folder)
    return next(filter(None, (rule(path, begin, disk) for rule in (*rules, *others))), None)


def near_missing(files: Iterable[tuple[str, str]]) -> str:
    """Return what is near the first of some files, by column and path, that is not there, or ""."""
    for column, path in files:
        if not DISK.exists(path):
            found = near(path, Begin(column, None, os.getcwd()), alone=True)
            return "" if found is None else found.what
    return ""


def around(path: str, begin: Begin, disk: Disk = DISK) -> str:
    """Return what there is where a path ends to be one, for one that nothing is near to."""
    folder, part = _deepest(begin.at(path), disk)
    names = [name for name in disk.names(folder) if not name.startswith(".")][:3]
    holds = f"holds {', '.join(map(repr, names))}" if names else "is empty"
    lacks = "" if part == os.path.basename(path) else f"there is no folder {part!r} in it, it "
    return f"The folder {folder!r}: {lacks}{holds}" + (", ..." if len(names) == 3 else "")


def _of_address(path: str, begin: Begin, disk: Disk) -> Near | None:
    scheme = _SCHEME.match(path)
    if scheme is None:
        return None
    if scheme[1].lower() != "file":
        return Near(
            f'"{scheme[0]}" begins an address, which no store reads',
            "copy the files to a disk, or mount the store as a folder, and give paths",
            begin.at,
        )
    change = begin.change('{}.str.removeprefix("file://")')
    return Near('"file://" is no part of a path', change, lambda one: begin.at(one[7:]))


def _expanded(path: str, begin: Begin, disk: Disk) -> Near | None:
    expand = {"~": os.path.expanduser, "$": os.path.expandvars}.get(path[:1])
    if expand is None or expand(path) == path:
        return None
    change = begin.change(f"{{}}.map(os.path.{expand.__name__})")
    return Near(f'"{path[0]}" is not expanded', change, lambda one: begin.at(expand(one)))


_CLEANERS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("blanks or a line end around it", "{}.str.strip()", str.strip),
    ("quotes around it", r"""{}.str.strip("'\" ")""", lambda path: path.strip("'\" ")),
    ("%20 or the like in it", "{}.map(urllib.parse.unquote)", unquote),
)
"""What a path may have, the change that takes it away, and a function that does it."""


def _cleaned(path: str, begin: Begin, disk: Disk) -> Near | None:
    for what, source, clean in _CLEANERS:
        other = clean(path)
        if other and other != path and disk.exists(begin.at(other)):
            return Near(
                f"{other!r} is there, but the path has {what}",
                begin.change(source),
                lambda one, clean=clean: begin.at(clean(one)),  # type: ignore[misc]
            )
    return None


def _with_slashes(path: str, begin: Begin, disk: Disk) -> Near | None:
    if os.sep != "/" or "\\" not in path:
        return None

    def slashed(one: str) -> str:
        return one.replace("\\", "/")

    change = begin.change(r'{}.str.replace("\\", "/")')
    what = "backslashes part no folders here"
    found = None
    if not disk.exists(begin.at(slashed(path))):
        found = _elsewhere(slashed(path), begin, disk)
    if found is None:
        return Near(what, change, lambda one: begin.at(slashed(one)))
    return Near(what, f"{change}. Then {found.advice}", lambda one: found.place(slashed(one)))


def _beside(path: str, begin: Begin, disk: Disk) -> Near | None:
    """Find a file of another name in the folder where it was looked for."""
    folder, name = os.path.split(begin.at(path))
    found = like_name(name, disk.names(folder))
    if found is None:
        return None
    return Near(
        f"{found.name!r} is in that folder, {found.what}",
        begin.change(found.source) if found.source else "",
        lambda one: begin.at(
            os.path.join(os.path.dirname(one), found.rename(os.path.basename(one)))
        ),
    )


def _elsewhere(path: str, begin: Begin, disk: Disk) -> Near | None:
    """Find the end of a path, as long as can be, in a folder around where it should begin."""
    parts = [part for part in _DRIVE.sub("", path).split("/") if part not in ("", ".")]
    cuts = range(1 if begin.of else len(parts))  # those of a manifest are absolute in its frame
    for folders in _around(begin, disk):
        held = {folder: set(disk.names(folder)) for folder in folders}
        for cut in cuts:
            end = "/".join(parts[cut:])
            for folder, names in held.items():
                there = os.path.join(folder, end)
                if parts[cut] in names and there != begin.at(path) and disk.exists(there):
                    return _moved(path, end, folder, begin)
    return None


def _moved(path: str, end: str, folder: str, begin: Begin) -> Near:
    before = path.removesuffix(end) if path.endswith(end) else ""
    steps = [begin.change(f'{{}}.str.removeprefix("{before}")')] if before else []
    if folder != begin.at(""):
        steps.append(begin.rooted(folder))
    return Near(
        f"{end!r} is in {folder!r}",
        ", and ".join(steps),
        lambda one: os.path.join(folder, one.removeprefix(before)),
    )


def _of_name(path: str, begin: Begin, disk: Disk) -> Near | None:
    """Find the file of an id in another folder."""
    above, name = os.path.split(path)
    if os.path.splitext(name)[1]:
        return None
    for folder in chain.from_iterable(_around(begin, disk)):
        found = like_name(name, disk.names(os.path.join(folder, above)), sure=True)
        if found is not None:
            where = os.path.join(folder, above).rstrip("/")
            return Near(
                f"{found.name!r} is in {where!r}, {found.what}",
                f"{begin.change(found.source)}, and {begin.rooted(folder)}",
                lambda one, folder=folder, found=found: os.path.join(  # type: ignore[misc]
                    folder, os.path.dirname(one), found.rename(os.path.basename(one))
                ),
            )
    return None


def _folder(path: str, begin: Begin, disk: Disk) -> Near | None:
    """Find a folder of nearly the name of the first one that is not there."""
    folder, part = _deepest(begin.at(path), disk)
    if os.path.join(folder, part) == begin.at(path):
        return None
    there = near_name(part, disk.names(folder))
    if there is None:
        return None
    wrong, right = os.path.join(folder, part), os.path.join(folder, there)
    return Near(
        f'there is no folder {part!r} in {folder!r}. Did you mean "{there}"?',
        "",
        lambda one: begin.at(one).replace(wrong, right, 1),
    )


def _deepest(path: str, disk: Disk) -> tuple[str, str]:
    """Return the deepest folder of a path that is there, and the first part that is not."""
    folder, part = os.path.split(path)
    while folder != os.path.dirname(folder) and not disk.exists(folder):
        folder, part = os.path.split(folder)
    return folder, part


def _around(begin: Begin, disk: Disk) -> Iterator[list[str]]:
    """Yield the folders around where paths begin: above a root and below first, then beside."""
    start = begin.at("")
    seeds = [start, begin.cwd]
    if begin.root is not None:
        seeds += [os.path.dirname(start), os.path.dirname(os.path.dirname(start))]
    yield _folders_below(seeds, 3, disk)
    yield _folders_below([os.path.dirname(begin.cwd)], 2, disk)


def _folders_below(folders: list[str], depth: int, disk: Disk) -> list[str]:
    """Return folders and those in them so deep, the nearest first."""
    found: dict[str, None] = {}
    for _ in range(depth + 1):
        folders = [folder for folder in folders if folder not in found][: _FOLDERS - len(found)]
        found.update(dict.fromkeys(folders))
        folders = [below for folder in folders for below in _below(folder, disk)]
    return [*found]


def _below(folder: str, disk: Disk) -> list[str]:
    """Return the folders in a folder: what has no dot in its name, where that can be listed."""
    names = [name for name in disk.names(folder) if "." not in name][:_CHILDREN]
    return [os.path.join(folder, name) for name in names]
