"""Decodes files to their end: finds broken ones, and computes digest and perceptual hash.

Perceptual hashes of copies of a picture differ in a few of 64 bits.
"""

import hashlib
import io
from typing import IO, Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError, is_outside, reason
from dfgen.limits import Limits, read_file
from dfgen.samples.pixels.decoders import decode_stored, turn
from dfgen.samples.pixels.formats import FORMATS, opened, parse_header
from dfgen.samples.pixels.geometry import Pixels, Size, place
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.resizing import resize
from dfgen.samples.pixels.sounds import check_frames, load_soundfile
from dfgen.stores.array_files import check_row, hdf5_arrays, whole_array
from dfgen.stores.store import Store
from dfgen.table.arrow_types import Content

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


_BLOCK = 1 << 24  # bytes of an array that are read at once


class Whole(NamedTuple):
    """A file that was decoded to its end."""

    header: Header
    fault: str | None  # the message of the decoder
    digest: str  # BLAKE2b-128 of the bytes
    phash: int | None  # of a picture


def decode_whole(content: Content, store: Store) -> Whole:
    """Read a file once, and decode everything that samples are made of.

    That is the first image of a file, all frames of a sound, all rows of an HDF5 file; for a .npy
    file only the length is checked. JPEGs are decoded as small as the hash needs.
    """
    with opened(content, store) as (file, name):
        return _checked(file, name, store.limits)


def _checked(file: IO[bytes], name: str, limits: Limits) -> Whole:
    file.seek(0)
    if FORMATS[name].holds == "image":
        data = read_file(file, limits)
        header, fault, phash = _image(data, name, limits)
        return Whole(header, fault, hashlib.blake2b(data, digest_size=16).hexdigest(), phash)
    header, fault = _other(file, name, limits)
    file.seek(0)
    digest = hashlib.blake2b(digest_size=16)
    while block := file.read(_BLOCK):
        digest.update(block)
    return Whole(header, fault, digest.hexdigest(), None)


def _image(data: bytes, name: str, limits: Limits) -> tuple[Header, str | None, int | None]:
    """Return the header of an image, the fault of its pixels, and its hash."""
    header = parse_header(io.BytesIO(data), name, limits)
    try:
        color_mode = "grayscale" if name == "jpeg" else "rgb"
        _, pixels, reduced = decode_stored(data, color_mode, reduction_for_hash, limits)
    except DecodeError as error:
        return header, str(error), None
    size = pixels.shape[:2] if reduced == 1 else (header.height or 0, header.width or 0)
    return header, None, perceptual_hash(pixels, size, reduced, header.orientation)


def _other(file: IO[bytes], name: str, limits: Limits) -> tuple[Header, str | None]:
    """Return the header of a sound or an array, and the fault of its content."""
    is_sound = FORMATS[name].holds == "sound"
    if is_sound:
        load_soundfile()
    header = parse_header(file, name, limits)
    file.seek(0)
    try:
        if is_sound:
            check_frames(file, name)
        else:
            (_read_rows if name == "hdf5" else whole_array)(file, limits)
    except Exception as error:
        if is_outside(error):
            raise
        return header, reason(error)
    return header, None


def _read_rows(file: IO[bytes], limits: Limits) -> None:
    """Read all arrays of an HDF5 file, from the disk if it is there."""
    on_disk = isinstance(getattr(file, "raw", None), io.FileIO)
    source: Any = file.name if on_disk else io.BytesIO(read_file(file, limits))
    for name, rows in hdf5_arrays(source).items():
        if rows.dtype.hasobject:
            continue
        check_row(rows, limits)
        step = max(1, _BLOCK * len(rows) // max(1, rows.nbytes))
        try:
            for start in range(0, len(rows), step):
                rows[start : start + step]
        except OSError as error:
            raise DecodeError(f"the array {name} is damaged: {reason(error)}") from error
