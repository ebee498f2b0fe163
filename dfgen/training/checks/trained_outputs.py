"""An output of a model, its loss and its target, and how messages call and mend them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy.typing as npt

from dfgen.errors import listed
from dfgen.training.checks.known_losses import REGRESSION, KnownLoss
from dfgen.training.checks.model_outputs import Output


@dataclass(frozen=True)
class Target:
    """One target.

    Args:
        column: of the manifest.
        shape: of one sample, without the batch.
        class_names: where they are known.
        many_labels: whether a row may have several classes.
        has_several: tells whether one of the rows that count has, of many at least one in 50,000.
        is_bytes: whether it is pixels of 0 to 255.
        of_files: whether it is a mask whose classes are what its files hold.
        find_numbers: returns the numbers in all rows, where the table tells them; those in some
            files of a mask.
    """

    column: str
    shape: tuple[int | None, ...]
    class_names: tuple[object, ...] | None
    many_labels: bool
    has_several: Callable[[], bool]
    is_bytes: bool
    of_files: bool
    find_numbers: Callable[[], npt.NDArray[Any] | None]

    @cached_property
    def numbers(self) -> npt.NDArray[Any] | None:
        """The numbers in all rows that count, None where they are not known."""
        return self.find_numbers()

    @property
    def is_one_number(self) -> bool:
        """Whether it is one number for each row, or for each pixel."""
        return self.shape == () or self.shape[-1] == 1

    @property
    def is_vector_of_classes(self) -> bool:
        """Whether it has a place for each class."""
        names = self.class_names or ()
        return len(names) > 1 and self.shape == (len(names),)

    @property
    def classes(self) -> str:
        """Its classes, for messages."""
        names = self.class_names or ()
        return f"column {self.column!r} has {len(names)} classes ({listed(names)})"


@dataclass(frozen=True)
class Trained:
    """An output that a loss compares with a target."""

    output: Output
    loss: KnownLoss
    target: Target

    @property
    def shown(self) -> str:
        """The output and its units, for messages."""
        units = self.output.units
        return f"the output {self.output.name!r} of the model has {units} unit{'s' * (units != 1)}"

    def layer(self, units: int, activation: str | None = None) -> str:
        """Return the last layer as it should be written."""
        called = self.output.layer_class
        more = "" if called == "Dense" else ", ..."
        plain = self.loss.from_logits or (units == 1 and self.loss.kind == REGRESSION)
        given = "" if plain or activation is None else f', activation="{activation}"'
        return f"{called}({units}{more}{given})"

    @property
    def remedy(self) -> str:
        """Which last layer and loss the classes want, for messages."""
        count, hot = len(self.target.class_names or ()), self.target.is_vector_of_classes
        if self.target.many_labels:
            return self.ending(count, "sigmoid", "binary_crossentropy")
        if count > 2:
            loss = f"{'' if hot else 'sparse_'}categorical_crossentropy"
            return self.ending(count, "softmax", loss)
        mode = ' and label_mode="binary"' if hot else ""
        return f"for two classes {self.ending(1, 'sigmoid', 'binary_crossentropy')}{mode}"

    def ending(self, units: int, activation: str, loss: str) -> str:
        """Return how a model ends, and its loss, as they should be written."""
        return f"end the model in {self.layer(units, activation)}, with {self.loss.named(loss)}"
