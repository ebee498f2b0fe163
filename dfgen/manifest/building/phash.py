"""The perceptual hash of a picture: copies differ in a few of its 64 bits."""

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.samples.pixels.decoders import turn
from dfgen.samples.pixels.geometry import Pixels, Size, place
from dfgen.samples.pixels.resizing import resize

_SIDE = 32  # pixels of the hashed picture; smaller pictures have no hash
_EDGE = 0.1  # weight of a pixel at the edge
_LEAST = 1.0  # gray levels times 32, which half of the frequencies exceed
_ONE_COLOUR = 0.8  # largest share of the pixels within five gray levels
_WAVES = 10  # half waves across and down together, at most

_SUMS = np.add.outer(np.arange(_WAVES + 1), np.arange(_WAVES + 1))
_LOW = np.flatnonzero((_SUMS > 0) & (_SUMS <= _WAVES))[:64]
_LOW = np.concatenate([_LOW[start::3] for start in range(3)])  # each third has all kinds of waves


def _rows_of_waves() -> npt.NDArray[np.float32]:
    """Return the orthonormal DCT-II, a wave a row, with weights that are larger in the middle."""
    place = (np.arange(_SIDE) + 0.5) / _SIDE
    waves = np.cos(np.pi * np.outer(np.arange(_SIDE), place)) * np.sqrt(2 / _SIDE)
    waves[0] /= np.sqrt(2)
    weighted: npt.NDArray[np.float64] = waves * (_EDGE + (1 - _EDGE) * np.sin(np.pi * place))
    return weighted.astype(np.float32)


_WAVE = _rows_of_waves()[: _WAVES + 1]


def reduction_for_hash(size: Size) -> int:
    """Return the reduction at which a JPEG may be decoded: 1, 2, 4 or 8."""
    return next((number for number in (8, 4, 2) if min(size) >= 2 * _SIDE * number), 1)


def perceptual_hash(
    pixels: Pixels, size: Size, reduced: int = 1, orientation: int = 1
) -> int | None:
    """Return the hash of a picture, 64 bits, half of them set.

    None for pictures below 32 pixels a side, and for plain pictures, whose hashes are equal by
    chance. The pixels are gray or RGB as stored, `reduced` from `size` (height, width); the hash
    describes the upright picture.
    """
    if min(size) < _SIDE:
        return None
    target = (_SIDE, _SIDE)
    small = np.empty((*target, pixels.shape[2]), pixels.dtype)
    resize(pixels, place(size, target, target, "stretch"), small, "area", reduced=reduced)
    gray = small if small.shape[2] == 1 else cv2.cvtColor(small[..., :3], cv2.COLOR_RGB2GRAY)
    if gray.dtype != np.uint8:  # of any range
        finite = np.nan_to_num(gray, nan=0, posinf=0, neginf=0)
        gray = cv2.normalize(finite, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
    gray = turn(gray.reshape(_SIDE, _SIDE, 1), orientation)[..., 0]
    darker = np.cumsum(np.bincount(gray.ravel(), minlength=260))
    low = (_WAVE @ (gray - np.float32(cv2.mean(gray)[0])) @ _WAVE.T).ravel()[_LOW]
    one_colour = (darker[5:] - darker[:-5]).max() >= _ONE_COLOUR * gray.size
    if one_colour or np.sort(np.abs(low))[32] < _LEAST:
        return None
    return int.from_bytes(np.packbits(low > np.sort(low)[31:33].mean()).tobytes(), "big")
