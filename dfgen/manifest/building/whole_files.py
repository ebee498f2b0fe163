"""Decodes files to their end: finds broken ones, and computes digest and perceptual hash."""

import hashlib
import io
from typing import IO, Any, NamedTuple

from dfgen.errors import DecodeError, is_outside, reason
from dfgen.limits import Limits, read_file
from dfgen.manifest.building.phash import perceptual_hash, reduction_for_hash
from dfgen.samples.pixels.decoders import decode_stored
from dfgen.samples.pixels.formats import FORMATS, opened, parse_header
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.sounds import load_soundfile, whole_sound
from dfgen.stores.array_files import check_row, hdf5_arrays, whole_array
from dfgen.stores.store import Store
from dfgen.table.file_columns import Content

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
    if FORMATS[name].holds == "sound":
        load_soundfile()
        header, fault = whole_sound(file, name)
    else:
        header, fault = _array(file, name, limits)
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


def _array(file: IO[bytes], name: str, limits: Limits) -> tuple[Header, str | None]:
    header = parse_header(file, name, limits)
    file.seek(0)
    try:
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
