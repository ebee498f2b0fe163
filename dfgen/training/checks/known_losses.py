"""The losses of Keras that rules are known of, by name, class or function."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from dfgen.training.keras_private import arguments_of_loss

SPARSE, CATEGORICAL, BINARY, REGRESSION = "sparse", "categorical", "binary", "regression"
COUNTS, MARGIN, VECTORS, SHARES, OVERLAP = "counts", "margin", "vectors", "shares", "overlap"
_KINDS = {
    "sparse_categorical_crossentropy": SPARSE,
    "categorical_crossentropy": CATEGORICAL,
    "categorical_focal_crossentropy": CATEGORICAL,
    "binary_crossentropy": BINARY,
    "binary_focal_crossentropy": BINARY,
    "mean_squared_error": REGRESSION,
    "mean_absolute_error": REGRESSION,
    "mean_absolute_percentage_error": REGRESSION,
    "mean_squared_logarithmic_error": REGRESSION,
    "huber": REGRESSION,
    "log_cosh": REGRESSION,
}
CHECKED = _KINDS | {
    "poisson": COUNTS,
    "hinge": MARGIN,
    "squared_hinge": MARGIN,
    "categorical_hinge": VECTORS,
    "kl_divergence": SHARES,
    "dice": OVERLAP,
    "tversky": OVERLAP,
}
"""Also losses that predictions know nothing of, but `fit` does."""


@dataclass(frozen=True)
class KnownLoss:
    """A loss of Keras's own.

    Args:
        kind: sparse, categorical or binary crossentropy, regression, or one of `CHECKED`.
        name: of its function.
        from_logits: whether it wants logits, not probabilities.
        ignored: the class that it leaves out, None without one.
    """

    kind: str
    name: str
    from_logits: bool = False
    ignored: int | None = None

    def named(self, name: str) -> str:
        """Return another loss of its sort as it is written, with logits where it has them."""
        if not self.from_logits:
            return f'loss="{name}"'
        return f"loss=keras.losses.{class_of(name)}(from_logits=True)"


def class_of(name: str) -> str:
    """Return the name of the class in `keras.losses` that goes with the name of a function."""
    return "".join(part.capitalize() for part in name.split("_")).replace("Kl", "KL")


def known_loss(given: Any, kinds: Mapping[str, str] = _KINDS) -> KnownLoss | None:
    """Return what is known of a loss as `compile` takes it, None of one of the user's own."""
    try:
        loss = keras.losses.get(given)
    except (ValueError, TypeError):
        return None
    for name, kind in kinds.items():
        if loss is getattr(keras.losses, name):
            return KnownLoss(kind, name)
        if type(loss) is getattr(keras.losses, class_of(name)):
            arguments = arguments_of_loss(loss)
            if arguments is None or arguments.get("axis") not in (None, -1):
                return None
            logits, ignored = arguments.get("from_logits", False), arguments.get("ignore_class")
            return KnownLoss(kind, name, bool(logits), ignored)
    return None
