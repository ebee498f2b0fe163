"""Sizes of images that keep them, known before any is decoded."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.binding.row_ids import lines_of_rows
from dfgen.errors import ArgumentError, warn
from dfgen.limits import DEFAULT, Limits
from dfgen.loading.loader import Loader
from dfgen.loading.order.buckets import Buckets, PaddingShare, padding_share
from dfgen.manifest.building.scan import Access, read_facts
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.pixels.scaling import too_deep
from dfgen.samples.reader import BoundRows
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.system import one_of, whole

_DEPTHS = np.array([8, 16, 32])


def deep_rows(
    columns: Columns, features: Iterable[BoundFeature], decoded: Container[str]
) -> dict[int, str]:
    """Return row -> why its file has too many bits for its image, by the facts of the manifest.

    Warns of an image that keeps the numbers of files of different depths. The facts are those of
    the column of files. What was `decoded`, by the names of features, is left alone.
    """
    is_fact = {"bits", "format"} <= {*columns.names} and "bits" not in columns.labels
    if not is_fact or not pa.types.is_integer(columns["bits"].type):
        return {}
    rows = dict[int, str]()
    held = columns.of_facts
    read = (bound for bound in features if bound.name not in decoded)
    for feature in (b.image for b in read if b.image and b.image.column == held):
        bits = columns["bits"]
        if feature.most_bits is not None:
            for row in pc.indices_nonzero(pc.greater(bits, feature.most_bits)).to_pylist():
                rows[row] = too_deep(bits[row].as_py())
        elif feature.raw_depth:
            found = pc.unique(bits).drop_null().to_numpy()
            depths = sorted(set(_DEPTHS[np.searchsorted(_DEPTHS, found.clip(max=32))].tolist()))
            if len(depths) > 1:
                warn(
                    f"the files of {feature!r} have {' and '.join(map(str, depths))} bits a "
                    "channel, by the facts of the manifest, and it keeps the numbers of each: the "
                    'brightest are 255 in some, 65535 in others. Give scale="0..1" and '
                    'dtype="float32", or choose files of one depth: df[df["bits"] == '
                    f"{depths[-1]}]"
                )
    return rows


def refusal_of_deep(rows: Mapping[int, str], reader: BoundRows) -> str:
    """Return why a Sequence refuses rows whose files have too many bits."""
    return (
        f"{len(rows):,} of {len(reader):,} rows have images of more bits than are asked for, by "
        f"the facts of the manifest:{lines_of_rows(rows, reader)}"
    )


_FACTS = ("height", "width", "orientation")
_FIRST = 16  # rows whose files tell by how much an image is larger than the one that it follows
_MANY = 65_536  # rows of which the padding is told


def image_sizes(
    columns: Columns,
    features: tuple[BoundFeature, ...],
    packed: Mapping[str, Sizes | None],
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
) -> tuple[dict[str, Sizes], dict[int, str]]:
    """Return the sizes of images of `size=None` by their names, and row -> why one has none.

    They are the facts of the manifest, of its column of files. Where these are not known, the
    headers of the files are read, once, in threads; `options` open those that are far away.
    Those of `packed` images are known already.
    """
    sizes = {name: known for name, known in packed.items() if known is not None}
    kept = [bound for bound in features if bound.variable_size]
    problems = dict[int, str]()
    for bound in kept:
        if not bound.feature.follows and bound.name not in sizes:
            facts = _known(columns) if bound.feature.column == columns.of_facts else None
            sizes[bound.name], unread = _sizes(facts, bound.files, limits, options)
            problems |= unread
    for bound in kept:
        if bound.like in sizes and bound.files is not None:
            sizes[bound.name] = _following(sizes[bound.like], bound, limits, options)
    return {bound.name: sizes[bound.name] for bound in features if bound.name in sizes}, problems


def _following(
    followed: Sizes, bound: BoundFeature, limits: Limits, options: StorageOptions | None
) -> Sizes:
    """Return the sizes of images that follow others of their own size: a whole number of times.

    The first files tell the number: all are as many times as large, or an error when read.
    """
    known = followed.all(axis=1)
    rows = np.flatnonzero(known if bound.present is None else known & bound.present)[:_FIRST]
    files: Any = bound.files
    access = Access(limits=limits, options=options)
    facts = read_facts(files.take(pa.array(rows)), access)
    own = _upright(facts, limits)
    times = np.maximum(1, own // followed[rows])
    whole = (own == times * followed[rows]).all(axis=1) & (times[:, 0] == times[:, 1])
    first = times[whole][:1, 0]
    return followed * (first[0] if len(first) else 1)


def bucketed(
    image_sizes: Iterable[Sizes], bucket_by: str | None, batch_size: int
) -> tuple[Buckets | None, str | None]:
    """Return the Buckets by the shape of the first such image, and what tells them from others."""
    one_of("bucket_by", bucket_by, (None, "shape"))
    if bucket_by is None:
        return None, None
    sizes = next(iter(image_sizes), None)
    if sizes is None:
        raise ArgumentError(
            'bucket_by="shape" gathers images that keep their own sizes, but x has none: give '
            'image_size=None, or dfgen.Image("path", size=None)'
        )
    buckets = Buckets(sizes, whole("batch_size", batch_size, least=1))
    digest = blake2b(sizes.tobytes(), digest_size=8).hexdigest()
    return buckets, f"{bucket_by} {buckets.window} {digest}"


def padding_of_batches(loader: Loader) -> PaddingShare | None:
    """Return how much of the first epoch is padding; None where images have one size."""
    sizes = next(iter(loader.reader.sizes.values()), None)
    if sizes is None:
        return None
    order, first = loader.row_order, np.arange(min(len(sizes), _MANY))
    share, unbucketed = (
        padding_share(sizes[order.at(0, first)[0]], loader.batch_size)
        for order in (order, replace(order, buckets=None))
    )
    return PaddingShare(share, unbucketed)


def known_sizes(columns: Columns, limits: Limits = DEFAULT) -> Sizes | None:
    """Return (height, width) of the upright image of each row, 0 where the manifest tells none.

    None: it has no such facts.
    """
    known = _known(columns)
    return None if known is None else _upright(known, limits)


def _known(columns: Columns) -> pa.Table | None:
    """Return the facts of the manifest, as far as they tell sizes."""
    if not all(name in columns.names for name in _FACTS):
        return None
    facts = pa.table({name: columns[name] for name in _FACTS})
    return facts if all(map(pa.types.is_integer, facts.schema.types)) else None


def _sizes(
    known: pa.Table | None, files: Any, limits: Limits, options: StorageOptions | None
) -> tuple[Sizes, dict[int, str]]:
    sizes = np.zeros((len(files), 2), np.int32) if known is None else _upright(known, limits)
    missing = np.flatnonzero(~sizes.all(axis=1))
    if not missing.size:
        return sizes, {}
    unknown = files if len(missing) == len(files) else files.take(pa.array(missing))
    facts = read_facts(unknown, Access(limits=limits, options=options))
    sizes[missing] = _upright(facts, limits)
    broken = pc.indices_nonzero(pc.is_valid(facts["problem"])).to_pylist()
    return sizes, {int(missing[place]): facts["problem"][place].as_py() for place in broken}


def _upright(facts: pa.Table, limits: Limits) -> Sizes:
    """Return (height, width) when turned upright, 0 where a fact is missing, or no image has it."""
    height, width, orientation = (
        pc.fill_null(facts[name], 0).to_numpy().astype(np.float64) for name in _FACTS
    )
    sizes = np.where(orientation >= 5, (width, height), (height, width)).T
    known = (orientation >= 1) & (orientation <= 8) & (sizes >= 1).all(axis=1)
    known &= height * width <= limits.most["decoded_bytes"]
    return np.where(known[:, None], sizes, 0).astype(np.int32)
