"""MP3 files: where their frames begin and end, told before they are decoded.

libmpg123 goes on from a damaged place as well as it can, and writes about that to stderr. Source:
ISO/IEC 11172-3 and 13818-3, section 2.4; ID3v2.4, section 3.1; the Xing header as LAME writes it.
"""

import struct

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
    """Return the frames of an MP3 file, without tags and what stands before and after them.

    Raises:
        DecodeError: it has no frames, or some are missing or damaged.
    """
    start = end = _first_frame(data)
    while length := _frame_length(data, end):
        end += length
    if end > len(data):
        raise DecodeError(
            f"truncated: the last frame of the mp3 file ends at byte {end:,}, there are "
            f"{len(data):,}"
        )
    if data[end:] and not data.startswith(_AFTER, end):
        raise DecodeError(f"broken mp3 file: there is no frame at byte {end:,} of {len(data):,}")
    first = start + _frame_length(data, start)
    promised = _xing_bytes(data[start:first])
    if promised * 0.99 > end - start:
        raise DecodeError(
            f"truncated: {promised:,} bytes of mp3 frames are promised, {end - start:,} are there"
        )
    # one that promises less is of a file that was joined to others
    return data[start if not promised or promised * 1.01 > end - start else first : end]


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
        length = _frame_length(data, at)
        if length and _frame_length(data, at + length):
            return at
        at += 1
    raise DecodeError("broken mp3 file: no frames of sound are found in it")


def _frame_length(data: bytes, at: int) -> int:
    """Return the bytes of the frame that begins at a place, 0 where none does."""
    if len(data) < at + 4 or data[at] != 0xFF or data[at + 1] & 0xE6 != 0xE2:
        return 0
    version, bitrate = data[at + 1] >> 3 & 3, data[at + 2] >> 4
    rate, padding = data[at + 2] >> 2 & 3, data[at + 2] >> 1 & 1
    if version not in _RATES or rate == 3 or bitrate in (0, 15):
        return 0
    factor = 144_000 if version == 3 else 72_000
    return factor * _BITRATES[version == 3][bitrate - 1] // _RATES[version][rate] + padding


def _xing_bytes(frame: bytes) -> int:
    """Return how many bytes of frames the first one promises, 0 where it promises none."""
    is_mono = frame[3] >> 6 == 3
    side = (17 if is_mono else 32) if frame[1] >> 3 & 3 == 3 else (9 if is_mono else 17)
    name, flags = struct.unpack_from(">4sI", frame.ljust(60, b"\0"), 4 + side)
    if name not in (b"Xing", b"Info") or not flags & 2:
        return 0
    (promised,) = struct.unpack_from(">I", frame.ljust(60, b"\0"), 12 + side + 4 * (flags & 1))
    return int(promised)
