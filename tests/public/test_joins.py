"""How files find their labels and annotations: keys, partners, columns, classes."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError
from public.first_batch import batch_of
from public.trees import SIZES, box, coco, image, images, plain, text, values, voc_xml

NAMES = ["p1/007.png", "p1/08.b.png", "p2/7.png"]


@pytest.fixture
def folder(tmp_path):
    images(tmp_path / "imgs", NAMES)
    return tmp_path


def build(folder, table, on, pattern="{who}/{id}.png", **options):
    table = pd.DataFrame(table)
    return dfgen.build_manifest(folder / "imgs", labels=table, on=on, pattern=pattern, **options)


@pytest.mark.parametrize(
    ("pattern", "on", "keys"),
    [
        (None, "name=key", ["007.png", "08.b.png", "7.png"]),
        (None, "stem=key", ["007", "08.b", "7"]),
        (None, "relpath=key", NAMES),
        ("{who}/{key}.png", "key", ["007", "08.b", "7"]),
        ("{_}/{number}.{_}", "number=key", ["007", "08.b", "7"]),
    ],
)
def test_key_of_a_file_finds_its_row(folder, pattern, on, keys):
    frame = build(folder, {"key": keys[::-1], "age": [30, 20, 10]}, on, pattern)
    assert frame["path"].tolist() == [f"{folder}/imgs/{name}" for name in NAMES]
    assert frame["age"].tolist() == [10, 20, 30]
    with pytest.raises(ManifestError, match=f"1 of 3 (.|\n)*{keys[2]}(.|\n)*other"):
        build(folder, {"key": [*keys[:2], "other"], "age": 5}, on, pattern)


@pytest.mark.parametrize("keys", [["7", "08", "9"], [7, 8, 9], [7.0, 8.0, 9.0]])
def test_int_fields_are_numbers(tmp_path, keys):
    images(tmp_path / "imgs", ["0007.png", "08.png", "9.png"])
    frame = build(tmp_path, {"key": keys, "x": [1, 2, 3]}, "id=key", "{id:int}.png")
    assert frame["id"].tolist() == [7, 8, 9] and frame["x"].tolist() == [1, 2, 3]
    with pytest.raises(ManifestError, match="007"):
        build(tmp_path, {"key": keys, "x": 1}, "id=key", "{id}.png")


def test_several_files_share_a_row(folder):
    frame = build(folder, {"who": ["p2", "p1"], "ill": [True, False]}, "who")
    assert frame["ill"].astype(str).tolist() == ["False", "False", "True"]
    assert frame["who"].tolist() == ["p1", "p1", "p2"]


def test_unmatched_rows_are_kept_or_dropped(folder):
    table = {"key": ["007", "7", "gone"], "age": [1, 2, 3]}
    with pytest.warns(UserWarning, match="1 "):
        kept = build(folder, table, "id=key", unmatched="keep")
    assert kept["id"].tolist() == ["007", "08.b", "7", "gone"]
    assert plain(kept["age"].tolist()) == [1, None, 2, 3]
    assert kept["problem"].notna().tolist() == [False, False, False, True]
    with pytest.warns(UserWarning, match="1 "):
        left = build(folder, table, "id=key", unmatched="drop")
    assert left["id"].tolist() == ["007", "7"] and left["age"].tolist() == [1, 2]
    for keys in (["007", "7"], ["007", "08.b", "7", "gone"]):  # a file, or a row, has no partner
        with pytest.raises(ManifestError, match=r"08\.b" if len(keys) == 2 else "gone"):
            build(folder, {"key": keys}, "id=key")


@pytest.mark.parametrize(
    ("table", "on", "word"),
    [
        ({"key": ["7", "a", "7"], "x": [1, 2, 3]}, "stem=key", '"7"'),
        ({"key": ["7", None, "007"], "x": [1, 2, 3]}, "stem=key", "key"),
        ({"key": [1.5, 2.5, 3.5], "x": [1, 2, 3]}, "stem=key", "key"),
        ({"key": [7.0, 2.0**53, 1.0], "x": [1, 2, 3]}, "stem=key", "key"),
        ({"key": ["7"], "x": [1]}, "stem=keys", "keys"),
        ({"key": ["7"], "x": [1]}, "object=key", "object"),
        ({"key": ["7"], "who": ["p1"]}, "id=key", "who"),
    ],
)
def test_wrong_join_is_named(folder, table, on, word):
    with pytest.raises((ManifestError, ArgumentError), match=word):
        build(folder, table, on, unmatched="drop")


def test_table_keeps_keys_and_classes_as_text(folder):
    table = {"key": ["007", "08.b", "7"], "x": ["NA", "None", "nan"]}
    pd.DataFrame(table).to_csv(folder / "t.csv", index=False, sep=";")
    options = {"labels": folder / "t.csv", "on": "stem=key", "sep": ";"}
    frame = dfgen.build_manifest(folder / "imgs", **options)
    assert frame["x"].tolist() == frame["x"].cat.categories.tolist() == table["x"]


def test_id_category_label_and_root_choose_columns(folder):
    table = pd.DataFrame({"key": ["a", "b", "c"], "age": [3, 1, 3], "x": ["u", "v", "u"], "y": 0.5})
    table["file"] = NAMES
    options = {"labels": table, "path_column": "file", "root": folder / "imgs"}
    frame = dfgen.build_manifest(**options, id="key", category="age", label=["x", "age"])
    ages = frame["age"].cat.categories.astype(int)
    assert ages.tolist() == [1, 3] and ages[frame["age"].cat.codes].tolist() == [3, 1, 3]
    assert values(frame, "path", "age") == table[["x"]].assign(id=table["key"]).to_dict("records")
    without = dfgen.build_manifest(**options, label="y")
    assert without["id"].tolist() == NAMES and without["y"].tolist() == [0.5] * 3
    assert not {"age", "x", "key"} & set(without)
    for wrong, word in (({"label": "kind"}, "kind"), ({"id": "age"}, "3")):
        with pytest.raises(DfgenError, match=word):
            dfgen.build_manifest(**options, **wrong)
    table.to_csv(folder / "imgs/t.csv", index=False)
    at_table = dfgen.build_manifest(labels=folder / "imgs/t.csv", path_column="file")
    assert at_table["path"].tolist() == frame["path"].tolist()


def test_several_rows_of_one_image_ask_for_id(folder):
    table = pd.DataFrame({"file": ["p2/7.png"] * 2, "x": [1, 2]})
    with pytest.raises(ManifestError, match="id="):
        dfgen.build_manifest(labels=table, path_column="file", root=folder / "imgs")


def test_voc_year_has_masks_and_splits(tmp_path):
    year, sets = tmp_path / "VOC2012", tmp_path / "VOC2012/ImageSets/Main"
    for row, name in enumerate(["2007_1", "2007_2", "2007_3"]):
        image(year / f"JPEGImages/{name}.jpg", row)
        voc_xml(year / f"Annotations/{name}.xml", [("dog", 1, 2, 10, 12 + row)])
    for kind in ("Class", "Object"):
        (year / f"Segmentation{kind}").mkdir()
        mask = np.full((30, 40), len(kind), np.uint8)
        Image.fromarray(mask).save(year / f"Segmentation{kind}/2007_2.png")
    text(sets / "train.txt", "\ufeff2007_3  1\n2007_1 -1\n")
    text(sets / "val.txt", "2007_2\n")
    frame = dfgen.build_manifest(voc=year, image_sets=sets)
    assert frame["split"].tolist() == ["train", "val", "train"]
    for kind in ("class", "object"):
        path = f"{year}/Segmentation{kind.title()}/2007_2.png"
        assert plain(frame[f"{kind}_mask"].tolist()) == [None, path, None]
        masks = batch_of(frame[1:2], dfgen.Image(size=(6, 8)), dfgen.Mask(f"{kind}_mask"))[1]
        np.testing.assert_array_equal(masks, np.full((1, 6, 8, 1), len(kind)))
    text(sets / "val.txt", "2007_9\n")
    with pytest.raises(DfgenError, match="2007_9"):
        dfgen.build_manifest(voc=year, image_sets=sets)


def of_coco(folder, *annotations):
    images(folder, ["a.png", "b.png"], SIZES[:1])
    path = coco(folder / "c.json", {1: "a.png", 2: "b.png"}, annotations, {18: "cat"})
    return dfgen.build_manifest(coco=path)


PERSON = box(1, 18, 1, 1, 9, 9, keypoints=[3, 4, 2, 0, 0, 0], num_keypoints=1)


def test_coco_crowds_and_key_points(tmp_path):
    counts = {"counts": [600, 30, 570], "size": [30, 40]}
    crowd = box(2, 18, 20, 0, 1, 30, iscrowd=1, segmentation=counts)
    first, second = values(of_coco(tmp_path, crowd, PERSON))
    assert first["keypoints"][0][2:] == [2, 0, 0, 0]
    assert (first["iscrowd"], second["iscrowd"], second["keypoints"]) == ([False], [True], [[]])
    assert json.loads(second["segmentation"][0]) == counts
    assert second["boxes"] == [[20, 0, 21, 30]]


def of_yolo(folder, content, line="", names="[cat, dog]"):
    images(folder / "images/train", ["a.png", "b.png"], SIZES[:1])
    text(folder / "labels/train/a.txt", "1 0.5 0.5 0.5 0.5\n")
    text(folder / "labels/train/b.txt", f"0 0.5 0.5 0.5 0.5\n{line}\n")
    path = text(folder / "data.yaml", f"{content}\nnames: {names}\n")
    return dfgen.build_manifest(yolo=path)


@pytest.mark.parametrize("names", ["{0: 010, 1: no}", "[010, no]"])
def test_yolo_class_names_are_text(tmp_path, names):
    frame = of_yolo(tmp_path, "train: images/train", names=names)
    assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["010", "no"]
    assert [row["labels"] for row in values(frame)] == [["no"], ["010"]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_turn_with_exif_orientation(tmp_path, orientation):
    pixels, exif = np.zeros((32, 48, 3), np.uint8), Image.Exif()
    pixels[12:20, 8:24] = 255
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=100, subsampling=0)
    person = [box(1, 1, 8, 12, 16, 8)]
    path = coco(tmp_path / "c.json", {1: "a.jpg"}, person, {1: "person"}, size=(48, 32))
    frame = dfgen.build_manifest(coco=path)
    bright = np.asarray(ImageOps.exif_transpose(Image.open(tmp_path / "a.jpg")))[..., 0] > 128
    rows, columns = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
    assert values(frame)[0]["boxes"] == [[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]]
