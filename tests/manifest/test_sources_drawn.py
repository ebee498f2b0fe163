"""LabelMe and CVAT: shapes as people draw them become the columns of COCO, and every bad one."""

import base64
import io
import json
import os
from pathlib import Path

import annotated
import cv2
import numpy as np
import pandas as pd
import pytest
from annotated import cvat_shape, drawn
from contracts import SourceContract
from PIL import Image
from pycocotools import mask as coco_masks

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError
from dfgen.manifest.sources import SOURCES

SIZE = (30, 40)  # height, width
STAR = [(20, 1), (8, 28), (38, 10), (2, 10), (32, 28)]  # its edges cross
SQUARE = [(4, 3), (16, 3), (16, 15), (4, 15)]
BLOB = np.zeros((6, 9), np.uint8)
BLOB[1:5, 2:8] = 1
BLOB[2, 4] = 0
IN_PLACE = np.zeros(SIZE, np.uint8)
IN_PLACE[5:11, 20:29] = BLOB


def flat(points):
    return [float(number) for point in points for number in point]


def by_pycocotools(*polygons):
    regions = coco_masks.frPyObjects([flat(one) for one in polygons], *SIZE)
    return coco_masks.decode(coco_masks.merge(regions))


def masks_of(frame):
    """Return the mask of each object of the only row."""
    options = {"max_items": 9, "class_names": ["cat", "dog"], "like": dfgen.Image(size=SIZE)}
    feature = dfgen.Segmentation(**options)
    masks = feature(frame.iloc[0])["masks"][..., 0]
    return masks[: len(frame["labels"][0])]


def png_text(mask):
    file = io.BytesIO()
    Image.fromarray(mask * 255).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def rle_of(mask):
    """Return the run lengths of CVAT: along the rows, of zeros first."""
    values = [0, *mask.ravel().tolist()]
    edges = [n for n in range(1, len(values)) if values[n] != values[n - 1]] + [len(values)]
    return ", ".join(map(str, np.diff([1, *edges]).tolist()))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def labelme(*shapes, **options):
    """Return the manifest of one image with these shapes."""
    annotated.image("pets/a.png")
    annotated.labelme("pets/a.json", *shapes, **options)
    return dfgen.build_manifest(labelme="pets")


def cvat(*shapes, labels=None):
    annotated.image("images/a.png")
    annotated.cvat("annotations.xml", {"a.png": shapes}, labels)
    return dfgen.build_manifest(cvat="annotations.xml")


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
    mask = drawn("cat", "mask", (20, 5), (28, 10), mask=png_text(BLOB))
    np.testing.assert_array_equal(masks_of(labelme(mask)), [IN_PLACE])
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
    box = cvat_shape("box", "cat", xtl=10.0, ytl=10.0, xbr=30.0, ybr=20.0, rotation=90.0, z_order=0)
    frame = cvat(box)
    assert frame["boxes"][0][0].tolist() == pytest.approx([15, 5, 25, 25])
    corners = json.loads(frame["segmentation"][0][0])[0]
    assert corners[:2] == pytest.approx([25, 5])  # what was the upper left corner


def test_shapes_on_top_come_last():
    frame = cvat(
        cvat_shape("polygon", "top", points=SQUARE, z_order=3),
        cvat_shape("polygon", "below", points=SQUARE, z_order=-1),
        cvat_shape("polygon", "between", points=SQUARE, z_order=0),
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
        cvat_shape("points", "nose", points=[(7, 8)], z_order=0),
    )
    assert frame["polylines"][0][0].tolist() == [1, 2, 30, 20]
    assert frame["keypoints"][0][0].tolist() == [7, 8, 2]
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
    again = dfgen.build_manifest(cvat="annotations.xml", images="elsewhere")
    assert again["split"].tolist() == ["Train", "Validation"]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("tool", ["labelme", "cvat"])
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


def problem_of(frame):
    [problem] = frame["problem"].tolist()[:1]
    return problem


