"""The sources of the features: files, packs, the cache, array files; and the sizes of rows."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import (
    ArgumentError,
    DecodeError,
    DfgenError,
    ManifestError,
    MissingFileError,
    warn,
)
from dfgen.limits import DEFAULT, Limits
from dfgen.machine import free_memory, threads
from dfgen.manifest.building.file_facts import USUAL
from dfgen.packs.rows import PackedFiles, PackedPixels, PackSource
from dfgen.progress_bars import progress
from dfgen.samples.features.base import specs_of, value_of
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import size_of_image
from dfgen.samples.pixels.formats import DECODERS
from dfgen.samples.pixels.geometry import shrunk
from dfgen.samples.reader import BoundFeature, RowLengths, Sizes
from dfgen.samples.sources import CachedPixels, FileSource, RowSource, StoredRows, key_of
from dfgen.spec import IntArray, Spec
from dfgen.stores.array_files import BROKEN_ROWS, ArrayFiles
from dfgen.stores.slots import Keys, Segment, memory_slots, open_segments
from dfgen.stores.stores import Stores, is_remote
from dfgen.table.arrow_types import LISTS, TEXT, MappedColumn, lengths_of

if TYPE_CHECKING:
    from dfgen.binding.arguments import SequenceArguments  # it imports pandas

_FACTS = ("height", "width", "orientation")
_TASK = 64  # rows of a task of a thread, 1 for remote files
_FIRST = 16  # rows whose files tell how much larger an image is than the one it follows

Errors = dict[int, DfgenError]
"""Row -> why its size is unknown."""

_DECIDING = ("size", "load_size", "resize", "color_mode", "interpolation", "antialias", "dtype")
_BLOCK = 1 << 16  # paths that are read at a time


def row_sizes(
    columns: Columns | None,
    features: Iterable[BoundFeature],
    sources: Mapping[str, RowSource],
    store: Stores,
) -> tuple[dict[str, RowLengths], Errors]:
    """Return name of a feature -> the first lengths of its array in each row, and errors.

    Packs, facts of the manifest and columns of lists tell them; else the headers of files are read,
    once, in threads. Only arrays whose shape differs between rows have lengths.
    """
    sizes, errors = dict[str, RowLengths](), Errors()
    features = [*features]
    for bound in sorted(features, key=lambda one: one.like is not None):
        source = sources.get(bound.name)
        if bound.like is not None and bound.variable_size:
            if bound.like in sizes:
                sizes[bound.name] = _multiples(sizes[bound.like], bound, store)
        elif bound.variable_size or specs_of(bound.feature)[0].own_length:
            sizes[bound.name], unread = sizes_of_rows(columns, bound, source, store)
            errors |= unread
    return {bound.name: sizes[bound.name] for bound in features if bound.name in sizes}, errors


def sizes_of_rows(
    columns: Columns | None, bound: BoundFeature, source: RowSource | None, store: Stores
) -> tuple[RowLengths, Errors]:
    """Return the lengths of one feature, 0 if unknown, and errors, as `row_sizes`."""
    if isinstance(source, PackedPixels):
        shape = np.array(source.spec.shape[:2], np.int32)
        return np.broadcast_to(shape, (len(bound.values), 2)), {}
    sizes = _known(columns, bound, store.limits)
    if isinstance(source, PackedFiles) and source.most and bound.variable_size:
        for row in np.flatnonzero(sizes.all(axis=1)).tolist():
            sizes[row] = shrunk(tuple(sizes[row].tolist()), source.most)
    unknown = np.flatnonzero(~(sizes > 0).all(axis=1))
    if bound.files is None or not unknown.size:
        return sizes, {}
    sizes[unknown], errors = _measured(bound, source, unknown, store)
    return sizes, errors


def _known(columns: Columns | None, bound: BoundFeature, limits: Limits) -> RowLengths:
    """Return the sizes that the table tells, 0 if it does not."""
    values, column = bound.values, bound.feature.columns[0]
    if bound.files is None:
        first = values.field(0) if pa.types.is_struct(values.type) else values
        if not isinstance(first.type, LISTS):
            raise ManifestError(
                f"column {column!r} has {first.type}, but None as first length of shape= needs a "
                f"list in each row: df[{column!r}] = tokens.tolist()"
            )
        return lengths_of(first)[:, None]
    known = None
    if columns is not None and column == columns.file_column:
        if bound.variable_size:
            known = known_sizes(columns, limits)
        elif bound.feature.kind == "audio" and "frames" in columns.names:
            frames = whole_column(columns, "frames")
            known = None if frames is None else frames.clip(min=0).astype(np.int32)[:, None]
    return np.zeros((len(values), 1 + bound.variable_size), np.int32) if known is None else known


def known_sizes(columns: Columns, limits: Limits = DEFAULT) -> Sizes | None:
    """Return (height, width) of the upright image of each row by the facts, 0 if unknown.

    Returns None if the manifest does not have these facts.
    """
    if not all(name in columns.names for name in _FACTS):
        return None
    facts = [columns[name] for name in _FACTS]
    if not all(pa.types.is_integer(fact.type) for fact in facts):
        return None
    height, width, orientation = (
        pc.fill_null(fact, 0).to_numpy(zero_copy_only=False).astype(np.float64) for fact in facts
    )
    sizes = np.where(orientation >= 5, (width, height), (height, width)).T
    known = (orientation >= 1) & (orientation <= 8) & (sizes >= 1).all(axis=1)
    known &= height * width <= limits.most["decoded_bytes"]
    return np.asarray(np.where(known[:, None], sizes, 0), np.int32)


def _multiples(followed: Sizes, bound: BoundFeature, store: Stores) -> Sizes:
    """Return sizes of images that are a whole number of times as large as those they follow.

    The first files tell the number; a file of another size is an error when it is read.
    """
    known = np.asarray(followed.all(axis=1))
    rows = np.flatnonzero(known if bound.present is None else known & bound.present)[:_FIRST]
    own, _ = _measured(bound, None, rows, store)
    times = np.maximum(1, own // followed[rows])
    is_multiple = (own == times * followed[rows]).all(axis=1) & (times[:, 0] == times[:, 1])
    first = times[is_multiple][:1, 0]
    return followed * (first[0] if len(first) else 1)


def _measured(
    bound: BoundFeature, source: RowSource | None, rows: IntArray, store: Stores
) -> tuple[RowLengths, Errors]:
    """Return the sizes of some rows, by the headers of their files."""
    sizes, errors = np.zeros((len(rows), 1 + bound.variable_size), np.int32), Errors()

    def measure(places: range) -> int:
        for place in places:
            row = int(rows[place])
            try:
                sizes[place] = _size(bound, source, row, store)
            except (DecodeError, MissingFileError) as error:
                errors[row] = error
        return len(places)

    task = 1 if store.far else _TASK
    tasks = [range(len(rows))[start : start + task] for start in range(0, len(rows), task)]
    if len(tasks) == 1:  # as when serving: no threads
        measure(tasks[0])
        return sizes, errors
    with (
        threads(USUAL.threads(store)) as pool,
        progress(len(rows), "Reading headers", " files") as bar,
    ):
        for number in pool.map(measure, tasks):
            bar.update(number)
    return sizes, dict(sorted(errors.items()))


def _size(bound: BoundFeature, source: RowSource | None, row: int, store: Stores) -> Any:
    if isinstance(source, PackSource):
        content: Any = source.content(row)
    else:
        content = value_of(bound.files if bound.variable_size else bound.values, row)
    if bound.variable_size:
        return size_of_image(content, store)
    feature: Any = bound.feature
    return feature.length(content, store)


def row_sources(
    arguments: "SequenceArguments",
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
    arguments: "SequenceArguments",
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
            each = np.unique(keys)
            if cache == "memory":
                segments = [Segment(each, memory_slots(len(each), spec, most))]
            else:
                settings = {  # all that the pixels depend on
                    **{name: getattr(step[0], name) for name in _DECIDING},
                    "shape": spec.shape,
                    "dtype": np.dtype(spec.dtype).name,
                    "decoders": DECODERS,
                    "opencv": cv2.__version__,
                    "pillow": version("pillow"),
                }
                segments = open_segments(cache, settings, each, spec, most)
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
    if source.packed:
        return "it is in a pack already"
    if not isinstance(values, pa.Array | MappedColumn) or values.type not in TEXT:
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
