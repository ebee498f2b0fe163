"""Boxes: list columns to padded arrays, formats, and every bad table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each
from messages import message_of
from PIL import Image as Pillow

from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.table.any_table import arrow_column

IMAGE = Image(size=(50, 200))
OR_IGNORE = ', or, in y, give these rows no weight, by missing="ignore" in the feature'
XYXY = [[10, 20, 30, 60], [0, 0, 100, 100]]  # in an image of 100x100
LABELS = ["cat", "dog"]


@pytest.fixture
def path(tmp_path):
    Pillow.fromarray(np.zeros((100, 100, 3), np.uint8)).save(tmp_path / "image.png")
    return f"{tmp_path}/image.png"


def boxes(**options):
    return Boxes(**{"like": IMAGE, "max_boxes": 3, "class_names": ("cat", "dog"), **options})


@pytest.mark.parametrize("make", [dict, pd.Series])
def test_boxes_of_one_row(path, make):
    row = make({"path": path, "boxes": XYXY, "labels": LABELS})
    found = boxes()(row)
    assert {name: (a.shape, a.dtype.name) for name, a in found.items()} == {
        "boxes": ((3, 4), "float32"), "labels": ((3,), "int32"),
    }  # fmt: skip
    np.testing.assert_allclose(
        found["boxes"], [[20, 10, 60, 30], [0, 0, 200, 50], [-1] * 4], rtol=1e-6
    )
    assert found["labels"].tolist() == [0, 1, -1]


@each(
    ("format", "stored"),
    [
        ("xyxy", XYXY),
        ("xywh", [[10, 20, 20, 40], [0, 0, 100, 100]]),
        ("rel_xyxy", [[0.1, 0.2, 0.3, 0.6], [0, 0, 1, 1]]),
    ],
)
@each(
    ("wanted", "expected"),
    [
        ("xyxy", [[20, 10, 60, 30], [0, 0, 200, 50]]),
        ("xywh", [[20, 10, 40, 20], [0, 0, 200, 50]]),
        ("rel_xyxy", [[0.1, 0.2, 0.3, 0.6], [0, 0, 1, 1]]),
    ],
)
def test_formats_are_converted(path, format, stored, wanted, expected):
    feature = boxes(format=wanted, source_format=format)
    found = feature({"path": path, "boxes": stored, "labels": LABELS})
    np.testing.assert_allclose(found["boxes"][:2], expected, rtol=1e-6)
    assert (found["boxes"][2] == -1).all()


@pytest.mark.parametrize(
    "column",
    [
        [XYXY, [], XYXY[:1]],
        [np.array(XYXY), np.zeros((0, 4)), np.array(XYXY[:1], "float32")],
        [[tuple(box) for box in XYXY], (), [np.array(XYXY[0])]],
    ],
)
def test_lists_of_every_kind(column):
    frame = pd.DataFrame({"boxes": column, "labels": [LABELS, [], LABELS[:1]]})
    found = boxes().encode(arrow_column(frame["boxes"]), arrow_column(frame["labels"]))
    assert found.offsets.tolist() == [0, 2, 2, 3]
    assert found.boxes.tolist() == [*XYXY, XYXY[0]] and found.labels.tolist() == [0, 1, 0]


def test_fixed_size_lists_and_slices_of_a_table():
    inner = pa.list_(pa.float32(), 4)
    column = pa.array([XYXY, [], XYXY[:1]], pa.large_list(inner))
    labels = pa.array([LABELS, [], LABELS[:1]])
    found = boxes().encode(column.slice(1), labels.slice(1))
    assert (found.offsets.tolist(), found.boxes.tolist()) == ([0, 0, 1], XYXY[:1])


def test_no_boxes_anywhere():
    found = boxes().encode(pa.array([[], []]), pa.array([[], []]))
    assert (found.offsets.tolist(), found.boxes.shape, found.labels.shape) == (
        [0, 0, 0], (0, 4), (0,),
    )  # fmt: skip


def test_whole_numbers_are_class_numbers_unless_named():
    column, labels = pa.array([XYXY]), pa.array([[7, 18]])
    assert boxes(class_names=None).encode(column, labels).labels.tolist() == [7, 18]
    assert boxes(class_names=(18, 7)).encode(column, labels).labels.tolist() == [1, 0]


def test_boxes_of_some_rows_are_told_by_the_names_of_their_classes_or_as_missing():
    feature, part = boxes(class_names=("cat", "dog")), slice(1, 4)
    one, other = ([[float(n), 0, 9, 9]] for n in range(2))
    stored = pa.array([one * 2, other, one, one + other])
    values = feature.encode(stored, pa.array([["cat"] * 2, ["dog"], ["cat"], ["cat", "dog"]]))
    found = feature.truth(values, part, np.zeros(3, bool))
    assert found[0].to_pylist() == [other, one, one + other]
    assert found[1].to_pylist() == [["dog"], ["cat"], ["cat", "dog"]]
    found = feature.truth(values, part, np.array([0, 1, 0], bool))
    assert [each[1:].to_pylist() for each in found] == [[None, one + other], [None, ["cat", "dog"]]]


def refused(column, labels, **options):
    frame = pd.DataFrame({"boxes": column, "labels": labels})
    with pytest.raises(ManifestError) as error:
        boxes(**options).encode(arrow_column(frame["boxes"]), arrow_column(frame["labels"]))
    return str(error.value)


@each(
    ("column", "labels", "options", "message"),
    [
        ([XYXY, XYXY], [LABELS, ["cat"]], {},
         "row 1 has 2 boxes in column 'boxes', but 1 labels in column 'labels' (1 such rows)"),
        ([XYXY, XYXY], [LABELS, None], {},
         "column 'labels' has no list in 1 rows, the first is row 1: write [] where an image has "
         "no boxes" + OR_IGNORE),
        ([XYXY, XYXY], [LABELS, ["cat", None]], {},
         "label 1 of row 1 in column 'labels' is missing"),
        ([XYXY, [[5, 5, 5, 9]]], [LABELS, ["cat"]], {},
         "box 0 of row 1 in column 'boxes' is (5, 5, 5, 9) as xyxy (1 such boxes): x2 - x1 and "
         "y2 - y1 must be larger than 0"),
        ([[[1, 1, float("nan"), 9]]], [["cat"]], {},
         "box 0 of row 0 in column 'boxes' is (1, 1, nan, 9) as xyxy (1 such boxes): x2 - x1 and "
         "y2 - y1 must be larger than 0"),
        ([[[1, 1, -3, 9]]], [["cat"]], {"source_format": "xywh"},
         "box 0 of row 0 in column 'boxes' is (1, 1, -3, 9) as xywh (1 such boxes): its width "
         "and height must be larger than 0"),
        ([XYXY], [LABELS], {"source_format": "rel_xyxy"},
         "box 0 of row 0 in column 'boxes' is (10, 20, 30, 60) as rel_xyxy (2 such boxes): "
         'relative coordinates go from 0 to 1. For pixels write source_format="xyxy"'),
        ([XYXY * 2], [LABELS * 2], {},
         "row 0 has 4 boxes, more than max_boxes=3: write dfgen.Boxes('boxes', max_boxes=4)"),
        ([[[1, 2, 3, 4], [1, 2, 3]]], [LABELS], {},
         "box 1 of row 0 in column 'boxes' is [1, 2, 3], expected four numbers"),
        ([[1, 2]], [LABELS], {},
         "column 'boxes' holds lists of int64, expected lists of boxes of four numbers each, "
         "[[x1, y1, x2, y2], ...]"),
        ([[["a"] * 4]], [["cat"]], {}, "column 'boxes' holds boxes of string, expected numbers"),
        ([XYXY], [["cat", "cow"]], {},
         "column 'labels' holds 'cow' (1 in all), not among its class names: 'cat', 'dog'"
         ". Mend the values, drop such rows, or add them to class_names="),
        ([XYXY], [["cat", 1]], {},
         "column 'labels' has lists that mix int, str: give all entries one type"),
        ([[[1, 2, 3, "4"]]], [["cat"]], {},
         "column 'boxes' has lists that mix int, str: give all entries one type"),
        ([XYXY], [[0.5, 1.0]], {"class_names": None},
         "column 'labels' holds lists of double: tell the feature their order, class_names=[...]"),
        ([XYXY], [[0, -1]], {"class_names": None},
         "column 'labels' holds the numbers -1 to 0: classes go from 0 on"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_with_its_row(column, labels, options, message):
    found = refused(column, labels, **options)
    assert found.replace("large_string", "string") == message


@pytest.mark.parametrize("box", [(100, 5, 130, 9), (5, 100, 9, 130), (-9, 5, 0, 9), (5, -9, 9, 0)])
def test_a_box_outside_of_its_image(path, box):
    with pytest.raises(DecodeError) as error:
        boxes()({"path": path, "boxes": [box], "labels": ["cat"]})
    assert str(error.value) == (
        f"path={path!r}: box 0 of column 'boxes' is {box} as xyxy, outside of the "
        "image, which is 100 x 100 pixels (width x height, upright)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "yxyx"}, "format must be one of ('xyxy', 'xywh', 'rel_xyxy'), got 'yxyx'. "
         "Did you mean \"xyxy\"?"),
        ({"source_format": "coco"},
         "source_format must be one of ('xyxy', 'xywh', 'rel_xyxy'), got 'coco'"),
        ({"max_boxes": 0}, "max_boxes must be a number of boxes, got 0"),
        ({"class_names": ["a", "a"]}, "class_names must be distinct names, got ['a', 'a']"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    assert message_of(ArgumentError, Boxes, **arguments) == message


@pytest.mark.parametrize(
    ("source_format", "corners"),
    [("xyxy", ""), ("xywh", "make corners of them, x + width and y + height, and ")],
)
def test_boxes_within_one_pixel_are_taken_for_relative_ones(source_format, corners):
    columns = {"boxes": pa.array([[[0.1, 0.2, 0.5, 1.0]]]), "labels": pa.array([["cat"]])}
    boxes = Boxes("boxes", source_format=source_format, class_names=["cat"])
    assert message_of(ManifestError, boxes.encode, columns["boxes"], columns["labels"]) == (
        f"all 1 boxes in column 'boxes' lie within 0 to 1 as {source_format}, expected pixels: for "
        f'relative coordinates {corners}write source_format="rel_xyxy"'
    )


def test_a_box_of_the_first_pixel_alone_is_one_of_pixels():
    boxes = Boxes("boxes", class_names=["cat"])
    assert len(boxes.encode(pa.array([[[0, 0, 1, 1]]]), pa.array([["cat"]])).boxes) == 1
