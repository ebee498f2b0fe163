"""The boxes of every row, from columns of lists."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.samples.arrow_types import Offsets, are_numbers, is_list, place_of
from dfgen.samples.features.category import Category

_FAR = 0.5  # how far relative coordinates may lie outside; further, they are surely pixels


class BoxRows(NamedTuple):
    """The boxes of every row, xyxy: those of row i stand at `offsets[i]` to `offsets[i + 1]`."""

    offsets: Offsets
    boxes: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]


def checked_corners(
    column: str, values: pa.Array, where: Offsets, source_format: str
) -> npt.NDArray[np.float32]:
    """Return the boxes of lists that begin `where` as xyxy; refuse those that are none."""
    boxes = _quadruples(column, values, where)
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
    if source_format != "rel_xyxy" and _are_relative(boxes):
        corners = "make corners of them, x + width and y + height, and "
        raise ManifestError(
            f"all {len(boxes):,} boxes in column {column!r} lie within 0 to 1 as {source_format}, "
            f"expected pixels: for relative coordinates {corners * (source_format == 'xywh')}"
            'write source_format="rel_xyxy"'
        )
    if source_format == "xywh":
        boxes[:, 2:] += boxes[:, :2]
    return boxes


def _are_relative(boxes: npt.NDArray[np.float32]) -> bool:
    """Whether boxes are fractions of one pixel, which no box of pixels is."""
    return bool(len(boxes)) and boxes.max() <= 1 and bool((boxes % 1).any())


def _quadruples(column: str, values: pa.Array, where: Offsets) -> npt.NDArray[np.float32]:
    """Return the four numbers of all boxes of all rows, shape (boxes, 4)."""
    boxes = pc.list_flatten(values)
    if not len(boxes):
        return np.empty((0, 4), np.float32)
    if not is_list(boxes.type):
        raise ManifestError(
            f"column {column!r} holds lists of {boxes.type}, expected lists of boxes of four "
            "numbers each, [[x1, y1, x2, y2], ...]"
        )
    lengths = pc.fill_null(pc.list_value_length(boxes), 0)
    odd = pc.indices_nonzero(pc.not_equal(lengths, 4))
    if len(odd):
        row, place = place_of(where, odd[0].as_py())
        raise ManifestError(
            f"box {place} of row {row} in column {column!r} is {boxes[odd[0].as_py()].as_py()}, "
            "expected four numbers"
        )
    numbers = pc.list_flatten(boxes)
    if not are_numbers(numbers.type):
        raise ManifestError(f"column {column!r} holds boxes of {numbers.type}, expected numbers")
    found: npt.NDArray[np.float32] = numbers.to_numpy(zero_copy_only=False).astype(np.float32)
    return found.reshape(-1, 4)


def class_numbers(
    column: str, values: pa.Array, where: Offsets, class_names: tuple[object, ...] | None
) -> npt.NDArray[np.int32]:
    """Return the class numbers of all boxes; without `class_names` the labels are those."""
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
