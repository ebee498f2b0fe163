"""Images of different sizes, whose pixels tell their row and place."""

import cv2
import numpy as np
import pandas as pd
import PIL.Image

import dfgen
from dfgen.loading.order.draws import permutation

ROWS = 30
ROTATED = 4  # this row's file lies on its side, by EXIF orientation 6


def size_of(row):
    """(height, width) of an upright image."""
    return 3 + row % 5, 4 + row % 7


def pixels_of(row):
    """Each pixel tells the row and where it stands, so that nothing could be exchanged."""
    height, width = size_of(row)
    down, across = np.mgrid[:height, :width]
    return np.stack([np.full_like(down, 100 + row), 1 + down, 1 + across], axis=-1).astype(np.uint8)


def write_images(folder):
    (folder / "images").mkdir()
    (folder / "masks").mkdir()
    for row in range(ROWS):
        image = PIL.Image.fromarray(pixels_of(row))
        exif = PIL.Image.Exif()
        if row == ROTATED:
            image = image.transpose(PIL.Image.Transpose.ROTATE_90)
            exif[0x0112] = 6
        image.save(folder / "images" / f"{row:02}.png", exif=exif)
        mask = np.full(size_of(row), row, np.uint8)
        cv2.imwrite(f"{folder}/masks/{row:02}.png", mask)
    return folder


def manifest_of(folder):
    """A manifest without facts."""
    return pd.DataFrame(
        {
            "id": range(ROWS),
            "path": [f"{folder}/images/{row:02}.png" for row in range(ROWS)],
            "mask": [f"{folder}/masks/{row:02}.png" for row in range(ROWS)],
            "label": pd.Categorical([("even", "odd")[row % 2] for row in range(ROWS)]),
        }
    )


def with_facts(manifest, **changed):
    stored = [size_of(row)[:: -1 if row == ROTATED else 1] for row in range(ROWS)]
    facts = {
        "height": [height for height, _ in stored],
        "width": [width for _, width in stored],
        "orientation": [6 if row == ROTATED else 1 for row in range(ROWS)],
    }
    return manifest.assign(**(facts | changed))


def sequence(manifest, x=None, **options):
    options = {"y": "label", "batch_size": 4, "workers": 2, **options}
    if x is None:
        return dfgen.Sequence(manifest, image_size=None, **options)
    return dfgen.Sequence(manifest, x=x, **options)


def rows_of(step, batch_size=4, epoch=0):
    order = permutation(np.arange(ROWS), ROWS, seed=0, epoch=epoch)
    return order[step * batch_size : (step + 1) * batch_size].tolist()


def padded(rows, make=pixels_of, fill=0, largest=None):
    height, width = np.max([size_of(row) for row in largest or rows], axis=0)
    batch = np.full((len(rows), height, width, 3), fill, make(0).dtype)
    for place, row in enumerate(rows):
        batch[place, : size_of(row)[0], : size_of(row)[1]] = make(row)
    return batch


def equal(found, expected):
    return found.dtype == expected.dtype and np.array_equal(found, expected)


OPTIONS = [
    {"workers": 0},
    {"workers": 1},
    {"workers": 7},
    {"workers": 1, "use_multiprocessing": True},
]
