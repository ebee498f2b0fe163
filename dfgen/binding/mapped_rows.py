"""Rows of a manifest in parts, whose columns stay on the disk however many there are."""

import os
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd
import pyarrow as pa

from dfgen.binding.frame_columns import Columns
from dfgen.limits import Limits
from dfgen.loading.state import ids_digest
from dfgen.manifest.column_files import ColumnFiles
from dfgen.manifest.io import read_manifest
from dfgen.manifest.table_reading import column_files
from dfgen.packs.pack_index import PLACES
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import examples_of_schemes
from dfgen.table.arrow_types import is_text
from dfgen.table.mapped_column import MappedColumn


@dataclass(frozen=True, kw_only=True)
class MappedColumns(Columns):
    """Columns of a manifest in parts.

    Args:
        source: the files of the columns.
        options: open a remote manifest.
    """

    options: StorageOptions | None = None

    @property
    def rows(self) -> ColumnFiles:
        """The files of the columns."""
        return cast("ColumnFiles", self.source)

    def first(self, name: str) -> pa.Array:
        """Return the first row of a column."""
        return self.rows.part(name, 0, 1)

    def files(self, name: str) -> Any:
        """Return a column of files; paths stay on the disk, as the parts were checked."""
        if name == "path" and is_text(self.rows.schema.field(name).type):
            return self.rows.paths()
        return super().files(name)

    def mapped_ids(self) -> Any:
        """Return the ids, which were checked when the manifest was written."""
        return self.rows.stored("id")

    def ids_digest(self) -> str | None:
        """Return the digest of the ids, which is made once."""
        return self.rows.digest_of_ids(ids_digest)

    def loose_files(self, bound: BoundFeature) -> list[Any]:
        """Return some files of a feature, one of each store."""
        if not isinstance(bound.values, MappedColumn):
            return super().loose_files(bound)
        if self.rows.root is not None:
            return [bound.values.take([0])]
        return [examples_of_schemes(bound.values.array)]

    def known_paths(self, bound: BoundFeature) -> Any:
        """Return the paths of a feature's files, None where they stay on the disk."""
        return None if isinstance(bound.values, MappedColumn) else super().known_paths(bound)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame."""
        given = self.options.values() if self.options else None
        index, where = self.rows.index, self.rows.chosen.where
        return read_manifest(index.folder, self.rows.root, storage_options=given, where=where)


def open_parts(
    manifest: str,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions,
    where: Any = None,
) -> MappedColumns | None:
    """Return the columns of a manifest in parts, of which no row is read here.

    None: its rows must be looked at, as a root was given for absolute paths, or they lie in packs.
    """
    source, metadata = column_files(manifest, root, limits, options, where)
    if (root is not None and source.root is None) or {*PLACES} <= {*source.column_names}:
        return None
    return MappedColumns(
        source,
        metadata["labels"],
        None if root is None else source.root,
        read_by=("Sequence", source.root),
        file=source.index.folder,
        leaks=metadata.get("leaks"),
        options=options,
    )
