"""Arguments of `fit` beside an iterator of `ImageDataGenerator`: taken, told or refused."""

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

from dfgen.errors import ArgumentError, brief, listed
from dfgen.manifest.warn import warn

_REFUSED = {"y": ("`y`", "targets"), "sample_weight": ("`sample_weights`", "sample weights")}
_COLUMNS = {"y": "y_col=", "sample_weight": "weight_col="}


def checked_arguments(given: Mapping[str, Any], weighted: bool) -> dict[str, Any]:
    """Return the arguments of `fit` without those that Keras drops where it is given a PyDataset.

    Args:
        given: by their names.
        weighted: whether rows have weights of their own.

    Raises:
        ArgumentError: in Keras's words, what it refuses.
    """
    for name, (called, what) in _REFUSED.items():
        if given.get(name) is not None:
            raise ArgumentError(
                f"When providing `x` as a PyDataset, {called} should not be passed. Instead, the "
                f"{what} should be included as part of the PyDataset. Columns of them are "
                f"flow_from_dataframe({_COLUMNS[name]})"
            )
    if given.get("class_weight") is not None and weighted:
        raise ArgumentError(
            "You cannot specify `class_weight` and `sample_weight` at the same time. Multiply "
            "weight_col= by the weights of the classes"
        )
    if given.get("batch_size") is not None:
        warn(
            f"batch_size={given['batch_size']!r} of fit does nothing, as in Keras's own, which "
            "does not say so: it is for flow_from_dataframe(batch_size=)"
        )
    return {**given, "batch_size": None, "shuffle": None}


def checked_class_weight(given: Any, classes: Collection[int] | None) -> Mapping[int, float]:
    """Return what the classes weigh, and tell of what is no class.

    Args:
        given: number of a class -> its weight.
        classes: the numbers that there are; None: not known.
    """
    if not isinstance(given, Mapping) or not all(isinstance(w, Real) for w in given.values()):
        raise ArgumentError(
            f"class_weight must be a dict of the number of a class and its weight, got "
            f'{brief(given)}: dfgen.Sequence takes names, and "balanced"'
        )
    others = [name for name in given if classes is not None and name not in classes]
    if others:
        warn(
            f"class_weight has weights for {listed(others)}, which count for nothing, as in "
            "Keras's own, which does not say so: classes go by their numbers, it.class_indices"
        )
    return given
