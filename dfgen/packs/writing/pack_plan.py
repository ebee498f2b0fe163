"""The plan of a pack: which rows stand in which shard, and what tells it from another pack."""

import os
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.binding.frame_columns import Columns
from dfgen.binding.image_sizes import image_sizes
from dfgen.binding.row_draws import window_bytes
from dfgen.binding.row_problems import known_problems, known_sizes_of_files, look_for_files
from dfgen.errors import ManifestError
from dfgen.limits import Limits
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.order.windows import Windows, fitting
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import stat_files
from dfgen.manifest.fingerprint import columns_digest
from dfgen.manifest.metadata import Metadata
from dfgen.manifest.path_roots import absolute_place, joined
from dfgen.manifest.schema import label_columns, with_column
from dfgen.manifest.table_reading import read_table
from dfgen.manifest.writing import as_written
from dfgen.packs.pack_index import in_pack, is_pack
from dfgen.packs.writing.pack_arguments import PackArguments, Packer
from dfgen.packs.writing.shard_files import COLUMN, ShardTask, problems_column
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.features.image import Image
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray
from dfgen.stores.store import StorageOptions, Store
from dfgen.stores.stores import store_of
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import in_one, is_text
from dfgen.table.file_columns import are_files

BATCH = 32


class Mixing(NamedTuple):
    """How many of the classes of a column a batch is expected to have."""

    column: str
    classes: int  # in all
    packed: float  # in a batch of 32 of the pack
    shuffled: float  # in one of a full shuffle

    def __str__(self) -> str:
        return (
            f"A batch of {BATCH} rows will have {self.packed:.1f} of the {self.classes} classes of "
            f"{self.column!r} on average; of a full shuffle it has {self.shuffled:.1f}"
        )


def mixing(table: pa.Table, starts: IntArray, nbytes: IntArray) -> Mixing | None:
    """Return how well classes mix in the windows of a Sequence; None where no column has classes.

    `table` is in the order of the pack; `starts` and `nbytes` are those of its shards.
    """
    labels = [name for name in label_columns(table.column_names) if _has_classes(table[name].type)]
    if not labels:
        return None
    codes = _codes(in_one(table[labels[0]]))
    classes = int(codes.max(initial=0)) + 1
    counts = np.zeros((len(starts) - 1, classes), np.int64)
    np.add.at(counts, (np.repeat(np.arange(len(starts) - 1), np.diff(starts)), codes), 1)
    windows = Windows(starts, fitting(window_bytes(None), int(nbytes.mean())))
    last = windows.window(int(starts[-1]) - 1, seed=0, epoch=0)
    blocks = (windows.blocks_of(number, seed=0, epoch=0) for number in range(last + 1))
    drawn = np.array([counts[some].sum(axis=0) for some in blocks])
    packed = float(np.average(_expected_classes(drawn), weights=drawn.sum(axis=1)))
    shuffled = float(_expected_classes(counts.sum(axis=0)[None])[0])
    return Mixing(labels[0], classes, packed, shuffled)


def _expected_classes(counts: IntArray) -> npt.NDArray[np.float64]:
    """Return how many classes a batch drawn of each set of rows has on average, about.

    `counts`: rows of each class, shape (sets, classes).
    """
    absent = (1 - counts / counts.sum(axis=1, keepdims=True)) ** BATCH
    found: npt.NDArray[np.float64] = (1 - absent).sum(axis=1)
    return found


def _has_classes(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind)


