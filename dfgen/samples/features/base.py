"""The protocol of features: what one answers, so that nothing else need know which it is.

A feature is a frozen dataclass in a file of its own, which derives from `Feature`, or from
`Encoded` (encoded.py) where the table alone tells its arrays. For files of some kind that is
little more than `of_files = True`, a `kind`, the `spec` of the array, and `read`, which fills it.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.arguments import column_names
from dfgen.samples.features.one_row import ColumnSource, OneRow, array_of_row, bind_rows
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Present, Spec, Values, Watch, alone, each
from dfgen.table.arrow_types import in_one, is_text, nulls


class Feature:
    """How columns of a row become one array of the batch, or several.

    If a feature has several arrays, its specs, what `read` fills and what `finish` gets are
    tuples, in the order of `arrays`; else they are the thing itself.
    """

    kind: ClassVar[str]
    """The name of its array where x and y give it none."""

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
        return (*column_names(self.column), *filter(None, [self.index]))

    # Its arrays

    def arrays(self, name: str) -> Any:
        """Return the name of its array, or of several by their keys, as the model gets them."""
        return name

    @property
    def spec(self) -> Any:
        """The arrays that the model gets, and `read` fills where nothing comes in between."""
        raise NotImplementedError

    @property
    def before_transform(self) -> Any:
        """The arrays that a transform gets."""
        return self.spec

    @property
    def after_transform(self) -> Any:
        """The arrays that a transform gives back, and those made where there is none."""
        return self.spec

    def specs(self, values: Any) -> tuple[Spec, ...]:
        """Return what the model gets, of each of its arrays.

        Args:
            values: what `bind` has returned.
        """
        return each(self.spec)

    has_channels: ClassVar[bool] = False
    """Whether (height, width, channels) follow `keras.config.image_data_format()`."""

    scale: Any = None
    """The factors and shifts of its pixels; None: none."""

    def loss_axes(self, spec: Spec) -> int:
        """Return the axes of its loss beside that of the batch: those of the target less one."""
        return max(0, len(spec.shape) - 1)

    # Classes

    class_names: Any = None
    """The classes in the order of their numbers, where it has any."""

    label_column: str | None = None
    """The column whose values are classes, or lists of them."""

    many_labels: ClassVar[bool] = False
    """Whether a row may have several of its classes at once."""

    def several_labels(self, values: Any, rows: IntArray) -> bool:
        """Whether one of these rows has several classes at once.

        Args:
            values: what `bind` has returned.
            rows: which rows.
        """
        return False

    def label_numbers(self, values: Any) -> Values | None:
        """Return the numbers, one a row or pixel, that a loss may take for classes.

        They are of all rows in order, or in one row all that can occur; None if the table does
        not tell them.

        Args:
            values: what `bind` has returned.
        """
        return None

    def labels_in(self, data: bytes) -> Values | None:
        """Return the different labels in the bytes of a file, None where it holds none.

        Raises:
            DecodeError: it cannot be read.
        """
        return None

    def unnamed(self, column: pa.Array) -> pa.Array | None:
        """Return the labels in `label_column` that need names, None where they need none."""
        return column

    def meaning(self, predictions: Any) -> Any:
        """Return what a model's predictions of it stand for: names of classes, where it has any.

        Raises:
            ArgumentError: they are not what a model of its classes predicts.
        """
        return predictions

    def truth(self, values: Any, rows: slice, lacking: Present) -> Any:
        """Return what some rows hold, as a person would write it: names, numbers, paths.

        Args:
            values: what `bind` has returned.
            rows: which rows.
            lacking: which of them do not have it, and get null.

        Returns:
            An Arrow array, one for each of its arrays; None where only arrays could tell.
        """
        files = self.files(values)
        if not isinstance(files, pa.Array) or not is_text(files.type):
            return None
        # not if_else, which in pyarrow 15 damages text that begins in the middle of an array
        return files.take(pa.array(np.arange(len(files))[rows], mask=lacking))

    # By hand

    def frozen(self, values: Any) -> Self:
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
        if self.of_files:
            return bind_rows(self, columns)
        found = [columns[name] for name in self.columns]
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

    index: str | None = None
    """The column that says which row of an array file each is; None: a file is one."""

    dataset: str | None = None
    """The name of the array in HDF5 files that hold several."""

    def array_rows(self, values: Any) -> pa.StructArray | None:
        """Return the `path` of the array file and the `index` in it of each row, or None.

        Args:
            values: what `bind` has returned.
        """
        return None if self.index is None else values

    def counts(self, values: Any) -> Any:
        """Return how many items each row has, (rows, 1), where rows differ in that, else None."""
        return None

    # Labels that are missing

    missing: str = "raise"
    """The fate of a row in which one of its columns is null: `"raise"`; or, of targets,
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
    """The settings that two random images share that look like a pair."""

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

    variable_size: Any = False
    """Whether every row keeps its own height and width, which the batch is padded to. Of its
    `arrays`, `"sizes"` and `"padding_mask"` then tell what is padding: `read` fills the others."""

    fill_value: Any = None
    """The arrays beside an image that keeps its size; None: its array is not of that size."""

    # Depth

    most_bits: Any = None
    """The most bits a channel that its files may have; None: any number."""

    raw_depth: Any = False
    """Whether its numbers are those of each file, 255 or 65535 for the brightest."""

    # Faster ways

    def speedups(self, surplus: float) -> dict[str, dict[str, float]]:
        """Return what would make it sooner: what to write -> the share left of each stage.

        Args:
            surplus: how many times as many pixels its files have as are used.
        """
        return {}

    def oversampling(self, value: Any, store: Store) -> float:
        """Return how many times as many pixels the file of one row has as are used of it.

        Raises:
            DecodeError: the file is broken.
            MissingFileError: it is not there.
        """
        return 1.0

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

    takes_pixels: ClassVar[bool] = False
    """Whether `fill` makes its array of pixels that are decoded already."""

    def of_pack(self, spec: Spec | None, packed: Mapping[str, Any]) -> Self:
        """Return it as it is made of what a pack holds.

        Args:
            spec: of the packed pixels, None for lengths that differ; None: whole files were packed.
            packed: the arguments that they were packed by.

        Raises:
            ArgumentError: it asks for what was not packed.
        """
        return self

    def passes_through(self, spec: Spec) -> bool:
        """Whether it makes pixels of a Spec that are decoded already into just what they are."""
        return False

    def fill(self, pixels: Values, out: Any, watch: Watch, given: Any, placed: Any) -> Any:
        """Fill its array with pixels that are decoded already, in the place of `read`.

        Args:
            pixels: (height, width, channels), upright.
            out: as of `read`.
            watch: is told each stage as it begins.
            given: as of `read`.
            placed: the Geometry that they were made of the upright image by; None: they are all of
                it.
        """
        raise NotImplementedError

    def steps(self, seen: Spec) -> Any:
        """Return the feature that makes what a cache may keep, and the one that is made of that.

        Or why nothing may be kept, in words.

        Args:
            seen: what `read` fills.
        """
        return f"{type(self).__name__} is not kept, images alone are"

    def transform_input(self, sample: Any) -> Any:
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
        return array_of_row(self, row, rng)

    def __repr__(self) -> str:
        """As it would be written: without what is the default."""
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"