GOOD = drawn("cat", "polygon", *SQUARE)
BAD_SHAPES = {
    "two points": (
        drawn("cat", "polygon", (1, 2), (3, 4)),
        "pets/a.json, shapes[1] (cat) is a polygon of 2 points, expected three points or more: "
        "draw it anew, or remove it",
    ),
    "outside": (
        drawn("cat", "polygon", (1, 2), (50, 2), (50, 9)),
        "a box is outside the image: cat (1, 2, 50, 9), the image is 40 x 30 pixels",
    ),
    "far outside": (
        drawn("cat", "polygon", (1, 2), (1e300, 2), (50, 9)),
        'pets/a.json: a shape "cat" has a corner that is no pixel',
    ),
    "flat": (
        drawn("cat", "polygon", (1, 2), (5, 2), (9, 2)),
        "a box is empty: cat (1, 2, 9, 2), the image is 40 x 30 pixels",
    ),
    "unknown": (
        drawn("cat", "blob", (1, 2)),
        'pets/a.json, shapes[1] (cat) is of the type "blob", expected one of polygon, rectangle, '
        "oriented_rectangle, circle, mask, line, linestrip, point, points",
    ),
    "no png": (
        drawn("cat", "mask", (1, 2), (3, 4), mask="AAAA"),
        "pets/a.json, shapes[1] (cat) has a mask that cannot be read, {}: expected a PNG in base64",
    ),
    "mask beyond": (
        drawn("cat", "mask", (35, 2), (43, 7), mask=png_text(BLOB)),
        'pets/a.json: a mask "cat" of 9 x 6 pixels (width x height) at 35, 2 stands out of the '
        "image, which is 40 x 30",
    ),
    "empty mask": (
        drawn("cat", "mask", (1, 2), (3, 4), mask=png_text(0 * BLOB)),
        'pets/a.json: a mask "cat" has no pixel: remove it',
    ),
}


@pytest.mark.filterwarnings("ignore:1 problem")
@pytest.mark.parametrize("name", BAD_SHAPES)
def test_a_bad_shape_of_labelme_is_the_problem_of_its_row(name):
    shape, message = BAD_SHAPES[name]
    annotated.image("pets/b.png")
    annotated.labelme("pets/b.json", GOOD)
    problem = problem_of(labelme(GOOD, shape))
    start, _, end = message.partition("{}")
    assert problem.startswith(start) and problem.endswith(end)
    assert end or problem == message


@pytest.mark.filterwarnings("ignore:1 problem")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "pets/a.json is broken JSON, Input data was truncated. Mend the file, or fetch it "
         "again"),
        ('{"shapes": [], "imagePath": "\u00e4.png"}'.encode("latin-1"),
         "pets/a.json is broken JSON, 'utf-8' codec can't decode byte 0xe4"),
        (b"[1]", "pets/a.json is JSON, but not as LabelMe has it, "),
        (b'{"shapes": [{"label": "cat", "points": [[1, 2, 3]]}]}',
         "pets/a.json is JSON, but not as LabelMe has it, "),
        (b'{"shapes": [], "imagePath": "x/b.png"}',
         'pets/a.json is of the image "b.png" by its imagePath, and lies beside "a.png". Rename '
         "the file as its image, or correct imagePath"),
        (b'{"shapes": [], "imageHeight": 99999, "imageWidth": 99999}',
         "pets/a.json has 99,999 x 99,999 pixels, more than limits.decoded_bytes='512MiB'"),
        (b'{"shapes": [{"label": "cat", "points": [[1, 2], [3, 2], [3, 4]]}], "imageHeight": 60, '
         b'"imageWidth": 80}',
         "annotated for another size: 80 x 60 pixels, the file is 40 x 30"),
    ],
)  # fmt: skip
def test_a_bad_file_of_labelme_is_the_problem_of_its_row(content, message):
    for name in "ab":
        annotated.image(f"pets/{name}.png")
        annotated.labelme(f"pets/{name}.json", GOOD)
    Path("pets/a.json").write_bytes(content)
    frame = dfgen.build_manifest(labelme="pets")
    assert problem_of(frame).startswith(message)
    assert frame["problem"].isna().tolist() == [False, True]


def test_files_of_labelme_that_are_all_bad_are_refused():
    with pytest.raises(ManifestError, match=r"None of the 2 annotations can be used$"):
        for name in "ab":
            annotated.image(f"pets/{name}.png")
            Path(f"pets/{name}.json").write_text("{")
        dfgen.build_manifest(labelme="pets")


def test_a_byte_order_mark_is_no_fault():
    annotated.image("pets/a.png")
    annotated.labelme("pets/a.json", GOOD)
    text = Path("pets/a.json").read_text("utf-8")
    Path("pets/a.json").write_text(text, "utf-8-sig")
    assert dfgen.build_manifest(labelme="pets")["labels"][0].tolist() == ["cat"]


