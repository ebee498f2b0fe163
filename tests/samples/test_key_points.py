"""Key points: lists of points, visibility, and what is refused."""

import cv2
import numpy as np
import pandas as pd
import pytest
from public.first_batch import batch_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError

SIZE = (8, 10)
SAME = dfgen.Image(size=SIZE)


@pytest.fixture
def rows(tmp_path):
    """Return a function: a frame of one image with these key points in each row."""
    cv2.imwrite(f"{tmp_path}/a.png", np.zeros((*SIZE, 3), np.uint8))

    def make(*points):
        ids = [f"r{row}" for row in range(len(points))]
        return pd.DataFrame({"id": ids, "path": f"{tmp_path}/a.png", "keypoints": points})

    return make


ONE, TWO = [3, 2, 2, 0, 0, 0], [9, 7, 1, 1, 1, 2]


def test_objects_are_padded_and_unannotated_ones_are_zero(rows):
    points = dfgen.Keypoints(count=2, max_items=3)
    y = batch_of(rows([ONE, TWO], [], [[], TWO]), SAME, points)[1]
    assert (y.shape, y.dtype) == ((3, 3, 2, 3), np.float32)
    blank, none = [[-1] * 3] * 2, [[0] * 3] * 2
    one, two = np.reshape(ONE, (2, 3)).tolist(), np.reshape(TWO, (2, 3)).tolist()
    assert y.tolist() == [[one, two, blank], [blank] * 3, [none, two, blank]]


def test_list_of_one_object_may_stand_alone(rows):
    for given in (ONE, [ONE]):
        y = batch_of(rows(given, given), SAME, dfgen.Keypoints(count=2))[1]
        assert y.tolist() == np.reshape([ONE, ONE], (2, 2, 3)).tolist()


@pytest.mark.parametrize(
    ("points", "word"),
    [
        ([ONE[:3]], "6"),
        ([[3, 2, 5, 0, 0, 0]], "visibility"),
        ([[3, np.nan, 2, 0, 0, 0]], "infinite"),
        ([], "one in each"),
        ([ONE, ONE], "max_items=2"),
        (None, "null|no list"),
    ],
)
def test_lists_that_are_no_points_are_refused(rows, points, word):
    with pytest.raises(ManifestError, match=word):
        batch_of(rows([ONE], points), SAME, dfgen.Keypoints(count=2))


def test_points_entirely_outside_are_a_damaged_row(rows):
    far = [30, 20, 2, -4, 2, 1]
    with pytest.raises(DecodeError, match=r"r1.*30, 20"):
        batch_of(rows([ONE], [far]), SAME, dfgen.Keypoints(count=2))


@pytest.mark.parametrize("size", [(16, 20), (4, 5), (24, 10)])
def test_pixel_centre_point_survives_resizing(rows, size):
    y = batch_of(rows([ONE]), dfgen.Image(size=size), dfgen.Keypoints(count=2))[1]
    down, across = size[0] / 8, size[1] / 10
    np.testing.assert_allclose(y[0, 0], [3.5 * across - 0.5, 2.5 * down - 0.5, 2])


@pytest.mark.parametrize("pairs", [[(0, 0)], [(0, 2)], [(0, 1), (1, 0)], 3])
def test_flip_pairs_are_pairs_of_different_points(pairs):
    with pytest.raises(ArgumentError, match="flip_pairs"):
        dfgen.Keypoints(count=2, flip_pairs=pairs)


def test_transform_gets_points_and_drops_outside_ones(rows):
    def move(sample, rng):
        return {**sample, "keypoints": sample["keypoints"] + np.array([2, 0, 0], np.float32)}

    y = batch_of(rows([[3, 2, 2, 9, 1, 2]]), SAME, dfgen.Keypoints(count=2), transform=move)[1]
    assert y[0].tolist() == [[5, 2, 2], [0, 0, 0]]
