"""Arguments of `dfgen.pack`, and those that contradict each other."""

from dataclasses import dataclass, fields
from typing import Any

from dfgen.errors import ArgumentError
from dfgen.limits import bytes_given
from dfgen.packs.writing.packers import FixedPixels, OwnPixels, Packer, SmallerJpegs, WholeFiles
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_arguments import checked_size
from dfgen.samples.pixels.geometry import CHANNELS, RESIZE
from dfgen.samples.pixels.resizing import INTERPOLATIONS
from dfgen.system import flag, one_of, whole

FORMATS_OF = {
    "pixels": ("image_size", "color_mode", "resize", "interpolation", "antialias"),
    "original": (),
    "jpeg": ("color_mode", "max_side", "quality"),
}
"""Format of a pack -> the arguments that are for it."""

_DEFAULTS = {"max_side": 512, "quality": 92}


@dataclass(frozen=True)
class PackArguments:
    """The arguments of `dfgen.pack` that tell one pack from another, checked."""

    format: str = "pixels"
    image_size: Any = None
    color_mode: str = "rgb"
    resize: str = "stretch"
    interpolation: str = "bilinear"
    antialias: bool = True
    max_side: int | None = None
    quality: int | None = None
    shard_size: int | str = "256MB"
    keep_order: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("format", self.format, FORMATS_OF)
        one_of("color_mode", self.color_mode, CHANNELS)
        one_of("resize", self.resize, RESIZE)
        one_of("interpolation", self.interpolation, INTERPOLATIONS)
        flag("antialias", self.antialias)
        flag("keep_order", self.keep_order)
        whole("seed", self.seed)
        for name, most in (("max_side", 65_500), ("quality", 100)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=1, most=most)
        if isinstance(self.image_size, str) and self.image_size != "own":
            raise ArgumentError(
                f'image_size must be (height, width) in pixels, or "own", got {self.image_size!r}'
            )
        if self.image_size != "own":
            object.__setattr__(self, "image_size", checked_size("image_size", self.image_size))
        self._check_use()
        _ = self.nbytes

    def _check_use(self) -> None:
        for field in fields(self)[1:8]:
            value = getattr(self, field.name)
            if value != field.default and field.name not in FORMATS_OF[self.format]:
                takers = [f'format="{name}"' for name, of in FORMATS_OF.items() if field.name in of]
                raise ArgumentError(
                    f"{field.name}={value!r} is for {' or '.join(takers)}, and format="
                    f'"{self.format}": leave one of them out'
                )
        if self.format == "jpeg" and self.color_mode == "rgba":
            raise ArgumentError(
                'color_mode="rgba" needs an alpha channel, which JPEG lacks: pack with '
                'format="pixels"'
            )
        if self.image_size == "own" and self.resize != "stretch":
            raise ArgumentError(
                f'image_size="own" leaves images as large as they are, so there is no use for '
                f"resize={self.resize!r}: leave it out, or give a size"
            )

    @property
    def nbytes(self) -> int:
        """The bytes of a shard."""
        return whole("shard_size", bytes_given("shard_size", self.shard_size), least=1)

    @property
    def needs_sizes(self) -> bool:
        """Whether the sizes of images must be known before."""
        has_size = isinstance(self.image_size, tuple)
        return self.format == "jpeg" or (self.format == "pixels" and not has_size)

    def packer(self, sizes: list[tuple[Any, int, int]] | None) -> Packer:
        """Return what the files become.

        Args:
            sizes: id, height and width of a row whose size is known, and of another that differs
                from it, where one does; None: not known.
        """
        if self.format == "original":
            return WholeFiles()
        if self.format == "jpeg":
            side, quality = (getattr(self, name) or _DEFAULTS[name] for name in _DEFAULTS)
            return SmallerJpegs(side, quality, self.color_mode)
        if self.image_size == "own":
            return OwnPixels(Image(size=None, color_mode=self.color_mode))
        size = self.image_size
        if size is None and sizes is not None:
            if len(sizes) > 1:
                raise ArgumentError(_mixed(*sizes))
            size = sizes[0][1:]
        return FixedPixels(
            Image(
                size=size, color_mode=self.color_mode, resize=self.resize,
                interpolation=self.interpolation, antialias=self.antialias,
            )
        )  # fmt: skip

    @property
    def described(self) -> dict[str, Any]:
        """The part of them that the pack keeps, None where the format has no use for one."""
        found: dict[str, Any] = {"format": self.format}
        for name in (field.name for field in fields(self)[1:8]):
            used = name in FORMATS_OF[self.format]
            value = getattr(self, name)
            found[name] = (_DEFAULTS.get(name) if value is None else value) if used else None
        size = self.image_size
        return found | {"image_size": list(size) if isinstance(size, tuple) else None}

    @property
    def order(self) -> Any:
        """The part of the order that is kept."""
        return "kept" if self.keep_order else {"tag": "pack", "seed": self.seed, "epoch": 0}


def _mixed(one: tuple[Any, int, int], other: tuple[Any, int, int]) -> str:
    return (
        f"images have different sizes: {one[1]} x {one[2]} pixels (height x width) in the row "
        f"id={one[0]!r}, {other[1]} x {other[2]} in id={other[0]!r}. Give the size to resize them "
        'to, image_size=(224, 224) (--image-size 224,224), or image_size="own" (--image-size own) '
        "to keep the size of each"
    )
