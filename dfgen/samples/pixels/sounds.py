"""Sounds: what their files say of themselves, and their frames, by libsndfile.

libsndfile takes what is left of a file that was cut short for all of it; such files are told here.
"""

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Any

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.pixels.headers import Header
from dfgen.spec import Values

_UNKNOWN = 2**63 - 1  # frames of a file whose writer could not know them
_STREAMED = 0xFFFFFFFF  # the length of a RIFF chunk of such a file
_BLOCK = 1 << 16  # frames that are read at once
_MOST_CHUNKS = 1000
_LARGEST_PAGE = 65_307  # bytes of an Ogg page
_MP3_SLACK = 4  # frames of MP3 that a header, and the delay of the encoder, may account for
_BITRATES = {  # kbit/s of layer III, of MPEG 1 and of 2 and 2.5
    True: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def load_soundfile() -> Any:
    """Return the package `soundfile`; ArgumentError if it, or libsndfile, is not installed."""
    try:
        import soundfile  # late: 70 ms that most programs need not spend
    except (ImportError, OSError) as error:
        raise ArgumentError(
            'dfgen.Audio needs the package soundfile: pip install "keras-dfgen[audio]"'
        ) from error
    return soundfile


def sound_header(file: IO[bytes], format: str) -> Header:
    """Read channels, sample rate and frames; nothing of that without `soundfile`."""
    try:
        load_soundfile()
    except ArgumentError:  # of sounds nothing else is known then
        return Header(format)
    with open_sound(sound_source(file, format), format) as sound:
        rate, frames = sound.samplerate, sound.frames
        return Header(format, channels=sound.channels, sample_rate=rate, frames=frames)


def whole_sound(file: IO[bytes], format: str) -> tuple[Header, str | None]:
    """Decode all frames of a sound; return its header, and what is wrong with them, or None."""
    header = sound_header(file, format)
    try:
        with open_sound(sound_source(file, format), format) as sound:
            there = 0
            while frames := len(sound.read(_BLOCK, dtype="float32")):
                there += frames
            _check_frames(there, sound.frames)
    except DecodeError as error:
        return header, str(error)
    return header, None


def sound_source(file: IO[bytes], format: str, most: int = 0) -> Any:
    """Return the path of a file on a disk that has more than `most` bytes, else its bytes."""
    size = file.seek(0, io.SEEK_END)
    if format in ("wav", "aiff"):
        _check_chunks(file, size)
    elif format == "ogg":
        _check_pages(file, size)
    on_disk = isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO)
    if on_disk and size > most and format != "mp3":  # so that none but the wanted bytes are read
        return file.name
    file.seek(0)
    return io.BytesIO(file.read())


@contextmanager
def open_sound(source: Any, format: str) -> Iterator[Any]:
    """Give the `soundfile.SoundFile` of what `sound_source` has returned."""
    soundfile = load_soundfile()
    try:
        with soundfile.SoundFile(source) as sound:
            if sound.samplerate <= 1 or not sound.frames:  # 1 is made of the 0 of an AIFF file
                raise DecodeError(
                    f"the sound has {sound.frames} frames, and a sample rate of {sound.samplerate}"
                )
            known = sound.frames != _UNKNOWN
            if format == "mp3":  # whose frames depend on those before: a seek gives others
                sound.seekable = lambda: False
                known = _is_as_long(source.getvalue(), sound.frames)
            if not known:
                raise DecodeError(
                    f"the header of the {format} file does not say how long the sound is, or the "
                    "file is cut short or joined from others: encode it anew"
                )
            yield sound
    except soundfile.LibsndfileError as error:
        raise DecodeError(f"broken {format} file: {error.error_string.rstrip('.')}") from error
    except struct.error as error:
        raise DecodeError(f"broken {format} file: cut short, or not {format} at all") from error


def read_frames(sound: Any, place: float, out: Values) -> None:
    """Fill `out` with frames of a sound as -1..1, and with zeros after the last of a short one.

    `place` is where they begin in a longer sound, from 0 to 1. Two channels become their mean where
    one is wanted, and one is repeated for two.
    """
    if sound.channels != out.shape[1] and {sound.channels, out.shape[1]} != {1, 2}:
        raise DecodeError(
            f"the sound has {sound.channels} channels, expected channels={out.shape[1]}: only one "
            "and two are made into each other"
        )
    start = int(place * (max(0, sound.frames - len(out)) + 1))
    wanted = min(len(out), sound.frames - start)
    if sound.seekable():
        sound.seek(start)
    else:
        for done in range(0, start, _BLOCK):
            sound.read(min(start - done, _BLOCK), dtype="float32")
    frames = sound.read(wanted, dtype="float32", always_2d=True)
    _check_frames(start + len(frames), start + wanted)
    if out.shape[1] < sound.channels:
        frames = frames.mean(axis=1, keepdims=True)
    out[:wanted] = frames
    out[wanted:] = 0


def _check_frames(there: int, promised: int, what: str = "frames") -> None:
    if there < promised:
        raise DecodeError(f"truncated: {promised:,} {what} are promised, {there:,} are there")


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
            _check_frames(size - file.tell(), 0 if length == _STREAMED else length, "bytes")
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


def _is_as_long(data: bytes, frames: int) -> bool:
    """Whether an MP3 holds so many frames of sound: without a Xing header libsndfile guesses."""
    at, count, samples = 0, 0, 1152
    while data.startswith(b"ID3", at) and len(data) >= at + 10:
        size = sum((byte & 0x7F) << 7 * (3 - n) for n, byte in enumerate(data[at + 6 : at + 10]))
        at += 10 + size + (10 if data[at + 5] & 0x10 else 0)
    while (at := data.find(b"\xff", at)) >= 0:  # the first frame that another one follows
        length = _frame_length(data[at : at + 3])
        if length and _frame_length(data[at + length : at + length + 3]):
            break
        at += 1
    while length := _frame_length(data[max(at, 0) : at + 3]):
        samples = 1152 if data[at + 1] >> 3 & 3 == 3 else 576
        at, count = at + length, count + 1
    return at <= len(data) and abs(count * samples - frames) <= _MP3_SLACK * samples


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
