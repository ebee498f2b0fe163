"""Preprocessing: what training did to a row, for one row by hand, and what predictions mean.

Neither pandas nor Keras is imported: it is what goes with a model.
"""

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.binding.decoding import meaning
from dfgen.binding.nested import Tree, channels_first, leaves, map_leaves, tree_of
from dfgen.binding.preprocessing_json import from_text, to_text
from dfgen.binding.row_lengths import row_lengths
from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.files import write_whole
from dfgen.samples.bound_feature import BoundFeature, RowLengths, Sizes
from dfgen.samples.features.array import Array
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.pixels.decoders import png_of, size_of_image
from dfgen.samples.reader import SampleReader
from dfgen.samples.transforms import Transform
from dfgen.stores.store import Store
from dfgen.stores.stores import Stores, store_of
from dfgen.table.file_columns import FILE, content_shown


@dataclass(frozen=True)
class GivenRows:
    """The columns of several rows, each a mapping."""

    rows: list[dict[str, Any]]

    def _each(self, name: str) -> Iterator[Any]:
        for place, row in enumerate(self.rows):
            if name not in row:
                raise ManifestError(
                    f"row {place} has no {name!r}, of which x is made. It has: "
                    f"{', '.join(map(str, row))}"
                )
            yield row[name]

    def __getitem__(self, name: str) -> pa.Array:
        return pa.array([*map(_plain, self._each(name))], from_pandas=True)

    def files(self, name: str) -> pa.Array:
        """Return the paths of the rows; structs of `bytes` and `path` where some have bytes."""
        return _files(self._each(name), name)

    def whole_numbers(self, name: str) -> pa.Array:
        """Return the indices of the rows."""
        return pa.array([*map(int, self._each(name))])


