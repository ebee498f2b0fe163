"""Segmentation: regions of annotations as masks, to the pixel, and every bad one."""

import json

import albumentations as A
import annotated
import cv2
import numpy as np
import pandas as pd
import pytest
from messages import message_of
from pycocotools import mask as coco_masks

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError

SIZE = (30, 40)  # height, width
STAR = [20, 1, 8, 28, 38, 10, 2, 10, 32, 28]  # its edges cross
OUTSIDE = [-9, 5.5, 20, -4, 55, 12.25, 18.75, 44]
SQUARE = [4, 3, 16, 3, 16, 15, 4, 15]


def rle(mask, compressed=True):
    """Return the run lengths of a mask, as pycocotools writes them and as COCO's crowds are."""
    packed = coco_masks.encode(np.asfortranarray(mask.astype(np.uint8)))
    if compressed:
        return {"size": packed["size"], "counts": packed["counts"].decode()}
    flat = [0, *mask.astype(int).T.ravel().tolist(), 0]
    edges = [n for n in range(len(flat) - 1) if flat[n] != flat[n + 1]] + [mask.size]
    return {"size": list(mask.shape), "counts": np.diff(edges, prepend=0).tolist()}


def drawn(region, size=SIZE):
    """Return the mask of a region as pycocotools makes it."""
    if isinstance(region, list):
        return coco_masks.decode(coco_masks.merge(coco_masks.frPyObjects(region, *size)))
    packed = isinstance(region["counts"], str)
    return coco_masks.decode(region if packed else coco_masks.frPyObjects(region, *size))


def mixed(size=SIZE):
    rows, columns = np.indices(size)
    return (rows * 7 + columns * 3) % 11 < 4


@pytest.fixture
def path(tmp_path):
    annotated.image(tmp_path / "a.png")
    return str(tmp_path / "a.png")


def row_of(path, *regions, labels=None, crowd=None):
    names = labels or ["cat"] * len(regions)
    return {
        "path": path,
        "segmentation": [json.dumps(region) for region in regions],
        "labels": names,
        "iscrowd": crowd or [False] * len(regions),
    }


def feature(size=SIZE, **options):
    names = {"class_names": ("cat", "dog")}
    return dfgen.Segmentation(like=dfgen.Image(size=size), **names | options)


@pytest.mark.parametrize(
    "region",
    [
        [SQUARE],
        [STAR],
        [OUTSIDE],
        [[90, 90, 99, 90, 99, 99]],  # nothing of it is in the image
        [SQUARE, [10, 9, 33.3, 9, 33.3, 25.7], STAR],  # parts that overlap
        rle(mixed()),
        rle(mixed(), compressed=False),
        rle(np.ones(SIZE)),
        rle(np.zeros(SIZE)),
    ],
    ids=["square", "star", "outside", "beyond", "parts", "packed", "counts", "full", "empty"],
)
def test_a_region_sets_the_pixels_that_pycocotools_sets(path, region):
    mask = feature()(row_of(path, region))
    np.testing.assert_array_equal(mask[..., 0], drawn(region))


def test_later_objects_cover_earlier_ones_and_crowds_lie_below_all(path):
    row = row_of(
        path, [SQUARE], [[0, 0, 10, 0, 10, 30, 0, 30]], rle(np.ones(SIZE)),
        labels=["cat", "dog", "cat"], crowd=[False, False, True],
    )  # fmt: skip
    expected = np.where(drawn([SQUARE]), 1, 3)  # the first number that is of no class
    expected[drawn([[0, 0, 10, 0, 10, 30, 0, 30]]) > 0] = 2
    np.testing.assert_array_equal(feature(ignore=3)(row)[..., 0], expected)
    assert (feature()(row) == 1).all()  # as any object, and the last one


