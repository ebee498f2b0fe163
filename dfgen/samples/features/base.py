"""The protocol of features: what one answers, so that nothing else need know which it is.

A feature is a frozen dataclass in a file of its own, which derives from `Feature`, or from
`Encoded` where the table alone tells its arrays. For files of some kind that is little more than
`of_files = True`, a `kind`, the `spec` of the array, and `read`, which fills it.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.arrow_types import in_one, nulls
from dfgen.samples.features.arguments import column_names
from dfgen.samples.features.one_row import (
    ColumnSource,
    OneRow,
    is_several,
    item_rows,
    store_of_row,
)
from dfgen.samples.storage.store import Store

Values = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Present = npt.NDArray[np.bool_]

Watch = Callable[..., None]
"""Is told each stage as it begins, `watch("decode", bytes_read)`, so that time can be measured."""


def unwatched(stage: str, nbytes: int = 0) -> None:
    """Measure nothing."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one sample's array.

    Args:
        shape: of it; None where a transform may change a length.
        dtype: of it; object for text and bytes of any length; None where each file tells its own.
        blank: what fills it for a row that is skipped.
    """

    shape: tuple[Any, ...]
    dtype: Any
    blank: Any = 0


class OwnDtype:
    """Where an array will be whose dtype its file tells.

    Args:
        shape: of it.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.array: Values | None = None

    def of(self, dtype: Any) -> Values:
        """Return the array, made when it is first asked for.

        Raises:
            DecodeError: it was of another dtype, as of another file of the same row.
        """
        if self.array is None:
            self.array = np.empty(self.shape, dtype)
        elif self.array.dtype != dtype:
            raise DecodeError(
                f"the files of this row are of different depths: {self.array.dtype} and {dtype}"
            )
        return self.array


