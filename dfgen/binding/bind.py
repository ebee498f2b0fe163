"""Binding: a table, x and y become the parts that a `Loader` and a model need."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bound_rows import bound_rows
from dfgen.binding.default_features import named_features
from dfgen.binding.nested import Tree, leaves, map_leaves
from dfgen.binding.ordering import order_of
from dfgen.binding.packed_rows import open_columns
from dfgen.binding.preprocessing import Preprocessing
from dfgen.binding.row_problems import (
    check_problems,
    deep_problems,
    known_problems,
)
from dfgen.binding.row_sizes import row_sizes
from dfgen.binding.row_sources import row_sources
from dfgen.binding.row_weights import row_weights
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, reason
from dfgen.loading.order.epochs import Order
from dfgen.loading.pending_batch import Weights
from dfgen.loading.state import ids_digest
from dfgen.samples.albumentations import Pipeline
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.features.ragged import Ragged
from dfgen.samples.reader import SampleReader
from dfgen.samples.transforms import Transform, check_transform
from dfgen.stores.stores import store_of
from dfgen.table.mapped_column import MappedColumn


@dataclass(frozen=True, eq=False)
class Binding:
    """Inputs and targets bound to the rows of a manifest.

    Args:
        columns: of the manifest.
        x, y: the names of features, nested as the arguments.
        reader: makes samples of rows.
        weights: the weight of each row in the loss; None means 1.
        own_weights: name of an array of y -> a further factor of its weights.
        order: the order of rows, by seed 0.
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
        """Return `x` or `y` with the names of arrays, a dict of names if a feature has several."""
        return map_leaves(lambda name: self[name].feature.arrays(name), tree)

    def preprocessing(self, data_format: str, transform: Transform | None) -> Preprocessing:
        """Return the preprocessing of a row, and the meaning of predictions."""
        inputs = {name: self._unbound(name) for name in leaves(self.x)}
        for name, feature in inputs.items():
            if feature.like is not None and feature.like not in inputs:
                raise ArgumentError(
                    f"{name!r} in x follows {feature.like!r} in y, which no row has when serving"
                )
        check_transform("transform", transform, "sample")
        targets = {name: self._unbound(name) for name in leaves(self.y)}
        classes = {n: None if one.class_names is None else one for n, one in targets.items()}
        return Preprocessing(self.x, self.y, inputs, classes, data_format, transform)

    def _unbound(self, name: str) -> Feature:
        """Return a feature with its class names, for rows without an array file."""
        bound = self[name]
        feature = bound.feature
        if isinstance(feature, Image):
            feature = replace(feature, index=None, dataset=None)
        return feature if bound.like is None else replace(feature, like=bound.like)  # type: ignore[type-var]

    @property
    def class_names(self) -> list[Any] | dict[str, list[Any]] | None:
        """The class names of y in the order of their indices; by name if y has several."""
        names = {
            name: list(classes)
            for name in leaves(self.y)
            if (classes := self[name].feature.class_names) is not None
        }
        return names.get(self.y) if isinstance(self.y, str) else names or None

    @property
    def weighted(self) -> bool:
        """Whether some rows do not weigh 1."""
        return self.weights is not None or bool(self.own_weights or self.reader.present)

    @property
    def ids_digest(self) -> str:
        """A digest of the ids of all rows."""
        ids, stored = self.reader.ids, self.columns.stored_digest
        is_stored = stored is not None and ids is self.columns.stored.get("id")
        return stored() if stored is not None and is_stored else ids_digest(ids)

    @property
    def labels_digest(self) -> str:
        """A digest of the targets of all rows, 16 hexadecimal digits.

        Of files, text and columns read by functions, it depends only on which are missing.
        """
        digest = blake2b(digest_size=8)
        for bound in map(self.__getitem__, leaves(self.y)):
            feature = bound.feature
            values = bound.values
            several = (values.offsets, *values.arrays) if isinstance(values, Ragged) else (values,)
            arrays = [array for array in several if isinstance(array, np.ndarray)]
            if arrays and feature.like is not None:  # the image is no label
                feature = replace(feature, like=None)  # type: ignore[type-var]
            for array in arrays:
                digest.update(repr((bound.name, feature, array.shape)).encode())
                digest.update(np.ascontiguousarray(array).tobytes())
            if bound.present is not None:
                digest.update(np.packbits(bound.present).tobytes())
        return digest.hexdigest()


def bind(arguments: SequenceArguments) -> Binding:
    """Bind inputs and targets to the rows of a manifest.

    Raises:
        ManifestError: a column, an id, a path or a label of the manifest cannot be used.
        ArgumentError: an argument does not fit the manifest.

    Example:
        >>> bound = bind(SequenceArguments(df, y="kind", image_size=(64, 64)))  # doctest: +SKIP
        >>> loader = Loader(bound.reader, weights=bound.weights, batch_size=64)
    """
    columns, pack = open_columns(arguments)
    x, y, named = named_features(columns, arguments)
    problems = known_problems(columns)
    if pack is not None:
        named = {name: pack.feature(feature) for name, feature in named.items()}
        problems = {**pack.problems, **problems}
    rows = bound_rows(columns, named, {*leaves(x)}, arguments.id, [*problems])
    features = rows.features
    files = [one for one in features if one.files is not None]
    packed = {} if pack is None else pack.sources(columns, features)
    loose = [one.files for one in files if one.name not in packed]
    loose = [one[:1] if isinstance(one, MappedColumn) else one for one in loose]  # all in one store
    store = store_of(loose, arguments.limits, arguments.storage_options)
    sizes, unread = row_sizes(columns, features, packed, store)
    if not any(one.feature.of_files or one.like is not None for one in features):
        problems = {}  # of files that are not read
    if "format" in columns.names:  # facts
        encoded = [one for one in files if not getattr(packed.get(one.name), "is_pixels", False)]
        problems = {**deep_problems(columns, encoded), **problems}
    problems = {**{row: reason(error) for row, error in unread.items()}, **problems}
    if problems and arguments.on_error == "raise":
        check_problems(columns, rows, problems)

    transform: Any = arguments.transform
    if isinstance(transform, Pipeline):
        transform = transform.of(
            (one.name, one.feature.kind, getattr(one.feature, "format", ""),
             one.arrays.get("labels", ""))
            for one in features
        )  # fmt: skip
    sources = row_sources(arguments, columns, features, packed, store)

    by_name = {one.name: one for one in features}
    weights, own_weights = None, dict[str, Weights]()
    if arguments.sample_weight is not None or arguments.class_weight is not None:
        targets = map_leaves(by_name.get, y)
        weights, own = row_weights(columns, targets, arguments)
        own_weights = {array: own[name] for name in own for array in by_name[name].specs}
    blocks = [*packed.values(), *sources.values()]
    order = order_of(arguments, columns, rows, sizes.values(), blocks)
    reader = SampleReader(rows.ids, features, transform, store, sources, sizes)
    return Binding(columns, x, y, reader, weights, own_weights, order, problems)
