"""Inputs that are no manifest, nor the path of one, and how a frame is made of each."""

import os
import re
import shlex
from functools import partial
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, DfgenError, WriteError, did_you_mean, listed
from dfgen.manifest.paths import is_utf8
from dfgen.manifest.schema import KEY
from dfgen.packs.pack_index import INDEX, PART_FILE, is_in_parts
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of, store_at
from dfgen.system import check_writable, refuse_others
from dfgen.table.any_table import frame_of

_OF_PARTS = re.compile(rf"{PART_FILE}|\..*")
_MAKERS = {
    **dict.fromkeys(
        (".npy", ".h5", ".hdf5"),
        'pd.DataFrame({"id": range(rows), "path": {}, "index": range(rows)})',
    ),
    **dict.fromkeys((".yaml", ".yml"), "dfgen.build_manifest(yolo={})"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "pd.read_excel({})"),
    **dict.fromkeys((".pkl", ".pickle"), "pd.read_pickle({})"),
    **dict.fromkeys((".feather", ".arrow"), "pd.read_feather({})"),
    **dict.fromkeys((".tsv", ".txt"), 'pd.read_csv({}, sep="\\t")'),
    **dict.fromkeys((".jsonl", ".ndjson"), "pd.read_json({}, lines=True)"),
    ".json": "pd.read_json({}), of COCO df = dfgen.build_manifest(coco={})",
    ".csv": "pd.read_csv({})",
    ".toml": "dfgen.build_manifest({})",
}
"""Suffix -> what makes a frame of such a file."""
_COMMANDS = {
    **dict.fromkeys((".csv", ".tsv"), "--labels {} --path-column path --out pets.parquet"),
    ".toml": "{}",
}
"""Suffix -> what `dfgen build-manifest` is given to make a manifest of such a file."""


def frame_of_file(path: str) -> str | None:
    """Return how a frame is made of what there is at a path, or may be; None: nothing is known."""
    suffix = os.path.splitext(path.lower().removesuffix(".gz").removesuffix(".zip"))[1]
    tree = f'df = dfgen.build_manifest("{path.partition("*")[0].rstrip("/") or "."}")'
    if os.path.isdir(path):
        command = f"dfgen build-manifest {shlex.quote(path)} --out pets.parquet"
        return f"it is a folder: make a frame of its files, {tree} ({command})"
    if "*" in path:
        return f'"*" is not expanded: make a frame of a folder, {tree}'
    if suffix == ".keras":
        return "it is a model: give the manifest of its rows, such as pets.parquet"
    if suffix in _MAKERS:
        made = _MAKERS[suffix].replace("{}", f'"{path}"')
        command = _COMMANDS.get(suffix, "").replace("{}", shlex.quote(path))
        return f"make a frame of it, df = {made}" + (
            f" (dfgen build-manifest {command})" if command else ""
        )
    format = formats_by_suffix().get(suffix)
    if format is not None:
        what = "a sound" if FORMATS[format].holds == "sound" else "an image"
        return f'it is {what}: make a frame of their paths, df = pd.DataFrame({{"path": [...]}})'
    return None


def path_of_manifest(path: Any) -> str:
    """Return the absolute path of a manifest; refuse what is no path."""
    if isinstance(path, str | os.PathLike):
        place = os.fsdecode(path)
        if not place:
            raise ArgumentError("the path of a manifest is empty, expected such as 'pets.parquet'")
        place = place if has_store(scheme_of(place)) else os.path.abspath(place)
        if is_utf8(place):
            return place
        raise ArgumentError(
            f"the path {os.fsencode(place)!r} is not UTF-8, which Parquet's readers need: rename "
            "the file or folder"
        )
    raise ArgumentError(
        f"the path of a manifest is text, such as 'pets.parquet', got {frame_of(path)}"
    )


def check_place(path: str, kind: str = "manifest") -> None:
    """Raise if a table of a `kind` cannot be written to a path, or should not be called so."""
    if not has_store(scheme_of(path)):
        check_writable(path)
    stem, suffix = os.path.splitext(path)
    if suffix.lower() in (*_MAKERS, ".db", ".html"):
        as_text = ". For text, df.to_csv does it" if suffix.lower() in (".csv", ".tsv") else ""
        raise WriteError(
            f"{path} is called {suffix}, and a {kind} is a Parquet file: name it {stem}.parquet"
            + as_text
        )


def check_out(
    path: str,
    options: StorageOptions | None = None,
    key: bytes = KEY,
    kind: str = "manifest of dfgen",
) -> None:
    """Do what `check_place` says, and refuse to replace a file without the `key` of its `kind`."""
    if key == KEY and is_in_parts(path):
        _check_folder(path)
        return
    check_place(path, kind.removesuffix(" of dfgen"))
    far = has_store(scheme_of(path))
    opened = {"opened": partial(_opened, options)} if far else {}
    refuse_others(path, kind, partial(_has_key, key), **opened)


def _check_folder(path: str) -> None:
    """Refuse a folder that holds something else than a manifest in parts, or what is left of it."""
    if has_store(scheme_of(path)):
        return
    path = path.rstrip("/")
    if not os.path.isdir(path):
        check_writable(path)
    elif not os.path.isfile(os.path.join(path, INDEX)):
        strange = [name for name in sorted(os.listdir(path)) if not _OF_PARTS.fullmatch(name)]
        if strange:
            raise WriteError(
                f"{path} is there already, and is no manifest: it holds {listed(strange)}. A "
                "manifest in parts has a folder of its own: name one that is not there yet"
            )


def _opened(options: StorageOptions | None, path: str) -> IO[bytes]:
    """Open a file far away; one that cannot be read is left to whoever writes it."""
    try:
        return store_at(path, options=options).open(path)
    except DfgenError as error:
        raise FileNotFoundError from error


def _has_key(key: bytes, file: IO[bytes]) -> bool:
    """Whether a Parquet file has a key in its metadata; one that is damaged counts as such."""
    if file.read(4) != b"PAR1":
        return False
    try:
        return key in (pq.read_schema(file).metadata or {})
    except (pa.ArrowException, OSError):
        return True


def is_manifest(path: str) -> bool:
    """Whether there is a manifest on a disk: a Parquet file with the `dfgen` key, or parts."""
    if is_in_parts(path):
        return os.path.isdir(path)
    try:
        return KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def no_manifest(given: str, path: str) -> str:
    """Return what to say where there is no manifest: of a path as given, and as it was taken."""
    folder, name = os.path.split(path)
    fault = f"there is no manifest {path}"
    if given.startswith("~"):
        return f'{fault}: "~" is not expanded, write os.path.expanduser({given!r})'
    if has_store(scheme_of(path)):
        return fault
    if "://" in given:
        return f"{fault}: it is an address. Read it with pandas, or copy it to a disk"
    if "*" in given:
        return f"{fault}: {frame_of_file(given)}"
    if not os.path.isdir(folder):
        return f"{fault}: the folder {folder} does not exist"
    hint = did_you_mean(name, os.listdir(folder))
    advice = frame_of_file(given)
    ends = [f"{fault}{hint and '.' + hint}", *([f"For such a file {advice}"] if advice else [])]
    return (" " if hint else ". ").join(ends)
