"""`cache=`: which features keep their decoded pixels, and where."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import ArgumentError, warn
from dfgen.limits import Limits
from dfgen.machine import free_memory
from dfgen.platform_calls import HAS_MEMORY_FILES, IS_WINDOWS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.sources.cached_pixels import CachedPixels, cache_steps, key_of, settings_of
from dfgen.samples.sources.file_source import RowSource
from dfgen.stores.cache_folder import Keys, open_memory, open_segments
from dfgen.stores.stores import Stores, scheme_of

_BLOCK = 1 << 16  # paths that are read at a time

Cache = str | os.PathLike[str] | None
"""A folder, `"memory"`, or None."""


def checked_cache(cache: Any) -> str:
    """Return the absolute path of a folder, or `"memory"`.

    Raises:
        ArgumentError: it is neither.
    """
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


def cached(
    columns: Columns,
    features: Iterable[BoundFeature],
    sources: Mapping[str, RowSource],
    cache: str,
    limits: Limits,
    store: Stores,
    transforms: bool,
) -> dict[str, RowSource]:
    """Return the sources of features by name. Those of images keep decoded pixels.

    If the folder cannot be used, it warns and keeps nothing.

    Args:
        columns: of the manifest.
        features: of its rows.
        sources: of these features by name.
        cache: as from `checked_cache`.
        limits: bound the cache.
        store: reads the files.
        transforms: whether a transform gets the pixels.

    Raises:
        ArgumentError: no feature has pixels to keep.
    """
    facts = whole_column(columns, "bytes"), whole_column(columns, "mtime_ns")
    steps = {
        one.name: cache_steps(one, sources[one.name], facts, transforms)
        for one in features
        if one.files is not None
    }
    kept = {name: step for name, step in steps.items() if not isinstance(step, str)}
    if not kept and all(source.cache is None for source in sources.values()):
        why = "; ".join(f"{name!r}: {reason}" for name, reason in steps.items())
        raise ArgumentError(f"cache={cache!r} has no image to keep: {why or 'there are no files'}")
    found, most = dict(sources), limits.cache_bytes
    if cache == "memory":
        most = (most or free_memory() // 2) // max(1, len(kept))
    try:
        for name, step in kept.items():
            files, spec = sources[name].files, step[0].spec
            keys = _keys(files.values, store.folder)
            if cache == "memory":
                segments = open_memory(np.unique(keys), spec, most)
            else:
                settings = settings_of(step[0])
                segments = open_segments(cache, settings, np.unique(keys), spec, most)
            if not all(segment.slots.writable for segment in segments):
                warn(f"cache={cache!r} cannot be written: dfgen reads its pixels and adds none")
            found[name] = CachedPixels(files, step, store, segments, keys, facts)
    except OSError as error:
        why = str(error.strerror or error)
        warn(f"cache={cache!r} cannot be used: {why}. Training goes on without it")
        return dict(sources)
    return found


def _keys(paths: Any, folder: str) -> Keys:
    """Return the key of each path."""
    blocks = (paths[start : start + _BLOCK] for start in range(0, len(paths), _BLOCK))
    texts = (text for block in blocks for text in block.to_pylist())
    return np.fromiter((key_of(text, folder) for text in texts), np.uint64, len(paths))
