"""Words for a path without a file, and a name without a column: what is near, and what to write.

It is asked once a program is about to end with an error, never while files are read.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

import pandas as pd

from dfgen.errors import (
    ArgumentError,
    DfgenError,
    MissingFileError,
    brief,
    column_list,
    did_you_mean,
    legible,
)
from dfgen.samples.features.arguments import series_name
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix
from dfgen.samples.stores.archives.archive_paths import Member, member_of
from dfgen.samples.stores.archives.members import Archives

_NAMES = 5_000  # of a folder or an archive that are looked at
_CHILDREN = 50  # folders of a folder
_FOLDERS = 100  # that are searched for a file
_SHOWN = 3

_ADDRESS = re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"^[A-Za-z]:(?=/)")
_ANNOTATIONS = (".csv", ".json", ".txt", ".xml", ".yaml", ".yml")  # often beside a file of the name

Change = Callable[[str], str]


@dataclass(frozen=True)
class Begin:
    """The folder where the relative paths of a column begin, and how its user changes both.

    `root` None is the working folder; `of` the function that takes another root, where a manifest
    names this one; `frame` how code calls the table, "" where there is none to change; `argument`
    and `option`, of the command line, name the folder.
    """

    column: str
    root: str | None = None
    of: str = ""
    frame: str = "df"
    argument: str = "root="
    option: str = ""

    def at(self, path: str) -> str:
        """Return where a path is looked for."""
        return os.path.abspath(os.path.join(self.root or "", path))

    def steps(self, source: str, folder: str | None = None) -> str:
        """Return how to change the paths, `{}` in `source`, and have them begin in a folder."""
        here = f'{self.frame}["{self.column}"]'
        steps = [f"write {here} = {source.replace('{}', here)}"] if source and self.frame else []
        if folder not in (None, self.at("")):
            below = os.path.relpath(folder)
            shown = folder if below.startswith("..") else below
            of = f"{self.of} " if self.of else ""
            give = f'give {of}{self.argument}"{shown}"{self.option}'
            needless = below == "." and self.argument == "root=" and not self.of
            steps.append("leave root= out" if needless else give)
        return ", and ".join(steps)


class Near(NamedTuple):
    """Something near a path, with what to write; and where other paths are if that is done."""

    advice: str
    place: Change


class _Fault(NamedTuple):
    """A mistake in words, what mends a column of such paths (`{}`), and one of them."""

    what: str
    source: str
    mended: Change


def _without(prefix: str, path: str) -> str:
    return path.removeprefix(prefix)


_composed, _decomposed = (partial(unicodedata.normalize, form) for form in ("NFC", "NFD"))


def _slashed(path: str) -> str:
    return path.replace("\\", "/") if os.sep == "/" else path


_FAULTS = (
    _Fault(
        '"file://" is no part of a path',
        '{}.str.removeprefix("file://")',
        partial(_without, "file://"),
    ),
    _Fault('"~" is not expanded', "{}.map(os.path.expanduser)", os.path.expanduser),
    _Fault('"$" is not expanded', "{}.map(os.path.expandvars)", os.path.expandvars),
    _Fault("backslashes part no folders here", r'{}.str.replace("\\", "/")', _slashed),
    _Fault("it has blanks or a line end around it", "{}.str.strip()", str.strip),
    _Fault("it has %20 or the like in it", "{}.map(urllib.parse.unquote)", unquote),
    _Fault("its accents are stored otherwise", '{}.str.normalize("NFC")', _composed),
    _Fault("its accents are stored otherwise", '{}.str.normalize("NFD")', _decomposed),
)
_SURE = 4  # of these, the first: no path is right that has one


def advice(paths: list[str], begin: Begin, alone: bool = False) -> str:
    """Return what is near the first of some paths without a file, and of how many it is so.

    Args:
        paths: as the table has them, from where they begin.
        begin: where that is.
        alone: whether other files of the table are there, so that no other folder is meant.
    """
    found = near(paths[0], begin, alone)
    if found is not None:
        there = sum(os.path.exists(found.place(path)) for path in paths)
        return found.advice + f" ({there} of {len(paths)} are found by that)" * (there > 0)
    ask = f"Give {begin.argument}{begin.option}, the folder where the paths begin"
    return f"{_holds(paths[0], begin)}. {'Leave such rows out' if alone else ask}"


def near(path: str, begin: Begin, alone: bool = False) -> Near | None:
    """Return what is near a path of a table at which there is no file, or None."""
    if member := _member(path):
        if os.path.exists(member.archive):
            return Near(_near_member(member), begin.at)
        return near(member.archive, begin, alone=True)
    if address := _ADDRESS.match(path):
        return Near(
            f'"{address[0]}" begins an address, which no store reads: copy the files to a disk, or '
            "mount the store as a folder, and give paths",
            begin.at,
        )
    for number, fault in enumerate(_FAULTS):
        mended = fault.mended(path)
        there = os.path.exists(begin.at(mended))
        if mended == path or not (there or number < _SURE):
            continue
        then = None if there else near(mended, begin, alone)
        said = _with_steps(fault.what, begin.steps(fault.source))
        said += f". Then {then.advice}" if then else ""
        return Near(said, _after(fault.mended, then.place if then else begin.at))
    found = _alike(path, begin, [begin.at("")])
    if found or alone:
        return found
    searched = (_moved(path, begin, some) or _alike(path, begin, some) for some in _around(begin))
    return next(filter(None, searched), None)


def with_near(error: DfgenError) -> None:
    """Add to the message of an error what is near the first of its files that is missing."""
    missing = next((file for file in error.files if _is_missing(file[1])), None)
    error.files = ()
    if missing and (found := near(missing[1], Begin(missing[0], frame=""), alone=True)):
        error.args = (legible(f"{error}. {found.advice}"),)


def _member(path: str) -> Member | None:
    try:
        return member_of(path)
    except ArgumentError:
        return None


def _near_member(member: Member) -> str:
    """Return what an archive has instead, of the same name if it can be."""
    try:
        names = [*dict.fromkeys(Archives().contents(member).names)]
    except (DfgenError, OSError) as error:
        return str(error)
    alike = [name for name in names if os.path.basename(name) == os.path.basename(member.name)]
    shown = get_close_matches(member.name, (alike or names)[:_NAMES], _SHOWN, cutoff=0.0)
    more = ", ..." * (len(names) > len(shown))
    return f"the archive has {', '.join(map(repr, shown)) or 'no members'}{more}"


def _is_missing(path: str) -> bool:
    if _member(path) is None:
        return not _ADDRESS.match(path) and not os.path.exists(path)
    try:
        return Archives().head(path) is None
    except MissingFileError:
        return True
    except DfgenError:
        return False


def _holds(path: str, begin: Begin) -> str:
    """Return what the last folder of a path that exists holds, the most like it first."""
    folder, part = os.path.split(begin.at(path))
    while folder != os.path.dirname(folder) and not os.path.exists(folder):
        folder, part = os.path.split(folder)
    names = get_close_matches(part, _names(folder), n=_SHOWN, cutoff=0.0)
    holds = f"holds {', '.join(map(repr, names))}" if names else "is empty"
    lacks = "" if part == os.path.basename(path) else f"there is no folder {part!r} in it, it "
    return f"The folder {folder!r}: {lacks}{holds}" + (", ..." if len(names) == _SHOWN else "")


def _with_steps(what: str, steps: str) -> str:
    return f"{what}: {steps}" if steps else what


def _after(mended: Change, place: Change) -> Change:
    return lambda path: place(mended(path))


def _moved(path: str, begin: Begin, folders: list[str]) -> Near | None:
    """Find the end of a path, as long as can be, in some folders."""
    parts = [part for part in _DRIVE.sub("", path).split("/") if part not in ("", ".")]
    for cut in range(1 if begin.of else len(parts)):  # a manifest's are absolute in its frame
        end = "/".join(parts[cut:])
        for folder in folders:
            there = os.path.join(folder, end)
            if there != begin.at(path) and os.path.exists(there):
                before = path.removesuffix(end)
                source = f'{{}}.str.removeprefix("{before}")' if before else ""
                moved = _Fault(repr(end), source, partial(_without, before))
                return _named(moved, folder, folder, begin)
    return None


def _alike(path: str, begin: Begin, folders: list[str]) -> Near | None:
    """Find a file of another extension, case or padding below the first folder that has it."""
    for folder in folders:
        where = os.path.dirname(os.path.join(folder, path))
        for name in _names(where):
            if alike := _likeness(path, name):
                return _named(alike, where, folder, begin)
    return None


def _named(found: _Fault, where: str, folder: str, begin: Begin) -> Near:
    """Return that something is in `where`, by a mended path that begins in a folder."""
    said = _with_steps(f"{found.what} is in {where!r}", begin.steps(found.source, folder))
    return Near(said, _after(found.mended, partial(os.path.join, folder)))


def _likeness(path: str, there: str) -> _Fault | None:
    """Return what makes the name of a path one that is there: the case, extension or padding."""
    above, name = os.path.split(path)
    (stem, suffix), (other, end) = os.path.splitext(name), os.path.splitext(there)
    if end.lower() in _ANNOTATIONS:
        return None
    if stem == other and suffix and end and suffix != ".0":
        source = f'{{}}.str.replace("{suffix}", "{end}")'
        differs = "in another case" if suffix.lower() == end.lower() else "of another extension"
        return _Fault(f"{there!r}, {differs},", source, lambda one: one.replace(suffix, end))
    if name.casefold() == there.casefold():
        return _Fault(f"{there!r}, in another case,", "", str)
    number, width = name.removesuffix(".0"), 0
    if number != other and not above and number.isdecimal() and other.isdecimal():
        width = len(other) * (int(number) == int(other))
    if not end or number.zfill(width) != other:
        return None
    text = ".astype(str)" if number == name else ".astype(float).astype(int).astype(str)"
    zeros = f".str.zfill({width})" if width else ""
    return _Fault(
        repr(there),
        f'{{}}{text}{zeros} + "{end}"',
        lambda one: one.removesuffix(".0").zfill(width) + end,
    )


def _names(folder: str) -> list[str]:
    """Return what is in a folder, but hidden files; nothing if it cannot be listed."""
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


def near_entry(path: str) -> str:
    """Ask whether an entry of its folder was meant by a path that is not there, or say nothing."""
    above, name = os.path.split(os.path.abspath(path))
    return did_you_mean(name, os.listdir(above)) if os.path.isdir(above) else ""


def folder_below(path: str) -> str | None:
    """Return where a relative path of a folder leads in a folder below the working one."""
    first = os.path.normpath(path).split(os.sep)[0]
    for folder in _folders_below([os.getcwd()], 3):
        found = os.path.join(os.path.dirname(folder), path)
        if os.path.basename(folder) == first and os.path.isdir(found):
            return os.path.relpath(found)
    return None


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


def not_a_column(argument: str, value: Any, names: list[str], source: Any) -> str:
    """Return the message on what is no name of a column of `source`, a frame or an Arrow table."""
    columns = f"Columns: {column_list(names)}."
    if isinstance(value, str):
        hint = _meant(argument, value, names, source)
        return f'{argument}="{value}" is not a column of the manifest. {columns}{hint}'
    new = value[0] if isinstance(value, list | tuple) and len(value) == 1 else series_name(value)
    if isinstance(new, str) and new in names:
        advice = f'write {argument}="{new}"'
    elif isinstance(value, pd.Index):
        advice = f'df = df.reset_index() makes the column "{new or "index"}" of it'
    elif hasattr(value, "__len__"):
        new = series_name(value) or argument
        advice = f'put it into the frame, df["{new}"] = ..., and write {argument}="{new}"'
    else:
        advice = f"give the name of a column, or leave {argument} out"
    return (
        f"{argument}={brief(value)} is not a column of the manifest, expected the name of one: "
        f"{advice}. {columns}"
    )


def _meant(argument: str, name: str, names: list[str], source: Any) -> str:
    """Return what to write in place of a name, behind a blank, or ""."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= {*names}:
        return f" Write a list for several, {argument}={parts}"
    index = source.index if isinstance(source, pd.DataFrame) else None
    if index is not None and name in index.names:
        return f' "{name}" is the index: write df = df.reset_index()'
    if argument == "x" and index is not None and _names_image(index[0]):
        return ' The index names images: write df = df.rename_axis("path").reset_index()'
    if any(other.strip() == name for other in names):
        return f' With blanks there is "{name}": write df.columns = df.columns.str.strip()'
    if os.path.isdir(name):
        return f' It is a folder: where paths begin there, write root="{name}"'
    firsts = source[:1].to_pandas() if index is None else source.head(1)
    images = [one for one in names if _names_image(firsts[one].iloc[0])] if argument == "x" else []
    if os.path.isabs(name) or os.path.exists(name) or _names_image(name):
        column = images[0] if images else "path"
        return f' It is a path: name the column that holds the paths, such as {argument}="{column}"'
    if images:
        return f' Images are named by {", ".join(images)}: write x="{images[0]}"'
    if (argument, name) == ("x", "path") and not any("path" in one.lower() for one in names):
        join = 'dfgen.build_manifest(FOLDER, labels=df, on="stem=COLUMN")'
        return f" No column names files: join the table with its files, {join}, or give x="
    return did_you_mean(name, names)


def _names_image(value: object) -> bool:
    if not isinstance(value, str | os.PathLike):
        return False
    format = formats_by_suffix().get(os.path.splitext(os.fspath(value))[1].lower())
    return format is not None and FORMATS[format].holds == "image"
