"""Albumentations pipelines: what goes through them, and which are refused."""

import albumentations as A
import cv2
import numpy as np
import pandas as pd
import pytest
from public.first_batch import batch_of, equal

import dfgen
from dfgen.errors import ArgumentError, TransformError

PIXELS = np.random.default_rng(0).integers(0, 256, (16, 20, 3), np.uint8)
SAME = dfgen.Image("path", size=(16, 20))


@pytest.fixture
def df(tmp_path):
    cv2.imwrite(f"{tmp_path}/a.png", PIXELS[..., ::-1])
    cv2.imwrite(f"{tmp_path}/m.png", PIXELS[..., 0] % 4)
    files = {"path": f"{tmp_path}/a.png", "after": f"{tmp_path}/a.png", "mask": f"{tmp_path}/m.png"}
    boxes = {"boxes": [[[1, 2, 9, 8], [16, 2, 20, 12]]] * 8, "labels": [[5, 6]] * 8}
    return pd.DataFrame({"id": range(8), **files, **boxes, "n": 1.0})


def pipeline(*steps, **options):
    return dfgen.albumentations(A.Compose([*steps], **options))


BOXES = {"bbox_params": A.BboxParams("coco", label_fields=["other"])}


def test_several_images_and_masks_move_together(df):
    flips = pipeline(A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5))
    x = {"image": SAME, "again": dfgen.Image("after", like="image")}
    y = {"mask": dfgen.Mask("mask", like="image"), "n": dfgen.Number("n")}
    x, y = batch_of(df, x, y, transform=flips)
    equal(x["again"], x["image"])
    equal(y["mask"][..., 0], x["image"][..., 0] % 4)
    assert y["n"].tolist() == [1] * 8 and len({image.tobytes() for image in x["image"]}) > 1


@pytest.mark.parametrize("format", ["xyxy", "xywh", "rel_xyxy"])
def test_a_lost_box_takes_its_label_with_it(df, format):
    image = dfgen.Image(size=(16, 10), load_size=(16, 20))
    boxes = dfgen.Boxes(max_items=2, format=format)
    y = batch_of(df, image, boxes, transform=pipeline(A.CenterCrop(16, 10), **BOXES))[1]
    assert y["labels"].tolist() == [[5, -1]] * 8
    expected = {"xyxy": [0, 2, 4, 8], "xywh": [0, 2, 4, 6], "rel_xyxy": [0, 2 / 16, 0.4, 0.5]}
    np.testing.assert_allclose(y["boxes"][0, 0], expected[format], atol=1e-5)


def test_same_row_draws_the_same_in_any_worker(df):
    crops = pipeline(A.RandomCrop(8, 8), A.RandomBrightnessContrast(p=1))
    image = dfgen.Image(size=(8, 8), load_size=(16, 20))
    first = batch_of(df, image, transform=crops, seed=1)
    for how in ({"workers": 2}, {"workers": 1, "use_multiprocessing": True}):
        equal(batch_of(df, image, transform=crops, seed=1, **how), first)
    assert (batch_of(df, image, transform=crops, seed=2)[0] != first[0]).any()


def test_boxes_need_parameters_and_one_format(df):
    flip = A.HorizontalFlip(p=1)
    with pytest.raises(ArgumentError, match="bbox_params"):
        batch_of(df, SAME, dfgen.Boxes(), transform=pipeline(flip))
    y = [dfgen.Boxes(), dfgen.Boxes(format="xywh")]
    with pytest.raises(ArgumentError, match="format"):
        batch_of(df, SAME, y, transform=pipeline(flip, **BOXES))


def test_what_cannot_move_along_is_refused(df):
    flip = pipeline(A.HorizontalFlip(p=1))
    df["keypoints"] = [[[1, 2, 2]]] * 8
    with pytest.raises(ArgumentError, match="keypoints"):
        batch_of(df, SAME, dfgen.Keypoints(count=1), transform=flip)
    with pytest.raises(ArgumentError, match="image"):
        batch_of(df, dfgen.Number("n"), transform=flip)
    for wrong in (flip, A.HorizontalFlip, 3, None):
        with pytest.raises(ArgumentError, match="Compose"):
            dfgen.albumentations(wrong)


def test_floats_are_left_to_scale(df):
    with pytest.raises(TransformError, match="scale="):
        batch_of(df, SAME, transform=pipeline(A.Normalize()))
