"""Opens the table of a Sequence: a frame, another table, or a manifest file."""

import os
from functools import partial

import pandas as pd

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, WriteError, brief, column_list, warn
from dfgen.loading.state import ids_digest
from dfgen.manifest.mapped_rows import mapped_rows
from dfgen.manifest.paths import absolute_place, is_address
from dfgen.manifest.table_reading import read_table
from dfgen.stores.archives import archive_at
from dfgen.stores.stores import is_remote
from dfgen.table.any_table import TAKEN, arrow_table, is_table
from dfgen.table.arrow_types import check_names


def open_table(arguments: SequenceArguments) -> Columns:
    """Return the columns of a frame (copied), of another table, or of a manifest file.

    Raises:
        ManifestError: there is no table, it has no rows, or names of columns are not unique text.
        ArgumentError: `where=` needs a manifest file, not a table in memory.
    """
    manifest = arguments.manifest
    is_path = isinstance(manifest, str | os.PathLike)
    if arguments.where is not None and not is_path:
        raise ArgumentError(
            f"where={brief(arguments.where)} filters a manifest file, but the manifest is a "
            f"{type(manifest).__name__}: filter it before, df.query(...)"
        )
    if isinstance(manifest, Columns):
        return manifest
    if is_path:
        columns = _mapped(arguments) or _read(arguments)
    elif isinstance(manifest, pd.DataFrame):
        known = manifest.attrs.get("dfgen", {})
        columns = Columns(manifest.copy(), known, root=_start(arguments.root))
    elif is_table(manifest):
        columns = Columns(arrow_table(manifest, "the manifest"), root=_start(arguments.root))
    else:
        raise ManifestError(
            f"the manifest must be {TAKEN}, or the path of a manifest, got {brief(manifest)}"
        )
    check_names(columns.names, "the manifest")
    if not len(columns):
        raise ManifestError(
            f"the manifest has no rows (columns: {column_list(columns.names)}): was it filtered by "
            "a value that does not occur?"
        )
    return columns


def _start(root: str | os.PathLike[str] | None) -> str | None:
    start = os.fspath(root) if root else None
    return absolute_place(start) if start and (archive_at(start) or is_address(start)) else start


def _read(arguments: SequenceArguments) -> Columns:
    """Return the columns of a manifest file, read into memory."""
    path, options = os.fspath(arguments.manifest), arguments.storage_options
    table, metadata = read_table(
        path, arguments.root, limits=arguments.limits, options=options, where=arguments.where
    )
    return Columns(table, metadata.attributes, _start(arguments.root), path)


def _mapped(arguments: SequenceArguments) -> Columns | None:
    """Return the memory-mapped columns of a large manifest; None if it is to be read."""
    path, where = os.fspath(arguments.manifest), arguments.where
    if is_remote(path) or os.path.isdir(path):
        return None
    try:
        conditions = () if where is None else (where,)
        rows = mapped_rows(path, arguments.root, conditions, arguments.limits)
    except WriteError as error:
        warn(f"the rows of {path} are read into memory, because {error}")
        return None
    if rows is None:
        return None
    root = None if arguments.root is None else rows.metadata.root
    names = (name for name in ("id", "path") if name in rows.table.column_names)
    stored = {name: rows.column(name) for name in names}
    digest = partial(rows.digest_of_ids, ids_digest)
    return Columns(rows.table, rows.metadata.attributes, root, path, stored, digest)
