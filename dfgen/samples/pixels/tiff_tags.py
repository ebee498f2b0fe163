"""The first directory of a TIFF file, of which a block of EXIF is one. Source: TIFF 6.0, section 2.

Pillow would warn of a broken one, and reads all of it: every decode asks for some numbers of it.
"""

import struct
from typing import IO, NamedTuple

SUBFILE_TYPE, WIDTH, HEIGHT, BITS_PER_SAMPLE = 0x00FE, 0x0100, 0x0101, 0x0102
PHOTOMETRIC, ORIENTATION, SAMPLES_PER_PIXEL = 0x0106, 0x0112, 0x0115
PLANAR, SAMPLE_FORMAT, XMP = 0x011C, 0x0153, 0x02BC
STRIPS, TILE_WIDTH, TILE_HEIGHT, TILES = 0x0111, 0x0142, 0x0143, 0x0144
PALETTE = 3  # as PHOTOMETRIC

NUMBERS = {1: "B", 3: "H", 4: "I", 16: "Q"}
"""Type of an entry -> code of `struct`, of whole numbers."""

_SIZES = {1: 1, 3: 2, 4: 4, 7: 1, 16: 8}  # of a value of the type, in bytes
_BIG = 43  # the version of a BigTIFF, whose offsets have 64 bits

LONGEST = 2**24
"""The most bytes that are read at once, whatever a damaged header asks for."""

_MOST_PAGES = 1000  # that are looked for: each may be another way through a network


class Directory(NamedTuple):
    """Entries as they stand: tag -> type, how many values, and these or where they are."""

    file: IO[bytes]
    order: str
    entries: dict[int, tuple[int, int, bytes]]

    def number(self, tag: int, default: int) -> int:
        """Return a whole number, or the first of several."""
        kind, _, _ = self.entries.get(tag, (0, 0, b""))
        if kind not in NUMBERS:
            return default
        first: int = struct.unpack_from(self.order + NUMBERS[kind], self.data(tag))[0]
        return first

    def values(self, tag: int) -> int:
        """Return how many values an entry has, 1 where there is no such entry."""
        return self.entries.get(tag, (0, 1, b""))[1]

    def data(self, tag: int) -> bytes:
        """Return the bytes of an entry's values, nothing where there is no such entry."""
        kind, count, value = self.entries.get(tag, (0, 0, b""))
        size = count * _SIZES.get(kind, 0)
        if size <= len(value):
            return value[:size]
        self.file.seek(*struct.unpack(self.order + ("I" if len(value) == 4 else "Q"), value))
        return self.file.read(min(size, LONGEST))


def tiff_directory(file: IO[bytes]) -> Directory:
    """Read the first directory; struct.error where it is cut short, or no TIFF."""
    order, place, many, entry = _layout(file)
    (count,) = _at(file, place, many)
    size = struct.calcsize(entry)
    body = file.read(min(count, 2**16) * size)
    body = body[: len(body) // size * size]  # what is left of one that is cut short
    found = struct.iter_unpack(entry, body)
    entries = {tag: (kind, count, value) for tag, kind, count, value in found}
    return Directory(file, order, entries)


def tiff_pages(file: IO[bytes]) -> int | None:
    """Count the directories; None where they are broken, a circle, or too many to look for."""
    seen = set[int]()
    try:
        order, place, many, entry = _layout(file)
        while place:
            if place in seen or len(seen) == _MOST_PAGES:
                return None
            seen.add(place)
            (count,) = _at(file, place, many)
            end = place + struct.calcsize(many) + count * struct.calcsize(entry)
            (place,) = _at(file, end, order + ("Q" if "8s" in entry else "I"))
    except (struct.error, OverflowError):  # of an offset beyond what a file can have
        return None
    return len(seen)


def _layout(file: IO[bytes]) -> tuple[str, int, str, str]:
    """Return the order of bytes, where the first directory is, and formats of count and entry."""
    file.seek(0)
    order = ">" if file.read(2) == b"MM" else "<"
    version, place = struct.unpack(order + "HI", file.read(6))
    if version != _BIG:
        return order, place, order + "H", order + "HHI4s"
    (place,) = struct.unpack(order + "Q", file.read(8))
    return order, place, order + "Q", order + "HHQ8s"


def _at(file: IO[bytes], place: int, form: str) -> tuple[int, ...]:
    file.seek(place)
    return struct.unpack(form, file.read(struct.calcsize(form)))
