"""Random transforms of `ImageDataGenerator`: what is drawn for an image, and what that does to it.

Draws and their meaning: `get_random_transform` and `apply_transform` of
`keras/src/legacy/preprocessing/image.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, brief
from dfgen.samples.pixels.geometry import Pixels
from dfgen.system import flag, one_of, whole

Coordinates = npt.NDArray[np.float64]

_NEAREST = 0  # interpolation_order
_BY_ORDER = (
    cv2.INTER_NEAREST,
    cv2.INTER_LINEAR,
    cv2.INTER_CUBIC,  # the splines of SciPy from here on: the kernels that come nearest
    cv2.INTER_CUBIC,
    cv2.INTER_LANCZOS4,
    cv2.INTER_LANCZOS4,
)
HIGHEST_ORDER = len(_BY_ORDER) - 1

_LONGEST = 2**15 - 2  # rows or columns: OpenCV counts them in 16 bits


def keras_matrix(
    height: int, width: int, theta: float, tx: float, ty: float, shear: float, zx: float, zy: float
) -> Coordinates:
    """Return the matrix that takes (row, column, 1) of the result to its place in the image.

    As Keras: it centres at (width, height) / 2 and then swaps the axes. So an image that is not
    square turns about that point, `tx` moves columns and `ty` rows.

    `theta` and `shear` are in degrees, `tx` and `ty` pixels to the left and upwards; a factor `zx`
    of columns, or `zy` of rows, of 2 shows twice as many, each half as wide.
    """
    turn, slant = np.deg2rad(theta), np.deg2rad(shear)
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    shift = np.array([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    shearing = np.array([[1, -np.sin(slant), 0], [0, np.cos(slant), 0], [0, 0, 1]])
    zoom = np.diag([zx, zy, 1.0])
    x, y = height / 2 - 0.5, width / 2 - 0.5
    there = np.array([[1, 0, x], [0, 1, y], [0, 0, 1]])
    back = np.array([[1, 0, -x], [0, 1, -y], [0, 0, 1]])
    matrix: Coordinates = there @ (rotation @ shift @ shearing @ zoom) @ back
    return matrix[np.ix_([1, 0, 2], [1, 0, 2])]


def warped(image: Pixels, matrix: Coordinates, fill_mode: str, cval: float, order: int) -> Pixels:
    """Return an image whose pixels are those of `image` at the places that a matrix names.

    `image` is (height, width, channels) float32, `matrix` as of `keras_matrix`, `order` 0 to 5.
    """
    height, width = image.shape[:2]
    if max(height, width) > _LONGEST:
        raise ArgumentError(
            f"an image of {height} x {width} pixels is too large to be rotated, shifted, sheared "
            f"or zoomed, at most {_LONGEST} a side: make it smaller first, as by target_size="
        )
    if fill_mode == "nearest" and order != _NEAREST:  # as OpenCV fills, without two maps of places
        inverse = matrix[np.ix_([1, 0], [1, 0, 2])]  # of (x, y)
        flags = _BY_ORDER[order] | cv2.WARP_INVERSE_MAP
        still: Pixels = cv2.warpAffine(
            image, inverse, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE
        )
        return still.reshape(image.shape)
    across, down = np.arange(width), np.arange(height)[:, None]
    rows, columns = (line[2] + down * line[0] + across * line[1] for line in matrix[:2])
    fold = FILL_MODES[fill_mode]
    inner = [fold(rows, height), fold(columns, width)]
    if order == _NEAREST:  # of two that are as near the next one, by OpenCV the even one
        inner = [np.floor(places + 0.5) for places in inner]
    y, x = (places.astype(np.float32) for places in inner)
    border = cv2.BORDER_REFLECT if fill_mode == "reflect" else cv2.BORDER_REPLICATE
    made: Pixels = cv2.remap(image, x, y, _BY_ORDER[order], borderMode=border).reshape(image.shape)
    if fill_mode == "constant":
        made[(rows < 0) | (rows > height - 1) | (columns < 0) | (columns > width - 1)] = cval
    return made


def _clipped(places: Coordinates, length: int) -> Coordinates:
    """Return places outside as the edge: aaaa abcd dddd."""
    return np.clip(places, 0, length - 1)


def _reflected(places: Coordinates, length: int) -> Coordinates:
    """Return places outside as in a mirror behind the edge: dcba abcd dcba."""
    period = 2 * length
    inner = places - period * np.trunc(places / period)
    before = np.where(inner < -length, inner + period, -inner - 1)
    behind = np.where(inner >= length, period - inner - 1, inner)
    return _clipped(np.where(inner < 0, before, behind), length)


def _wrapped(places: Coordinates, length: int) -> Coordinates:
    """Return places outside as of copies whose edges lie on each other, as SciPy: abcd bcd bcd."""
    period = length - 1
    if not period:
        return np.zeros_like(places)
    copies = np.where(places < 0, np.ceil(places / period) - 1, np.floor(places / period))
    return np.where(places == period, places, places - period * copies)


FILL_MODES: dict[str, Callable[[Coordinates, int], Any]] = {
    "nearest": _clipped,
    "constant": _clipped,
    "reflect": _reflected,
    "wrap": _wrapped,
}
"""Keras's names -> which place in the image stands for one that is maybe outside."""


