"""What a build says of rows that cannot be used, and refuses where no file is there."""

import shutil

import pandas as pd
import pytest
from annotated import image
from command import run

import dfgen
from dfgen.errors import ManifestError, MissingFileError

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


def test_what_was_dropped_is_counted_in_warnings_at_the_callers_line(folder):
    labels = pd.DataFrame({"id": [0, 1, 7, 8, 9], "age": range(5)})
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest(
            "imgs", pattern="{kind}/{id}.png", labels=labels, on="id", unmatched="drop"
        )
    assert len(frame) == 2
    assert [str(warning.message) for warning in caught] == [
        "Left out 2 files without a row in the label table.",
        "Left out 3 rows of the label table without a file, most of 5: check that both belong "
        "together.",
    ]
    assert {warning.filename for warning in caught} == {__file__}


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


def test_what_was_kept_because_it_was_asked_for_is_no_warning(folder):
    labels = pd.DataFrame({"id": [0, 1], "age": range(2)})
    frame = dfgen.build_manifest(
        "imgs", pattern="{kind}/{id}.png", labels=labels, on="id", unmatched="keep"
    )
    assert frame["age"].isna().sum() == 2


def test_a_few_missing_files_keep_their_rows(folder):
    with pytest.warns(UserWarning, match="^1 problem:\n  1  the file does not exist"):
        frame = built(["imgs/cat/0.png", "imgs/cat/9.png"])
    assert frame["problem"].isna().tolist() == [True, False]


def test_files_that_are_all_missing_are_an_error_that_says_from_where_on(folder):
    change = 'write labels["file"] = labels["file"].str.replace(".jpg", ".png")'
    for paths, options, where, advice in (
        (
            ["cat/0.png", "cat/2.png"], {},
            f'none of the 2 files exists, as "{folder}/cat/0.png": \'cat/0.png\' is in '
            f"'{folder}/imgs'",
            'give root="imgs" (--root) (2 of 2 are found by that).',
        ),
        (
            ["cat/0.jpg"], {"root": "imgs"},
            f'the only file does not exist, "{folder}/imgs/cat/0.jpg": \'0.png\', of another '
            f"extension, is in '{folder}/imgs/cat'",
            f"{change} (1 of 1 are found by that).",
        ),
        (
            ["cat/0.png"], {"root": "imgz"},
            f'the only file does not exist, "{folder}/imgz/cat/0.png": \'cat/0.png\' is in '
            f"'{folder}/imgs'",
            'give root="imgs" (--root) (1 of 1 are found by that).',
        ),
        (
            ["seventeen.png"], {"root": "far"},
            f'the only file does not exist, "{folder}/far/seventeen.png"',
            f"The folder '{folder}': there is no folder 'far' in it, it holds 'imgs'. Give "
            "root= (--root), the folder where the paths begin.",
        ),
    ):  # fmt: skip
        with pytest.raises(MissingFileError) as caught:
            built(paths, **options)
        assert str(caught.value) == (
            f"{where}: {advice} For files that are not on this machine give "
            'facts="none" (--facts none)'
        )


def test_a_manifest_of_files_elsewhere_is_built_without_facts(folder):
    assert len(built(["far/0.png", "far/1.png"], facts="none")) == 2


def test_missing_images_of_annotations_are_an_error(folder):
    coco = {
        "images": [{"id": 1, "file_name": "of_coco.png", "width": 4, "height": 3}],
        "annotations": [],
        "categories": [{"id": 1, "name": "cat"}],
    }
    pd.Series(coco).to_json("c.json")
    (folder / "empty").mkdir()
    for images, said in (("imgz", "there is no folder 'imgz' in "), ("empty", "is empty")):
        done = run("build-manifest", "--coco", "c.json", "--images", images, "--out", "m.parquet")
        assert done.returncode == 1
        assert said in done.stderr
        assert "Give images= (--images), the folder where the paths begin" in done.stderr


def test_a_folder_that_is_gone_or_has_no_images_is_an_error(folder):
    shutil.rmtree("imgs/dog")
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text("a")
    (folder / "texts/b.csv").write_text("b")
    for source, error, said in (
        ("imgs/dog", MissingFileError, 'there is no folder "imgs/dog". Looked in '),
        ("texts", ManifestError, "Left out: 1 .csv, 1 .txt. "),
        ("imgs/cat/0.png", ManifestError, '"imgs/cat/0.png" is '),
    ):
        with pytest.raises(error) as caught:
            dfgen.build_manifest(source)
        assert said in str(caught.value)
