"""Rows whose files are in a pack: their columns, and the sources of their features."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import SequenceArguments, open_table
from dfgen.binding.row_sources import known_sizes
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.metadata import Metadata, metadata_of
from dfgen.manifest.paths import absolute_paths, absolute_place, ends_of, joined
from dfgen.packs.format import PATH, Pack, is_pack, pack_table, read_pack
from dfgen.packs.rows import PackedFiles, PackedPixels, PackRows, PackSource
from dfgen.packs.shards import RemoteShards, Shards, check_sizes, checked_shard
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import DEFAULT_SIZE, Image
from dfgen.samples.reader import BoundFeature
from dfgen.samples.sources import FileSource
from dfgen.spec import IntArray, Spec
from dfgen.stores.stores import is_remote, store_at
from dfgen.table.arrow_types import TEXT, MappedColumn, in_one, value_type

_CHECKED = 1_000  # local shards that are opened before training, 0.2 ms each


@dataclass(frozen=True)
class PackedRows:
    """The rows of a Sequence that are in a pack.

    Args:
        shards: of the pack.
        rows: where the rows are.
        problems: row -> why it has no file in the pack.
    """

    shards: Shards
    rows: PackRows
    problems: Mapping[int, str] = field(default_factory=dict)

    def feature(self, feature: Feature) -> Feature:
        """Return a feature as it is made of what was packed.

        By default, an Image has the size of the packed pixels. Another size is resized from them.

        Raises:
            ArgumentError: the pack cannot make this image.
        """
        if not isinstance(feature, Image) or feature.columns[0] != PATH or feature.like is not None:
            return feature
        image, packed, shape = feature, self.shards.pack.packed, self.shards.pack.shape
        mode = packed.get("color_mode")
        if mode not in (None, image.color_mode) and (shape or mode == "grayscale"):
            raise ArgumentError(
                f"{image!r} asks for color_mode={image.color_mode!r}, but the images were packed "
                f"with color_mode={mode!r}: write color_mode={mode!r}, or pack again"
            )
        if shape is None:
            return image
        if image.dtype == "uint16":
            raise ArgumentError(
                f'{image!r} asks for dtype="uint16", but packed pixels have 8 bits: leave it out, '
                'or pack with format="original"'
            )
        if image.size is DEFAULT_SIZE and image.load_size is None:
            image = replace(image, size=shape[:2])
        size = image.load_size or image.size
        if image.size is None or size != shape[:2] or image.crop == "random_resized":
            return image
        asked = ("resize", "interpolation", "antialias")
        how = {name: packed[name] for name in asked if packed.get(name) is not None}
        for name, value in how.items():
            if getattr(image, name) not in (value, getattr(Image, name)):
                raise ArgumentError(
                    f"{image!r} asks for {name}={getattr(image, name)!r}, but the images were "
                    f"packed with {name}={value!r}: write {name}={value!r}, or pack again"
                )
        return replace(image, **how)

    def sources(self, columns: Columns, features: Sequence[BoundFeature]) -> dict[str, PackSource]:
        """Return name of a feature -> its source, if it is read from the pack.

        Raises:
            ManifestError: annotations are on packed images whose original size is unknown.
        """
        packed, shape = self.shards.pack.packed, self.shards.pack.shape
        followed, sources = {bound.like for bound in features}, dict[str, PackSource]()
        for bound in features:
            if not bound.feature.of_files or bound.feature.columns[0] != PATH:
                continue
            is_image = isinstance(bound.feature, Image)
            if shape is not None and (not is_image or bound.like is not None):
                continue  # it reads the files
            original = None
            if bound.name in followed and packed.get("format") != "original":
                original = known_sizes(columns)
                if original is None:
                    raise ManifestError(
                        "boxes or masks are in pixels of the files, whose images were packed "
                        "smaller, and the manifest lacks their sizes: build it with width, height "
                        'and orientation and pack again, or pack with format="original"'
                    )
            files = FileSource(bound.feature, bound.values)
            common = files, self.rows, self.shards, original
            if shape is None:
                sources[bound.name] = PackedFiles(*common, packed.get("max_side") or 0)
            else:
                spec, resize = Spec(shape, np.dtype(np.uint8)), packed.get("resize") or "stretch"
                sources[bound.name] = PackedPixels(*common, spec, resize)
        return sources


def open_columns(arguments: SequenceArguments) -> tuple[Columns, PackedRows | None]:
    """Return the columns of the manifest, and its rows in a pack, if any.

    Raises:
        MissingFileError: a file of the pack is missing.
        ManifestError: it is damaged, or rows are not in the pack.
    """
    manifest, pack, options = arguments.manifest, arguments.pack, arguments.storage_options
    if pack is None and isinstance(manifest, str | os.PathLike) and is_pack(manifest, options):
        pack = manifest
    if pack is None:
        columns = open_table(arguments)
        packed = columns.attributes.get("pack")
        if packed is not None:
            raise ManifestError(
                f"the rows were read from a pack: pass pack={packed!r} to read their pixels there, "
                'or delete df.attrs["dfgen"]["pack"] to read their files'
            )
        return columns, None
    index = read_pack(os.fspath(pack), options)
    table, numbers = pack_table(index, options), None
    problems = dict[int, str]()
    if manifest is pack and arguments.where is None:
        columns = _columns(index, table, arguments.root)
    else:
        columns = open_table(arguments)
        numbers = _numbers(columns, table, index)
        why = in_one(table["problem"]).take(pa.array(numbers))
        bad = pc.indices_nonzero(pc.is_valid(why)).to_pylist()
        problems = {row: why[row].as_py() for row in bad}
    nbytes = sum(file.bytes for file in index.shards)
    shard_bytes, nbytes = nbytes // len(index.shards), nbytes * len(columns) // len(table)
    rows = PackRows(index.starts, numbers, shard_bytes, nbytes)
    return columns, PackedRows(_shards(index, arguments), rows, problems)


def _columns(pack: Pack, table: pa.Table, root: str | None) -> Columns:
    """Return the columns of all rows of a pack."""
    known: Metadata = metadata_of(pack.dfgen, f"{pack.folder}, its dfgen")
    begin, folder = (known.root, pack.folder) if root is None else (root, "")
    begin = None if begin is None else absolute_place(begin, folder)
    path = pack.path(pack.table)
    attributes = {**known.attributes, "root": begin, "pack": pack.folder}
    if is_remote(path):
        return Columns(absolute_paths(table, begin), attributes, root)
    ends = None if begin is None else ends_of(begin)
    stored = {"id": MappedColumn(path, "id"), PATH: MappedColumn(path, PATH, ends)}
    return Columns(table, attributes, root, stored=stored, stored_digest=lambda: pack.ids)


def _shards(pack: Pack, arguments: SequenceArguments) -> Shards:
    if not is_remote(pack.folder):
        for file in pack.shards[:_CHECKED]:
            checked_shard(pack, file)
        return Shards(pack)
    limits, cache = arguments.limits, arguments.cache
    store = store_at(pack.folder, limits, arguments.storage_options)
    check_sizes(pack, store)
    folder = None if cache in (None, "memory") else os.fspath(cache)
    windows = 4 + 2 * arguments.window // max(file.bytes for file in pack.shards)
    return RemoteShards(pack, store, folder, limits.cache_bytes, windows)


def _numbers(columns: Columns, table: pa.Table, pack: Pack) -> IntArray:
    """Return the rows of a pack that have the ids and the paths of some columns."""
    for name in ("id", PATH):
        if name not in columns.names:
            raise ManifestError(f"pack= finds rows by the column {name!r}, which is missing")
    known, ids, paths = in_one(table["id"]), columns["id"], columns[PATH]
    if (known.type in TEXT) != (ids.type in TEXT):
        raise ManifestError(f"ids are {ids.type}, but those of the pack are {known.type}")
    places = pc.index_in(ids.cast(known.type), value_set=known)
    if places.null_count:
        row = pc.indices_nonzero(pc.is_null(places))[0].as_py()
        raise ManifestError(
            f"id={ids[row].as_py()!r} is not in the pack {pack.folder}, which lacks "
            f"{places.null_count:,} of {len(ids):,} rows: pack these again, or leave them out",
            row=row,
        )
    stored, root = in_one(table[PATH]).take(places), pack.dfgen.get("root")
    whole = stored if root is None else joined(absolute_place(root, pack.folder), stored)
    paths = paths.cast(value_type(paths.type))
    is_other = (
        pc.not_equal(paths, whole) if paths.type in TEXT else pa.nulls(len(paths), pa.bool_())
    )
    # few: a loop over a million rows takes 2 s
    for row in pc.indices_nonzero(is_other.fill_null(True)).to_pylist():
        path, end = (str(one[row].as_py()).partition("::")[0] for one in (paths, stored))
        if path != end and not path.endswith(f"/{end}"):
            raise ManifestError(
                f"id={ids[row].as_py()!r} has path={paths[row].as_py()!r}, but the pack has the "
                f"file {whole[row].as_py()!r}: the ids are of another data set",
                row=row,
            )
    return np.asarray(places, np.int64)
