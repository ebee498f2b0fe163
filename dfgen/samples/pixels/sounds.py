"""Sounds: headers and frames of sound files, read by libsndfile.

libsndfile reads a truncated file as a shorter sound, so the lengths of files are checked here.
"""

import io
import re
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.pixels.headers import Header
from dfgen.spec import Values, Watch, unwatched

_UNKNOWN = 2**63 - 1  # number of frames that libsndfile reports if the header has none
_STREAMED = 0xFFFFFFFF  # length of a RIFF chunk if the writer could not know it
_BLOCK = 1 << 16  # frames per read
_MOST_CHUNKS = 1000
_LARGEST_PAGE = 65_307  # bytes of an Ogg page
# the first frame of an MP3, its Xing header with flags, and the numbers of frames and bytes
_XING = re.compile(
    rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb].{11,38}(?:Xing|Info)\0\0\0[\3\7\x0b\x0f].{4}(.{4})", re.DOTALL
)


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
    """Read channels, sample rate and frames; without `soundfile` only the format is known."""
    try:
        load_soundfile()
    except ArgumentError:
        return Header(format)
    with open_sound(file, format) as sound:
        rate, frames = sound.samplerate, sound.frames
        return Header(format, channels=sound.channels, sample_rate=rate, frames=frames)


def check_frames(file: IO[bytes], format: str) -> None:
    """Decode all frames of a sound; DecodeError if some are missing or broken."""
    with open_sound(file, format) as sound:
        blocks = sound.blocks(_BLOCK, frames=sound.frames, dtype="float32")
        _check_length(sum(map(len, blocks)), sound.frames)


@contextmanager
def open_sound(
    file: IO[bytes], format: str, most: int = 0, watch: Watch = unwatched
) -> Iterator[Any]:
    """Open a sound as a `soundfile.SoundFile`; files of up to `most` bytes are read to memory.

    Larger ones on a local disk are opened by their path, so only the frames needed are read.
    """
    soundfile, size = load_soundfile(), file.seek(0, io.SEEK_END)
    if format in ("wav", "aiff"):
        _check_chunks(file, size)
    elif format == "ogg":
        _check_pages(file, size)
    on_disk = isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO)
    source: Any = file.name if on_disk and size > most and format != "mp3" else None
    if source is None:
        file.seek(0)
        source = io.BytesIO(file.read())
        watch("decode", size)
        if format == "mp3":
            _check_xing(source.getvalue())
    try:
        with soundfile.SoundFile(source) as sound:
            if sound.samplerate <= 1 or not sound.frames:  # libsndfile reads 0 Hz of AIFF as 1
                raise DecodeError(
                    f"the sound has {sound.frames} frames, and a sample rate of {sound.samplerate}"
                )
            if sound.frames == _UNKNOWN:
                raise DecodeError(f"the {format} file does not say how long it is: encode it again")
            if format == "mp3":  # a frame depends on those before it, so a seek changes samples
                sound.seekable = lambda: False
            yield sound
    except soundfile.LibsndfileError as error:
        raise DecodeError(f"broken {format} file: {error.error_string.rstrip('.')}") from error


def read_frames(sound: Any, place: float, out: Values) -> None:
    """Fill `out` with frames of a sound as -1..1, and with zeros after the end of a short sound.

    `place` is the start in a longer sound, from 0 to 1. Two channels are averaged to one, and one
    is repeated for two.
    """
    if sound.channels != out.shape[1] and {sound.channels, out.shape[1]} != {1, 2}:
        raise DecodeError(
            f"the sound has {sound.channels} channels, expected channels={out.shape[1]}: only 1 "
            "and 2 are converted into each other"
        )
    start = int(place * (max(0, sound.frames - len(out)) + 1))
    wanted = min(len(out), sound.frames - start)
    if sound.seekable():
        sound.seek(start)
    else:
        deque(sound.blocks(_BLOCK, frames=start, dtype="float32"), maxlen=0)
    frames = sound.read(wanted, dtype="float32", always_2d=True)
    _check_length(start + len(frames), start + wanted)
    if out.shape[1] < sound.channels:
        frames = frames.mean(axis=1, keepdims=True)
    out[:wanted] = frames
    out[wanted:] = 0


def _check_length(there: int, promised: int, what: str = "frames") -> None:
    if there < promised:
        raise DecodeError(f"truncated: {there:,} of {promised:,} {what} are in the file")


def _check_chunks(file: IO[bytes], size: int) -> None:
    """Raise DecodeError if the sound of a RIFF or AIFF file is cut short."""
    file.seek(0)
    order = ">" if file.read(12)[:4] in (b"FORM", b"RIFX") else "<"
    long = _STREAMED
    for _ in range(_MOST_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            return  # libsndfile raises
        name, length = struct.unpack(order + "4sI", head)
        if name == b"ds64":
            (long,) = struct.unpack("<8xQ", file.read(16))
            length -= 16
        if name in (b"data", b"SSND"):
            length = long if length == _STREAMED else length
            _check_length(size - file.tell(), 0 if length == _STREAMED else length, "bytes")
            return
        file.seek(length + length % 2, io.SEEK_CUR)


def _check_pages(file: IO[bytes], size: int) -> None:
    """Raise DecodeError if the last page of an Ogg file is cut short (RFC 3533, section 6)."""
    file.seek(max(0, size - 2 * _LARGEST_PAGE))
    tail = file.read()
    page = tail[tail.rfind(b"OggS") :]
    segments = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if len(page) < 27 + len(segments) + sum(segments) or not segments:
        raise DecodeError("truncated: the last page of the ogg file is incomplete")


def _check_xing(data: bytes) -> None:
    """Raise DecodeError if an MP3 is shorter than its Xing header says."""
    header = _XING.search(data)
    if header is not None:
        nbytes = int.from_bytes(header[1], "big")
        _check_length(len(data) - header.start(), nbytes, "bytes")
