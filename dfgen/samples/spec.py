"""What all features share: the shape and dtype of an array, and who is told of the stages."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

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
        dtype: of it.
        blank: what fills it for a row that is skipped.
    """

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    blank: int = 0


def described(feature: Any) -> str:
    """Return a feature as it would be written: without what is the default."""
    given = [
        f"{field.name}={getattr(feature, field.name)!r}"
        for field in fields(feature)
        if getattr(feature, field.name) != field.default
    ]
    return f"{type(feature).__name__}({', '.join(given)})"
