"""Boxes and their like as Arrow holds them: lists of lists."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ListLengths = npt.NDArray[np.integer[Any]]

# Lists of lists of floats: pandas turns them into arrays and Arrow turns these back into the same
# type, which it does not for lists of fixed size.
BOXES = pa.list_(pa.list_(pa.float32()))
LABELS = pa.list_(pa.string())

ANNOTATED = ("annotated_width", "annotated_height")
"""Columns that a source may give: the size of the image that was annotated; null: not known."""


def nest(
    values: pa.Array, lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return lists of so many values each, one after the other; null where `missing` and 0 long.

    Example:
        >>> nest(pa.array([1, 2, 3]), np.array([2, 0, 1])).to_pylist()
        [[1, 2], [], [3]]
    """
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if missing is None else np.append(missing, False)
    return pa.ListArray.from_arrays(pa.array(ends, mask=mask), values)


def nest_boxes(
    boxes: npt.NDArray[Any], lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return (n, k) numbers as lists of k floats, so many of them a row."""
    each = np.full(len(boxes), boxes.shape[1])
    with np.errstate(over="ignore"):  # infinite, which is outside of every image
        inner = nest(pa.array(boxes.astype(np.float32).ravel()), each)
    return nest(inner, lengths, missing)
