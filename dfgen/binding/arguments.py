"""The arguments of `dfgen.Sequence` that decide its rows, features, weights and order."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dfgen.binding.nested import Tree
from dfgen.binding.pixel_cache import checked_cache
from dfgen.checks import flag, one_of
from dfgen.errors import ArgumentError
from dfgen.limits import DEFAULT, limits_given
from dfgen.samples.features.category import LABEL_MODES
from dfgen.samples.features.feature_checks import class_names_in_order
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_checks import DEFAULT_SIZE, checked_size
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform, check_transform
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import Table

SampleWeight = str | Mapping[str, str | None] | Sequence[str | None] | None
"""The column of weights of all targets, or one per target, nested as y."""
ClassWeight = Mapping[Any, Any] | Sequence[Any] | str | None
"""Class -> weight, or `"balanced"`, or one of these per target, nested as y."""
Balance = str | Mapping[str, Mapping[Any, float]] | None
"""A column, or column -> value -> its share of an epoch."""
IMAGE_OPTIONS = ("image_size", "color_mode", "scale")
FEATURE_OPTIONS = (*IMAGE_OPTIONS, "label_mode", "class_names")
"""SequenceArguments for columns that x and y give by their names."""


@dataclass(frozen=True)
class SequenceArguments:
    """The arguments of `dfgen.Sequence` that `bind` uses, with the same defaults."""

    manifest: Table | str | os.PathLike[str] = None
    x: Tree = "path"
    y: Tree = None
    _: KW_ONLY
    id: str | None = None
    sample_weight: SampleWeight = None
    class_weight: ClassWeight = None
    balance: Balance = None
    sampling_weight: str | None = None
    bucket_by: str | None = None
    batch_size: int = 32
    image_size: tuple[int, int] | None = DEFAULT_SIZE
    color_mode: str = "rgb"
    label_mode: str | None = "int"
    class_names: Any = None
    scale: Scale = None
    shuffle: bool = True
    transform: Transform | None = None
    on_error: str = "raise"
    limits: Any = DEFAULT  # Limits; None is replaced
    root: str | os.PathLike[str] | None = None
    storage_options: Any = None  # StorageOptions; a mapping or None is replaced
    cache: Any = None  # Cache; a path becomes absolute
    pack: str | os.PathLike[str] | None = None
    where: Any = None
    window: int = 10**9  # bytes of rows in large files that are shuffled together; not public

    def __post_init__(self) -> None:
        one_of("label_mode", self.label_mode, (*LABEL_MODES, None))
        one_of("bucket_by", self.bucket_by, (None, "shape", "length"))
        one_of("on_error", self.on_error, ("raise", "skip"))
        if self.root is not None and not isinstance(self.root, str | os.PathLike):
            raise ArgumentError(f"root must be the path of a folder, got {self.root!r}")
        if self.transform is not None:
            check_transform("transform", self.transform, "sample")
        names = self.class_names
        for name, value in (
            ("image_size", checked_size("image_size", self.image_size)),
            ("class_names", None if names is None else class_names_in_order(names)),
            ("shuffle", flag("shuffle", self.shuffle)),
            ("limits", limits_given(self.limits)),
            ("cache", None if self.cache is None else checked_cache(self.cache)),
            ("storage_options", StorageOptions(self.storage_options)),
        ):
            object.__setattr__(self, name, value)

    def image(self, column: str) -> Image:
        """Return the feature for the name of a column of images."""
        return Image(column, self.image_size, color_mode=self.color_mode, scale=self.scale)
