"""About 130 small files: `CASES`, with their pixels, and `REJECTED`, which are none or damaged."""

import io
import struct
import zlib
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pillow_heif
import tifffile
from PIL import Image, ImageOps

pillow_heif.register_heif_opener()
HEIGHT, WIDTH = 11, 14
Y, X = np.mgrid[0:HEIGHT, 0:WIDTH]
SMOOTH = np.stack([Y * 15 + 40, X * 9 + 40, Y * 4 + X * 4 + 20], -1).astype(np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (HEIGHT, WIDTH, 4), np.uint16)
RGB, GRAY16, RGB16 = NOISE[..., :3], DEEP[..., :1], DEEP[..., :3]


class Case(NamedTuple):
    """A file, the color_mode and dtype to ask for, and its pixels; None: as Pillow reads them."""

    data: bytes
    color_mode: str = "rgb"
    pixels: Any = None
    dtype: str | None = None

    def expected(self):
        if self.pixels is not None:
            return self.pixels
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(self.data)))
        image = image.convert("RGBA") if image.mode == "P" else image
        mode = {"rgb": "RGB", "rgba": "RGBA", "grayscale": "L"}[self.color_mode]
        return np.asarray(image.convert(mode)).reshape(image.height, image.width, -1)


def saved(image, format, **options):
    """Return the bytes, empty where this version of Pillow does not write such a file."""
    file = io.BytesIO()
    try:
        image.save(file, format, **options)
    except (OSError, ValueError, KeyError):
        return b""
    return file.getvalue()


def picture(mode="RGB", pixels=NOISE):
    image = Image.fromarray(pixels)
    if mode in ("P", "CMYK"):
        image = image.convert("RGB")
    return image.quantize(200) if mode == "P" else image.convert(mode)


OTHER = picture("RGB", 255 - NOISE)