def test_every_object_has_a_mask_of_its_own(path):
    row = row_of(path, [SQUARE], rle(mixed()), labels=["dog", "cat"])
    found = feature(max_items=3)(row)
    assert [spec.loss_axes for spec in feature(max_items=3).spec] == [3, 1]  # a weight an object
    assert found["labels"].tolist() == [1, 0, -1]
    np.testing.assert_array_equal(found["masks"][0, ..., 0], drawn([SQUARE]))
    np.testing.assert_array_equal(found["masks"][1, ..., 0], mixed())
    assert not found["masks"][2].any()


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_it_follows_its_image_as_the_same_mask_in_a_file_does(path, tmp_path, resize):
    region = rle(mixed())
    cv2.imwrite(f"{tmp_path}/mask.png", mixed().astype(np.uint8))
    row = row_of(path, region) | {"mask": f"{tmp_path}/mask.png"}
    image = dfgen.Image(
        size=(21, 22), load_size=(24, 26), resize=resize, crop="random",
        flip="horizontal_and_vertical",
    )  # fmt: skip
    for seed in range(8):
        by_annotation, by_file, objects = (
            each(row, np.random.default_rng(seed))
            for each in (
                dfgen.Segmentation(like=image, class_names=("cat",), fill_value=9),
                dfgen.Mask("mask", like=image, fill_value=9),
                dfgen.Segmentation(like=image, class_names=("cat",), max_items=1),
            )
        )
        np.testing.assert_array_equal(by_annotation, by_file)
        np.testing.assert_array_equal(objects["masks"][0], by_file % 9)


def test_all_around_the_image_and_a_row_without_regions_are_background_by_its_number(path):
    frame = pd.DataFrame([row_of(path, [SQUARE])] * 2)
    frame["id"], frame.at[1, "segmentation"] = [0, 1], None
    image = dfgen.Image(size=(40, 40), resize="pad")
    target = dfgen.Segmentation(class_names=["cat", "background"], missing="ignore")
    cat, blank = np.asarray(dfgen.Sequence(frame, image, target, shuffle=False)[0][1])
    assert (cat == 0).sum() == drawn([SQUARE]).sum() and (blank == 1).all()


def test_class_names_that_are_numbers_follow_the_background(path):
    frame = pd.DataFrame([row_of(path, [SQUARE], [STAR], labels=[7, 0])])
    target = dfgen.Segmentation(class_names=[0, 7])
    with dfgen.Sequence(frame, dfgen.Image(size=SIZE), target) as sequence:
        assert sequence.class_names == ["background", 0, 7]
        mask = np.asarray(sequence[0][1])[0, ..., 0]
    np.testing.assert_array_equal(mask == 1, drawn([STAR]))
    np.testing.assert_array_equal(mask == 2, drawn([SQUARE]) & ~drawn([STAR]).astype(bool))


def numbered(tmp_path, rows=6):
    """Write COCO's JSON of images whose gray level is their number, as is that of one pixel."""
    things = []
    for n in range(rows):
        cv2.imwrite(f"{tmp_path}/{n}.png", np.full(SIZE, n, np.uint8))
        pixel = np.zeros(SIZE)
        pixel[n, n] = 1
        things.append(annotated.box(n, 5, n, n, 1, 1, segmentation=rle(pixel)))
        things.append(annotated.box(n, 9, 20, 5, 9, 9, segmentation=[[20, 5, 29, 5, 29, 14]]))
    names = {n: f"{n}.png" for n in range(rows)}
    return annotated.coco(f"{tmp_path}/c.json", names, things, {9: "dog", 5: "cat"}, SIZE[::-1])


@pytest.mark.parametrize("processes", [False, True])
def test_masks_of_coco_go_with_the_image_of_their_row(tmp_path, processes):
    frame = dfgen.build_manifest(coco=numbered(tmp_path))
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    with dfgen.Sequence(
        dfgen.read_manifest(tmp_path / "m.parquet"),
        dfgen.Image(size=SIZE, color_mode="grayscale"),
        dfgen.Segmentation(),
        batch_size=3,
        use_multiprocessing=processes,
        workers=2,
        root=tmp_path,
    ) as sequence:
        assert sequence.class_names == ["background", "cat", "dog"]
        seen = []
        for images, masks in sequence:
            for image, mask in zip(np.asarray(images), np.asarray(masks), strict=True):
                number = int(image[0, 0, 0])
                seen.append(number)
                assert np.argwhere(mask[..., 0] == 1).tolist() == [[number, number]]
                np.testing.assert_array_equal(
                    mask[..., 0] == 2, drawn([[20, 5, 29, 5, 29, 14]]).astype(bool)
                )
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_albumentations_moves_masks_and_objects_with_their_image(tmp_path):
    frame = dfgen.build_manifest(coco=numbered(tmp_path))
    pipeline = A.Compose([A.HorizontalFlip(p=1)], seed=1)
    whole, objects = (
        dfgen.Sequence(
            frame, dfgen.Image(size=SIZE), dfgen.Segmentation(max_items=most), batch_size=6,
            shuffle=False, transform=dfgen.albumentations(pipeline), root=tmp_path,
        )[0][1]
        for most in (None, 4)
    )  # fmt: skip
    plain = dfgen.Sequence(
        frame, dfgen.Image(size=SIZE), dfgen.Segmentation(), batch_size=6, shuffle=False,
        root=tmp_path,
    )[0][1]  # fmt: skip
    flipped = np.asarray(plain)[:, :, ::-1]
    np.testing.assert_array_equal(np.asarray(whole), flipped)
    np.testing.assert_array_equal(np.asarray(objects["masks"])[:, 1], flipped == 2)
    assert np.asarray(objects["labels"])[0].tolist() == [0, 1, -1, -1]


