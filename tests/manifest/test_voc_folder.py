"""The folder of a year of Pascal VOC: masks, lists of train and val, and folders of splits."""

import os
from pathlib import Path

import annotated
import numpy as np
import pytest
from PIL import Image

import dfgen
from dfgen.errors import DfgenError

SIZE = (30, 40)
NAMES = ["2007_000027", "2007_000032", "2007_000033"]
YEAR = Path("VOCdevkit/VOC2012")


def palette():
    """Return the colours of Pascal VOC: the bits of a class, spread over red, green and blue."""
    colours = np.zeros((256, 3), np.uint8)
    for number in range(256):
        for bit in range(8):
            for channel in range(3):
                colours[number, channel] |= (number >> (3 * (bit // 3) + channel) & 1) << (7 - bit)
    return colours


def mask(path, numbers):
    """Write a mask as Pascal VOC has it: indexed colours, as PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(numbers.astype(np.uint8)).convert("P")
    image.putdata(numbers.ravel().tolist())
    image.putpalette(palette().ravel().tolist())
    image.save(path)


def numbers_of(row):
    """Return classes of pixels that encode the row, with a border of 255."""
    numbers = np.full(SIZE, row + 1)
    numbers[:, 20] = 255
    numbers[:5] = 0
    return numbers


def write_lists(where="Main", **splits):
    folder = YEAR / "ImageSets" / where
    folder.mkdir(parents=True, exist_ok=True)
    for split, names in splits.items():
        (folder / f"{split}.txt").write_text("".join(f"{name}\n" for name in names), "utf-8")
    return str(folder)


@pytest.fixture(autouse=True)
def year(tmp_path, monkeypatch):
    """Three images of a year, all annotated, of which the first two have masks."""
    monkeypatch.chdir(tmp_path)
    for row, name in enumerate(NAMES):
        annotated.image(YEAR / f"JPEGImages/{name}.jpg")
        annotated.xml(YEAR / f"Annotations/{name}.xml", ("dog", 1, 2, 10, 12))
        if row < 2:
            mask(YEAR / f"SegmentationClass/{name}.png", numbers_of(row))
            mask(YEAR / f"SegmentationObject/{name}.png", 2 * numbers_of(row) % 510)
    return tmp_path


def test_the_folder_of_a_year_gives_images_boxes_and_masks(year):
    frame = dfgen.build_manifest(voc=YEAR, out="voc.parquet")
    assert frame["id"].tolist() == [f"{name}.jpg" for name in NAMES]
    assert [boxes.tolist()[0].tolist() for boxes in frame["boxes"]] == [[1, 2, 10, 12]] * 3
    assert frame.attrs["dfgen"]["labels"]["class_mask"] == {"kind": "text"}
    assert frame["class_mask"].tolist()[:2] == [
        f"{year}/{YEAR}/SegmentationClass/{name}.png" for name in NAMES[:2]
    ]
    assert frame[["class_mask", "object_mask"]].isna().all(axis=1).tolist() == [False, False, True]
    again = dfgen.build_manifest(voc=YEAR / "Annotations", images=YEAR / "JPEGImages")
    assert again["id"].tolist() == frame["id"].tolist() and "class_mask" not in again


def test_masks_are_read_as_classes_with_their_border_at_255():
    frame = dfgen.build_manifest(voc=YEAR, out="voc.parquet")
    held = frame[frame.class_mask.notna()]
    image = dfgen.Image(size=SIZE)
    for row in range(2):
        found = dfgen.Mask("class_mask", like=image)(held.iloc[row])[..., 0]
        np.testing.assert_array_equal(found, numbers_of(row))
    targets = {"mask": dfgen.Mask("class_mask"), "objects": dfgen.Mask("object_mask")}
    with dfgen.Sequence(held, image, targets, batch_size=2, shuffle=False) as seq:
        _, masks = seq[0]
    np.testing.assert_array_equal(masks["mask"][1, ..., 0], numbers_of(1))
    np.testing.assert_array_equal(masks["objects"][1, 6], 2 * numbers_of(1)[6, :, None] % 510 % 256)


def test_the_lists_of_a_year_are_the_column_split():
    lists = write_lists(train=NAMES[:2], val=NAMES[2:], trainval=NAMES)
    frame = dfgen.build_manifest(voc=YEAR, image_sets=lists, out="voc.parquet")
    assert frame["split"].tolist() == ["train", "train", "val"]
    assert list(frame["split"].cat.categories) == ["train", "val"]
    seqs = dfgen.sequences("voc.parquet", dfgen.Image(size=SIZE), "label", batch_size=1)
    assert {name: seq.manifest["id"].tolist() for name, seq in seqs.items()} == {
        "train": [f"{name}.jpg" for name in NAMES[:2]], "val": [f"{NAMES[2]}.jpg"],
    }  # fmt: skip
    again = dfgen.build_manifest(update="voc.parquet", out="again.parquet")
    assert again["split"].tolist() == frame["split"].tolist()
    assert Path("again.parquet").read_bytes() == Path("voc.parquet").read_bytes()


def test_images_of_no_list_keep_their_row_without_split():
    lists = write_lists("Segmentation", train=NAMES[:1], val=NAMES[1:2])
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest(voc=YEAR, image_sets=lists)
    assert frame["split"].isna().tolist() == [False, False, True]
    assert [str(warning.message) for warning in caught] == [
        f"1 of 3 images are in no list of {lists}, and their split is missing. To leave them out: "
        "df[df.split.notna()]"
    ]


def test_lines_may_hold_more_than_the_name_of_an_image():
    train = [f"\ufeff{NAMES[0]}  1", f"{NAMES[1]}.jpg", ""]  # as Windows writes UTF-8
    lists = write_lists(train=train, val=[f"{NAMES[2]} -1"])
    frame = dfgen.build_manifest(voc=YEAR, image_sets=lists)
    assert frame["split"].tolist() == ["train", "train", "val"]


def test_a_line_of_a_missing_image_is_not_that_of_another_whose_name_it_begins_with():
    for name in ("photo", "photo 1"):
        annotated.image(YEAR / f"JPEGImages/{name}.jpg")
        annotated.xml(YEAR / f"Annotations/{name}.xml", ("dog", 1, 2, 10, 12))
    lists = write_lists(train=[*NAMES, "photo\t-1"], val=["photo 1", "photo 1 0"])
    frame = dfgen.build_manifest(voc=YEAR, image_sets=lists)
    found = dict(zip(frame["id"], frame["split"], strict=True))
    assert (found["photo.jpg"], found["photo 1.jpg"]) == ("train", "val")
    write_lists(val=["photo 3"])
    with pytest.raises(DfgenError, match=r'val.txt, line 1: there is no image "photo 3"'):
        dfgen.build_manifest(voc=YEAR, image_sets=lists)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": [NAMES[0], "2008_1"]},
         '{}/train.txt, line 2: there is no image "2008_1". Remove the line, or give the folder of '
         "its images as images= (--images)"),
        ({"train": NAMES[:2], "val": NAMES[1:]},
         '{}/val.txt, line 1: "2007_000032" is in train.txt too, and an image has one split. '
         "Remove it from one of them"),
        ({"trainval": NAMES},
         '"{}" has neither train.txt, val.txt nor test.txt: give the folder of the lists, as '
         "ImageSets/Main (--image-sets)"),
    ],
)  # fmt: skip
def test_bad_lists_are_refused_by_file_and_line(splits, message):
    lists = write_lists(**splits)
    with pytest.raises(DfgenError) as caught:
        dfgen.build_manifest(voc=YEAR, image_sets=lists)
    assert str(caught.value) == message.format(lists)


def test_lines_of_missing_images_are_told_where_these_are_kept_or_dropped():
    lists = write_lists(train=["2008_1", *NAMES])
    os.remove(YEAR / f"JPEGImages/{NAMES[0]}.jpg")
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest(voc=YEAR, image_sets=lists, unmatched="keep")
    assert frame["split"].tolist() == ["train"] * 3
    told = [str(warning.message) for warning in caught]
    assert (
        f'Left out 1 line of lists, as {lists}/train.txt, line 1: there is no image "2008_1"'
        in told
    )


def test_lists_in_another_encoding_and_missing_folders_are_named():
    lists = write_lists(train=NAMES)
    Path(lists, "train.txt").write_bytes(b"\xff\xfe2\x00")
    with pytest.raises(DfgenError, match=r"train.txt cannot be read as a list of images: 'utf-8'"):
        dfgen.build_manifest(voc=YEAR, image_sets=lists)
    with pytest.raises(DfgenError, match=r'^there is no folder "nowhere"'):
        dfgen.build_manifest(voc=YEAR, image_sets="nowhere")


def test_a_split_by_shares_beside_lists_is_refused():
    lists = write_lists(train=NAMES[:2], val=NAMES[2:])
    with pytest.raises(DfgenError, match=r"the rows have a column .split. already"):
        dfgen.build_manifest(voc=YEAR, image_sets=lists, split={"a": 0.5, "b": 0.5})


def test_a_mask_without_image_is_told():
    os.remove(YEAR / f"JPEGImages/{NAMES[0]}.jpg")
    os.remove(YEAR / f"Annotations/{NAMES[0]}.xml")
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest(voc=YEAR)
    assert len(frame) == 2
    told = [str(warning.message) for warning in caught]
    assert told[0].startswith("Left out 1 mask without image, as ")
    assert told[0].endswith(f"/SegmentationClass/{NAMES[0]}.png")


@pytest.mark.filterwarnings("ignore:1 problem")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_of_a_photograph_that_exif_turns_are_a_problem(orientation):
    for row in (1, 2):  # of which the latter has no masks
        annotated.image(YEAR / f"JPEGImages/{NAMES[row]}.jpg", orientation=orientation)
    problem = (
        f"EXIF turns the image (orientation {orientation}), and its boxes with it, but not its "
        "masks (class_mask, object_mask): save image and masks upright"
    )
    found = dfgen.build_manifest(voc=YEAR)["problem"].fillna("").tolist()
    assert found == ["", problem * (orientation > 1), ""]
