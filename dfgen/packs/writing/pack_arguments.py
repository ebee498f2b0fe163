"""Arguments of `dfgen.pack`, those that contradict each other, and what they make of a file.

Packers make pixels, the file's own bytes, or a smaller JPEG of it.
"""

import contextlib
import io
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import simplejpeg

from dfgen.errors import ArgumentError
from dfgen.limits import Limits, bytes_given
from dfgen.samples.bound_feature import Sizes
from dfgen.samples.features.base import Reading
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_checks import checked_size
from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.pixels.formats import parse_header, sniff
from dfgen.samples.pixels.geometry import CHANNELS, RESIZE, Geometry, Size, place, shrunk
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.resizing import INTERPOLATIONS, reduction, resize
from dfgen.spec import IntArray, Present
from dfgen.stores.store import Store
from dfgen.system import flag, one_of, whole
from dfgen.table.file_columns import Content

FORMATS_OF = {
    "pixels": ("image_size", "color_mode", "resize", "interpolation", "antialias"),
    "original": (),
    "jpeg": ("color_mode", "max_side", "quality"),
}
"""Format of a pack -> the arguments that are for it."""

_DEFAULTS = {"max_side": 512, "quality": 92}
_OF_PIXEL = 0.35  # bytes of a JPEG for a pixel, about: of photographs of quality 92
_HEADER = 600  # bytes of a JPEG without its pixels


class Packer:
    """The packed form of a file. It travels to other processes."""

    needs_sizes = False
    """Whether it must know the size of every image before."""

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return about how many bytes each row takes, by the sizes of images or of files."""
        raise NotImplementedError

    def stand_in(self, rows: int) -> npt.NDArray[np.uint8] | None:
        """Return an array, never filled, that `columns` takes for all rows of a shard.

        So they are written as they come; None: how many bytes each takes is known when all are.
        """
        return None

    def begin(self, rows: int, spare: list[Any]) -> Any:
        """Return what `pack` fills for some rows, maybe out of the `spare` memory of others."""
        return [None] * rows

    def pack(self, content: Content, store: Store, into: Any, place: int, size: Any) -> None:
        """Read one file, and put what it becomes into `into[place]`.

        `size` is (height, width) of the upright image, where it `needs_sizes`.

        Raises:
            DecodeError: the file is damaged.
            MissingFileError: it is missing.
        """
        raise NotImplementedError

    def columns(self, name: str, into: Any, good: Present) -> dict[str, pa.Array]:
        """Return the columns of a shard by their names, null where a row is not good."""
        raise NotImplementedError


@dataclass(frozen=True)
class FixedPixels(Packer):
    """Pixels of one size, exactly those that a Sequence makes of the files."""

    image: Image

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return the bytes of each row's pixels."""
        return np.full(rows, prod(self.image.spec.shape), np.int64)

    def stand_in(self, rows: int) -> npt.NDArray[np.uint8]:
        """Return (rows, height, width, channels)."""
        return np.empty((rows, *self.image.spec.shape), np.uint8)

    def begin(self, rows: int, spare: list[Any]) -> npt.NDArray[np.uint8]:
        """Return (rows, height, width, channels).

        Memory that was used before is taken first: of new memory every page costs a fault.
        """
        with contextlib.suppress(IndexError):
            pixels: npt.NDArray[np.uint8] = spare.pop()
            if len(pixels) >= rows:
                return pixels[:rows]
        return self.stand_in(rows)

    def pack(self, content: Content, store: Store, into: Any, place: int, size: Any) -> None:
        """Decode and resize one file."""
        self.image.read(content, into[place], Reading(store))

    def columns(self, name: str, into: Any, good: Present) -> dict[str, pa.Array]:
        """Return tensors."""
        kind = pa.fixed_shape_tensor(pa.uint8(), into.shape[1:])
        values = pa.Array.from_buffers(pa.uint8(), into.size, [None, pa.py_buffer(into)])
        rows = pa.Array.from_buffers(
            kind.storage_type, len(into), [_validity(good)], children=[values]
        )
        return {f"{name}_pixels": pa.ExtensionArray.from_storage(kind, rows)}


