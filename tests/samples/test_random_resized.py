"""Crops of torchvision's RandomResizedCrop, flips, and what follows them."""

import math

import numpy as np
import pandas as pd
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

import dfgen
from dfgen.errors import ArgumentError
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.geometry import Draw, move
from dfgen.stores.stores import Stores

SIZE = (20, 24)
CROPPED = Image(size=SIZE, crop="random_resized", flip="horizontal_and_vertical")


def torchvision_box(height, width, tries, ratio, y, x):
    """Write `RandomResizedCrop.get_params` again, with numbers drawn before."""
    for area, aspect in tries:
        target_area = height * width * area
        w = round(math.sqrt(target_area * aspect))
        h = round(math.sqrt(target_area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return math.floor(y * (height - h + 1)), math.floor(x * (width - w + 1)), h, w
    in_ratio = width / height
    if in_ratio < min(ratio):
        w, h = width, round(width / min(ratio))
    elif in_ratio > max(ratio):
        w, h = round(height * max(ratio)), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


@given(
    st.integers(1, 500),
    st.integers(1, 500),
    st.sampled_from([(0.08, 1.0), (0.5, 1.0), (1.0, 1.0), (0.001, 0.01)]),
    st.sampled_from([(3 / 4, 4 / 3), (1.0, 1.0), (2.0, 3.0), (0.1, 10.0)]),
    st.integers(0, 99),
)
def test_the_box_is_torchvisions(height, width, area, ratio, seed):
    image = Image(size=SIZE, crop="random_resized", area=area, ratio=ratio)
    draw = image.draw(np.random.default_rng(seed))
    assert len(draw.crops) == 10
    found = image.place((height, width), SIZE, draw)
    expected = torchvision_box(height, width, draw.crops, ratio, draw.y, draw.x)
    assert found.source == (*expected[:2], max(1, expected[2]), max(1, expected[3]))
    assert found.target == (0, 0, *SIZE) and found.size == SIZE
    top, left, rows, columns = found.source
    assert top >= 0 and left >= 0 and top + rows <= height and left + columns <= width


def test_without_chance_it_is_the_largest_in_the_centre_whose_ratio_is_allowed():
    image = Image(size=SIZE, crop="random_resized")
    assert image.place((300, 400), SIZE).source == (0, 0, 300, 400)
    assert image.place((300, 600), SIZE).source == (0, 100, 300, 400)
    assert image.place((600, 300), SIZE).source == (100, 0, 400, 300)


def test_areas_are_uniform_and_ratios_are_in_their_logarithm():
    rng = np.random.default_rng(0)
    image = Image(crop="random_resized", area=(0.2, 0.9), ratio=(0.5, 4))
    crops = np.array([image.draw(rng).crops for _ in range(2000)]).reshape(-1, 2)
    for values, low, high in ((crops[:, 0], 0.2, 0.9), (np.log2(crops[:, 1]), -1, 2)):
        shares = np.sort((values - low) / (high - low))
        assert shares[0] >= 0 and shares[-1] <= 1
        far = np.abs(shares - np.arange(len(shares)) / len(shares)).max()
        assert far < 1.63 / math.sqrt(len(shares))  # Kolmogorov and Smirnov, 1 %


def test_crops_lie_anywhere():
    rng = np.random.default_rng(0)
    image = Image(crop="random_resized", area=(0.25, 0.25), ratio=(1, 1))
    boxes = np.array([image.place((20, 20), SIZE, image.draw(rng)).source for _ in range(5000)])
    assert (boxes[:, 2:] == 10).all()
    for starts in boxes[:, :2].T:
        np.testing.assert_allclose(np.bincount(starts, minlength=11) / 5000, 1 / 11, atol=0.015)


def test_what_was_drawn_before_is_drawn_still():
    """Crops and flips of an epoch stay what they were: three numbers, and those of old first."""
    for image in (Image(flip="horizontal"), Image(load_size=(300, 300), crop="random")):
        rng, numbers = np.random.default_rng(5), np.random.default_rng(5).random(4)
        draw = image.draw(rng)
        assert rng.random() == numbers[3]
        assert draw.flip == (image.flip is not None and numbers[2] < 0.5)
        assert (draw.y, draw.x) == (tuple(numbers[:2]) if image.crop else (None, None))
    numbers = np.random.default_rng(5).random(4)
    draw = CROPPED.draw(np.random.default_rng(5))
    assert (draw.y, draw.x) == tuple(numbers[:2])
    assert (draw.flip, draw.flip_vertical) == (numbers[2] < 0.5, numbers[3] < 0.5)


@pytest.mark.parametrize(
    ("flip", "expected"),
    [("horizontal", {(0, 0), (1, 0)}), ("vertical", {(0, 0), (0, 1)}),
     ("horizontal_and_vertical", {(0, 0), (1, 0), (0, 1), (1, 1)})],
)  # fmt: skip
def test_each_flip_comes_in_every_second_image(flip, expected):
    rng, image = np.random.default_rng(0), Image(flip=flip)
    draws = [image.draw(rng) for _ in range(4000)]
    flips = np.array([(draw.flip, draw.flip_vertical) for draw in draws])
    kinds, counts = np.unique(flips, axis=0, return_counts=True)
    assert set(map(tuple, kinds.tolist())) == expected
    np.testing.assert_allclose(counts / 4000, 1 / len(expected), atol=0.03)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("size", [(60, 80), (90, 120), None], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_flips_turn_pixels_and_boxes(tmp_path, suffix, size, across, channels):
    path = f"{tmp_path}/a.{suffix}"
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    Pillow.fromarray(pixels).save(path)
    image = Image(size=size, color_mode="rgb" if channels == 3 else "grayscale")
    plain, flipped = (np.empty((*(size or (60, 80)), channels), np.uint8) for _ in range(2))
    image.read(path, plain, Stores())
    geometry = image.read(path, flipped, Stores(), given=Draw(flip=across, flip_vertical=True))
    np.testing.assert_array_equal(flipped, plain[::-1, ::-1] if across else plain[::-1])
    height, width = geometry.size
    boxes, left = move(np.array([[0.0, 0, 40, 15]]), geometry)
    x = [width / 2, width] if across else [0, width / 2]
    assert left.all() and boxes.tolist() == [[x[0], height * 0.75, x[1], height]]


@pytest.fixture
def scenes(tmp_path):
    """A red rectangle in each of twelve images of different sizes, its mask and its box."""
    rng, rows = np.random.default_rng(0), []
    for row in range(12):
        height, width = rng.integers(60, 200, 2).tolist()
        pixels = np.zeros((height, width, 3), np.uint8)
        box = [width // 4, height // 3, width * 3 // 4, height * 2 // 3]
        pixels[box[1] : box[3], box[0] : box[2]] = 255, 0, 0
        path, mask = f"{tmp_path}/{row}.jpg", f"{tmp_path}/{row}.png"
        Pillow.fromarray(pixels).save(path, quality=95)
        Pillow.fromarray(pixels[..., 0] // 255).save(mask)
        rows.append((row, path, mask, [box], ["box"]))
    return pd.DataFrame(rows, columns=["id", "path", "mask", "boxes", "labels"])


def batches(frame, **options):
    y = {"mask": dfgen.Mask("mask"), "objects": dfgen.Boxes(max_boxes=1, class_names=("box",))}
    return dfgen.Sequence(frame, CROPPED, y, batch_size=4, seed=3, **options)


def test_masks_and_boxes_follow(scenes):
    seen = 0
    with batches(scenes, workers=2) as seq:
        for images, y in seq:
            for image, mask, boxes in zip(images, y["mask"], y["objects"]["boxes"], strict=True):
                inside = mask[..., 0] == 1
                if not inside.any():
                    continue
                red = image[..., 0] > 128
                rows, columns = np.nonzero(inside)
                ends = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                np.testing.assert_allclose(boxes[0], ends, atol=1)
                assert (red != inside).sum() <= 2 * sum(inside.shape)  # but for the border
                seen += 1
    assert seen > 6


def test_crops_are_the_same_for_any_workers_and_after_resume(scenes):
    with batches(scenes, workers=0) as seq:
        first, second = ([images for images, _ in seq] for _ in range(2))
    assert any((one != other).any() for one, other in zip(first, second, strict=True))
    for options in ({"workers": 2}, {"workers": 1, "use_multiprocessing": True}):
        with batches(scenes, **options) as seq:
            np.testing.assert_array_equal([images for images, _ in seq], first)
            state = seq.state_dict()
    with batches(scenes, workers=2) as seq:
        seq.load_state_dict(state)
        np.testing.assert_array_equal([images for images, _ in seq], second)


@each(
    ("arguments", "message"),
    [
        ({"area": (0.08, 1.2)},
         "area must be (least, largest), both above 0 and at most 1, got (0.08, 1.2)"),
        ({"area": (0.5, 0.1)},
         "area must be (least, largest), both above 0 and at most 1, got (0.5, 0.1)"),
        ({"area": 0.5}, "area must be (least, largest), both above 0 and at most 1, got 0.5"),
        ({"area": (float("nan"), 1)},
         "area must be (least, largest), both above 0 and at most 1, got (nan, 1)"),
        ({"ratio": (0, 1)}, "ratio must be (least, largest), both above 0, got (0, 1)"),
        ({"ratio": (1, float("inf"))},
         "ratio must be (least, largest), both above 0, got (1, inf)"),
        ({"load_size": (256, 256)},
         'crop="random_resized" crops the whole image and stretches that to size, so there is no '
         "use for load_size=(256, 256): leave it out"),
        ({"resize": "crop"},
         'crop="random_resized" crops the whole image and stretches that to size, so there is no '
         "use for resize='crop': leave it out"),
        ({"size": None},
         "size=None leaves every image as large as it is, so there is no use for "
         "crop='random_resized': leave it out, or give a size"),
        ({"crop": "random", "resize": "crop", "area": (0.1, 1)},
         "area=(0.1, 1) is for crop=\"random_resized\", but crop='random': leave one of them out, "
         "or change crop"),
        ({"crop": None, "ratio": (1, 1)},
         'ratio=(1, 1) is for crop="random_resized", but crop=None: leave one of them out, or '
         "change crop"),
        ({"flip": "both"},
         "flip must be one of (None, 'horizontal', 'vertical', 'horizontal_and_vertical'), got "
         "'both'"),
        ({"crop": "resized"},
         "crop must be one of (None, 'center', 'random', 'random_resized'), got "
         "'resized'. Did you mean \"random_resized\"?"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    with pytest.raises(ArgumentError) as error:
        Image(**{"size": (224, 224), "crop": "random_resized", **arguments})
    assert str(error.value) == message
