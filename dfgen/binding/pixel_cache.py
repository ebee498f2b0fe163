"""`cache=`: which features keep their decoded pixels, and where."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import cv2
import numpy as np
import pyarrow as pa

from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import ArgumentError, warn
from dfgen.limits import Limits
from dfgen.machine import free_memory
from dfgen.platform_calls import HAS_MEMORY_FILES, IS_WINDOWS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.formats import DECODERS
from dfgen.samples.sources.cached_pixels import CachedPixels, key_of
from dfgen.samples.sources.file_source import RowSource
from dfgen.stores.cache_folder import Keys, open_memory, open_segments
from dfgen.stores.stores import Stores, is_remote, scheme_of
from dfgen.table.arrow_types import is_text
from dfgen.table.mapped_column import MappedColumn

_DECIDING = ("size", "load_size", "resize", "color_mode", "interpolation", "antialias", "dtype")

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
        one.name: _cache_steps(one, sources[one.name], facts, transforms)
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
                settings = _settings_of(step[0])
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


def _cache_steps(
    bound: BoundFeature, source: RowSource, facts: tuple[Any, ...], transforms: bool
) -> Any:
    """Return the Image to cache and the Image made from it, or why nothing can be cached.

    With `load_size` and random crops the whole image is cached; otherwise the pixels before flips
    and `scale`. `facts` are sizes and times in the manifest; `transforms`: whether a transform sees
    the pixels.
    """
    values, image = bound.values, bound.feature
    if source.files.packed:
        return "it is in a pack already"
    if not isinstance(values, pa.Array | MappedColumn) or not is_text(values.type):
        return "its files are not named by paths"
    if is_remote(values[0].as_py() if len(values) else "") and any(
        fact is None or fact.min() < 0 for fact in facts
    ):
        return "remote files need the columns bytes and mtime_ns of the manifest"
    if not isinstance(image, Image):
        return f"only images are cached, it is {type(image).__name__}"
    seen = image.spec.stage(transforms)
    reasons = {
        "it follows another image": image.like is not None,
        "nothing identifies the function decode=": image.decode is not None,
        "size=None keeps the size of each image": image.size is None,
        f"dtype={image.dtype!r} keeps the depth of each file": seen.dtype is None,
        'crop="random_resized" crops before it resizes: use crop="random" with load_size=':
            image.crop == "random_resized",
        'crop="random" needs load_size= and resize="stretch" or "pad"':
            image.crop == "random"
            and (image.load_size is None or image.resize not in ("stretch", "pad")),
    }  # fmt: skip
    if (why := next((why for why, holds in reasons.items() if holds), None)) is not None:
        return why
    kept = replace(image, flip=None, scale=None)
    if image.crop == "random":
        kept = replace(kept, size=image.load_size, load_size=None, crop=None)
        return kept, replace(image, resize="stretch")
    size = seen.shape[:2]
    if size != image.size:  # the transform crops
        kept = replace(kept, size=size, load_size=None)
    return kept, replace(image, size=size, resize="stretch", load_size=None, crop=None)


def _settings_of(fixed: Image) -> dict[str, Any]:
    """Return everything that the pixels of `fixed` depend on, for JSON."""
    return {
        **{name: getattr(fixed, name) for name in _DECIDING},
        "shape": fixed.spec.shape,
        "dtype": np.dtype(fixed.spec.dtype).name,
        "decoders": DECODERS,
        "opencv": cv2.__version__,
        "pillow": version("pillow"),
    }
