"""An image and its mask, segmentation, boxes and key points get the same geometry."""

from dataclasses import replace

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import DfgenError
from public.first_batch import batch_of, equal

SIZE = HEIGHT, WIDTH = 60, 84
BOX = LEFT, TOP, RIGHT, BOTTOM = 24, 18, 40, 30  # a white rectangle, xyxy
NAMES, NO = ["cat", "dog"], [-1, -1, -1]
WHOLE = dfgen.Image(size=SIZE)


@pytest.fixture
def df(tmp_path):
    """Return 30 rows of one scene: a white rectangle, its mask, polygon, box and key points."""
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels[TOP:BOTTOM, LEFT:RIGHT] = 255
    cv2.imwrite(f"{tmp_path}/a.png", pixels)
    cv2.imwrite(f"{tmp_path}/m.png", pixels[..., 0] // 255 * 2)
    corners = [LEFT, TOP, RIGHT, TOP, RIGHT, BOTTOM, LEFT, BOTTOM]
    scene = {
        "path": f"{tmp_path}/a.png", "after": f"{tmp_path}/a.png", "mask": f"{tmp_path}/m.png",
        "boxes": [list(BOX)], "labels": ["dog"], "segmentation": [[*map(float, corners)]],
        "keypoints": [[LEFT + 3, TOP + 4, 2, RIGHT - 4, TOP + 4, 1]],
    }  # fmt: skip
    return pd.DataFrame([{"id": f"r{row}", **scene} for row in range(30)])


Y = {
    "mask": dfgen.Mask("mask"), "drawn": dfgen.Segmentation(class_names=NAMES),
    "boxes": dfgen.Boxes(class_names=NAMES), "points": dfgen.Keypoints(count=2),
    "objects": dfgen.Segmentation(class_names=NAMES, max_items=2),
}  # fmt: skip
GEOMETRIES = {
    "same": {"size": SIZE}, "stretch": {"size": (30, 91)}, "larger": {"size": (120, 168)},
    "crop": {"size": (44, 48), "resize": "crop"}, "pad": {"size": (50, 50), "resize": "pad"},
    "crop_or_pad": {"size": (70, 51), "resize": "crop_or_pad"},
    "load_size": {"size": (40, 56), "load_size": SIZE, "crop": "center"},
    "random": {"size": (40, 56), "load_size": SIZE, "crop": "random"},
    "random_resized": {"size": (40, 50), "crop": "random_resized", "area": (0.5, 1)},
    "random_flip": {"size": SIZE, "flip": "horizontal_and_vertical"},
    "random_all": {"size": (52, 61), "load_size": (60, 70), "resize": "pad", "crop": "random",
                   "flip": "horizontal_and_vertical"},
}  # fmt: skip


def around(shown):
    """Return the box of the pixels that are shown."""
    y, x = np.nonzero(shown)
    return [int(n) for n in (x.min(), y.min(), x.max() + 1, y.max() + 1)]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_all_annotations_follow_their_image(df, name):
    image = dfgen.Image("path", antialias=False, **GEOMETRIES[name])
    again = dfgen.Image("after", like="image", antialias=False)
    y = {name: replace(feature, like="image") for name, feature in Y.items()}
    x, y = batch_of(df, {"image": image, "again": again}, y, seed=3)
    equal(x["again"], x["image"])
    equal(y["mask"], y["drawn"])
    equal(y["objects"]["masks"], np.stack([y["mask"] // 2, np.zeros_like(y["mask"])], 1))
    assert y["objects"]["labels"].tolist() == [[1, -1]] * 30 and {*y["mask"].ravel()} == {0, 2}
    assert y["boxes"]["labels"].tolist() == [[1] + [-1] * 99] * 30
    assert (y["boxes"]["boxes"][:, 1:] == -1).all()
    seen = set()
    for row, mask in enumerate(y["mask"][..., 0]):
        bright = x["image"][row, ..., 0] > 127
        assert ((mask > 0) != bright).mean() < 0.02
        np.testing.assert_allclose(y["boxes"]["boxes"][row, 0], around(bright), atol=1.01)
        left, _, right, _ = around(bright)
        for px, py, visible in y["points"][row]:
            assert not visible or mask[int(py), int(px)]
        if (y["points"][row, :, 2] > 0).all() and not name.startswith("random"):
            share = (y["points"][row, :, 0] - left) / (right - left)
            np.testing.assert_allclose(share, [3 / 16, 12 / 16], atol=0.1)
        seen.add(tuple(around(bright)))
    assert len(seen) > 3 if name.startswith("random") else len(seen) == 1


@pytest.mark.parametrize("source", ["xyxy", "xywh", "rel_xyxy"])
def test_box_formats_of_source_and_model(df, source):
    stored = {
        "xyxy": BOX, "xywh": (LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP),
        "rel_xyxy": (LEFT / WIDTH, TOP / HEIGHT, RIGHT / WIDTH, BOTTOM / HEIGHT),
    }[source]  # fmt: skip
    df = df[:2].assign(boxes=[[list(stored)]] * 2, labels=[[7]] * 2)
    expected = {
        "xyxy": [12, 36, 20, 60],
        "xywh": [12, 36, 8, 24],
        "rel_xyxy": [2 / 7, 0.3, 10 / 21, 0.5],
    }
    for format, box in expected.items():
        boxes = dfgen.Boxes(format=format, source_format=source)
        y = batch_of(df, dfgen.Image(size=(120, 42)), boxes)[1]
        np.testing.assert_allclose(y["boxes"][:, 0], [box] * 2, rtol=1e-5)
        assert y["labels"][:, :2].tolist() == [[7, -1]] * 2 and y["boxes"].dtype == np.float32


def test_boxes_are_clipped_and_lost_ones_dropped(df):
    boxes = [[0, 0, 10, 10], [30, 10, 50, 70], [80, 0, 84, 60], [41, 20, 43, 40]]
    df = df[:1].assign(boxes=[boxes], labels=[[0, 1, 2, 3]])
    image = dfgen.Image(size=(40, 24), resize="crop_or_pad")  # rows 10 to 50, columns 30 to 54
    y = batch_of(df, image, dfgen.Boxes())[1]
    assert y["boxes"][0, :2].tolist() == [[0, 0, 20, 40], [11, 10, 13, 30]]
    assert y["labels"][0, :3].tolist() == [1, 3, -1]
    for wrong in ([84, 0, 90, 9], [5, 5, 5, 9], [5, 9, 8, 8], [1, 2, 3]):
        with pytest.raises(DfgenError, match=r"r?0"):
            batch_of(df.assign(boxes=[[*boxes[:3], wrong]]), image, dfgen.Boxes())


@pytest.mark.filterwarnings("ignore:.* bad")
def test_rows_that_are_skipped_have_no_boxes(df):
    df.loc[1, "path"] = "gone.png"
    y = batch_of(df[:3], WHOLE, Y["boxes"], on_error="skip")[1]
    assert y["labels"][:, 0].tolist() == [1, -1, 1] and (y["labels"][1] == -1).all()


def points_of(tmp_path, points, image, size=(8, 10), **options):
    """Return 20 images with a white pixel at x = 3, y = 2, and their key points."""
    pixels = np.zeros((*size, 3), np.uint8)
    pixels[2, 3] = 255
    cv2.imwrite(f"{tmp_path}/dot.png", pixels)
    frame = pd.DataFrame(
        {"id": range(20), "path": f"{tmp_path}/dot.png", "keypoints": [points] * 20}
    )
    return batch_of(frame, image, dfgen.Keypoints(count=len(points) // 3, **options))


@pytest.mark.parametrize("flip", ["horizontal", "vertical"])
def test_a_flip_moves_a_point_with_its_pixel(tmp_path, flip):
    images, points = points_of(tmp_path, [3, 2, 2], dfgen.Image(size=(8, 10), flip=flip))
    for pixels, (x, y, seen) in zip(images, points[:, 0], strict=True):
        assert pixels[int(y), int(x), 0] == 255 and (x, y, seen) == (int(x), int(y), 2)


@pytest.mark.parametrize("size", [(8, 10), (12, 16), (6, 6)])
def test_a_point_stays_on_its_pixel(tmp_path, size):
    image = dfgen.Image(size=size, resize="crop_or_pad")
    images, points = points_of(tmp_path, [3, 2, 2, 0, 0, 0, 9, 7, 1], image)
    [(y, x)] = np.argwhere(images[0, ..., 0])
    last = [0, 0, 0] if size == (6, 6) else [x + 6, y + 5, 1]
    assert points[0].tolist() == [[x, y, 2], [0, 0, 0], last]


def test_a_point_in_the_padding_is_invisible(tmp_path):
    image = dfgen.Image(size=(40, 40), resize="pad")
    points = points_of(tmp_path, [5, 5, 2, 5, -6, 2], image, (20, 40))[1]
    assert points[0].tolist() == [[5, 15, 2], [0, 0, 0]]


def test_max_items_of_boxes(df):
    y = batch_of(df, WHOLE, dfgen.Boxes(max_items=3, class_names=NAMES))[1]
    assert y["boxes"].shape == (30, 3, 4) and y["labels"].tolist() == [[1, -1, -1]] * 30


def test_albumentations_moves_image_mask_and_boxes(df):
    albumentations = pytest.importorskip("albumentations")
    steps = [albumentations.RandomCrop(40, 56), albumentations.HorizontalFlip(p=0.5)]
    params = albumentations.BboxParams("pascal_voc")
    pipeline = dfgen.albumentations(albumentations.Compose(steps, bbox_params=params))
    image, y = (
        dfgen.Image(size=(40, 56), load_size=SIZE),
        {name: Y[name] for name in ("mask", "boxes")},
    )
    options = ({}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True})
    batch, *others = (batch_of(df, image, y, transform=pipeline, **one) for one in options)
    for other in others:
        equal(other, batch)
    x, (masks, boxes) = batch[0], [batch[1][name] for name in y]
    np.testing.assert_array_equal(masks[..., 0] > 0, x[..., 0] > 0)
    corners = [around(mask[..., 0]) for mask in masks]
    np.testing.assert_allclose(boxes["boxes"][:, 0], corners, atol=1e-3)
    assert len({*map(tuple, corners)}) > 15 and {*boxes["labels"][:, 0].tolist()} == {1}


def test_flip_pairs_swap_in_mirrored_images(tmp_path):
    image, given = (
        dfgen.Image(size=SIZE, flip="horizontal_and_vertical"),
        [1, 2, 2, 30, 4, 1, 9, 50, 2],
    )
    plain, paired = (
        points_of(tmp_path, given, image, SIZE, flip_pairs=pairs)[1] for pairs in ([], [(2, 0)])
    )
    ways = set()
    for one, other in zip(plain, paired, strict=True):
        flips = bool(one[0, 0] > 42), bool(one[0, 1] > 30)
        np.testing.assert_array_equal(other, one[[2, 1, 0]] if sum(flips) == 1 else one)
        ways.add(flips)
    assert len(ways) == 4
