"""Annotations that are impossible, turned or without a partner."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from public.test_joins import PERSON as PERSON
from public.test_joins import of_coco as of_coco
from public.test_joins import of_yolo as of_yolo
from public.trees import SIZES, box, coco, image, images, of_voc, text, values, voc_xml

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError


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
        (box("1", 18, 1, 1, 2, 2), "image_id"), (box(1, 18, 1, 1, 2), r"annotations\[1\]"),
        (box(1, 18, 1, 1, 2, 2, keypoints=[1]), r"annotations\[1\] has key points"),
        (box(1, 18, 1, float("nan"), 2, 2), r"annotations\[1\].bbox\[1\](.|\n)*NaN"),
    ],
)  # fmt: skip
def test_wrong_coco_entry_is_named(tmp_path, annotation, word):
    with pytest.raises(ManifestError, match=word):
        of_coco(tmp_path, box(2, 18, 1, 1, 2, 2), annotation)


@pytest.mark.parametrize(
    ("annotation", "column", "expected"),
    [
        (PERSON, "keypoints", [[3, 4, 2, 0, 0, 0]]),
        (box(1, 18), "boxes", []),
        (box(1, 18, 1, 1, 2, 2, segmentation=[[1, 1, 2, 2]]), "problem", None),
        (box(1, 18, 1, 1, 2, 2, segmentation=[[[1, 1], [2, 2], [3, 1]]]), "problem", None),
        (box(1, 18, 1, 1, 2, 2, segmentation=[[1, 1, 1e9, 2, 3, 1]]), "problem", None),
        (box(1, 18, 1, 1, 2, 2, segmentation={"counts": [6], "size": [2, 3]}), "problem", None),
        (box(1, 18, 1, 1, 2, 2, segmentation={"counts": "0", "size": [30, 40]}), "problem", None),
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
def test_wrong_yolo_line_is_a_row_problem(tmp_path, line):
    with pytest.warns(UserWarning, match="1 problem"):
        frame = of_yolo(tmp_path, "train: images/train", line)
    assert frame["problem"].notna().tolist() == [False, True]
    assert "b.txt" in frame["problem"][1] and "line 2" in frame["problem"][1]
    assert frame["labels"][0].tolist() == ["dog"]


def test_yolo_images_in_two_splits_are_named(tmp_path):
    with pytest.raises(ManifestError, match=r"train/a\.png(.|\n)* in train and in val"):
        of_yolo(tmp_path, "train: images/train\nval: images/train")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_are_no_text(tmp_path, encoding):
    for name, content in (
        ("list.txt", "images/train/b.png\n"),
        ("data.yaml", "train: list.txt\nnames: [cat, dog]\n"),
        ("labels/train/b.txt", "1 0.5 0.5 0.5 0.5\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding)
    image(tmp_path / "images/train/b.png")
    frame = dfgen.build_manifest(yolo=tmp_path / "data.yaml")
    assert values(frame, "boxes", "path") == [
        {"id": "images/train/b.png", "split": "train", "labels": ["dog"]}
    ]
    assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["cat", "dog"]
    path = coco(tmp_path / "c.json", {1: "b.png"}, [box(1, 18, 1, 1, 2, 2)], {18: "cat"})
    path.write_text(path.read_text(), encoding)
    frame = dfgen.build_manifest(coco=path, images=tmp_path / "images/train")
    assert frame["labels"][0].tolist() == ["cat"]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("train: images/train\nnames: 0:cat", "names is"), ("names: [cat]", "names no images"),
        ("train: images/train\nnames: {0: cat, 2: dog}", r"\[0, 2\]"),
        ("train: images/train\nnames: [cat, cat]", "same name"),
        ("train: images/train\nnames: [cat]\nnc: 2", "nc is 2"),
        ("train: images/train\nnames: {0: cat, 0: dog}", "twice"),
        ("train: images/far\nnames: [cat]", "images/far"), ("train: images/train", "no names"),
        ("train: images/train\nnames: [cat]\nkpt_shape: [3]", "kpt_shape"),
        ("train: images/bare\nnames: [cat]", "labels/bare"), ("names: [", "YAML"),
        ("train: up.txt\nnames: [cat]", r"up\.txt, line 2"),
    ],
)  # fmt: skip
def test_wrong_data_yaml_is_named(tmp_path, content, word):
    image(tmp_path / "images/train/a.png")
    image(tmp_path / "images/bare/a.png")
    text(tmp_path / "labels/train/a.txt", "0 0.5 0.5 0.5 0.5\n")
    text(tmp_path / "up.txt", "images/train/a.png\n../a.png\n")
    path = text(tmp_path / "data.yaml", content)
    with pytest.raises((ManifestError, MissingFileError), match=word):
        dfgen.build_manifest(yolo=path)


def test_yolo_poses_polygons_and_unlabelled_split_are_read(tmp_path):
    for split in ("train", "test"):
        image(tmp_path / f"data/{split}/images/a.png", 1)
    text(tmp_path / "data/train/labels/a.txt", "0 .5 .5 .5 .5 .25 .5 0 0\n")
    content = "path: data\ntrain: ../train/images\ntest: test/images\nnames: [cat]\n"
    path = text(tmp_path / "data.yaml", content + "kpt_shape: [2, 2]\n")
    with pytest.raises(ArgumentError, match="facts"):
        dfgen.build_manifest(yolo=path, facts="none")
    frame = dfgen.build_manifest(yolo=path)
    assert values(frame)[0]["keypoints"] == [[9.5, 14.5, 2, 0, 0, 0]]
    assert values(frame)[1]["boxes"] is None and frame["split"].tolist() == ["train", "test"]
    text(tmp_path / "data/train/labels/a.txt", "0 .5 .5 .5 .5\n")
    with pytest.raises(ManifestError, match="kpt_shape"):
        dfgen.build_manifest(yolo=path)


def test_yolo_text_files_without_an_image_are_named(tmp_path):
    text(tmp_path / "labels/train/c.txt", "0 .5 .5 .5 .5\n")
    with pytest.raises(ManifestError, match=r"1 of 3 \.txt files have no image(.|\n)*c"):
        of_yolo(tmp_path, "train: images/train")
    with pytest.warns(UserWarning, match="1 "):
        frame = dfgen.build_manifest(yolo=tmp_path / "data.yaml", unmatched="keep")
    assert frame["problem"].notna().tolist() == [False, False, True]


def test_coco_reads_unusual_json(tmp_path):
    """NaN in fields that are not read, floats of pandas, an unknown size, booleans."""
    image(tmp_path / "a.png")
    content = """{"images": [{"id": 1.0, "file_name": "./a.png", "width": NaN, "height": null}],
        "annotations": [{"image_id": 1.0, "category_id": 18.0, "bbox": [1, 1, 2, 2], "area": NaN,
        "score": -Infinity, "iscrowd": true}], "categories": [{"id": 18, "name": "cat"}]}"""
    frame = dfgen.build_manifest(coco=text(tmp_path / "c.json", content))
    assert values(frame, "path") == [
        {"id": 1, "boxes": [[1, 1, 3, 3]], "labels": ["cat"], "iscrowd": [True]}
    ]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "broken JSON"), ('{"images" [1]}', "broken JSON"),
        ('{"images": [{"id": 1}]}', "file_name"), ('{"annotations": []}', "images"),
        ('{"images": [{"id": 1, "file_name": "../a.png"}]}', r"\.\."),
        ('{"images": [{"id": 1, "file_name": "a.png"}, {"id": 1, "file_name": "b.png"}]}', "id 1"),
        ('{"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "./a.png"}]}', "a.p"),
        ('{"images": [{"id": 1, "file_name": "a"}, {"id": "2", "file_name": "b"}]}', "convert"),
        ('{"images": [], "categories": [{"id": 1, "name": "x"}, {"id": 2, "name": "x"}]}', "two"),
        ('{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1}]}', "no ann"),
    ],
)  # fmt: skip
def test_wrong_coco_file_is_named(tmp_path, content, word):
    path = text(tmp_path / "c.json", content)
    with pytest.raises(ManifestError, match=rf"c\.json(.|\n)*{word}|{word}(.|\n)*c\.json"):
        dfgen.build_manifest(coco=path)


def test_coco_splits_captions_and_folders(tmp_path):
    images(tmp_path / "train", ["a.png"], SIZES[:1])
    images(tmp_path / "val", ["a.png"], SIZES[:1])
    told = [{"image_id": 1, "caption": f"text {n}"} for n in range(2)]
    files = {name: coco(tmp_path / f"{name}.json", {1: "a.png"}, told) for name in ("train", "val")}
    folders = {name: tmp_path / name for name in files}
    frame = dfgen.build_manifest(coco=files, images=folders)
    assert values(frame, "path") == [
        {"id": f"{name}/a.png", "split": name, "captions": ["text 0", "text 1"]} for name in files
    ]
    for wrong in ({"val": tmp_path}, {**folders, "test": tmp_path}):
        with pytest.raises(ArgumentError, match="splits"):
            dfgen.build_manifest(coco=files, images=wrong)


TURNED = {1: [2, 3, 10, 9], 3: [30, 21, 38, 27], 6: [21, 2, 27, 10], 8: [3, 30, 9, 38]}


@pytest.mark.parametrize("orientation", TURNED)
def test_polygons_follow_image_orientation_unlike_run_lengths(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jpg", exif=exif)
    triangle = [[2, 3, 10, 3, 10, 9]]
    counts = {"counts": [0, 600, 600], "size": [30, 40]}
    person = box(1, 1, 2, 3, 8, 6, segmentation=triangle, keypoints=[2, 3, 2])
    path = coco(tmp_path / "c.json", {1: "a.jpg"}, [person], {1: "person"})
    row = values(dfgen.build_manifest(coco=path))[0]
    assert row["boxes"] == [TURNED[orientation]]
    points = np.reshape(json.loads(row["segmentation"][0]), (-1, 2))
    assert [*points.min(0), *points.max(0)] == TURNED[orientation]
    coco(tmp_path / "c.json", {1: "a.jpg"}, [{**person, "segmentation": counts}], {1: "person"})
    with warnings.catch_warnings(action="ignore"):
        frame = dfgen.build_manifest(coco=path)
    assert frame["problem"].notna().tolist() == [orientation > 1]


def test_boxes_of_another_image_size_are_a_problem(tmp_path):
    tree = of_voc(tmp_path)
    image(tmp_path / "images/t/c.JPEG", 2, (20, 15))
    image(tmp_path / "images/s/a.JPEG", 0, (30, 40))
    with pytest.warns(UserWarning, match="another size"):
        frame = dfgen.build_manifest(**tree.arguments)
    assert frame["problem"].notna().tolist() == [True, False, True, False]
    assert "40 x 30 pixels, the file is 30 x 40" in frame["problem"][0]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("<annotation><object><name>a</name></object></annotation>", "no <bndbox/xmin"),
        ("<annotation><object></annotation>", "line 1"), ("<image/>", "root is <image>"),
        ("<!DOCTYPE a [<!ENTITY x 'y'>]><annotation/>", "entity"),
        ("<annotation><size><width>NaN</width></size></annotation>", "NaN"),
    ],
)  # fmt: skip
def test_wrong_xml_is_a_problem_or_an_error(tmp_path, content, word):
    tree = of_voc(tmp_path)
    text(tree.annotation, content)
    with pytest.warns(UserWarning, match="1 problem"):
        frame = dfgen.build_manifest(**tree.arguments)
    assert "c.xml" in frame["problem"][2] and word in frame["problem"][2]
    for path in (tmp_path / "xml").rglob("*.xml"):
        text(path, content)
    with pytest.raises(ManifestError, match=r"None of the 4 annotations(.|\n)*xml"):
        dfgen.build_manifest(**tree.arguments)


@pytest.mark.filterwarnings("ignore:Left out")
def test_voc_folders_columns_and_names(tmp_path):
    tree = of_voc(tmp_path)
    build = tree.arguments
    frame = dfgen.build_manifest(**build, pattern="{kind}/{name}.JPEG", unmatched="drop")
    assert frame["kind"].tolist() == ["s", "s", "t"]
    voc_xml(tree.annotation, [("background", 1, 1, 9, 9)])
    names = dfgen.build_manifest(**build).attrs["dfgen"]["labels"]["label"]["class_names"]
    assert names == ["background", "cat", "dog"]
    for wrong, word in (
        ({"voc": tmp_path / "xml"}, "images="), ({**build, "images": tmp_path / "no"}, "no"),
        ({**build, "image_sets": tmp_path}, r"train\.txt"), ({"voc": tmp_path / "z"}, "z"),
        ({**build, "pattern": "{label}/{_}.JPEG"}, "label"),
    ):  # fmt: skip
        with pytest.raises(dfgen.DfgenError, match=word):
            dfgen.build_manifest(**wrong)
    image(tmp_path / "images/s/a.png")
    with pytest.raises(ManifestError, match=r"s/a\.JPEG(.|\n)*s/a\.png"):
        dfgen.build_manifest(**build)


@pytest.mark.filterwarnings("ignore:1 of 4 images", "ignore:Split")
def test_voc_list_lines_without_image_can_be_ignored(tmp_path):
    build, sets = of_voc(tmp_path).arguments, tmp_path / "sets"
    text(sets / "train.txt", "s/a\ns/b.JPEG\n")
    text(sets / "val.txt", "t/c 1\nt/x\n")
    with pytest.warns(UserWarning, match=r"val\.txt, line 2"):
        frame = dfgen.build_manifest(**build, image_sets=sets, unmatched="keep")
    assert frame["split"].astype(object).where(frame["split"].notna(), None).tolist() == [
        "train", "train", "val", None
    ]  # fmt: skip
    text(sets / "val.txt", "s/a\n")
    with pytest.raises(ManifestError, match=r"val\.txt, line 1(.|\n)*train"):
        dfgen.build_manifest(**build, image_sets=sets)
