"""Sound files: what they say of themselves, and their frames, by libsndfile.

libsndfile takes what is left of a file that was cut short for all of it; such files are told here.
"""

import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError
from dfgen.limits import DEFAULT, Limits, read_file
from dfgen.samples.pixels.headers import Header

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

    If no header says how many they are, or a wrong one, one that does is put before them:
    libsndfile would guess, and not cut off the 529 frames by which it is late.
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


Samples = npt.NDArray[np.float32]

_STREAMED = 0xFFFFFFFF  # the length of a RIFF chunk whose writer could not know it
_UNKNOWN = 2**63 - 1  # what libsndfile says then
_BLOCK = 1 << 16  # frames that are passed over at once
_MOST_CHUNKS = 1000
_LARGEST_PAGE = 65_307  # bytes of an Ogg page


def load_soundfile() -> Any:
    """Return the package `soundfile`; ArgumentError if it, or libsndfile, is not installed."""
    try:
        import soundfile  # late: 70 ms that most programs need not spend
    except (ImportError, OSError) as error:
        raise ArgumentError(
            'dfgen.Audio needs the package soundfile: pip install "keras-dfgen[audio]"'
        ) from error
    return soundfile


def sound_header(file: IO[bytes], format: str, limits: Limits) -> Header:
    """Read channels, sample rate and frames; nothing of that without `soundfile`."""
    try:
        load_soundfile()
    except ArgumentError:
        return Header(format)
    with open_sound(sound_source(file, format, limits=limits), format) as sound:
        return _told(sound, format)


def whole_sound(file: IO[bytes], format: str, limits: Limits) -> tuple[Header, str | None]:
    """Decode all frames of a sound; return its header, and what is wrong with them, or None."""
    load_soundfile()
    header = None
    try:
        with open_sound(sound_source(file, format, limits=limits), format) as sound:
            header = _told(sound, format)
            _read_to_end(sound)
    except DecodeError as error:
        if header is None:
            raise
        return header, str(error)
    return header, None


def _told(sound: Any, format: str) -> Header:
    return Header(
        format, channels=sound.channels, sample_rate=sound.samplerate, frames=sound.frames
    )


def _read_to_end(sound: Any) -> None:
    if sound.format == "MP3":
        _keep_in_place(sound)
    there = 0
    while frames := len(sound.read(_BLOCK, dtype="float32")):
        there += frames
    if there < sound.frames:
        raise DecodeError(f"truncated: {sound.frames:,} frames are promised, {there:,} are there")


def sound_source(file: IO[bytes], format: str, most: int = 0, limits: Limits = DEFAULT) -> Any:
    """Return what libsndfile reads a file from, its path or its bytes, if all of it is there.

    An MP3, what is on no disk, and files of at most `most` bytes are read as a whole.
    """
    if format == "mp3":  # of others than its frames libmpg123 would write to stderr
        return _Held(whole_mpeg(read_file(file, limits)))
    size = file.seek(0, io.SEEK_END)
    check = _CHECKS.get(format)
    if check is not None:
        check(file, size)
    if size > most and isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
        return file.name  # so that none but the wanted bytes are read
    return _Held(read_file(file, limits))


_PLAIN = {
    "Internal error : SF_INFO struct incomplete": "its header says a sample rate of 0",
    "Internal psf_fseek() failed": "damaged or cut short",
}
"""Message of libsndfile -> its meaning."""


@contextmanager
def open_sound(source: Any, format: str) -> Iterator[Any]:
    """Give the `soundfile.SoundFile` of what `sound_source` has returned."""
    soundfile = load_soundfile()
    try:
        with soundfile.SoundFile(source) as sound:
            if sound.samplerate <= 1:  # which libsndfile makes of the 0 of an AIFF file
                raise DecodeError(f"broken {format} file: its header says a sample rate of 0")
            if sound.frames == _UNKNOWN:
                raise DecodeError(
                    f"the header of the {format} file does not say how long the sound is: "
                    "encode it anew, into a file rather than a pipe"
                )
            if not sound.frames:
                raise DecodeError("the sound is empty (0 frames)")
            yield sound
    except soundfile.LibsndfileError as error:
        text = error.error_string.rstrip(".")
        raise DecodeError(f"broken {format} file: {_PLAIN.get(text, text)}") from error
    except struct.error as error:
        raise DecodeError(f"broken {format} file: cut short, or not {format} at all") from error


