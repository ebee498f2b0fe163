"""Columns that stay on the disk, whatever the number of rows: of large manifests, and of packs."""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns, InPack, open_manifest
from dfgen.binding.image_sizes import known_sizes
from dfgen.binding.packed_image import image_of_pack
from dfgen.errors import DfgenError, ManifestError, WriteError, warn
from dfgen.limits import Limits
from dfgen.loading.state import ids_digest
from dfgen.manifest.io import read_manifest
from dfgen.manifest.mapped_rows import MappedRows, mapped_rows
from dfgen.manifest.metadata import metadata_of
from dfgen.manifest.paths import absolute_paths, absolute_place, ends_of, joined
from dfgen.packs.format import Pack, is_pack, pack_table, read_pack
from dfgen.packs.remote_shards import LocalCopies, check_sizes
from dfgen.packs.rows import PackedFiles, PackedPixels, PackRows
from dfgen.packs.shards import Shards, check_shard
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import size_of_image
from dfgen.samples.pixels.geometry import shrunk
from dfgen.spec import Spec
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import Stores, is_remote, store_at
from dfgen.table.any_table import to_frame
from dfgen.table.arrow_types import in_one, is_text
from dfgen.table.mapped_column import HeldColumn, MappedColumn

_COLUMN = "path"  # the column whose files are packed
_CHECKED = 1_000  # local shards that are opened before training, 0.2 ms each


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
    if rows is None:
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
    """Columns of rows whose files are in a pack.

    Args:
        shards: of the pack.
        rows: where the rows are.
        bad: row -> why it has no file in the pack.
        options: open the pack if it is remote.
    """

    shards: Shards
    rows: PackRows
    bad: Mapping[int, str] = field(default_factory=dict)
    options: StorageOptions | None = None

    @property
    def pack(self) -> Pack:
        """The pack."""
        return self.shards.pack

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the pack, in its order."""
        return self.rows.numbers is None

    def files(self, name: str) -> Any:
        """Return a column of files; of a whole pack the paths stay on the disk."""
        if name != _COLUMN or not self.is_whole:
            return super().files(name)
        root, folder = self.pack.dfgen["root"], self.pack.folder
        if self.root is not None:
            root, folder = self.root, ""
        return self._stored(name, None if root is None else ends_of(absolute_place(root, folder)))

    def mapped_ids(self) -> Any:
        """Return the ids of a whole pack."""
        return self._stored("id") if self.is_whole else None

    def _stored(self, name: str, ends: tuple[str, str] | None = None) -> MappedColumn:
        """Return a column of a whole pack as it is stored."""
        path = self.pack.path(self.pack.table)
        return HeldColumn(self[name], ends) if is_remote(path) else MappedColumn(path, name, ends)

    def ids_digest(self) -> str | None:
        """Return the digest that the pack has of these ids."""
        return self.pack.ids if self.is_whole else None

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame."""
        if not self.is_whole:
            return super().frame()
        return read_manifest(self.pack.folder, self.root, storage_options=self.options)

    @cached_property
    def known_sizes(self) -> Sizes | None:
        """The sizes of the upright images of all rows, by the facts of the manifest."""
        return known_sizes(self)

    def of_packs(self, feature: Feature) -> Feature:
        """Return a feature as it is made of what was packed."""
        if not isinstance(feature, Image) or feature.columns[0] != _COLUMN:
            return feature
        shape = self.pack.shape
        spec = None if shape is None else Spec(shape, np.dtype(np.uint8))
        found = image_of_pack(feature, spec, self.pack.packed)
        size = found.load_size or found.size
        if shape and size and (size[0] > shape[0] or size[1] > shape[1]) and found.like is None:
            warn(
                f"packed images of {shape[:2]} are enlarged to {size}: for more detail, pack them "
                "in this size"
            )
        return found  # type: ignore[no-any-return]

    def in_packs(self, features: Iterable[BoundFeature], store: Stores) -> dict[str, InPack]:
        """Return name of a feature -> what the pack has of it.

        Raises:
            ManifestError: something lies on a packed image whose original size is unknown.
        """
        features = tuple(features)
        followed = {bound.like for bound in features}
        ours = (b for b in features if b.feature.of_files and b.feature.columns[0] == _COLUMN)
        found = {bound.name: self._in_pack(bound, bound.name in followed, store) for bound in ours}
        return {name: part for name, part in found.items() if part is not None}

    def _in_pack(self, bound: BoundFeature, is_followed: bool, store: Stores) -> InPack | None:
        shape, resized = self.pack.shape, self.pack.packed["format"] != "original"
        whole = self._original_sizes() if is_followed and resized else None
        if shape is None:
            most = self.pack.packed["max_side"] or 0
            make = partial(PackedFiles, rows=self.rows, shards=self.shards, sizes=whole, most=most)
            sizes = None
            if bound.variable_size and bound.like is None:
                sizes = self._sizes_of_files(most, store)
            return InPack(self.rows, make, sizes=sizes, content=self._content)
        if bound.image is None or bound.like is not None:
            return None  # reads the file itself
        resize = self.pack.packed["resize"] or "stretch"
        spec = Spec(shape, np.dtype(np.uint8))
        make_pixels = partial(
            PackedPixels, rows=self.rows, shards=self.shards, spec=spec, sizes=whole, resize=resize
        )
        sizes = None
        if bound.variable_size:
            sizes = np.broadcast_to(np.array(shape[:2], np.int32), (len(self), 2))
        return InPack(self.rows, make_pixels, is_pixels=True, sizes=sizes)

    def _content(self, row: int) -> bytes:
        return self.shards.content(*self.rows.of_one(row))

    def _original_sizes(self) -> Sizes:
        if self.known_sizes is None:
            raise ManifestError(
                "boxes or masks are in pixels of the files, whose images were packed smaller, and "
                "the manifest lacks their sizes: build it with width, height and orientation and "
                'pack again, or pack with format="original"'
            )
        return self.known_sizes

    def _sizes_of_files(self, most: int, store: Stores) -> Sizes:
        """Return the sizes of packed files, by facts or else by their headers."""
        known = self.known_sizes
        sizes = np.zeros((len(self), 2), np.int32) if known is None else known.copy()
        if most:
            for row in np.flatnonzero(sizes.all(axis=1)).tolist():
                height, width = sizes[row].tolist()
                sizes[row] = shrunk((height, width), most)
        for row in np.flatnonzero(~sizes.all(axis=1)).tolist():
            with contextlib.suppress(DfgenError):  # reading it says more
                sizes[row] = size_of_image(self._content(row), store)
        return sizes

    def loose_files(self, bound: BoundFeature) -> list[Any]:
        """Return what a feature reads from files outside of the pack."""
        if not bound.feature.of_files or bound.feature.columns[0] != _COLUMN:
            return super().loose_files(bound)
        reads = self.pack.shape is not None and (bound.image is None or bound.like is not None)
        return [self.files(_COLUMN)[:1]] if reads else []

    def known_paths(self, bound: BoundFeature) -> Any:
        """Return the paths of a feature's files; None for a whole pack."""
        if bound.feature.columns[0] == _COLUMN and self.is_whole:
            return None
        return super().known_paths(bound)


