"""Segmentation and masks: damaged regions, classes, palettes and sizes."""

import json

import cv2
import numpy as np
import pandas as pd
import PIL.Image
import pytest
from public.first_batch import batch_of, equal

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError

SIZE = (6, 9)
SAME = dfgen.Image(size=SIZE)
SQUARE = [1.0, 1, 5, 1, 5, 4, 1, 4]
DRAWN = np.zeros(SIZE, np.uint8)
DRAWN[1:4, 1:5] = 1


@pytest.fixture
def rows(tmp_path):
    """Return a function: a frame of one image with these regions and labels in each row."""
    cv2.imwrite(f"{tmp_path}/a.png", np.zeros((*SIZE, 3), np.uint8))

    def make(regions, labels, **columns):
        ids = [f"r{row}" for row in range(len(regions))]
        data = {"id": ids, "path": f"{tmp_path}/a.png", "segmentation": regions, "labels": labels}
        return pd.DataFrame({**data, **columns})

    return make


def rle(counts, size=SIZE):
    return json.dumps({"size": list(size), "counts": counts})


@pytest.mark.parametrize(
    ("region", "word"),
    [("[[1, 2, 3, 4]]", "three corners"), ("[[1, 2, 3, 4, 5, 6, 7]]", "three corners"),
     ("[[1e9, 0, 5, 5, 0, 5]]", "corners"), ("{}", "segmentation"), ("[", "segmentation"),
     (rle([53]), "RLE"), (rle([54], (9, 6)), "RLE"), (rle([10, -4, 48]), "RLE"),
     (rle([0, 55]), "RLE"), (rle("5"), "RLE"), (rle("5\x7f"), "RLE"), (rle("é"), "RLE"),
     (rle("PPPP"), "RLE"), (rle("o" * 99), "RLE")],
)  # fmt: skip
def test_damaged_regions_are_bad_rows(rows, region, word):
    with pytest.raises(DecodeError, match=rf"r0.*{word}"):
        batch_of(rows([[region]], [["a"]]), SAME, dfgen.Segmentation(class_names=["a"]))


@pytest.mark.parametrize("missing", [None, [], "[]", "null"])
def test_rows_without_regions_are_background(rows, missing):
    regions = missing if missing is None or missing == [] else [missing]
    df = rows([[SQUARE], regions], [[1], [1] * len(regions or [])])
    if missing == "null":
        df["segmentation"] = [[json.dumps([SQUARE])], [None]]
    if missing == "[]":
        df["segmentation"] = [[json.dumps([SQUARE])], ["[]"]]
    y = batch_of(df, SAME, dfgen.Segmentation())[1]
    equal(y[..., 0], np.stack([DRAWN, np.zeros_like(DRAWN)]))


def test_numbers_are_classes_and_0_is_the_background(rows):
    y = batch_of(rows([[SQUARE]], [[9]]), SAME, dfgen.Segmentation())[1]
    equal(y[0, ..., 0], DRAWN * np.uint8(9))
    for label, word in ((0, "background"), (256, "255")):
        with pytest.raises(ManifestError, match=word):
            batch_of(rows([[SQUARE]], [[label]]), SAME, dfgen.Segmentation())
    with pytest.raises(ManifestError, match="ignore=255"):
        batch_of(rows([[SQUARE]], [[9]], iscrowd=[[False]]), SAME, dfgen.Segmentation(ignore=9))
    with pytest.raises(ArgumentError, match="ignore"):
        dfgen.Segmentation(ignore=1, class_names=["a"])


def test_unequal_lists_and_missing_regions_are_rejected(rows):
    for regions, labels in ([[SQUARE], ["a", "b"]], [None, ["a"]], [[1.0], ["a"]], [["x"], ["a"]]):
        with pytest.raises(DfgenError, match=r"segmentation|r0"):
            batch_of(rows([regions], [labels]), SAME, dfgen.Segmentation(class_names=["a", "b"]))


def test_masks_of_objects_have_their_labels(rows):
    df = rows([[SQUARE, SQUARE], [SQUARE]], [["a", "b"], ["b"]])
    y = batch_of(df, SAME, dfgen.Segmentation(max_items=3))[1]
    assert y["masks"].shape == (2, 3, *SIZE, 1)
    assert y["labels"].tolist() == [[0, 1, -1], [1, -1, -1]]
    np.testing.assert_array_equal(y["masks"].max((2, 3, 4)), [[1, 1, 0], [1, 0, 0]])
    with pytest.raises(ManifestError, match="max_items=2"):
        batch_of(df, SAME, dfgen.Segmentation(max_items=1))


def test_the_padding_has_the_fill_value(rows):
    pad = dfgen.Image(size=(12, 9), resize="pad")
    y = batch_of(rows([[SQUARE]], [[1]]), pad, dfgen.Segmentation(fill_value=7))[1]
    expected = np.full((12, 9), 7, np.uint8)
    expected[3:9] = DRAWN
    equal(y[0, ..., 0], expected)


def masked(rows, tmp_path, pixels, image=SAME, **options):
    PIL.Image.fromarray(pixels).save(tmp_path / "m.png")
    df = rows([[]], [[]]).assign(mask=f"{tmp_path}/m.png")
    return batch_of(df, image, dfgen.Mask("mask", **options))[1][0, ..., 0]


def test_mask_padding_uses_fill_value_despite_palette(rows, tmp_path):
    pad = dfgen.Image(size=(8, 9), resize="pad")
    for options in ({}, {"palette": {0: 0, 1: 1}}, {"palette": {(0,) * 3: 0, (1,) * 3: 1}}):
        found = masked(rows, tmp_path, DRAWN, pad, fill_value=255, **options)
        equal(found, np.pad(DRAWN, ((1, 1), (0, 0)), constant_values=255))


def test_masks_of_another_size_or_colour_are_refused(rows, tmp_path):
    with pytest.raises(DecodeError, match=r"r0.*9 x 6"):
        masked(rows, tmp_path, np.zeros((9, 6), np.uint8))
    colours = np.zeros((*SIZE, 3), np.uint8)
    colours[2, 3] = 1, 2, 3
    with pytest.raises(DecodeError, match=r"\(1, 2, 3\) at row 2, column 3"):
        masked(rows, tmp_path, colours, palette={(0, 0, 0): 0})
    with pytest.raises(DecodeError, match="no classes"):
        PIL.Image.fromarray(np.zeros(SIZE, np.float32)).save(tmp_path / "m.tiff")
        df = rows([[]], [[]]).assign(mask=f"{tmp_path}/m.tiff")
        batch_of(df, SAME, dfgen.Mask("mask"))


@pytest.mark.parametrize("palette", [{}, 3, {(0, 0): 1}, {0: -1}, {0: 1, (0, 0, 0): 2}, {0: 300}])
def test_palettes_are_colours_or_levels_with_classes(palette):
    with pytest.raises(ArgumentError, match="palette"):
        dfgen.Mask("mask", palette=palette)


def test_annotations_are_no_mask_files(rows):
    df = rows([json.dumps([SQUARE])], [["a"]])
    with pytest.raises(ArgumentError, match="Segmentation"):
        batch_of(df, SAME, dfgen.Mask("segmentation"))
