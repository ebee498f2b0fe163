"""LabelMe and CVAT: shapes as people draw them become the columns of COCO."""

import json
import os
import zipfile
from pathlib import Path

import annotated
import cv2
import numpy as np
import pandas as pd
import pytest
from annotated import cvat_shape, drawn
from cases import each
from contracts import SourceContract
from drawings import (
    BLOB,
    IN_PLACE,
    SIZE,
    SQUARE,
    STAR,
    by_pycocotools,
    cvat,
    flat,
    labelme,
    png_text,
    rle_of,
)
from pycocotools import mask as coco_masks

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.sources import SOURCES


def masks_of(frame):
    """Return the mask of each object of the only row."""
    options = {"max_items": 9, "class_names": ["cat", "dog"], "like": dfgen.Image(size=SIZE)}
    feature = dfgen.Segmentation(**options)
    masks = feature(frame.iloc[0])["masks"][..., 0]
    return masks[: len(frame["labels"][0])]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


SIZES = {"annotated_width": 40, "annotated_height": 30}
TRIANGLE = "[[1.0,2.0,9.0,2.0,9.0,8.0]]"


class TestLabelme(SourceContract):
    expected = [  # noqa: RUF012
        {
            "path": "b.png", "boxes": [[1, 2, 9, 8]], "labels": ["cat"],
            "segmentation": [TRIANGLE], **SIZES, "problem": None,
        },
        {
            "path": "a/1.png", "boxes": [], "labels": [], "segmentation": [], **SIZES,
            "problem": None,
        },
    ]  # fmt: skip

    def source(self, *arguments):
        return SOURCES["labelme"].read(*arguments)

    def make(self, folder):
        for name in ("b", "a/1"):
            annotated.image(folder / f"{name}.png")
        annotated.labelme(folder / "b.json", drawn("cat", "polygon", (1, 2), (9, 2), (9, 8)))
        annotated.labelme(folder / "a/1.json")
        return (str(folder),)

    def missing(self, folder):
        return (f"{folder}/nowhere",)


class TestCvat(SourceContract):
    expected = [  # noqa: RUF012
        {
            "path": "b.png", "boxes": [[1, 2, 9, 8]], "labels": ["cat"],
            "segmentation": [TRIANGLE], **SIZES, "problem": None,
        },
        {
            "path": "a/1.png", "boxes": [], "labels": [], "segmentation": [], **SIZES,
            "problem": None,
        },
    ]  # fmt: skip

    def source(self, *arguments):
        return SOURCES["cvat"].read(*arguments)

    def make(self, folder):
        triangle = cvat_shape("polygon", "cat", points=[(1, 2), (9, 2), (9, 8)], z_order=0)
        return (annotated.cvat(folder / "x.xml", {"b.png": [triangle], "a/1.png": []}),)

    def missing(self, folder):
        return (f"{folder}/nowhere.xml",)


@pytest.mark.parametrize("points", [SQUARE, STAR, [(1.25, 2.5), (39.75, 3), (20.5, 28.25)]])
@pytest.mark.parametrize("tool", ["labelme", "cvat"])
def test_a_polygon_sets_the_pixels_that_pycocotools_sets(tool, points):
    if tool == "labelme":
        frame = labelme(drawn("cat", "polygon", *points))
    else:
        frame = cvat(cvat_shape("polygon", "cat", points=points, z_order=0))
    np.testing.assert_array_equal(masks_of(frame), [by_pycocotools(points)])
    xs, ys = zip(*points, strict=True)
    assert [list(box) for box in frame["boxes"][0]] == [[min(xs), min(ys), max(xs), max(ys)]]
    assert frame.attrs["dfgen"]["labels"]["boxes"] == {"kind": "list", "box_format": "xyxy"}
    image = dfgen.Image(size=SIZE)
    boxes = dfgen.Boxes("boxes", like=image, max_boxes=2, class_names=["cat"])(frame.iloc[0])
    assert boxes["boxes"][0].tolist() == [min(xs), min(ys), max(xs), max(ys)]


