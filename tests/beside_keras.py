"""Image files of many kinds, and what `dfgen.migrate` and Keras's own generator make of them."""

import contextlib
import io
import warnings
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
from keras.src.legacy.preprocessing import image as legacy
from PIL import Image, ImageDraw

from dfgen.migrate import ImageDataGenerator

BOTH = ImageDataGenerator, legacy.ImageDataGenerator

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


SIZE = {"target_size": (16, 12), "batch_size": 5, "shuffle": False}
ATTRIBUTES = [
    "samples", "n", "batch_size", "image_shape", "class_indices", "classes", "labels", "filenames",
    "filepaths", "class_mode", "color_mode", "data_format", "dtype", "interpolation", "seed",
    "save_to_dir", "save_prefix", "save_format", "shuffle", "subset", "target_size", "num_classes",
    "keep_aspect_ratio", "batch_index", "total_batches_seen", "sample_weight", "directory",
    "white_list_formats", "allowed_class_modes",
]  # fmt: skip


def made(generator, flow, *arguments, of=None, **options):
    """What one of the two makes, or raises; what it warns of, and what it prints."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            result = getattr(generator(**(of or {})), flow)(*arguments, **options)
        except Exception as error:
            result = error
    told = [(one.category, str(one.message)) for one in caught]
    return result, told, printed.getvalue()


def both(flow, *arguments, **options):
    pairs = [made(generator, flow, *arguments, **options) for generator in BOTH]
    (ours, our_warnings, our_print), (theirs, their_warnings, their_print) = pairs
    assert our_print == their_print
    assert [one[0] for one in our_warnings] == [one[0] for one in their_warnings]
    for (_, our), (_, their) in zip(our_warnings, their_warnings, strict=True):
        assert our.startswith(their), "Keras's own words come first"
    return ours, theirs


def same(ours, theirs, atol=0.0):
    """Compare two arrays, or lists of them: dtypes, shapes, values."""
    if isinstance(theirs, pd.api.extensions.ExtensionArray):  # text of pandas 3
        theirs = np.asarray(theirs)
    assert type(ours) is type(theirs)
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, atol)
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind in "OU":
            assert ours.tolist() == theirs.tolist()
        else:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
    else:
        assert ours == theirs


def assert_same(ours, theirs, atol=0.0):
    """Compare iterators: what they tell of themselves, then batches by index and by `next`."""
    for name in ATTRIBUTES:
        extra = name == "subset"  # which the iterator of arrays has too
        assert extra or hasattr(ours, name) == hasattr(theirs, name), name
        if hasattr(theirs, name):
            same(getattr(ours, name), getattr(theirs, name))
    assert len(ours) == len(theirs)
    for index in range(len(theirs)):
        same(ours[index], theirs[index], atol)
    for _ in range(len(theirs) + 1 if len(theirs) else 0):
        same(next(ours), next(theirs), atol)
        assert ours.batch_index == theirs.batch_index
        assert ours.total_batches_seen == theirs.total_batches_seen
        assert ours.index_array.tolist() == theirs.index_array.tolist()