def test_images_and_json_files_without_partner_are_named():
    for name in ("a.png", "b.png", "c.png", "c.jpg"):
        annotated.image(f"pets/{name}")
    annotated.labelme("pets/a.json", GOOD)
    annotated.labelme("pets/d.json", GOOD)
    with pytest.raises(ManifestError, match=r'two images in "pets" have one name, "c.jpg" and "c'):
        dfgen.build_manifest(labelme="pets")
    os.remove("pets/c.jpg")
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(labelme="pets")
    for part in ('"b"', '"c"', '"d"', "2 of 3 images have no .json file", 'unmatched="keep"'):
        assert part in str(caught.value)
    with pytest.warns(UserWarning, match="^Left out"):
        dropped = dfgen.build_manifest(labelme="pets", unmatched="drop")
    assert dropped["id"].tolist() == ["a.png"]


def test_two_json_files_of_one_image_are_refused():
    annotated.image("pets/a.png")
    annotated.labelme("pets/a.json", GOOD)
    annotated.labelme("pets/a.JSON", GOOD)
    with pytest.raises(ManifestError, match=r'^two annotations in "pets" have one name, "a.JSON"'):
        dfgen.build_manifest(labelme="pets")


def in_cvat(tag, **values):
    return cvat_shape(tag, "cat", z_order=0, **values)


BOX = {"xtl": 1.0, "ytl": 2.0, "xbr": 9.0, "ybr": 8.0}
HERE = 'annotations.xml, image "a.png"'
BAD_ELEMENTS = {
    "two points": (
        in_cvat("polygon", points=[(1, 2), (3, 4)]),
        f'{HERE}, polygon "cat" has 2 points, expected 3 or more: draw it anew, or remove it',
    ),
    "no points": (
        in_cvat("polygon"),
        f'{HERE}, polygon "cat" has the points "", expected x,y;x,y;...',
    ),
    "three numbers": (
        '    <polygon label="cat" points="1,2,3;4,5,6;7,8,9"/>\n',
        f'{HERE}, polygon "cat" has the points "1,2,3;4,5,6;7,8,9", expected x,y;x,y;...',
    ),
    "outside": (
        in_cvat("polygon", points=[(1, 2), (50, 2), (50, 9)]),
        "a box is outside the image: cat (1, 2, 50, 9), the image is 40 x 30 pixels",
    ),
    "no corner": (
        in_cvat("box", xtl=1.0, ytl=2.0, xbr=9.0),
        f'{HERE}, box "cat" has ybr="", expected a number of pixels',
    ),
    "not a number": (
        in_cvat("box", **{**BOX, "xbr": "nan"}),
        f'{HERE}, box "cat" has xbr="nan", expected a number of pixels',
    ),
    "long rle": (
        in_cvat("mask", rle="5, 3, 9", left=1, top=2, width=4, height=4),
        f'{HERE}, mask "cat" has run lengths (rle) of 17 pixels, expected those of its width and '
        "height, 4 x 4, in an image of 40 x 30. Export it again",
    ),
    "huge rle": (
        in_cvat("mask", rle=f"0, {10**30}", left=1, top=2, width=4, height=4),
        f'{HERE}, mask "cat" has run lengths (rle) that are no counts of pixels. Export it again',
    ),
    "large mask": (
        in_cvat("mask", rle=str(10**10), left=1, top=2, width=10**5, height=10**5),
        f'{HERE}, mask "cat" has run lengths (rle) of 10,000,000,000 pixels, expected those of its '
        "width and height, 100000 x 100000, in an image of 40 x 30. Export it again",
    ),
    "mask beyond": (
        in_cvat("mask", rle="0, 16", left=38, top=2, width=4, height=4),
        f'{HERE}: a mask "cat" of 4 x 4 pixels (width x height) at 38, 2 stands out of the image, '
        "which is 40 x 30",
    ),
}


@pytest.mark.filterwarnings("ignore:1 problem")
@pytest.mark.parametrize("name", BAD_ELEMENTS)
def test_a_bad_shape_of_cvat_is_the_problem_of_its_row(name):
    shape, message = BAD_ELEMENTS[name]
    for image in "ab":
        annotated.image(f"images/{image}.png")
    good = in_cvat("box", **BOX)
    annotated.cvat("annotations.xml", {"a.png": [good, shape], "b.png": [good]})
    frame = dfgen.build_manifest(cvat="annotations.xml")
    assert problem_of(frame) == message
    assert frame["labels"][1].tolist() == ["cat"]
    if name != "outside":
        assert frame.loc[0, ["boxes", "labels", "segmentation"]].isna().all()


