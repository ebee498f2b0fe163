"""Image files of several kinds whose pixels hold the row number, to be packed."""

import io

import cv2
import numpy as np
import pandas as pd
import PIL.Image

from dfgen.packs.pack_index import open_arrow, read_index
from dfgen.packs.writing.pack import Packed, run_pack
from dfgen.packs.writing.pack_arguments import PackArguments


def write_images(folder, rows, size=(6, 8), suffix=".png", first=0):
    """Write images of one size, red as the number of the row from `first`; return a manifest."""
    folder.mkdir(exist_ok=True)
    paths = [str(folder / f"{row}{suffix}") for row in range(rows)]
    for row, path in enumerate(paths):
        pixels = np.zeros((*size, 3), np.uint8)
        pixels[..., 2] = first + row
        cv2.imwrite(path, pixels)
    kinds = pd.Categorical([f"kind {row * 4 // rows}" for row in range(rows)])
    return pd.DataFrame({"id": range(rows), "path": paths, "kind": kinds})


def photograph(size, orientation=None, format="JPEG"):
    """Return the bytes of a file of (height, width): red to the right, green downwards."""
    down, right = np.indices(size)
    pixels = np.stack([right * 255 // size[1], down * 255 // size[0], 0 * down], 2).astype(np.uint8)
    exif = PIL.Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, format, quality=95, exif=exif)
    return file.getvalue()


def assert_same(one, other):
    """Compare dicts of arrays."""
    assert len(one) == len(other) > 0
    for first, second in zip(one, other, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            assert np.array_equal(first[name], second[name])


def table_of(folder):
    """Return all shards of a pack as one table, read by Arrow alone."""
    import pyarrow as pa

    index = read_index(folder)
    return pa.concat_tables([open_arrow(index.path(shard)).read_all() for shard in index.shards])


def packed(frame, out, storage_options=None, executor=None, **arguments) -> Packed:
    more = {"storage_options": storage_options, "executor": executor}
    return run_pack(frame, out, PackArguments(**arguments), **more)
