"""The rows of a source, and columns of lists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.manifest.schema import Label

ListLengths = npt.NDArray[np.integer[Any]]

# Lists of lists of floats: pandas turns them into arrays and Arrow turns these back into the same
# type, which it does not for lists of fixed size.
BOXES = pa.list_(pa.list_(pa.float32()))
LABELS = pa.list_(pa.string())

ANNOTATED = ("annotated_width", "annotated_height")
"""Columns of the size of the image that was annotated; null: unknown."""

MOST_PIXELS = 2**31
Side = Annotated[int, msgspec.Meta(ge=0, lt=MOST_PIXELS)]
"""The width or height of an image in a JSON file; 0: unknown."""


@dataclass(frozen=True)
class Rows:
    """The rows of a source, one a file.

    Args:
        table: `path`, labels, and `problem` for rows that cannot be used.
        folder: the absolute folder, archive or URL where relative paths start.
        labels: metadata of the columns, as far as the source knows it.
        relative: whether shapes are shares of the image instead of pixels.
        listed: `path`, `bytes` and `mtime_ns` of all files, if a bucket lists them.
    """

    table: pa.Table
    folder: str
    labels: Mapping[str, Label] = field(default_factory=dict)
    relative: bool = False
    listed: pa.Table | None = None


def nest(
    values: pa.Array, lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return consecutive lists of these lengths; null where `missing`, with length 0."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if missing is None else np.append(missing, False)
    return pa.ListArray.from_arrays(pa.array(ends, mask=mask), values)


def nest_boxes(boxes: npt.NDArray[Any], lengths: ListLengths) -> Any:
    """Return numbers (n, k) as consecutive lists of lists of k floats."""
    each = np.full(len(boxes), boxes.shape[1])
    with np.errstate(over="ignore"):  # infinite, which is outside of every image
        return nest(nest(pa.array(boxes.astype(np.float32).ravel()), each), lengths)
