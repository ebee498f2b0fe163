"""The pixels, or blocks of packs in a store, that a Sequence keeps, and their place: `cache=`."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dfgen.errors import ArgumentError, brief, warn
from dfgen.limits import Limits
from dfgen.packs.shard_blocks import block_bytes
from dfgen.platform_calls import HAS_MEMORY_FILES, IS_WINDOWS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.sources.cached_pixels import CachedPixels, cache_steps, settings_of
from dfgen.samples.sources.file_source import RowSource
from dfgen.samples.stores.cache.cache_folder import open_folder, open_memory
from dfgen.samples.stores.cache.slot_file import SlotFile
from dfgen.samples.stores.schemes import scheme_of
from dfgen.samples.stores.store import Store
from dfgen.spec import Spec
from dfgen.system import free_memory

Cache = str | os.PathLike[str] | None
"""A folder, `"memory"`, or None."""


def cached(
    bound: Iterable[BoundFeature],
    sources: Mapping[str, RowSource],
    cache: Cache,
    limits: Limits,
    store: Store,
    transforms: bool,
) -> dict[str, RowSource]:
    """Return the sources of features, of which the images keep their decoded pixels.

    Packs in a store keep what is fetched of them. A folder that cannot be used is warned of, and
    nothing is kept.

    Args:
        bound: features of the rows of a manifest.
        sources: of these by name.
        cache: a folder, `"memory"`, or None: nothing is kept.
        limits: how much there is room for.
        store: where the files are.
        transforms: whether a transform sees the pixels.
    """
    if cache is None:
        return dict(sources)
    cache = _checked(cache)
    steps = {
        one.name: cache_steps(one, sources[one.name], transforms, store)
        for one in bound
        if one.files is not None
    }
    kept = {name: found for name, found in steps.items() if not isinstance(found, str)}
    far = [shards for source in sources.values() for _, shards in source.far_packs]
    if not kept and not far:
        why = "; ".join(f"{name!r}: {reason}" for name, reason in steps.items())
        raise ArgumentError(f"cache={cache!r} has no image to keep: {why or 'there are no files'}")
    count = len(kept) + bool(far)
    try:
        made = {
            name: _slots(cache, fixed.spec, settings_of(fixed), limits, count)
            for name, (fixed, _) in kept.items()
        }
        blocks = _blocks(cache, far, limits, count) if far else None
    except OSError as error:
        why = str(error.strerror or error)
        warn(f"cache={cache!r} cannot be used: {why}. Training goes on without it")
        return dict(sources)
    if not all(slots.writable for slots in (*made.values(), blocks) if slots is not None):
        warn(f"cache={cache!r} cannot be written: dfgen reads the pixels in it and adds none")
    for shards in far:
        shards.slots = blocks
    held = {
        name: CachedPixels(sources[name].files, kept[name], store, slots)
        for name, slots in made.items()
    }
    return {**sources, **held}


def _checked(cache: Any) -> str:
    """Return a folder, or "memory", or refuse what is neither."""
    if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
        raise ArgumentError(
            f'cache must be a folder or "memory", got {brief(cache)}: write cache="cache"'
        )
    if scheme_of(os.fspath(cache)):
        raise ArgumentError(
            f"cache={os.fspath(cache)!r} is a URL, and a cache is mapped into memory: give a "
            "folder on a disk of this machine"
        )
    if os.fspath(cache).startswith("~/"):
        raise ArgumentError(
            f'cache={cache!r}: "~" is not expanded, write os.path.expanduser({cache!r})'
        )
    if IS_WINDOWS:
        raise ArgumentError(f"cache={cache!r} does not work on Windows: leave it out")
    if cache == "memory" and not HAS_MEMORY_FILES:
        raise ArgumentError(f"cache={cache!r} works on Linux alone: give a folder")
    return os.fspath(cache)


def _blocks(cache: str, far: Iterable[Any], limits: Limits, count: int) -> SlotFile:
    """Return what keeps the blocks of shards in a store."""
    spec = Spec((block_bytes(file for shards in far for file in shards.files),), np.dtype(np.uint8))
    settings = {"of": "packs in a store", "shape": spec.shape, "dtype": spec.dtype.name}
    return _slots(cache, spec, settings, limits, count)


def _slots(
    cache: str, spec: Spec, settings: Mapping[str, Any], limits: Limits, count: int
) -> SlotFile:
    if cache == "memory":
        most = limits.cache_bytes or free_memory() // 2
        return open_memory(spec, most // count)
    return open_folder(os.path.abspath(cache), settings, spec, limits.cache_bytes)
