"""One contract for every source of a manifest: rows, classes, facts, faults, pixels."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import dfgen
from dfgen.errors import DfgenError
from public.trees import SOURCES, rows_of, values

ALL = [*SOURCES]
NAMED = [one for one in ALL if one.startswith(("table", "coco"))]  # paths are in a file
ANNOTATED = set(SOURCES) - {"pattern", "table frame", "table arrow"}


@pytest.fixture(params=ALL)
def tree(request, tmp_path):
    return SOURCES[request.param](tmp_path)


def build(tree, **options):
    return dfgen.build_manifest(**tree.arguments, **options)


def test_each_row_once_with_its_labels(tree):
    frame = build(tree)
    assert values(frame) == [{**row, "path": f"{tree.folder}/{row['path']}"} for row in tree.rows]
    labels = frame.attrs["dfgen"]["labels"]
    assert {name: labels[name]["class_names"] for name in tree.classes} == tree.classes
    assert frame["problem"].isna().all()


def test_second_build_and_written_file_are_equal(tree):
    frame, out = build(tree), tree.folder / "m.parquet"
    for other in (build(tree, workers=3, out=out), dfgen.read_manifest(out)):
        pd.testing.assert_frame_equal(other, frame)
        for key in ("root", "labels"):
            assert other.attrs["dfgen"][key] == frame.attrs["dfgen"][key]


def test_facts_equal_those_of_pillow_and_stat(tree):
    for row in build(tree).itertuples():
        status = os.stat(row.path)
        assert (row.bytes, row.mtime_ns) == (status.st_size, status.st_mtime_ns)
        with Image.open(row.path) as file:
            assert (row.width, row.height, row.format) == (*file.size, file.format.lower())
        assert (row.channels, row.orientation) == (3, 1)


def test_truncated_image_keeps_its_row_with_problem(tree):
    path = tree.folder / tree.rows[-1]["path"]
    path.write_bytes(path.read_bytes()[:18])
    with pytest.warns(UserWarning, match=f"1 problem(.|\n)*{path.name}"):
        frame = build(tree)
    assert frame["problem"].notna().tolist() == [row == tree.rows[-1] for row in tree.rows]
    without = {"path", *(("boxes", "polygons") if "yolo" in tree.arguments else ())}
    rows = [{name: row[name] for name in row.keys() - without} for row in tree.rows]
    assert values(frame, *without) == rows
    assert frame["bytes"].iloc[-1] == 18 and pd.isna(frame["width"].iloc[-1])


@pytest.mark.parametrize("name", NAMED)
def test_single_missing_images_keep_their_rows(name, tmp_path):
    tree = SOURCES[name](tmp_path)
    paths = [tmp_path / row["path"] for row in tree.rows]
    paths[1].unlink()
    with pytest.warns(UserWarning, match=f"1 problem(.|\n)*{paths[1].name}"):
        frame = build(tree)
    assert frame["id"].tolist() == [row["id"] for row in tree.rows]
    assert frame["problem"].notna().tolist() == [row == 1 for row in range(len(frame))]
    assert frame.loc[1, ["bytes", "width"]].isna().all()
    for path in paths:
        path.unlink(missing_ok=True)
    with pytest.raises(DfgenError, match=paths[0].name):
        build(tree)


@pytest.mark.parametrize("name", sorted(ANNOTATED))
def test_corrupt_annotation_is_named(name, tmp_path):
    tree = SOURCES[name](tmp_path)
    tree.annotation.write_bytes(b'{"a" <x> ;\n\0\xff')
    if not name.startswith(("voc", "yolo")):
        with warnings.catch_warnings(action="ignore"), pytest.raises(DfgenError) as caught:
            build(tree)
        assert tree.annotation.name in str(caught.value)
        return
    with pytest.warns(UserWarning, match="1 problem"):
        frame = build(tree)
    [row] = np.flatnonzero(frame["problem"].notna())
    assert tree.annotation.name in frame["problem"][row]
    assert frame["boxes"][row] is None and frame["labels"][row] is None
    assert os.path.splitext(frame["path"][row])[0].endswith(tree.annotation.stem)


def test_pixels_of_a_sequence_match_labels(tree):
    [(name, classes), *_] = tree.classes.items()
    several = name == "labels"
    expected, found = {}, {}
    for number, row in enumerate(tree.rows):
        one_hot = [int(one in row[name]) for one in classes]
        expected[number] = one_hot if several else classes.index(row[name])
    y = (dfgen.MultiLabel if several else dfgen.Category)(name)
    with dfgen.Sequence(build(tree), dfgen.Image(size=(5, 3)), y, batch_size=2, seed=3) as seq:
        assert seq.class_names == classes
        for images, labels in seq:
            found |= dict(zip(rows_of(images), np.asarray(labels).tolist(), strict=True))
    assert found == expected