def _codes(values: Any) -> IntArray:
    """Return the number of each row's class; those without one are one more class."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    codes: IntArray = values.indices.fill_null(len(values.dictionary)).to_numpy().astype(np.int64)
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


_SIZES = ("width", "height", "orientation")
_OF_SHARDS = tuple(f"{COLUMN}_{what}" for what in ("pixels", "shape", "bytes"))


@dataclass(frozen=True)
class PackPlan:
    """Which rows stand in which shard.

    Args:
        folder: the absolute path of the pack, or its URL.
        metadata: the `dfgen` key of the manifest.
        whole: all rows of it, in its own order, as one task.
        order: the row of the table at each place of the pack.
        starts: the first place of each shard, and the number of rows.
        nbytes: about how many each shard will have, without columns.
    """

    folder: str
    metadata: Metadata
    whole: ShardTask
    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    nbytes: npt.NDArray[np.int64]

    @property
    def identity(self) -> dict[str, Any]:
        """Tells the pack from another; see `_identity`."""
        return self.whole.identity

    def __len__(self) -> int:
        return len(self.starts) - 1

    def path(self, shard: int) -> str:
        """Return the path of a shard's file."""
        return in_pack(self.folder, f"shard-{shard:05}.arrow")

    def rows(self, shard: int) -> npt.NDArray[np.int64]:
        """Return the rows of the table that stand in a shard."""
        return self.order[self.starts[shard] : self.starts[shard + 1]]

    def task(self, shard: int) -> ShardTask:
        """Return all that is needed to make a shard, and no more."""
        return self.whole.part(self.path(shard), self.rows(shard))


def make_plan(
    manifest: Table | str | os.PathLike[str],
    folder: str,
    arguments: PackArguments,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions,
) -> PackPlan:
    """Return the plan of a pack; of files it reads headers alone, where no facts are known.

    Raises:
        ManifestError: the manifest cannot be packed so.
        MissingFileError: none of a few files that are looked for is there.
    """
    table, metadata = _stored(manifest, folder, root, limits, options)
    _check(table, metadata, arguments)
    contents = _absolute(table, metadata, folder)
    columns = Columns(with_column(table, COLUMN, contents))
    bound = BoundFeature(COLUMN, Image(COLUMN, size=None), columns.files(COLUMN))
    store, bad = store_of([bound.values], limits, options), known_problems(columns)
    look_for_files(columns, SampleReader(table["id"], (bound,), None, store), bad, skips=True)
    sizes, packer, bad = _sized(columns, bound, arguments, store, bad)
    known = known_sizes_of_files(columns, (bound,), {}).get(COLUMN)
    files = known
    if arguments.format == "original" and files is None:
        files = stat_files(bound.values.to_pylist(), Access(options=options))[0].to_numpy()
    nbytes = packer.nbytes(sizes, files, len(table))
    order = np.arange(len(table))
    if not arguments.keep_order:
        order = permutation(order, len(table), seed=arguments.seed, epoch=0, tag="pack")
    starts = _starts(nbytes[order], arguments.nbytes)
    table = with_column(table, "problem", problems_column(bad, len(table)))
    identity = _identity(table, metadata, arguments, starts)
    sums = np.add.reduceat(nbytes[order], starts[:-1])
    whole = ShardTask(folder, table, bound.values, known, sizes, packer, limits, options, identity)
    return PackPlan(folder, metadata, whole, order, starts, sums)


def _stored(
    manifest: Any,
    folder: str,
    root: str | os.PathLike[str] | None,
    limits: Limits,
    options: StorageOptions,
) -> tuple[pa.Table, Metadata]:
    """Return the columns of a manifest as they are stored, relative to the folder of the pack."""
    if is_pack(manifest, options):
        raise ManifestError(
            f"{os.fspath(manifest)} is a pack already: pack the manifest that it was made from, "
            "because its files have all their pixels"
        )
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(os.fspath(manifest), root, limits=limits, options=options)
        known, root = metadata.attributes, None
    else:
        table, known = arrow_table(manifest), getattr(manifest, "attrs", {}).get("dfgen", {})
    if {"shard", "row"} <= {*table.column_names}:
        raise ManifestError(
            'the frame has the columns "shard" and "row", as one of a pack has: pack the manifest '
            "that it was made from, because its files have all their pixels; if these are columns "
            "of your own, rename one"
        )
    taken = [name for name in _OF_SHARDS if name in table.column_names]
    if taken:
        raise ManifestError(
            f"the frame has a column {taken[0]!r}, as the files of a pack have for the images: "
            "pack the manifest that it was made of; if it is a column of your own, rename it"
        )
    table, metadata = as_written(table, known, folder, root)
    return table.combine_chunks(), metadata


