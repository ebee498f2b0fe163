"""Boxes: classes, and columns that hold none."""

import cv2
import numpy as np
import pandas as pd
import pytest
from public.first_batch import batch_of

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError, TransformError

pytestmark = pytest.mark.filterwarnings("ignore:.* is not categorical")

SAME = dfgen.Image(size=(20, 30))
BOX = [2.0, 3.0, 12.0, 13.0]


@pytest.fixture
def rows(tmp_path):
    """Return a function: a frame of one image with these boxes and labels in each row."""
    cv2.imwrite(f"{tmp_path}/a.png", np.zeros((20, 30, 3), np.uint8))

    def make(boxes, labels):
        ids = [f"r{row}" for row in range(len(boxes))]
        data = {"id": ids, "path": f"{tmp_path}/a.png", "boxes": boxes, "labels": labels}
        return pd.DataFrame(data)

    return make


def test_labels_are_numbered_by_sorted_frame_names(rows):
    df = rows([[BOX, BOX], []], [["dog", "cat"], []])
    with dfgen.Sequence(df, SAME, dfgen.Boxes(max_items=2), shuffle=False) as seq:
        y, names = seq[0][1], seq.class_names
    assert names == ["cat", "dog"] and np.asarray(y["labels"]).tolist() == [[1, 0], [-1, -1]]


def test_whole_numbers_stay_as_they_are(rows):
    y = batch_of(rows([[BOX], [BOX]], [[7], [0]]), SAME, dfgen.Boxes(max_items=1))[1]
    assert y["labels"].tolist() == [[7], [0]]


@pytest.mark.parametrize(
    ("boxes", "labels", "word"),
    [
        ([[1, 2, 3]], ["a"], "four"),
        ([["x"]], ["a"], "lists of|boxes"),
        ([BOX], ["a", "a"], "2"),
        ([BOX] * 3, ["a"] * 3, "max_items=3"),
        ([BOX], [None], "label"),
        (None, ["a"], "boxes"),
        ([[0.1, 0.1, 0.5, 0.5]], ["a"], "rel_xyxy"),
        ([[5, 5, 5, 9]], ["a"], "width"),
        ([[np.inf, 1, 2, 3]], ["a"], "inf"),
        ([BOX], [[1]], "label|class|list"),
        ("text", ["a"], "list"),
    ],
)
def test_columns_of_no_boxes_are_refused(rows, boxes, labels, word):
    with pytest.raises(DfgenError, match=word):
        batch_of(rows([boxes], [labels]), SAME, dfgen.Boxes(max_items=2))


def test_pixels_as_relative_boxes_are_refused(rows):
    with pytest.raises(ManifestError, match="source_format"):
        batch_of(rows([[BOX]], [["a"]]), SAME, dfgen.Boxes(source_format="rel_xyxy"))


def test_relative_boxes_need_a_size(rows):
    with pytest.raises(ArgumentError, match="size"):
        batch_of(rows([[BOX]], [[1]]), dfgen.Image(size=None), dfgen.Boxes(format="rel_xyxy"))


def test_boxes_of_images_of_their_own_size(rows):
    y = batch_of(rows([[BOX]], [[1]]), dfgen.Image(size=None), dfgen.Boxes(max_items=2))[1]
    assert y["boxes"].tolist() == [[BOX, [-1] * 4]]


def test_a_transform_may_return_another_number_of_boxes(rows):
    def drop(sample, rng):
        assert sample["boxes"].shape == (2, 4) and sample["labels"].tolist() == [1, 2]
        return {**sample, "boxes": sample["boxes"][:1], "labels": sample["labels"][:1]}

    df = rows([[BOX, BOX]], [[1, 2]])
    y = batch_of(df, SAME, dfgen.Boxes(max_items=3), transform=drop)[1]
    assert y["labels"].tolist() == [[1, -1, -1]] and y["boxes"][0, 0].tolist() == BOX
    with pytest.raises(TransformError, match="labels"):
        batch_of(df, SAME, dfgen.Boxes(), transform=lambda s, rng: {**s, "labels": s["labels"][:1]})