def read_frames(sound: Any, place: float, out: Samples) -> None:
    """Fill `out` with frames of a sound, and with zeros after the last of a short one.

    Only these are decoded; of an MP3 those before them too. `place` is where they begin in a longer
    sound, from 0 to 1. Integers become -1..1; of two channels the mean is taken where one is
    wanted, and one is repeated for two.
    """
    if sound.channels != out.shape[1] and {sound.channels, out.shape[1]} != {1, 2}:
        raise DecodeError(
            f"the sound has {sound.channels} channels, expected channels={out.shape[1]}: only one "
            "and two are made into each other"
        )
    start = int(place * (max(0, sound.frames - len(out)) + 1))
    wanted = min(len(out), sound.frames - start)
    _go_to(start, sound)
    frames = sound.read(wanted, dtype="float32", always_2d=True)
    if len(frames) < wanted:
        raise DecodeError(
            f"truncated: {sound.frames:,} frames are promised, {start + len(frames):,} are there"
        )
    if out.shape[1] < sound.channels:
        frames = frames.mean(axis=1, keepdims=True)
    out[:wanted] = frames
    out[wanted:] = 0


def _go_to(start: int, sound: Any) -> None:
    """Seek in a sound; decode an MP3 up to there: a seek gives it other frames, and complaints."""
    if sound.format != "MP3":
        if start:
            sound.seek(start)
        return
    _keep_in_place(sound)
    for done in range(0, start, _BLOCK):
        if not len(sound.read(min(start - done, _BLOCK), dtype="float32")):
            return  # fewer than the header says


def _keep_in_place(sound: Any) -> None:
    """Keep `soundfile` from a seek after every read, to where it is."""
    sound.seekable = lambda: False


class _Held(io.BytesIO):
    """Bytes of a file; a seek to nowhere, which cffi would write about to stderr, is left out."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        try:
            return super().seek(offset, whence)
        except (ValueError, OverflowError):
            return self.tell()


def _check_chunks(file: IO[bytes], size: int) -> None:
    """Refuse a file of RIFF or AIFF chunks that lacks some of its sound."""
    file.seek(0)
    order = ">" if file.read(12)[:4] in (b"FORM", b"RIFX") else "<"
    long = _STREAMED
    for _ in range(_MOST_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            return  # libsndfile says what is not there
        name, length = struct.unpack(order + "4sI", head)
        if name == b"ds64":
            (long,) = struct.unpack("<8xQ", file.read(16))
            length -= 16
        if name in (b"data", b"SSND"):
            length = long if length == _STREAMED else length
            there = size - file.tell()
            if length not in (_STREAMED, min(length, there)):
                raise DecodeError(
                    f"truncated: {length:,} bytes of sound are promised, {there:,} are there"
                )
            return
        file.seek(length + length % 2, io.SEEK_CUR)


def _check_pages(file: IO[bytes], size: int) -> None:
    """Refuse an Ogg file whose last page is cut short (RFC 3533, section 6)."""
    file.seek(max(0, size - 2 * _LARGEST_PAGE))
    tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    segments = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if len(page) < 27 + len(segments) + sum(segments) or not segments:
        raise DecodeError("truncated: the last page of the ogg file is not all there")


_CHECKS: dict[str, Callable[[IO[bytes], int], None]] = {
    "wav": _check_chunks,
    "aiff": _check_chunks,
    "ogg": _check_pages,
}
