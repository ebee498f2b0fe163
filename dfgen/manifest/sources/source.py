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
    """The rows of a source, one a file."""

    table: pa.Table  # `path`, labels, and `problem` for rows that cannot be used
    folder: str  # the absolute folder, archive or URL where relative paths start
    labels: Mapping[str, Label] = field(default_factory=dict)  # as far as the source knows them
    relative: bool = False  # whether shapes are shares of the image instead of pixels
    listed: pa.Table | None = None  # `path`, `bytes` and `mtime_ns` of all files of a bucket


def nest(
    values: pa.Array, lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return consecutive lists of these lengths; null where `missing`, with length 0."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if missing is None else np.append(missing, False)
    return pa.ListArray.from_arrays(pa.array(ends, mask=mask), values)
