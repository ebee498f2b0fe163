"""Packs: which rows of a frame lie in them, and what was packed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.packs.pack_index import (
    INDEX,
    PLACES,
    PackIndex,
    folder_of,
    in_pack,
    is_shard,
    mapped_table,
    read_index,
    version_of,
)
from dfgen.packs.pack_shards import NOTHING, PackShards, PixelsOfOneSize, ShardFile, opened_shard
from dfgen.packs.packed_pixels import PackRows
from dfgen.packs.remote_shards import RemoteShards, check_all_there
from dfgen.samples.pixels.geometry import CHANNELS
from dfgen.spec import Spec
from dfgen.stores.store import StorageOptions, Store
from dfgen.stores.stores import is_remote, store_of
from dfgen.table.arrow_types import in_one, is_text, value_type

_READ_AGAIN = "df = dfgen.read_manifest({!r})"
_LOOKED_INTO = 1_000  # shards whose structure is looked at before training, 0.2 ms each


class Opening(NamedTuple):
    """The options that remote packs are opened with."""

    options: StorageOptions | None = None
    limits: Limits = DEFAULT  # what one file may ask for
    window: int = 0  # bytes of a window: two of these are held in memory


@dataclass(frozen=True, eq=False)
class Packs:
    """The packs that rows lie in.

    Args:
        rows: where each row lies.
        files: the shards that they lie in.
        packed: column -> the arguments that it was packed by.
        index: of the pack that was given by its folder, all of whose rows these are.
        store: reads remote shards; None: all are local.
        held: bytes of remote shards that are held in memory, about.
    """

    rows: PackRows
    files: tuple[ShardFile, ...]
    packed: Mapping[str, Mapping[str, Any]]
    index: PackIndex | None = None
    store: Store | None = None
    held: int = 0

    def shards(self, column: str) -> PackShards:
        """Return what the shards hold of a column."""
        if self.store is None:
            return PackShards(self.files, column)
        return RemoteShards(self.files, column, self.store, self.held)

    def is_pixels(self, column: str) -> bool:
        """Whether a column was packed as pixels."""
        return bool(self.packed[column]["format"] == "pixels")

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """Shape (height, width, channels) of the pixels that were packed of each column."""
        return {name: self._spec(name) for name in self.packed if self.is_pixels(name)}

    def _spec(self, column: str) -> Spec:
        firsts = {os.path.dirname(file.path): n for n, file in reversed([*enumerate(self.files)])}
        shards = self.shards(column)
        opened = [shards[number] for number in firsts.values()]
        shapes = {
            one.pixels.shape[1:] if isinstance(one, PixelsOfOneSize) else (None,) * 3
            for one in opened
        }
        channels = CHANNELS[self.packed[column]["color_mode"]]
        height, width, _ = shapes.pop() if len(shapes) == 1 else (None, None, channels)
        return Spec((height, width, channels), np.dtype(np.uint8))


def packs_of_folder(index: PackIndex, opening: Opening) -> Packs:
    """Return the pack of which all rows are taken, in their order.

    Raises:
        MissingFileError: a shard is missing.
        ManifestError: one is damaged.
    """
    files = _files(index)
    rows = PackRows(index.starts, shard_bytes=_mean_bytes(files), mixed=_are_mixed(index))
    return _checked(Packs(rows, files, index.packed, index), opening)


def packs_of_columns(table: Any, opening: Opening) -> Packs | None:
    """Return the packs that the columns `shard` and `row` of a frame name; None: it has not both.

    Raises:
        MissingFileError: a pack or a shard is missing.
        ManifestError: they name no row of it, or one of these rows is another one in the pack.
    """
    if not {*PLACES} <= {*table.names}:
        return None
    shards, places = (table[name] for name in PLACES)
    text = pa.types.is_dictionary(shards.type) or is_text(shards.type)
    if not text or not is_text(value_type(shards.type)):
        return None  # columns of the user's own
    encoded = shards if pa.types.is_dictionary(shards.type) else shards.dictionary_encode()
    named = encoded.dictionary.to_pylist()
    codes = encoded.indices.fill_null(NOTHING).to_numpy().astype(np.int32)
    used = np.unique(codes[codes != NOTHING]).tolist()
    if not any(is_shard(named[code]) for code in used):
        return None
    indexes: dict[str, PackIndex] = {}
    shard_files: dict[str, ShardFile] = {}
    files: list[ShardFile] = []
    numbers = np.full(len(named) + 1, NOTHING, np.int32)  # the last one: of rows in no pack
    for code in used:
        numbers[code] = len(files)
        files.append(_file(named[code], indexes, shard_files, opening.options))
    numbered = numbers[codes]
    mixed = all(map(_are_mixed, indexes.values()))
    rows = PackRows(None, numbered, _places(places, numbered, files), _mean_bytes(files), mixed)
    packs = Packs(rows, tuple(files), _packed(indexes))
    _check_same_rows(table, rows, files, indexes, opening.options)
    return _checked(packs, opening)


def _files(index: PackIndex) -> tuple[ShardFile, ...]:
    starts, last = index.starts.tolist(), in_pack(index.folder, INDEX)
    written = () if is_remote(last) else (last, version_of(os.stat(last)))
    return tuple(
        ShardFile(
            index.path(shard), start, shard.rows, shard.bytes, index.plan, written, shard.checksum
        )
        for shard, start in zip(index.shards, starts, strict=False)
    )


def _file(
    path: str,
    indexes: dict[str, PackIndex],
    shard_files: dict[str, ShardFile],
    options: StorageOptions | None,
) -> ShardFile:
    """Return a shard by its path; note its pack by its folder, and all shards of that."""
    whole = folder_of(path)
    folder = os.path.dirname(whole)
    if folder not in indexes:
        indexes[folder] = read_index(folder, options)
        shard_files.update((file.path, file) for file in _files(indexes[folder]))
    if whole not in shard_files:
        raise ManifestError(
            f"column 'shard' names {path}, which is no file of the pack in {folder}: was it packed "
            f"again since? Read it again, {_READ_AGAIN.format(folder)}"
        )
    return shard_files[whole]


def _places(
    column: Any, shards: npt.NDArray[np.int32], files: list[ShardFile]
) -> npt.NDArray[np.int64]:
    """Return the row in its shard of each row of the frame, checked."""
    numbers = in_one(column).cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    packed = shards != NOTHING
    rows = np.array([file.rows for file in files], np.int64)[shards]
    whole = np.nan_to_num(numbers, nan=-1.0)
    wrong = packed & ~((whole >= 0) & (whole < rows) & (whole == np.floor(whole)))
    if wrong.any():
        first = int(wrong.argmax())
        file = files[shards[first]]
        raise ManifestError(
            f"column 'row' has {numbers[first]:g} in row {first} of the frame, but {file.path} has "
            f"the rows 0 to {file.rows - 1:,}: was it packed again since? Read it again, "
            f"{_READ_AGAIN.format(os.path.dirname(file.path))}",
            row=first,
        )
    return np.where(packed, whole, 0).astype(np.int64)


def _packed(indexes: Mapping[str, PackIndex]) -> dict[str, dict[str, Any]]:
    """Return what was packed, which all packs must agree on; of sizes alone they may differ."""
    (first, one), *others = indexes.items()
    for folder, other in others:
        for column, arguments in one.packed.items():
            theirs = other.packed.get(column, {})
            differing = [
                name
                for name in arguments
                if name != "image_size" and theirs.get(name) != arguments[name]
            ]
            if differing:
                name = differing[0]
                raise ManifestError(
                    f"rows lie in two packs of which one has {name}={arguments[name]!r}, {first}, "
                    f"and the other {name}={theirs.get(name)!r}, {folder}: pack them alike, or "
                    "train on one of them"
                )
    return one.packed


def _checked(packs: Packs, opening: Opening) -> Packs:
    """Refuse packs of which a shard is missing, cut short or no shard; of few, look into all.

    One file of each remote pack is looked into; reading the others tells.
    """
    store = store_of(
        [pa.array([file.path for file in packs.files])], opening.limits, opening.options
    )
    check_all_there(packs.files, store)
    local = [file for file in packs.files if not is_remote(file.path)]
    for column in packs.packed:
        for file in local[:_LOOKED_INTO]:
            opened_shard(file, column)
    if len(local) < len(packs.files):
        shard = packs.rows.shard_bytes
        held = max(opening.window, 2 * shard) + shard  # a window has 2 shards or more
        packs = replace(packs, store=store, held=2 * held)
        _ = packs.specs
    return packs


def _are_mixed(index: PackIndex) -> bool:
    return index.order != "kept"


def _mean_bytes(files: Sequence[ShardFile]) -> int:
    return sum(file.nbytes for file in files) // len(files)


def _check_same_rows(
    table: Any,
    places: PackRows,
    files: Sequence[ShardFile],
    indexes: Mapping[str, PackIndex],
    options: StorageOptions | None,
) -> None:
    """Refuse rows that are others in the pack: by their ids, where these are new by their paths."""
    for folder, index in indexes.items():
        here = [n for n, file in enumerate(files) if os.path.dirname(file.path) == folder]
        starts = np.zeros(len(files) + 1, np.int64)
        starts[here] = [files[number].start for number in here]
        shards = places.shards
        rows = np.flatnonzero(np.isin(shards, here))
        at = pa.array(starts[shards[rows]] + places.places[rows])
        stored, same = mapped_table(index, options=options), np.zeros(len(rows), np.bool_)
        for name, alike in (("id", _are_same), ("path", _end_alike)):
            left = np.flatnonzero(~same)
            if len(left) and name in table.names and name in stored.column_names:
                mine = in_one(table[name]).take(pa.array(rows[left]))
                theirs = in_one(stored[name]).take(at.take(pa.array(left)))
                same[left] = alike(mine, theirs)
        if not same.all() and {"id", "path"} & {*table.names}:
            _refuse_row(table, int(rows[same.argmin()]), places, files, folder)


def _are_same(mine: Any, theirs: Any) -> npt.NDArray[np.bool_]:
    if is_text(mine.type) != is_text(theirs.type):
        return np.zeros(len(mine), np.bool_)
    mine = mine.cast(theirs.type, safe=False)
    return np.asarray(pc.fill_null(pc.equal(mine, theirs), False))


def _end_alike(mine: Any, theirs: Any) -> npt.NDArray[np.bool_]:
    if not is_text(mine.type):
        return np.zeros(len(mine), np.bool_)
    pairs = zip(mine.to_pylist(), theirs.to_pylist(), strict=True)
    return np.array([str(one).endswith(str(end)) for one, end in pairs], np.bool_)


def _refuse_row(
    table: Any, row: int, places: PackRows, files: Sequence[ShardFile], folder: str
) -> None:
    shard, place = places.of_one(row)
    named = [f"{name} {table[name][row]}" for name in ("id", "path") if name in table.names]
    raise ManifestError(
        f"row {row} of the frame ({', '.join(named)}) is another one in the pack, row {place} of "
        f"{files[shard].path}: was it packed again since, or were the columns shard and row "
        f"changed? Read it again, {_READ_AGAIN.format(folder)}",
        row=row,
    )
