"""The sources of rows: files, packs, the cache of pixels, and whole chunks of array files."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import ArgumentError, DfgenError, warn
from dfgen.machine import free_memory
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import specs_of
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.formats import DECODERS
from dfgen.samples.sources import CachedPixels, FileSource, RowSource, StoredRows, key_of
from dfgen.spec import Spec
from dfgen.stores.array_files import BROKEN_ROWS, ArrayFiles
from dfgen.stores.cache_folder import Keys, open_memory, open_segments
from dfgen.stores.stores import Stores, is_remote
from dfgen.table.arrow_types import is_text
from dfgen.table.mapped_column import MappedColumn

_DECIDING = ("size", "load_size", "resize", "color_mode", "interpolation", "antialias", "dtype")
_BLOCK = 1 << 16  # paths that are read at a time


def row_sources(
    arguments: SequenceArguments,
    columns: Columns,
    features: Iterable[BoundFeature],
    packed: Mapping[str, RowSource],
    store: Stores,
) -> dict[str, RowSource]:
    """Return name of a feature -> where its rows come from.

    Args:
        arguments: with `cache`, `limits`, `transform` and `window`.
        columns: of the manifest.
        features: of its rows.
        packed: the sources of features that are read from a pack.
        store: reads the other files.

    Raises:
        ArgumentError: `cache=` has no pixels to keep.
    """
    bytes_of = whole_column(columns, "bytes")
    sources = dict[str, RowSource]()
    for one in features:
        has_facts = one.files is not None and one.feature.columns[0] == "path"
        sources[one.name] = FileSource(one.feature, one.values, bytes_of if has_facts else None)
    sources |= packed
    if arguments.cache is not None:
        sources |= _cached(arguments, columns, features, sources, store)
    for one in features:
        if one.array_rows:
            files = sources[one.name].files
            sources[one.name] = _stored(one, files, store, 2 * arguments.window)
    return sources


def _cached(
    arguments: SequenceArguments,
    columns: Columns,
    features: Iterable[BoundFeature],
    sources: Mapping[str, RowSource],
    store: Stores,
) -> dict[str, RowSource]:
    """Return the sources of images that keep decoded pixels, by name.

    If the folder cannot be used, it warns and keeps nothing.
    """
    cache, most = arguments.cache, arguments.limits.cache_bytes
    facts = whole_column(columns, "bytes"), whole_column(columns, "mtime_ns")
    steps = {
        one.name: _cache_steps(one, sources[one.name], facts, arguments.transform is not None)
        for one in features
        if one.files is not None
    }
    kept = {name: step for name, step in steps.items() if not isinstance(step, str)}
    if not kept and all(source.cache is None for source in sources.values()):
        why = "; ".join(f"{name!r}: {reason}" for name, reason in steps.items())
        raise ArgumentError(f"cache={cache!r} has no image to keep: {why or 'there are no files'}")
    if cache == "memory":
        most = (most or free_memory() // 2) // max(1, len(kept))
    cached = dict[str, RowSource]()
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
            cached[name] = CachedPixels(files, step, store, segments, keys, facts)
    except OSError as error:
        why = str(error.strerror or error)
        warn(f"cache={cache!r} cannot be used: {why}. Training goes on without it")
        return {}
    return cached


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


def _stored(bound: BoundFeature, files: FileSource, store: Stores, window: int) -> StoredRows:
    """Return a source of rows of array files, which takes whole chunks of rows.

    The first row tells shape and dtype. HDF5 files together cache unpacked chunks of `window`
    bytes.
    """
    rows, feature, spec = bound.values, bound.feature, specs_of(bound.feature)[0]
    encoded = pc.dictionary_encode(rows.field("path"))
    dataset = getattr(feature, "dataset", None)
    shape, dtype, chunk = spec.shape, spec.dtype, 1
    arrays = ArrayFiles(store.another(), window // len(encoded.dictionary))
    with suppress(DfgenError, *BROKEN_ROWS):  # reading it says more
        array = arrays.array(encoded.dictionary[0].as_py(), dataset)
        shape, dtype = array.shape[1:], array.dtype
        chunk = (getattr(array, "chunks", None) or (1,))[0]
    pixels = (*shape, 1) if spec.pixels and len(shape) == 2 else shape
    numbers = encoded.indices.to_numpy().astype(np.int64)  # times blocks, they exceed 32 bits
    return StoredRows(
        files, Spec(pixels, dtype), shape, chunk, encoded.dictionary, numbers,
        rows.field("index").to_numpy(), dataset, arrays,
    )  # fmt: skip
