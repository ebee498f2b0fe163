import os

import annotated
import numpy as np
import pandas as pd
import pytest
from cases import each
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three images to detect on, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for path in ("images/train/a.png", "images/train/b.png", "images/val/c.png"):
        annotated.image(path)
    write("labels/train/a.txt", "1 0.5 0.5 0.5 0.5\n0 0.25 0.25 0.5 0.5\n")
    write("labels/val/c.txt", "0 0.5 0.5 1 1\n")
    write("data.yaml", "train: images/train\nval: images/val\nnc: 2\nnames: {0: cat, 1: dog}\n")
    return tmp_path


def refused(error, **options):
    with pytest.raises(error) as caught:
        dfgen.build_manifest(yolo="data.yaml", **options)
    return str(caught.value)


def test_boxes_become_pixels(data):
    frame = dfgen.build_manifest(yolo="data.yaml", out="m.parquet")
    assert frame["id"].tolist() == ["images/train/a.png", "images/train/b.png", "images/val/c.png"]
    assert frame["split"].tolist() == ["train", "train", "val"]
    boxes = [[box.tolist() for box in boxes] for boxes in frame["boxes"]]
    assert boxes == [[[10, 7.5, 30, 22.5], [0, 0, 20, 15]], [], [[0, 0, 40, 30]]]
    assert [list(names) for names in frame["labels"]] == [["dog", "cat"], [], ["cat"]]
    assert "polygons" not in frame
    assert frame.attrs["dfgen"]["labels"]["boxes"]["box_format"] == "xyxy"
    assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["cat", "dog"]
    back = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(back, frame)
    assert back.attrs == frame.attrs


def test_names_of_classes_are_as_they_are_written(data):
    names = ["no", "yes", "off", "010", "1_0", "1.50", "2024-01-02", "null"]
    listed, numbered = f"names: [{', '.join(names)}]", f"names: {dict(enumerate(names))}"
    for text in (listed, numbered, f"shared: &shared\n  {listed}\n<<: *shared"):
        write("data.yaml", f"train: images/train\n{text}\n".replace("'", ""))
        frame = dfgen.build_manifest(yolo="data.yaml")
        assert frame.attrs["dfgen"]["labels"]["labels"]["class_names"] == names
        assert list(frame["labels"][0]) == ["yes", "no"]


@each(
    ("names", "told"),
    [
        (
            "{0: cat, 0: dog, 1: owl}",
            "data.yaml cannot be read as YAML: ComposerError: the key '0' stands twice",
        ),
        ("{0: cat, 00: dog}", "data.yaml: names have the numbers [0], expected [0, 1]"),
    ],
)
def test_no_class_takes_the_number_of_another(data, names, told):
    write("data.yaml", f"train: images/train\nnames: {names}\n")
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(yolo="data.yaml")
    assert told in str(caught.value)


@pytest.mark.parametrize("numbers", [2, 3])
def test_key_points_of_poses_become_pixels_with_a_visibility_each(data, numbers):
    seen = (" 1", " 0") if numbers == 3 else ("", "")
    write("labels/train/a.txt", f"1 0.5 0.5 0.5 0.5 0 0.5{seen[0]} 0 0{seen[1]}\n")
    write("labels/val/c.txt", "")
    write(
        "data.yaml",
        f"train: images/train\nval: images/val\nnames: [a, b]\nkpt_shape: [2, {numbers}]\n",
    )
    frame = dfgen.build_manifest(yolo="data.yaml", out="m.parquet")
    first = 1 if numbers == 3 else 2
    assert [each.tolist() for each in frame["keypoints"][0]] == [[0, 15, first, 0, 0, 0]]
    assert [len(each) for each in frame["keypoints"]] == [1, 0, 0]
    target = dfgen.Keypoints(count=2, max_items=1)
    points = dfgen.Sequence(
        "m.parquet", dfgen.Image(size=(30, 40)), target, shuffle=False, root=data
    )[0][1]
    assert np.asarray(points)[:, 0].tolist() == [
        [[0, 15, first], [0, 0, 0]],
        *[[[-1] * 3] * 2] * 2,
    ]


