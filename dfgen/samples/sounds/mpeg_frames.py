"""MP3 files: which frames they have, told before they are decoded.

libmpg123 goes on from a damaged place as well as it can, and writes about that to stderr. Source:
ISO/IEC 11172-3 and 13818-3, section 2.4; ID3v2.4, section 3.1; the Xing header as LAME writes it.
"""

import struct
from functools import lru_cache

from dfgen.errors import DecodeError

_BITRATES = {  # kbit/s of layer III, of MPEG 1 and of 2 and 2.5
    True: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_AFTER = (b"TAG", b"APETAGEX", b"LYRICS", b"3DI", b"ID3", b"\0")
"""How what may stand after the last frame begins."""
_FIRST = 1 << 16  # bytes before the first frame, beside tags, where it is looked for


def whole_mpeg(data: bytes) -> bytes:
    """Return the frames of an MP3 file, without what stands before and after them.

    If no header says how many they are, or a wrong one, one that does stands before them:
    libsndfile would guess. Then it also cuts off the 529 frames of sound by which it is late.

    Raises:
        DecodeError: it has no frames, or some are missing or damaged.
    """
    start = end = _first_frame(data)
    frames = 0
    while length := _frame_length(data[end : end + 3]):
        end += length
        frames += 1
    if end > len(data):
        raise DecodeError(
            f"truncated: the last frame of the mp3 file ends at byte {end:,}, there are "
            f"{len(data):,}"
        )
    if data[end:] and not data.startswith(_AFTER, end):
        raise DecodeError(f"broken mp3 file: there is no frame at byte {end:,} of {len(data):,}")
    first = start + _frame_length(data[start : start + 3])
    promised = _promised(data[start:first])
    if promised is None:
        return _header(data[start : start + 4], frames, end - start) + data[start:end]
    if promised > frames - 1:
        raise DecodeError(
            f"truncated: {promised:,} mp3 frames are promised, {frames - 1:,} are there"
        )
    if promised < frames - 1:  # the file was joined to others
        return _header(data[start : start + 4], frames - 1, end - first) + data[first:end]
    return _with_size(data[start:first], end - start) + data[first:end]


def _first_frame(data: bytes) -> int:
    """Return where the first frame begins: one that another one follows."""
    at = 0
    while data.startswith(b"ID3", at) and len(data) >= at + 10:
        size = 0
        for byte in data[at + 6 : at + 10]:
            size = size << 7 | byte & 0x7F
        at += 10 + size + (10 if data[at + 5] & 0x10 else 0)
    last = at + _FIRST
    while (at := data.find(b"\xff", at, last)) >= 0:
        length = _frame_length(data[at : at + 3])
        if length and _frame_length(data[at + length : at + length + 3]):
            return at
        at += 1
    raise DecodeError("broken mp3 file: no frames of sound are found in it")


@lru_cache
def _frame_length(begin: bytes) -> int:
    """Return the bytes of the frame that begins with these three, 0 where none does."""
    if len(begin) < 3 or begin[0] != 0xFF or begin[1] & 0xE6 != 0xE2:
        return 0
    version, bitrate = begin[1] >> 3 & 3, begin[2] >> 4
    rate, padding = begin[2] >> 2 & 3, begin[2] >> 1 & 1
    if version not in _RATES or rate == 3 or bitrate in (0, 15):
        return 0
    factor = 144_000 if version == 3 else 72_000
    return factor * _BITRATES[version == 3][bitrate - 1] // _RATES[version][rate] + padding


def _place(begin: bytes) -> int:
    """Return where in a first frame the Xing header stands: after its side information."""
    is_mono = begin[3] >> 6 == 3
    return 4 + ((17 if is_mono else 32) if begin[1] >> 3 & 3 == 3 else (9 if is_mono else 17))


def _promised(frame: bytes) -> int | None:
    """Return how many frames the first one says there are after it, None where it does not."""
    name, flags, frames = struct.unpack_from(">4sII", frame.ljust(60, b"\0"), _place(frame))
    return frames if name in (b"Xing", b"Info") and flags & 1 else None


def _with_size(frame: bytes, nbytes: int) -> bytes:
    """Return a first frame with the bytes of all frames put right, where it tells them."""
    flags, at = frame[_place(frame) + 7], _place(frame) + 12
    return frame[:at] + struct.pack(">I", nbytes) + frame[at + 4 :] if flags & 2 else frame


def _header(begin: bytes, frames: int, nbytes: int) -> bytes:
    """Return a frame without sound that says how many frames, and bytes of them, follow it."""
    bitrate = 5 if begin[1] >> 3 & 3 == 3 else 8  # 64 kbit/s: no such frame is too short for it
    begin = bytes([0xFF, begin[1] | 1, bitrate << 4 | begin[2] & 0x0C, begin[3]])
    length = _frame_length(begin[:3])
    counts = struct.pack(">4sIII", b"Xing", 3, frames, nbytes + length)
    return (begin.ljust(_place(begin), b"\0") + counts).ljust(length, b"\0")
