"""The path of a manifest, and files that it must not replace."""

import os
import re
from functools import partial
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, DfgenError, WriteError, brief
from dfgen.explain.missing import near_name
from dfgen.files import check_writable, refuse_others
from dfgen.manifest.metadata import KEY
from dfgen.manifest.paths import is_utf8
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of, store_at

_OTHERS = re.compile(
    r"\.(csv|tsv|txt|xlsx|jsonl?|xml|ya?ml|toml|pkl|feather|arrow|np[yz]|h5|hdf5|keras|db|html)",
    re.IGNORECASE,
)
"""Suffixes of other kinds of files."""


def path_of_manifest(path: Any) -> str:
    """Return the absolute path of a manifest, or its URL."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"the path of a manifest is text, such as 'pets.parquet', got {brief(path)}"
        )
    place = os.fsdecode(path)
    place = place if has_store(scheme_of(place)) else os.path.abspath(place)
    if not is_utf8(place):
        raise ArgumentError(
            f"the path {os.fsencode(place)!r} is not UTF-8, which Parquet's readers need: rename "
            "the file or folder"
        )
    return place


def missing_manifest(path: str) -> str:
    """Return the message for a path without a file."""
    near = "" if has_store(scheme_of(path)) else near_name(path)
    return f"there is no manifest {path}.{near}".rstrip(".")


def check_out(path: str, options: StorageOptions | None = None) -> None:
    """Raise a WriteError if a manifest cannot be written to a path, or another file is there."""
    far = has_store(scheme_of(path))
    if not far:
        check_writable(path)
    stem, suffix = os.path.splitext(path)
    if _OTHERS.fullmatch(suffix):
        raise WriteError(
            f"{path} is called {suffix}, and a manifest is a Parquet file: name it {stem}.parquet"
        )
    opened = {"opened": partial(_opened, options)} if far else {}
    refuse_others(path, "manifest of dfgen", _has_key, **opened)


def _opened(options: StorageOptions | None, path: str) -> IO[bytes]:
    """Open a remote file; errors of reading are left to the writer."""
    try:
        return store_at(path, options=options).begin(path)[1]
    except DfgenError as error:
        raise FileNotFoundError from error


def _has_key(file: IO[bytes]) -> bool:
    """Whether a Parquet file is a manifest; a damaged one counts as such."""
    if file.read(4) != b"PAR1":
        return False
    try:
        return KEY in (pq.read_schema(file).metadata or {})
    except (pa.ArrowException, OSError):
        return True