def test_polygons_of_yolo_draw_masks_and_images_without_objects_none(tmp_path):
    from pathlib import Path

    for name in ("a", "b"):
        annotated.image(tmp_path / f"images/train/{name}.png")
    Path(tmp_path / "labels/train").mkdir(parents=True)
    (tmp_path / "labels/train/a.txt").write_text("1 0.1 0.1 0.4 0.1 0.4 0.5 0.1 0.5\n")
    (tmp_path / "data.yaml").write_text("train: images/train\nnames: [cat, dog]\n")
    frame = dfgen.build_manifest(yolo=tmp_path / "data.yaml")
    frame["path"] = str(tmp_path) + "/images/train/" + frame["path"].str.rsplit("/").str[-1]
    made = dfgen.Sequence(
        frame, dfgen.Image(size=SIZE), dfgen.Segmentation("polygons"), shuffle=False
    )
    masks = np.asarray(made[0][1])[..., 0]
    np.testing.assert_array_equal(masks[0], 2 * drawn([SQUARE]))
    assert not masks[1].any()


@pytest.mark.parametrize(
    ("empty", "listed"), [(None, False), ("[]", False), (None, True), ([], True)]
)
def test_objects_without_a_region_are_told_once_with_the_first_row(path, empty, listed):
    whole, bare = row_of(path, [SQUARE]), row_of(path, [SQUARE], [SQUARE])
    if listed:
        whole["segmentation"], bare["segmentation"] = [SQUARE], [SQUARE, SQUARE]
    bare["segmentation"][1] = empty
    frame = pd.DataFrame([whole, bare, bare]).assign(id=[5, 6, 7])
    expected = (
        "2 of 5 objects in column 'segmentation' have a label but no region, such as object 1 of "
        f"row id=6, path={path!r}: masks show background there. Draw their regions, or remove "
        "these objects from the annotations"
    )
    target = dfgen.Segmentation(class_names=("cat", "dog"))
    with pytest.warns(UserWarning) as told:
        dfgen.Sequence(frame, dfgen.Image(size=SIZE), target)
    assert [str(one.message) for one in told] == [expected]


def test_boxes_alone_are_no_regions_and_the_advice_is_not_to_write_none(path):
    polygons = [[[2.0, 2.0, 9.0, 2.0, 9.0, 9.0]], None]
    frame = pd.DataFrame({"path": path, "polygons": polygons, "labels": [["cat"], ["dog"]]})
    target = dfgen.Segmentation("polygons", class_names=("cat", "dog"))
    with pytest.raises(ManifestError) as caught:
        dfgen.Sequence(frame, dfgen.Image(size=SIZE), target)
    assert str(caught.value) == (
        "column 'polygons' has no regions in 1 rows whose objects have labels, the first is row 1: "
        "the annotations hold boxes alone there. Draw regions, or drop these rows, or, in y, give "
        'these rows no weight, by missing="ignore" in the feature'
    )


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ([[1, 2, 3, 4]],
         "a polygon has 4 numbers, [1.0, 2.0, 3.0, 4.0], expected x and y of three corners or "
         "more: correct the annotation or remove it"),
        ([[*range(7)]],
         "a polygon has 7 numbers, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], expected x and y of three "
         "corners or more: correct the annotation or remove it"),
        (rle(np.ones((40, 30))), "run lengths (RLE) of 40 x 30 pixels"),
        ({"size": [30, 40], "counts": [7, 9]}, "run lengths (RLE) of 30 x 40 pixels"),
        ({"size": [30, 40], "counts": "oo"}, "run lengths (RLE) of 30 x 40 pixels"),
        ([[1e200, 0, 4, 4, 9, 9]], "the corners of a polygon lie far outside of the image"),
    ],
)  # fmt: skip
def test_a_region_that_is_none_names_its_row_and_file(path, region, message):
    frame = pd.DataFrame([row_of(path, [SQUARE]), row_of(path, region)])
    frame["id"] = ["good", "bad"]
    given = (frame, dfgen.Image(size=SIZE), dfgen.Segmentation())
    with pytest.warns(UserWarning, match="one class alone") as caught:
        strict, skipping = (
            dfgen.Sequence(*given, shuffle=False, on_error=on_error)
            for on_error in ("raise", "skip")
        )
    del caught
    with pytest.raises(DecodeError) as error:
        strict[0]
    told = str(error.value)
    assert "id='bad'" in told and path in told and message in told, told
    _, masks, weights = skipping[0]
    assert np.asarray(weights).ravel().tolist() == [2, 0]
    assert not np.asarray(masks)[1].any()


