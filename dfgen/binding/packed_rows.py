"""Columns that stay on the disk, whatever the number of rows: of large manifests, and of packs."""

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns, InPacks, open_manifest
from dfgen.binding.image_sizes import known_sizes
from dfgen.binding.packed_image import image_of_pack
from dfgen.errors import DfgenError, ManifestError, WriteError, warn
from dfgen.limits import Limits
from dfgen.loading.state import ids_digest
from dfgen.manifest.io import read_manifest
from dfgen.manifest.mapped_rows import MappedRows, mapped_rows
from dfgen.manifest.metadata import metadata_of
from dfgen.manifest.path_roots import absolute_place, ends_of, joined
from dfgen.manifest.paths import absolute_paths
from dfgen.packs.named_packs import Opening, Packs, packs_of_columns, packs_of_folder
from dfgen.packs.pack_index import PLACES, PackIndex, looks_like_pack, mapped_table, read_index
from dfgen.packs.pack_shards import NOTHING
from dfgen.packs.packed_pixels import PackedFiles, PackedPixels, SmallerFiles
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.features.base import Feature, value_of
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import size_of_image
from dfgen.samples.pixels.geometry import Size, shrunk
from dfgen.spec import Present
from dfgen.stores.store import StorageOptions, Store
from dfgen.stores.stores import is_remote
from dfgen.table.any_table import to_frame
from dfgen.table.file_columns import FILE
from dfgen.table.mapped_column import HeldColumn, MappedColumn