def open_columns(
    manifest: object,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions | None = None,
    where: Any = None,
    pack: object = None,
    copies: tuple[str | None, int | None, int] = (None, None, 0),
) -> Columns | PackedColumns:
    """Return the columns of a manifest, as `open_manifest`, and where its rows are in a pack.

    The arguments are those of `Sequence`, and for the local copies of a remote pack the folder of
    a cache, its bound, and the bytes of a window.

    Raises:
        MissingFileError: a file of the pack is missing.
        ManifestError: it is damaged, or rows are not in the pack.
    """
    if pack is None and isinstance(manifest, str | os.PathLike) and is_pack(manifest, options):
        pack = manifest
    if pack is None:
        columns = open_mapped(manifest, root, limits, options, where)
        attrs = columns.source.attrs if isinstance(columns.source, pd.DataFrame) else {}
        packed = attrs.get("dfgen", {}).get("pack")
        if packed is not None:
            raise ManifestError(
                f"the rows were read from a pack: pass pack={packed!r} to read their pixels there, "
                'or delete df.attrs["dfgen"]["pack"] to read their files'
            )
        return columns
    index = read_pack(os.fspath(pack), options)  # type: ignore[call-overload]
    table, shards = pack_table(index, options), _opened_shards(index, limits, options, copies)
    shard_bytes = sum(file.bytes for file in index.shards) // len(index.shards)
    rows = PackRows(index.starts, None, shard_bytes)
    if manifest is pack and where is None:
        metadata = metadata_of(index.dfgen, f"{index.folder}, its dfgen")
        start = os.fspath(root) if root else None
        return PackedColumns(
            table, metadata.labels, start, shards=shards, rows=rows, options=options
        )
    columns = open_mapped(manifest, root, limits, options, where)
    rows = replace(rows, numbers=_numbers(columns, table, index))
    why = in_one(table["problem"]).take(pa.array(rows.numbers))
    bad = {row: why[row].as_py() for row in pc.indices_nonzero(pc.is_valid(why)).to_pylist()}
    return PackedColumns(
        **{one.name: getattr(columns, one.name) for one in fields(Columns)},
        shards=shards,
        rows=rows,
        bad=bad,
        options=options,
    )


