"""Preprocessing: the steps of training for single rows, and the meaning of predictions.

It is deployed with a model, so neither pandas nor Keras is imported.
"""

import io
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.binding.row_sources import row_sizes
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.files import write_whole
from dfgen.samples.features.arrays import Array
from dfgen.samples.features.base import Feature
from dfgen.samples.features.classes import Category, MultiLabel
from dfgen.samples.features.image import Image
from dfgen.samples.features.masks import Mask
from dfgen.samples.reader import BoundFeature, SampleReader
from dfgen.samples.transforms import Transform, check_transform
from dfgen.serving.preprocessing_json import from_text, to_text
from dfgen.spec import Tree, channels_first, leaves, map_leaves, tree_of
from dfgen.stores.stores import Stores, store_of
from dfgen.table.arrow_types import FILE

if TYPE_CHECKING:
    from dfgen.binding.bind import Binding


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of training as a function; `Sequence.preprocessing` returns it.

    Call it with a path, the bytes of a file, an array of pixels (height, width, channels), or a
    row (a mapping of columns, or a pandas Series), whose files may be any of these. It returns x as
    in training, a batch of one; for a DataFrame or a list, a batch of all. Crops are in the centre,
    and nothing is flipped.

    Args:
        x, y: the names of features, nested as the inputs and targets.
        inputs: name -> feature of x.
        targets: name -> feature of y, None if it has no class names.
        data_format: of images, `"channels_last"` or `"channels_first"`.
        transform: `transform(sample, rng) -> sample` of the inputs; `rng` is None.

    Example:
        >>> preprocessing = seq.preprocessing()  # doctest: +SKIP
        >>> preprocessing.decode(model.predict(preprocessing("cat.jpg")))
        ['cat']
    """

    x: Tree
    y: Tree
    inputs: Mapping[str, Feature]
    targets: Mapping[str, Feature | None]
    data_format: str = "channels_last"
    transform: Transform | None = None

    @property
    def class_names(self) -> list[Any] | dict[str, list[Any]] | None:
        """The class names of y in the order of their indices; by name if y has several."""
        known = {name: list(each.class_names) for name, each in self.targets.items() if each}
        return known.get(self.y) if isinstance(self.y, str) else known or None

    def __call__(self, rows: Any) -> Any:
        """Return arrays (batch, ...) as in training, nested as x.

        Raises:
            ArgumentError: the argument is of another type.
            DfgenError: a file or a value cannot be used.
        """
        arrays = self._arrays(self._rows(rows))
        return tree_of(map_leaves(lambda name: self.inputs[name].arrays(name), self.x), arrays.get)

    def decode(self, predictions: Any) -> Any:
        """Return class names for the predictions of a model, nested as y.

        A target of classes becomes a list of the most likely class of each row; with `"binary"` and
        `MultiLabel`, the classes with a probability above 0.5. Other predictions are unchanged.

        Raises:
            ArgumentError: predictions are not nested as y, or do not fit its classes.
        """
        if isinstance(self.y, str) and not isinstance(predictions, Mapping):
            return _meaning(self.targets.get(self.y), predictions)
        if isinstance(self.y, Mapping) and isinstance(predictions, Mapping):
            return {key: _meaning(self.targets.get(key), one) for key, one in predictions.items()}
        names, is_list = [*leaves(self.y)], isinstance(predictions, list | tuple)
        if isinstance(self.y, Mapping) or not is_list or len(predictions) != len(names):
            raise ArgumentError(
                f"predictions are a {type(predictions).__name__}, but y is {self.y!r}: nest them "
                "as y"
            )
        pairs = zip(names, predictions, strict=True)
        return [_meaning(self.targets.get(name), one) for name, one in pairs]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file for `dfgen.load_preprocessing`.

        Args:
            path: of the file, which is replaced if it exists.

        Raises:
            ArgumentError: a function cannot be imported by name.
            WriteError: the file cannot be written.

        Example:
            >>> val.preprocessing().save("pets.keras.json")  # doctest: +SKIP
        """
        text = self.to_json()
        write_whole(os.path.abspath(path), lambda file: file.write(text.encode()))

    def to_json(self) -> str:
        """Return JSON for `from_json`.

        Raises:
            ArgumentError: a function cannot be imported by name.
        """
        return to_text({one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def from_json(cls, text: str | bytes, allow_functions: bool = False) -> Self:
        """Return a Preprocessing equal to the one that `to_json` saved.

        Args:
            text: the JSON.
            allow_functions: whether to import functions, and features of other packages. This runs
                their code, so use it only for files that you trust.

        Raises:
            ArgumentError: it is other JSON, was edited, has a newer version, or names functions.
        """
        names = [one.name for one in fields(cls)]
        return cls(**from_text(text, names, allow_functions))

    def _rows(self, value: Any) -> list[Mapping[str, Any]]:
        if getattr(value, "ndim", 0) == 2 and hasattr(value, "to_dict"):  # a DataFrame
            value = value.to_dict("records")
        if isinstance(value, np.ndarray) and value.dtype.kind in "OSUT":  # of paths
            value = value.tolist()
        several = value if isinstance(value, list | tuple) else [value]
        if not several:
            raise ArgumentError("an empty list makes no batch")
        return [self._row(one) for one in several]

    def _row(self, value: Any) -> Mapping[str, Any]:
        if hasattr(value, "keys"):
            return {name: value[name] for name in value.keys()}  # noqa: SIM118  # of a Series too
        columns = {column for feature in self.inputs.values() for column in feature.columns}
        if len(columns) > 1 or not any(feature.of_files for feature in self.inputs.values()):
            raise ArgumentError(
                f"x is made of the columns {', '.join(map(repr, sorted(columns)))}: give a row, "
                "{column: value, ...}"
            )
        return {columns.pop(): value}

    def _arrays(self, rows: list[Mapping[str, Any]]) -> dict[str, npt.NDArray[Any]]:
        columns = Columns(_table(rows, self.inputs.values()))
        numbers = np.arange(len(rows))
        bound = tuple(
            self._bound(name, columns)
            for name in sorted(self.inputs, key=lambda name: self.inputs[name].like is not None)
        )
        store = store_of(one.files for one in bound if one.files is not None)
        sizes, _ = row_sizes(None, bound, {}, store)  # reading a row raises its error again
        reader = SampleReader(numbers, bound, self.transform, store, sizes=sizes)
        specs = reader.padding.specs(numbers, reader.specs)
        arrays = {
            name: np.full((len(rows), *spec.shape), spec.blank, spec.dtype)
            for name, spec in specs.items()
        }
        reader.gather(numbers, arrays)
        for row in range(len(rows)):
            reader.read(row, {name: array[row, ...] for name, array in arrays.items()}, None)
        store.close()
        first = self.data_format == "channels_first"
        return {
            name: channels_first(array) if first and specs[name].pixels else array
            for name, array in arrays.items()
        }

    def _bound(self, name: str, columns: Columns) -> BoundFeature:
        feature = self.inputs[name]
        like = feature.like
        if like is not None:
            feature = replace(feature, like=self.inputs[like])  # type: ignore[type-var]
        return BoundFeature(name, feature, feature.bind(columns), like)


def _table(rows: list[Mapping[str, Any]], features: Collection[Feature]) -> pa.Table:
    """Return the columns that features need; arrays of pixels become files."""
    columns, readers = {}, dict[str, Feature]()
    for feature in features:
        if feature.of_files:
            readers.setdefault(feature.columns[0], feature)
    for name in dict.fromkeys(name for feature in features for name in feature.columns):
        for place, row in enumerate(rows):
            if name not in row:
                raise ManifestError(
                    f"row {place} has no {name!r}, which x needs: it has {', '.join(map(str, row))}"
                )
        values = [row[name] for row in rows]
        if name in readers:
            files = pa.array([_file(value, readers[name]) for value in values], FILE)
            columns[name] = files if files.field("path").null_count else files.field("path")
        else:
            columns[name] = pa.array([*map(_plain, values)], from_pandas=True)
    return pa.table(columns)


def _plain(value: Any) -> Any:
    """Return a value that Arrow takes."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        return value.item()
    return [*value] if isinstance(value, tuple | np.ndarray) else value


def _file(value: Any, feature: Feature) -> dict[str, Any]:
    """Return bytes and path of a file; one of them is None."""
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        return dict(value) if value["bytes"] is None else {"bytes": value["bytes"], "path": None}
    if isinstance(value, np.ndarray):
        value = _file_of(value, feature)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value), "path": None}
    if isinstance(value, str | os.PathLike):
        return {"bytes": None, "path": os.fspath(value)}
    raise ArgumentError(
        f"{feature.columns[0]}={value!r}: expected a path, bytes or an array, or a row of these"
    )


def _file_of(array: npt.NDArray[Any], feature: Feature) -> bytes:
    if isinstance(feature, Array):
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        return file.getvalue()
    if isinstance(feature, Image | Mask) and getattr(feature, "decode", None) is None:
        return _png_of(array)
    raise ArgumentError(f"{feature!r} takes no array: give the path or the bytes of a file")


def _meaning(feature: Feature | None, predictions: Any) -> Any:
    """Return the most likely class of each row, or the classes above 0.5.

    Predictions of other targets are returned unchanged.
    """
    if not isinstance(feature, Category | MultiLabel):
        return predictions
    names, scores = feature.class_names or (), np.asarray(predictions)
    is_binary = isinstance(feature, Category) and feature.label_mode == "binary"
    shapes = ((), (1,)) if is_binary else ((len(names),),)
    if scores.ndim == 0 or scores.shape[1:] not in shapes or np.isnan(scores).any():
        raise ArgumentError(
            f"predictions of {feature.column!r} have the shape {scores.shape}, expected numbers of "
            f"shape (rows, {shapes[-1][0]}), without NaN"
        )
    if isinstance(feature, Category) and not is_binary:
        return [names[index] for index in scores.argmax(axis=1).tolist()]
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1):
        raise ArgumentError(
            f"predictions of {feature.column!r} are from {scores.min():g} to {scores.max():g}, "
            "expected probabilities from 0 to 1: convert logits by keras.ops.sigmoid"
        )
    if is_binary:
        return [names[index] for index in (scores.reshape(-1) > 0.5).astype(int).tolist()]
    return [[names[index] for index in np.flatnonzero(row > 0.5)] for row in scores]


def preprocessing_of(
    binding: "Binding", data_format: str, transform: Transform | None
) -> Preprocessing:
    """Return the preprocessing of a row as in training, and the meaning of predictions."""
    inputs = {name: _unbound(binding[name]) for name in leaves(binding.x)}
    for name, feature in inputs.items():
        if feature.like is not None and feature.like not in inputs:
            raise ArgumentError(
                f"{name!r} in x follows {feature.like!r} in y, which no row has when serving"
            )
    check_transform("transform", transform, "sample")
    targets = {name: _unbound(binding[name]) for name in leaves(binding.y)}
    classes = {n: None if one.class_names is None else one for n, one in targets.items()}
    return Preprocessing(binding.x, binding.y, inputs, classes, data_format, transform)


def _unbound(bound: BoundFeature) -> Feature:
    """Return a feature with its class names, for rows without an array file."""
    feature = bound.feature
    if isinstance(feature, Image):
        feature = replace(feature, index=None, dataset=None)
    return feature if bound.like is None else replace(feature, like=bound.like)  # type: ignore[type-var]


def load_preprocessing(
    path: str | os.PathLike[str], allow_functions: bool = False
) -> Preprocessing:
    """Return the preprocessing that `Preprocessing.save` wrote.

    Args:
        path: of the JSON file.
        allow_functions: as in `Preprocessing.from_json`.

    Raises:
        MissingFileError: there is no such file.
        ArgumentError: it is another file, was edited, has a newer version, or names functions.

    Example:
        >>> preprocessing = dfgen.load_preprocessing("pets.keras.json")  # doctest: +SKIP
        >>> model.predict(preprocessing(["a.jpg", "b.jpg"]))
    """
    try:
        data = Stores().read(os.fspath(path))
        return Preprocessing.from_json(data, allow_functions)
    except (ArgumentError, DecodeError, MissingFileError) as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error


def _png_of(pixels: npt.NDArray[Any]) -> bytes:
    """Encode grey, RGB or RGBA pixels as a PNG file, with fast compression."""
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    fits = pixels.ndim in (2, 3) and channels in (1, 3, 4) and pixels.size
    if not fits or pixels.dtype not in (np.uint8, np.uint16):
        raise ArgumentError(
            f"an image must be an array (height, width, channels) of 1, 3 or 4 channels, or "
            f"(height, width), of uint8 or uint16, got {pixels.dtype} {pixels.shape}"
        )
    if channels > 1:
        code = cv2.COLOR_RGB2BGR if channels == 3 else cv2.COLOR_RGBA2BGRA
        pixels = cv2.cvtColor(np.ascontiguousarray(pixels), code)
    return bytes(cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1])
