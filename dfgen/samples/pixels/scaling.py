"""Scaling of pixels, 0..255 or 0..65535, to what a model wants."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError

SCALE = {"0..1": (1 / 255, 0.0), "-1..1": (1 / 127.5, -1.0)}
"""Names of the factor that pixels are multiplied by, and of what is added then."""


def rescale(
    pixels: npt.NDArray[Any], scale: str | tuple[float, float] | None, out: npt.NDArray[Any]
) -> None:
    """Fill `out` with the pixels of one image, scaled as in `dfgen.Image`.

    A named scale divides by the range of their own dtype, uint8 or uint16.
    """
    if scale is None:
        out[...] = pixels
    elif scale == "standardize":
        floats = pixels.astype(np.float32)
        deviation = max(float(floats.std()), 1 / np.sqrt(floats.size))
        np.divide(floats - floats.mean(), np.float32(deviation), out=out, casting="same_kind")
    else:
        factor, offset = SCALE[scale] if isinstance(scale, str) else scale
        if pixels.dtype == np.uint16 and isinstance(scale, str):
            factor /= 257  # 65535 / 255
        scaled = out if out.dtype == np.float32 else np.empty(out.shape, np.float32)
        np.multiply(pixels, np.float32(factor), out=scaled)
        if offset or scaled is not out:
            np.add(scaled, np.float32(offset), out=out, casting="same_kind")


def checked_scale(given: Any) -> str | tuple[float, float] | None:
    """Return a scale as a name or a pair of floats, or refuse it."""
    if given is None or given == "standardize" or (isinstance(given, str) and given in SCALE):
        return given  # type: ignore[no-any-return]
    numbers = given if isinstance(given, tuple | list) else ()
    if len(numbers) == 2 and all(
        isinstance(number, int | float | np.number) and np.isfinite(number) for number in numbers
    ):
        return float(numbers[0]), float(numbers[1])
    raise ArgumentError(
        f"scale must be one of {(None, *SCALE, 'standardize')} or a pair of numbers "
        f"(scale, offset), got {given!r}"
    )