def test_a_line_of_another_number_of_key_points_is_named(data):
    write("data.yaml", "train: images/train\nnames: [a, b]\nkpt_shape: [2, 3]\n")
    write("labels/train/b.txt", "0 0.5 0.5 0.5 0.5 0.1 0.1 2 0.2 0.2 2\n")
    with pytest.warns(UserWarning, match="line 1 has 5 numbers, expected 11"):
        frame = dfgen.build_manifest(yolo="data.yaml")
    assert frame["problem"][0] == (
        f"{data}/labels/train/a.txt, line 1 has 5 numbers, expected 11: a class, x and y of the "
        "centre, width and height, and 2 key points of 3 numbers, as kpt_shape of data.yaml says"
    )
    assert frame["keypoints"][0] is None


def test_polygons_become_pixels_and_boxes_around_them(data):
    write("labels/train/b.txt", "1 0.5 0.5 0.75 0.5 0.5 1\n0 0.5 0.5 0.5 0.5\n")
    frame = dfgen.build_manifest(yolo="data.yaml")
    assert [box.tolist() for box in frame["boxes"][1]] == [[20, 15, 30, 30], [10, 7.5, 30, 22.5]]
    assert [list(corners) for corners in frame["polygons"][1]] == [[20, 15, 30, 15, 20, 30], []]
    assert frame["polygons"][0] is None


def test_lists_of_images_and_folders_elsewhere(data):
    write("lists/train.txt", "./../x\n")
    write("data.yaml", "train: lists/train.txt\nnames: [cat, dog]\n")
    assert refused(ManifestError) == (
        f'{data}/lists/train.txt, line 1: "./../x" leaves the folder of the data set by ".."'
    )
    annotated.image(".more/d.png")
    write("lists/train.txt", f"images/train/a.png\n\n{data}/images/val/c.png\n.more/d.png\n")
    frame = dfgen.build_manifest(yolo="data.yaml")
    assert frame["id"].tolist() == ["images/train/a.png", "images/val/c.png", ".more/d.png"]
    assert [len(names) for names in frame["labels"]] == [2, 1, 0]
    write("sub/data.yaml", "path: ..\ntrain: [images/train, images/val]\nnames: [cat, dog]\n")
    assert len(dfgen.build_manifest(yolo="sub/data.yaml")) == 3
    write("data.yaml", "train: ../images/train\nnames: [cat, dog]\n")
    assert len(dfgen.build_manifest(yolo="data.yaml")) == 2


