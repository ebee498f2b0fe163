"""LabelMe and CVAT: a bad shape, file or pair is told with its file and its place."""

import os
import zipfile
from pathlib import Path

import annotated
import pytest
from annotated import cvat_shape, drawn
from cases import each
from drawings import BLOB, SQUARE, labelme, png_text

import dfgen
from dfgen.errors import DfgenError, ManifestError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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
        drawn("cat", "mask", (30, 27), (38, 32), mask=png_text(BLOB)),
        'pets/a.json: a mask "cat" of 9 x 6 pixels (width x height) at 30, 27 stands out of the '
        "image, which is 40 x 30",
    ),
    "empty mask": (
        drawn("cat", "mask", (1, 2), (9, 7), mask=png_text(0 * BLOB)),
        'pets/a.json: a mask "cat" has no pixel: remove it',
    ),
    "mask of another size": (
        drawn("cat", "mask", (20, 5), (27, 10), mask=png_text(BLOB)),
        "pets/a.json, shapes[1] (cat) has a mask of 9 x 6 pixels (width x height), and its two "
        "corners are those of 8 x 6: draw it anew",
    ),
}


@pytest.mark.filterwarnings("ignore:1 problem")
@each("name", BAD_SHAPES)
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
         'pets/a.json is of the image "x/b.png" by its imagePath, and lies beside "a.png". Rename '
         "the file as its image, or correct imagePath"),
        (b'{"shapes": [{"label": "", "points": [[1, 2]], "shape_type": "point"}]}',
         "pets/a.json is JSON, but not as LabelMe has it, "),
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


@pytest.mark.filterwarnings("ignore:[12] problem")
@pytest.mark.parametrize("images", ["p", "other"])
def test_a_file_of_labelme_whose_image_path_leads_to_another_image_is_a_problem(images):
    names = {"x": "y", "y": "x", "z": "z"}
    for one, other in names.items():
        annotated.image(f"{images}/{one}/a.png")
        path = f"../../{images}/{other}/a.png".replace("/", "\\" if one == "y" else "/")
        annotated.labelme(f"p/{one}/a.json", GOOD, name=path)
    frame = dfgen.build_manifest(labelme="p", images=images)
    assert frame["problem"].fillna("").tolist() == [
        f'p/x/a.json is of the image "../../{images}/y/a.png" by its imagePath, and lies beside '
        '"x/a.png". Rename the file as its image, or correct imagePath',
        f'p/y/a.json is of the image "../../{images}/x/a.png" by its imagePath, and lies beside '
        '"y/a.png". Rename the file as its image, or correct imagePath',
        "",
    ]


@pytest.mark.filterwarnings("ignore:Left out. 1 path, .png")
def test_files_of_labelme_may_lie_beside_the_images_of_which_others_are_copies():
    for folder in ("pets", "copies"):
        annotated.image(f"{folder}/a.png")
    annotated.labelme("pets/a.json", GOOD)
    assert dfgen.build_manifest(labelme="pets", images="copies")["problem"].isna().all()


@pytest.mark.filterwarnings("ignore:1 problem")
def test_a_mask_of_a_file_without_the_size_of_its_image_is_a_problem():
    annotated.image("pets/b.png")
    annotated.labelme("pets/b.json", GOOD)
    mask = drawn("cat", "mask", (20, 5), (28, 10), mask=png_text(BLOB))
    for size in ((40, None), (None, 30), (None, None)):
        assert problem_of(labelme(mask, size=size)) == (
            'pets/a.json: a mask "cat" needs the width and height of its image, which the file '
            "does not have: save it again"
        )
    assert labelme(GOOD, size=(None, None))["problem"].isna().all()


