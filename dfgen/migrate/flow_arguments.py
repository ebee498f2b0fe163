"""FlowOptions: the arguments that all iterators of Keras's `ImageDataGenerator` share, checked."""

from dataclasses import dataclass

import numpy as np

from dfgen.errors import ArgumentError, brief
from dfgen.migrate.keras_pixels import FILTERS
from dfgen.samples.pixels.geometry import CHANNELS
from dfgen.system import whole

SUFFIXES = ("png", "jpg", "jpeg", "bmp", "ppm", "tif", "tiff")
"""How names of files end that Keras takes for images, in lower case."""


class WrongTypeError(ArgumentError, TypeError):
    """An argument or a column of a type that Keras refuses with TypeError."""


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Arguments of `flow`, `flow_from_dataframe` and `flow_from_directory`, as these explain them.

    It refuses in Keras's own words, where Keras has any.
    """

    batch_size: int = 32
    shuffle: bool = True
    seed: int | None = None
    data_format: str = "channels_last"
    dtype: str = "float32"
    save_to_dir: str | None = None
    save_prefix: str = ""
    save_format: str = "png"
    subset: str | None = None
    validation_split: float = 0.0

    def __post_init__(self) -> None:
        if self.subset not in (None, "training", "validation"):
            raise ArgumentError(
                f'Invalid subset name: {self.subset};expected "training" or "validation"'
            )

    def part(self, rows: int) -> slice:
        """Return which of some rows, in their order, are of the subset: the first are validation's.

        Example:
            >>> FlowOptions(subset="training", validation_split=0.25).part(10)
            slice(2, 10, None)
        """
        cut = int((self.validation_split or 0) * rows)
        if self.subset is None:
            return slice(0, rows)
        return slice(0, cut) if self.subset == "validation" else slice(cut, rows)


@dataclass(frozen=True, kw_only=True)
class FileOptions(FlowOptions):
    """Those that `flow_from_dataframe` and `flow_from_directory` share, which read files."""

    target_size: tuple[int, int] = (256, 256)
    color_mode: str = "rgb"
    interpolation: str = "nearest"
    keep_aspect_ratio: bool = False

    def __post_init__(self) -> None:
        size = self.target_size
        if not (isinstance(size, tuple | list | np.ndarray) and len(size) == 2):
            raise ArgumentError(f"target_size must be (height, width) in pixels, got {brief(size)}")
        sides = tuple(whole(f"target_size[{n}]", side, least=1) for n, side in enumerate(size))
        object.__setattr__(self, "target_size", sides)
        if self.color_mode not in CHANNELS:
            raise ArgumentError(
                f'Invalid color mode: {self.color_mode}; expected "rgb", "rgba", or "grayscale".'
            )
        super().__post_init__()
        if self.interpolation not in FILTERS:
            raise ArgumentError(
                f"Invalid interpolation method {self.interpolation} specified. Supported methods "
                f"are {', '.join(FILTERS)}"
            )
