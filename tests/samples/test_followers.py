"""Masks and points of images with sizes of their own."""

import cv2
import numpy as np
import pytest
from public.first_batch import batch_of, equal
from public.test_geometry import HEIGHT as HEIGHT
from public.test_geometry import LEFT as LEFT
from public.test_geometry import NO as NO
from public.test_geometry import SIZE as SIZE
from public.test_geometry import TOP as TOP
from public.test_geometry import WHOLE as WHOLE
from public.test_geometry import WIDTH as WIDTH
from public.test_geometry import around as around
from public.test_geometry import df as df
from public.test_geometry import points_of as points_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError


def test_max_items_of_key_points(df):
    one, two = [1, 2, 2], [3, 4, 1]
    df = df[:3].assign(keypoints=[[one, two], [], [two]])
    found = batch_of(df, WHOLE, dfgen.Keypoints(count=1, max_items=2))[1]
    equal(found, np.array([[[one], [two]], [[NO], [NO]], [[two], [NO]]], np.float32))
    for most in (1, None):
        with pytest.raises(DfgenError, match="max_items"):
            batch_of(df, WHOLE, dfgen.Keypoints(count=1, max_items=most))


def test_masks_of_images_of_their_own_size(df, tmp_path):
    pixels = np.arange(4 * 9, dtype=np.uint8).reshape(4, 9)
    cv2.imwrite(f"{tmp_path}/small.png", pixels)
    df.loc[1, ["path", "mask"]] = f"{tmp_path}/small.png"
    x, y = batch_of(df[:2], dfgen.Image(size=None), dfgen.Mask("mask", fill_value=255))
    assert x.shape == (2, *SIZE, 3) and {*y[0].ravel()} == {0, 2}
    expected = np.full((*SIZE, 1), 255, np.uint8)
    expected[:4, :9, 0] = pixels
    equal(y[1], expected)


def test_a_follower_of_another_size_is_an_error(df, tmp_path):
    cv2.imwrite(f"{tmp_path}/other.png", np.zeros((HEIGHT, WIDTH + 1), np.uint8))
    df.loc[7, "mask"] = f"{tmp_path}/other.png"
    with pytest.raises(DecodeError, match="r7"):
        batch_of(df, "path", dfgen.Mask("mask"))
    with pytest.raises(ArgumentError, match="like"):
        batch_of(df, {"a": dfgen.Image("path"), "b": dfgen.Image("after")}, dfgen.Mask("mask"))


def test_follower_may_be_a_multiple_of_its_image(df, tmp_path):
    large = np.random.default_rng(0).integers(0, 256, (2 * HEIGHT, 2 * WIDTH, 3), np.uint8)
    cv2.imwrite(f"{tmp_path}/large.png", large[..., ::-1])
    df = df[:9].assign(after=f"{tmp_path}/large.png")
    image = dfgen.Image("path", size=(42, 60), load_size=SIZE, crop="random")
    x, y = batch_of(df, image, dfgen.Image("after", like="path", size=(84, 120)))
    for small, pixels in zip(x, y, strict=True):
        left, top, *_ = around(small[..., 0])
        top, left = 2 * (TOP - top), 2 * (LEFT - left)
        np.testing.assert_array_equal(pixels, large[top : top + 84, left : left + 120])
