"""SavePreprocessing: what goes with a model, written beside it."""

import os

import keras

from dfgen.errors import ArgumentError
from dfgen.samples.transforms import Transform
from dfgen.system import check_writable, write_whole
from dfgen.training.sequence import Sequence


class SavePreprocessing(keras.callbacks.Callback):
    """Saves the preprocessing of a Sequence as JSON when training begins.

    Use it beside whatever saves the model, so that who serves the model has its class names and
    does to an image what training did. The file is written whole or not at all. What cannot be
    saved is refused here, before training.

    Args:
        path: of the file, such as "pets.keras.json" beside "pets.keras".
        sequence: whose preprocessing it is: best that which the model is evaluated on.
        transform: as of `Sequence.preprocessing`.

    Raises:
        ArgumentError: a function that cannot be saved.
        WriteError: the file cannot be written.

    Example:
        >>> beside = dfgen.SavePreprocessing("pets.keras.json", val)  # doctest: +SKIP
        >>> model.fit(train, callbacks=[beside, keras.callbacks.ModelCheckpoint("pets.keras")])
    """

    def __init__(
        self, path: str | os.PathLike[str], sequence: Sequence, transform: Transform | None = None
    ) -> None:
        super().__init__()
        if not isinstance(sequence, Sequence):
            raise ArgumentError(f"sequence must be a dfgen.Sequence, got {sequence!r}")
        self.path = os.path.abspath(path)
        check_writable(self.path)
        self._text = sequence.preprocessing(transform).to_json()

    def on_train_begin(self, logs: object = None) -> None:
        """Write the file."""
        write_whole(self.path, lambda file: file.write(self._text.encode()))
