"""Source `files`: all that a decoder opens below a folder, in an archive or in a bucket."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import (
    EXAMPLES,
    DfgenError,
    ManifestError,
    MissingFileError,
    ReadError,
    is_outside,
    quote,
)
from dfgen.explain.missing import near_name
from dfgen.locks import LOCK_SUFFIX
from dfgen.manifest.file_errors import fault_of
from dfgen.manifest.path_roots import absolute_place
from dfgen.manifest.paths import is_utf8
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.source import TEXT, Argument, RowGroup, Source
from dfgen.samples.pixels.formats import formats_by_suffix
from dfgen.stores.archives import ARCHIVES, Archives, Member, is_named_archive, member_of
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of, store_at

FILES_A_GROUP = 8_192
NO_FIT = "not of the pattern"

_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:[/\\]|(?:^|[/\\])\.\.(?:[/\\]|$)|\0|::(?:zip|tar)://")
_HIDDEN = re.compile(r"(?:.*?/)??\.[^/]*")
_LISTED = pa.schema({"path": pa.string(), "bytes": pa.int64(), "mtime_ns": pa.int64()})
_OF_TABLES = "Give the folder of the images; a table of labels goes into labels= (--labels)."
_OF_FILES = {
    (".csv", ".tsv", ".jsonl", ".ndjson"): f"{_OF_TABLES[:-1]}, one that names the files itself "
    "with path_column= (--path-column).",
    (".parquet",): "A manifest is read with dfgen.read_manifest(path), and grows with update= "
    "(--update); a table of labels goes into labels= (--labels).",
    (".json",): "Annotations of COCO go into coco= (--coco).",
    (".xml",): "The folder of Pascal VOC's annotations goes into voc= (--voc).",
    (".yaml", ".yml"): "The data.yaml of a YOLO data set goes into yolo= (--yolo).",
    (".npy", ".h5", ".hdf5"): "Rows of an array need no build: dfgen.Sequence(pandas.DataFrame("
    '{"path": file, "index": range(rows)})).',
    (".gz", ".7z", ".rar"): "Unpack it, and give the folder; zip and plain tar archives are read.",
}
"""Extensions of a file that was given for a folder -> what to do with it."""

Skipped = defaultdict[str, list[str]]
Listed = tuple[pa.Table, Skipped]
"""Some files, with `path` below the place that is listed, and what was left out."""


def read_tree(
    folder: str, pattern: Pattern | None = None, options: StorageOptions | None = None
) -> Iterator[RowGroup]:
    """Yield the files below a folder, or below the URL of one."""
    scheme = scheme_of(folder)
    if has_store(scheme) and scheme not in ARCHIVES:
        url = absolute_place(folder)
        return _taken(url, _objects(url, options), pattern, ("bytes", "mtime_ns"))
    return read_files(folder, pattern)


def read_files(folder: str, pattern: Pattern | None = None) -> Iterator[RowGroup]:
    """Yield the files below a folder or in an archive, some thousand at a time.

    Hidden files and folders (`.ipynb_checkpoints`), files of other kinds, names that are not UTF-8,
    and files that the pattern does not fit are left out and named. Paths are relative to `folder`
    and `/`-separated; the fields of the pattern are text.
    """
    archive = member_of(absolute_place(folder))
    if archive is not None:
        return _taken(folder, _members(archive), pattern)
    check_folder(folder, _what_file(folder))
    return _taken(folder, _files(folder, tuple(formats_by_suffix())), pattern)


def _taken(
    place: str, listed: Iterator[Listed], pattern: Pattern | None, facts: tuple[str, ...] = ()
) -> Iterator[RowGroup]:
    """Yield what fits the pattern; raise where nothing does."""
    found, misfits, whole = False, list[str](), absolute_place(place)
    for files, skipped in listed:
        group = replace(fit(files, skipped, pattern), folder=whole, facts=facts)
        found |= len(group.rows) > 0
        misfits += group.skipped.get(NO_FIT, [])[: EXAMPLES - len(misfits)]
        yield group
    if not found:
        raise ManifestError(_nothing_found(place, pattern, misfits, group.skipped))


def _members(archive: Member) -> Iterator[Listed]:
    """Yield the files of an archive in the order of a folder's."""
    below = f"{archive.name}/" if archive.name else ""
    within = [name for name in Archives().names(archive) if name.startswith(below)]
    if below and not within:
        raise ManifestError(
            f"the archive {archive.archive} has nothing in {archive.name!r}: see what it holds "
            f"with dfgen.build_manifest({archive.archive!r})"
        )
    counts, skipped = Counter(name[len(below) :] for name in within), Skipped(list)
    names = sorted(counts, key=_as_walked)
    paths = _as_text([name for name in names if not _LEAVES.search(name)], skipped)
    files, others = opened_files(pa.table({"path": paths}))
    leaves = "name that leaves the archive, or cannot be one in it"
    others[leaves] = [_printable(name) for name in names if _LEAVES.search(name)]
    twice = "repeated name in the archive; the last one counts"
    others[twice] = [_printable(name) for name in names if counts[name] > 1]
    skipped.update({reason: found for reason, found in others.items() if found})
    yield files, skipped


