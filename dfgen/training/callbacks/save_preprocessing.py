"""SavePreprocessing: what goes with a model, written beside it."""

import json
import os
from typing import IO, Any

import keras

from dfgen.errors import ArgumentError, brief, warn
from dfgen.samples.transforms import Transform
from dfgen.system import check_writable, refuse_others, write_whole
from dfgen.training.checks.meanings import SCALE, differences, features, meanings
from dfgen.training.data_adapter import Passes, view_of
from dfgen.training.keras_calls import of_fit
from dfgen.training.keras_probe import falls_back
from dfgen.training.sequence import Sequence

_HERE = "what would be saved"


class SavePreprocessing(keras.callbacks.Callback):
    """Saves the preprocessing of a Sequence as JSON when training begins.

    Use it beside whatever saves the model, so that who serves the model has its class names and
    does to an image what training did. What cannot be saved is refused here, before training.

    Args:
        path: of the file, such as "pets.keras.json" beside "pets.keras".
        sequence: whose preprocessing it is: best that which the model is evaluated on.
        transform: as of `Sequence.preprocessing`.

    Raises:
        ArgumentError: a function that cannot be saved; or `fit` trains on a Sequence whose numbers
            mean something else.
        WriteError: the file cannot be written, or is there already and holds something else.

    Example:
        >>> beside = dfgen.SavePreprocessing("pets.keras.json", val)  # doctest: +SKIP
        >>> model.fit(train, callbacks=[beside, keras.callbacks.ModelCheckpoint("pets.keras")])
    """

    def __init__(
        self, path: str | os.PathLike[str], sequence: Sequence, transform: Transform | None = None
    ) -> None:
        super().__init__()
        if not isinstance(sequence, Sequence):
            raise ArgumentError(
                f"sequence must be a dfgen.Sequence, got {brief(sequence)}: write "
                'dfgen.SavePreprocessing("model.keras.json", train)'
            )
        self.path = os.path.abspath(path)
        self._check_place()
        self._text = sequence.preprocessing(transform).to_json()
        self._told = meanings(view_of(sequence))
        self._made, self._has_transform = _made(sequence), transform is not None

    def on_train_begin(self, logs: object = None) -> None:
        """Write the file."""
        running = None if falls_back() else of_fit("x")
        if isinstance(running, Passes):
            self._check(running)
        self._check_place()
        write_whole(self.path, lambda file: file.write(self._text.encode()))

    def _check_place(self) -> None:
        check_writable(self.path)
        refuse_others(self.path, "preprocessing", _is_preprocessing)

    def _check(self, running: Passes) -> None:
        """Refuse to save what means something else than what `fit` trains on."""
        for one in differences(meanings(view_of(running)), self._told, _HERE):
            if one.kind != SCALE or not self._has_transform:
                raise ArgumentError(
                    f"SavePreprocessing was made for another Sequence than the one that fit trains "
                    f"on: {one.text}. Give it that one, or a Sequence of validation made alike"
                )
        measured = [one for one in (running, of_fit("validation_data")) if isinstance(one, Passes)]
        made = [*map(_made, measured)]
        if self._made not in made:
            warn(
                f"SavePreprocessing saves {self._made}, but fit trains on {made[0]} without "
                "chance: predictions of images made otherwise may be worse. Give it the Sequence "
                "that trains, or the one of validation_data="
            )


def _is_preprocessing(file: IO[bytes]) -> bool:
    data = json.load(file)
    return isinstance(data, dict) and {"format", "inputs"} <= data.keys()


def _made(passes: Passes) -> list[Any]:
    return [bound.feature.still for bound in features(view_of(passes), "x").values()]
