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


def test_later_objects_cover_earlier_ones_and_crowds_lie_below(rows):
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


def test_masks_of_objects_up_to_max_items(rows):
    df = rows([[SQUARE], [STAR]], [], [packed(MIXED)], labels=[["dog", "cat"], [], ["dog"]])
    names = {"class_names": ["cat", "dog"]}
    y = batch_of(df, IMAGE, dfgen.Segmentation(max_items=3, **names))[1]
    expected = np.zeros((3, 3, *SIZE, 1), np.uint8)
    for place, region in {(0, 0): [SQUARE], (0, 1): [STAR], (2, 0): packed(MIXED)}.items():
        expected[(*place, ..., 0)] = drawn(region)
    equal(y["masks"], expected)
    equal(y["labels"], np.array([[1, 0, -1], [-1, -1, -1], [1, -1, -1]], np.int32))
    with pytest.raises(DfgenError, match="max_items"):
        batch_of(df, IMAGE, dfgen.Segmentation(max_items=1, **names))


@pytest.mark.filterwarnings("ignore:.* is not categorical")
def test_class_names_put_the_background_first(rows):
    df = rows([[SQUARE]], [[SQUARE]], labels=[["dog"], ["cat"]])
    with dfgen.Sequence(df, IMAGE, dfgen.Segmentation(), shuffle=False) as seq:
        assert seq.class_names == ["background", "cat", "dog"]
        assert [int(mask.max()) for mask in seq[0][1]] == [2, 1]
    numbered = rows([[SQUARE]], [[SQUARE]], labels=[[7], [200]])
    larger = dfgen.Image(size=(60, 60), resize="crop_or_pad")
    y = batch_of(numbered, larger, dfgen.Segmentation(fill_value=9))[1]
    assert [sorted({*mask.ravel().tolist()}) for mask in y] == [[0, 7, 9], [0, 9, 200]]


@pytest.mark.parametrize(
    ("regions", "labels", "options", "word"),
    [
        ([[SQUARE]], ["cat", "dog"], {}, "r?0"), ([[SQUARE]], ["owl"], {}, "owl"),
        ([[[1, 2, 3]]], ["cat"], {}, "r0"), ([{"size": [2, 2], "counts": [4]}], ["cat"], {}, "r0"),
        ([{"size": [*SIZE], "counts": [4, 5]}], ["cat"], {}, "r0"),
        ([[SQUARE]], ["cat"], {"ignore": 1}, "ignore"),
        ([[SQUARE]], [0], {"class_names": None}, "0"),
    ],
)  # fmt: skip
def test_regions_that_are_none_are_errors(rows, regions, labels, options, word):
    df = rows(regions, labels=[labels], iscrowd=[[False] * len(regions)])
    with pytest.raises(DfgenError, match=word):
        batch_of(df, IMAGE, dfgen.Segmentation(**{"class_names": ["cat", "dog"], **options}))


LEVELS = np.random.default_rng(3).integers(0, 4, SIZE, np.uint8)


def mask_of(rows, tmp_path, image, file="mask.png", **options):
    df = rows([]).assign(mask=f"{tmp_path}/{file}")
    return batch_of(df, image, dfgen.Mask("mask", **options))[1][0]


def test_masks_keep_the_values_of_every_kind_of_file(rows, tmp_path):
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


@pytest.mark.parametrize("size", [(16, 23), (62, 90), (31, 44), (47, 41)])
def test_masks_take_the_nearest_pixel(rows, tmp_path, size):
    cv2.imwrite(f"{tmp_path}/mask.png", LEVELS)
    found = mask_of(rows, tmp_path, dfgen.Image(size=size))[..., 0]
    down = ((np.arange(size[0]) + 0.5) * SIZE[0] / size[0]).astype(int)
    across = ((np.arange(size[1]) + 0.5) * SIZE[1] / size[1]).astype(int)
    np.testing.assert_array_equal(found, LEVELS[down][:, across])


def test_fill_value_stands_outside_of_the_image(rows, tmp_path):
    cv2.imwrite(f"{tmp_path}/mask.png", LEVELS)
    image = dfgen.Image(size=(33, 49), resize="crop_or_pad")
    found = mask_of(rows, tmp_path, image, fill_value=255)[..., 0]
    np.testing.assert_array_equal(found, np.pad(LEVELS, ((1, 1), (2, 2)), constant_values=255))
    assert (mask_of(rows, tmp_path, image)[0] == 0).all()


def test_missing_regions_and_masks_weigh_nothing(rows, tmp_path):
    cv2.imwrite(f"{tmp_path}/mask.png", LEVELS)
    df = rows([[SQUARE]], [[STAR]], [[SQUARE]]).assign(mask=f"{tmp_path}/mask.png")
    df = df.assign(boxes=[[[1, 2, 3, 4]], 0, []], numbers=[[1], 0, []], keypoints=[[1, 2, 2]] * 3)
    for column in ("mask", "segmentation", "boxes", "numbers", "keypoints"):
        df[column] = [None if row == 1 else one for row, one in enumerate(df[column])]
    y = {
        "mask": dfgen.Mask("mask", fill_value=9, missing="ignore"),
        "drawn": dfgen.Segmentation(class_names=["cat"], fill_value=9, missing="ignore"),
        "points": dfgen.Keypoints(count=1, missing="ignore"),
        "boxes": dfgen.Boxes(labels="numbers", missing="ignore"),
    }
    _, found, weights = batch_of(df, IMAGE, y)
    assert [{*found[name][1].ravel()} for name in ("mask", "drawn", "points")] == [{9}, {9}, {-1}]
    assert (found["boxes"]["boxes"][1] == -1).all()
    for one in [*(weights[name] for name in list(y)[:3]), *weights["boxes"].values()]:
        assert (np.reshape(one, (3, -1)) > 0).all(axis=1).tolist() == [True, False, True]
    with pytest.raises(DfgenError, match="1"):
        batch_of(df, IMAGE, dfgen.Boxes(labels="numbers"))
