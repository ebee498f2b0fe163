"""The protocol of features: what one answers, so that nothing else need know which it is.

A feature is a frozen dataclass in a file of its own, which derives from `Feature`, or from
`Encoded` where the table alone tells its arrays. For files of some kind it needs
`of_files = True`, a `kind`, the `spec` of the array, and `read`, which fills it. All else has a
default; each member says who asks for it, and when.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.samples.features.arguments import checked_shape, column_names, lacks_class_names
from dfgen.samples.features.one_row import (
    ColumnSource,
    OneRow,
    array_of_row,
    bind_rows,
    check_present,
    files_among,
)
from dfgen.spec import IntArray, Present, Spec, Values, Watch, each
from dfgen.stores.store import Store
from dfgen.table.arrow_types import in_one, is_text


class Feature:
    """How columns of a row become one array of the batch, or several.

    If a feature has several arrays, its specs, what `read` fills and what `finish` gets are
    tuples, in the order of `arrays`; else they are the thing itself. `values` are always what its
    `bind` has returned.
    """

    # Set by the class, or by an argument

    kind: ClassVar[str]
    """Sequence names its array so where x and y give no name."""

    column: Any
    """The name of its column, by which messages call it, too."""

    of_files: ClassVar[bool] = False
    """Binding asks: whether its column names files, which then are paths, or bytes."""

    missing: str = "raise"
    """Binding asks of targets: with `"ignore"`, a row in which a column is null holds the blank of
    its Spec, and weighs 0 in the loss of this target."""

    pixel_kind: ClassVar[str | None] = None
    """Batches ask whether it is (height, width, channels), which follow Keras's
    `image_data_format()`, are padded as their image is, and may come from a list of files. They are
    of an `"image"`, which others may follow, and caches and packs hold, and whose `read` returns
    its Geometry; or a `"map"`, as masks are. None: it is no such array."""

    follows: Any = False
    """Binding asks: whether it lies on an image, or follows one; then `read` is told the Geometry
    of that."""

    like: Any = None
    """Binding asks which image it follows, the name of its array or column, and puts that here."""

    is_random: Any = False
    """The reader asks: whether chance has a part in it; then `read` is told what it drew."""

    own_length: Any = False
    """Binding asks: whether the array of each row has a length of its own, its first, which is None
    in its Spec. Batches are padded to their longest; `length` tells it of one row, before it is
    read."""

    length_fact: ClassVar[str | None] = None
    """Binding asks for the fact of manifests that is this length, of files of theirs."""

    most_length: Any = None
    """Binding asks at how many the length of a longer one is cut."""

    # Its arrays

    def arrays(self, name: str) -> Any:
        """Sequence asks for the name of its array, or of several by their keys."""
        return name

    @property
    def spec(self) -> Any:
        """The arrays that the model gets, and `read` fills where nothing comes in between."""
        raise NotImplementedError

    def read_spec(self, transform: bool) -> Any:
        """The reader asks for the arrays that `read` fills.

        With a transform they are those that it gets, else those that it would give back. If their
        first length is None, the transform gets them without the blank rows at their end.
        """
        return self.spec

    # From the table to a row

    def bind(self, columns: ColumnSource) -> Any:
        """Binding asks, once, for what every row holds for it, of which `at` returns one."""
        if self.of_files:
            return bind_rows(self, columns)
        found = [columns[name] for name in self.columns]
        if len(found) == 1:
            return found[0]
        return pa.StructArray.from_arrays([in_one(array) for array in found], self.columns)

    def at(self, values: Any, row: int) -> Any:
        """The reader asks for what one row holds for it: of several columns a dict."""
        return values[row].as_py()

    def length(self, value: Any, store: Store) -> int:
        """Binding asks how long the array of one row is, if it has an `own_length`.

        Raises:
            DecodeError: what the row holds is broken.
            MissingFileError: a file is not there.
        """
        return len(value)

    def draw(self, rng: np.random.Generator) -> Any:
        """The reader asks what chance decides for one sample, if it `is_random`."""
        return None

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

    def finish(self, sample: Any, out: Any) -> None:
        """Bring a sample, after its transform, into the form that the batch has.

        Raises:
            TransformError: the transform has made something else of it.
        """
        for one, into in zip(each(sample), each(out), strict=True):
            into[...] = one

    def passes_through(self, spec: Spec) -> bool:
        """The reader asks whether stored pixels of a Spec are, but for their dtype, its array."""
        return False

    # Classes

    class_names: Any = None
    """Sequence asks for the classes in the order of their numbers. If it has a field of this name,
    the last of its columns holds classes, which binding names where the field is None."""

    def unnamed(self, column: pa.Array) -> pa.Array | None:
        """Binding asks which labels in that column need names; None: they need none."""
        return column

    def label_numbers(self, values: Any, data: bytes | None = None) -> Values | None:
        """`fit` asks for the numbers, one a row or pixel, that a loss may take for classes.

        They are of all rows in order, or in one row all that can occur; or else, with the `data`
        of a file, those in it. None: it does not tell.

        Raises:
            DecodeError: the file cannot be read.
        """
        return None

    def meaning(self, predictions: Any) -> Any:
        """`decode` asks what a model's predictions of it stand for: names of classes.

        Raises:
            ArgumentError: they are not what a model of its classes predicts.
        """
        return predictions

    def truth(self, values: Any, rows: slice, lacking: Present) -> Any:
        """Predictions ask what some rows hold, as a person would write it: names, numbers, paths.

        Args:
            values: what `bind` has returned.
            rows: which rows.
            lacking: which of them do not have it, and get null.

        Returns:
            An Arrow array, one for each of its arrays; None where only arrays could tell.
        """
        files = files_among(self, values)
        if not isinstance(files, pa.Array) or not is_text(files.type):
            return None
        # not if_else, which in pyarrow 15 damages text that begins in the middle of an array
        return files.take(pa.array(np.arange(len(files))[rows], mask=lacking))

    # By hand, and for evaluation

    @property
    def still(self) -> Self:
        """Evaluation asks for it without chance: in the middle of what that may decide."""
        if isinstance(self.like, Feature):
            return replace(self, like=self.like.still)  # type: ignore[type-var]
        return self

    def frozen(self, values: Any) -> Self:
        """Serving asks for it with what its whole column told: one row then makes the same."""
        return self

    def file_of(self, array: Values) -> bytes:
        """Serving asks for the bytes of a file of which `read` makes an array that was given."""
        raise ArgumentError(
            f"{type(self).__name__}({self.column!r}) takes no array: give the path or the bytes of "
            "a file"
        )

    # These follow from the above

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns: that of files first, that of classes last.

        If it has a field `index`, this names the column that says which row of an array file it is.
        """
        return (*column_names(self.column), *filter(None, [getattr(self, "index", None)]))

    @property
    def image(self) -> Any:
        """The image that it follows, which a Sequence has put into its `like`."""
        if getattr(self.like, "pixel_kind", None) == "image":
            return self.like
        raise ArgumentError(
            f"{type(self).__name__}({self.column!r}) by itself does not know its image: write "
            "like=dfgen.Image(...)"
        )

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator | None = None) -> Any:
        """Return the array of one row, or several by their keys.

        Args:
            row: of the manifest, a mapping or a pandas Series.
            rng: for what chance decides, of its image where it follows one; None: no chance.
        """
        return array_of_row(self, row, rng)

    def __repr__(self) -> str:
        """As it would be written: without what is the default."""
        its_fields: Any = fields(self) if is_dataclass(self) else ()
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in its_fields
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