def _as_walked(path: str) -> str:
    """Return what sorts paths as folders are walked: files before folders, each by name."""
    folder, slash, name = path.rpartition("/")
    return ("\2" + folder.replace("/", "\0\2") + "\0" if slash else "") + "\1" + name


def _objects(url: str, options: StorageOptions | None) -> Iterator[Listed]:
    """Yield the objects below a URL, with the sizes and times of the listing, in its order."""
    listed, pages, there = store_at(url, options=options).list(url), 0, False
    try:
        while page := list(islice(listed, FILES_A_GROUP)):
            rows = [(path[len(url) + 1 :], head.size, head.mtime_ns) for path, head in page]
            columns = zip(*rows, strict=True)
            arrays = [pa.array(*each) for each in zip(columns, _LISTED.types, strict=True)]
            files, skipped = opened_files(pa.table(arrays, schema=_LISTED))
            pages, there = pages + 1, there or len(files) > 0
            yield files, skipped
    except ReadError as error:
        if "there is no bucket" in str(error):
            raise MissingFileError(str(error).partition(": ")[2]) from None
        raise type(error)(f"{url} cannot be listed: {str(error).partition(': ')[2]}") from None
    if not there and is_named_archive(url):
        raise ManifestError(
            f"{url} is an archive, and archives are read from disks alone: copy it to one, or "
            "unpack it in the store"
        )
    if not pages:
        yield _LISTED.empty_table(), Skipped(list)


def list_files(folder: str, suffix: str) -> tuple[list[str], Skipped]:
    """Return the relative paths of the files below a folder with a suffix, and of the others."""
    found, others = list[str](), Skipped(list)
    for files, skipped in _files(folder, (suffix,)):
        found += files["path"].to_pylist()
        for reason in skipped:
            others[reason] += skipped[reason]
    return found, others


def check_folder(folder: str, advice: str) -> None:
    """Raise if there is no such folder."""
    if not os.path.exists(folder):
        raise MissingFileError(
            f"there is no folder {quote(folder)}. Looked in {os.getcwd()}{_near(folder)}"
        )
    if not os.path.isdir(folder):
        raise ManifestError(f"{quote(folder)} is a file. {advice}")


def _near(text: str) -> str:
    """Say what a folder that is not there may have been meant for, or nothing."""
    if text.startswith("~"):
        return f'. "~" is not expanded: give {quote(os.path.expanduser(text))}'
    if "*" in text:
        return ". No * is expanded: give the folder, and what is below it as pattern="
    if "://" in text:
        return ". Mount it, or give a table of its files as labels= with path_column="
    if "\\" in text and os.sep == "/":
        return ". Write / for each backslash"
    hint = near_name(text)
    return hint and f".{hint}"


def _what_file(path: str) -> str:
    """Return what to do with a file that was given for the folder of the images."""
    suffix, advice = os.path.splitext(path)[1].lower(), _OF_TABLES
    if suffix in formats_by_suffix():
        advice = f"Give the folder of the images: {quote(os.path.dirname(path) or '.')}."
    return next((text for kinds, text in _OF_FILES.items() if suffix in kinds), advice)


def _files(folder: str, suffixes: tuple[str, ...]) -> Iterator[Listed]:
    """Yield the files below a folder with these suffixes.

    The files of a folder come first, sorted by name, then its subfolders. Links to folders are
    followed, except into a folder that they lie in.
    """
    paths, skipped = list[str](), Skipped(list)
    for files in _walk(folder, suffixes, skipped):
        paths += files
        if len(paths) >= FILES_A_GROUP:
            table = pa.table({"path": _as_text(paths, skipped)})
            yield table, skipped.copy()
            paths = []
            skipped.clear()
    table = pa.table({"path": _as_text(paths, skipped)})
    yield table, skipped


def _walk(top: str, suffixes: tuple[str, ...], skipped: Skipped) -> Iterator[list[str]]:
    """Yield the relative paths of the files of one folder after the other."""
    pending: list[tuple[str, tuple[tuple[int, int], ...]]] = [("", (_identity(top),))]
    while pending:
        below, above = pending.pop()
        prefix = f"{below}/" if below else ""
        names, folders, others = _list(os.path.join(top, below), suffixes)
        names.sort()
        yield [prefix + name for name in names]
        for name in sorted(others):
            suffix = os.path.splitext(name)[1].lower() or "without extension"
            skipped["hidden" if name[0] == "." else suffix].append(_printable(prefix + name))
        for name in sorted(folders, reverse=True):
            identity = _identity(os.path.join(top, prefix + name))
            if identity in above:
                skipped["link to a folder that it lies in"].append(_printable(prefix + name))
            else:
                pending.append((prefix + name, (*above, identity)))


