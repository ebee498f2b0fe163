"""Packers turn a file into pixels, its own bytes, or a smaller JPEG."""

import io
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import simplejpeg

from dfgen.errors import ArgumentError, flag, one_of, whole
from dfgen.limits import bytes_given
from dfgen.samples.features.base import Reading
from dfgen.samples.features.image import Image, checked_size
from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.pixels.formats import parse_header, sniff
from dfgen.samples.pixels.geometry import (
    CHANNELS,
    INTERPOLATIONS,
    RESIZE,
    Geometry,
    Size,
    place,
    reduction,
    resize,
    shrunk,
)
from dfgen.samples.reader import Sizes
from dfgen.spec import IntArray, Present
from dfgen.table.arrow_types import Content

FORMATS_OF = {
    "pixels": ("image_size", "color_mode", "resize", "interpolation", "antialias"),
    "original": (),
    "jpeg": ("color_mode", "max_side", "quality"),
}
"""Format of a pack -> its own arguments."""

_DEFAULTS = {"max_side": 512, "quality": 92}
_OF_PIXEL = 0.35  # bytes of a JPEG per pixel, about, for photographs of quality 92
_HEADER = 600  # bytes of a JPEG without its pixels


@dataclass(frozen=True)
class PixelPacker:
    """Pixels of one size, equal to those that a Sequence makes of the files."""

    image: Image
    suffix = "_pixels"

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of a row."""
        return self.image.spec.shape

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return the bytes of each row."""
        return np.full(rows, prod(self.image.spec.shape), np.int64)

    def begin(self, rows: int) -> Any:
        """Return the buffer that `pack` fills."""
        return np.zeros((rows, *self.image.spec.shape), np.uint8)

    def pack(self, content: Content, store: Any, into: Any, row: int) -> None:
        """Read one file and store the result in `into[row]`."""
        self.image.read(content, into[row], Reading(store))

    def column(self, into: Any, good: Present) -> pa.Array:
        """Return the packed column, null if a row is not good."""
        kind = pa.fixed_shape_tensor(pa.uint8(), into.shape[1:])
        into[~good] = 0
        values = pa.Array.from_buffers(pa.uint8(), into.size, [None, pa.py_buffer(into)])
        buffers = [_validity(good)]
        rows = pa.Array.from_buffers(kind.storage_type, len(into), buffers, children=[values])
        return pa.ExtensionArray.from_storage(kind, rows)


