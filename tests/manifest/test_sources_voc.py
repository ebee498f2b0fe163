import os
import shutil

import annotated
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.sources import voc


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Four images and their annotations, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in "abcd":
        annotated.image(f"images/s/{name}.png")
    annotated.xml("xml/s/a.xml", ("dog", 1, 2, 10, 12), ("cat", 0, 0, 40, 30), ("dog", 1, 1, 2, 2))
    annotated.xml("xml/s/b.xml")
    annotated.xml("xml/s/c.xml", ("ant", 5, 5, 30, 9))
    annotated.xml("xml/s/d.xml", ("cat", 5, 5, 30, 9))
    return tmp_path


def build(**options):
    return dfgen.build_manifest(voc="xml", images="images", **options)


def refused(error, **options):
    with pytest.raises(error) as caught:
        build(**options)
    return str(caught.value)


def test_the_label_is_the_class_of_the_largest_box(data):
    frame = build()
    assert frame["id"].tolist() == ["s/a.png", "s/b.png", "s/c.png", "s/d.png"]
    assert frame["label"].tolist() == ["cat", "background", "ant", "cat"]
    assert list(frame["label"].cat.categories) == ["background", "ant", "cat", "dog"]
    assert frame["problem"].isna().all()
    labels = frame.attrs["dfgen"]["labels"]
    assert labels["boxes"] == {"kind": "list", "box_format": "xyxy"}
    assert labels["labels"] == {"kind": "list", "class_names": ["ant", "cat", "dog"]}


def test_what_is_built_is_what_is_read(data):
    frame = build(out="m.parquet")
    back = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(back, frame)
    assert back.attrs == frame.attrs
    dfgen.write_manifest(back[back["id"] != "s/b.png"], "part.parquet")
    part = dfgen.read_manifest("part.parquet")
    assert part.attrs["dfgen"]["labels"] == frame.attrs["dfgen"]["labels"]


