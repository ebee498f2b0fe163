"""Audio: sounds of one length."""

from dataclasses import dataclass, replace
from typing import IO, Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.samples.pixels.formats import FEATURES, FORMATS, read_known
from dfgen.samples.pixels.sound_files import load_soundfile, open_sound, read_frames, sound_source
from dfgen.samples.stores.store import Store
from dfgen.spec import Spec, Values, Watch
from dfgen.system import one_of, whole

_SMALL = 1 << 22  # bytes of a file that is read as a whole

_PLACES = {"start": 0.0, "center": 0.5, "random": 0.5}
"""`start` -> where a longer sound is cut without chance, from 0, its start, to 1, its end."""


@dataclass(frozen=True, repr=False)
class Audio(Feature):
    """The sounds of the files that a column names, of one length: WAV, FLAC, OGG, MP3 or AIFF.

    They are what `keras.utils.audio_dataset_from_directory` makes: float32 -1..1 of shape
    (frames, channels), cut to `seconds`, or with zeros after the end of a shorter one. Only what is
    wanted of a long file is decoded. Needs `pip install "keras-dfgen[audio]"`.

    Args:
        column: the column of paths, or of bytes.
        sample_rate: frames a second, which every file must have: nothing is resampled.
        seconds: the length of what the model gets.
        channels: 1 (default), the mean of two; 2, of which one is repeated; or as many as every
            file has.
        start: where a longer sound is cut: `"start"` (default), `"center"`, or `"random"`, drawn
            anew each epoch.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a path holds zeros,
            and weighs 0 in the loss of this target.

    Raises:
        ArgumentError: an argument that cannot be, or `soundfile` is not installed.

    Example:
        >>> Audio("path", sample_rate=16000, seconds=2)(df.iloc[0]).shape  # doctest: +SKIP
        (32000, 1)
    """

    column: str
    sample_rate: int
    seconds: float
    channels: int = 1
    start: str = "start"
    missing: str = "raise"
    kind: ClassVar[str] = "audio"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        whole("sample_rate", self.sample_rate, least=1)
        whole("channels", self.channels, least=1)
        one_of("start", self.start, tuple(_PLACES))
        seconds = self.seconds if isinstance(self.seconds, int | float) else 0
        if not 1 <= seconds * self.sample_rate < 2**31:
            raise ArgumentError(
                f"seconds must be a number above 0, of one frame or more, got {self.seconds!r}"
            )
        load_soundfile()

    @property
    def spec(self) -> Spec:
        """The arrays that the model gets."""
        frames = round(self.seconds * self.sample_rate)
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
            source = sound_source(file, name, _SMALL, store.limits)
            if not isinstance(source, str):
                watch("decode", source.getbuffer().nbytes)
            with open_sound(source, name) as sound:
                self._check_rate(sound.samplerate)
                read_frames(sound, place, out)

        watch("read")
        read_known(value, store, fill)

    def _check_rate(self, rate: int) -> None:
        if rate != self.sample_rate:
            raise DecodeError(
                f"the sound has {rate:,} frames a second, expected "
                f"sample_rate={self.sample_rate:,}: nothing is resampled here, do it beforehand"
            )
