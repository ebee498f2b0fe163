"""Outputs of more axes than one, as masks and boxes: lists in a column, or a file for each row."""

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.samples.features.spec import Present
from dfgen.samples.pixels.png_encoder import png_of
from dfgen.table.arrow_types import with_ends
from dfgen.training.checks.known_losses import BINARY, CATEGORICAL, SPARSE
from dfgen.training.predictions.heads import ModelHead

LISTS = "lists"
"""The value that asks for lists; all else is the path of a folder."""

_LONGEST = 200  # characters of a name of a file


def said_of_arrays(head: ModelHead, said: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what an output says: classes of pixels as numbers (height, width), or as it is."""
    if head.has_pixels and keras.config.image_data_format() == "channels_first":
        said = np.moveaxis(said, 1, -1)
    if said.shape[-1] == 1 and (head.loss_kind == BINARY or head.activation == "sigmoid"):
        return (said[..., 0] > 0.5).astype(np.uint8)
    of_classes = head.loss_kind in (SPARSE, CATEGORICAL) or head.activation == "softmax"
    if said.shape[-1] > 1 and of_classes:
        dtype = np.uint8 if said.shape[-1] <= 256 else np.uint16
        classes: npt.NDArray[Any] = said.argmax(axis=-1).astype(dtype)
        return classes
    return said


def nested_lists(values: npt.NDArray[Any], lost: Present) -> pa.Array:
    """Return arrays (rows, ...) as lists of lists."""
    found = pa.array(values.ravel())
    for axis in range(values.ndim - 1, 0, -1):
        ends = np.arange(0, len(found) + 1, values.shape[axis], dtype=np.int64)
        lacking = lost if axis == 1 else np.zeros(len(ends) - 1, bool)
        found = with_ends(found, ends, lacking)
    return found


def files_of_rows(
    values: npt.NDArray[Any], lost: Present, folder: str, ids: Sequence[object]
) -> pa.Array:
    """Write arrays (rows, ...) into a folder, a file each, and return their paths.

    Classes of pixels become PNG files, whose values they are; all else becomes NPY.
    """
    os.makedirs(folder, exist_ok=True)
    of_classes = values.dtype in (np.uint8, np.uint16) and values.ndim == 3
    paths: list[str | None] = []
    for value, gone, name in zip(values, lost, ids, strict=True):
        path = os.path.join(folder, _name(name) + (".png" if of_classes else ".npy"))
        if not gone:
            with open(path, "wb") as file:
                if of_classes:
                    file.write(png_of(value))
                else:
                    np.save(file, value)
        paths.append(None if gone else path)
    return pa.array(paths, pa.string())


def _name(id: object) -> str:
    """Return the name of a file of a row, without what is no name of a file."""
    name = quote(str(id), safe=" ")
    if len(name) <= _LONGEST and not name.startswith("."):
        return name
    return blake2b(str(id).encode(), digest_size=16).hexdigest()