BOMB = """<?xml version="1.0"?>
<!DOCTYPE annotations [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<annotations><image id="0" name="&b;" width="40" height="30"/></annotations>"""
OUTSIDE = """<!DOCTYPE annotations [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<annotations><image id="0" name="&a;" width="40" height="30"/></annotations>"""
WHOLE = '<annotations><image id="0" name="{}" width="{}" height="30"/>{}</annotations>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotations>\n<image>\n", "x.xml, line 3, column 1: broken XML, no element found. Mend "
         "or remove it"),
        ("", "x.xml, line 1, column 1: broken XML, no element found. Mend or remove it"),
        (BOMB, "x.xml declares entities or asks for other files: EntitiesForbidden(name='a', "
         "system_id=None, public_id=None). dfgen reads neither: write its text in full"),
        (OUTSIDE, "x.xml declares entities or asks for other files: EntitiesForbidden(name='a', "
         "system_id='file:///etc/passwd', public_id=None). dfgen reads neither: write its text in "
         "full"),
        ("<annotation/>", "x.xml is not of CVAT for images: its root is <annotation>, expected "
         "<annotations>"),
        ('<annotations><track id="0" label="car"/></annotations>', "x.xml has tracks, as CVAT for "
         'video has them: export the same task as "CVAT for images 1.1"'),
        (WHOLE.format("", 40, ""), "x.xml has an image without a name: {'id': '0', 'name': '', "
         "'width': '40', 'height': '30'}"),
        (WHOLE.format("a.png", "", ""), 'x.xml, image "a.png" has width="", expected a number of '
         "pixels"),
        (WHOLE.format("../a.png", 40, ""), "1 of 1 paths of x.xml cannot be used: the path leaves "
         'its root by "..". row 0 (id "0"): "../a.png". Paths are stored relative to the '
         "manifest's root, or all of them absolute"),
        (WHOLE.format("a.png", 99999, '<image name="b.png" width="99999" height="99999"/>'),
         None),
    ],
)  # fmt: skip
def test_a_file_of_cvat_that_cannot_be_read_is_refused(text, message):
    annotated.image("a.png")
    Path("x.xml").write_text(text)
    if message is None:
        annotated.image("b.png")
        with pytest.warns(UserWarning, match=r"^[12] problem"):
            frame = dfgen.build_manifest(cvat="x.xml")
        assert frame["problem"][1].startswith('x.xml, image "b.png" has 99,999 x 99,999 pixels')
        return
    with pytest.raises(DfgenError) as caught:
        dfgen.build_manifest(cvat="x.xml")
    assert str(caught.value) == message


def test_an_image_of_cvat_that_is_not_there_is_the_problem_of_its_row():
    annotated.image("images/a.png")
    annotated.cvat("x.xml", {"a.png": [], "b.png": []})
    with pytest.warns(UserWarning, match="^1 problem"):
        frame = dfgen.build_manifest(cvat="x.xml")
    assert frame["problem"].notna().tolist() == [False, True]


def test_a_file_of_cvat_in_another_encoding_is_read_as_it_says():
    annotated.image("images/\u00e4.png")
    text = Path(annotated.cvat("x.xml", {"\u00e4.png": []})).read_text("utf-8")
    Path("x.xml").write_bytes(text.replace("utf-8", "iso-8859-1").encode("latin-1"))
    assert dfgen.build_manifest(cvat="x.xml")["id"].tolist() == ["\u00e4.png"]
    Path("x.xml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ManifestError, match=r"^x.xml, line \d+, column \d+: broken XML, not well"):
        dfgen.build_manifest(cvat="x.xml")


def test_a_model_trains_on_shapes_of_both_tools():
    frames = [labelme(GOOD), cvat(cvat_shape("polygon", "cat", points=STAR, z_order=0))]
    frame = pd.concat(frames, ignore_index=True)
    frame["id"] = ["labelme", "cvat"]
    image = dfgen.Image(size=SIZE)
    with dfgen.Sequence(frame, image, dfgen.Segmentation(class_names=["cat"]), batch_size=2) as seq:
        _, masks = seq[0]
    found = dict(zip(seq.ids(0), masks[..., 0], strict=True))
    np.testing.assert_array_equal(found["labelme"], by_pycocotools(SQUARE))
    np.testing.assert_array_equal(found["cvat"], by_pycocotools(STAR))