class Feature:
    """How columns of a row become one array of the batch, or several.

    Where a feature has several arrays, its specs, what `read` fills and what `finish` gets are
    tuples, in the order of `arrays`; else they are the thing itself.
    """

    kind: ClassVar[str]
    """What its array is called where x and y give it no name."""

    by_row: ClassVar[bool] = True
    """Whether rows are read one by one."""

    of_files: ClassVar[bool] = False
    """Whether its first column names files."""

    takes_lists: ClassVar[bool] = False
    """Whether its column may name several files in each row: see `Items`."""

    max_items: Any = None
    """How many files a list may name, where lists differ in length."""

    column: Any
    """The name of its column."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return column_names(self.column)

    # What it makes

    def arrays(self, name: str) -> Any:
        """Return the name of its array, or of several by their keys, as the model gets them."""
        return name

    @property
    def spec(self) -> Any:
        """What the model gets, and what `read` fills where nothing comes in between."""
        raise NotImplementedError

    @property
    def sample_spec(self) -> Any:
        """What a transform gets."""
        return self.spec

    @property
    def made_spec(self) -> Any:
        """What a transform gives back, and what is made where there is none."""
        return self.spec

    def specs(self, values: Any) -> tuple[Spec, ...]:
        """Return what the model gets, of each of its arrays.

        Args:
            values: what `bind` has returned.
        """
        return each(self.spec)

    has_channels: ClassVar[bool] = False
    """Whether (height, width, channels) follow `keras.config.image_data_format()`."""

    def loss_axes(self, spec: Spec) -> int:
        """Return the axes of its loss beside that of the batch: those of the target less one."""
        return max(0, len(spec.shape) - 1)

    # Classes

    class_names: Any = None
    """The classes in the order of their numbers, where it has any."""

    label_column: str | None = None
    """The column whose values are classes, or lists of them."""

    def unnamed(self, column: pa.Array) -> pa.Array | None:
        """Return the labels in `label_column` that need names, None where they need none."""
        return column

    def meaning(self, predictions: Any) -> Any:
        """Return what a model's predictions of it stand for: names of classes, where it has any.

        Raises:
            ArgumentError: they are not what a model of its classes predicts.
        """
        return predictions

    # By hand

    def settled(self, values: Any) -> Self:
        """Return it with what its whole column has told, so that one row makes the same array.

        Args:
            values: what `bind` has returned.
        """
        return self

    def file_of(self, array: Values) -> bytes:
        """Return the bytes of a file that holds an array, which `read` makes the same of.

        Raises:
            ArgumentError: none can.
        """
        raise ArgumentError(
            f"{type(self).__name__}({self.column!r}) takes no array: give the path or the bytes of "
            "a file"
        )

    # From the table to a row

    def bind(self, columns: ColumnSource) -> Any:
        """Return what every row holds for it, of which `at` returns one."""
        found = [
            columns.files(name) if self.of_files and not place else columns[name]
            for place, name in enumerate(self.columns)
        ]
        if len(found) == 1:
            return alone(found)
        return pa.StructArray.from_arrays([in_one(array) for array in found], self.columns)

    def at(self, values: Any, row: int) -> Any:
        """Return what one row holds for it: of several columns a dict."""
        return values[row].as_py()

    def files(self, values: Any) -> pa.Array | None:
        """Return the files among what `bind` has returned, None where it is not `of_files`."""
        if not self.of_files:
            return None
        return values if len(self.columns) == 1 else values.field(0)

    def counts(self, values: Any) -> Any:
        """Return how many items each row has, (rows, 1), where rows differ in that, else None."""
        return None

    # Labels that are missing

    missing: str = "raise"
    """What becomes of a row in which one of its columns is null: `"raise"`; or, of targets,
    `"ignore"`: it holds the blank of its Spec, and weighs 0 in the loss of this target."""

    def present(self, columns: ColumnSource) -> Present | None:
        """Return which rows have it, None where all must."""
        if self.missing == "raise":
            return None
        found: Present = ~np.logical_or.reduce([nulls(columns[name]) for name in self.columns])
        return found

    def check_present(self, row: Mapping[str, Any]) -> None:
        """Refuse one row, by hand, that does not have it."""
        present = self.present(OneRow(row))
        if present is not None and not present[0]:
            raise ManifestError(
                f"the row has nothing in {', '.join(map(repr, self.columns))}: in a batch it would "
                "hold blanks, with weight 0"
            )

    # Chance, and what lies on an image

    is_random: Any = False
    """Whether chance has a part in it; then `read` is told what it drew."""

    def draw(self, rng: np.random.Generator) -> Any:
        """Return what chance decides for one sample."""
        return None

    @property
    def still(self) -> Self:
        """It as it is for evaluation: in the middle of what chance may decide."""
        if isinstance(self.like, Feature):
            return replace(self, like=self.like.still)  # type: ignore[type-var]
        return self

    has_geometry: ClassVar[bool] = False
    """Whether others can follow it: `read` then returns its Geometry, and `geometry` that of a row
    by itself."""

    drawn_sizes: Any = None
    """What two random images have in common that look like a pair."""

    follows: Any = False
    """Whether it lies on an image, or follows one; then `read` is told the Geometry of that."""

    like: Any = None
    """Which image it follows: the name of its array, or of its column; once bound, the feature."""

    def following(self, image: "Feature") -> Self:
        """Return it with the image that it follows."""
        return replace(self, like=image)  # type: ignore[type-var]

    @property
    def image(self) -> Any:
        """The image that it follows, which a Sequence has put into its `like`."""
        if getattr(self.like, "has_geometry", False):
            return self.like
        raise ArgumentError(
            f"{type(self).__name__}({self.column!r}) by itself does not know its image: write "
            "like=dfgen.Image(...)"
        )

    # Padding

    keeps_sizes: Any = False
    """Whether every row keeps its own height and width, which the batch is padded to. Of its
    `arrays`, `"sizes"` and `"padding_mask"` then tell what is padding: `read` fills the others."""

    fill_value: Any = None
    """What stands beside an image that keeps its size; None: its array is not of that size."""

    # Depth

    most_bits: Any = None
    """The most bits a channel that its files may have; None: any number."""

    keeps_numbers: Any = False
    """Whether its numbers are those of each file, 255 or 65535 for the brightest."""

    # One row

    def read(self, value: Any, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Fill its array with what one row holds; return what is told those that follow it.

        Args:
            value: of the row, as `at` returns it: the path of a file, or what `store.read` takes
                in its place where a table holds the bytes.
            out: the array of a sample, or its part of the batch. A length that is None in its
                spec is that of the batch; an OwnDtype where its dtype is None.
            store: reads files.
            watch: is told each stage as it begins: `"read"`, `"decode"`, `"resize"`.
            given: what it drew, or the Geometry that it follows; None where it does neither.

        Raises:
            DecodeError: what one row holds is broken.
            MissingFileError: a file is not there.
        """
        raise NotImplementedError

    def seen(self, sample: Any) -> Any:
        """Return what a transform gets of what `read` has filled."""
        return sample

    def finish(self, sample: Any, out: Any) -> None:
        """Bring a sample, after its transform, into the form that the batch has.

        Raises:
            TransformError: the transform has made something else of it.
        """
        for one, into in zip(each(sample), each(out), strict=True):
            into[...] = one

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator | None = None) -> Any:
        """Return the array of one row, or several by their keys.

        Args:
            row: of the manifest, a mapping or a pandas Series.
            rng: for what chance decides, of its image where it follows one; None: no chance.
        """
        if self.takes_lists and is_several(row[self.column]):
            return self._of_items(row, rng)
        self.check_present(row)
        image: Any = self.image if self.follows and not self.has_geometry else self
        size = image.geometry(row, None).size if image.keeps_sizes else ()
        if self.follows:
            given = self.image.geometry(row, rng)
        else:
            given = None if rng is None else self.draw(rng)
        out = tuple(empty(spec, size) for spec in each(self.spec))
        made = tuple(map(empty, each(self.made_spec), [array.shape for array in out]))
        named = self if self.of_files else image
        with store_of_row(row, named.columns[0], named.of_files) as store:
            value = self.at(self.bind(OneRow(row)), 0)
            self.read(value, alone(made), store, unwatched, given)
        self.finish(alone(tuple(map(filled, made))), alone(out))
        return out[0] if len(out) == 1 else dict(zip(self.arrays(""), out, strict=True))

    def _of_items(self, row: Mapping[str, Any], rng: np.random.Generator | None) -> Any:
        """Return the arrays of all files that a row names, one after the other in one array."""
        image = self.image if self.follows else self
        if image.keeps_sizes:
            raise ArgumentError(f"{image!r}: the images of a list make one array, so give a size")
        rows = item_rows(row, dict.fromkeys([self.column, image.column]), image.max_items)
        same = [deepcopy(rng) for _ in rows[1:]]  # chance decides once for all
        return np.stack([self(*one) for one in zip(rows, [*same, rng], strict=True)])

    def __repr__(self) -> str:
        """As it would be written: without what is the default."""
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


