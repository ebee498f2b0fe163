"""Columns of an Arrow file, of a large manifest or a pack: ids and paths stay on the disk."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns, open_manifest
from dfgen.errors import WriteError, warn
from dfgen.limits import Limits
from dfgen.loading.state import ids_digest
from dfgen.manifest.mapped_rows import mapped_rows
from dfgen.manifest.paths import absolute_paths, ends_of, joined
from dfgen.samples.bound_feature import BoundFeature
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import is_remote
from dfgen.table.any_table import to_frame
from dfgen.table.mapped_column import MappedColumn


@dataclass(frozen=True, kw_only=True)
class MappedColumns(Columns):
    """Columns of an Arrow file; `source` is its table, with stored paths.

    Args:
        path: of the file. Its ids and paths were checked when it was written.
        begin: the absolute place where its paths start; None: they are absolute.
        digest: returns the digest of its ids.
        reopen: returns the rows that meet a condition, or None.
        attrs: of its frame.
    """

    path: str
    begin: str | None
    digest: Callable[[], str]
    reopen: Callable[[Any], "MappedColumns | None"] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> pa.Array:
        values = super().__getitem__(name)
        return values if name != "path" or self.begin is None else joined(self.begin, values)

    def head(self) -> Columns:
        """Return the columns of the first row alone."""
        return Columns(absolute_paths(self.source[:1], self.begin))

    def files(self, name: str) -> Any:
        """Return a column of files; paths stay on the disk."""
        if name != "path":
            return super().files(name)
        return MappedColumn(self.path, name, None if self.begin is None else ends_of(self.begin))

    def of_split(self, name: str, rows: Any, fold: int | None) -> Any:
        """Return the rows of a split, mapped from their own file if possible."""
        meets = pc.field("split") == name if fold is None else pc.field("fold") == fold
        meets = ~meets if fold is not None and name == "train" else meets
        found = None if self.reopen is None else self.reopen(meets)
        if found is not None:
            return found
        return absolute_paths(self.source.filter(pa.array(rows)), self.begin)

    def mapped_ids(self) -> Any:
        """Return the ids, which stay on the disk."""
        return MappedColumn(self.path, "id")

    def ids_digest(self) -> str | None:
        """Return the digest of the ids."""
        return self.digest()

    def loose_files(self, bound: BoundFeature) -> list[Any]:
        """Return some files of a feature, one of each store."""
        if not isinstance(bound.values, MappedColumn):
            return super().loose_files(bound)
        return [bound.values[:1]]

    def known_paths(self, bound: BoundFeature) -> Any:
        """Return the paths of a feature's files, None if they stay on the disk."""
        return None if isinstance(bound.values, MappedColumn) else super().known_paths(bound)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame."""
        frame = to_frame(absolute_paths(self.source, self.begin))
        frame.attrs |= self.attrs
        return frame


def open_mapped(
    manifest: object,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions | None = None,
    where: Any = None,
) -> Columns:
    """Return the columns of a manifest as `open_manifest` does; a large file is mapped."""
    if isinstance(manifest, Columns):
        return manifest
    place = os.fspath(manifest) if isinstance(manifest, str | os.PathLike) else ""
    if place and not is_remote(place) and not os.path.isdir(place):
        found = _mapped(place, root, limits, *([] if where is None else [where]))
        if found is not None:
            return found
    return open_manifest(manifest, root, limits, options, where)


def _mapped(manifest: str, root: Any, limits: Limits, *conditions: Any) -> MappedColumns | None:
    """Return the mapped columns of a manifest; None if it is not to be mapped."""
    try:
        rows = mapped_rows(manifest, root, conditions, limits)
    except WriteError as error:
        warn(f"the rows of {manifest} are read into memory, because {error}")
        return None
    if rows is None:
        return None
    begin = rows.metadata.root
    return MappedColumns(
        rows.table,
        rows.metadata.labels,
        None if root is None else begin,
        read_by=("Sequence", begin),
        file=manifest,
        path=rows.path,
        begin=begin,
        digest=partial(rows.digest_of_ids, ids_digest),
        reopen=partial(_mapped, manifest, root, limits, *conditions),
    )
