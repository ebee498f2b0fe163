"""Facts of headers that are turned or broken."""

import os
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from public.test_sources import build as build
from public.test_sources import tree as tree
from public.trees import SOURCES, image, rows_of, values

import dfgen


def test_orientation_leaves_size_as_stored(tmp_path):
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.new("RGB", (9, 4)).save(tmp_path / f"{orientation}.jpg", exif=exif)
    frame = dfgen.build_manifest(tmp_path)
    assert frame["orientation"].tolist() == [*range(1, 9)]
    assert frame["width"].tolist() == [9] * 8 and frame["height"].tolist() == [4] * 8


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_broken_header_is_a_problem(tmp_path, content):
    good = image(tmp_path / "a.jpg").read_bytes()
    (tmp_path / "b.jpg").write_bytes(good[:20] if content is None else content)
    with pytest.warns(UserWarning, match=r"1 problem(.|\n)*b\.jpg"):
        frame = dfgen.build_manifest(tmp_path)
    assert frame["problem"].notna().tolist() == [False, True]
    assert frame["bytes"].tolist() == [len(good), (tmp_path / "b.jpg").stat().st_size]
    assert pd.isna(frame["width"][1]) and pd.isna(frame["format"][1])


def test_hidden_and_other_files_are_left_out(tmp_path):
    for row, name in enumerate(("a.png", "b/c.png", ".hidden.png", "B/.x/d.png")):
        image(tmp_path / name, row)
    (tmp_path / "b/notes.txt").write_text("no image")
    with pytest.warns(UserWarning, match=r"notes\.txt"):
        frame = dfgen.build_manifest(tmp_path)
    assert frame["id"].tolist() == ["a.png", "b/c.png"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_archive_gives_the_rows_of_its_folder(tmp_path, kind):
    tree = SOURCES["pattern"](tmp_path)
    archive = shutil.make_archive(f"{tmp_path}/imgs", kind, tmp_path / "imgs")
    frame = dfgen.build_manifest(archive, pattern=tree.arguments["pattern"])
    assert values(frame, "path") == values(build(tree), "path")
    with dfgen.Sequence(frame, "path", "kind", image_size=(5, 3), shuffle=False) as seq:
        images, labels = seq[0]
    assert (rows_of(images), np.asarray(labels).tolist()) == ([0, 1, 2, 3, 4], [0, 0, 1, 1, 2])


@pytest.mark.parametrize("workers", [1, 7, None])
def test_any_number_of_workers_keeps_row_order(tmp_path, workers):
    names = [f"{row:04}.png" for row in range(700)]
    for row, name in enumerate(names):
        if row < 20:
            image(tmp_path / "imgs" / name, row % 9, (4 + row, 3))
        else:
            os.link(tmp_path / "imgs" / names[row % 20], tmp_path / "imgs" / name)
    frame = dfgen.build_manifest(tmp_path / "imgs", workers=workers)
    assert frame["id"].tolist() == names
    assert frame["width"].tolist() == [4 + row % 20 for row in range(700)]


@pytest.mark.parametrize(
    ("name", "word"),
    [("x.png", "does not exist"), ("folder/x.png", "does not exist"), ("a\0.png", "embedded null"),
     ("pipe.png", "not a regular file")],
)  # fmt: skip
def test_file_that_cannot_be_opened_is_a_problem(tmp_path, name, word):
    os.mkfifo(tmp_path / "pipe.png")
    rows = pd.DataFrame({"id": [1, 2], "file": [str(image(tmp_path / "a.png")), name]})
    facts = {"root": tmp_path, "path_column": "file"}
    with warnings.catch_warnings(action="ignore"):
        frame = dfgen.build_manifest(labels=rows, **facts)
    assert pd.isna(frame["problem"][0]) and word in frame["problem"][1]
    assert pd.isna(frame["width"][1])