def test_labels_may_lie_beside_the_folder_of_images_or_the_images(data):
    for folder, train, images, labels in (
        ("x", "train", "train/images", "train/labels"), ("y", "train", "train", "train"),
        ("images/x", "train", "train/images", "train/labels"),
        ("images/z", "images", "images", "labels"),
    ):  # fmt: skip
        annotated.image(f"{folder}/{images}/a.png")
        write(f"{folder}/{labels}/a.txt", "1 0.5 0.5 0.5 0.5\n")
        write(f"{folder}/data.yaml", f"train: {train}\nnames: [cat, dog]\n")
        frame = dfgen.build_manifest(yolo=f"{folder}/data.yaml")
        assert [list(names) for names in frame["labels"]] == [["dog"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2 0.5 0.5 0.5 0.5",
         "class 2 is out of range. data.yaml has 2 names: 0 to 1"),
        ("-1 0.5 0.5 0.5 0.5",
         "class -1 is out of range. data.yaml has 2 names: 0 to 1"),
        ("0.5 0.5 0.5 0.5 0.5",
         "class 0.5 is out of range. data.yaml has 2 names: 0 to 1"),
        *((text, f'is "{text}", expected a class, x and y of the centre, width and height; or a '
           "class, and x and y of three corners or more")
          for text in ("cat 0.5 0.5 0.5 0.5", "0 0.5 0.5 0.5", "0 1 1 1 1 1 1 1", "0 nan 1 1 1")),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:1 problem")
def test_a_line_that_is_no_label_is_the_problem_of_its_row(data, line, message):
    write("labels/train/b.txt", f"0 0.5 0.5 0.5 0.5\n{line}\n")
    colon = ":" if message.startswith("class") else ""
    problem = f"{data}/labels/train/b.txt, line 2{colon} {message}"
    frame = dfgen.build_manifest(yolo="data.yaml")
    assert frame["problem"].fillna("").tolist() == ["", problem, ""]
    assert frame.loc[1, ["boxes", "labels"]].isna().all()


@pytest.mark.filterwarnings("ignore:1 problem")
@pytest.mark.parametrize("feature", ["Boxes", "Segmentation", "Keypoints"])
def test_a_row_of_a_broken_line_is_skipped_or_refused_with_its_problem(data, feature):
    line = "0 0.1 0.1 0.4 0.1 0.4 0.5\n"
    if feature == "Keypoints":
        write("data.yaml", "train: images/train\nval: images/val\nnames: [a]\nkpt_shape: [1, 3]\n")
        line = "0 0.5 0.5 0.5 0.5 0.5 0.5 2\n"
    write("labels/train/a.txt", f"\ufeff{line}")  # as Windows writes UTF-8
    write("labels/train/b.txt", "0 broken\n")
    write("labels/val/c.txt", line)
    frame = dfgen.build_manifest(yolo="data.yaml")
    target = {
        "Boxes": dfgen.Boxes("boxes", labels="labels", max_boxes=2),
        "Segmentation": dfgen.Segmentation("polygons", max_items=2),
        "Keypoints": dfgen.Keypoints(count=1),
    }[feature]
    image, options = dfgen.Image(size=(30, 40)), {"shuffle": False, "root": data}
    with dfgen.Sequence(frame, image, target, on_error="skip", **options) as seq:
        *_, weights = seq[0]
        found = weights[min(weights)] if isinstance(weights, dict) else weights
        assert np.asarray(found).reshape(3, -1).any(axis=1).tolist() == [True, False, True]
        assert seq.problems.reason.tolist() == [frame["problem"][1]]
    message = message_of(ManifestError, dfgen.Sequence, frame, image, target, **options)
    assert frame["problem"][1] in message and "write []" not in message


def test_labels_that_are_all_broken_are_refused(data):
    for path in ("train/a", "train/b", "val/c"):
        write(f"labels/{path}.txt", "7 0.5 0.5 0.5 0.5\n")
    assert refused(ManifestError) == (
        f"None of the 3 annotations can be used. The first: {data}/labels/train/a.txt, line 1: "
        "class 7 is out of range. data.yaml has 2 names: 0 to 1"
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_labels_without_an_image_are_refused_kept_or_dropped(data):
    write("labels/train/x.txt", "0 0.5 0.5 0.5 0.5\n")
    assert refused(ManifestError) == "\n".join(
        [
            f'images in "{data}/images/train" and .txt files in "{data}/labels/train" do not match '
            "by their relative paths.",
            "1 of 2 .txt files have no image, 1 have one:",
            '  "x"',
            'To go on anyway: unmatched="keep" (missing labels, rows with a problem) or "drop" '
            "(--unmatched keep|drop)",
        ]
    )
    kept = dfgen.build_manifest(yolo="data.yaml", unmatched="keep").set_index("id")
    assert kept.loc["labels/train/x", "problem"] == (
        f"no image for these labels: {data}/labels/train/x.txt"
    )
    with pytest.warns(UserWarning, match=r"^Left out 1 \.txt file without image\.$"):
        assert len(dfgen.build_manifest(yolo="data.yaml", unmatched="drop")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: images/train\n",
         "data.yaml has no names: the classes in the order of their numbers"),
        ("names: []\ntrain: images/train\n",
         "data.yaml has no names: the classes in the order of their numbers"),
        ("names: [a, a]\ntrain: images/train\n",
         "data.yaml: two classes have one name: ['a', 'a']"),
        ("names: [a, '', b]\ntrain: images/train\n",
         "data.yaml: class 1 has no name: ['a', '', 'b']"),
        ("names: {0: a, 2: b}\ntrain: images/train\n",
         "data.yaml: names have the numbers [0, 2], expected [0, 1]"),
        ("names: [a]\nnc: 2\ntrain: images/train\n",
         "data.yaml: nc is 2, and there are 1 names. Mend one"),
        ("names: [a]\n", "data.yaml names no images: expected train, val, test"),
        ("names: [a]\nkpt_shape: [17]\n",
         "data.yaml: kpt_shape is [17], expected [key points, numbers of each], as [17, 3]"),
    ],
)  # fmt: skip
def test_a_data_file_that_says_too_little_is_refused(data, text, message):
    write("data.yaml", text)
    assert refused(ManifestError) == message


