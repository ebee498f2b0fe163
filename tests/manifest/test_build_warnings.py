"""What a build says of rows that cannot be used, and refuses where no file is there."""

import re
import shutil

import pandas as pd
import pytest
from annotated import image
from command import run

import dfgen
from dfgen.errors import MissingFileError

KEEP = 'They keep their rows: df[df["problem"].notna()].'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Four images of two kinds."""
    monkeypatch.chdir(tmp_path)
    for row in range(4):
        image(f"imgs/{('cat', 'dog')[row % 2]}/{row}.png", 40, 30)
    return tmp_path


def table(*paths):
    return pd.DataFrame({"id": range(len(paths)), "file": paths})


def built(paths, **options):
    return dfgen.build_manifest(labels=table(*paths), path_column="file", **options)


def test_a_warning_from_what_is_cached_is_at_the_callers_line(folder):
    with open("t.csv", "w") as file:
        file.write("file;seen\nimgs/cat/0.png;2021-02-28\nimgs/dog/1.png;soon\n")
    with pytest.warns(UserWarning, match="column 'seen' of t.csv is text") as caught:
        dfgen.build_manifest(labels="t.csv", path_column="file", facts="none")
    assert {warning.filename for warning in caught} == {__file__}


def test_rows_with_a_problem_are_counted_in_a_warning_at_the_callers_line(folder):
    (folder / "imgs/cat/0.png").write_bytes(b"")
    (folder / "imgs/dog/1.png").write_bytes(b"no image")
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest("imgs")
    [warning] = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        "2 problems:\n"
        f"  1  not an image, array or sound that dfgen opens: {folder}/imgs/dog/1.png\n"
        f"  1  the file is empty (0 bytes): {folder}/imgs/cat/0.png\n{KEEP}"
    )
    assert frame["problem"].notna().sum() == 2
    done = run("build-manifest", "imgs", "--out", "m.parquet")
    assert str(warning.message).removesuffix(f"\n{KEEP}") in done.stdout


@pytest.mark.parametrize("unmatched", ["keep", "drop"])
def test_a_row_that_labels_a_whole_folder_by_accident_is_told(folder, unmatched):
    for row in range(10):
        shutil.copy("imgs/cat/0.png", f"imgs/cat/x{row}.png")
    pd.DataFrame({"tag": ["cat", "dog", *"abc"], "age": range(5)}).to_csv("l.csv", index=False)
    how = {"pattern": "{kind}/{_}.png", "labels": "l.csv", "on": "kind=tag"}
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest("imgs", unmatched=unmatched, **how)
    said = next(str(one.message) for one in caught if "2 rows of the 5" in str(one.message))
    assert 'label 14 files, as "cat" 12 files: "cat/0.png", "cat/2.png", "cat/x0.png"' in said
    options = [text for name, value in how.items() for text in (f"--{name}", value)]
    done = run("build-manifest", "imgs", *options, "--unmatched", unmatched, "--out", "m.parquet")
    assert f"Warning: {said}" in done.stdout


@pytest.mark.parametrize(
    ("path", "options", "advice"),
    [
        ("cat/0.png", {}, 'root="imgs"'),
        ("cat/0.jpg", {"root": "imgs"}, '.str.replace(".jpg", ".png")'),
        ("seventeen.png", {"root": "far"}, "has no 'far', it holds 'imgs'"),
    ],
)
def test_files_that_are_all_missing_are_an_error(folder, path, options, advice):
    with pytest.raises(MissingFileError, match=f"none of the 1 files.*{re.escape(advice)}"):
        built([path], **options)


def test_missing_images_of_annotations_are_an_error(folder):
    coco = {
        "images": [{"id": 1, "file_name": "of_coco.png", "width": 4, "height": 3}],
        "annotations": [],
        "categories": [{"id": 1, "name": "cat"}],
    }
    pd.Series(coco).to_json("c.json")
    (folder / "empty").mkdir()
    for images, said in (("imgz", "has no 'imgz'"), ("empty", "is empty")):
        done = run("build-manifest", "--coco", "c.json", "--images", images, "--out", "m.parquet")
        assert done.returncode == 1
        assert said in done.stderr
