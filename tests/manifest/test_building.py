"""Builds from folders and tables: files, columns, ids, splits, warnings, arguments."""

import os
import shutil
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from public.trees import FACTS, image, images, pets, plain, values

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError, MissingFileError

NAMES = ["a/1.png", "a/2.png", "b/3.png"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three images in `imgs`, in the current folder."""
    monkeypatch.chdir(tmp_path)
    images(tmp_path / "imgs", NAMES)
    return tmp_path / "imgs"


def table(*paths, **columns):
    return pd.DataFrame({"file": paths, **columns})


def test_a_folder_alone_has_paths_as_ids(folder):
    frame = dfgen.build_manifest("imgs")
    assert frame["id"].tolist() == NAMES
    assert frame["path"].tolist() == [f"{folder}/{name}" for name in NAMES]
    assert [*frame] == ["id", "path", *[name for name in FACTS if name not in ("digest", "phash")]]
    assert frame.attrs["dfgen"] == {
        "root": str(folder), "labels": {}, "recipe": {"source": str(folder)}
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:Split")
def test_built_frame_is_the_written_one(folder):
    build = {"labels": table(*NAMES, kind=[*"xyx"]), "on": "relpath=file", "out": "m.parquet"}
    frame = dfgen.build_manifest("imgs", **build, split={"t": 0.5, "v": 0.5}, seed=3)
    read = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(read, frame)
    assert read.attrs == frame.attrs
    assert frame.attrs["dfgen"]["recipe"] == {
        "source": str(folder), "labels": "a DataFrame", "on": "relpath=file",
        "split": {"t": 0.5, "v": 0.5}, "seed": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "columns"),
    [
        ("{kind}/{id:int}.png", {"id": [1, 2, 3], "kind": [*"aab"]}),
        ("{split}/{_}.{_}", {"id": NAMES, "split": [*"aab"]}),
        ("{kind}/{n:int}.png", {"id": NAMES, "kind": [*"aab"], "n": [1, 2, 3]}),
    ],
)
def test_fields_of_a_pattern_are_columns(folder, pattern, columns):
    frame = dfgen.build_manifest("imgs", pattern=pattern, facts="none")
    assert {name: frame[name].tolist() for name in frame if name != "path"} == columns


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("*/{id}.png", "imgs"), ("a/1.png", "braces"), ("{kind}/{kind}.png", "twice"),
        ("{}/{id}.png", '""'), ("{a b}.png", "a b"), ("{path}.png", "path"), ("{x:f}.png", "f"),
        ("{x", "}"), (r"{kind}\\{id}.png", "a/1.png"), ("{id}/{_}.png", "id"),
    ],
)  # fmt: skip
def test_wrong_pattern_is_named(folder, pattern, word):
    with pytest.raises((ArgumentError, ManifestError), match=word):
        dfgen.build_manifest("imgs", pattern=pattern)


def test_left_out_files_are_counted_in_one_warning(folder):
    for name in ("a.txt", "b.TXT", "c", ".h.png", ".git/x.png", "b/x.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    os.symlink(folder, folder / "b/up")
    os.symlink(folder / "a", folder / "link")
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest("imgs", pattern="{kind}/{n:int}.png")
    lines = str(caught[0].message).splitlines()
    assert [line.partition(":")[2] for line in lines[:5]] == [
        " 2 paths, .txt: a.txt, b.TXT", " 2 paths, hidden: .git, .h.png",
        " 1 path, link to a folder that contains it: b/up",
        " 1 path, not of the pattern: b/x.png", " 1 path, without extension: c",
    ]  # fmt: skip
    assert caught[0].filename == __file__
    assert frame["id"].tolist() == [*NAMES, "link/1.png", "link/2.png"]


def test_name_that_is_not_utf8_is_left_out(folder):
    shutil.copy(folder / "a/1.png", os.fsencode(folder) + b"/a/\xff.png")
    with pytest.warns(UserWarning, match="not UTF-8"):
        assert len(dfgen.build_manifest("imgs")) == 3


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("img", 'Did you mean "imgs"'), ("~/imgs", "~"), ("imgs/*", "pattern="),
        ("t.csv", "labels="), ("t.json", "coco="), ("t.xml", "voc="), ("t.yaml", "yolo="),
        ("t.parquet", "read_manifest"), ("imgs/a/1.png", "file"),
        ("empty", "empty"), ("http://127.0.0.1:9/imgs", "HTTP"), (3, "text"), (table(), "labels="),
    ],
)  # fmt: skip
def test_wrong_source_is_named(folder, source, word):
    if isinstance(source, str) and source.startswith("t."):
        open(source, "w").close()
    os.mkdir("empty")
    with pytest.raises((ArgumentError, ManifestError, MissingFileError), match=word):
        dfgen.build_manifest(source)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "source|folder"), ({"voc": "x", "yolo": "y"}, "voc= and yolo="),
        ({"source": "imgs", "labels": "t.csv"}, "on="), ({"source": "imgs", "on": "id"}, "labels="),
        ({"source": "imgs", "labels": "t.csv", "path_column": "file"}, "path_column="),
        ({"labels": "t.csv", "path_column": "f", "pattern": "{id}"}, "pattern="),
        ({"labels": "t.csv", "path_column": "f", "on": "id"}, "on="),
        ({"source": "imgs", "images": "imgs"}, "images="), ({"coco": []}, "coco="),
        ({"coco": "c.json", "image_sets": "imgs"}, "image_sets="), ({"yolo": {}}, "yolo="),
        ({"source": "imgs", "unmatched": "dorp"}, "drop"), ({"source": "imgs", "seed": ""}, "see"),
        ({"source": "imgs", "facts": "all"}, "full"), ({"source": "imgs", "on": "=x"}, "on="),
        ({"source": "imgs", "split": {"t": 1.0}, "group_duplicates": True}, "full"),
        ({"source": "imgs", "stratify": "kind"}, "split="), ({"source": "imgs", "folds": 1}, "fol"),
        ({"source": "imgs", "split": {"t": 1}, "folds": 2}, "folds"), ({"sourc": "i"}, "source"),
        ({"source": "imgs", "split": {"t": 0.5}}, "0.5"), ({"voc": "s3://b"}, "remote"),
        ({"source": "imgs", "label": "kind"}, '"kind" is not a column'), ({"coco": {}}, "coco"),
        ({"source": "imgs", "out": "x.csv"}, "x.csv"), ({"source": "imgs", "root": "i/a"}, "root"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_named(folder, arguments, word):
    with pytest.raises(DfgenError, match=word):
        dfgen.build_manifest(**arguments)


def test_unknown_columns_are_named_with_the_nearest(folder):
    build = {"labels": table(*NAMES, colour=[*"xyx"]), "path_column": "file", "root": "imgs"}
    for name in ("label", "category", "id"):
        with pytest.raises(ArgumentError, match=f'{name}="color"(.|\n)*"colour"'):
            dfgen.build_manifest(**build, **{name: "color"})


def test_kinds_of_label_columns(folder):
    columns = {"text": ["u", "v", None], "flag": [True, False, True], "n": [10, 9, 2], "x": 0.5}
    columns["many"] = [f"{name} text" for name in NAMES]
    columns["both"] = pd.array([True, None, True], "boolean")
    frame = dfgen.build_manifest(
        labels=table(*NAMES, **columns), path_column="file", root="imgs", category=["n", "text"]
    )
    labels = frame.attrs["dfgen"]["labels"]
    names = {name: label.get("class_names") for name, label in labels.items()}
    assert names == {
        "text": ["u", "v"], "flag": ["False", "True"], "n": ["2", "9", "10"], "x": None,
        "many": columns["many"], "both": ["False", "True"],
    }  # fmt: skip
    assert plain(frame["text"].tolist()) == ["u", "v", None]
    for wrong in ("x", "tags"):
        with pytest.raises(ManifestError, match=wrong):
            rows = table(*NAMES, x=[0.5, 1, 2], tags=[["a"], [], []])
            dfgen.build_manifest(labels=rows, path_column="file", root="imgs", category=wrong)


def test_ids_come_from_named_column_id_or_path(folder):
    rows = table("./a/1.png", "a//2.png", f"{folder}/b/3.png", id=[7, 8, 9], key=[*"xyz"])
    build = {"path_column": "file", "root": "imgs", "facts": "none"}
    assert dfgen.build_manifest(labels=rows, **build)["id"].tolist() == [7, 8, 9]
    frame = dfgen.build_manifest(labels=rows.drop(columns="id"), **build, id="key")
    assert frame["id"].tolist() == ["x", "y", "z"]
    frame = dfgen.build_manifest(labels=rows[["file"]][:2], **build)
    assert frame["id"].tolist() == NAMES[:2]
    wrong = [
        (rows.assign(path="x"), {}, "path"), (rows, {"id": "key"}, '"id"'),
        (rows.assign(id=[1, 2, 2]), {}, "2"), (rows.assign(id=[1.5, 2, 3]), {}, "id"),
        (table("./a/1.png", "a/1.png"), {}, "id="), (rows.assign(id=[1, 2, None]), {}, "id"),
        (table("", "a/1.png"), {}, "path"), (table("foo://b/a.png"), {"facts": "header"}, "foo"),
    ]  # fmt: skip
    for rows, more, word in wrong:
        with pytest.raises(DfgenError, match=word):
            dfgen.build_manifest(labels=rows, **{**build, **more})


def test_table_paths_start_at_folder_or_root(folder):
    table(*NAMES).to_csv(folder / "t.csv", index=False)
    build = {"path_column": "file", "facts": "none"}
    paths = [f"{folder}/{name}" for name in NAMES]
    assert dfgen.build_manifest(labels="imgs/t.csv", **build)["path"].tolist() == paths
    assert dfgen.build_manifest(labels=table(*paths), **build)["path"].tolist() == paths
    moved = dfgen.build_manifest(labels=table(*NAMES), **build, root="s3://b/x")
    assert moved["path"].tolist() == [f"s3://b/x/{name}" for name in NAMES]
    with pytest.raises(DfgenError, match="a/x"):
        dfgen.build_manifest(labels=table("a/x.png"), path_column="file", root="imgs")


@pytest.mark.parametrize(
    ("path", "options", "advice"),
    [
        ("a/1.png", {}, 'root="imgs"'), ("a/1.jpg", {"root": "imgs"}, r"\.png"),
        ("A/1.png", {"root": "imgs"}, "a"), ("17", {"root": "imgs"}, "17"),
        ("x.png", {"root": "far"}, "far"),
    ],
)  # fmt: skip
def test_files_that_are_all_missing_are_an_error(folder, path, options, advice):
    with pytest.raises(MissingFileError, match=f"none of the 1 files(.|\n)*{advice}"):
        dfgen.build_manifest(labels=table(path), path_column="file", **options)


def test_problems_are_counted_in_one_warning(folder):
    (folder / "a/1.png").write_bytes(b"")
    (folder / "b/3.png").write_bytes(b"no image")
    with pytest.warns(UserWarning) as caught:
        frame = dfgen.build_manifest("imgs")
    [message] = [str(warning.message) for warning in caught]
    assert message.startswith("2 problems:\n  1  ") and message.count(str(folder)) == 2
    assert frame["problem"].notna().tolist() == [True, False, True]


def test_lacking_classes_and_empty_splits_are_warned_of(folder):
    build = {"labels": table(*NAMES, kind=[*"xxy"]), "path_column": "file", "root": "imgs"}
    with pytest.warns(UserWarning, match='"b" has no row with kind = "y"(.|\n)*stratify='):
        dfgen.build_manifest(**build, split={"a": 0.6, "b": 0.4}, seed=1)
    build["labels"]["split"] = pd.Categorical(["t"] * 3, ["t", "v"])
    with pytest.warns(UserWarning, match='"v" has no row'):
        frame = dfgen.build_manifest(**build)
    assert frame["split"].tolist() == ["t"] * 3
    with pytest.raises(ManifestError, match="split="):
        dfgen.build_manifest(**build, split={"a": 1})


def test_look_alike_classes_and_splits_are_warned_of(folder):
    labels = table(*NAMES, kind=["cat", "Cat ", "dog"], split=["train", "Train", "val"])
    with warnings.catch_warnings(record=True, action="always") as caught:
        dfgen.build_manifest(labels=labels, path_column="file", root="imgs")
    shown = "".join(str(one.message) for one in caught if "look alike" in str(one.message))
    assert "'cat', 'Cat '" in shown and "'train', 'Train'" in shown


def test_an_ordinary_build_warns_and_prints_nothing(tmp_path, capsys):
    pets(tmp_path, 12, split={"a": 0.5, "b": 0.5}, stratify="kind", out=tmp_path / "m.parquet")
    assert capsys.readouterr() == ("", "")


def test_unmatched_drop_says_how_many_and_refuses_none(folder):
    build = {"source": "imgs", "on": "stem=key", "unmatched": "drop", "facts": "none"}
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest(**build, labels=pd.DataFrame({"key": ["1", "8", "9"], "x": 1}))
    assert [str(one.message)[:15] for one in caught] == ["Left out 2 of 3"] * 2
    with warnings.catch_warnings(action="ignore"), pytest.raises(ManifestError, match="no rows"):
        dfgen.build_manifest(**build, labels=pd.DataFrame({"key": ["8"], "x": 1}))


def test_zip_tar_and_members(folder):
    for kind in ("zip", "tar"):
        archive = shutil.make_archive("imgs", kind, "imgs")
        frame = dfgen.build_manifest(f"{kind}://a::{archive}", out="m.parquet")
        assert frame["id"].tolist() == ["1.png", "2.png"] and frame["width"].tolist() == [40, 25]
        pd.testing.assert_frame_equal(dfgen.read_manifest("m.parquet"), frame)
        with pytest.raises(ManifestError, match="no folder 'c'"):
            dfgen.build_manifest(f"{kind}://c::{archive}")


def test_unreadable_or_vanished_folder_is_named(folder, monkeypatch):
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ManifestError, match=r"imgs/b(.|\n)*Permission"):
        dfgen.build_manifest("imgs")


def test_pattern_field_with_many_values_is_text(tmp_path):
    names = [f"k/{row}.png" for row in range(1200)]
    first = image(tmp_path / "imgs/k/0.png")
    for name in names[1:]:
        os.link(first, tmp_path / "imgs" / name)
    frame = dfgen.build_manifest(
        tmp_path / "imgs", pattern="{kind}/{n}.png", facts="none", split={"a": 0.5, "b": 0.5}
    )
    assert frame.attrs["dfgen"]["labels"]["n"] == {"kind": "text"}
    assert frame["kind"].cat.categories.tolist() == ["k"]


def test_reading_loads_no_builder(tmp_path):
    code = "import dfgen, sys; dfgen.read_manifest; dfgen.write_manifest; bad = {'yaml', 'cv2'}\n"
    code += "print(sorted(n for n in sys.modules if 'dfgen.manifest.building' in n or "
    code += "'dfgen.manifest.sources' in n or n in bad or n.startswith('xml.')))"
    import subprocess

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr


def test_index_column_of_array_rows_is_kept(folder):
    np.save("x.npy", np.zeros((4, 2)))
    rows = pd.DataFrame({"id": range(4), "file": "x.npy", "index": range(4), "kind": [*"abab"]})
    frame = dfgen.build_manifest(labels=rows, path_column="file")
    assert [*frame][:4] == ["id", "path", "index", "kind"] and frame["index"].tolist() == [
        *range(4)
    ]
    assert values(frame, "path")[3] == {"id": 3, "index": 3, "kind": "b"}