def test_the_same_drawing_of_three_tools_is_one_manifest():
    made = [
        labelme(drawn("cat", "polygon", *STAR), drawn("dog", "rectangle", (16, 15), (4, 3))),
        cvat(
            cvat_shape("polygon", "cat", points=STAR, z_order=0),
            cvat_shape("box", "dog", xtl=4.0, ytl=3.0, xbr=16.0, ybr=15.0, z_order=0),
        ),
    ]
    boxes = [
        annotated.box(1, 1, 2, 1, 36, 27, segmentation=[flat(STAR)]),
        annotated.box(1, 2, 4, 3, 12, 12, segmentation=[flat(SQUARE)]),
    ]
    annotated.coco("c.json", {1: "a.png"}, boxes, {1: "cat", 2: "dog"})
    coco = dfgen.build_manifest(coco="c.json", images="images")
    for frame in made:
        for column in ("boxes", "labels", "segmentation"):
            expected = np.array(coco[column][0].tolist()).tolist()
            assert np.array(frame[column][0].tolist()).tolist() == expected


def test_masks_are_placed_where_they_were_drawn():
    mask = drawn("cat", "mask", (19.6, 5.4), (28.4, 9.6), mask=png_text(BLOB))
    np.testing.assert_array_equal(masks_of(labelme(mask)), [IN_PLACE])
    corner = drawn("cat", "mask", (31, 24), (39, 29), mask=png_text(BLOB))
    np.testing.assert_array_equal(masks_of(labelme(corner)), [np.roll(IN_PLACE, (19, 11), (0, 1))])
    shape = cvat_shape(
        "mask", "cat", rle=rle_of(BLOB), left=20, top=5, width=9, height=6, z_order=0
    )
    frame = cvat(shape)
    np.testing.assert_array_equal(masks_of(frame), [IN_PLACE])
    assert [list(box) for box in frame["boxes"][0]] == [[22, 6, 28, 10]]
    written = json.loads(frame["segmentation"][0][0])
    np.testing.assert_array_equal(
        coco_masks.decode(coco_masks.frPyObjects(written, *SIZE)), IN_PLACE
    )


@pytest.mark.parametrize("tool", ["labelme", "cvat"])
def test_shapes_of_one_label_and_group_are_parts_of_one_object(tool):
    small = [(30, 20), (38, 20), (38, 28)]
    if tool == "labelme":
        frame = labelme(
            drawn("cat", "polygon", *SQUARE, group_id=1),
            drawn("dog", "polygon", *STAR, group_id=1),
            drawn("cat", "polygon", *small, group_id=1),
            drawn("dog", "mask", (20, 5), (28, 10), mask=png_text(BLOB), group_id=1),
            drawn("cat", "polygon", *small),
        )
    else:
        values = {"left": 20, "top": 5, "width": 9, "height": 6}
        frame = cvat(
            cvat_shape("polygon", "cat", points=SQUARE, z_order=0, group_id=1),
            cvat_shape("polygon", "dog", points=STAR, z_order=0, group_id=1),
            cvat_shape("polygon", "cat", points=small, z_order=0, group_id=1),
            cvat_shape("mask", "dog", rle=rle_of(BLOB), **values, z_order=0, group_id=1),
            cvat_shape("polygon", "cat", points=small, z_order=0),
        )
    assert frame["labels"][0].tolist() == ["cat", "dog", "cat"]
    assert frame["boxes"][0][0].tolist() == [4, 3, 38, 28]
    expected = [by_pycocotools(SQUARE, small), by_pycocotools(STAR) | IN_PLACE]
    np.testing.assert_array_equal(masks_of(frame), [*expected, by_pycocotools(small)])


def test_shapes_that_nobody_grouped_are_objects_of_their_own():
    frame = labelme(*[drawn("cat", "polygon", *SQUARE, group_id="")] * 2)
    assert frame["labels"][0].tolist() == ["cat"] * 2
    for group in ("0", ""):
        frame = cvat(*[cvat_shape("polygon", "cat", points=SQUARE, z_order=0, group_id=group)] * 2)
        assert frame["labels"][0].tolist() == ["cat"] * 2
    frame = labelme(*[drawn("cat", "polygon", *SQUARE, group_id=0)] * 2)
    assert frame["labels"][0].tolist() == ["cat"]  # of LabelMe, 0 is a group


