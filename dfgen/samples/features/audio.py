"""Audio: sounds, of one length or of their own."""

from dataclasses import dataclass
from typing import IO, Any, ClassVar

import numpy as np

from dfgen.checks import one_of, whole
from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.base import Feature, Reading
from dfgen.samples.features.feature_checks import check_column, check_padding_mask
from dfgen.samples.pixels.formats import check_holds, read_header, read_known
from dfgen.samples.pixels.sounds import load_soundfile, open_sound, read_frames, sound_source
from dfgen.spec import Spec, Values
from dfgen.stores.store import Store

_SMALL = 1 << 22  # bytes of a file that is read as a whole

_PLACES = {"start": 0.0, "center": 0.5, "random": 0.5}
"""`start` -> where a longer sound is cut without chance, from 0, its start, to 1, its end."""


@dataclass(frozen=True, repr=False)
class Audio(Feature):
    """The sounds of the files that a column names: WAV, FLAC, OGG, MP3 or AIFF.

    They are what `keras.utils.audio_dataset_from_directory` makes: float32 -1..1 of shape
    (frames, channels), cut to `seconds`, or with zeros after the end of a shorter one. Needs
    `pip install "keras-dfgen[audio]"`.

    Args:
        column: the column of paths, or of bytes.
        sample_rate: frames a second, which every file must have: nothing is resampled.
        seconds: the length of what the model gets. None: every sound keeps its own length (the fact
            `frames` of a manifest, else that of its header), before zeros up to the longest of its
            batch. JAX compiles a step for every length.
        channels: 1 (default), the mean of two; 2, of which one is repeated; or as many as every
            file has.
        start: where a longer sound is cut: `"start"` (default), `"center"`, or `"random"`, drawn
            for each row and epoch.
        missing: as of `Image`; it needs `seconds`.
        padding_mask: with `seconds=None`, True: a batch then holds `{"audio", "padding_mask"}`,
            True on the sound, bool (batch, frames).

    Raises:
        ArgumentError: an argument that cannot be, or `soundfile` is not installed.

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
            raise ArgumentError(
                f"seconds must be a number above 0, of one frame or more, got {self.seconds!r}"
            )
        check_padding_mask(self, "seconds=None")
        if self.seconds is None and self.missing != "raise":
            raise ArgumentError(
                f"missing={self.missing!r} needs a length of rows without a sound: give seconds="
            )
        load_soundfile()

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        frames = None if self.seconds is None else round(self.seconds * self.sample_rate)
        return Spec((frames, self.channels), np.dtype(np.float32))

    @property
    def is_random(self) -> bool:
        """Whether a part of each sound is drawn."""
        return self.start == "random"

    def length(self, value: Any, store: Store) -> int:
        """Return the frames of a file by its header."""
        frames = read_header(value, store).frames or 0
        nbytes = frames * self.channels * 4
        if not store.limits.allows("decoded_bytes", nbytes):
            what = f"the sound has {frames:,} frames, {nbytes:,} bytes decoded"
            raise DecodeError(store.limits.refusal("decoded_bytes", nbytes, what))
        return frames

    def draw(self, rng: np.random.Generator) -> float:
        """Return where a longer sound is cut, from 0, its start, to 1, its end."""
        return rng.random()

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the frames of one file."""
        place = _PLACES[self.start] if reading.drawn is None else reading.drawn

        def fill(file: IO[bytes], name: str) -> None:
            check_holds(name, "sound")
            source = sound_source(file, name, _SMALL)
            if not isinstance(source, str):
                reading.watch("decode", source.getbuffer().nbytes)
            with open_sound(source, name) as sound:
                if sound.samplerate != self.sample_rate:
                    raise DecodeError(
                        f"the sound has {sound.samplerate:,} frames a second, expected sample_rate="
                        f"{self.sample_rate:,}: nothing is resampled here, do it beforehand"
                    )
                if self.seconds is None and sound.frames != len(out):
                    raise DecodeError(
                        f"the sound has {sound.frames:,} frames, but its facts say {len(out):,}: "
                        "build the manifest again, or leave out its column frames"
                    )
                read_frames(sound, place, out)

        reading.watch("read")
        read_known(value, reading.store, fill)
