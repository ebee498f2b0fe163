"""The blocks of a GIF file: how many images it holds, where its end is soon found."""

from typing import IO

_GIF_READ = 2**16  # bytes of a GIF that are looked through


def gif_frames(file: IO[bytes]) -> int | None:
    """Walk the blocks of a GIF (GIF89a, section 12); None where too much would have to be read."""
    file.seek(0)
    data = file.read(_GIF_READ)
    place = 13 + _table(data[10])
    frames = 0
    while place < len(data):
        kind = data[place]
        if kind == 0x3B:  # the trailer
            return frames
        if kind == 0x2C:
            frames += 1
            place += 11 + _table(data[place + 9]) if place + 9 < len(data) else len(data)
        elif kind == 0x21:
            place += 2
        else:
            break
        while place < len(data) and data[place]:  # blocks of up to 255 bytes, the last is empty
            lengths = data[place::256]  # most have 255: these are passed over at once
            full = len(lengths) - len(lengths.lstrip(b"\xff"))
            place += 256 * full if full else 1 + data[place]
        place += 1
    return None if len(data) == _GIF_READ else max(frames, 1)


def _table(flags: int) -> int:
    """Return the bytes of the table of colours that flags announce."""
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0