def test_circles_and_ellipses_cover_what_opencv_draws():
    frame = labelme(drawn("cat", "circle", (20, 15), (20, 5)))
    assert frame["boxes"][0][0].tolist() == pytest.approx([10, 5, 30, 25])
    area = masks_of(frame)[0].sum()
    assert area == pytest.approx(np.pi * 100, rel=0.03)
    turned = cvat_shape(
        "ellipse", "cat", cx=20.0, cy=15.0, rx=14.0, ry=4.0, rotation=30.0, z_order=0
    )
    canvas = cv2.ellipse(np.zeros(SIZE, np.uint8), (20, 15), (14, 4), 30, 0, 360, 1, -1)
    found = masks_of(cvat(turned))[0]
    outline = canvas - cv2.erode(canvas, np.ones((3, 3), np.uint8))
    assert (found != canvas).sum() <= outline.sum()  # at most the pixels of the edge
    assert found.sum() == pytest.approx(np.pi * 14 * 4, rel=0.03)


def test_the_box_of_a_circle_over_the_edge_ends_there():
    frame = labelme(drawn("cat", "circle", (38, 15), (38, 5)))
    assert frame["problem"].isna().all()
    assert frame["boxes"][0][0].tolist() == pytest.approx([28, 5, 40, 25])


def test_a_rotated_box_is_turned_clockwise_around_its_middle():
    corners = {"xtl": 10.0, "ytl": 10.0, "xbr": 30.0, "ybr": 20.0}
    frame = cvat(cvat_shape("box", "cat", **corners, rotation=90.0, z_order=0))
    assert frame["boxes"][0][0].tolist() == pytest.approx([15, 5, 25, 25])
    turned = json.loads(frame["segmentation"][0][0])[0]
    assert turned[:2] == pytest.approx([25, 5])  # what was the upper left corner
    frame = cvat(cvat_shape("box", "cat", **corners, rotation=30.0, z_order=0))
    box = [8.8397, 5.6699, 31.1603, 24.3301]  # as Datumaro 1.13 reads it
    assert frame["boxes"][0][0].tolist() == pytest.approx(box, abs=1e-4)


def test_shapes_on_top_come_last():
    frame = cvat(
        cvat_shape("polygon", "top", points=SQUARE, z_order=10),
        cvat_shape("polygon", "below", points=SQUARE, z_order=-1),
        cvat_shape("polygon", "between", points=SQUARE, z_order=9),
    )
    assert frame["labels"][0].tolist() == ["below", "between", "top"]


def test_lines_and_points_have_columns_of_their_own():
    frame = labelme(
        drawn("road", "line", (1, 2), (30, 20)),
        drawn("road", "linestrip", (1, 2), (3, 4), (5, 6)),
        drawn("nose", "point", (7, 8)),
        drawn("eyes", "points", (1, 2), (3, 4)),
        drawn("cat", "rectangle", (1, 2), (3, 4)),
    )
    assert [list(line) for line in frame["polylines"][0]] == [[1, 2, 30, 20], [1, 2, 3, 4, 5, 6]]
    assert frame["polyline_labels"][0].tolist() == ["road", "road"]
    assert [list(one) for one in frame["keypoints"][0]] == [[7, 8, 2], [1, 2, 2, 3, 4, 2]]
    assert frame["keypoint_labels"][0].tolist() == ["nose", "eyes"]
    assert frame["labels"][0].tolist() == ["cat"]
    frame = cvat(
        cvat_shape("polyline", "road", points=[(1, 2), (30, 20)], z_order=0),
        cvat_shape("points", "nose", points=[(7, 8), (9, 1)], z_order=0),
    )
    assert frame["polylines"][0][0].tolist() == [1, 2, 30, 20]
    assert frame["keypoints"][0][0].tolist() == [7, 8, 2, 9, 1, 2]
    assert frame["boxes"][0].tolist() == []