def _opened_shards(
    index: Pack,
    limits: Limits,
    options: StorageOptions | None,
    copies: tuple[str | None, int | None, int],
) -> Shards:
    if not is_remote(index.folder):
        for file in index.shards[:_CHECKED]:
            check_shard(index, file)
        return Shards(index)
    store = store_at(index.folder, limits, options)
    check_sizes(index, store)
    folder, most, window = copies
    shard = max(file.bytes for file in index.shards)
    return Shards(index, LocalCopies(index, store, folder, most, 4 + 2 * window // shard))


def _numbers(columns: Columns, table: pa.Table, index: Pack) -> Any:
    """Return the rows of the pack that have the ids of some columns, and the same paths."""
    for name in ("id", _COLUMN):
        if name not in columns.names:
            raise ManifestError(f"pack= finds rows by the column {name!r}, which is missing")
    known, ids = in_one(table["id"]), columns["id"]
    if is_text(known.type) != is_text(ids.type):
        raise ManifestError(f"ids are {ids.type}, but those of the pack are {known.type}")
    found = pc.index_in(ids.cast(known.type), value_set=known)
    if found.null_count:
        row = pc.indices_nonzero(pc.is_null(found))[0].as_py()
        raise ManifestError(
            f"id={ids[row].as_py()!r} is not in the pack {index.folder}, which lacks "
            f"{found.null_count:,} of {len(ids):,} rows: pack these again, or leave them out",
            row=row,
        )
    numbers = found.to_numpy().astype(np.int64)
    stored = in_one(table[_COLUMN]).take(found)
    pairs = zip(columns[_COLUMN].to_pylist(), stored.to_pylist(), strict=True)
    differs = (row for row, (mine, end) in enumerate(pairs) if not str(mine).endswith(end))
    other = next(differs, None)
    if other is not None:
        root, theirs = index.dfgen["root"], stored[other].as_py()
        place = theirs if root is None else os.path.join(absolute_place(root, index.folder), theirs)
        raise ManifestError(
            f"id={ids[other].as_py()!r} has path={columns[_COLUMN][other].as_py()!r}, but the pack "
            f"has the file {place!r}: the ids are of another data set",
            row=other,
        )
    return numbers