def exif(orientation):
    """Return a block of EXIF that holds the orientation alone."""
    return b"Exif\0\0II*\0\x08\0\0\0\1\0" + struct.pack("<HHIHxxI", 0x0112, 3, 1, orientation, 0)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(pixels, color, bits=8, interlaced=False, extra=b"", pieces=1, size=None):
    """Return a PNG file by hand (third edition)."""
    steps = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2)]
    rows = b""
    for top, left, down, across in [*steps, (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]:
        for row in pixels[top::down, left::across]:
            rows += b"\0" + row.astype(row.dtype.newbyteorder(">")).tobytes()
    body = zlib.compress(rows)
    cuts = pairwise(np.linspace(0, len(body), pieces + 1).astype(int))
    width, height = size or (pixels.shape[1], pixels.shape[0])
    head = chunk(b"IHDR", struct.pack(">II5B", width, height, bits, color, 0, 0, interlaced))
    data = b"".join(chunk(b"IDAT", body[start:end]) for start, end in cuts)
    return b"\x89PNG\r\n\x1a\n" + head + extra + data + chunk(b"IEND", b"")


def tiff(pixels, **options):
    file = io.BytesIO()
    given = {"photometric": "rgb" if pixels.shape[-1] == 3 else "minisblack", "metadata": None}
    tifffile.imwrite(file, pixels, **{**given, **options})
    return file.getvalue()


def jpegs():
    for mode in ("L", "RGB", "CMYK"):
        for name, options in {
            "plain": {}, "progressive": {"progressive": True}, "444": {"subsampling": 0},
            "restarts": {"restart_marker_blocks": 1},
        }.items():  # fmt: skip
            yield f"lossy-jpeg-{mode}-{name}", saved(picture(mode, SMOOTH), "JPEG", **options)
    plain, cmyk = (saved(picture(mode, SMOOTH), "JPEG") for mode in ("RGB", "CMYK"))
    transform = cmyk.index(b"Adobe") + 11
    yield "lossy-jpeg-YCCK", cmyk[:transform] + b"\2" + cmyk[transform + 1 :]
    yield "lossy-jpeg-with-another-behind", plain + cmyk
    yield "lossy-jpeg-as-grayscale", plain, "grayscale"
    for turn in (3, 6, 8):
        yield f"lossy-jpeg-exif-{turn}", saved(picture("RGB", SMOOTH), "JPEG", exif=exif(turn))


def pngs():
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        for color_mode in ("rgb", "rgba", "grayscale"):
            yield f"png-{mode}-as-{color_mode}", saved(picture(mode), "PNG"), color_mode
    for bits in (1, 2, 4, 8):
        few, alphas = picture().quantize(2**bits), bytes(n * 7 % 256 for n in range(2**bits))
        yield f"png-palette-{bits}", saved(few, "PNG", bits=bits)
        for color_mode in ("rgb", "rgba"):
            data = saved(few, "PNG", bits=bits, transparency=alphas)
            yield f"png-palette-{bits}-alphas-as-{color_mode}", data, color_mode
    clear = tuple(RGB[3, 4].tolist())
    yield "png-one-colour-clear", saved(picture(), "PNG", transparency=clear), "rgba"
    yield "png-16-gray", png(GRAY16, 0, 16), "grayscale", GRAY16, "uint16"
    yield "png-16-rgb", png(RGB16, 2, 16), "rgb", RGB16, "uint16"
    yield "png-16-rgba", png(DEEP, 6, 16), "rgba", DEEP, "uint16"
    yield "png-16-as-float", png(RGB16, 2, 16), "rgb", RGB16.astype("f4"), "float32"
    yield "png-16-as-8", png(RGB16, 2, 16), "rgb", np.rint(RGB16 / 257).astype("u1"), "uint8"
    yield "png-8-as-16", png(NOISE, 6), "rgba", NOISE.astype("u2"), "uint16"
    for color, channels, mode in ((0, 1, "grayscale"), (2, 3, "rgb"), (6, 4, "rgba")):
        part = NOISE[..., :channels]
        yield f"png-interlaced-{mode}", png(part, color, interlaced=True), mode, part
    yield "png-interlaced-16", png(RGB16, 2, 16, True), "rgb", RGB16, "uint16"
    yield "png-in-pieces", png(RGB, 2, pieces=7), "rgb", RGB
    profile = chunk(b"iCCP", b"x\0\0" + zlib.compress(b"no profile"))
    yield "png-bad-profile", png(RGB, 2, extra=profile), "rgb", RGB
    yield "png-unknown-chunk", png(RGB, 2, extra=chunk(b"prVt", b"x")), "rgb", RGB
    for turn in range(1, 9):
        yield f"png-exif-{turn}", png(RGB, 2, extra=chunk(b"eXIf", exif(turn)[6:]))
    animated = saved(picture(), "PNG", save_all=True, append_images=[OTHER])
    yield "png-animated", animated, "rgb", RGB


def tiffs():
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK"):
        for how in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            yield f"tiff-{mode}-{how}", saved(picture(mode), "TIFF", compression=how)
    yield "tiff-1-group4", saved(picture("1"), "TIFF", compression="group4")
    yield "lossy-tiff-jpeg", saved(picture("RGB", SMOOTH), "TIFF", compression="jpeg")
    for name, options in {
        "tiled": {"tile": (16, 16)}, "strips": {"rowsperstrip": 3}, "big": {"bigtiff": True},
        "big-endian": {"byteorder": ">"}, "predictor": {"compression": "zlib", "predictor": True},
    }.items():  # fmt: skip
        yield f"tiff-{name}", tiff(RGB, **options), "rgb", RGB
        if name != "tiled":
            yield f"tiff-16-{name}", tiff(RGB16, **options), "rgb", RGB16, "uint16"
    planes = tiff(np.moveaxis(RGB, -1, 0), photometric="rgb", planarconfig="separate")
    yield "tiff-planes", planes, "rgb", RGB
    for order, name in (("<", "little"), (">", "big")):
        data = tiff(GRAY16[..., 0], byteorder=order)
        yield f"tiff-16-gray-{name}", data, "grayscale", GRAY16, "uint16"
    floats = (GRAY16 / 7 - 300).astype(np.float32)
    yield "tiff-float", tiff(floats[..., 0]), "grayscale", floats, "float32"
    for turn in (3, 6):
        yield f"tiff-turned-{turn}", saved(picture(), "TIFF", tiffinfo={0x0112: turn})
    yield "tiff-pages", saved(picture(), "TIFF", save_all=True, append_images=[OTHER]), "rgb", RGB


def others():
    exact, frames = {"lossless": True, "exact": True}, {"save_all": True, "append_images": [OTHER]}
    yield "webp", saved(picture(), "WEBP", **exact), "rgb", RGB
    yield "webp-alpha", saved(picture("RGBA"), "WEBP", **exact), "rgba", NOISE
    yield "webp-exif-6", saved(picture(), "WEBP", exif=exif(6), **exact)
    yield "webp-animated", saved(picture(), "WEBP", **exact, **frames), "rgb", RGB
    yield "gif", saved(picture("P"), "GIF")
    yield "gif-animated", saved(picture("P"), "GIF", **frames)
    for mode in ("1", "L", "P", "RGB"):
        yield f"bmp-{mode}", saved(picture(mode), "BMP")
    rows = np.pad(RGB[..., ::-1].reshape(HEIGHT, -1), ((0, 0), (0, -WIDTH * 3 % 4)))
    head = struct.pack("<IiiHHIIiiII", 40, WIDTH, -HEIGHT, 1, 24, 0, 0, 0, 0, 0, 0)
    head = b"BM" + struct.pack("<IHHI", 54 + rows.size, 0, 0, 54) + head
    yield "bmp-top-down", head + rows.tobytes(), "rgb", RGB
    for format in ("PPM", "PCX", "TGA", "SGI", "ICO", "DDS"):
        options = {"sizes": [(WIDTH, HEIGHT)]} if format == "ICO" else {}
        yield format.lower(), saved(picture(), format, **options), "rgb", RGB
    yield "pgm", saved(picture("L"), "PPM"), "grayscale"
    deep = b"P5 14 11 65535\n" + GRAY16.astype(">u2").tobytes()
    yield "pgm-16", deep, "grayscale", GRAY16, "uint16"
    yield "tga-rle", saved(picture("RGBA"), "TGA", compression="tga_rle"), "rgba", NOISE
    yield "jp2", saved(picture(), "JPEG2000", irreversible=False), "rgb", RGB
    body = b"".join(b"\xfe" + bytes(pixel) for pixel in RGB.reshape(-1, 3)) + bytes(7) + b"\1"
    yield "qoi", b"qoif" + struct.pack(">IIBB", WIDTH, HEIGHT, 3, 0) + body, "rgb", RGB
    for format in ("WEBP", "HEIF", "AVIF"):
        yield f"lossy-{format}", saved(picture("RGB", SMOOTH), format, quality=90)


FILES = [file for make in (jpegs, pngs, tiffs, others) for file in make() if file[1]]
CASES = {name: Case(*case) for name, *case in FILES}


def rejected():
    big = Image.fromarray(np.random.default_rng(2).integers(0, 256, (64, 80, 3), np.uint8))
    for format in ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "TGA", "JPEG2000", "HEIF"):
        yield f"half-{format}", saved(big, format)[: len(saved(big, format)) // 2]
    jpeg, lzw = saved(big, "JPEG"), saved(big, "TIFF", compression="tiff_lzw")
    yield "jpeg-without-its-last-rows", jpeg[:-200]
    yield "jpeg-head-alone", jpeg[:200]
    yield "tiff-lzw-damaged", lzw[:300] + b"\xff" * 200 + lzw[500:]
    for name, at in {"size": 19, "pixels": 60}.items():
        data = bytearray(png(RGB, 2))
        data[at] ^= 16
        yield f"png-bit-of-its-{name}", bytes(data)
    yield "png-of-width-0", png(RGB, 2, size=(0, HEIGHT))
    yield "png-of-colour-7", png(RGB, 7)
    yield "png-without-palette", png(NOISE[..., :1], 3)
    yield "gray-16-bits", png(GRAY16, 0, 16)
    yield "floats", tiff(GRAY16[..., 0].astype(np.float32))
    array = io.BytesIO()
    np.save(array, RGB)
    yield "npy", array.getvalue()
    yield from {
        "empty": b"", "one-byte": b"\xff", "zeros": bytes(500), "noise": bytes(NOISE),
        "html": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
        "text": b"path,label\na.png,cat\n", "json": b'{"error": "not found"}',
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>',
        "pdf": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n",
        "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n",
        "zip": b"PK\x03\x04" + bytes(60), "wav": b"RIFF\x24\0\0\0WAVEfmt " + bytes(28),
        "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    }.items()  # fmt: skip


REJECTED = dict(rejected())
