"""Binding: a frame, x and y become all that a `Loader` needs, and a model to take its batches."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from dfgen.binding.class_names import present_columns
from dfgen.binding.default_features import Options, named_features
from dfgen.binding.following import followed_image
from dfgen.binding.frame_columns import Columns
from dfgen.binding.image_sizes import image_sizes
from dfgen.binding.nested import Tree, leaves, map_leaves
from dfgen.binding.ordering import Ordering
from dfgen.binding.packed_rows import open_columns
from dfgen.binding.pixel_cache import Cache, cached, checked_cache
from dfgen.binding.preprocessing import Preprocessing
from dfgen.binding.row_ids import ids_of, note_id
from dfgen.binding.row_lengths import row_lengths
from dfgen.binding.row_problems import (
    checked_problems,
    known_problems,
    known_sizes_of_files,
    warn_of_no_region,
)
from dfgen.binding.row_weights import ClassWeight, SampleWeight, row_weights
from dfgen.binding.rows_of_arrays import stored_rows
from dfgen.checks import one_of
from dfgen.errors import ArgumentError, ManifestError
from dfgen.explain.labels import warn_of_infinite
from dfgen.limits import DEFAULT, Limits
from dfgen.loading.order.epochs import Order
from dfgen.loading.pending_batch import Weights
from dfgen.packs.rows import PackSource
from dfgen.samples.albumentations import Pipeline
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.features.ragged import Ragged
from dfgen.samples.reader import BoundRows, SampleReader
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.samples.transforms import Transform
from dfgen.samples.user_functions import check_transform
from dfgen.spec import IntArray
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import store_of
from dfgen.table.any_table import Table


@dataclass(frozen=True, eq=False)
class Binding:
    """Inputs and targets bound to the rows of a manifest.

    Args:
        x, y: the names of features, nested as they were given.
        weights: what each row counts in the loss.
        own_weights: name of an array of y -> by what that is multiplied in the loss of this one.
        order: the order of rows.
        problems: row -> why it cannot be read.
    """

    columns: Columns
    x: Tree
    y: Tree
    reader: SampleReader
    weights: Weights | None
    own_weights: Mapping[str, Weights]
    order: Order
    problems: Mapping[int, str]

    def __getitem__(self, name: str) -> BoundFeature:
        return next(bound for bound in self.reader.features if bound.name == name)

    def arrays(self, tree: Tree) -> Tree:
        """Return `x` or `y` with the names of arrays: several of them for some features."""
        return map_leaves(lambda name: self[name].feature.arrays(name), tree)

    def preprocessing(self, data_format: str, transform: Transform | None) -> Preprocessing:
        """Return what the inputs are made by, of rows by hand, and what targets stand for."""
        inputs = {name: self._unbound(name) for name in leaves(self.x)}
        for name, one in inputs.items():
            if one.like is not None and one.like not in inputs:
                raise ArgumentError(
                    f"{name!r} in x follows {one.like!r} in y, which a row by hand has not"
                )
        check_transform("transform", transform, "sample")
        targets = {name: self._unbound(name) for name in leaves(self.y)}
        known = {n: None if one.class_names is None else one for n, one in targets.items()}
        return Preprocessing(self.x, self.y, inputs, known, data_format, transform)

    def _unbound(self, name: str) -> Feature:
        """Return a feature as it would be written, with all that its column has told."""
        bound = self[name]
        feature = bound.feature
        if isinstance(feature, Image):  # a row by hand is no row of an array file
            feature = replace(feature, index=None, dataset=None)
        return feature if bound.like is None else replace(feature, like=bound.like)  # type: ignore[type-var]

    @property
    def class_names(self) -> list[Any] | dict[str, list[Any]] | None:
        """The class names of y in the order of their numbers; by name where y has several."""
        known = {name: self[name].feature.class_names for name in leaves(self.y)}
        names = {name: list(found) for name, found in known.items() if found is not None}
        return names.get(self.y) if isinstance(self.y, str) else names or None

    @property
    def weighted(self) -> bool:
        """Whether rows weigh otherwise than each 1."""
        return self.weights is not None or bool(self.own_weights or self.reader.present)

    @property
    def labels_digest(self) -> str:
        """A digest of the targets of every row, 16 hexadecimal digits.

        Files, text and what functions make have no part in it, but whether they are missing.
        """
        digest = blake2b(digest_size=8)
        for bound in map(self.__getitem__, leaves(self.y)):
            feature = bound.feature
            values = bound.values
            several = (values.offsets, *values.arrays) if isinstance(values, Ragged) else (values,)
            arrays = [array for array in several if isinstance(array, np.ndarray)]
            if arrays and feature.like is not None:  # whichever image it lies on
                feature = replace(feature, like=None)  # type: ignore[type-var]
            for array in arrays:
                digest.update(repr((bound.name, feature, array.shape)).encode())
                digest.update(np.ascontiguousarray(array).tobytes())
            if bound.present is not None:
                digest.update(np.packbits(bound.present).tobytes())
        return digest.hexdigest()


def bind(
    manifest: Table | str | os.PathLike[str],
    x: Tree = "path",
    y: Tree = None,
    *,
    options: Options | None = None,
    id: str | None = None,
    sample_weight: SampleWeight = None,
    class_weight: ClassWeight = None,
    ordering: Ordering | None = None,
    cache: Cache = None,
    transform: Transform | None = None,
    on_error: str = "raise",
    root: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    where: Any = None,
    pack: Any = None,
) -> Binding:
    """Bind inputs and targets to the rows of a manifest.

    The arguments are those of `dfgen.Sequence`, but that `options` are for columns given by their
    names alone, and `ordering` has those that decide the order of rows.

    Raises:
        ManifestError: the manifest cannot be used: a column, an id, a path, a label.
        ArgumentError: an argument that cannot be.

    Example:
        >>> bound = bind(df, y="kind", options=Options(image_size=(64, 64)))  # doctest: +SKIP
        >>> loader = Loader(bound.reader, weights=bound.weights, batch_size=64)
    """
    one_of("on_error", on_error, ("raise", "skip"))
    if root is not None and not isinstance(root, str | os.PathLike):
        raise ArgumentError(f"root must be the path of a folder, got {root!r}")
    check_transform("transform", transform, "sample")
    ordering, limits, opened = (
        ordering or Ordering(),
        limits or DEFAULT,
        StorageOptions(storage_options),
    )
    opens = partial(store_of, limits=limits, options=opened)
    cache = checked_cache(cache)
    copies = None if cache == "memory" else cache, limits.cache_bytes, ordering.window
    columns, pack_rows = open_columns(manifest, root, limits, opened, where, pack, copies)
    taken = {name for name in (id, *leaves(sample_weight)) if isinstance(name, str)}
    options = replace(options or Options(), store_of=opens)
    x, y, named = named_features(columns, x, y, options, taken)
    told = known_problems(columns)
    if pack_rows is not None:
        named = {name: pack_rows.feature(feature) for name, feature in named.items()}
        told = {**pack_rows.problems, **told}
    features = _bound(columns, named, {*leaves(x)}, id, told)
    transform = _of_features(transform, features)

    packs = {} if pack_rows is None else pack_rows.sources(features, limits)
    loose = (bound for bound in features if bound.name not in packs)
    store = opens(files for bound in loose for files in columns.loose_files(bound))
    sizes, unread = image_sizes(columns, features, packs, limits, opened)
    lengths, unread_lengths = row_lengths(columns, features, store, packs)
    sizes, unread = sizes | lengths, unread | unread_lengths
    whole = (one for one in features if one.present is None and one.like is None)
    files = next((one for one in whole if one.files is not None), None)
    rows = BoundRows(ids_of(columns, id, files), features)
    warn_of_no_region(rows)
    annotated = any(one.like is not None and not one.feature.of_files for one in features)
    bad = unread | (told if files or annotated else {})
    problems = checked_problems(columns, rows, bad, packs, refuse=on_error == "raise")

    known = known_sizes_of_files(columns, features, packs)
    sources = _sources(features, packs, known)
    sources = cached(columns, features, sources, cache, limits, store, transform is not None)
    stored = stored_rows(features, sources, store, 2 * ordering.window)
    sources |= stored

    by_name = {bound.name: bound for bound in features}
    targets = map_leaves(by_name.get, y)
    weights, own = row_weights(columns, targets, sample_weight, class_weight)
    own_weights = {array: own[name] for name in own for array in by_name[name].specs}
    order = ordering.order(columns, rows, sizes.values(), stored, packs)
    reader = SampleReader(rows.ids, features, transform, store, sources, sizes)
    return Binding(columns, x, y, reader, weights, own_weights, order, problems)


def _of_features(transform: Transform | None, features: Iterable[BoundFeature]) -> Any:
    """Return a transform; a pipeline of Albumentations with the kind of each array."""
    if not isinstance(transform, Pipeline):
        return transform
    return transform.of(
        (bound.name, bound.feature.kind, getattr(bound.feature, "format", ""),
         bound.arrays.get("labels", ""))
        for bound in features
    )  # fmt: skip


def _sources(
    features: Iterable[BoundFeature], packs: Mapping[str, PackSource], known: Mapping[str, IntArray]
) -> dict[str, RowSource]:
    """Return name of a feature -> its source in a pack, else its files."""
    return {
        bound.name: packs.get(bound.name)
        or FileSource(bound.feature, bound.values, known.get(bound.name))
        for bound in features
    }


def _bound(
    columns: Columns,
    named: Mapping[str, Feature],
    inputs: set[str],
    id: str | None,
    problems: Iterable[int],
) -> tuple[BoundFeature, ...]:
    """Return all named features with their values; `inputs` are the names of x."""
    try:
        features = tuple(
            _bound_one(columns, name, named, name in inputs, problems) for name in named
        )
    except ManifestError as error:
        note_id(error, columns, id)
        raise
    for bound in features:
        if bound.name not in inputs:
            warn_of_infinite(bound)
    return features


def _bound_one(
    columns: Columns,
    name: str,
    named: Mapping[str, Feature],
    is_input: bool,
    problems: Iterable[int],
) -> BoundFeature:
    feature, like = named[name], followed_image(named, name)
    present, source = present_columns(columns, feature, is_input, problems)
    if like is not None:
        feature = replace(feature, like=named[like])  # type: ignore[type-var]
    return BoundFeature(name, feature, feature.bind(source), like, present)
