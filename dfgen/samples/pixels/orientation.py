"""How an image is to be turned: from its EXIF, or from its XMP where EXIF does not say."""

import io
import re
import struct

from dfgen.samples.pixels.tiff_tags import ORIENTATION, tiff_directory

_IN_XMP = re.compile(rb"tiff:Orientation\s*(?:=\s*[\"']|>)\s*([0-9]+)").search


def orientation_of(exif: bytes, xmp: bytes) -> int:
    """Return the orientation, 1 to 8, as EXIF counts them (EXIF 2.32, 4.6.4, tag 0x0112).

    Neither, a broken block, or a number that is none of these: 1, the pixels stay as they are.

    Args:
        exif: the block, with or without its `Exif` before it; empty where there is none.
        xmp: the packet; empty where there is none.
    """
    found = _of_exif(exif) if exif else None
    return known(_of_xmp(xmp) if found is None else found)


def known(orientation: int) -> int:
    """Return an orientation, or 1 for a number that is none."""
    return orientation if 1 <= orientation <= 8 else 1


def _of_exif(exif: bytes) -> int | None:
    try:
        directory = tiff_directory(io.BytesIO(exif.removeprefix(b"Exif\0\0")))
        return directory.number(ORIENTATION, 1) if ORIENTATION in directory.entries else None
    except (struct.error, OverflowError):
        return None


def _of_xmp(xmp: bytes) -> int:
    found = _IN_XMP(xmp)
    return int(found[1][:9]) if found else 1
