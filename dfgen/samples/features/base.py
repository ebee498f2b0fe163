"""The protocol of features: how columns of a row become arrays of the batch.

A feature is a frozen dataclass that derives from `Feature`, or from `TableFeature` where the table
alone holds its arrays. For files of some kind it needs `column`, `kind`, `of_files = True`, the
`spec` of the array, and `read`, which fills it. All else has a default.
"""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dfgen.samples.features.column_source import ColumnSource, NamingColumns, bound_columns
from dfgen.samples.features.feature_checks import column_names
from dfgen.spec import IntArray, Spec, Values, Watch, unwatched
from dfgen.stores.store import Store


class Reading(NamedTuple):
    """What `read` needs beside the value of its row."""

    store: Store  # reads files: `reading.store.read(value)`
    watch: Watch = unwatched  # times stages: `reading.watch("decode", bytes_read)`
    drawn: Any = None  # what `draw` has returned for the sample; None: leave nothing to chance
    geometry: Any = None  # of the image that the feature follows


class Feature:
    """How columns of a row become one array of the batch, or several.

    A feature of several arrays has a tuple as its `spec`, and `read` and `finish` get a tuple.
    """

    kind: ClassVar[str]
    """The name of its array where x and y give none."""

    of_files: ClassVar[bool] = False
    """Whether its first column names files; then `read` gets their path or bytes."""

    missing: str = "raise"
    """With `"ignore"`, a row in which a column is null gets blanks, and weighs 0 in the loss."""

    like: Any = None
    """The image that it follows: its name, "" for the only one, and the `Image` once bound."""

    class_names: Any = None
    """The classes in the order of their numbers, where it has such."""

    is_random: Any = False
    """Whether `draw` is called for each sample."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, that of files first: by default its `column` and `index`."""
        index = getattr(self, "index", None)
        return (*column_names(self.column), *filter(None, [index]))  # type: ignore[attr-defined]

    @property
    def spec(self) -> Any:
        """The array that the model gets."""
        raise NotImplementedError

    def arrays(self, name: str) -> Any:
        """Return the name of its array; of several a dict, key in the batch -> name."""
        if not getattr(self, "padding_mask", False):
            return name
        key = "images" if self.kind == "image" else self.kind
        return {key: name, "padding_mask": f"{name}_padding_mask"}

    def resolve(self, columns: NamingColumns) -> Self:
        """Return the feature with all that its columns decide, such as class names."""
        return self

    def bind(self, columns: ColumnSource) -> Any:
        """Convert the columns once: an Arrow array or `Ragged` of what each row holds."""
        return bound_columns(self.columns, columns, self.of_files)

    def length(self, value: Any, store: Store) -> int:
        """Return how long the array of one row is, if its first length is None."""
        return len(value)

    def draw(self, rng: np.random.Generator) -> Any:
        """Return the random choices for one sample, which `reading.drawn` then is."""
        return None

    def read(self, value: Any, out: Any, reading: Reading) -> Any:
        """Fill its array with what one row holds; return the Geometry of an image.

        Args:
            value: of the row: the path or the bytes of a file, for `reading.store.read`; of several
                columns a dict.
            out: the array of a sample. Lengths that are None in its Spec are those of the batch;
                it is a LazyArray where the dtype is None.
            reading: the store, the timer, the random choices and the geometry.

        Raises:
            DecodeError: what the row holds is broken.
            MissingFileError: a file is not there.
        """
        raise NotImplementedError

    def finish(self, sample: Any, out: Any) -> None:
        """Make the array of the batch of what `read` filled and a transform returned."""
        pairs = zip(sample, out, strict=True) if isinstance(sample, tuple) else [(sample, out)]
        for made, into in pairs:
            into[...] = made

    def __repr__(self) -> str:
        """As it would be written: without defaults."""
        its_fields: Any = fields(self) if is_dataclass(self) else ()
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in its_fields
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


class TableFeature(Feature):
    """A feature that the table alone holds: `bind` encodes its columns, `gather` makes batches."""

    def gather(self, values: Any, rows: IntArray) -> Values:
        """Return the arrays of some rows of what `bind` has returned."""
        found: Values = values[rows]
        return found


def specs_of(feature: Feature) -> tuple[Spec, ...]:
    """Return the Specs of all arrays that a feature reads."""
    spec = feature.spec
    return spec if isinstance(spec, tuple) else (spec,)


def value_of(values: Any, row: int) -> Any:
    """Return what one row holds of what `bind` has returned."""
    found = values[row]
    return found.as_py() if hasattr(found, "as_py") else found