def test_text_that_is_no_region_is_told(path):
    row = row_of(path) | {"segmentation": ["a.png"], "labels": ["cat"]}
    assert message_of(DecodeError, lambda: feature()(row)).startswith(
        f"path={path!r}: a segmentation is 'a.png', expected COCO's polygons, "
        '[[x, y, x, y, x, y, ...], ...], or run lengths, {"size": [height, width], "counts": ...}: '
    )


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"labels": [["cat"] * 2]}, {},
         "row 0 has 1 regions in column 'segmentation', but 2 values in column 'labels' (1 such "
         "rows)"),
        ({"iscrowd": [[]]}, {"ignore": 255},
         "row 0 has 1 regions in column 'segmentation', but 0 values in column 'iscrowd' (1 such "
         "rows)"),
        ({"segmentation": [[7]]}, {},
         "column 'segmentation' holds lists of int64, expected lists of the JSON of COCO's "
         "segmentation, or of polygons [x, y, x, y, x, y, ...]"),
        ({"labels": [[300]]}, {"class_names": None},
         "column 'labels' has the class 300, more than uint8 can hold: classes of pixels go from "
         "0 to 255"),
        ({"labels": [[0]]}, {"class_names": None},
         "row 0 has an object of class 0 in column 'labels', the background, which is not seen: "
         "add 1 to the labels, or give their class_names=[...]"),
        ({"labels": [[1.0]]}, {"class_names": None},
         "column 'labels' holds lists of double: tell the feature their order, class_names=[...]"),
        ({"labels": [[9]]}, {"class_names": None, "ignore": 8},
         "column 'labels' has the class 9, and ignore=8 is that of a class: write ignore=255"),
        ({"iscrowd": [["maybe"]]}, {"ignore": 255},
         "column 'iscrowd' holds lists of string, expected lists of booleans: "),
        ({"segmentation": [["[]", "[]"]], "labels": [["cat", "dog"]]}, {"max_items": 1},
         "row 0 has 2 objects, more than max_items=1: write Segmentation(max_items=2)"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused(path, columns, options, message):
    frame = pd.DataFrame([row_of(path, [SQUARE])])
    for name, values in columns.items():
        frame[name] = values
    target = dfgen.Segmentation(**{"class_names": ("cat", "dog"), **options})
    call = lambda: dfgen.Sequence(frame, dfgen.Image(size=SIZE), target)  # noqa: E731
    assert message in message_of(ManifestError, call)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_items": 0}, "max_items=0 is not a whole number of 1 or more"),
        ({"ignore": 256}, "ignore=256 is not a whole number from 0 to 255"),
        ({"ignore": 2, "class_names": ["cat", "dog"]},
         "ignore=2 is the number of the class 'dog': write ignore=255"),
        ({"ignore": 255, "max_items": 2},
         "ignore= is the value of pixels, and with max_items= each object has a mask of its own: "
         "leave one of them out"),
        ({"max_items": 2, "like": dfgen.Image(size=None)},
         "max_items= makes one array of the masks of all objects, so give the image a size, or "
         "leave max_items= out"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_are_refused(options, message):
    assert message_of(ArgumentError, lambda: dfgen.Segmentation(**options)) == message


def test_a_mask_of_files_refuses_annotations_and_names_the_feature_that_draws_them(path):
    frame = pd.DataFrame([row_of(path, [SQUARE])])
    call = lambda: dfgen.Sequence(frame, dfgen.Image(size=SIZE), dfgen.Mask("segmentation"))  # noqa: E731
    assert message_of(ArgumentError, call) == (
        "column 'segmentation' holds annotations, expected paths of mask files: write "
        "dfgen.Segmentation('segmentation')"
    )
