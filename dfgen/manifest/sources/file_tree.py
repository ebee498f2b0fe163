"""Source `source`: all files that a decoder opens in a folder, an archive or a bucket.

By a pattern such as `{kind}/{shard}/{id:int}.jpg`, parts of their paths become columns.
"""

import os
import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import (
    EXAMPLES,
    ArgumentError,
    ManifestError,
    MissingFileError,
    count,
    is_outside,
    quote,
    warn,
)
from dfgen.explain.missing import near_name
from dfgen.files import LOCK_SUFFIX
from dfgen.manifest.paths import absolute_place, is_utf8
from dfgen.manifest.reading import fault_of
from dfgen.manifest.schema import FACTS, OF_WHOLE_FILES
from dfgen.manifest.sources.source import Rows
from dfgen.progress_bars import progress
from dfgen.samples.pixels.formats import BY_SUFFIX
from dfgen.stores.archives import ARCHIVES, Archives, Member, is_named_archive, member_of
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of, store_at

FROM_PATH = {"name": r"(?s)^.*/", "stem": r"(?s)^.*/|\.[^./]*$", "relpath": r"\A\z"}
"""Key made of a path below the folder -> the parts that are cut off."""
_IGNORED = "_"
_RESERVED = {"path", *FACTS}.difference(OF_WHOLE_FILES)
_HELP = "Example: {kind}/{shard}/{id:int}.jpg. Write doubled braces for braces in a name"


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: its fields in order, and its fields of whole numbers.

    It describes the whole path below the folder. A field matches one or more characters, but no
    `/`. `{_}` makes no column. `regex` is the same for Arrow, with one named group a field.
    """

    text: str
    regex: str
    fields: tuple[str, ...]
    integers: frozenset[str]

    def convert(self, name: str, values: pa.Array) -> pa.Array:
        """Return the values of a field of whole numbers as int64."""
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ManifestError(
                f"{{{name}:int}} of the pattern {quote(self.text)} matched a number that has not "
                f"64 bits: {error}. Write {{{name}}} to keep it as text"
            ) from None


def parse_pattern(text: str) -> Pattern:
    """Parse a pattern."""
    regex = r"\A"
    fields: list[str] = []
    integers: set[str] = set()
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ArgumentError(f"pattern={quote(text)}: {error}. {_HELP}") from None
    for literal, name, kind, conversion in parts:
        regex += re.escape(literal)
        if name is None:
            continue
        fault = _fault(name, fields, (kind or "") + (f"!{conversion}" if conversion else ""))
        if fault:
            raise ArgumentError(f"pattern={quote(text)} has {fault}. {_HELP}")
        characters = "[0-9]+" if kind else "[^/]+"
        if name == _IGNORED:
            regex += characters
            continue
        fields.append(name)
        if kind:
            integers.add(name)
        regex += f"(?P<{name}>{characters})"
    if not fields:
        raise ArgumentError(
            f"pattern={quote(text)} has no field in braces for a column; it is neither a glob nor "
            f"a regular expression. {_HELP}"
        )
    return Pattern(text, regex + r"\z", tuple(fields), frozenset(integers))


def _fault(name: str, earlier: list[str], kind: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return f"the field {quote(name)}, expected a name of letters, digits and underscores"
    if name in earlier:
        return f"the field {quote(name)} twice: give each part its own name"
    if name in _RESERVED:
        return f"the field {quote(name)}, a column that dfgen fills: choose another name"
    return f"the type {quote(kind)} in {{{name}}}: the only type is int" * (kind not in ("", "int"))


_NO_FIT = "not of the pattern"
_FILES_A_CHUNK = 8_192
_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:[/\\]|(?:^|[/\\])\.\.(?:[/\\]|$)|\0|::(?:zip|tar)://")
_HIDDEN = re.compile(r"(?:.*?/)??\.[^/]*")
_LISTED = pa.schema({"path": pa.string(), "bytes": pa.int64(), "mtime_ns": pa.int64()})
_OTHERS = (
    "A table of labels is labels=, JSON of COCO coco=, XML of VOC voc=, data.yaml of YOLO yolo=; a "
    "manifest is read with dfgen.read_manifest"
)

Skipped = defaultdict[str, list[str]]
"""Reason -> paths that are left out."""


def read_tree(source: str, pattern: Pattern | None, options: StorageOptions | None) -> Rows:
    """Return the files below a folder, in an archive, or below the URL of a folder.

    Hidden files, files of other kinds, names that are not UTF-8 and files that the pattern does not
    match are left out with a warning. The fields of the pattern are text.
    """
    place, scheme = absolute_place(source), scheme_of(source)
    listed, skipped = None, Skipped(list)
    if has_store(scheme) and scheme not in ARCHIVES:
        listed = _objects(place, options, skipped)
        table = _matching(listed["path"], pattern, skipped)
    else:
        table = files_below(source, pattern, skipped)
    if not len(table):
        raise ManifestError(_nothing_found(source, pattern, skipped))
    warn_of_skipped(skipped, pattern)
    if listed is not None:
        absolute = pc.binary_join_element_wise(f"{place}/", listed["path"], "")
        listed = listed.set_column(0, "path", absolute)
    return Rows(table, place, listed=listed)


def files_below(folder: str, pattern: Pattern | None, skipped: Skipped) -> pa.Table:
    """Return the files in a folder or an archive, with the fields of a pattern."""
    archive = member_of(absolute_place(folder))
    if archive is not None:
        return _matching(_members(archive, skipped), pattern, skipped)
    check_folder(folder, "Give the folder of the files")
    return _matching(list_files(folder, tuple(BY_SUFFIX), skipped), pattern, skipped)


def _matching(paths: pa.ChunkedArray, pattern: Pattern | None, skipped: Skipped) -> pa.Table:
    """Return paths with the fields of a pattern; paths that do not match are skipped."""
    if pattern is None:
        return pa.table({"path": paths})
    parts = []
    for chunk in paths.chunks or [pa.array([], pa.string())]:
        fields = pc.extract_regex(chunk, pattern.regex)  # null if it does not match
        if misfits := chunk.filter(fields.is_null()).to_pylist():
            skipped[_NO_FIT] += misfits
        columns = fields.filter(fields.is_valid()).flatten()
        parts.append([chunk.filter(fields.is_valid()), *columns])
    return pa.concat_tables(pa.table(part, ["path", *pattern.fields]) for part in parts)


def warn_of_skipped(skipped: Mapping[str, list[str]], pattern: Pattern | None = None) -> None:
    """Warn of files that are left out, with the number and three examples of each reason."""
    lines = []
    for reason, paths in sorted(skipped.items()):
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        lines.append(f"{count(len(paths), 'path')}, {reason}: {', '.join(paths[:3])}{more}")
    if lines:
        widen = f"Widen the pattern {quote(pattern.text)}, or move" if pattern else "Move"
        widen = widen if _NO_FIT in skipped else "Move"
        warn("Left out: " + "\nLeft out: ".join(lines) + f"\n{widen} other files elsewhere.")


def check_folder(folder: str, advice: str) -> None:
    """Raise unless there is such a folder."""
    if not os.path.exists(folder):
        near = near_name(folder)
        raise MissingFileError(
            f"there is no folder {quote(folder)}. Looked in {os.getcwd()}.{near}"
            + " * is not expanded: give the folder, and the rest as pattern=" * ("*" in folder)
        )
    if not os.path.isdir(folder):
        raise ManifestError(f"{quote(folder)} is a file. {advice}. {_OTHERS}")


def list_files(folder: str, suffixes: tuple[str, ...], skipped: Skipped) -> pa.ChunkedArray:
    """Return the relative paths of the files below a folder with these suffixes.

    The files of a folder come first, sorted by name, then its subfolders. Links to folders are
    followed, except into a folder that contains the link.
    """
    chunks, paths = list[pa.Array](), list[str]()
    with progress(None, "Listing files", " files") as bar:
        for files in _walk(folder, suffixes, skipped):
            paths += files
            bar.update(len(files))
            if len(paths) >= _FILES_A_CHUNK:
                chunks.append(_as_text(paths, skipped))
                paths = []
    return pa.chunked_array([*chunks, _as_text(paths, skipped)], pa.string())


def _walk(top: str, suffixes: tuple[str, ...], skipped: Skipped) -> Iterator[list[str]]:
    """Yield the relative paths of the files of each folder."""
    pending: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", ())]
    while pending:
        below, above = pending.pop()
        prefix = f"{below}/" if below else ""
        try:
            status = os.stat(os.path.join(top, below))
            names, folders, others = _list(os.path.join(top, below), suffixes)
        except OSError as error:
            name = f"the folder {quote(os.path.join(top, below))}"
            if is_outside(error):
                raise fault_of(error, name) from error
            raise ManifestError(
                f"{name} cannot be read: {error}. Give the right to read it, or move it elsewhere"
            ) from error
        if (identity := (status.st_dev, status.st_ino)) in above:
            skipped["link to a folder that contains it"].append(_printable(below))
            continue
        yield [prefix + name for name in sorted(names)]
        for name in sorted(others):
            suffix = os.path.splitext(name)[1].lower() or "without extension"
            skipped["hidden" if name[0] == "." else suffix].append(_printable(prefix + name))
        pending += [(prefix + name, (*above, identity)) for name in sorted(folders, reverse=True)]


def _list(folder: str, suffixes: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of files with these suffixes, of folders, and of others."""
    names, folders, others = list[str](), list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:  # most of the time of a scan is spent here
            name = entry.name
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link to itself: its facts will have a problem
                is_folder = False
            if name[0] == ".":
                if not name.endswith(LOCK_SUFFIX):  # such as the lock of this build
                    others.append(name)
            elif is_folder:
                folders.append(name)
            elif name.endswith(suffixes):
                names.append(name)
            else:
                (names if name.lower().endswith(suffixes) else others).append(name)
    return names, folders, others