def test_the_points_of_a_skeleton_are_in_the_order_of_the_project():
    def joint(label, x, y, outside=0, occluded=0):
        return cvat_shape("points", label, outside=outside, occluded=occluded, points=[(x, y)])

    inside = joint("tail", 9, 8, occluded=1) + joint("nose", 1, 2) + joint("ear", 5, 5, outside=1)
    labels = {
        "cat": "skeleton", "nose": ("points", "cat"), "ear": ("points", "cat"),
        "paw": ("points", "cat"), "tail": ("points", "cat"),
    }  # fmt: skip
    frame = cvat(cvat_shape("skeleton", "cat", inside=inside, z_order=0), labels=labels)
    assert frame["keypoints"][0][0].tolist() == [1, 2, 2, 0, 0, 0, 0, 0, 0, 9, 8, 1]
    keypoints = dfgen.Keypoints("keypoints", count=4, like=dfgen.Image(size=SIZE))
    assert keypoints(frame.iloc[0])[0].tolist() == [1, 2, 2]
    names = frame.attrs["dfgen"]["labels"]["keypoint_labels"]["class_names"]
    assert names == ["cat"]


def test_without_labels_of_the_project_points_are_in_the_order_of_the_first_skeleton():
    places = {"left": [(1, 2)], "right": [(3, 4)]}
    skeletons = []
    for names in (("left", "right"), ("right", "left")):
        inside = "".join(cvat_shape("points", name, points=places[name]) for name in names)
        skeletons.append(cvat_shape("skeleton", "cat", inside=inside, z_order=0))
    frame = cvat(*skeletons)
    assert [list(points) for points in frame["keypoints"][0]] == [[1, 2, 2, 3, 4, 2]] * 2


def test_tags_and_flags_of_the_image_are_a_column_that_multi_label_reads():
    frame = labelme(drawn("cat", "polygon", *SQUARE), flags={"indoors": True, "night": False})
    assert frame["flags"][0].tolist() == ["indoors"]
    assert frame.attrs["dfgen"]["labels"]["flags"]["class_names"] == ["indoors", "night"]
    with dfgen.Sequence(frame, dfgen.Image(size=SIZE), dfgen.MultiLabel("flags")) as seq:
        assert seq[0][1].tolist() == [[1, 0]]
    labels = {"night": "tag", "cat": "any", "indoors": "tag"}
    frame = cvat(cvat_shape("tag", "indoors"), labels=labels)
    assert frame["tags"][0].tolist() == ["indoors"]
    known = frame.attrs["dfgen"]["labels"]
    assert known["tags"]["class_names"] == ["night", "indoors"]
    assert known["labels"]["class_names"] == ["cat"]


def test_attributes_are_the_json_of_each_object():
    frame = labelme(
        drawn("cat", "polygon", *SQUARE, flags={"tabby": True}, description="asleep"),
        drawn("cat", "polygon", *SQUARE),
    )
    told, none = frame["attributes"][0]
    assert (json.loads(told), none) == ({"tabby": True, "description": "asleep"}, None)
    frame = cvat(cvat_shape("polygon", "cat", {"fur": "gr\u00fcn"}, points=SQUARE, z_order=0))
    assert json.loads(frame["attributes"][0][0]) == {"fur": "gr\u00fcn"}


def test_attributes_in_which_parts_of_an_object_differ_are_lists():
    told = [{"fur": "grey", "age": "3"}, {"fur": "red", "age": "3"}, {"age": "3", "fur": "grey"}]
    shapes = [
        cvat_shape("polygon", "cat", each, points=SQUARE, z_order=0, group_id=1) for each in told
    ]
    frame = cvat(*shapes)
    assert json.loads(frame["attributes"][0][0]) == {"fur": ["grey", "red"], "age": "3"}


def test_what_has_no_column_is_told():
    shapes = [
        cvat_shape("cuboid", "car", xtl1=1.0, ytl1=1.0, z_order=0),
        cvat_shape("tag", "night", {"moon": "full"}),
    ]
    annotated.image("images/a.png")
    annotated.cvat("annotations.xml", {"a.png": shapes})
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest(cvat="annotations.xml")
    assert [str(warning.message) for warning in caught] == [
        "Left out of annotations.xml: 1 attribute, 1 cuboid. Only shapes with an area have "
        "attributes"
    ]


