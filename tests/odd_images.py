"""Makes about 600 small image files: what Pillow, OpenCV, tifffile and pillow-heif can write.

Each kind of file x mode x bits x compression x orientation; some are put together by hand, and some
damaged. `files()` is the corpus: name -> bytes; `test_odd_images.py` says what they must decode to.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from functools import cache

import cv2
import numpy as np
from PIL import Image

try:
    import pillow_heif
except ImportError:
    pillow_heif = None
try:
    import tifffile
except ImportError:
    tifffile = None

Image.init()
HEIGHT, WIDTH = 17, 24
Y, X = np.mgrid[0:HEIGHT, 0:WIDTH]
SMOOTH = np.stack([Y * 9 + 60, X * 7 + 40, Y * 4 + X * 4 + 20, 255 - X * 8], -1).astype(np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), dtype=np.uint8)
DEEP = np.random.default_rng(1).integers(0, 65536, (HEIGHT, WIDTH, 4), dtype=np.uint16)
CANNOT_TURN = ("1.19.6", "1.19.7", "1.19.8")  # versions of libheif
ORIENTATIONS = (*range(1, 9), 0, 9, 65535)

Files = Iterator[tuple[str, bytes]]


def saved(image: Image.Image, format: str, **options: object) -> bytes:
    """Return nothing where this version of Pillow does not write such a file."""
    file = io.BytesIO()
    try:
        image.save(file, format, **options)
    except (OSError, ValueError, KeyError, RuntimeError):
        return b""
    return file.getvalue()


def picture(mode: str, pixels: np.ndarray = NOISE) -> Image.Image:
    """Return an image of any mode that Pillow can write."""
    rgba = Image.fromarray(pixels)
    if mode == "P":
        return rgba.convert("RGB").quantize(200)
    if mode in ("I;16", "I;16B"):
        return Image.fromarray(DEEP[..., 0].astype("<u2" if mode == "I;16" else ">u2"))
    if mode == "I":
        return Image.fromarray(DEEP[..., 0].astype(np.int32))
    if mode == "F":
        return Image.fromarray(DEEP[..., 0].astype(np.float32) / 1000)
    if mode == "PA":
        return rgba.convert("RGB").convert("PA")
    if mode in ("LA", "RGBA", "1", "L"):
        return rgba.convert(mode)
    rgb = rgba.convert("RGB")
    return Image.merge("LAB", rgb.split()) if mode == "LAB" else rgb.convert(mode)


def exif(orientation: int) -> bytes:
    """Return a block of EXIF that holds nothing else."""
    return b"Exif\0\0II*\0\x08\0\0\0\1\0" + struct.pack("<HHIHxxI", 0x0112, 3, 1, orientation, 0)


def xmp(orientation: int, element: bool = False) -> bytes:
    said = f' tiff:Orientation="{orientation}"/>'
    if element:
        said = f"><tiff:Orientation>{orientation}</tiff:Orientation></rdf:Description>"
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf='
        '"http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description'
        f' xmlns:tiff="http://ns.adobe.com/tiff/1.0/"{said}</rdf:RDF></x:xmpmeta>'
    ).encode()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_with(png: bytes, extra: bytes, after_pixels: bool = False) -> bytes:
    """Put chunks after the header of a PNG, or after its pixels."""
    at = len(png) - 12 if after_pixels else 33
    return png[:at] + extra + png[at:]


def itxt(text: bytes, packed: bool = False) -> bytes:
    body = zlib.compress(text) if packed else text
    return chunk(
        b"iTXt", b"XML:com.adobe.xmp\0" + (b"\1\0" if packed else b"\0\0") + b"\0\0" + body
    )


def raw_profile(block: bytes) -> bytes:
    """Return EXIF as ImageMagick wrote it into PNG."""
    digits = block.hex()
    lines = "\n".join(digits[at : at + 72] for at in range(0, len(digits), 72))
    text = f"\nexif\n{len(block):8}\n{lines}\n".encode()
    return chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(text))


def interlaced_png(pixels: np.ndarray, color: int) -> bytes:
    """Return an Adam7 PNG of 8 or 16 bits (PNG, third edition, section 8)."""
    rows = b""
    for top, left, down, across in (
        (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
        (1, 0, 2, 1),
    ):  # fmt: skip
        for row in pixels[top::down, left::across]:
            rows += b"\0" + row.astype(row.dtype.newbyteorder(">")).tobytes()
    size = struct.pack(">II5B", WIDTH, HEIGHT, 8 * pixels.itemsize, color, 0, 0, 1)
    parts = chunk(b"IHDR", size), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpegs() -> Files:
    for mode in ("L", "RGB", "CMYK", "YCbCr"):
        for name, options in {
            "plain": {}, "progressive": {"progressive": True}, "optimized": {"optimize": True},
            "restarts": {"restart_marker_blocks": 2}, "rough": {"quality": 5},
            "fine": {"quality": 100, "subsampling": 0}, "half": {"subsampling": 1},
        }.items():  # fmt: skip
            yield f"jpeg-{mode}-{name}", saved(picture(mode, SMOOTH), "JPEG", **options)
    plain = saved(picture("RGB", SMOOTH), "JPEG")
    for turned in ORIENTATIONS:
        yield f"jpeg-exif-{turned}", saved(picture("RGB", SMOOTH), "JPEG", exif=exif(turned))
        packet = b"http://ns.adobe.com/xap/1.0/\0" + xmp(turned, element=turned % 2 == 0)
        segment = b"\xff\xe1" + struct.pack(">H", len(packet) + 2) + packet
        yield f"jpeg-xmp-{turned}", plain[:20] + segment + plain[20:]
    both = saved(picture("RGB", SMOOTH), "JPEG", exif=exif(3), xmp=xmp(6))
    yield "jpeg-exif-3-xmp-6", both
    yield "jpeg-with-another-after-it", plain + both
    profile = b"ICC_PROFILE\0\5\1no profile"  # the fifth part of one
    segment = b"\xff\xe2" + struct.pack(">H", len(profile) + 2) + profile
    yield "jpeg-icc-broken", plain[:20] + segment + plain[20:]
    yield "jpeg-stray-bytes", plain[:20] + b"\1\2\3" + plain[20:]


def pngs() -> Files:
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "I"):
        for level in (0, 9):
            yield f"png-{mode}-level-{level}", saved(picture(mode), "PNG", compress_level=level)
    for bits in (1, 2, 4, 8):
        few = picture("RGB").quantize(2**bits)
        yield f"png-palette-{bits}-bits", saved(few, "PNG", bits=bits)
        yield f"png-palette-{bits}-bits-one-clear", saved(few, "PNG", bits=bits, transparency=1)
        alphas = bytes(index * 7 % 256 for index in range(2**bits))
        yield f"png-palette-{bits}-bits-alphas", saved(few, "PNG", bits=bits, transparency=alphas)
    yield "png-L-clear", saved(picture("L"), "PNG", transparency=int(NOISE[0, 0, 0]))
    yield (
        "png-RGB-clear",
        saved(picture("RGB"), "PNG", transparency=tuple(NOISE[0, 0, :3].tolist())),
    )
    for mode, values in (("1", 0xFF5B), ("L", 300), ("RGB", 400)):  # of more bits than the image
        body = struct.pack(">H", values) * len(picture(mode).getbands())
        yield (
            f"png-{mode}-clear-too-deep",
            png_with(saved(picture(mode), "PNG"), chunk(b"tRNS", body)),
        )
    for channels, color in ((1, 0), (3, 2), (4, 6)):
        for name, pixels in (("8", NOISE), ("16", DEEP)):
            part = pixels[..., :channels]
            swapped = part if channels == 1 else part[..., [2, 1, 0, 3][:channels]]
            yield f"png-opencv-{channels}x{name}", cv2.imencode(".png", swapped)[1].tobytes()
            yield f"png-interlaced-{channels}x{name}", interlaced_png(part, color)
    plain = saved(picture("RGB"), "PNG")
    for turned in ORIENTATIONS:
        for after in (False, True):
            place = "after" if after else "before"
            for name, extra in {
                "exif": chunk(b"eXIf", exif(turned)[6:]), "xmp": itxt(xmp(turned)),
                "packed-xmp": itxt(xmp(turned), packed=True), "raw": raw_profile(exif(turned)),
            }.items():  # fmt: skip
                yield f"png-{name}-{place}-{turned}", png_with(plain, extra, after)
    first, second = picture("RGB"), picture("RGB", 255 - NOISE)
    yield "png-animated", saved(first, "PNG", save_all=True, append_images=[second])
    yield (
        "png-animated-beside",
        saved(first, "PNG", save_all=True, append_images=[second, first], default_image=True),
    )
    yield (
        "png-animated-palette",
        saved(picture("P"), "PNG", save_all=True, append_images=[picture("P", 255 - NOISE)]),
    )
    for name, extra in {
        "bad-profile": chunk(b"iCCP", b"x\0\0" + zlib.compress(b"junk")),
        "bad-gamma": chunk(b"gAMA", bytes(4)), "bad-time": chunk(b"tIME", b"\0"),
        "bad-clear": chunk(b"tRNS", bytes(5)), "palette-unused": chunk(b"PLTE", bytes(9)),
        "unknown": chunk(b"prVt", b"secret"), "bad-text": chunk(b"zTXt", b"k\0\0nonsense"),
    }.items():  # fmt: skip
        yield f"png-{name}", png_with(plain, extra)
    pieces = [plain[41:-16][at : at + 100] for at in range(0, len(plain) - 57, 100)]
    pixels = plain[41 : 41 + int.from_bytes(plain[33:37], "big")]
    pieces = [pixels[at : at + 100] for at in range(0, len(pixels), 100)]
    many = b"".join(chunk(b"IDAT", piece) for piece in [b"", *pieces, b""])
    yield "png-many-chunks", plain[:33] + many + plain[-12:]


def webps() -> Files:
    for mode in ("L", "RGB", "RGBA", "P", "1", "LA", "CMYK"):
        for name, options in {
            "lossless": {"lossless": True}, "exact": {"lossless": True, "exact": True},
            "lossy": {"quality": 60}, "method-0": {"quality": 90, "method": 0},
        }.items():  # fmt: skip
            yield f"webp-{mode}-{name}", saved(picture(mode), "WEBP", **options)
    for turned in ORIENTATIONS:
        options = {"lossless": True}
        yield f"webp-exif-{turned}", saved(picture("RGB"), "WEBP", exif=exif(turned), **options)
        yield f"webp-xmp-{turned}", saved(picture("RGB"), "WEBP", xmp=xmp(turned), **options)
    frames = [picture("RGB", 255 - NOISE), picture("RGB", SMOOTH)]
    for mode in ("RGB", "RGBA"):
        animated = saved(picture(mode), "WEBP", save_all=True, append_images=frames, lossless=True)
        yield f"webp-animated-{mode}", animated


def tiffs() -> Files:
    kinds = (
        "1",
        "L",
        "LA",
        "P",
        "PA",
        "RGB",
        "RGBA",
        "RGBX",
        "CMYK",
        "LAB",
        "YCbCr",
        "I;16",
        "I;16B",
        "I",
        "F",
    )
    packed = (
        "raw",
        "tiff_lzw",
        "tiff_adobe_deflate",
        "tiff_deflate",
        "packbits",
        "group3",
        "group4",
        "jpeg",
        "lzma",
        "zstd",
    )
    for mode in kinds:
        for how in packed:
            yield f"tiff-{mode}-{how}", saved(picture(mode), "TIFF", compression=how)
    for mode in ("L", "RGB", "P", "I;16"):
        yield f"tiff-big-{mode}", saved(picture(mode), "TIFF", big_tiff=True)
        yield (
            f"tiff-strips-{mode}",
            saved(picture(mode), "TIFF", compression="tiff_lzw", strip_size=100),
        )
        yield (
            f"tiff-predictor-{mode}",
            saved(picture(mode), "TIFF", compression="tiff_adobe_deflate", tiffinfo={317: 2}),
        )
    for turned in ORIENTATIONS:
        for how in ("raw", "tiff_lzw"):
            for mode in ("RGB", "I;16"):
                tags = {0x0112: turned}
                yield (
                    f"tiff-turned-{how}-{mode}-{turned}",
                    saved(picture(mode), "TIFF", compression=how, tiffinfo=tags),
                )
        yield f"tiff-xmp-{turned}", saved(picture("RGB"), "TIFF", tiffinfo={700: xmp(turned)})
    yield (
        "tiff-pages",
        saved(picture("RGB"), "TIFF", save_all=True, append_images=[picture("L"), picture("P")]),
    )


def tifffile_files() -> Files:
    """TIFFs that only tifffile writes: planes, tiles, both orders of bytes, every dtype."""
    if tifffile is None:
        return
    for dtype in ("u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "f8"):
        for channels in (1, 2, 3, 4, 5):
            for planar in ("contig", "separate"):
                if channels == 1 and planar == "separate":
                    continue
                pixels = (DEEP if dtype[1] != "1" else NOISE)[..., [0, 1, 2, 3, 0][:channels]]
                pixels = np.squeeze((pixels // 256 if dtype == "f2" else pixels).astype(dtype))
                if planar == "separate":
                    pixels = np.moveaxis(pixels, -1, 0)
                for order in "<>":
                    file = io.BytesIO()
                    tifffile.imwrite(
                        file, pixels, byteorder=order, metadata=None,
                        photometric="rgb" if channels in (3, 4) else "minisblack",
                        planarconfig=planar if channels > 1 else None,
                        extrasamples=["unassalpha"] if channels in (2, 4) else None,
                    )  # fmt: skip
                    yield f"tifffile-{dtype}x{channels}-{planar}-{order}", file.getvalue()
    for name, options in {
        "tiled": {"tile": (16, 16)}, "rows": {"rowsperstrip": 3}, "big": {"bigtiff": True},
        "lzw": {"compression": "lzw"}, "zlib": {"compression": "zlib"},
        "predicted": {"compression": "zlib", "predictor": True},
        "tiles-packed": {"compression": "zlib", "tile": (16, 16)},
    }.items():  # fmt: skip
        for bits, pixels in ((8, NOISE), (16, DEEP)):
            for planar in ("contig", "separate"):
                part = pixels[..., :3]
                part = part if planar == "contig" else np.moveaxis(part, -1, 0)
                file = io.BytesIO()
                options = {
                    "photometric": "rgb",
                    "planarconfig": planar,
                    "metadata": None,
                    **options,
                }
                try:
                    tifffile.imwrite(file, part, **options)
                except (ImportError, ValueError, KeyError):
                    continue  # some compressions need imagecodecs
                yield f"tifffile-{name}-{bits}-{planar}", file.getvalue()


def bmps() -> Files:
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield f"bmp-{mode}", saved(picture(mode), "BMP")
    for bits in (1, 4):
        few = picture("RGB").quantize(2**bits)
        yield f"bmp-palette-{bits}-colours", saved(few, "BMP")
    rows = np.pad(NOISE[::-1, :, :3], ((0, 0), (0, 0), (0, 0)))[..., ::-1]
    for name, height, body in (("up", HEIGHT, rows), ("down", -HEIGHT, rows[::-1])):
        head = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, 24, 0, 0, 0, 0, 0, 0)
        yield f"bmp-{name}", _bmp(head, body.tobytes())
    short = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 24)
    yield "bmp-os2", _bmp(short, rows.tobytes())
    words = DEEP[..., 0]
    head = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 16, 0, 0, 0, 0, 0, 0)
    yield "bmp-555", _bmp(head, (words & 0x7FFF).tobytes())
    head = struct.pack(
        "<IiiHHIIiiIIIII", 40, WIDTH, HEIGHT, 1, 16, 3, 0, 0, 0, 0, 0, 0xF800, 0x7E0, 0x1F
    )
    yield "bmp-565", _bmp(head, words.tobytes())
    colours = np.random.default_rng(2).integers(0, 256, (256, 4), dtype=np.uint8).tobytes()
    runs = b"".join(
        b"".join(bytes([3, value]) for value in row[::3]) + b"\0\0" for row in NOISE[..., 0]
    )
    head = struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 8, 1, len(runs) + 2, 0, 0, 256, 0)
    yield "bmp-rle8", _bmp(head + colours, runs + b"\0\1")


def _bmp(head: bytes, body: bytes) -> bytes:
    return (
        b"BM" + struct.pack("<IHHI", 14 + len(head) + len(body), 0, 0, 14 + len(head)) + head + body
    )


def gifs() -> Files:
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        for interlaced in (0, 1):
            yield f"gif-{mode}-{interlaced}", saved(picture(mode), "GIF", interlace=interlaced)
    yield "gif-clear", saved(picture("P"), "GIF", transparency=5)
    yield (
        "gif-animated",
        saved(picture("P"), "GIF", save_all=True, append_images=[picture("P", 255 - NOISE)]),
    )
    screen = bytearray(saved(picture("P"), "GIF"))
    screen[6:10] = struct.pack("<HH", WIDTH + 5, HEIGHT + 3)
    yield "gif-smaller-than-its-screen", bytes(screen)


def pnms() -> Files:
    for mode in ("1", "L", "RGB", "I;16", "I"):
        yield f"pnm-{mode}", saved(picture(mode), "PPM")
    yield "pnm-plain-bits", b"P1\n# c\n3 2\n1 0 1\n0 1 0\n"
    yield "pnm-plain-gray", b"P2 3 2 100\n0 20 40 60 80 100\n"
    yield "pnm-plain-rgb", b"P3\n1 2\n255\n1 2 3\n4 5 6\n"
    yield "pnm-levels", b"P5\n3 2\n100\n" + bytes([0, 20, 40, 60, 80, 100])
    yield "pnm-rgb-levels", b"P6\n2 1\n100\n" + bytes([0, 20, 40, 60, 80, 100])
    head = f"P6\n{WIDTH} {HEIGHT}\n65535\n".encode()
    yield "pnm-deep-rgb", head + DEEP[..., :3].astype(">u2").tobytes()


def small_formats() -> Files:
    for mode in ("1", "L", "P", "RGB"):
        yield f"pcx-{mode}", saved(picture(mode), "PCX")
    for mode in ("L", "RGB", "RGBA"):
        for bytes_each in (1, 2):
            yield f"sgi-{mode}-{bytes_each}", saved(picture(mode), "SGI", bpc=bytes_each)
    for mode in ("L", "LA", "P", "RGB", "RGBA"):
        for how in (None, "tga_rle"):
            for upwards in (1, -1):
                yield (
                    f"tga-{mode}-{how}-{upwards}",
                    saved(
                        picture(mode), "TGA", compression=how, orientation=upwards, id_section=b"i"
                    ),
                )
    yield "tga-bits", saved(picture("1"), "TGA")
    for mode in ("L", "LA", "RGB", "RGBA"):
        yield f"dds-{mode}", saved(picture(mode), "DDS")
    for how in ("DXT1", "DXT3", "DXT5", "BC3"):
        yield f"dds-{how}", saved(picture("RGBA").resize((24, 16)), "DDS", pixel_format=how)
    for mode in ("RGB", "RGBA"):
        yield f"qoi-{mode}", saved(picture(mode), "QOI")
    for mode in ("L", "RGB", "RGBA", "P"):
        yield (
            f"ico-{mode}",
            saved(picture(mode).resize((32, 32), 0), "ICO", sizes=[(16, 16), (32, 32)]),
        )
        bitmap = saved(
            picture(mode).resize((32, 32), 0), "ICO", sizes=[(32, 32)], bitmap_format="bmp"
        )
        yield f"ico-bitmap-{mode}", bitmap
        if mode != "RGB":
            yield f"cur-{mode}", b"\0\0\2\0" + bitmap[4:10] + bytes(4) + bitmap[14:]
    yield "icns", saved(picture("RGBA").resize((128, 128), 0), "ICNS")
    for channels in (1, 3, 4):
        for deep, part in ((8, NOISE), (16, DEEP)):
            planes = np.moveaxis(part[..., :channels], -1, 0).astype(f">u{deep // 8}").tobytes()
            kind = {1: 1, 3: 3, 4: 4}[channels]
            head = struct.pack(">4sH6xHIIHH", b"8BPS", 1, channels, HEIGHT, WIDTH, deep, kind)
            yield f"psd-{channels}x{deep}", head + bytes(12) + b"\0\0" + planes
    body = NOISE[..., 2::-1].tobytes()
    yield "sun", struct.pack(">8I", 0x59A66A95, WIDTH, HEIGHT, 24, len(body), 1, 0, 0) + body


def modern_formats() -> Files:
    if "JPEG2000" in Image.SAVE:
        for mode in ("L", "LA", "RGB", "RGBA", "I;16"):
            for name, options in {
                "exact": {}, "lossy": {"irreversible": True}, "stream": {"no_jp2": True},
                "tiled": {"tile_size": (16, 16)},
            }.items():  # fmt: skip
                yield f"jpeg2000-{mode}-{name}", saved(picture(mode), "JPEG2000", **options)
    if "AVIF" in Image.SAVE:
        for mode in ("L", "LA", "RGB", "RGBA", "P"):
            yield f"avif-{mode}", saved(picture(mode, SMOOTH), "AVIF", quality=90, speed=10)
        for turned in ORIENTATIONS[:8]:
            yield (
                f"avif-turned-{turned}",
                saved(picture("RGB", SMOOTH), "AVIF", exif=exif(turned), speed=10),
            )
        yield "avif-xmp-6", saved(picture("RGB", SMOOTH), "AVIF", xmp=xmp(6), speed=10)
    if pillow_heif is not None:
        for mode in ("L", "RGB", "RGBA"):
            for turned in (1, *(range(2, 9) if mode == "RGB" else ())):
                image = pillow_heif.from_pillow(picture(mode, SMOOTH).resize((64, 48)))
                file = io.BytesIO()
                options = {"exif": exif(turned)} if turned > 1 else {}
                image.save(file, quality=90, **options)
                yield f"heif-{mode}-{turned}", file.getvalue()


@cache
def files() -> dict[str, bytes]:
    """Return name -> bytes of whole files."""
    makers = (
        jpegs, pngs, webps, tiffs, tifffile_files, bmps, gifs, pnms, small_formats, modern_formats,
    )  # fmt: skip
    return {name: data for maker in makers for name, data in maker() if data}


DAMAGED = (
    "jpeg-RGB-plain", "jpeg-RGB-progressive", "png-RGB-level-9", "png-palette-8-bits",
    "png-exif-before-6", "png-interlaced-3x16", "png-many-chunks", "webp-RGBA-lossless",
    "webp-exif-6", "tiff-RGB-raw", "tiff-RGB-tiff_lzw", "tiff-L-group4", "tiff-1-group4",
    "tiff-1-group3", "tiff-RGB-jpeg", "tiff-YCbCr-tiff_adobe_deflate", "tiff-YCbCr-tiff_lzw",
    "tiff-RGBA-packbits", "tiff-I;16-tiff_adobe_deflate", "tifffile-u2x3-contig-<", "bmp-P",
    "bmp-rle8", "gif-P-0",
    "pnm-deep-rgb", "pnm-plain-rgb", "pcx-RGB", "sgi-RGB-1", "tga-RGB-tga_rle-1", "dds-RGB",
    "qoi-RGB", "ico-RGBA", "psd-3x8", "sun", "jpeg2000-RGB-exact", "avif-RGB",
    "heif-RGB-1",
)  # fmt: skip


@cache
def damaged_files() -> dict[str, dict[str, bytes]]:
    """Return name -> name -> bytes of it cut short, overwritten, or lying in its first bytes."""
    found = {}
    for name in DAMAGED:
        data = files().get(name)
        if data is None:  # no writer here
            continue
        ways = found[name] = {}
        rng = np.random.default_rng(zlib.crc32(name.encode()))  # its own, whoever else is there
        for share in (0.1, 0.3, 0.6, 0.9, 0.99):
            ways[f"cut-{share}"] = data[: max(20, int(len(data) * share))]
        for number in range(8):
            broken = bytearray(data)
            for at in rng.integers(12, len(data), 1 + number):
                broken[at] ^= int(rng.integers(1, 256))
            ways[f"flipped-{number}"] = bytes(broken)
        for number in range(8):
            broken = bytearray(data)
            broken[int(rng.integers(4, min(60, len(data))))] = int(rng.choice([0, 1, 127, 255]))
            ways[f"lying-{number}"] = bytes(broken)
    return {**found, "png": dict(_png_damage())}


def _png_damage() -> Files:
    plain = files()["png-RGB-level-9"]
    yield "checksum", plain[:-14] + b"\0\0" + plain[-12:]
    yield "last-length", plain[:-12] + b"\0\0\0\1" + plain[-8:]
    yield "last-checksum", plain[:-1] + b"\0"
    yield "empty-pixels", plain[:33] + chunk(b"IDAT", b"") + plain[-12:]
    yield "no-pixels", plain[:33] + plain[-12:]
    yield "huge-chunk", png_with(plain, b"\x7f\xff\xff\xfftEXt")
    head = struct.pack(">II5B", WIDTH, HEIGHT, 8, 7, 0, 0, 0)
    yield "colour", plain[:8] + chunk(b"IHDR", head) + plain[33:]
    head = struct.pack(">II5B", 0, HEIGHT, 8, 2, 0, 0, 0)
    yield "width", plain[:8] + chunk(b"IHDR", head) + plain[33:]
    indexed = files()["png-palette-8-bits"]
    pixels = indexed.index(b"IDAT") - 4
    yield "palette-gone", indexed[:33] + indexed[pixels:]
    yield "palette-empty", indexed[:33] + chunk(b"PLTE", b"") + indexed[pixels:]
    yield "palette-changed", indexed[:41] + bytes([indexed[41] ^ 1]) + indexed[42:]