def test_broken_yaml_is_refused_with_its_line_and_runs_no_code(data):
    write("data.yaml", "names: [a\ntrain: x\n")
    message = refused(ManifestError)
    assert message.startswith("data.yaml cannot be read as YAML: ")
    assert "line 2" in message
    write("data.yaml", "names: !!python/object/apply:os.getcwd []\n")
    assert refused(ManifestError).startswith("data.yaml cannot be read as YAML: ")


def test_missing_places_are_named(data):
    write("data.yaml", "train: nowhere\nnames: [a]\n")
    assert refused(MissingFileError) == (
        f"data.yaml names images in nowhere: there is no {data}/nowhere"
    )
    annotated.image("images/new/a.png")
    write("data.yaml", "train: images/new\nnames: [a]\n")
    assert refused(MissingFileError) == (
        f'there is no folder "{data}/labels/new" of labels for the images in "{data}/images/new". '
        "Without boxes, leave the folder out; only test may have none"
    )
    write("data.yaml", "test: images/new\nnames: [a]\n")
    frame = dfgen.build_manifest(yolo="data.yaml")
    assert frame["split"].tolist() == ["test"]
    assert frame["boxes"].isna().all() and frame["labels"].isna().all()  # nobody has looked


def test_boxes_need_the_size_of_their_images(data):
    assert refused(ArgumentError, facts="none") == (
        "the source's boxes are shares of the image: its size is needed to make pixels of them. "
        'Leave facts="none" (--facts none) out'
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_boxes_of_an_image_of_unknown_size_are_missing_and_those_beside_it_stay(data):
    write("images/train/b.png", "no image")
    write("labels/train/b.txt", "0 0.5 0.5 1 1\n1 0.5 0.5 0.5 0.5\n")
    frame = dfgen.build_manifest(yolo="data.yaml")
    assert [boxes is not None and np.stack(boxes).tolist() for boxes in frame["boxes"]] == [
        [[10, 7.5, 30, 22.5], [0, 0, 20, 15]], False, [[0, 0, 40, 30]],
    ]  # fmt: skip
    assert frame["problem"].notna().tolist() == [False, True, False]


def test_text_files_in_the_wrong_place_are_left_out_by_name(data):
    for path in ("images/train/b.txt", "labels/train/b.json", "labels/val/classes.txt"):
        write(path, "")
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest(yolo="data.yaml")
    assert str(caught[0].message) == (
        "Left out: 1 path, .json: labels/train/b.json\n"
        "Left out: 1 path, .txt: images/train/b.txt\n"
        "Move files that are no samples elsewhere."
    )


def test_blanks_around_a_listed_image_are_no_part_of_its_path(data):
    write("train.txt", " images/train/a.png \n\n")
    write("data.yaml", "train: train.txt\nnames: [cat, dog]\n")
    assert dfgen.build_manifest(yolo="data.yaml")["id"].tolist() == ["images/train/a.png"]


def test_an_image_in_place_of_a_list_is_refused(data):
    write("data.yaml", "train: images/train/a.png\nnames: [cat, dog]\n")
    message = refused(ManifestError)
    assert message.startswith(
        f"{data}/images/train/a.png cannot be read as a list of images, a path a line: 'utf-8' "
    )
    assert message.endswith(". data.yaml names folders of images, or such lists")
