import json

import annotated
import pandas as pd
import pytest
from annotated import box

import dfgen
from dfgen.errors import ArgumentError, ManifestError


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two images and their instances, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.png"):
        annotated.image(f"images/{name}")
    annotated.coco(
        "c.json", {1: "a.png", 2: "b.png"}, [box(2, 18, 1, 2, 3, 4)], {90: "dog", 18: "cat"}
    )
    return tmp_path


def refused(error, **options):
    with pytest.raises(error) as caught:
        dfgen.build_manifest(**{"coco": "c.json", "images": "images", **options})
    return str(caught.value)


def test_boxes_and_class_names_in_the_order_of_their_gappy_ids(data):
    frame = dfgen.build_manifest(coco="c.json", images="images", out="m.parquet")
    assert frame["id"].tolist() == [1, 2]
    assert frame["path"].tolist() == [f"{data}/images/a.png", f"{data}/images/b.png"]
    assert [list(names) for names in frame["labels"]] == [[], ["cat"]]
    assert frame["boxes"][1][0].tolist() == [1, 2, 4, 6]
    assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["cat", "dog"]
    back = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(back, frame)
    assert back.attrs == frame.attrs


def test_captions_and_key_points_of_the_same_images(data):
    images = {1: "a.png", 2: "b.png"}
    told = [{"id": n, "image_id": 2 - n % 2, "caption": f"text {n}"} for n in range(3)]
    annotated.coco("captions.json", images, told)
    person = box(1, 1, 1, 1, 9, 9, keypoints=[3, 4, 2, 0, 0, 0], num_keypoints=1)
    bare = box(1, 1, 5, 5, 9, 9)  # without key points
    annotated.coco("people.json", images, [person, bare], {1: "person"})
    frame = dfgen.build_manifest(coco=["c.json", "captions.json"], images="images")
    assert [list(texts) for texts in frame["captions"]] == [["text 1"], ["text 0", "text 2"]]
    assert [list(names) for names in frame["labels"]] == [[], ["cat"]]
    frame = dfgen.build_manifest(coco="people.json", images="images")
    assert [one.tolist() for one in frame["keypoints"][0]] == [[3, 4, 2, 0, 0, 0], []]


def test_several_files_are_splits(data):
    annotated.image("more/a.png")
    annotated.coco("more/v.json", {9: "a.png"}, [box(9, 5, 1, 2, 3, 4)], {5: "cat", 6: "ant"})
    frame = dfgen.build_manifest(
        coco={"train": "c.json", "val": "more/v.json"},
        images={"train": "images", "val": "more"},
    )
    assert frame["id"].tolist() == [1, 2, 9]
    assert frame["split"].tolist() == ["train", "train", "val"]
    assert frame["path"].tolist()[2] == f"{data}/more/a.png"
    assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["cat", "dog", "ant"]
    recipe = frame.attrs["dfgen"]["recipe"]
    assert recipe["coco"] == {"train": f"{data}/c.json", "val": f"{data}/more/v.json"}
    assert frame["problem"].isna().all()


def test_files_that_are_numbered_each_on_their_own_have_paths_as_ids(data):
    annotated.image("more/a.png")
    annotated.coco("more/v.json", {1: "a.png"})
    annotated.coco("images/t.json", {1: "a.png"})
    frame = dfgen.build_manifest(coco={"train": "images/t.json", "val": "more/v.json"})
    assert frame["id"].tolist() == ["images/a.png", "more/a.png"]


@pytest.mark.filterwarnings("ignore:1 path lies in rows of several splits")
def test_a_split_without_annotations_has_no_boxes_known(data):
    annotated.coco("test.json", {3: "a.png"})
    frame = dfgen.build_manifest(coco={"train": "c.json", "test": "test.json"}, images="images")
    assert frame["boxes"].tolist()[2] is None
    assert list(frame["split"].cat.categories) == ["train", "test"]


def test_ids_may_be_text(data):
    annotated.coco("c.json", {"x1": "a.png"}, [box("x1", "c", 1, 1, 2, 2)], {"c": "cat"})
    frame = dfgen.build_manifest(coco="c.json", images="images")
    assert frame["id"].tolist() == ["x1"]
    assert list(frame["labels"][0]) == ["cat"]


CATS = {18: "cat"}


