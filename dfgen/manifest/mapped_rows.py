"""The rows of a large manifest, memory-mapped from one Arrow IPC file in the cache folder.

The file is made when the manifest is first opened, and again if the manifest, its root or the
conditions change. Processes that open the manifest together may make it twice; the last one stays.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.ipc

from dfgen.files import write_whole
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.fingerprint import RunningDigest, hashed_columns
from dfgen.manifest.metadata import Metadata
from dfgen.manifest.paths import check_stored_paths, ends_of
from dfgen.manifest.schema import check_table, refuse_repeated
from dfgen.manifest.table_reading import ManifestFile, opened_manifest, root_given, warn_of_change
from dfgen.manifest.where import condition_of
from dfgen.table.mapped_column import MappedColumn

LEAST_ROWS = 100_000
"""Manifests with fewer rows are read into memory, which takes no longer than to map them."""
_FORMAT = 1
_KEPT = 8  # files that are never removed
_UNUSED = 7 * 86_400  # seconds after which other files are removed


class MappedRows:
    """The rows of a manifest that meet some conditions, in the Arrow file `path`.

    The root of the metadata is absolute.
    """

    def __init__(self, manifest: str, path: str, metadata: Metadata) -> None:
        self.manifest, self.path, self.metadata = manifest, path, metadata

    @cached_property
    def table(self) -> pa.Table:
        """All columns, with stored paths."""
        with pa.memory_map(self.path) as mapped, pa.ipc.open_file(mapped) as reader:
            return reader.read_all()

    def column(self, name: str) -> MappedColumn:
        """Return a column; paths are absolute."""
        root = self.metadata.root if name == "path" else None
        return MappedColumn(self.path, name, None if root is None else ends_of(root))

    def digest_of_ids(self, make: Callable[[Any], str]) -> str:
        """Return `make(ids)`, which is stored beside the Arrow file."""
        path = f"{self.path}.ids"
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            return file.read()
        digest = make(self.column("id"))
        with contextlib.suppress(OSError):
            write_whole(path, lambda file: file.write(digest.encode()))
        return digest


def mapped_rows(
    manifest: str | os.PathLike[str],
    root: str | os.PathLike[str] | None,
    conditions: Sequence[Any] = (),
    limits: Limits = DEFAULT,
) -> MappedRows | None:
    """Return the rows of a manifest on a disk that meet all conditions.

    Returns None if the manifest is small, or if absolute paths must be compared with a root.
    """
    with opened_manifest(manifest, limits) as file:
        known = file.metadata
        is_absolute = root is not None and known.root is None
        if file.file.metadata.num_rows < LEAST_ROWS or is_absolute:
            return None
        begin = root_given(root, known.root, file.path)
        status = os.stat(file.path)
        state = (status.st_size, status.st_mtime_ns, known.fingerprint, begin)
        key = repr((_FORMAT, file.path, state, [str(where) for where in conditions]))
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.path.join(cache, "dfgen", "rows")
        path = os.path.join(folder, f"{blake2b(key.encode(), digest_size=16).hexdigest()}.arrow")
        if not _is_usable(path):
            with contextlib.suppress(OSError):  # writing says why
                os.makedirs(folder, exist_ok=True)
            write_whole(path, lambda target: _convert(file, begin, conditions, target))
            _remove_unused(folder)
    return MappedRows(file.path, path, msgspec.structs.replace(known, root=begin))


def _is_usable(path: str) -> bool:
    """Whether there is a whole file; note that it was used."""
    try:
        with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped):
            os.utime(path)
            return True
    except (OSError, pa.ArrowException):
        return False


def _convert(file: ManifestFile, root: str | None, conditions: Sequence[Any], target: Any) -> None:
    """Write the rows of a manifest that meet all conditions into an open Arrow file."""
    schema = file.schema.remove_metadata()
    asked = [condition_of(where, file.empty) for where in conditions]
    digest, ids = RunningDigest(schema, hashed_columns(schema.names)), list[pa.Array]()
    with pa.ipc.new_file(target, schema) as writer:
        for table in file.chosen(schema.names, [one for one in asked if one], root):
            check_table(table, file.path)
            check_stored_paths(table, root, file.path)
            ids += table["id"].chunks
            if not conditions:
                digest.update(table)
            writer.write_table(table)
    if not conditions and digest.hexdigest() == file.metadata.fingerprint:
        return  # the ids were unique when dfgen wrote them
    refuse_repeated(pa.chunked_array(ids, schema.field("id").type), file.path)
    if not conditions:
        warn_of_change(file.path)


def _remove_unused(folder: str) -> None:
    """Remove files that were not used for long, except the last ones."""
    files = [(one.stat().st_mtime, one.path) for one in os.scandir(folder)]
    files = sorted((one for one in files if one[1].endswith(".arrow")), reverse=True)
    for used, path in files[_KEPT:]:
        if used < time.time() - _UNUSED:
            for name in (path, f"{path}.ids"):
                with contextlib.suppress(OSError):
                    os.unlink(name)
