"""How an image is to be turned: from its EXIF, or from its XMP where EXIF does not say."""

import re
import struct

from dfgen.samples.pixels.tiff_tags import NUMBERS, ORIENTATION

_WHOLE = {**NUMBERS, 6: "b", 8: "h", 9: "i"}  # with a sign: no camera, but some editors
_IN_XMP = re.compile(rb"tiff:Orientation\s*(?:=\s*[\"']|>)\s*([0-9]+)").search


def orientation_of(exif: bytes, xmp: bytes) -> int:
    """Return the orientation, 1 to 8, as EXIF counts them (EXIF 2.32, 4.6.4, tag 0x0112).

    Neither, a broken block, or a number that is none of these: 1, the pixels stay as they are.

    Args:
        exif: the block, with or without its `Exif` before it; empty where there is none.
        xmp: the packet; empty where there is none.
    """
    if not exif and not xmp:
        return 1
    found = _of_exif(exif) if exif else None
    return known(_of_xmp(xmp) if found is None else found)


def known(orientation: int) -> int:
    """Return an orientation, or 1 for a number that is none."""
    return orientation if 1 <= orientation <= 8 else 1


def _of_exif(exif: bytes) -> int | None:
    exif = exif.removeprefix(b"Exif\0\0")
    order = ">" if exif[:2] == b"MM" else "<"
    try:
        (place,) = struct.unpack_from(order + "4xI", exif)
        (count,) = struct.unpack_from(order + "H", exif, place)
        for at in range(place + 2, place + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", exif, at)
            if tag == ORIENTATION:
                code = _WHOLE.get(kind)
                return None if code is None else struct.unpack_from(order + code, exif, at + 8)[0]
    except struct.error:
        pass  # a broken block, or what is left of one
    return None


def _of_xmp(xmp: bytes) -> int:
    found = _IN_XMP(xmp)
    return int(found[1][:9]) if found else 1