def _as_text(paths: list[str], skipped: Skipped) -> pa.Array:
    """Return paths as Arrow text; paths that are not UTF-8 are skipped."""
    try:
        return pa.array(paths, pa.string())
    except UnicodeEncodeError:
        skipped["name not UTF-8"] += [_printable(path) for path in paths if not is_utf8(path)]
        return pa.array([path for path in paths if is_utf8(path)], pa.string())


def _printable(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")


def _members(archive: Member, skipped: Skipped) -> pa.ChunkedArray:
    """Return the files of an archive in the order of a folder's."""
    below = f"{archive.name}/" if archive.name else ""
    names = [name for name in Archives().names(archive) if name.startswith(below)]
    if below and not names:
        raise ManifestError(
            f"the archive {archive.archive} has no folder {archive.name!r}: list its files with "
            f"dfgen.build_manifest({archive.archive!r})"
        )
    counts = Counter(name[len(below) :] for name in names)
    odd = sorted(filter(_LEAVES.search, counts))
    if odd:
        reason = "path that leaves the archive, or is not allowed in it"
        skipped[reason] += map(_printable, odd)
    safe = sorted(counts.keys() - odd, key=_as_walked)
    if repeated := [name for name in safe if counts[name] > 1]:
        reason = "repeated name in the archive; the last one counts"
        skipped[reason] += map(_printable, repeated)
    return _opened(pa.chunked_array([_as_text(safe, skipped)]), skipped)[0]


def _as_walked(path: str) -> str:
    """Return the sort key of the order in which folders are walked: files before folders."""
    folder, slash, name = path.rpartition("/")
    return ("\2" + folder.replace("/", "\0\2") + "\0" if slash else "") + "\1" + name


def _objects(url: str, options: StorageOptions | None, skipped: Skipped) -> pa.Table:
    """Return path, bytes and mtime_ns of the objects below a URL, in the order of the listing."""
    columns: tuple[list[Any], ...] = ([], [], [])
    with progress(None, "Listing files", " files") as bar:
        for path, head in store_at(url, options=options).list(url):
            values = (path[len(url) + 1 :], head.size, head.mtime_ns)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
            bar.update()
    table = pa.table(
        [pa.array(*pair) for pair in zip(columns, _LISTED.types, strict=True)], _LISTED
    )
    if not len(table) and is_named_archive(url):
        raise ManifestError(
            f"{url} is an archive, and archives are read from disks only: copy it to a disk, or "
            "unpack it in the store"
        )
    return table.filter(_opened(table["path"], skipped)[1])


def _opened(paths: pa.ChunkedArray, skipped: Skipped) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the paths that a decoder opens, and the mask of them; the others are skipped."""
    ends = "|".join(map(re.escape, BY_SUFFIX))  # some have two dots
    hidden = pc.match_substring_regex(paths, r"(^|/)\.[^/]")
    known = pc.match_substring_regex(pc.utf8_lower(paths), rf"(?:{ends})\z")
    opened = pc.and_not(known, hidden)
    folders = dict[str, None]()
    for path in paths.filter(pc.invert(opened)).to_pylist():
        if match := _HIDDEN.match(path):
            folders[match[0]] = None
        elif not path.endswith("/"):
            skipped[os.path.splitext(path)[1].lower() or "without extension"].append(path)
    if folders:
        skipped["hidden"] += folders
    return paths.filter(opened), opened


def _nothing_found(source: str, pattern: Pattern | None, skipped: Mapping[str, list[str]]) -> str:
    misfits = skipped.get(_NO_FIT, [])[:EXAMPLES]
    if pattern is not None and misfits:
        return (
            f"no file in {quote(source)} matches the pattern {quote(pattern.text)}, which is for "
            f"the whole path below the folder. Files there: {', '.join(map(quote, misfits))}. "
            "Write a field in braces for each part that changes, {_} if you do not need it, / "
            "between folders, and the rest as it is"
        )
    others = ", ".join(f"{len(paths)} {reason}" for reason, paths in sorted(skipped.items()))
    return (
        f"no file in {quote(source)} can be opened as an image, array or sound. "
        f"Left out: {others or 'nothing, it is empty'}. Extensions that are opened: "
        f"{', '.join(BY_SUFFIX)}. For other files make the frame yourself, and use "
        "x=dfgen.Array(..., decode=function)"
    )