class Encoded(Feature):
    """A feature that the table alone tells: a column is encoded once, a batch is a `gather`."""

    by_row: ClassVar[bool] = False
    blank: ClassVar[Any] = 0

    def encode(self, *values: pa.Array) -> Any:
        """Return whole columns in a compact form.

        Raises:
            ManifestError: something that it cannot hold; with the row.
        """
        raise NotImplementedError

    def gather(self, values: Any, rows: Indices) -> Values:
        """Return the arrays of some rows from the encoded values."""
        found: Values = values[rows]
        return found

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns encoded."""
        return self.encode(*(columns[name] for name in self.columns))

    def specs(self, values: Any) -> tuple[Spec, ...]:
        """Return what the model gets, which the encoded values tell."""
        example = self.gather(values, np.arange(0))
        return (Spec(example.shape[1:], example.dtype, self.blank),)

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator | None = None) -> Values:
        """Return the array of one row, a mapping or a pandas Series; chance has no part in it."""
        self.check_present(row)
        if self.label_column is not None and self.class_names is None:
            raise ArgumentError(
                "one row does not tell the classes: write "
                f"{type(self).__name__}({self.column!r}, class_names=...)"
            )
        return self.gather(self.bind(OneRow(row)), np.arange(1))[0, ...]


def each(given: Any) -> tuple[Any, ...]:
    """Return what a feature says of its one array, or of several, as a tuple."""
    return given if isinstance(given, tuple) else (given,)


def alone(several: Any) -> Any:
    """Return what is in a tuple or list of one; several as they are."""
    return several[0] if len(several) == 1 else several


def empty(spec: Spec, size: tuple[int, ...]) -> Any:
    """Return an array of a Spec, or its OwnDtype; lengths that are None are those of `size`."""
    shape = tuple(size[axis] if long is None else long for axis, long in enumerate(spec.shape))
    return OwnDtype(shape) if spec.dtype is None else np.empty(shape, spec.dtype)


def filled(given: Any) -> Any:
    """Return what `read` has filled: the array that is in an OwnDtype by now, or the one it got."""
    return given.array if isinstance(given, OwnDtype) else given