@dataclass(frozen=True, kw_only=True)
class MappedColumns(Columns):
    """Columns of a large manifest; `source` has stored paths.

    Args:
        rows: the mapped file.
        conditions: the conditions that its rows meet.
        reopen: opens the same manifest with other conditions.
    """

    rows: MappedRows
    conditions: tuple[Any, ...]
    reopen: Callable[[tuple[Any, ...]], "MappedColumns | None"]

    def __getitem__(self, name: str) -> pa.Array:
        values = super().__getitem__(name)
        root = self.rows.metadata.root
        return joined(root, values) if name == "path" and root is not None else values

    def head(self) -> Columns:
        """Return the columns of the first row alone."""
        return Columns(self._absolute(self.source[:1]))

    def _absolute(self, table: pa.Table) -> pa.Table:
        return absolute_paths(table, self.rows.metadata.root)

    def files(self, name: str) -> Any:
        """Return a column of files; paths stay on the disk, and were checked when mapped."""
        return self.rows.column(name) if name == "path" else super().files(name)

    def of_split(self, name: str, rows: Any, fold: int | None) -> Any:
        """Return the rows of a split, mapped from their own file."""
        meets = pc.field("split") == name if fold is None else pc.field("fold") == fold
        meets = ~meets if fold is not None and name == "train" else meets
        found = self.reopen((*self.conditions, meets))
        return self._absolute(self.source.filter(pa.array(rows))) if found is None else found

    def mapped_ids(self) -> Any:
        """Return the ids, which were checked when mapped."""
        return self.rows.column("id")

    def ids_digest(self) -> str | None:
        """Return the digest of the ids, which is computed once."""
        return self.rows.digest_of_ids(ids_digest)

    def loose_files(self, bound: BoundFeature) -> list[Any]:
        """Return some files of a feature, one of each store."""
        if not isinstance(bound.values, MappedColumn):
            return super().loose_files(bound)
        if self.rows.metadata.root is not None:
            return [bound.values.take([0])]
        return [bound.values.stored[:1]]

    def known_paths(self, bound: BoundFeature) -> Any:
        """Return the paths of a feature's files, None if they stay on the disk."""
        return None if isinstance(bound.values, MappedColumn) else super().known_paths(bound)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame."""
        return to_frame(self._absolute(self.source))


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
    if isinstance(manifest, str | os.PathLike) and not is_remote(os.fspath(manifest)):
        found = _mapped(os.fspath(manifest), root, limits, () if where is None else (where,))
        if found is not None:
            return found
    return open_manifest(manifest, root, limits, options, where)


def _mapped(
    manifest: str, root: Any, limits: Limits, conditions: tuple[Any, ...]
) -> MappedColumns | None:
    """Return the mapped columns of a manifest; None if it is not to be mapped."""
    if os.path.isdir(manifest):
        return None
    try:
        rows = mapped_rows(manifest, root, conditions, limits)
    except WriteError as error:
        warn(f"the rows of {manifest} are read into memory, because {error}")
        return None
    if rows is None or {*PLACES} <= {*rows.table.column_names}:
        return None
    return MappedColumns(
        rows.table,
        rows.metadata.labels,
        None if root is None else rows.metadata.root,
        read_by=("Sequence", rows.metadata.root),
        file=manifest,
        rows=rows,
        conditions=conditions,
        reopen=partial(_mapped, manifest, root, limits),
    )


@dataclass(frozen=True, kw_only=True)
class PackedColumns(Columns):
    """Columns of rows of which some or all lie in packs.

    Args:
        packs: where they lie.
        options: open a whole pack that is far away.
    """

    packs: Packs
    options: StorageOptions | None = None

    def files(self, name: str) -> Any:
        """Return a column of files: what was packed as files, as such; of pixels the paths."""
        if name not in self.packs.packed:
            return super().files(name)
        index = self.packs.index
        if index is None:
            paths = super().files(name)
        else:
            root, folder = index.dfgen["root"], index.folder
            if self.root is not None:
                root, folder = self.root, ""
            ends = None if root is None else ends_of(absolute_place(root, folder))
            paths = self._stored(index, name, ends)
        if self.packs.is_pixels(name):
            return paths
        return PackedFiles(paths, self.packs.rows, self.packs.shards(name))

    def mapped_ids(self) -> Any:
        """Return the ids of a whole pack."""
        index = self.packs.index
        return None if index is None else self._stored(index, "id")

    def _stored(
        self, index: PackIndex, name: str, ends: tuple[str, str] | None = None
    ) -> MappedColumn:
        """Return a column of a whole pack as it is stored."""
        path = index.path(index.table)
        return HeldColumn(self[name], ends) if is_remote(path) else MappedColumn(path, name, ends)

    def ids_digest(self) -> str | None:
        """Return the digest that the pack has of these ids."""
        return None if self.packs.index is None else self.packs.index.ids

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame; of a whole pack with `shard` and `row`."""
        index = self.packs.index
        if index is None:
            return super().frame()
        given = self.options
        return read_manifest(index.folder, self.root, storage_options=given)

    @cached_property
    def known_sizes(self) -> Sizes | None:
        """The sizes of the upright images of all rows, by the facts of the manifest."""
        return known_sizes(self)

    def _holds(self, feature: Feature) -> bool:
        return feature.of_files and feature.columns[0] in self.packs.packed

    def of_packs(self, feature: Feature) -> Feature:
        """Return a feature as it is made of what was packed."""
        if not isinstance(feature, Image) or not self._holds(feature):
            return feature
        name = feature.columns[0]
        spec = self.packs.specs.get(name)
        found = image_of_pack(feature, spec, self.packs.packed[name])
        size = found.load_size or found.size
        if spec is not None and _is_larger(size, spec.shape[:2]) and found.like is None:
            warn(
                f"the images of {name!r} were packed with image_size={spec.shape[:2]} and are "
                f"enlarged to {size}: for more detail, pack them in this size"
            )
        return found  # type: ignore[no-any-return]

    def in_packs(self, features: Iterable[BoundFeature], store: Store) -> dict[str, InPacks]:
        """Return name of a feature -> what packs hold of it.

        Raises:
            ManifestError: something lies on a packed image whose size nothing tells.
        """
        features = tuple(features)
        followed = {bound.like for bound in features}
        found = {
            bound.name: _from_packs(self, bound, bound.name in followed, store)
            for bound in features
            if self._holds(bound.feature)
        }
        return {name: held for name, held in found.items() if held is not None}

    def loose_files(self, bound: BoundFeature) -> list[Any]:
        """Return what a feature reads from files that lie in no pack; of pixels no bytes."""
        if not self._holds(bound.feature):
            return super().loose_files(bound)
        packs, name = self.packs, bound.feature.columns[0]
        found = [] if packs.is_pixels(name) else [pa.array([], FILE)]
        if packs.is_pixels(name) and not _takes(bound):
            return [*found, self.files(name)[:1]]
        if packs.rows.all_packed:
            return found
        return [*found, super().files(name).filter(pa.array(~packs.rows.packed))]

    def known_paths(self, bound: BoundFeature) -> Any:
        """Return the paths of a feature's files, None of a whole pack."""
        if not self._holds(bound.feature):
            return super().known_paths(bound)
        return None if self.packs.index is not None else super().files(bound.feature.columns[0])


def open_columns(
    manifest: object,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions | None = None,
    window: int = 0,
    where: Any = None,
) -> Columns | PackedColumns:
    """Return the columns of a manifest, as `open_manifest`, and where its rows lie in packs.

    A pack is mapped into memory: its rows are not read here. `window` is that of rows of remote
    packs, in bytes; `where` is a condition on rows.

    Raises:
        MissingFileError: a file of a pack is missing.
        ManifestError: one is damaged, or rows are not those of the pack.
    """
    opening = Opening(options, limits, window)
    path = os.fspath(manifest) if isinstance(manifest, str | os.PathLike) else None
    if path is not None and where is None and looks_like_pack(path, options):
        index = read_index(path, options)
        metadata = metadata_of(index.dfgen, f"{index.path(index.table)}, its dfgen")
        packs = packs_of_folder(index, opening)
        return PackedColumns(
            mapped_table(index, options=options).replace_schema_metadata(),
            root=os.fspath(root) if root else None,
            labels=metadata.labels,
            packs=packs,
            options=options,
        )
    columns = open_mapped(manifest, root, limits, options, where)
    if isinstance(columns, MappedColumns):
        return columns
    packs_named = packs_of_columns(columns, opening)
    return columns if packs_named is None else PackedColumns(**vars(columns), packs=packs_named)


