"""Facts of headers that are turned or broken."""

import shutil

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
