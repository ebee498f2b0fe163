"""Features bound to the rows of a manifest: what a sample is made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.samples.features.base import Feature
from dfgen.samples.features.encoded import Encoded
from dfgen.samples.features.one_row import files_among
from dfgen.samples.stores.embedded import content_parts
from dfgen.spec import IntArray, Present, Spec, Values, each
from dfgen.table.arrow_types import flattened, is_list, lengths_of

Sizes = npt.NDArray[np.int32]
"""(height, width) of the upright image of every row, shape (rows, 2)."""

TELLING = {
    "sizes": Spec((2,), np.dtype(np.int32)),
    "padding_mask": Spec((None, None, 1), np.dtype(np.bool_)),
    "items_mask": Spec((None,), np.dtype(np.bool_), True),  # skipped rows count all: a mean of none
}
"""Key of an array that tells others from padding, and is not read -> its Spec."""


@dataclass(frozen=True)
class BoundFeature:
    """A feature, its name in x or y, and what each row holds for it: `values`, of `bind`.

    `like` is the name of the image that it follows, `present` which rows have it (None: all). What
    `values` holds of others is for nobody.
    """

    name: str
    feature: Feature
    values: Any
    like: str | None = None
    present: Present | None = None

    @cached_property
    def arrays(self) -> dict[str, str]:
        """The names of its arrays by their keys, one alone by ""."""
        found = self.feature.arrays(self.name)
        return {"": found} if isinstance(found, str) else found

    def has(self, row: int) -> bool:
        """Whether a row has it."""
        return self.present is None or bool(self.present[row])

    def gather(self, rows: IntArray) -> Values:
        """Return the arrays of some rows of what the table alone tells, blank where missing."""
        feature: Any = self.feature
        if self.present is None:
            return feature.gather(self.values, rows)  # type: ignore[no-any-return]
        spec, there = feature.spec_of(self.values), self.present[rows]
        found = np.full((len(rows), *spec.shape), spec.blank, spec.dtype)
        found[there] = feature.gather(self.values, rows[there])
        return found

    @property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample."""
        if isinstance(self.feature, Encoded):
            return {self.name: self.feature.spec_of(self.values)}
        own = each(self.feature.spec)
        telling = [TELLING[key] for key in [*self.arrays][len(own) :]]
        return dict(zip(self.arrays.values(), [*own, *telling], strict=True))

    @property
    def image(self) -> Any:
        """The feature, if it is an Image by itself; else None."""
        return self.feature if self.feature.is_image else None

    @property
    def variable_size(self) -> bool:
        """Whether it is an image that keeps its own size in every row."""
        return self.image is not None and self.image.variable_size

    @property
    def channel_arrays(self) -> set[str]:
        """The names of those arrays that follow `keras.config.image_data_format()`."""
        specs = self.specs.items() if self.feature.has_channels else ()
        return {name for name, spec in specs if len(spec.shape) >= 3}

    @cached_property
    def read_names(self) -> tuple[str, ...]:
        """The names of those arrays that `read` fills; padding fills the others."""
        return tuple(self.arrays.values())[: len(each(self.feature.after_transform))]

    @cached_property
    def counts(self) -> npt.NDArray[np.int32] | None:
        """How many items each row has, shape (rows, 1), where rows differ in that."""
        if not self.has_lists or each(self.feature.spec)[0].shape[0] is not None:
            return None
        return lengths_of(self.values)[:, None]

    @cached_property
    def array_rows(self) -> pa.StructArray | None:
        """The `path` of the array file and the `index` in it of every row, where it reads such."""
        return self.values if self.feature.index is not None else None

    @cached_property
    def has_lists(self) -> bool:
        """Whether it is read from several files in each row."""
        files = files_among(self.feature, self.values)
        return files is not None and is_list(files.type)

    def paths(self, row: int) -> Iterator[str]:
        """Yield the paths of what it is read from in a row, none for bytes."""
        if self.files is None or not self.has(row):
            return
        value = self.feature.at(self.values, row)
        for content in value if self.has_lists else [value]:
            if len(self.feature.columns) > 1:  # a row of an array file
                content = next(iter(content.values()))
            data, path = content_parts(content)
            if data is None and path is not None:
                yield path

    @cached_property
    def files(self) -> pa.Array | None:
        """All that is read from files, else None."""
        files = files_among(self.feature, self.values)
        return flattened(files) if self.has_lists else files