def test_files_of_labelme_that_are_all_bad_are_refused():
    with pytest.raises(ManifestError, match=r"^None of the 2 annotations can be used. The first"):
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
    with pytest.warns(UserWarning, match="^1 problem"):
        kept = dfgen.build_manifest(labelme="pets", unmatched="keep")
    assert kept["id"].tolist() == ["a.png", "b.png", "c.png", "d"]
    assert kept["labels"].isna().tolist() == [False, True, True, False]
    assert kept["problem"].tolist()[3] == "no image for this annotation: pets/d.json"
    with pytest.warns(UserWarning, match="^Left out"):
        dropped = dfgen.build_manifest(labelme="pets", unmatched="drop", out="m.parquet")
    assert dropped["id"].tolist() == ["a.png"]
    assert dfgen.verify("m.parquet").empty  # images that were left out are not new


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
    "tall mask": (
        in_cvat("mask", rle="0, 140", left=1, top=2, width=4, height=35),
        f'{HERE}, mask "cat" has run lengths (rle) of 140 pixels, expected those of its width and '
        "height, 4 x 35, in an image of 40 x 30. Export it again",
    ),
    "negative mask": (
        in_cvat("mask", rle="2, 4", left=1, top=2, width=-3, height=-2),
        f'{HERE}, mask "cat" has run lengths (rle) of 6 pixels, expected those of its width and '
        "height, -3 x -2, in an image of 40 x 30. Export it again",
    ),
    "tag without label": ("    <tag/>\n", f"{HERE} has a tag without a label: export it again"),
    "box without label": (
        '    <box xtl="1" ytl="2" xbr="9" ybr="8"/>\n',
        f"{HERE} has a box without a label: export it again",
    ),
    "mask before": (
        in_cvat("mask", rle="0, 16", left=-1, top=2, width=4, height=4),
        f'{HERE}: a mask "cat" of 4 x 4 pixels (width x height) at -1, 2 stands out of the image, '
        "which is 40 x 30",
    ),
    "mask beyond": (
        in_cvat("mask", rle="0, 16", left=38, top=2, width=4, height=4),
        f'{HERE}: a mask "cat" of 4 x 4 pixels (width x height) at 38, 2 stands out of the image, '
        "which is 40 x 30",
    ),
}


@pytest.mark.filterwarnings("ignore:1 problem")
@each("name", BAD_ELEMENTS)
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


@pytest.mark.filterwarnings("ignore:1 problem")
@pytest.mark.parametrize(
    "labels", [{}, {"cat": "skeleton", "l": ("points", "cat"), "r": ("points", "cat")}]
)
@pytest.mark.parametrize("points", ["lx", "l", "lrr"])
def test_points_of_a_skeleton_that_are_none_of_its_points_or_repeated_are_a_problem(labels, points):
    images = {}
    for name, found in (("a", "lr"), ("b", points)):
        annotated.image(f"images/{name}.png")
        inside = "".join(cvat_shape("points", one, points=[(1, 2)]) for one in found)
        images[f"{name}.png"] = [in_cvat("skeleton", inside=inside)]
    annotated.cvat("annotations.xml", images, labels)
    problem = dfgen.build_manifest(cvat="annotations.xml")["problem"].fillna("").tolist()[1]
    if points == "l":
        assert not problem  # the other is not there
        return
    assert problem == (
        f'annotations.xml, image "b.png", skeleton "cat" has the point "{points[-1]}", expected '
        "each of l, r at most once"
    )


BOMB = """<?xml version="1.0"?>
<!DOCTYPE annotations [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<annotations><image id="0" name="&b;" width="40" height="30"/></annotations>"""
OUTSIDE = """<!DOCTYPE annotations [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<annotations><image id="0" name="&a;" width="40" height="30"/></annotations>"""
WHOLE = '<annotations><image id="0" name="{}" width="{}" height="30"/>{}</annotations>'


@each(
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


def test_the_archive_that_cvat_exports_is_to_be_unpacked():
    annotated.cvat("annotations.xml", {"a.png": []})
    with zipfile.ZipFile("task.zip", "w") as archive:
        archive.write("annotations.xml")
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(cvat="task.zip")
    assert str(caught.value) == (
        "task.zip is an archive, as CVAT exports it. Unpack it, and give its annotations.xml"
    )


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
