"""Image files of many kinds in folders, for `dfgen.migrate` beside Keras's own generator."""

from pathlib import Path

import cv2
import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

KINDS = ("cat", "dog", "owl")
SIZES = [(21, 34), (40, 25), (16, 12), (9, 50), (33, 33)]


def picture(row, mode="RGB"):
    """An image with edges and shades, other ones for each row."""
    height, width = SIZES[row % len(SIZES)]
    rng = np.random.default_rng(row)
    shades = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    image = Image.fromarray(cv2.resize(shades, (width, height), interpolation=cv2.INTER_CUBIC))
    ImageDraw.Draw(image).line((0, 0, width, height), fill=(row * 9 % 256, 255, 0), width=2)
    if mode == "RGBA":
        image.putalpha(Image.fromarray(rng.integers(0, 256, (height, width), dtype=np.uint8)))
        return image
    if mode == "I;16":
        return Image.fromarray(rng.integers(0, 2**16, (height, width), dtype=np.uint16))
    return image.quantize(16) if mode == "P" else image.convert(mode)


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


WRITERS = [
    ("jpg", "RGB", {"quality": 90}),
    ("png", "RGB", {}),
    ("jpeg", "L", {}),
    ("png", "RGBA", {}),
    ("bmp", "RGB", {}),
    ("jpg", "RGB", {"exif": turned()}),
    ("png", "L", {}),
    ("tif", "RGB", {}),
    ("png", "P", {}),
    ("ppm", "RGB", {}),
    ("jpg", "CMYK", {}),
    ("png", "LA", {}),
    ("JPG", "RGB", {"progressive": True, "format": "JPEG"}),
    ("png", "I;16", {}),
    ("tif", "I;16", {}),
    ("png", "P", {"transparency": 3}),
    ("png", "1", {}),
    ("jpg", "RGB", {"subsampling": 0, "quality": 75}),
]


def write_folder(folder):
    """Write `folder/{kind}/{row}.{suffix}`; return a frame of relative paths and labels."""
    rows = []
    for row, (suffix, mode, arguments) in enumerate(WRITERS):
        kind = KINDS[row % len(KINDS)]
        path = Path(folder, kind, f"{row:02}.{suffix}")
        path.parent.mkdir(exist_ok=True)
        picture(row, mode).save(path, **arguments)
        rows.append((f"{kind}/{path.name}", kind, row, row / 7, [kind, KINDS[0]]))
    return pd.DataFrame(rows, columns=["filename", "class", "number", "share", "tags"])