@dataclass(frozen=True)
class OwnPixels(Packer):
    """Pixels of upright images, each of its own size."""

    image: Image
    needs_sizes = True

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return the bytes of each row's pixels."""
        channels = CHANNELS[str(self.image.color_mode)]
        found: IntArray = np.prod(np.asarray(sizes, np.int64), axis=1) * channels
        return found

    def pack(self, content: Content, store: Store, into: Any, place: int, size: Any) -> None:
        """Decode one file."""
        pixels = np.empty((*size, CHANNELS[str(self.image.color_mode)]), np.uint8)
        self.image.read(content, pixels, Reading(store))
        into[place] = pixels

    def columns(self, name: str, into: Any, good: Present) -> dict[str, pa.Array]:
        """Return the pixels, and their shapes."""
        shapes = [(0, 0, 0) if pixels is None else pixels.shape for pixels in into]
        lengths = pa.array(np.array(shapes, np.int32).reshape(-1))
        shape = pa.Array.from_buffers(
            pa.list_(pa.int32(), 3), len(into), [_validity(good)], children=[lengths]
        )
        return {f"{name}_pixels": _binary(into, good), f"{name}_shape": shape}


@dataclass(frozen=True)
class WholeFiles(Packer):
    """The bytes of files as they are."""

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return the bytes of each file."""
        return np.asarray(files, np.int64).clip(0)

    def pack(self, content: Content, store: Store, into: Any, place: int, size: Any) -> None:
        """Read one file."""
        into[place] = store.read(content)

    def columns(self, name: str, into: Any, good: Present) -> dict[str, pa.Array]:
        """Return the bytes."""
        return {f"{name}_bytes": _binary(into, good)}


@dataclass(frozen=True)
class SmallerJpegs(WholeFiles):
    """JPEGs whose longer side is at most `max_side`; smaller files stay as they are.

    That is, if they are JPEGs that need no turning. Others are encoded: upright, without EXIF.
    """

    max_side: int
    quality: int
    color_mode: str
    needs_sizes = True

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return about how many bytes each row takes."""
        lengths = np.asarray(sizes, np.float64)
        scales = np.minimum(1, self.max_side / np.maximum(1, lengths.max(axis=1)))
        found: IntArray = (lengths.prod(axis=1) * scales**2 * _OF_PIXEL).astype(np.int64) + _HEADER
        return found

    def pack(self, content: Content, store: Store, into: Any, place: int, size: Any) -> None:
        """Read one file, and make it smaller where it is too large."""
        data = store.read(content)
        name = sniff(data[:16])
        stays = name == "jpeg" and self._stays(parse_header(io.BytesIO(data), name, store.limits))
        into[place] = data if stays else _smaller(data, self, store.limits)

    def _stays(self, header: Header) -> bool:
        in_mode = self.color_mode == "rgb" or header.channels == 1
        return in_mode and header.orientation == 1 and max(header.size) <= self.max_side


def _smaller(data: bytes, of: SmallerJpegs, limits: Limits) -> bytes:
    """Return the bytes of an image file as an upright JPEG, made smaller if it is too large."""

    def geometry_of(image: Size) -> Geometry:
        size = shrunk(image, of.max_side)
        return place(image, size, size, "stretch")

    pixels, size, reduced = decode_image(
        data, of.color_mode, None, lambda size: reduction(geometry_of(size)), limits
    )
    geometry = geometry_of(size)
    out = np.empty((*geometry.size, pixels.shape[2]), np.uint8)
    resize(pixels, geometry, out, reduced=reduced)
    how = ("GRAY", "Gray") if of.color_mode == "grayscale" else ("RGB", "420")
    encoded: bytes = simplejpeg.encode_jpeg(out, of.quality, *how)
    return encoded


def _validity(good: Present) -> pa.Buffer | None:
    """Return the bits of Arrow that say which rows are there; None: all."""
    return None if good.all() else pa.py_buffer(np.packbits(good, bitorder="little"))


def _binary(parts: list[Any], good: Present) -> pa.Array:
    """Return bytes, or pixels, as one column; what is not good is left out."""
    kept = [part if fine else b"" for part, fine in zip(parts, good.tolist(), strict=True)]
    lengths = [len(part) if isinstance(part, bytes) else part.nbytes for part in kept]
    ends = np.cumsum([0, *lengths], dtype=np.int64)
    data = np.empty(ends[-1], np.uint8)
    for part, start, end in zip(kept, ends, ends[1:], strict=False):
        data[start:end] = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part.ravel()
    buffers = [_validity(good), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(parts), buffers)


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
