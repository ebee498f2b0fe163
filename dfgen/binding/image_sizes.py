"""Sizes of images that keep them, known before any is decoded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import read_facts
from dfgen.packs.rows import PackSource
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.stores.store import StorageOptions

_FACTS = ("height", "width", "orientation")
_FIRST = 16  # rows whose files tell by how much an image is larger than the one that it follows


def image_sizes(
    columns: Columns,
    features: tuple[BoundFeature, ...],
    packs: Mapping[str, PackSource],
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
) -> tuple[dict[str, Sizes], dict[int, str]]:
    """Return the sizes of images of `size=None` by their names, and row -> why one has none.

    They are the facts of the manifest, of its column of files. Where these are not known, the
    headers of the files are read, once, in threads; `options` open those that are far away.
    Those that `packs` tell are known already.
    """
    sizes = {name: held.sizes for name, held in packs.items() if held.sizes is not None}
    kept = [bound for bound in features if bound.variable_size]
    problems = dict[int, str]()
    for bound in kept:
        if bound.like is None and bound.name not in sizes:
            ours = bound.feature.columns[0] == columns.of_facts
            facts = _known(columns) if ours else None
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