def _list(folder: str, suffixes: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """Return the names of files with these suffixes, of folders, and of what is left out."""
    names, folders, others = list[str](), list[str](), list[str]()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:  # the loop that all scanning time goes into
                name = entry.name
                try:
                    is_folder = entry.is_dir()
                except OSError:  # a link to itself: a row, whose problem facts will name
                    is_folder = False
                if name[0] == ".":
                    if not name.endswith(LOCK_SUFFIX):  # such as that of this build
                        others.append(name)
                elif is_folder:
                    folders.append(name)
                elif name.endswith(suffixes):
                    names.append(name)
                else:
                    (names if name.lower().endswith(suffixes) else others).append(name)
    except OSError as error:
        raise _unreadable(folder, error) from error
    return names, folders, others


def _identity(folder: str) -> tuple[int, int]:
    """Return what is the same for a folder and a link to it."""
    try:
        status = os.stat(folder)
    except OSError as error:  # it vanished since its folder was listed
        raise _unreadable(folder, error) from error
    return status.st_dev, status.st_ino


def _unreadable(folder: str, error: OSError) -> DfgenError:
    name = f"the folder {quote(folder)}"
    if is_outside(error):
        return fault_of(error, name)
    return ManifestError(
        f"{name} cannot be read: {error}. Nothing is left out in silence: mend it, or move it "
        "elsewhere"
    )


def _as_text(paths: list[str], skipped: Skipped) -> pa.Array:
    """Return paths as Arrow text; those that are none, which no manifest can hold, are skipped."""
    try:
        return pa.array(paths, pa.string())
    except UnicodeEncodeError:
        odd = [path for path in paths if not is_utf8(path)]
        skipped["name not UTF-8"] += map(_printable, odd)
        return pa.array([path for path in paths if is_utf8(path)], pa.string())


def _printable(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")


def opened_files(files: pa.Table) -> Listed:
    """Return the files of a table that a decoder opens, and the others by their extension."""
    paths, skipped = files["path"], Skipped(list)
    suffixes = pc.replace_substring_regex(paths, r"(?s)^.*?(\.[^./]*)?$", r"\1")
    ends = "|".join(map(re.escape, formats_by_suffix()))  # of which some have two dots
    known = pc.match_substring_regex(pc.utf8_lower(paths), rf"(?:{ends})\z")
    hidden = pc.match_substring_regex(paths, r"(^|/)\.[^/]")
    opened = pc.and_not(known, hidden)
    others = [column.filter(pc.invert(opened)).to_pylist() for column in (paths, suffixes, hidden)]
    folders = dict[str, None]()
    for path, suffix, is_hidden in zip(*others, strict=True):
        if is_hidden and (match := _HIDDEN.match(path)):
            folders[match[0]] = None
        else:
            kind = "folder" if path.endswith("/") else "without extension"
            skipped[suffix.lower() or kind].append(path)
    if folders:
        skipped["hidden"] = [*folders]
    return files.filter(opened), skipped


def fit(files: pa.Table, skipped: Skipped, pattern: Pattern | None) -> RowGroup:
    """Return the files that fit the pattern, with its fields; the others are added to skipped."""
    if pattern is None:
        return RowGroup(files, dict(skipped))
    fields = pattern.extract(files["path"].combine_chunks())
    fits = fields.is_valid()
    misfits = files["path"].filter(pc.invert(fits)).to_pylist()
    if misfits:
        skipped[NO_FIT] += misfits
    files = files.filter(fits)
    for name, column in zip(pattern.fields, fields.filter(fits).flatten(), strict=True):
        files = files.append_column(name, column)
    return RowGroup(files, dict(skipped))


def _nothing_found(
    folder: str, pattern: Pattern | None, misfits: list[str], skipped: Mapping[str, list[str]]
) -> str:
    """Return what to say where no file is taken: examples of those there are, and why."""
    if pattern is not None and misfits:
        return (
            f"no file in {quote(folder)} is of the pattern {quote(pattern.text)}, which describes "
            f"the whole path below the folder. Files there: {', '.join(map(quote, misfits))}. "
            "Write a field in braces for each part that changes, {_} if you do not need it, and "
            "the rest as it is" + _why_no_fit(folder, pattern.text)
        )
    others = ", ".join(f"{len(paths)} {reason}" for reason, paths in sorted(skipped.items()))
    return (
        f"no file in {quote(folder)} can be opened as an image, array or sound. "
        f"Left out: {others or 'nothing, the folder is empty'}. "
        f"Extensions that are opened: {', '.join(formats_by_suffix())}. Others are read by a "
        "function of your own: make the frame yourself, and x=dfgen.Array(..., decode=function)"
    )


def _why_no_fit(folder: str, pattern: str) -> str:
    """Return what a pattern has that no path below a folder has, or nothing."""
    if "\\" in pattern:
        return ". Folders are separated by / on every system: write no backslash"
    if pattern.startswith(("/", f"{os.path.basename(os.path.abspath(folder))}/")):
        return f". It begins below the folder: leave {quote(folder)} out of it"
    return ""


FILES = Source(
    read_tree,
    Argument(
        TEXT,
        "Folder of images, or s3://BUCKET/FOLDER; every one becomes a row. Or a recipe, a .toml.",
        "[FOLDER | RECIPE.toml]",
        is_path=True,
    ),
    shared=("pattern", "options"),
    folder="source",
)
