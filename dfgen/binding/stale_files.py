"""Sizes and times of files that a frame knows, for reads to compare with."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.sources.file_source import HeldRows
from dfgen.samples.stores.known_files import UNKNOWN, KnownFiles, is_same_time
from dfgen.samples.stores.schemes import has_store, scheme_of
from dfgen.samples.stores.store import Head, Store

_PATH = "path"  # the column of files that `bytes` and `mtime_ns` are of
_ROWS = 6  # that are looked at, as in `missing_files`


def known_files(
    columns: Columns,
    features: Iterable[BoundFeature],
    packs: Mapping[str, HeldRows],
    store: Store,
    bad: Collection[int],
) -> dict[str, KnownFiles]:
    """Return name of a feature -> what the frame knows of its files, in its column `path`.

    That are whole numbers in its columns `bytes` and `mtime_ns`; lists of files have none. Files
    that were copied as a whole have all the known sizes and other times: of six rows all do. Then
    it warns, and knows the sizes alone.

    Args:
        columns: of the frame.
        features: bound to its rows.
        packs: name of a feature -> which rows lie in packs.
        store: where their files are.
        bad: rows that are known to be bad.
    """
    of_path = [
        bound
        for bound in features
        if bound.files is not None and bound.feature.columns[0] == _PATH and not bound.has_lists
        if bound.name not in packs or not packs[bound.name].all_packed
    ]
    known = KnownFiles(_numbers(columns, "bytes"), _numbers(columns, "mtime_ns"))
    if not of_path or (known.sizes is None and known.times is None):
        return {}
    if _were_copied(known, of_path[0], packs.get(of_path[0].name), store, bad):
        warn(
            "the files have the sizes that the manifest knows but other times, as after cp -r or "
            "git clone: reads compare sizes alone. dfgen.verify(..., write=True) takes the times "
            "as they are now; without the column mtime_ns no time is compared"
        )
        known = replace(known, times=None)
    return {bound.name: known for bound in of_path}


def _numbers(columns: Columns, name: str) -> npt.NDArray[np.int64] | None:
    """Return a column of whole numbers, UNKNOWN where it has none; None where it is none."""
    if name not in columns.names:
        return None
    values = columns[name]
    if pa.types.is_floating(values.type):  # of pandas, where some are missing
        values = pc.if_else(pc.is_finite(values), values, None)
    elif not pa.types.is_integer(values.type):
        return None
    try:
        whole = pc.fill_null(values.cast(pa.int64()), UNKNOWN)
    except pa.ArrowInvalid:  # of the user's own
        return None
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def _were_copied(
    known: KnownFiles,
    bound: BoundFeature,
    packed: HeldRows | None,
    store: Store,
    bad: Collection[int],
) -> bool:
    """Whether of a few files all have their size, and none has its time."""
    seen = list[bool]()
    for row, head in _heads(bound, packed, store, bad):
        time = UNKNOWN if known.times is None else int(known.times[row])
        if time == UNKNOWN or head.mtime_ns is None:
            continue
        if known.sizes is not None and known.sizes[row] not in (head.size, UNKNOWN):
            return False
        seen.append(is_same_time(head.mtime_ns, time))
    return bool(seen) and not any(seen)


def _heads(
    bound: BoundFeature, packed: HeldRows | None, store: Store, bad: Collection[int]
) -> Iterator[tuple[int, Head]]:
    """Yield size and time of the files of a few rows; what cannot be read is told later."""
    files: Any = bound.files
    count = len(files)
    for row in sorted({int(row) for row in np.linspace(0, count - 1, _ROWS)} - set(bad)):
        if packed is not None and packed.holds(row):
            continue
        content = files[row].as_py() if bound.has(row) else None
        if isinstance(content, str) and has_store(scheme_of(content)):
            continue
        try:
            if content is not None:
                yield row, store.head(content)
        except Exception:  # of a store, which may be anybody's
            continue