class Encoded(Feature):
    """A feature that the table alone tells: a column is encoded once, a batch is a `gather`."""

    blank: ClassVar[Any] = 0

    def encode(self, *values: pa.Array) -> Any:
        """Return whole columns in a compact form; ManifestError of what it cannot hold."""
        raise NotImplementedError

    def gather(self, values: Any, rows: IntArray) -> Values:
        """Return the arrays of some rows from the encoded values."""
        found: Values = values[rows]
        return found

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns encoded."""
        return self.encode(*(columns[name] for name in self.columns))

    def spec_of(self, values: Any) -> Spec:
        """Return what the model gets, which the encoded values tell."""
        example = self.gather(values, np.arange(0))
        return Spec(example.shape[1:], example.dtype, self.blank)

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator | None = None) -> Values:
        """Return the array of one row, a mapping or a pandas Series; chance has no part in it."""
        check_present(self, row)
        if lacks_class_names(self):
            raise ArgumentError(
                "one row does not tell the classes: write "
                f"{type(self).__name__}({self.column!r}, class_names=...)"
            )
        return self.gather(self.bind(OneRow(row)), np.arange(1))[0, ...]


class MayOwnLength(Feature):
    """A feature whose arrays have one shape, or each a length of its own."""

    shape: tuple[int | None, ...]
    extra: str | None = None

    @property
    def own_length(self) -> bool:
        """Whether every array has a length of its own."""
        return self.shape[:1] == (None,)

    def arrays(self, name: str) -> Any:
        """Return the name of its array, and with `extra` that of what tells it from padding."""
        return name if self.extra is None else {self.kind: name, self.extra: f"{name}_mask"}


def own_shape(shape: object) -> tuple[int | None, ...]:
    """Return the shape of an array, of which the first length may be None, each row's own."""
    if isinstance(shape, tuple | list) and len(shape) and shape[0] is None:
        return (None, *checked_shape(shape[1:]))
    return checked_shape(shape)


def check_extra(feature: Any, instead: str) -> None:
    """Refuse an `extra` that is none, or that arrays of one length have no use for."""
    if feature.extra not in (None, "padding_mask"):
        raise ArgumentError(f'extra must be None or "padding_mask", got {feature.extra!r}')
    if feature.extra is not None and not feature.own_length:
        raise ArgumentError(
            f"extra={feature.extra!r} is for arrays of unequal length, {instead}: "
            "with one length there is no padding, leave it out"
        )
