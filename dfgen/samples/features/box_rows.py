"""The boxes of every row, from columns of lists."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.samples.arrow_types import Offsets, place_of, quadruples
from dfgen.samples.features.base import Values
from dfgen.samples.features.category import Category

_FAR = 0.5  # how far relative coordinates may lie outside; further, they are surely pixels


@dataclass(frozen=True)
class BoxRows:
    """The boxes of every row: those of row i stand at `offsets[i]` to `offsets[i + 1]`.

    Args:
        offsets: int64, one more than rows.
        boxes: float32 of shape (all boxes, 4), xyxy; in pixels, or relative where they were.
        labels: int32 of shape (all boxes,).
    """

    offsets: Offsets
    boxes: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]

    def row(self, row: int) -> tuple[Values, Values]:
        """Return the boxes and the labels of one row."""
        part = slice(self.offsets[row], self.offsets[row + 1])
        return self.boxes[part], self.labels[part]


def checked_corners(
    column: str, values: pa.Array, where: Offsets, source_format: str
) -> npt.NDArray[np.float32]:
    """Return the boxes of all rows as xyxy; refuse those that are none.

    Args:
        column: its name.
        values: of it.
        where: offsets of its lists.
        source_format: of the boxes, as in `dfgen.Boxes`.
    """
    boxes = quadruples(column, values, where)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        sides = boxes[:, 2:] - (0 if source_format == "xywh" else boxes[:, :2])
    wrong = ~(np.isfinite(boxes).all(axis=1) & (sides > 0).all(axis=1))
    why = "its width and height" if source_format == "xywh" else "x2 - x1 and y2 - y1"
    why = f"{why} must be larger than 0"
    if source_format == "rel_xyxy" and not wrong.any():
        wrong = ((boxes < -_FAR) | (boxes > 1 + _FAR)).any(axis=1)
        why = 'relative coordinates go from 0 to 1. For pixels write source_format="xyxy"'
    if wrong.any():
        row, place = place_of(where, int(wrong.argmax()))
        box = ", ".join(f"{number:g}" for number in boxes[wrong.argmax()])
        raise ManifestError(
            f"box {place} of row {row} in column {column!r} is ({box}) as "
            f"{source_format} ({wrong.sum():,} such boxes): {why}"
        )
    if source_format == "xywh":
        boxes[:, 2:] += boxes[:, :2]
    return boxes


def class_numbers(
    column: str, values: pa.Array, where: Offsets, class_names: tuple[object, ...] | None
) -> npt.NDArray[np.int32]:
    """Return the class numbers of all boxes.

    Args:
        column: of labels, its name.
        values: of it.
        where: offsets of its lists.
        class_names: the classes in the order of their numbers; None: the labels are numbers.
    """
    labels = pc.list_flatten(values)
    if not len(labels):
        return np.empty(0, np.int32)
    if labels.null_count:
        row, place = place_of(where, pc.indices_nonzero(pc.is_null(labels))[0].as_py())
        raise ManifestError(f"label {place} of row {row} in column {column!r} is missing")
    if class_names is not None:
        numbers: npt.NDArray[np.int32] = Category(column, class_names=class_names).encode(labels)
        return numbers
    if not pa.types.is_integer(labels.type):
        raise ManifestError(
            f"column {column!r} holds lists of {labels.type}: write "
            f"dfgen.Boxes(..., labels={column!r}, class_names=[...])"
        )
    low, high = (pc.min_max(labels)[side].as_py() for side in ("min", "max"))
    if low < 0 or high >= 2**31:
        raise ManifestError(
            f"column {column!r} holds the numbers {low} to {high}: classes go from 0 on"
        )
    numbers = labels.to_numpy(zero_copy_only=False).astype(np.int32)
    return numbers
