"""FlowOptions: the arguments that all iterators of Keras's `ImageDataGenerator` share, and labels.

Labels are as these iterators feed them: known when they are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError, brief
from dfgen.migrate.keras_pixels import FILTERS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Encoded
from dfgen.samples.pixels.geometry import CHANNELS
from dfgen.spec import IntArray, Values
from dfgen.system import whole

SUFFIXES = ("png", "jpg", "jpeg", "bmp", "ppm", "tif", "tiff")
"""How names of files end that Keras takes for images, in lower case."""


class WrongTypeError(ArgumentError, TypeError):
    """An argument or a column of a type that Keras refuses with TypeError."""


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Arguments of `flow`, `flow_from_dataframe` and `flow_from_directory`, as these explain them.

    It refuses in Keras's own words, where Keras has any.
    """

    batch_size: int = 32
    shuffle: bool = True
    seed: int | None = None
    data_format: str = "channels_last"
    dtype: str = "float32"
    save_to_dir: str | None = None
    save_prefix: str = ""
    save_format: str = "png"
    subset: str | None = None
    validation_split: float = 0.0

    def __post_init__(self) -> None:
        if self.subset not in (None, "training", "validation"):
            raise ArgumentError(
                f'Invalid subset name: {self.subset};expected "training" or "validation"'
            )

    def part(self, rows: int) -> slice:
        """Return which of some rows, in their order, are of the subset: the first are validation's.

        Example:
            >>> FlowOptions(subset="training", validation_split=0.25).part(10)
            slice(2, 10, None)
        """
        cut = int((self.validation_split or 0) * rows)
        if self.subset is None:
            return slice(0, rows)
        return slice(0, cut) if self.subset == "validation" else slice(cut, rows)


@dataclass(frozen=True, kw_only=True)
class FileOptions(FlowOptions):
    """Those that `flow_from_dataframe` and `flow_from_directory` share, which read files."""

    target_size: tuple[int, int] = (256, 256)
    color_mode: str = "rgb"
    interpolation: str = "nearest"
    keep_aspect_ratio: bool = False

    def __post_init__(self) -> None:
        size = self.target_size
        if not (isinstance(size, tuple | list | np.ndarray) and len(size) == 2):
            raise ArgumentError(f"target_size must be (height, width) in pixels, got {brief(size)}")
        sides = tuple(whole(f"target_size[{n}]", side, least=1) for n, side in enumerate(size))
        object.__setattr__(self, "target_size", sides)
        if self.color_mode not in CHANNELS:
            raise ArgumentError(
                f'Invalid color mode: {self.color_mode}; expected "rgb", "rgba", or "grayscale".'
            )
        super().__post_init__()
        if self.interpolation not in FILTERS:
            raise ArgumentError(
                f"Invalid interpolation method {self.interpolation} specified. Supported methods "
                f"are {', '.join(FILTERS)}"
            )


@dataclass(frozen=True, repr=False)
class FlowLabels(Encoded):
    """An array of the labels of all rows, of which a batch takes some."""

    column: str
    kind: ClassVar[str] = "label"


class ClassLists(NamedTuple):
    """The numbers of the classes of all rows, which may have several.

    `numbers` of all rows stand one after another; `ends` says where those of a row end.
    """

    numbers: IntArray
    ends: IntArray


@dataclass(frozen=True, repr=False)
class OneHotLabels(Encoded):
    """`ClassLists` as vectors with 1 at each class of a row."""

    column: str
    classes: int
    dtype: str
    kind: ClassVar[str] = "label"

    def gather(self, values: ClassLists, rows: IntArray) -> Values:
        """Return the vectors of some rows."""
        found = np.zeros((len(rows), self.classes), self.dtype)
        ends = values.ends[rows]
        counts = ends - np.where(rows > 0, values.ends[rows - 1], 0)
        places = np.repeat(ends - counts.cumsum(), counts) + np.arange(counts.sum())
        found[np.repeat(np.arange(len(rows)), counts), values.numbers[places]] = 1
        return found


def bound_labels(name: str, column: str, values: Values) -> BoundFeature:
    """Return an array of all rows as a target."""
    return BoundFeature(name, FlowLabels(column), values)


def bound_classes(
    column: str, class_mode: str, numbers: Sequence[Any], classes: int, dtype: str
) -> BoundFeature:
    """Return the classes of rows as `class_mode` has them: one-hot, or their numbers."""
    if class_mode == "categorical":
        return BoundFeature("label", OneHotLabels(column, classes, dtype), _class_lists(numbers))
    return bound_labels("label", column, np.array(numbers, dtype))


def _class_lists(classes: Sequence[Any]) -> ClassLists:
    if list not in {*map(type, classes)}:
        return ClassLists(np.asarray(classes, np.int64), np.arange(1, len(classes) + 1))
    lists = [one if isinstance(one, list) else [one] for one in classes]
    ends = np.cumsum([len(one) for one in lists], dtype=np.int64)
    return ClassLists(np.fromiter(chain.from_iterable(lists), np.int64), ends)