Shift = float | tuple[float, ...]

_STILL = {"theta": 0, "tx": 0, "ty": 0, "shear": 0, "zx": 1, "zy": 1}  # the affine parameters


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Draws transforms of images as Keras's `ImageDataGenerator` does, and applies them.

    `draw` depends on its generator alone, so that a row can have a generator of its own.

    The arguments are those of `ImageDataGenerator`; factors are (least, largest).

    Example:
        >>> import numpy as np
        >>> augmentation = Augmentation(rotation_range=20, horizontal_flip=True)
        >>> image = np.zeros((32, 48, 3), np.uint8)
        >>> drawn = augmentation.draw(image.shape, np.random.default_rng(0))
        >>> round(drawn["theta"], 2), drawn["flip_horizontal"]
        (5.48, True)
        >>> augmentation.apply(image, drawn).dtype
        dtype('float32')
    """

    rotation_range: float = 0
    width_shift_range: Any = 0.0
    height_shift_range: Any = 0.0
    brightness_range: Any = None
    shear_range: float = 0.0
    zoom_range: Any = 0.0
    channel_shift_range: float = 0.0
    fill_mode: str = "nearest"
    cval: float = 0.0
    horizontal_flip: bool = False
    vertical_flip: bool = False
    interpolation_order: int = 1

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            name: _number(name, getattr(self, name)) for name in ("channel_shift_range", "cval")
        }
        for name in ("rotation_range", "shear_range"):  # of these and of shifts None is none, too
            checked[name] = _number(name, _or_zero(getattr(self, name)))
        for name in ("width_shift_range", "height_shift_range"):
            checked[name] = _shift(name, _or_zero(getattr(self, name)))
        for name in ("horizontal_flip", "vertical_flip"):
            checked[name] = flag(name, getattr(self, name))
        zoom = self.zoom_range
        zoom = (1 - zoom, 1 + zoom) if _is_number(zoom) else zoom
        checked["zoom_range"] = _pair(
            "zoom_range", zoom, "a float or a tuple or list of two floats"
        )
        if self.brightness_range is not None:
            checked["brightness_range"] = _pair(
                "brightness_range", self.brightness_range, "a tuple or list of two floats, or None"
            )
        one_of("fill_mode", self.fill_mode, FILL_MODES)
        order = whole("interpolation_order", self.interpolation_order, most=HIGHEST_ORDER)
        for name, value in {**checked, "interpolation_order": order}.items():
            object.__setattr__(self, name, value)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Any]:
        """Return the parameters of one transform, under Keras's names.

        `theta` and `shear` are in degrees, `tx` and `ty` in pixels, `zx` and `zy` factors;
        `channel_shift_intensity` and `brightness` are None where they are not asked for. The shape
        is (height, width, ...).
        """
        theta = _between(rng, -self.rotation_range, self.rotation_range)
        tx = _drawn_shift(rng, self.height_shift_range, shape[0])
        ty = _drawn_shift(rng, self.width_shift_range, shape[1])
        shear = _between(rng, -self.shear_range, self.shear_range)
        zx, zy = (_between(rng, *self.zoom_range) for _ in range(2))
        intensity = self.channel_shift_range
        return {
            "theta": theta,
            "tx": tx,
            "ty": ty,
            "shear": shear,
            "zx": zx,
            "zy": zy,
            "flip_horizontal": rng.random() < 0.5 and self.horizontal_flip,
            "flip_vertical": rng.random() < 0.5 and self.vertical_flip,
            "channel_shift_intensity": _between(rng, -intensity, intensity) if intensity else None,
            "brightness": _between(rng, *self.brightness_range) if self.brightness_range else None,
        }

    def apply(self, image: Pixels, parameters: Mapping[str, Any]) -> Pixels:
        """Return an image transformed as `parameters` say.

        The image is (height, width, channels) of numbers, and is left as it is; the result is
        float32 of the same shape: `image` itself where it is that and nothing changes it.
        """
        if image.ndim != 3:
            raise ArgumentError(
                f"an image must be an array (height, width, channels), got shape {image.shape}"
            )
        made: Pixels = image.astype(np.float32, copy=False)
        affine = {name: parameters.get(name, still) for name, still in _STILL.items()}
        if affine != _STILL:
            matrix = keras_matrix(*image.shape[:2], **affine)
            made = warped(made, matrix, self.fill_mode, self.cval, self.interpolation_order)
        if (intensity := parameters.get("channel_shift_intensity")) is not None:
            made = np.clip(made + np.float32(intensity), made.min(), made.max())
        if parameters.get("flip_horizontal"):
            made = made[:, ::-1]
        if parameters.get("flip_vertical"):
            made = made[::-1]
        if (brightness := parameters.get("brightness")) is not None:
            made = _brightened(made, float(brightness))
        return made


def _between(rng: np.random.Generator, least: float, largest: float) -> float:
    return least + (largest - least) * rng.random() if least != largest else largest


def _drawn_shift(rng: np.random.Generator, given: Shift, length: int) -> float:
    if not given:
        return 0
    if isinstance(given, tuple):
        drawn, largest = given[rng.integers(len(given))] * _sign(rng), max(given)
    elif isinstance(given, int) and given > 0:
        drawn, largest = int(rng.integers(given)) * _sign(rng), given
    else:
        drawn, largest = _between(rng, -given, given), given
    return drawn * length if largest < 1 else drawn


def _sign(rng: np.random.Generator) -> int:
    return 1 if rng.random() < 0.5 else -1


def _brightened(image: Pixels, factor: float) -> Pixels:
    """Return an image as Pillow makes it brighter: of whole levels, alpha as it is.

    Pixels that are not all within 0..255 are stretched to that meanwhile.
    """
    least, largest = image.min(), image.max()
    stretched = least < 0 or largest > 255
    levels = image
    if stretched:
        levels = (image - least) / ((largest - least) or np.float32(1)) * np.float32(255)
    levels = levels.astype(np.uint8, order="C")
    table = np.clip(np.arange(256, dtype=np.float32) * np.float32(factor), 0, 255)
    made: Pixels = cv2.LUT(levels, np.trunc(table)).reshape(image.shape)
    if image.shape[2] == 4:
        made[..., 3] = levels[..., 3]
    if stretched:
        made = made / np.float32(255) * (largest - least) + least
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def _or_zero(value: object) -> object:
    return 0 if value is None else value


def _plain(value: Any) -> float:
    return int(value) if isinstance(value, Integral) else float(value)


def _number(name: str, value: object) -> float:
    if not _is_number(value):
        raise ArgumentError(f"{name} must be a number, got {brief(value)}")
    return _plain(value)


def _pair(name: str, value: object, expected: str) -> tuple[float, float]:
    numbers = [*value] if isinstance(value, tuple | list | np.ndarray) else []
    if len(numbers) != 2 or not all(map(_is_number, numbers)):
        raise ArgumentError(f"{name} must be {expected}, got {brief(value)}")
    return _plain(numbers[0]), _plain(numbers[1])


def _shift(name: str, value: Any) -> Shift:
    if _is_number(value):
        return _plain(value)
    numbers = [*value] if isinstance(value, tuple | list | np.ndarray) else [None]
    if not all(map(_is_number, numbers)):
        raise ArgumentError(
            f"{name} must be a share below 1, pixels, or a list of those, got {brief(value)}"
        )
    return tuple(map(_plain, numbers))
