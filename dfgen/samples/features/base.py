"""What all features share: the shape and dtype of an array, and who is told of the stages."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError

Values = npt.NDArray[Any]

Watch = Callable[..., None]
"""Is told each stage as it begins, `watch("decode", bytes_read)`, so that time can be measured."""


def unwatched(stage: str, nbytes: int = 0) -> None:
    """Measure nothing."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one sample's array.

    Args:
        shape: of it; None where a transform may change a length.
        dtype: of it; object for text and bytes of any length.
        blank: what fills it for a row that is skipped.
    """

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    blank: Any = 0


def described(feature: Any) -> str:
    """Return a feature as it would be written: without what is the default."""
    given = [
        f"{field.name}={getattr(feature, field.name)!r}"
        for field in fields(feature)
        if getattr(feature, field.name) != field.default
    ]
    return f"{type(feature).__name__}({', '.join(given)})"


def column_names(given: object) -> tuple[str, ...]:
    """Return the names of one or several columns, or refuse what is none."""
    names = (given,) if isinstance(given, str) else given
    if (
        not isinstance(names, tuple | list)
        or not names
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        raise ArgumentError(
            f"expected the name of a column, or a list of different names, got {given!r}"
        )
    return tuple(names)
