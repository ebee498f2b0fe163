"""Rotation, shifts, shear and zoom as Keras's old generator makes them, by OpenCV.

Matrix: `apply_affine_transform` of `keras/src/legacy/preprocessing/image.py`. Filling and
interpolation: those of `scipy.ndimage.affine_transform`, which it calls for each channel; OpenCV
takes a tenth of the time.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.samples.pixels.geometry import Pixels

Coordinates = npt.NDArray[np.float64]

_NEAREST = 0  # interpolation_order
_BY_ORDER = (
    cv2.INTER_NEAREST,
    cv2.INTER_LINEAR,
    cv2.INTER_CUBIC,  # the splines of SciPy from here on: the kernels that come nearest
    cv2.INTER_CUBIC,
    cv2.INTER_LANCZOS4,
    cv2.INTER_LANCZOS4,
)
HIGHEST_ORDER = len(_BY_ORDER) - 1

_LONGEST = 2**15 - 2  # rows or columns: OpenCV counts them in 16 bits


def keras_matrix(
    height: int, width: int, theta: float, tx: float, ty: float, shear: float, zx: float, zy: float
) -> Coordinates:
    """Return the matrix that takes (row, column, 1) of the result to its place in the image.

    As Keras: it centres at (width, height) / 2 and then swaps the axes. So an image that is not
    square turns about that point, `tx` moves columns and `ty` rows.

    Args:
        height: of the image.
        width: of the image.
        theta: rotation in degrees.
        tx: pixels that columns are shifted by, to the left.
        ty: pixels that rows are shifted by, upwards.
        shear: in degrees.
        zx: factor of columns: 2 shows twice as many, each half as wide.
        zy: factor of rows.
    """
    turn, slant = np.deg2rad(theta), np.deg2rad(shear)
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    shift = np.array([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    shearing = np.array([[1, -np.sin(slant), 0], [0, np.cos(slant), 0], [0, 0, 1]])
    zoom = np.diag([zx, zy, 1.0])
    x, y = height / 2 - 0.5, width / 2 - 0.5
    there = np.array([[1, 0, x], [0, 1, y], [0, 0, 1]])
    back = np.array([[1, 0, -x], [0, 1, -y], [0, 0, 1]])
    matrix: Coordinates = there @ (rotation @ shift @ shearing @ zoom) @ back
    return matrix[np.ix_([1, 0, 2], [1, 0, 2])]


def warped(image: Pixels, matrix: Coordinates, fill_mode: str, cval: float, order: int) -> Pixels:
    """Return an image whose pixels are those of `image` at the places that a matrix names.

    Args:
        image: (height, width, channels), float32.
        matrix: as of `keras_matrix`.
        fill_mode: what is outside the image, one of `FILL_MODES`.
        cval: that, with `"constant"`.
        order: of the interpolation, 0 to 5.
    """
    height, width = image.shape[:2]
    if max(height, width) > _LONGEST:
        raise ArgumentError(
            f"an image of {height} x {width} pixels is too large to be rotated, shifted, sheared "
            f"or zoomed, at most {_LONGEST} a side: make it smaller first, as by target_size="
        )
    if fill_mode == "nearest" and order != _NEAREST:  # as OpenCV fills, without two maps of places
        inverse = matrix[np.ix_([1, 0], [1, 0, 2])]  # of (x, y)
        flags = _BY_ORDER[order] | cv2.WARP_INVERSE_MAP
        still: Pixels = cv2.warpAffine(
            image, inverse, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
        )
        return still.reshape(image.shape)
    across, down = np.arange(width), np.arange(height)[:, None]
    rows, columns = (line[2] + down * line[0] + across * line[1] for line in matrix[:2])
    fold = FILL_MODES[fill_mode]
    inner = [fold(rows, height), fold(columns, width)]
    if order == _NEAREST:  # of two that are as near the next one, by OpenCV the even one
        inner = [np.floor(places + 0.5) for places in inner]
    y, x = (places.astype(np.float32) for places in inner)
    border = cv2.BORDER_REFLECT if fill_mode == "reflect" else cv2.BORDER_REPLICATE
    made: Pixels = cv2.remap(image, x, y, _BY_ORDER[order], borderMode=border).reshape(image.shape)
    if fill_mode == "constant":
        made[(rows < 0) | (rows > height - 1) | (columns < 0) | (columns > width - 1)] = cval
    return made


def _clipped(places: Coordinates, length: int) -> Coordinates:
    """Return places outside as the edge: aaaa abcd dddd."""
    return np.clip(places, 0, length - 1)


def _reflected(places: Coordinates, length: int) -> Coordinates:
    """Return places outside as in a mirror behind the edge: dcba abcd dcba."""
    period = 2 * length
    inner = places - period * np.trunc(places / period)
    before = np.where(inner < -length, inner + period, -inner - 1)
    behind = np.where(inner >= length, period - inner - 1, inner)
    return _clipped(np.where(inner < 0, before, behind), length)


def _wrapped(places: Coordinates, length: int) -> Coordinates:
    """Return places outside as of copies whose edges lie on each other, as SciPy: abcd bcd bcd."""
    period = length - 1
    if not period:
        return np.zeros_like(places)
    copies = np.where(places < 0, np.ceil(places / period) - 1, np.floor(places / period))
    return np.where(places == period, places, places - period * copies)


FILL_MODES: dict[str, Callable[[Coordinates, int], Any]] = {
    "nearest": _clipped,
    "constant": _clipped,
    "reflect": _reflected,
    "wrap": _wrapped,
}
"""Keras's names -> which place in the image stands for one that is maybe outside."""