@dataclass(frozen=True)
class WholeFiles:
    """The bytes of files as they are."""

    suffix = "_bytes"
    shape = None

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return the bytes of each row."""
        return np.asarray(files, np.int64).clip(0)

    def begin(self, rows: int) -> Any:
        """Return the buffer that `pack` fills."""
        return [b""] * rows

    def pack(self, content: Content, store: Any, into: Any, row: int) -> None:
        """Read one file and store the result in `into[row]`."""
        into[row] = store.read(content)

    def column(self, into: Any, good: Present) -> pa.Array:
        """Return the packed column, null if a row is not good."""
        kept = [data if is_good else b"" for data, is_good in zip(into, good.tolist(), strict=True)]
        ends = np.cumsum([0, *map(len, kept)], dtype=np.int64)
        buffers = [_validity(good), pa.py_buffer(ends), pa.py_buffer(b"".join(kept))]
        return pa.Array.from_buffers(pa.large_binary(), len(kept), buffers)


@dataclass(frozen=True)
class SmallerJpegs(WholeFiles):
    """JPEGs whose longer side is at most `max_side`.

    Smaller JPEGs that are upright stay as they are. Other files are encoded without EXIF.
    """

    max_side: int
    quality: int
    color_mode: str

    def nbytes(self, sizes: Sizes | None, files: IntArray | None, rows: int) -> IntArray:
        """Return an estimate of the bytes of each row."""
        lengths = np.asarray(sizes, np.float64)
        scales = np.minimum(1, self.max_side / np.maximum(1, lengths.max(axis=1)))
        return np.asarray(lengths.prod(axis=1) * scales**2 * _OF_PIXEL + _HEADER, np.int64)

    def pack(self, content: Content, store: Any, into: Any, row: int) -> None:
        """Read one file and store the result in `into[row]`."""
        data, stays = store.read(content), False
        if sniff(data[:16]) == "jpeg":
            header = parse_header(io.BytesIO(data), "jpeg", store.limits)
            in_mode = self.color_mode == "rgb" or header.channels == 1
            stays = in_mode and header.orientation == 1 and max(header.size) <= self.max_side
        into[row] = data if stays else self._smaller(data, store.limits)

    def _smaller(self, data: bytes, limits: Any) -> bytes:
        def geometry_of(image: Size) -> Geometry:
            size = shrunk(image, self.max_side)
            return place(image, size, size, "stretch")

        pixels, size, reduced = decode_image(
            data, self.color_mode, None, lambda size: reduction(geometry_of(size)), limits
        )
        geometry = geometry_of(size)
        out = np.empty((*geometry.size, pixels.shape[2]), np.uint8)
        resize(pixels, geometry, out, reduced=reduced)
        how = ("GRAY", "Gray") if self.color_mode == "grayscale" else ("RGB", "420")
        return bytes(simplejpeg.encode_jpeg(out, self.quality, *how))


Packer = PixelPacker | WholeFiles


def _validity(good: Present) -> pa.Buffer | None:
    """Return Arrow's bits of the rows that are good; None: all."""
    return None if good.all() else pa.py_buffer(np.packbits(good, bitorder="little"))


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
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("format", self.format, FORMATS_OF)
        one_of("color_mode", self.color_mode, CHANNELS)
        one_of("resize", self.resize, RESIZE)
        one_of("interpolation", self.interpolation, INTERPOLATIONS)
        flag("antialias", self.antialias)
        whole("seed", self.seed)
        for name, most in (("max_side", 65_500), ("quality", 100)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=1, most=most)
        object.__setattr__(self, "image_size", checked_size("image_size", self.image_size))
        for field in fields(self)[1:8]:
            value = getattr(self, field.name)
            if value != field.default and field.name not in FORMATS_OF[self.format]:
                takers = [f'format="{name}"' for name, of in FORMATS_OF.items() if field.name in of]
                raise ArgumentError(
                    f"{field.name}={value!r} is for {' or '.join(takers)}, not for format="
                    f'"{self.format}": leave one of them out'
                )
        if self.format == "jpeg" and self.color_mode == "rgba":
            raise ArgumentError(
                'color_mode="rgba" needs format="pixels": JPEG has no alpha channel'
            )
        _ = self.nbytes

    @property
    def nbytes(self) -> int:
        """The bytes of a shard."""
        return whole("shard_size", bytes_given("shard_size", self.shard_size), least=1)

    def packer(self, size: Size | None) -> Packer:
        """Return the packer; `size` is the common size of all images, if any."""
        if self.format == "original":
            return WholeFiles()
        if self.format == "jpeg":
            packed = self.described
            return SmallerJpegs(packed["max_side"], packed["quality"], self.color_mode)
        return PixelPacker(
            Image(
                size=self.image_size or size, color_mode=self.color_mode, resize=self.resize,
                interpolation=self.interpolation, antialias=self.antialias,
            )
        )  # fmt: skip

    @property
    def described(self) -> dict[str, Any]:
        """The arguments that the pack keeps; None for those of other formats."""
        names = [field.name for field in fields(self)[1:8]]
        own = {name: getattr(self, name) for name in names if name in FORMATS_OF[self.format]}
        own |= {name: _DEFAULTS[name] for name in own.keys() & _DEFAULTS if own[name] is None}
        if own.get("image_size") is not None:
            own["image_size"] = list(self.image_size)
        return {"format": self.format, **dict.fromkeys(names), **own}