def _check(table: pa.Table, metadata: Metadata, arguments: PackArguments) -> None:
    held = [field.name for field in table.schema if are_files(field.type)]
    if held or COLUMN not in table.column_names:
        raise ManifestError(
            f"the manifest holds the files themselves, in the column {held[0]!r}: they are read in "
            "large pieces already. To pack them, write them to files first"
        )
    if "index" in table.column_names:
        raise ManifestError(
            "the manifest is one of rows of array files, which are read in large pieces already: "
            "train on them as they are"
        )
    if not len(table):
        raise ManifestError("the manifest has no rows: there is nothing to pack")
    boxes = [name for name, label in metadata.labels.items() if "box_format" in label]
    facts = [name for name in _SIZES if name not in table.column_names]
    resized = arguments.format != "original" and arguments.image_size != "own"
    if boxes and facts and resized:
        raise ManifestError(
            f"column {boxes[0]!r} holds boxes, in pixels of the files, and format="
            f'"{arguments.format}" makes images of other sizes: build the manifest with the facts '
            f'of files, as it lacks {", ".join(facts)}, or pack with format="original"'
        )


def _absolute(table: pa.Table, metadata: Metadata, folder: str) -> pa.ChunkedArray:
    if metadata.root is None:
        return table[COLUMN]
    root = absolute_place(metadata.root, folder)
    return joined(root, table[COLUMN].cast(pa.large_string()))


def _sized(
    columns: Columns,
    bound: BoundFeature,
    arguments: PackArguments,
    store: Store,
    bad: dict[int, str],
) -> tuple[Sizes | None, Packer, dict[int, str]]:
    """Return the sizes of images, where they are needed, and what the files become."""
    if not arguments.needs_sizes:
        return None, arguments.packer(None), bad
    sizes_of, problems = image_sizes(columns, (bound,), {}, store.limits, store.options)
    sizes, bad = sizes_of.get(COLUMN), problems | bad
    if sizes is None or not sizes.any():
        first = next(iter(bad.items()), (0, "its header tells no size"))
        raise ManifestError(f"no row has an image that can be packed: row {first[0]}: {first[1]}")
    packer = arguments.packer(_one_size(columns, sizes))
    return sizes if packer.needs_sizes else None, packer, bad


def _one_size(columns: Columns, sizes: Sizes) -> Any:
    """Return the size that all images have, or two rows that differ, for a message."""
    rows = np.flatnonzero(sizes.all(axis=1))
    other = rows[(sizes[rows] != sizes[rows[0]]).any(axis=1)][:1]
    return [(columns["id"][int(row)].as_py(), *sizes[row].tolist()) for row in (rows[0], *other)]


def _starts(nbytes: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """Return where shards of equal bytes begin, as few as are no larger than `most`, and end."""
    ends = np.cumsum(nbytes)
    shards = max(1, -(-int(ends[-1]) // most))
    wanted = np.arange(1, shards) * (ends[-1] / shards)
    return np.unique([0, *(np.searchsorted(ends, wanted) + 1), len(nbytes)])


def _identity(
    table: pa.Table, metadata: Metadata, arguments: PackArguments, starts: npt.NDArray[np.int64]
) -> dict[str, Any]:
    labels = repr(sorted(metadata.labels.items())).encode()
    digest = columns_digest(table, sorted(table.column_names))
    return {
        "rows": len(table),
        "shards": len(starts) - 1,
        "packed": {COLUMN: arguments.described},
        "order": arguments.order,
        "manifest": blake2b(digest.encode() + labels, digest_size=16).hexdigest(),
        "starts": blake2b(starts.astype("<i8").tobytes(), digest_size=16).hexdigest(),
    }