def _plain(value: Any) -> Any:
    """Return a value as Arrow takes it."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":
        return value.item()
    return [*value] if isinstance(value, tuple | np.ndarray) else value


def _files(values: Iterable[Any], column: str) -> pa.Array:
    """Return files as paths, or structs of `bytes` and `path` where some are bytes."""
    files = pa.array([_content(value, column) for value in values], FILE)
    paths = files.field("path")
    return files if paths.null_count else paths


def _content(value: Any, column: str) -> dict[str, Any]:
    """Return what a row holds for a file as bytes and path, of which one is None."""
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        data, path = value["bytes"], value["path"]
        return {"bytes": data, "path": path if data is None else None}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value), "path": None}
    if isinstance(value, str | os.PathLike):
        return {"bytes": None, "path": os.fspath(value)}
    raise ArgumentError(f"{column}={value!r}: expected a path, bytes or an array")


def with_files_of_arrays(
    rows: Iterable[Mapping[str, Any]], features: Iterable[Feature]
) -> list[dict[str, Any]]:
    """Return rows with the bytes of files for the arrays that stand where features read files."""
    given = [dict(row) for row in rows]
    for feature in features:
        column = feature.columns[0]
        for row in given if feature.of_files else ():
            if isinstance(row.get(column), np.ndarray):
                row[column] = _file_of(row[column], feature)
    return given


def _file_of(array: npt.NDArray[Any], feature: Feature) -> bytes:
    """Return the bytes of a file of an array."""
    if isinstance(feature, Array):
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        return file.getvalue()
    if isinstance(feature, Image | Mask) and getattr(feature, "decode", None) is None:
        return png_of(array)
    raise ArgumentError(f"{feature!r} takes no array: give the path or the bytes of a file")


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of a row in training, as a function; `Sequence.preprocessing` makes it.

    Call it with a path, the bytes of a file, an array of pixels (height, width, channels), or a
    row (a mapping of columns, or a pandas Series), whose files may be any of these: it returns x as
    training saw it, a batch of one. Of a list of those, or a DataFrame, it returns a batch of so
    many. Nothing is left to chance: crops are the centre, and nothing is flipped.

    Args:
        x, y: the names of features, nested as the inputs and targets.
        inputs: name -> feature of x.
        targets: name -> feature of y that has class names, else None.
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
        """The class names of y in the order of their numbers; by name where y has several."""
        known = {name: list(each.class_names) for name, each in self.targets.items() if each}
        return known.get(self.y) if isinstance(self.y, str) else known or None

    def __call__(self, given: Any) -> Any:
        """Return x as training saw it: arrays (batch, ...), nested as x.

        Raises:
            ArgumentError: it is none of what can be given.
            DfgenError: of the kind that fits, of a file or value that cannot be used.
        """
        arrays = self._arrays(self._rows(given))
        return tree_of(map_leaves(lambda name: self.inputs[name].arrays(name), self.x), arrays.get)

    def decode(self, predictions: Any) -> Any:
        """Return what a model's predictions stand for, nested as they are.

        For targets of classes a list: the name of the most likely class of each row; of `"binary"`
        and `MultiLabel`, that of a probability above 0.5. Of others the predictions as they are.

        Raises:
            ArgumentError: predictions that are not nested as y, or are not of its classes.
        """
        if isinstance(self.y, str):
            self._check_nested(predictions, not isinstance(predictions, Mapping))
            return self._decoded(self.y, predictions)
        if isinstance(self.y, Mapping):
            self._check_nested(predictions, isinstance(predictions, Mapping))
            return {key: self._decoded(key, found) for key, found in predictions.items()}
        names = [*leaves(self.y)]
        fits = isinstance(predictions, list | tuple) and len(predictions) == len(names)
        self._check_nested(predictions, fits)
        return [self._decoded(*pair) for pair in zip(names, predictions, strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the preprocessing to a JSON file, which `dfgen.load_preprocessing` reads.

        Args:
            path: of the file; one that exists is replaced.

        Raises:
            ArgumentError: it has functions without a name to import.
            WriteError: the file cannot be written.

        Example:
            >>> val.preprocessing().save("pets.keras.json")  # doctest: +SKIP
        """
        text = self.to_json()
        write_whole(os.path.abspath(path), lambda file: file.write(text.encode()))

    def to_json(self) -> str:
        """Return it as JSON, of which `from_json` makes an equal one.

        Raises:
            ArgumentError: a feature or the transform holds what cannot be saved: a function that
                is not at the top of a module.
        """
        return to_text({one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def from_json(cls, text: str | bytes, allow_functions: bool = False) -> Self:
        """Return what `to_json` has saved.

        Args:
            text: the JSON.
            allow_functions: import the functions, and features of other packages, that it names.
                It runs code: say so of files that you trust.

        Raises:
            ArgumentError: it is no such JSON, of a newer version, or names functions.
        """
        return cls(**from_text(text, allow_functions))

    def _decoded(self, name: str, predictions: Any) -> Any:
        return meaning(self.targets.get(name), predictions)

    def _check_nested(self, predictions: Any, fits: bool) -> None:
        if not fits:
            raise ArgumentError(
                f"predictions are a {type(predictions).__name__}, but y is {self.y!r}: give them "
                "nested as y"
            )

    def _rows(self, given: Any) -> list[Mapping[str, Any]]:
        if getattr(given, "ndim", 0) == 2 and hasattr(given, "to_dict"):  # a DataFrame
            given = given.to_dict("records")
        if isinstance(given, np.ndarray) and given.dtype.kind in "OSUT":  # of paths
            given = given.tolist()
        several = given if isinstance(given, list | tuple) else [given]
        if not several:
            raise ArgumentError("an empty list makes no batch")
        return [self._row(one) for one in several]

    def _row(self, given: Any) -> Mapping[str, Any]:
        if hasattr(given, "keys"):
            return {name: given[name] for name in given.keys()}  # noqa: SIM118  # of a Series too
        if not isinstance(given, str | os.PathLike | bytes | bytearray | memoryview | np.ndarray):
            raise ArgumentError(
                "expected a path, bytes, an array of pixels, a row, or a list of these, got "
                f"{type(given).__name__}"
            )
        columns = {column for feature in self.inputs.values() for column in feature.columns}
        if len(columns) > 1 or not any(feature.of_files for feature in self.inputs.values()):
            raise ArgumentError(
                f"x is made of the columns {', '.join(map(repr, sorted(columns)))}: give a row, "
                "{column: value, ...}"
            )
        return {columns.pop(): given}

    def _arrays(self, rows: list[Mapping[str, Any]]) -> dict[str, npt.NDArray[Any]]:
        columns = GivenRows(with_files_of_arrays(rows, self.inputs.values()))
        numbers = np.arange(len(rows))
        bound = tuple(self._bound(name, columns) for name in self.inputs)
        store = store_of(one.files for one in bound if one.files is not None)
        sizes = {one.name: _sizes(one, store) for one in bound if one.variable_size}
        sizes |= _lengths(bound, store)
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
        turned = set().union(*(one.channel_arrays for one in bound))
        turned = turned if self.data_format == "channels_first" else set()
        return {n: channels_first(a) if n in turned else a for n, a in arrays.items()}

    def _bound(self, name: str, columns: GivenRows) -> BoundFeature:
        feature = self.inputs[name]
        like = feature.like
        if like is not None:
            feature = replace(feature, like=self.inputs[like])  # type: ignore[type-var]
        return BoundFeature(name, feature, feature.bind(columns), like)


def load_preprocessing(
    path: str | os.PathLike[str], allow_functions: bool = False
) -> Preprocessing:
    """Return the preprocessing that `Preprocessing.save` has written.

    Args:
        path: of the JSON file.
        allow_functions: as of `Preprocessing.from_json`.

    Raises:
        MissingFileError: there is no such file.
        ArgumentError: it is no such file, of a newer version, or names functions.

    Example:
        >>> preprocessing = dfgen.load_preprocessing("pets.keras.json")  # doctest: +SKIP
        >>> model.predict(preprocessing(["a.jpg", "b.jpg"]))
    """
    try:
        data = Stores().read(os.fspath(path))
        return Preprocessing.from_json(data, allow_functions)
    except (ArgumentError, DecodeError, MissingFileError) as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error


def _lengths(features: Iterable[BoundFeature], store: Stores) -> dict[str, RowLengths]:
    """Return the lengths of what has its own in each row."""
    lengths, problems = row_lengths(None, features, store)
    for why in problems.values():
        raise DecodeError(why)
    return lengths


def _sizes(bound: BoundFeature, store: Store) -> Sizes:
    """Return (height, width) of the upright image of each row."""
    files: Any = bound.files
    sizes: Sizes = np.empty((len(files), 2), np.int32)
    for row, content in enumerate(files.to_pylist()):
        try:
            sizes[row] = size_of_image(content, store)
        except (DecodeError, MissingFileError) as error:
            shown = content_shown(content)
            raise type(error)(f"{bound.feature.columns[0]}={shown}: {error}") from error
    return sizes
