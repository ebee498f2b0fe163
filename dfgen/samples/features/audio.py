"""Audio: sounds of equal or unequal length."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, one_of, whole
from dfgen.samples.features.base import Feature, Reading, check_column, check_padding_mask
from dfgen.samples.pixels.formats import check_holds, opened, read_header
from dfgen.samples.pixels.sounds import load_soundfile, open_sound, read_frames
from dfgen.spec import Spec, Values
from dfgen.stores.store import Store

_SMALL = 1 << 22  # bytes; smaller files are read whole

_PLACES = {"start": 0.0, "center": 0.5, "random": 0.5}
"""`start` -> position of the cut without randomness, from 0 (start) to 1 (end)."""


@dataclass(frozen=True, repr=False)
class Audio(Feature):
    """The sounds of the files named by a column: WAV, FLAC, OGG, MP3 or AIFF.

    They equal `keras.utils.audio_dataset_from_directory`: float32 -1..1 of shape (frames,
    channels), cut to `seconds`, with zeros after the end of a shorter sound. It needs
    `pip install "keras-dfgen[audio]"`.

    Args:
        column: the column of paths, or of bytes.
        sample_rate: frames per second, equal in all files: sounds are not resampled.
        seconds: the length in the batch. None: every sound keeps its length (`frames` in the
            manifest, else in its header), padded with zeros to the longest in its batch. JAX
            compiles a step for every length.
        channels: 1 (default), the mean of two; 2, which repeats one; or the number in all files.
        start: where to cut longer sounds: `"start"` (default), `"center"`, or `"random"`, drawn for
            each row and epoch.
        missing: as in `Image`; it needs `seconds`.
        padding_mask: with `seconds=None`, True: a batch is `{"audio", "padding_mask"}`, True on the
            sound, bool (batch, frames).

    Raises:
        ArgumentError: an invalid argument, or `soundfile` is not installed.

    Example:
        >>> dfgen.Sequence(df, x=dfgen.Audio("path", 16000, seconds=2))  # doctest: +SKIP
    """

    column: str
    sample_rate: int
    seconds: float | None
    channels: int = 1
    start: str = "start"
    missing: str = "raise"
    padding_mask: bool = False
    kind: ClassVar[str] = "audio"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        whole("sample_rate", self.sample_rate, least=1)
        whole("channels", self.channels, least=1)
        one_of("start", self.start, tuple(_PLACES))
        seconds = self.seconds if isinstance(self.seconds, int | float) else 0
        if self.seconds is not None and not 1 <= seconds * self.sample_rate < 2**31:
            raise ArgumentError(f"seconds must be one frame or more, got {self.seconds!r}")
        check_padding_mask(self, "seconds=None")
        if self.seconds is None and self.missing != "raise":
            raise ArgumentError(f"missing={self.missing!r} needs seconds=")
        load_soundfile()

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        frames = None if self.seconds is None else round(self.seconds * self.sample_rate)
        return Spec((frames, self.channels), np.dtype(np.float32))

    @property
    def is_random(self) -> bool:
        """Whether the cut is random."""
        return self.start == "random"

    def length(self, value: Any, store: Store) -> int:
        """Return the number of frames in the header of a file."""
        frames = read_header(value, store).frames or 0
        nbytes = frames * self.channels * 4
        what = f"the sound has {frames:,} frames, {nbytes:,} bytes decoded"
        store.limits.check("decoded_bytes", nbytes, what)
        return frames

    def draw(self, rng: np.random.Generator) -> float:
        """Return the position of the cut, from 0 (start) to 1 (end)."""
        return rng.random()

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the frames of one file."""
        place = _PLACES[self.start] if reading.drawn is None else reading.drawn
        reading.watch("read")
        with opened(value, reading.store) as (file, name):
            check_holds(name, "sound")
            with open_sound(file, name, _SMALL, reading.watch) as sound:
                if sound.samplerate != self.sample_rate:
                    raise DecodeError(
                        f"the sound has {sound.samplerate:,} frames per second, expected "
                        f"sample_rate={self.sample_rate:,}: nothing is resampled, do it beforehand"
                    )
                if self.seconds is None and sound.frames != len(out):
                    raise DecodeError(
                        f"the sound has {sound.frames:,} frames, but the manifest says "
                        f"{len(out):,}: build it again, or drop its column frames"
                    )
                read_frames(sound, place, out)
