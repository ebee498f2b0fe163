"""Crops of torchvision's RandomResizedCrop, flips, and what follows them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfgen.samples.features.image import Image

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


def test_largest_allowed_centre_crop_is_used_without_chance():
    image = Image(size=SIZE, crop="random_resized")
    assert image.place((300, 400), SIZE).source == (0, 0, 300, 400)
    assert image.place((300, 600), SIZE).source == (0, 100, 300, 400)
    assert image.place((600, 300), SIZE).source == (100, 0, 400, 300)


def test_areas_are_uniform_and_ratios_log_uniform():
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
