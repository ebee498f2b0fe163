"""Rows of a manifest in parts, whose columns stay on the disk however many there are."""

import os
from dataclasses import dataclass, replace
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns, open_manifest
from dfgen.limits import Limits
from dfgen.loading.state import ids_digest
from dfgen.manifest.column_files import ColumnFiles
from dfgen.manifest.io import read_manifest
from dfgen.manifest.table_reading import column_files
from dfgen.packs.pack_index import PLACES, is_in_parts
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

    def of_split(self, name: str, rows: Any, fold: int | None) -> Any:
        """Return the rows of a split, mapped from files of their own."""
        column = "split" if fold is None else "fold"
        meets = pc.field(column) == (name if fold is None else fold)
        chosen = ~meets if fold is not None and name == "train" else meets
        return replace(self, source=self.rows.only(chosen, column), whole=False, kept={})

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


def open_mapped(
    manifest: object,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions | None = None,
    where: Any = None,
) -> Columns:
    """Return the columns of a manifest, as `open_manifest`; of one in parts no row is read here.

    Unless its rows must be looked at, as a root was given for absolute paths, or they lie in packs.
    """
    if isinstance(manifest, Columns):
        return manifest
    if not isinstance(manifest, str | os.PathLike) or not is_in_parts(os.fspath(manifest)):
        return open_manifest(manifest, root, limits, options, where)
    options = options or StorageOptions()
    source, metadata = column_files(os.fspath(manifest), root, limits, options, where)
    if (root is not None and source.root is None) or {*PLACES} <= {*source.column_names}:
        return open_manifest(manifest, root, limits, options, where)
    return MappedColumns(
        source,
        metadata["labels"],
        None if root is None else source.root,
        read_by=("Sequence", source.root),
        file=source.index.folder,
        leaks=metadata.get("leaks"),
        options=options,
    )
