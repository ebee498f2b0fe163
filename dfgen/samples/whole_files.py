"""Files decoded to their end: what is wrong with each, what its bytes are, what it looks like."""

import hashlib
import io
from collections.abc import Callable
from functools import partial
from typing import IO, NamedTuple

from dfgen.errors import DecodeError, is_outside, reason
from dfgen.limits import Limits
from dfgen.samples.pixels.color_modes import CHANNELS
from dfgen.samples.pixels.formats import FORMATS, parse_header, read_known
from dfgen.samples.pixels.headers import Header, check_decoded
from dfgen.samples.pixels.perceptual_hash import perceptual_hash, reduction_for_hash
from dfgen.samples.sounds.sound_files import whole_sound
from dfgen.samples.storage.arrays.array_files import check_row, open_hdf5
from dfgen.samples.storage.arrays.hdf5_texts import read_texts
from dfgen.samples.storage.arrays.npy import whole_array
from dfgen.samples.storage.capped import read_file
from dfgen.samples.storage.embedded import Content
from dfgen.samples.storage.store import Store

_BLOCK = 1 << 24  # bytes of an array that are read at once

Checked = tuple[Header, str | None, int | None]
"""The header of a file, why it cannot be decoded, or None, and the hash of a picture."""


class Whole(NamedTuple):
    """A file that was decoded to its end.

    Args:
        header: what it says of itself.
        fault: what its decoder says, None where it is whole.
        digest: BLAKE2b-128 of its bytes, 32 hexadecimal digits.
        phash: the perceptual hash of a picture, None where it has none.
    """

    header: Header
    fault: str | None
    digest: str
    phash: int | None


def decode_whole(content: Content, store: Store) -> Whole:
    """Read a file once, and decode all that samples are made of.

    That is the first image of a file, all frames of a sound, and all rows of an HDF5 file, a few
    at a time. Of a .npy file it is the length alone: its numbers are as they are. A JPEG is read to
    its end, and made as small as the perceptual hash needs it.

    Raises:
        MissingFileError: there is no such file.
        DecodeError: it is empty, of no known format, or its header is broken.
        ArgumentError: it is a sound, and the package that reads sounds is missing.
    """
    return read_known(content, store, partial(_checked, limits=store.limits))


def _checked(file: IO[bytes], name: str, limits: Limits) -> Whole:
    file.seek(0)
    if FORMATS[name].holds == "image":
        data = read_file(file, limits)
        digest, found = hashlib.blake2b(data, digest_size=16), _image(data, name, limits)
    else:
        found = (*_READERS[FORMATS[name].holds](file, name, limits), None)
        file.seek(0)
        digest = hashlib.blake2b(digest_size=16)
        while block := file.read(_BLOCK):
            digest.update(block)
    header, fault, phash = found
    return Whole(header, fault, digest.hexdigest(), phash)


def _image(data: bytes, name: str, limits: Limits) -> Checked:
    header, format = parse_header(io.BytesIO(data), name, limits), FORMATS[name]
    decode = format.decode
    if decode is None:
        return header, None, None
    try:
        counted = header if format.guard is None else format.guard(data, header, limits)
        check_decoded(counted, limits, CHANNELS["rgb"])
        if not format.reduces:
            pixels, reduced = decode(data, "rgb"), 1
        else:
            reduced = reduction_for_hash((header.height or 0, header.width or 0))
            pixels = decode(data, "grayscale", reduced)
    except DecodeError as error:
        return header, str(error), None
    except Exception as error:
        if is_outside(error):
            raise
        return header, f"broken {name} file: {reason(error)}", None
    stored = pixels.shape[:2] if reduced == 1 else (header.height or 0, header.width or 0)
    return header, None, perceptual_hash(pixels, stored, reduced, header.orientation)


def _array(file: IO[bytes], name: str, limits: Limits) -> tuple[Header, str | None]:
    header = parse_header(file, name, limits)
    file.seek(0)
    try:
        if name == "hdf5":
            _read_rows(file, limits)
        else:
            whole_array(file, limits)
    except Exception as error:
        if is_outside(error):
            raise
        return header, reason(error)
    return header, None


def _read_rows(file: IO[bytes], limits: Limits) -> None:
    """Read all arrays of an HDF5 file, from the disk where it is on one."""
    on_disk = isinstance(getattr(file, "raw", None), io.FileIO)
    source = file.name if on_disk else read_file(file, limits)
    for name, rows in open_hdf5(source).items():
        if rows.dtype.hasobject:
            read_texts(source, [name])
            continue
        check_row(rows, limits)
        step = max(1, _BLOCK * len(rows) // max(1, rows.nbytes))
        try:
            for start in range(0, len(rows), step):
                rows[start : start + step]
        except OSError as error:
            raise DecodeError(f"the array {name} is damaged: {reason(error)}") from error


_READERS: dict[str, Callable[[IO[bytes], str, Limits], tuple[Header, str | None]]] = {
    "array": _array,
    "sound": whole_sound,
}
"""Content of a format -> what decodes it, if not as an image."""