def _is_larger(size: Size | None, packed: tuple[int | None, ...]) -> bool:
    """Whether an image has more rows or columns than what was packed of its file."""
    sizes = zip(size or (), packed, strict=False)
    return any(there is not None and wanted > there for wanted, there in sizes)


def _takes(bound: BoundFeature) -> bool:
    """Whether a feature is made of packed pixels: one that follows another reads the file."""
    return bound.image is not None and bound.like is None


def _from_packs(
    columns: PackedColumns, bound: BoundFeature, is_followed: bool, store: Store
) -> InPacks | None:
    packs, name = columns.packs, bound.feature.columns[0]
    rows, spec, how = packs.rows, packs.specs.get(name), packs.packed[name]
    if spec is None:
        own_sizes = bound.variable_size and bound.like is None
        smaller = None
        if is_followed and how["format"] == "jpeg":
            smaller = SmallerFiles(rows, _original_sizes(columns, name), how["max_side"])
        sizes = _sizes_of_files(columns, bound, store) if own_sizes else None
        return InPacks(rows, smaller, sizes)
    if not _takes(bound):
        return None
    whole = _original_sizes(columns, name) if is_followed and None not in spec.shape else None
    sizes = _sizes_of_pixels(columns, bound, store) if bound.variable_size else None
    pixels = PackedPixels(packs.shards(name), rows, spec, whole, how["resize"] or "stretch")
    return InPacks(rows, pixels, sizes)


def _original_sizes(columns: PackedColumns, name: str) -> Sizes:
    if columns.known_sizes is None:
        raise ManifestError(
            f"boxes or masks lie on the images of {name!r}, in pixels of the files, but these were "
            "packed smaller, and the manifest has not the facts of files: build it with width, "
            'height and orientation and pack again, or pack with format="original"'
        )
    return columns.known_sizes


def _sizes_of_files(columns: PackedColumns, bound: BoundFeature, store: Store) -> Sizes:
    """Return the sizes of packed files of `size=None`."""
    how, rows = columns.packs.packed[bound.feature.columns[0]], columns.packs.rows
    told = columns.known_sizes
    sizes = np.zeros((len(columns), 2), np.int32) if told is None else told.copy()
    packed = np.flatnonzero(rows.packed)
    if how["format"] == "jpeg":
        known = packed[sizes[packed].all(axis=1)]
        pairs, inverse = np.unique(sizes[known], axis=0, return_inverse=True)
        smaller = [shrunk((h, w), how["max_side"]) for h, w in pairs.tolist()]
        sizes[known] = np.array(smaller, np.int32).reshape(-1, 2)[inverse.reshape(-1)]
    return _with_headers(sizes, bound, np.ones(len(columns), np.bool_), store)


def _with_headers(sizes: Sizes, bound: BoundFeature, rows: Present, store: Store) -> Sizes:
    """Return sizes with those that the headers of files tell, of rows that have none."""
    for row in np.flatnonzero(rows & ~sizes.all(axis=1)).tolist():
        with contextlib.suppress(DfgenError):  # reading it tells more
            sizes[row] = size_of_image(value_of(bound.values, row), store)
    return sizes


def _sizes_of_pixels(columns: PackedColumns, bound: BoundFeature, store: Store) -> Sizes:
    """Return the sizes of packed pixels of `size=None`."""
    packs, name = columns.packs, bound.feature.columns[0]
    spec, rows = packs.specs.get(name), packs.rows
    if spec is not None and None not in spec.shape and rows.all_packed:
        return np.broadcast_to(np.array(spec.shape[:2], np.int32), (len(columns), 2))
    known = columns.known_sizes
    sizes = np.zeros((len(columns), 2), np.int32) if known is None else known.copy()
    shards = packs.shards(name)
    numbers, places = rows.of(np.arange(len(columns)))
    order = np.argsort(numbers, kind="stable")
    used, firsts = np.unique(numbers[order], return_index=True)
    for shard, here in zip(used.tolist(), np.split(order, firsts[1:]), strict=False):
        if shard == NOTHING:
            continue
        opened = shards[shard]
        shapes = getattr(opened, "shapes", None)
        if shapes is None:
            shapes = np.broadcast_to(opened.pixels.shape[1:], (len(opened.pixels), 3))
        sizes[here] = shapes[places[here], :2]
    return _with_headers(sizes, bound, ~rows.packed, store)