@pytest.mark.parametrize(
    ("images", "annotations", "categories", "message"),
    [
        ({1: "a.png"}, [box(1, 18, 1, 1, 2, 2), box(1, 5, 1, 1, 2, 2)], CATS,
         "c.json: annotations[1] is of category_id 5, which is none of its categories: 18"),
        ({1: "a.png"}, [box(1, 18, 1, 1, 2, 2), box(4, 18, 1, 1, 2, 2)], CATS,
         "c.json: annotations[1] is of image_id 4, which no image has. 1 of 2 annotations have no "
         "image: mend the file"),
        ({1: "a.png"}, [box("1", 18, 1, 1, 2, 2)], CATS,
         'c.json: annotations[0] is of image_id "1", which no image has. 1 of 1 annotations have '
         "no image: mend the file"),
        ({1: "a.png", 2: "./a.png"}, [], CATS,
         'c.json has two images of the file_name "a.png": which of them do annotations belong to? '
         "Mend the file"),
        ({1: "a.png"}, [], {1: "cat", 2: "cat"},
         'c.json has two categories of the name "cat". A class has one id and one name: mend the '
         "file"),
        ({1: "../a.png"}, [], CATS,
         '1 of 1 paths of c.json cannot be used: the path leaves its root by "..". row 0 (id 1): '
         '"../a.png". Paths are stored relative to the manifest\'s root, or all of them absolute'),
        ({1: "/a.png"}, [], CATS,
         "1 of 1 paths of c.json cannot be used: the path is absolute, but has a root. row 0 "
         '(id 1): "/a.png". Paths are stored relative to the manifest\'s root, or all of them '
         "absolute"),
        ({1: "a.png"}, [{"image_id": 1, "category_id": 18}], CATS,
         "c.json: annotations[0] has neither a bbox nor a caption"),
        ({1: "a.png", 2: "b.png"},
         [box(n, 18, 1, 1, 2, 2, keypoints=[1] * n) for n in (1, 2)], CATS,
         "c.json: an annotation of image_id 1 has key points that are not x, y, visibility of "
         "each"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(data, images, annotations, categories, message):
    annotated.coco("c.json", images, annotations, categories)
    assert refused(ManifestError) == message


@pytest.mark.parametrize(("key", "what"), [("images", "images"), ("categories", "categories")])
def test_an_id_that_stands_twice_is_refused(data, key, what):
    document = json.loads((data / "c.json").read_text())
    document[key] += [{**document[key][0], "name": "x", "file_name": "x.png"}]
    (data / "c.json").write_text(json.dumps(document))
    assert refused(ManifestError).startswith(f"c.json has two {what} of the id ")


def test_files_of_different_images_are_no_columns_of_one(data):
    annotated.coco("other.json", {5: "b.png"})
    assert refused(ManifestError, coco=["c.json", "other.json"]) == (
        "other.json and c.json do not list the same images in the same order. Those of different "
        'images are splits: coco={"train": ..., "val": ...} (--coco train=FILE.json --coco '
        "val=FILE.json)"
    )


def test_splits_of_images_and_files_must_agree(data):
    assert refused(ArgumentError, coco={"train": "c.json"}, images={"val": "images"}) == (
        "images= (--images) has the splits val, coco= (--coco) has train: name the same"
    )
    both = {"train": "c.json", "val": "c.json"}
    assert refused(ArgumentError, coco=both, images={"val": "images"}) == (
        "images= (--images) has the splits val, coco= (--coco) has train, val: name the same"
    )


@pytest.mark.parametrize("files", [{}, [], {"train": []}])
def test_no_file_at_all_is_refused(data, files):
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(coco=files)
    assert str(caught.value) == "coco= (--coco) names no file, or none of a split"


@pytest.mark.parametrize("images", [["images", "more"], {"train": ["images", "more"]}])
def test_several_folders_of_the_same_images_are_refused(data, images):
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(coco={"train": "c.json"}, images=images)
    assert str(caught.value).startswith(
        "images= (--images) names several folders for the same images: give one, or "
    )


def test_captions_alone_leave_no_size_behind(data):
    annotated.coco("c.json", {1: "a.png"}, [{"image_id": 1, "caption": "a dog"}])
    frame = dfgen.build_manifest(coco="c.json", facts="none")
    assert frame.columns.tolist() == ["id", "path", "captions"]


def test_crowd_flags_may_be_booleans(data):
    crowd = [box(1, 18, 1, 1, 2, 2, iscrowd=flag) for flag in (True, False, 1)]
    annotated.coco("c.json", {1: "a.png"}, crowd, CATS)
    frame = dfgen.build_manifest(coco="c.json", facts="none")
    assert frame["iscrowd"][0].tolist() == [True, False, True]


def test_whole_numbers_may_be_written_as_floats_and_no_flag_is_no_crowd(data):
    image = {"id": 1.0, "file_name": "a.png", "width": 40.0, "height": 30.0}
    crowd = [box(1.0, 18.0, 1, 1, 2, 2, iscrowd=flag) for flag in (None, 0.0, 1.0)]
    categories = [{"id": 18, "name": "dog"}]
    content = {"images": [image], "annotations": crowd, "categories": categories}
    (data / "c.json").write_text(json.dumps(content))
    frame = dfgen.build_manifest(coco="c.json", images="images")
    assert frame["id"].tolist() == [1] and frame["boxes"][0][0].tolist() == [1, 1, 3, 3]
    assert frame["iscrowd"][0].tolist() == [False, False, True]
    assert frame["labels"][0].tolist() == ["dog"] * 3
    for part, key in (("images", "height"), ("annotations", "category_id")):
        wrong = json.loads(json.dumps(content))
        wrong[part][0][key] = 18.5
        (data / "c.json").write_text(json.dumps(wrong))
        message = refused(ManifestError)
        assert "expected `float` that's a multiple of 1.0" in message and f".{key}`" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"images": [\n{"id": 1,\n"file_name": "\\u00e9\xff.png"}\n]}',
         "c.json is broken JSON, "),
        (b'{"x": ' + b"[" * 100_000, "c.json cannot be read: it is nested too deep"),
        (b"", "c.json is broken JSON, Input data was truncated. Mend the file, or fetch it again"),
        (b'{"images" [1]}', "c.json is broken JSON, JSON is malformed: "),
        (b'{"images": [{"id": 1}]}',
         'c.json is JSON, but not as COCO has it, {"images": [...], "annotations": [...], '
         '"categories": [...]}: object missing required field `file_name` - at `$.images['),
    ],
)  # fmt: skip
def test_what_is_no_json_of_coco_is_refused_with_its_place(data, content, message):
    (data / "c.json").write_bytes(content)
    assert refused(ManifestError).startswith(message)
