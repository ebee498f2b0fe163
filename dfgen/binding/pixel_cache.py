"""The pixels that a Sequence keeps, and where: `cache=`."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.binding.frame_columns import Columns
from dfgen.binding.row_problems import whole_column
from dfgen.errors import ArgumentError, warn
from dfgen.limits import Limits
from dfgen.machine import free_memory
from dfgen.platform_calls import HAS_MEMORY_FILES, IS_WINDOWS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.sources.cached_pixels import (
    CachedPixels,
    cache_steps,
    cache_text,
    hash_of,
    settings_of,
)
from dfgen.samples.sources.file_source import RowSource
from dfgen.spec import Values
from dfgen.stores.cache_folder import open_memory, open_segments
from dfgen.stores.stores import Stores, scheme_of

Cache = str | os.PathLike[str] | None
"""A folder, `"memory"`, or None."""


def cached(
    columns: Columns,
    features: Iterable[BoundFeature],
    sources: Mapping[str, RowSource],
    cache: Cache,
    limits: Limits,
    store: Stores,
    transforms: bool,
) -> dict[str, RowSource]:
    """Return the sources of features, in which images keep their decoded pixels.

    A folder that cannot be used causes a warning, and nothing is kept.

    Args:
        columns: of the manifest.
        features: of its rows.
        sources: of these features by name.
        cache: a folder, `"memory"`, or None.
        limits: how much is kept.
        store: the files are there.
        transforms: whether a transform sees the pixels.
    """
    if cache is None:
        return dict(sources)
    place = os.fspath(cache)
    facts = whole_column(columns, "bytes"), whole_column(columns, "mtime_ns")
    steps = {
        one.name: cache_steps(one, sources[one.name], facts, transforms)
        for one in features
        if one.files is not None
    }
    kept = {name: step for name, step in steps.items() if not isinstance(step, str)}
    if not kept and not any(source.cache is not None for source in sources.values()):
        why = "; ".join(f"{name!r}: {reason}" for name, reason in steps.items())
        raise ArgumentError(f"cache={place!r} has no image to keep: {why or 'there are no files'}")
    found = dict(sources)
    try:
        for name, step in kept.items():
            files, spec = sources[name].files, step[0].spec
            keys = _keys(files.values, store.folder)
            distinct = np.unique(keys)
            if place == "memory":
                most = (limits.cache_bytes or free_memory() // 2) // len(kept)
                segments = open_memory(distinct, spec, most)
            else:
                most_of_folder = limits.cache_bytes
                segments = open_segments(
                    place, settings_of(step[0]), distinct, spec, most_of_folder
                )
            found[name] = CachedPixels(files, step, store, segments, keys, facts)
            if not all(segment.slots.writable for segment in segments):
                warn(f"cache={place!r} cannot be written: dfgen reads its pixels and adds none")
    except OSError as error:
        why = str(error.strerror or error)
        warn(f"cache={place!r} cannot be used: {why}. Training goes on without it")
        return dict(sources)
    return found


def checked_cache(cache: Any) -> str | None:
    """Return the absolute path of a folder, `"memory"`, or None.

    Raises:
        ArgumentError: it is none of these.
    """
    if cache is None:
        return None
    if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
        raise ArgumentError(f'cache must be a folder or "memory", got {cache!r}: cache="cache"')
    place = os.fspath(cache)
    if scheme_of(place) or place.startswith("~/") or IS_WINDOWS:
        raise ArgumentError(
            f"cache={place!r} must be a folder of this machine, without ~, and not on Windows: a "
            "cache is mapped into memory"
        )
    if place == "memory" and not HAS_MEMORY_FILES:
        raise ArgumentError(f"cache={place!r} works on Linux only: give a folder")
    return place if place == "memory" else os.path.abspath(place)


def _keys(paths: pa.Array, folder: str) -> Values:
    """Return a 64-bit hash of the absolute path of each row."""
    texts = (cache_text(path, folder) for path in paths.to_pylist())
    return np.fromiter(map(hash_of, texts), np.uint64, len(paths))
