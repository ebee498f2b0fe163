"""Labels as the iterators of Keras's `ImageDataGenerator` feed them: known when they are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.encoded import Encoded
from dfgen.spec import IntArray, Values


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
