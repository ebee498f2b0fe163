"""The array of a label in words."""

from typing import Any

import numpy as np
import numpy.typing as npt

_FEW = 3  # numbers, or classes


def in_words(class_names: Any, array: npt.NDArray[Any]) -> str:
    """Return what the array of one row says: classes by their names, their shares where mixed.

    Args:
        class_names: the classes in the order of their numbers, or None.
        array: a class number, a vector of shares, or any numbers or text.

    Example:
        >>> in_words(["cat", "dog"], np.array([0.25, 0.75])), in_words(["cat", "dog"], np.array(0))
        ('dog 75%, cat 25%', 'cat')
    """
    flat = np.asarray(array).reshape(-1)
    if class_names is None or (len(flat) != 1 and len(flat) != len(class_names)):
        return _plain(flat)
    if len(flat) == 1:
        number = float(flat[0])
        if number.is_integer() and 0 <= number < len(class_names):
            return str(class_names[int(number)])
        return f"{class_names[-1]} {number:.0%}" if 0 < number < 1 else "none"
    most = [place for place in np.argsort(-flat, kind="stable").tolist() if flat[place] > 0.005]
    if not most:
        return "none"
    mixed = any(0 < flat[place] < 1 for place in most)
    shown = [str(class_names[p]) + (f" {flat[p]:.0%}" if mixed else "") for p in most[:_FEW]]
    return ", ".join(shown) + (", …" if len(most) > _FEW else "")


def _plain(flat: npt.NDArray[Any]) -> str:
    shown = [
        f"{one:.4g}" if isinstance(one, float) else one.decode("utf-8", "replace")
        if isinstance(one, bytes) else str(one)
        for one in flat[:_FEW].tolist()
    ]  # fmt: skip
    return ", ".join(shown) + (", …" if len(flat) > _FEW else "")