def test_missing_partners_are_errors_that_name_them(data):
    os.rename("xml/s/c.xml", "xml/s/C.xml")
    os.remove("xml/s/a.xml")
    assert refused(ManifestError) == "\n".join(
        [
            'images in "images" and .xml files in "xml" do not match by their relative paths.',
            "2 of 4 images have no .xml file, 2 have one:",
            '  "s/a"',
            '  "s/c", nearest: "s/C"',
            "1 of 3 .xml files have no image, 2 have one:",
            '  "s/C", nearest: "s/c"',
            "Likely cause: case; 1 of these images and 1 of these .xml files would match: "
            "write both in the same case.",
            'To go on anyway: unmatched="keep" (missing labels, rows with a problem) or "drop" '
            "(--unmatched keep|drop)",
        ]
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_missing_partners_are_kept_or_dropped(data):
    os.remove("xml/s/a.xml")
    os.remove("images/s/d.png")
    kept = build(unmatched="keep").set_index("id")
    assert list(kept.index) == ["s/a.png", "s/b.png", "s/c.png", "s/d"]
    assert pd.isna(kept.loc["s/a.png", "label"])
    assert kept.loc["s/a.png", "boxes"] is None
    assert kept["problem"].tolist()[3] == "no image for this annotation: xml/s/d.xml"
    with pytest.warns(UserWarning) as caught:
        assert build(unmatched="drop")["id"].tolist() == ["s/b.png", "s/c.png"]
    assert [str(warning.message) for warning in caught] == [
        "Left out 1 image without .xml file.", "Left out 1 .xml file without image."
    ]  # fmt: skip


def test_two_images_of_one_name_are_refused(data):
    annotated.image("images/s/a.jpg")
    assert refused(ManifestError) == (
        'two images in "images" have one name, "s/a.jpg" and "s/a.png", so that it cannot be told '
        "what belongs to which. Rename one, and its partner"
    )
    os.remove("images/s/a.jpg")
    annotated.xml("xml/s/a.XML")
    assert refused(ManifestError) == (
        'two annotations in "xml" have one name, "s/a.XML" and "s/a.xml", so that it cannot be '
        "told what belongs to which. Rename one, and its partner"
    )


BOMB = """<?xml version="1.0"?>
<!DOCTYPE annotation [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<annotation><object><name>&b;</name></object></annotation>"""
OUTSIDE = """<!DOCTYPE annotation [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<annotation><object><name>&a;</name></object></annotation>"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotation>\n<object>\n</annotation>",
         "xml/s/c.xml, line 3, column 3: broken XML, mismatched tag. Mend or remove it"),
        ("", "xml/s/c.xml, line 1, column 1: broken XML, no element found. Mend or remove it"),
        (BOMB, 'xml/s/c.xml declares the entity "a", which'
         ' dfgen does not read: write its text in full'),
        (OUTSIDE, 'xml/s/c.xml declares the entity "a", which'
         ' dfgen does not read: write its text in full'),
        ("<svg/>", "xml/s/c.xml is not a Pascal VOC annotation: its root is <svg>, expected "
         "<annotation>"),
        ("<annotations/>", "xml/s/c.xml is not a Pascal VOC annotation: its root is <annotations>, "
         "expected <annotation>"),
        ("<annotation><object/></annotation>",
         "xml/s/c.xml, object 1 has no <name>, or an empty one"),
        ("<annotation><object><name>a</name><bndbox><xmin>1</xmin></bndbox></object></annotation>",
         "xml/s/c.xml, object 1 has no <bndbox/ymin>, or an empty one"),
        ("<annotation><object><name>a</name><bndbox><xmin>nan</xmin></bndbox></object>"
         "</annotation>",
         'xml/s/c.xml, object 1: <bndbox/xmin> is "nan", expected a number of pixels'),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:1 problem")
def test_broken_annotations_are_problems_of_their_rows_by_file_and_line(data, text, message):
    (data / "xml/s/c.xml").write_text(text)
    frame = build()
    assert frame["problem"].fillna("").tolist() == ["", "", message, ""]
    assert frame.loc[2, ["label", "boxes", "labels"]].isna().all()
    assert frame["label"].tolist()[:2] == ["cat", "background"]


def test_annotations_that_are_all_broken_are_refused(data):
    for name in "abcd":
        (data / f"xml/s/{name}.xml").write_text("<svg/>")
    assert refused(ManifestError) == (
        "None of the 4 annotations can be used. The first: xml/s/a.xml is not a Pascal VOC "
        "annotation: its root is <svg>, expected <annotation>"
    )


@pytest.mark.filterwarnings("ignore:1 problem")
def test_an_annotation_that_vanishes_is_the_problem_of_its_row(data, monkeypatch):
    listed = voc.list_pairs

    def vanishing(images, annotations, suffix, pattern):
        found = listed(images, annotations, suffix, pattern)
        os.remove(f"{annotations}/{found[1][-1]}")
        return found

    monkeypatch.setattr(voc, "list_pairs", vanishing)
    assert build()["problem"].tolist()[3] == (
        "xml/s/d.xml vanished while the folder was read. Build again when nothing changes it"
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_boxes_that_cannot_be_are_problems_of_their_rows(data):
    annotated.xml("xml/s/a.xml", ("dog", 1, 1, 2, 2), ("cat", 30, 5, 20, 9))
    annotated.xml("xml/s/b.xml", ("dog", 1, 5, 9, 5))
    annotated.xml("xml/s/c.xml", ("dog", 1, 5, 42, 9))
    annotated.xml("xml/s/d.xml", ("dog", 1, 5, 41, 9), size=(80, 60))
    frame = build()
    assert frame["problem"].tolist() == [
        "a box is inverted: cat (30, 5, 20, 9), the image is 40 x 30 pixels",
        "a box is empty: dog (1, 5, 9, 5), the image is 40 x 30 pixels",
        "a box is outside the image: dog (1, 5, 42, 9), the image is 40 x 30 pixels",
        "annotated for another size: 80 x 60 pixels, the file is 40 x 30",
    ]
    assert build(facts="none")["problem"].isna().tolist() == [False, False, False, True]


def test_a_name_that_is_not_utf8_is_left_out_by_name(data):
    try:
        with open(b"xml/s/\xff.xml", "w"):
            pass
    except OSError:
        pytest.skip("this file system allows UTF-8 names only")
    with pytest.warns(UserWarning, match=r"Left out: 1 path, name not UTF-8: xml/s/\\xff\.xml"):
        assert len(build()) == 4


def test_annotations_may_lie_beside_their_images(tmp_path):
    annotated.image(tmp_path / "a.png")
    annotated.xml(tmp_path / "a.xml", ("cat", 1, 1, 5, 5))
    frame = dfgen.build_manifest(voc=tmp_path, images=tmp_path)
    assert frame["label"].tolist() == ["cat"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"voc": "xml"},
         "voc= (--voc) needs images= (--images): the folder of the images, whose paths are those "
         "of the XML files but for the extension. Or give the folder above Annotations and "
         "JPEGImages as voc="),
    ],
)  # fmt: skip
def test_arguments_that_do_not_go_with_voc_are_refused(data, options, message):
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(**options)
    assert str(caught.value) == message


def test_lists_hold_their_class_names_or_are_refused(data):
    frame = build()
    frame.at[2, "labels"] = ["lion"]
    with pytest.raises(ManifestError) as caught:
        dfgen.write_manifest(frame, "m.parquet")
    assert '"lion"' in str(caught.value)


def test_what_is_no_annotation_is_left_out_by_name(data):
    for path in ("xml/s/a.json", "xml/s/.e.xml", "images/s/e.xml"):
        (data / path).touch()
    with pytest.warns(UserWarning) as caught:
        assert len(build()) == 4
    assert str(caught[0].message) == (
        "Left out: 1 path, .json: xml/s/a.json\n"
        "Left out: 1 path, .xml: images/s/e.xml\n"
        "Left out: 1 path, hidden: xml/s/.e.xml\n"
        "Move files that are no samples elsewhere."
    )


def test_both_trees_may_be_one(data):
    shutil.copytree("xml", "images", dirs_exist_ok=True)
    frame = dfgen.build_manifest(voc="./images", images="images")
    assert frame["id"].tolist() == [f"s/{name}.png" for name in "abcd"]
