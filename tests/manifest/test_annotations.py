"""Annotations that are impossible, turned or without a partner."""

import warnings

import pandas as pd
import pytest
from public.test_joins import PERSON as PERSON
from public.test_joins import XFAIL as XFAIL
from public.test_joins import build as build
from public.test_joins import of_coco as of_coco
from public.test_joins import of_yolo as of_yolo
from public.trees import box, of_voc, text, values, voc_xml

import dfgen
from dfgen.errors import ManifestError


def test_voc_partners_are_named_kept_or_dropped(tmp_path):
    build = of_voc(tmp_path).arguments
    (tmp_path / "xml/s/a.xml").unlink()
    (tmp_path / "images/t/u/d.JPEG").unlink()
    with pytest.raises(ManifestError, match=r"1 of 3 (.|\n)*s/a(.|\n)*1 of 3 (.|\n)*t/u/d"):
        dfgen.build_manifest(**build)
    with pytest.warns(UserWarning, match="1 "):
        kept = dfgen.build_manifest(**build, unmatched="keep")
    assert kept["id"].tolist()[:3] == ["s/a.JPEG", "s/b.JPEG", "t/c.JPEG"] and len(kept) == 4
    assert pd.isna(kept["label"][0]) and kept["boxes"][0] is None
    assert kept["problem"].notna().tolist() == [False, False, False, True]
    with pytest.warns(UserWarning, match="1 "):
        left = dfgen.build_manifest(**build, unmatched="drop")
    assert left["label"].tolist() == ["background", "ant"]


@pytest.mark.parametrize(
    ("coordinates", "word"),
    [((30, 5, 20, 9), "30"), ((1, 5, 9, 5), "9"), ((1, 5, 42, 9), "42"), ((-2, 5, 4, 9), "-2")],
)
def test_impossible_boxes_are_problems(tmp_path, coordinates, word):
    tree = of_voc(tmp_path)
    voc_xml(tree.annotation, [("ant", 1, 1, 2, 2), ("dog", *coordinates)])
    with pytest.warns(UserWarning, match="1 problem"):
        frame = dfgen.build_manifest(**tree.arguments)
    assert frame["problem"].notna().tolist() == [False, False, True, False]
    assert "dog" in frame["problem"][2] and word in frame["problem"][2]
    voc_xml(tree.annotation, [("dog", 0.5, 0, 40.75, 31)])  # outside by a pixel: cut
    assert values(dfgen.build_manifest(**tree.arguments))[2]["boxes"] == [[0.5, 0, 40, 30]]


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        (box(1, 5, 1, 1, 2, 2), "category_id 5"), (box(4, 18, 1, 1, 2, 2), "image_id 4"),
        (box("1", 18, 1, 1, 2, 2), "image_id"), ({"image_id": 1, "category_id": 18}, "bbox"),
        (box(1, 18, 1, 1, 2, 2, keypoints=[1]), "image_id 1"),
    ],
)  # fmt: skip
def test_wrong_coco_entry_is_named(tmp_path, annotation, word):
    with pytest.raises(ManifestError, match=word):
        of_coco(tmp_path, box(2, 18, 1, 1, 2, 2), annotation)


@XFAIL
@pytest.mark.parametrize(
    ("annotation", "column", "expected"),
    [
        (PERSON, "keypoints", [[3.5, 4.5, 2, 0, 0, 0]]),
        (box(1, 18), "boxes", []),
        (box(1, 18, 1, 1, 2, 2, segmentation=[[1, 1, 2, 2]]), "problem", None),
        (box(1, 18, 1, 1, 2, 2, segmentation=[[[1, 1], [2, 2], [3, 1]]]), "problem", None),
        (box(1, 18, 1, 1, 2, 2, segmentation={"counts": [6], "size": [2, 3]}), "problem", None),
    ],
)
def test_coco_annotations_are_checked_by_the_build(tmp_path, annotation, column, expected):
    with warnings.catch_warnings(action="ignore"):
        frame = of_coco(tmp_path, annotation)
    if column == "problem":
        assert frame["problem"].notna().tolist() == [True, False]
    else:
        assert values(frame)[0][column] == expected


@pytest.mark.parametrize("line", ["2 .5 .5 .5 .5", "-1 .5 .5 .5 .5", "0 .5 .5 .5", "x .5 .5 .5 .5"])
def test_wrong_yolo_line_is_the_problem_of_its_row(tmp_path, line):
    with pytest.warns(UserWarning, match="1 problem"):
        frame = of_yolo(tmp_path, "train: images/train", line)
    assert frame["problem"].notna().tolist() == [False, True]
    assert "b.txt" in frame["problem"][1] and "line 2" in frame["problem"][1]
    assert frame["labels"][0].tolist() == ["dog"]


@XFAIL
@pytest.mark.parametrize(
    ("content", "expected"),
    [("train: images/train\nval: images/train", [*"abab"]), ("train: list.txt", ["b"])],
)
def test_yolo_one_folder_for_two_splits_and_byte_order_marks(tmp_path, content, expected):
    text(tmp_path / "list.txt", "\ufeffimages/train/b.png\n")
    assert of_yolo(tmp_path, content)["path"].str[-5].tolist() == expected
