"""Regions are drawn as pycocotools draws them; what it would make up is refused."""

import numpy as np
import pytest
from pycocotools import mask as coco

from dfgen.errors import DecodeError
from dfgen.samples.pixels.regions import mask_of, parsed

RNG = np.random.default_rng(0)
SIZE = (9, 7)


def counts_of(mask):
    """Return run lengths, of which every second mask has an empty run in its midst."""
    flat = mask.ravel(order="F").astype(int)
    edges = [0, *(np.flatnonzero(np.diff(flat)) + 1), len(flat)]
    counts = ([0] if flat[0] else []) + np.diff(edges).tolist()
    if len(counts) > 2 and flat[-1]:
        counts[1:2] = [counts[1] // 2, 0, counts[1] - counts[1] // 2]
    return counts


def test_any_polygon_sets_the_pixels_that_pycocotools_sets():
    for number in range(300):
        size = tuple(RNG.integers(1, 60, 2).tolist())
        corners = RNG.uniform(-0.4, 1.4, (RNG.integers(3, 30), 2)) * size[::-1]
        polygon = (np.round(corners * 2) / 2 if number % 2 else corners).ravel().tolist()
        expected = coco.decode(coco.merge(coco.frPyObjects([polygon], *size)))
        np.testing.assert_array_equal(mask_of([polygon], size), expected)
    assert not mask_of([], SIZE).any()


def test_numeric_and_text_run_lengths_give_the_mask():
    for _ in range(300):
        size = tuple(RNG.integers(1, 12, 2).tolist())
        mask = (RNG.random(size) < RNG.choice([0, 0.1, 0.5, 1])).astype(np.uint8)
        numbers = {"size": size, "counts": counts_of(mask)}
        text = coco.frPyObjects({**numbers, "size": [*size]}, *size)["counts"].decode()
        for region in (numbers, {"size": size, "counts": text}):
            np.testing.assert_array_equal(mask_of(region, size), mask)


WHOLE = coco.encode(np.asfortranarray(RNG.integers(0, 2, SIZE, np.uint8)))["counts"].decode()


@pytest.mark.parametrize(
    "counts",
    [[10, 20], [-3, 66], [], [70], [2**40], "", WHOLE[:-1], WHOLE + "1", "~~", "oooooooooo0", "P"],
)
def test_run_lengths_not_filling_the_image_are_rejected(counts):
    with pytest.raises(DecodeError, match="RLE"):
        mask_of({"size": SIZE, "counts": counts}, SIZE)


def test_run_lengths_of_another_size_are_refused():
    with pytest.raises(DecodeError, match="9 x 7"):
        mask_of({"size": SIZE[::-1], "counts": WHOLE}, SIZE)


@pytest.mark.parametrize(
    "polygon",
    [[1, 2, 3, 4], [0] * 7, [0, 0, 1e9, 0, 1e9, 1e9], [0, 0, float("nan"), 1, 2, 3],
     [1e8, 1e8, 1e8, 1e8, 1e8, 1e8], [0, float("inf"), 1, 2, 3, 4]],
)  # fmt: skip
def test_polygons_exhausting_pycocotools_memory_are_rejected(polygon):
    with pytest.raises(DecodeError, match="polygon"):
        mask_of([polygon], SIZE)


@pytest.mark.parametrize("text", ["[[1, 2]", '{"size": [1, 2]}', '[["a"]]', "3", '{"counts": "a"}'])
def test_what_is_no_region_is_refused(text):
    with pytest.raises(DecodeError, match="segmentation"):
        parsed(text)
