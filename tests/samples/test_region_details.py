"""Overlaps, backgrounds and missing values of masks and polygons."""

import cv2
import numpy as np
import pytest
from public.first_batch import batch_of, equal
from public.test_regions import IMAGE as IMAGE
from public.test_regions import LEVELS as LEVELS
from public.test_regions import MIXED as MIXED
from public.test_regions import SIZE as SIZE
from public.test_regions import SQUARE as SQUARE
from public.test_regions import STAR as STAR
from public.test_regions import counts as counts
from public.test_regions import drawn as drawn
from public.test_regions import mask_of as mask_of
from public.test_regions import packed as packed
from public.test_regions import rows as rows

import dfgen
from dfgen.errors import DfgenError


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
