"""The plan of a pack: the rows of each shard, and the identity of the pack."""

import os
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.binding.row_problems import known_problems, look_for_files
from dfgen.binding.row_sources import sizes_of_rows
from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import ArgumentError, ManifestError, reason
from dfgen.limits import Limits
from dfgen.loading.order.draws import permutation
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import stat_files
from dfgen.manifest.metadata import Metadata, columns_digest
from dfgen.manifest.paths import absolute_place, joined
from dfgen.manifest.schema import with_column
from dfgen.manifest.table_reading import read_table
from dfgen.manifest.writing import as_written
from dfgen.packing.packers import PackArguments
from dfgen.packing.write_shard import ShardTask
from dfgen.packs.format import PATH, in_pack, is_pack
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundFeature, SampleReader
from dfgen.spec import IntArray
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import store_of
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import TEXT

_SIZES = ("width", "height", "orientation")


@dataclass(frozen=True)
class PackPlan:
    """The rows of each shard.

    Args:
        folder: the absolute path of the pack.
        metadata: of the manifest.
        whole: all rows of it, in its own order, as one task.
        order: the row of the manifest at each place of the pack.
        starts: the first place of each shard, and the number of rows.
        identity: equal identities make equal packs.
    """

    folder: str
    metadata: Metadata
    whole: ShardTask
    order: IntArray
    starts: IntArray
    identity: dict[str, Any]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def path(self, shard: int) -> str:
        """Return the path of a shard's file."""
        return in_pack(self.folder, f"shard-{shard:05}.arrow")

    def task(self, shard: int, id: str) -> ShardTask:
        """Return the task that writes a shard of the pack with this id."""
        rows, whole = self.order[self.starts[shard] : self.starts[shard + 1]], self.whole
        places, path = pa.array(rows), self.path(shard)
        return replace(
            whole,
            path=path,
            rows=whole.rows.take(places),
            contents=whole.contents.take(places),
            sizes=None if whole.sizes is None else whole.sizes[rows],
            identity={"id": id, "file": os.path.basename(path), "plan": self.identity},
        )


def make_plan(
    manifest: Table | str | os.PathLike[str],
    folder: str,
    arguments: PackArguments,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions,
) -> PackPlan:
    """Return the plan of a pack; it reads headers if facts are unknown.

    Raises:
        ManifestError: the manifest cannot be packed.
        MissingFileError: all files that are looked for are missing.
    """
    table, metadata = _stored(manifest, folder, root, limits, options)
    _check(table, metadata, arguments)
    contents = table[PATH]
    if metadata.root is not None:
        start = absolute_place(metadata.root, folder)
        contents = joined(start, contents.cast(pa.large_string()))
    columns = Columns(with_column(table, PATH, contents))
    bound = BoundFeature(PATH, Image(PATH, size=None), columns.files(PATH))
    store, bad = store_of([bound.values], limits, options), known_problems(columns)
    look_for_files(columns, SampleReader(table["id"], (bound,), None, store), bad, skips=True)
    sizes = None
    if arguments.format != "original" and arguments.image_size is None:
        sizes, errors = sizes_of_rows(columns, bound, None, store)
        bad = {row: reason(error) for row, error in errors.items()} | bad
        if not sizes.any():
            first = next(iter(bad.items()), (0, "its header has no size"))
            raise ManifestError(f"no row has an image to pack: row {first[0]}: {first[1]}")
    one_size = None
    if sizes is not None and arguments.format == "pixels":
        one_size = _one_size(columns, sizes)
    packer = arguments.packer(one_size)
    known = whole_column(columns, "bytes")
    files = known
    if arguments.format == "original" and files is None:
        files = stat_files(bound.values, Access(options=options))["bytes"].to_numpy()
    nbytes = packer.nbytes(sizes, files, len(table))
    order = permutation(np.arange(len(table)), len(table), seed=arguments.seed, epoch=0, tag="pack")
    starts = _starts(nbytes[order], arguments.nbytes)
    noted = pa.array([bad.get(row) for row in range(len(table))], pa.string())
    table = with_column(table, "problem", noted)
    identity = _identity(table, metadata, arguments, starts)
    whole = ShardTask(folder, table, bound.values, known, packer, limits, options, {})
    return PackPlan(folder, metadata, whole, order, starts, identity)


def _stored(
    manifest: Any,
    folder: str,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions,
) -> tuple[pa.Table, Metadata]:
    """Return the columns of a manifest as they are stored, relative to the folder of the pack."""
    packed = getattr(manifest, "attrs", {}).get("dfgen", {}).get("pack")
    if packed or is_pack(manifest, options):
        raise ManifestError(
            f"{packed or os.fspath(manifest)} is a pack: pack the manifest it was made from"
        )
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(os.fspath(manifest), root, limits=limits, options=options)
        known, root = metadata.attributes, None
    else:
        table, known = arrow_table(manifest), getattr(manifest, "attrs", {}).get("dfgen", {})
    table, metadata = as_written(table, known, folder, root)
    return table.combine_chunks(), metadata


def _check(table: pa.Table, metadata: Metadata, arguments: PackArguments) -> None:
    if not len(table):
        raise ManifestError("the manifest has no rows: there is nothing to pack")
    if (
        PATH not in table.column_names
        or table[PATH].type not in TEXT
        or "index" in table.column_names
    ):
        raise ManifestError(
            f"pack needs a column {PATH!r} of files: write bytes of a table to files first, and "
            "train on rows of array files as they are"
        )
    boxes = [name for name, label in metadata.labels.items() if "box_format" in label]
    missing = [name for name in _SIZES if name not in table.column_names]
    if boxes and missing and arguments.format != "original":
        raise ManifestError(
            f"column {boxes[0]!r} has boxes in pixels of the files, and format="
            f'"{arguments.format}" resizes these: build the manifest with the facts '
            f'{", ".join(missing)}, or pack with format="original"'
        )


def _one_size(columns: Columns, sizes: Any) -> Any:
    """Return the size of all images."""
    rows = np.flatnonzero(sizes.all(axis=1))
    others = rows[(sizes[rows] != sizes[rows[0]]).any(axis=1)]
    if len(others):
        one, other = (f"id={columns['id'][int(row)]} {sizes[row]}" for row in (rows[0], others[0]))
        raise ArgumentError(
            f"images have different sizes (height, width): {one}, {other}. Pass "
            'image_size=(224, 224) (--image-size 224,224), or format="original" or "jpeg"'
        )
    return tuple(sizes[rows[0]].tolist())


def _starts(nbytes: IntArray, most: int) -> IntArray:
    """Return the first place of each shard of at most `most` bytes, and the end."""
    ends = np.cumsum(nbytes)
    shards = max(1, -(-int(ends[-1]) // most))
    wanted = np.arange(1, shards) * (ends[-1] / shards)
    return np.unique([0, *(np.searchsorted(ends, wanted) + 1), len(nbytes)])


def _identity(
    table: pa.Table, metadata: Metadata, arguments: PackArguments, starts: IntArray
) -> dict[str, Any]:
    labels = repr(sorted(metadata.labels.items())).encode()
    digest = columns_digest(table, sorted(table.column_names)).encode() + labels
    return {
        "rows": len(table),
        "shards": len(starts) - 1,
        "packed": arguments.described,
        "seed": arguments.seed,
        "manifest": blake2b(digest, digest_size=16).hexdigest(),
        "starts": blake2b(starts.astype("<i8").tobytes(), digest_size=16).hexdigest(),
    }
