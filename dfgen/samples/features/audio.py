"""Audio: sounds, of one length or of their own."""

from dataclasses import dataclass, replace
from typing import IO, Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import MayOwnLength, check_extra
from dfgen.samples.pixels.formats import FEATURES, FORMATS, read_header, read_known
from dfgen.samples.pixels.sounds import load_soundfile, open_sound, read_frames, sound_source
from dfgen.spec import Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.system import one_of, whole

_SMALL = 1 << 22  # bytes of a file that is read as a whole

_PLACES = {"start": 0.0, "center": 0.5, "random": 0.5}
"""`start` -> where a longer sound is cut without chance, from 0, its start, to 1, its end."""


@dataclass(frozen=True, repr=False)
class Audio(MayOwnLength):
    """The sounds of the files that a column names: WAV, FLAC, OGG, MP3 or AIFF.

    They are what `keras.utils.audio_dataset_from_directory` makes: float32 -1..1 of shape
    (frames, channels), cut to `seconds`, or with zeros after the end of a shorter one. Only what is
    wanted of a long file is decoded. Needs `pip install "keras-dfgen[audio]"`.

    Args:
        column: the column of paths, or of bytes.
        sample_rate: frames a second, which every file must have: nothing is resampled.
        seconds: the length of what the model gets. None: every sound keeps its own length, and is
            followed by zeros up to the longest of its batch. It is the fact `frames` of a manifest,
            else the headers of all files are read once. JAX compiles a step anew for every length.
        channels: 1 (default), the mean of two; 2, of which one is repeated; or as many as every
            file has.
        start: where a longer sound is cut: `"start"` (default), `"center"`, or `"random"`, drawn
            anew each epoch.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a path holds zeros,
            and weighs 0 in the loss of this target. It needs `seconds`.
        max_seconds: with `seconds=None`, where longer sounds are cut, by `start`; None (default):
            nowhere.
        extra: with `seconds=None`, `"padding_mask"`: a batch then holds `{"audio",
            "padding_mask"}`, True on the sound, bool (batch, frames). None (default): the sounds
            alone.

    Raises:
        ArgumentError: an argument that cannot be, or `soundfile` is not installed.

    Example:
        >>> Audio("path", sample_rate=16000, seconds=2)(df.iloc[0]).shape  # doctest: +SKIP
        (32000, 1)
    """

    column: str
    sample_rate: int
    seconds: float | None
    channels: int = 1
    start: str = "start"
    missing: str = "raise"
    max_seconds: float | None = None
    extra: str | None = None
    length_fact: ClassVar[str] = "frames"
    kind: ClassVar[str] = "audio"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        whole("sample_rate", self.sample_rate, least=1)
        whole("channels", self.channels, least=1)
        one_of("start", self.start, tuple(_PLACES))
        if self.seconds is not None:
            self._check_seconds("seconds")
        if self.max_seconds is not None:
            self._check_seconds("max_seconds")
            if self.seconds is not None:
                raise ArgumentError(
                    f"max_seconds={self.max_seconds!r} is for sounds of their own length, with "
                    f"seconds=None: seconds={self.seconds!r} cuts longer ones too, leave it out"
                )
        check_extra(self, "seconds=None")
        if self.own_length and self.missing != "raise":
            raise ArgumentError(
                f"missing={self.missing!r} needs a length of rows without a sound: give seconds="
            )
        load_soundfile()

    def _check_seconds(self, name: str) -> None:
        given = getattr(self, name)
        seconds = given if isinstance(given, int | float) else 0
        if not 1 <= seconds * self.sample_rate < 2**31:
            raise ArgumentError(
                f"{name} must be a number above 0, of one frame or more, got {given!r}"
            )

    @property
    def own_length(self) -> bool:
        """Whether every sound keeps its own length."""
        return self.seconds is None

    @property
    def most_length(self) -> int | None:
        """The frames that the longest sound may have."""
        most = self.max_seconds
        return None if most is None else round(most * self.sample_rate)

    def length(self, value: Any, store: Store) -> int:
        """Return the frames of a file, of which its header tells."""
        frames = read_header(value, store).frames or 0
        nbytes = min(frames, self.most_length or frames) * self.channels * 4
        if not store.limits.allows("decoded_bytes", nbytes):
            what = f"the sound says that it has {frames:,} frames, {nbytes:,} bytes decoded"
            raise DecodeError(store.limits.refusal("decoded_bytes", nbytes, what))
        return frames

    @property
    def spec(self) -> Spec:
        """The arrays that the model gets."""
        frames = None if self.seconds is None else round(self.seconds * self.sample_rate)
        return Spec((frames, self.channels), np.dtype(np.float32))

    @property
    def is_random(self) -> bool:
        """Whether chance has a part in it."""
        return self.start == "random"

    @property
    def still(self) -> "Audio":
        """It without chance: cut in the centre."""
        return replace(self, start="center") if self.is_random else self

    def draw(self, rng: np.random.Generator) -> float | None:
        """Return where a longer sound is cut, from 0, its start, to 1, its end."""
        return rng.random() if self.is_random else None

    def read(
        self, value: Any, out: Values, store: Store, watch: Watch, given: float | None
    ) -> None:
        """Fill `out` with the frames of one file."""
        place = _PLACES[self.start] if given is None else given

        def fill(file: IO[bytes], name: str) -> None:
            if FORMATS[name].holds != "sound":
                raise DecodeError(
                    f"this is a .{name} {FORMATS[name].holds}, not a sound: use "
                    f"dfgen.{FEATURES[FORMATS[name].holds]} for this column"
                )
            source = sound_source(file, name, _SMALL)
            if not isinstance(source, str):
                watch("decode", source.getbuffer().nbytes)
            with open_sound(source, name) as sound:
                self._check_rate(sound.samplerate)
                if self.own_length:
                    self._check_length(sound.frames, len(out))
                read_frames(sound, place, out)

        watch("read")
        read_known(value, store, fill)

    def _check_rate(self, rate: int) -> None:
        if rate != self.sample_rate:
            raise DecodeError(
                f"the sound has {rate:,} frames a second, expected "
                f"sample_rate={self.sample_rate:,}: nothing is resampled here, do it beforehand"
            )

    def _check_length(self, frames: int, known: int) -> None:
        if min(frames, self.most_length or frames) != known:
            raise DecodeError(
                f"the sound has {frames:,} frames, but its facts say {known:,}: was it changed "
                "since? Build the manifest anew, or leave out its column frames"
            )
