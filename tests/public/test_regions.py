"""Masks of files, polygons and run lengths against NumPy and pycocotools."""

import json

import cv2
import numpy as np
import pandas as pd
import PIL.Image
import pytest
from pycocotools import mask as coco

import dfgen
from dfgen.errors import DfgenError
from public.first_batch import batch_of, equal

SIZE = (31, 45)
SQUARE = [4.0, 3, 16, 3, 16, 15, 4, 15]
STAR = [20, 1, 8, 28.5, 38, 10, 2.25, 10, 32, 28]  # its edges cross
OUTSIDE = [-5, 20, 30, -7.5, 60, 40]
IMAGE = dfgen.Image("path", size=SIZE)


def packed(mask):
    found = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": list(SIZE), "counts": found["counts"].decode()}


def counts(mask):
    values = mask.ravel(order="F").astype(int)
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    runs = np.diff(edges).tolist()
    return {"size": list(SIZE), "counts": ([0] if values[0] else []) + runs}


Y, X = np.indices(SIZE)
MIXED = (Y * 7 + X * 3) % 11 < 4
REGIONS = {
    "square": [SQUARE], "star": [STAR], "outside": [OUTSIDE], "parts": [SQUARE, STAR, OUTSIDE],
    "beyond": [[90, 90, 99, 90, 99, 99]], "packed": packed(MIXED), "counts": counts(MIXED),
    "full": counts(np.ones(SIZE)), "empty": packed(np.zeros(SIZE)),
    "thin": [[5, 5, 25, 5, 25, 5.4]],
}  # fmt: skip


def drawn(region):
    if isinstance(region, list):
        return coco.decode(coco.merge(coco.frPyObjects(region, *SIZE)))
    text = isinstance(region["counts"], str)
    return coco.decode(region if text else coco.frPyObjects(region, *SIZE))


@pytest.fixture
def rows(tmp_path):
    """Return a function: a frame of rows, each with the regions that it is called with."""
    cv2.imwrite(f"{tmp_path}/a.png", np.zeros((*SIZE, 3), np.uint8))

    def make(*regions, labels=None, **columns):
        texts = [[json.dumps(region) for region in row] for row in regions]
        labels = labels or [["cat"] * len(row) for row in regions]
        given = {"path": f"{tmp_path}/a.png", "segmentation": texts, "labels": labels}
        return pd.DataFrame({"id": [f"r{n}" for n in range(len(regions))], **given, **columns})

    return make


def test_regions_are_drawn_as_by_pycocotools(rows):
    df = rows(*([region] for region in REGIONS.values()))
    y = batch_of(df, IMAGE, dfgen.Segmentation(class_names=["cat", "dog"]))[1]
    assert (y.shape, y.dtype) == ((len(df), *SIZE, 1), np.uint8)
    for name, found, region in zip(REGIONS, y[..., 0], REGIONS.values(), strict=True):
        np.testing.assert_array_equal(found, drawn(region), name)


def test_lists_of_numbers_are_polygons(rows):
    df = rows([SQUARE], [STAR]).assign(segmentation=[[SQUARE], [[*map(float, STAR)]]])
    y = batch_of(df, IMAGE, dfgen.Segmentation(class_names=["cat"]))[1]
    equal(y[..., 0], np.stack([drawn([SQUARE]), drawn([STAR])]))


LEVELS = np.random.default_rng(3).integers(0, 4, SIZE, np.uint8)


def mask_of(rows, tmp_path, image, file="mask.png", **options):
    df = rows([]).assign(mask=f"{tmp_path}/{file}")
    return batch_of(df, image, dfgen.Mask("mask", **options))[1][0]


def test_masks_keep_values_of_every_file_kind(rows, tmp_path):
    colours = [(0, 0, 0), (200, 0, 0), (0, 128, 0), (9, 9, 9)]
    indexed = PIL.Image.fromarray(LEVELS)
    indexed.save(tmp_path / "mask.png")
    PIL.Image.fromarray(LEVELS * np.uint16(300)).save(tmp_path / "deep.png")
    palette = indexed.copy()
    palette.putpalette([number for colour in colours for number in colour])
    palette.save(tmp_path / "indexed.png")
    palette.convert("RGB").save(tmp_path / "rgb.png")
    PIL.Image.fromarray(LEVELS > 1).save(tmp_path / "bits.png")
    three = {"palette": {colour: 10 + n for n, colour in enumerate(colours)}}
    cases = [
        ("mask.png", {}, LEVELS), ("indexed.png", {}, LEVELS), ("bits.png", {}, LEVELS > 1),
        ("deep.png", {"dtype": "int32"}, LEVELS.astype(int) * 300), ("rgb.png", three, LEVELS + 10),
        ("mask.png", {"palette": {0: 5, 1: 4, 2: 255, 3: 0}}, np.array([5, 4, 255, 0])[LEVELS]),
    ]  # fmt: skip
    for file, options, expected in cases:
        found = mask_of(rows, tmp_path, IMAGE, file, **options)
        equal(found, expected[..., None].astype(options.get("dtype", "uint8")))
    for file, options in (("rgb.png", {}), ("deep.png", {}), ("mask.png", {"palette": {0: 0}})):
        with pytest.raises(DfgenError, match="r0"):
            mask_of(rows, tmp_path, IMAGE, file, **options)


def test_later_objects_cover_earlier_ones_above_crowds(rows):
    bar = [[0, 0, 10, 0, 10, 30, 0, 30]]
    objects, labels = [[SQUARE], bar, counts(np.ones(SIZE))], ["cat", "dog", "cat"]
    df = rows(objects, labels=[labels], iscrowd=[[False, False, True]])
    names = {"class_names": ["cat", "dog"]}
    expected = np.where(drawn([SQUARE]), 1, 255)
    expected[drawn(bar) > 0] = 2
    for options in ({"ignore": 255}, {"ignore": 3}, {}):
        found = batch_of(df, IMAGE, dfgen.Segmentation(**names, **options))[1][0, ..., 0]
        crowd = np.where(expected == 255, options.get("ignore", 1), expected)
        np.testing.assert_array_equal(found, crowd if options else np.ones(SIZE))
