"""Boxes stay on what they frame, whatever EXIF orientation the file has."""

import json

import annotated
import cv2
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pycocotools import mask as coco_masks

import dfgen
from dfgen.manifest.building.box_columns import place_boxes
from dfgen.samples.pixels.decoders import decode_image

STORED = (8, 12, 24, 20)  # a white box on black, on the pixels as stored


def marked(path, orientation):
    """Write a JPEG with a white box, to be turned by its EXIF orientation."""
    pixels = np.zeros((32, 48, 3), np.uint8)
    x1, y1, x2, y2 = STORED
    pixels[y1:y2, x1:x2] = 255
    path.parent.mkdir(exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(path, "JPEG", exif=exif, quality=100, subsampling=0)


def white_box(path):
    """Return where the white box is in the image as dfgen decodes it, upright."""
    bright = decode_image(path.read_bytes())[0][..., 0] > 128
    x, y, width, height = cv2.boundingRect(bright.astype(np.uint8))
    return [x, y, x + width, y + height]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_are_turned_with_the_image(tmp_path, orientation):
    marked(tmp_path / "images/a.jpg", orientation)
    annotated.xml(tmp_path / "xml/a.xml", ("cat", *STORED), size=(48, 32))
    frame = dfgen.build_manifest(voc=tmp_path / "xml", images=tmp_path / "images")
    assert frame["problem"].isna().all()
    assert [list(box) for box in frame["boxes"][0]] == [white_box(tmp_path / "images/a.jpg")]


@pytest.mark.parametrize("orientation", range(5, 9))
def test_boxes_drawn_on_the_upright_image_stay(tmp_path, orientation):
    marked(tmp_path / "images/a.jpg", orientation)
    upright = white_box(tmp_path / "images/a.jpg")
    annotated.xml(tmp_path / "xml/a.xml", ("cat", *upright), size=(32, 48))
    frame = dfgen.build_manifest(voc=tmp_path / "xml", images=tmp_path / "images")
    assert frame["problem"].isna().all()
    assert [list(box) for box in frame["boxes"][0]] == [upright]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_key_points_are_turned_too_and_missing_ones_stay_zero(tmp_path, orientation):
    marked(tmp_path / "a.jpg", orientation)
    points = [8, 12, 2, 0, 0, 0, 24, 20, 1]
    thing = annotated.box(1, 1, 8, 12, 16, 8, keypoints=points)
    images, persons = {1: "a.jpg"}, {1: "person"}
    path = annotated.coco(tmp_path / "c.json", images, [thing], persons, size=(48, 32))
    frame = dfgen.build_manifest(coco=path)
    (x1, y1, seen, *nothing, x2, y2, also) = frame["keypoints"][0][0].tolist()
    assert (seen, nothing, also) == (2, [0, 0, 0], 1)
    corners = [min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)]
    assert corners == white_box(tmp_path / "a.jpg") == frame["boxes"][0][0].tolist()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_polygons_and_run_lengths_are_turned_too(tmp_path, orientation, packed):
    marked(tmp_path / "a.jpg", orientation)
    x1, y1, x2, y2 = STORED
    region = [[x1, y1, x2, y1, x2, y2, x1, y2]]
    if packed:
        mask = np.zeros((32, 48), np.uint8, order="F")
        mask[y1:y2, x1:x2] = 1
        region = coco_masks.encode(mask)
        region["counts"] = region["counts"].decode()
    thing = annotated.box(1, 1, 8, 12, 16, 8, segmentation=region)
    path = annotated.coco(tmp_path / "c.json", {1: "a.jpg"}, [thing], {1: "box"}, size=(48, 32))
    row = dfgen.build_manifest(coco=path).iloc[0]
    size = decode_image((tmp_path / "a.jpg").read_bytes())[0].shape[:2]
    like = dfgen.Image(size=size)
    mask = dfgen.Segmentation(like=like, class_names=["box"])(row)
    x, y, width, height = cv2.boundingRect(mask[..., 0])
    assert [x, y, x + width, y + height] == white_box(tmp_path / "a.jpg")
    assert mask.sum() == width * height


