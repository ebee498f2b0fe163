"""Binding: a table, x and y become the parts that a `Loader` and a model need."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import SequenceArguments, named_features
from dfgen.binding.ordering import order_of, row_weights
from dfgen.binding.packed_rows import open_columns
from dfgen.binding.row_problems import (
    check_problems,
    deep_problems,
    known_problems,
)
from dfgen.binding.row_sources import row_sizes, row_sources
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, column_list, reason
from dfgen.explain.labels import warn_of_infinite
from dfgen.loading.order.epochs import Order
from dfgen.loading.pending_batch import Weights
from dfgen.loading.receipts import ids_digest
from dfgen.manifest.schema import refuse_repeated
from dfgen.samples.features.base import Feature, Ragged
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundFeature, BoundRows, SampleReader
from dfgen.samples.transforms import Pipeline
from dfgen.spec import Present, Tree, leaves, map_leaves
from dfgen.stores.stores import store_of
from dfgen.table.arrow_types import (
    TEXT,
    MappedColumn,
    in_one,
    nulls,
    paths_of,
    refuse_empty_keys,
    value_type,
)


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
        weighted: whether some rows do not weigh 1.
    """

    columns: Columns
    x: Tree
    y: Tree
    reader: SampleReader
    weights: Weights | None
    own_weights: Mapping[str, Weights]
    order: Order
    problems: Mapping[int, str]
    weighted: bool

    def __getitem__(self, name: str) -> BoundFeature:
        return next(bound for bound in self.reader.features if bound.name == name)

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
    rows = _bound_rows(columns, named, {*leaves(x)}, arguments.id, [*problems])
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
    weighted = weights is not None or bool(own_weights or reader.present)
    return Binding(columns, x, y, reader, weights, own_weights, order, problems, weighted)


def _bound_rows(
    columns: Columns,
    named: Mapping[str, Feature],
    inputs: set[str],
    id: str | None,
    problems: list[int],
) -> BoundRows:
    """Return ids, and all features with the values of their columns.

    `inputs` are the names of x; rows with `problems` cannot be read.
    """
    features = []
    try:
        for name, feature in named.items():
            like = None if feature.like is None else _followed_image(named, name)
            present = None
            if feature.missing == "ignore":
                if name in inputs:
                    raise ArgumentError(
                        f'{feature!r} is in x, but missing="ignore" is for targets, which then '
                        "weigh 0 in the loss: leave it out, and drop or fill missing values"
                    )
                present = _present_rows(columns, feature)
            elif problems and like is not None and not feature.of_files:
                present = _annotated_rows(columns, feature, problems)
            if like is not None:
                feature = replace(feature, like=named[like])  # type: ignore[type-var]
            values = feature.bind(columns if present is None else _filled(columns, present))
            features.append(BoundFeature(name, feature, values, like, present))
            if name not in inputs and feature.kind == "number":
                warn_of_infinite(features[-1])
    except ManifestError as error:
        name = "id" if id is None else id
        if error.row is not None and name in columns.names:
            error.add_note(f"row {error.row} has {name}={columns[name][error.row]}")
        raise
    files = (one for one in features if one.files is not None)
    whole = (one for one in files if one.present is None and one.like is None)
    features.sort(key=lambda one: one.like is not None)
    return BoundRows(_ids_of(columns, id, next(whole, None)), tuple(features))


def _followed_image(named: Mapping[str, Feature], name: str) -> str:
    """Return the name of the image that a feature of x or y follows."""
    feature = named[name]
    like, what = feature.like, f"{type(feature).__name__}({feature.columns[0]!r})"
    leaders = {
        key: image
        for key, image in named.items()
        if isinstance(image, Image) and image.like is None
    }
    names = [
        key for key, image in leaders.items() if like == "" or like in (key, image.column, image)
    ]
    if len(names) != 1:
        write = f"like={next(iter(leaders))!r}" if leaders else "x=dfgen.Image(...) as well"
        raise ArgumentError(
            f"{what} has like={like!r}, expected the name of one image that follows no other, of "
            f"{', '.join(leaders) or 'none'} in x and y: write {write}"
        )
    if leaders[names[0]].missing == "ignore":
        raise ArgumentError(
            f"{what} follows the image {names[0]!r}, which rows may lack: leave out "
            'missing="ignore" there'
        )
    return names[0]


def _present_rows(columns: Columns, feature: Feature) -> Present:
    """Return which rows have all columns of a feature with `missing="ignore"`."""
    missing = [nulls(columns[name]) for name in feature.columns]
    present: Present = ~np.logical_or.reduce(missing)
    for name in feature.columns:
        if not present.any() and pa.types.is_null(columns[name].type):
            raise ManifestError(
                f"column {name!r} is missing in all {len(columns):,} rows and has no type: leave "
                f"{type(feature).__name__} out of y, or give the column a type"
            )
    return present


def _annotated_rows(columns: Columns, feature: Feature, problems: list[int]) -> Present | None:
    """Return which rows have annotations; rows with problems are skipped and may lack them.

    Returns None if each row must have them.
    """
    present = np.ones(len(columns), np.bool_)
    for name in feature.columns:
        present[problems] &= ~nulls(columns[name])[problems]
    return None if present.all() or not present.any() else present


def _filled(columns: Columns, present: Present) -> Columns:
    """Return columns in which the first present row replaces missing ones.

    Row numbers do not change. Without any present row, the columns are empty.
    """
    rows = np.where(present, np.arange(len(present)), present.argmax())
    return columns.taking(rows if present.any() else rows[:0])


def _ids_of(columns: Columns, id: str | None, bound: BoundFeature | None) -> Any:
    """Return the ids of the rows, NumPy integers or Arrow text, each id once.

    They are in the column `id`, or the paths of `bound` if there is no such column.
    """
    is_own = id is None or (isinstance(id, str) and id == "id")
    if is_own and "id" in columns.stored and columns.rows is None:
        return columns.stored["id"]
    if id is None and "id" not in columns.names:
        files = None if bound is None or isinstance(bound.files, MappedColumn) else bound.files
        paths = None if files is None else paths_of(files)
        if bound is None or paths is None or pc.count_distinct(paths).as_py() < len(paths):
            raise ManifestError(
                f"the manifest has no column 'id' (columns: {column_list(columns.names)}), and "
                'paths that repeat or are missing are no ids. Name another column, id="object_id", '
                'or number the rows, df["id"] = range(len(df))'
            )
        paths = in_one(paths_of(columns[bound.feature.columns[0]]))  # without a root
        return paths.cast(value_type(paths.type))
    name = columns.check("id", "id" if id is None else id)
    ids = columns[name]
    if not (pa.types.is_integer(ids.type) or ids.type in TEXT):
        raise ManifestError(
            f'column "{name}" of ids has {ids.type}, expected whole numbers or text: df["{name}"] '
            f'= df["{name}"].astype("int64"), or .astype(str), after dropping rows without an id'
        )
    refuse_empty_keys(name, ids, "id")
    try:
        refuse_repeated(pa.chunked_array([ids]), "the manifest")
    except ManifestError as error:
        raise ManifestError(str(error).replace('df["id"]', f'df["{name}"]')) from None
    return ids.to_numpy() if pa.types.is_integer(ids.type) else ids