def test_the_subsets_of_a_project_are_the_column_split():
    shapes = [cvat_shape("polygon", "cat", points=SQUARE, z_order=0)]
    for split in ("Train", "Validation"):
        annotated.image(f"images/{split}/a.png")
    images = {("Train", "a.png"): shapes, ("Validation", "a.png"): []}
    annotated.cvat("annotations.xml", images)
    frame = dfgen.build_manifest(cvat="annotations.xml")
    assert frame["id"].tolist() == ["Train/a.png", "Validation/a.png"]
    assert frame["split"].tolist() == ["Train", "Validation"]
    assert frame["problem"].isna().all()
    os.rename("images", "elsewhere")
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(cvat="annotations.xml")
    assert str(caught.value) == (
        'annotations.xml has two images of the name "a.png": which of them do the shapes belong '
        "to? Give the folder above those of the subsets as images= (--images), or rename one of "
        "the images in CVAT"
    )
    with zipfile.ZipFile("images.zip", "w") as archive, zipfile.ZipFile("top.zip", "w") as top:
        for split in ("Train", "Validation"):
            archive.write(f"elsewhere/{split}/a.png")
            top.write(f"elsewhere/{split}/a.png", f"{split}/a.png")
    Path("damaged.zip").write_bytes(b"PK\3\4")
    with pytest.raises(ManifestError, match=r"damaged.zip cannot be read: the archive is damaged"):
        dfgen.build_manifest(cvat="annotations.xml", images="damaged.zip")
    for place in ("elsewhere", "zip://elsewhere::images.zip", "top.zip", "zip://::top.zip"):
        again = dfgen.build_manifest(cvat="annotations.xml", images=place)
        assert again["split"].tolist() == ["Train", "Validation"]
        assert again["problem"].isna().all()


@each("orientation", range(1, 9))
@each("tool", ["labelme", "cvat"])
def test_shapes_are_of_the_upright_image_that_both_tools_show(tool, orientation):
    size = (48, 32) if orientation < 5 else (32, 48)
    corners = [(1, 2), (9, 2), (9, 8)]
    annotated.image("pets/a.jpg", 48, 32, orientation=orientation)
    if tool == "labelme":
        annotated.labelme("pets/a.json", drawn("cat", "polygon", *corners), size=size)
        frame = dfgen.build_manifest(labelme="pets")
    else:
        shape = cvat_shape("polygon", "cat", points=corners, z_order=0)
        annotated.cvat("x.xml", {"a.jpg": [shape]}, size=size)
        frame = dfgen.build_manifest(cvat="x.xml", images="pets")
    assert frame["problem"].isna().all()
    assert frame["boxes"][0][0].tolist() == [1, 2, 9, 8]
    assert json.loads(frame["segmentation"][0][0]) == [flat(corners)]


def test_class_names_fix_the_numbers_of_labelme():
    annotated.image("pets/a.png")
    annotated.labelme("pets/a.json", drawn("cat", "polygon", *SQUARE))
    frame = dfgen.build_manifest(labelme="pets", class_names=["dog", "cat"])
    assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["dog", "cat"]
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(labelme="pets", class_names=["dog", "cats"])
    assert str(caught.value) == (
        'pets/a.json has a shape of class "cat", which is not among class_names (--class-names). '
        'Did you mean "cats"? Classes: dog, cats'
    )


def test_images_may_lie_in_a_folder_of_their_own():
    annotated.image("images/s/a.png")
    annotated.labelme(
        "json/s/a.json", drawn("cat", "polygon", *SQUARE), name="..\\..\\images\\s\\a.png"
    )
    frame = dfgen.build_manifest(labelme="json", images="images")
    assert frame["id"].tolist() == ["s/a.png"]
    with pytest.raises(ArgumentError, match=r"^images= \(--images\) names several folders: give"):
        dfgen.build_manifest(labelme="json", images={"train": "images"})


def test_a_model_trains_on_shapes_of_both_tools():
    frames = [
        labelme(drawn("cat", "polygon", *SQUARE)),
        cvat(cvat_shape("polygon", "cat", points=STAR, z_order=0)),
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame["id"] = ["labelme", "cvat"]
    image = dfgen.Image(size=SIZE)
    with dfgen.Sequence(frame, image, dfgen.Segmentation(class_names=["cat"]), batch_size=2) as seq:
        _, masks = seq[0]
    found = dict(zip(seq.ids(0), masks[..., 0], strict=True))
    np.testing.assert_array_equal(found["labelme"], by_pycocotools(SQUARE))
    np.testing.assert_array_equal(found["cvat"], by_pycocotools(STAR))