def test_run_lengths_of_another_size_stay_as_they_are_on_a_turned_image(tmp_path):
    """A mask of the size that they tell may be larger than memory; the feature refuses them."""
    marked(tmp_path / "a.jpg", 6)
    marked(tmp_path / "b.jpg", 1)
    wrong, full = ({"size": [side, side], "counts": [0, side]} for side in (2**30, 32))
    square = [[1, 2, 5, 2, 5, 6, 1, 6]]
    things = [
        annotated.box(image, 1, 8, 12, 16, 8, segmentation=region)
        for image, region in ((1, wrong), (1, full), (1, []), (1, square), (2, square))
    ]
    images = {1: "a.jpg", 2: "b.jpg", 3: "c.jpg"}
    marked(tmp_path / "c.jpg", 6)
    path = annotated.coco(tmp_path / "c.json", images, things, {1: "box"}, size=(48, 32))
    turned, stored, none = dfgen.build_manifest(coco=path)["segmentation"]
    told = [text and json.loads(text) for text in turned]
    assert told == [wrong, full, None, [[30, 1, 30, 5, 26, 5, 26, 1]]]
    assert [json.loads(text) for text in stored] == [square] and len(none) == 0


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_relative_boxes_are_of_the_upright_image(tmp_path, orientation):
    marked(tmp_path / "images/a.jpg", orientation)
    x1, y1, x2, y2 = white_box(tmp_path / "images/a.jpg")
    width, height = (32, 48) if orientation == 6 else (48, 32)
    line = f"0 {(x1 + x2) / 2 / width} {(y1 + y2) / 2 / height} "
    line += f"{(x2 - x1) / width} {(y2 - y1) / height}\n"
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/a.txt").write_text(line)
    (tmp_path / "data.yaml").write_text("train: images\nnames: [cat]\n")
    frame = dfgen.build_manifest(yolo=tmp_path / "data.yaml")
    assert frame["boxes"][0][0].tolist() == pytest.approx([x1, y1, x2, y2], abs=1e-3)


def test_a_box_that_stands_out_by_rounding_is_cut_off():
    table = pa.table({"boxes": [[[-0.4, 0.0, 40.6, 30.0]]], "labels": [["cat"]]})
    facts = pa.table({"width": [40], "height": [30], "orientation": [1]})
    placed, problems = place_boxes(table, facts, box_format="xyxy")
    assert placed["boxes"].to_pylist() == [[[0, 0, 40, 30]]]
    assert problems.to_pylist() == [None]


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ([5, 5, 3, 9], "a box is inverted: cat (5, 5, 3, 9)"),
        ([5, 5, 5, 9], "a box is empty: cat (5, 5, 5, 9)"),
        ([-2, 5, 8, 9], "a box is outside the image: cat (-2, 5, 8, 9)"),
        ([50, 5, 60, 9], "a box is outside the image: cat (50, 5, 60, 9)"),
        ([-1, 5, 0, 9], "a box is outside the image: cat (-1, 5, 0, 9)"),
        ([5, 30, 8, 31], "a box is outside the image: cat (5, 30, 8, 31)"),
        ([float("nan"), 5, 60, 9], "a box is inverted: cat (nan, 5, 60, 9)"),
    ],
)
def test_the_first_bad_box_names_the_problem(box, problem):
    rows = [None, [], [[1, 1, 2, 2], box, [9, 9, 1, 1]]]
    labels = [None, [], ["dog", "cat", "ant"]]
    kinds = {"boxes": pa.list_(pa.list_(pa.float32())), "labels": pa.list_(pa.string())}
    table = pa.table({"boxes": rows, "labels": labels}, schema=pa.schema(kinds))
    facts = pa.table({"width": [40] * 3, "height": [30] * 3, "orientation": [1] * 3})
    placed, problems = place_boxes(table, facts, box_format="xyxy")
    assert problems.to_pylist() == [None, None, f"{problem}, the image is 40 x 30 pixels"]
    assert placed["boxes"].to_pylist()[:2] == [None, []]


def test_without_sizes_boxes_are_checked_for_what_can_be_told():
    table = pa.table({"boxes": [[[1.0, 1, 900, 900]], [[5.0, 5, 3, 9]]], "labels": [["a"], ["b"]]})
    placed, problems = place_boxes(table, None, box_format="xyxy")
    assert problems.to_pylist() == [None, "a box is inverted: b (5, 5, 3, 9)"]
    assert placed["boxes"].to_pylist()[0] == [[1, 1, 900, 900]]
