import os

import pandas as pd
import pytest
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError
from dfgen.manifest.sources import file_tree
from dfgen.manifest.sources.file_tree import read_files
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.path_pattern import parse_pattern
from dfgen.samples.pixels.formats import formats_by_suffix


def touch(folder, *paths):
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return str(folder)


def read(folder, pattern=None):
    chunks = list(read_files(str(folder), parse_pattern(pattern) if pattern else None))
    skipped = {}
    for chunk in chunks:
        for reason, paths in chunk.skipped.items():
            skipped.setdefault(reason, []).extend(paths)
    return [path for chunk in chunks for path in chunk.rows["path"].to_pylist()], skipped


def refused(error, function, *arguments):
    with pytest.raises(error) as caught:
        list(function(*arguments))
    return str(caught.value)


def test_other_and_hidden_files_are_left_out_and_named(tmp_path):
    touch(
        tmp_path, "a/1.png", "a/.2.png", ".ipynb_checkpoints/3.png", "a/4.txt", "a/LICENSE", "5.TXT"
    )
    assert read(tmp_path) == (
        ["a/1.png"],
        {
            "hidden": [".ipynb_checkpoints", "a/.2.png"],
            ".txt": ["5.TXT", "a/4.txt"],
            "without extension": ["a/LICENSE"],
        },
    )


def test_linked_folders_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path, "imgs/a/1.png", "other/2.png", "other/deep/3.png")
    os.symlink("../../other", tmp_path / "imgs/a/link")
    os.symlink("../imgs", tmp_path / "other/back")
    os.symlink(".", tmp_path / "imgs/self")
    paths, skipped = read(tmp_path / "imgs")
    assert paths == ["a/1.png", "a/link/2.png", "a/link/deep/3.png"]
    assert skipped == {"link to a folder that it lies in": ["self", "a/link/back"]}


def test_a_broken_link_is_a_row(tmp_path):
    touch(tmp_path, "1.png")
    os.symlink("nowhere", tmp_path / "2.png")
    os.symlink("3.png", tmp_path / "3.png")
    assert read(tmp_path)[0] == ["1.png", "2.png", "3.png"]


def test_large_folders_come_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(file_tree, "FILES_A_GROUP", 2)
    touch(tmp_path, "a/1.png", "a/2.png", "b/3.png", "c/4.txt", "d/5.png")
    chunks = list(read_files(str(tmp_path)))
    assert [chunk.rows["path"].to_pylist() for chunk in chunks] == [
        ["a/1.png", "a/2.png"],
        ["b/3.png", "d/5.png"],
        [],
    ]
    assert [chunk.skipped for chunk in chunks] == [{}, {".txt": ["c/4.txt"]}, {}]


def test_a_name_that_is_not_utf8_is_left_out_by_name(tmp_path):
    touch(tmp_path, "a.png")
    try:
        with open(os.fsencode(tmp_path) + b"/\xff.png", "w"):
            pass
    except OSError:
        pytest.skip("this file system allows UTF-8 names only")
    [group] = read_files(str(tmp_path))
    assert group.rows["path"].to_pylist() == ["a.png"]
    assert group.skipped == {"name not UTF-8": [r"\xff.png"]}


def test_a_folder_without_images_is_refused(tmp_path):
    touch(tmp_path, "a.txt", "b.txt", ".c.png")
    assert refused(ManifestError, read_files, str(tmp_path)) == (
        f'no file in "{tmp_path}" can be opened as an image, array or sound. '
        "Left out: 2 .txt, 1 hidden. "
        f"Extensions that are opened: {', '.join(formats_by_suffix())}. Others are read by "
        "a function of your own: make the frame yourself, and x=dfgen.Array(..., decode=function)"
    )


def test_a_missing_folder_or_a_file_is_refused(tmp_path):
    touch(tmp_path, "a.png")
    assert refused(ManifestError, read_files, f"{tmp_path}/a.png") == (
        f'"{tmp_path}/a.png" is a file. Give the folder of the images: "{tmp_path}".'
    )
    assert refused(MissingFileError, read_files, "nowhere") == (
        f'there is no folder "nowhere". Looked in {os.getcwd()}'
    )


def test_files_that_do_not_fit_the_pattern_are_named(tmp_path):
    touch(tmp_path, "cat/1.jpg", "cat/x.jpg", "2.jpg")
    paths, skipped = read(tmp_path, "{kind}/{id:int}.jpg")
    assert paths == ["cat/1.jpg"]
    assert skipped == {"not of the pattern": ["2.jpg", "cat/x.jpg"]}


def test_a_pattern_that_fits_nothing_is_refused_with_examples(tmp_path):
    touch(tmp_path, *(f"cat/{number}.jpg" for number in range(20)))
    shown = ", ".join(f'"cat/{number}.jpg"' for number in (0, 1, 10, 11, 12, 13, 14, 15, 16, 17))
    assert refused(ManifestError, read_files, str(tmp_path), parse_pattern("{id}.jpg")) == (
        f'no file in "{tmp_path}" is of the pattern "{{id}}.jpg", which describes the whole path '
        f"below the folder. Files there: {shown}. Write a field in braces for each part that "
        "changes, {_} if you do not need it, and the rest as it is"
    )


@pytest.mark.parametrize(
    ("pattern", "path", "fields"),
    [
        ("{a}/{b}/blah_{id}.png", "x/y/blah_7.png", ["x", "y", "7"]),
        ("{kind}_{id}.jpg", "red_car_7.jpg", ["red_car", "7"]),
        ("{{{id}}}.jpg", "{7}.jpg", ["7"]),
        ("a.b+({id}).jpg", "a.b+(7).jpg", ["7"]),
        ("{id}.{kind}", "7\n.jpg", ["7\n", "jpg"]),
    ],
)
def test_patterns_take_paths_apart(tmp_path, pattern, path, fields):
    touch(tmp_path, path)
    [chunk] = read_files(str(tmp_path), parse_pattern(pattern))
    assert list(chunk.rows.to_pylist()[0].values())[1:] == fields


HELP = " Example: {kind}/{shard}/{id:int}.jpg. Write doubled braces for braces in a name"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{}/{id}.jpg", "has a part without a name: {}. Name it, or write {_} for what makes no "
         "column."),
        ("{a}/{a}.jpg", 'has the field "a" twice: give each part a name of its own.'),
        ("{a b}.jpg", 'has the field "a b": names are letters, digits and underscores.'),
        ("{path}.jpg", 'has the field "path", a column that dfgen fills: choose another name.'),
        ("{id:float}.jpg", 'has the type "float" in {id}: the only type is int.'),
        ("a.jpg", "has no field in braces for a column."),
        ("{id.jpg", "expected '}' before end of string."),
        ("{_}/{_}.jpg", "has no field in braces for a column."),
    ],
)  # fmt: skip
def test_patterns_that_make_no_sense_are_refused(pattern, message):
    said = refused(ArgumentError, parse_pattern, pattern).replace(f'"{pattern}": ', f'"{pattern}" ')
    assert said == f'pattern="{pattern}" {message}{HELP}'


def test_named_columns_are_read_as_text(tmp_path):
    (tmp_path / "l.csv").write_text("key,other\n7,7\n")
    [chunk] = read_rows(f"{tmp_path}/l.csv", ["key"])
    assert chunk.rows.to_pylist() == [{"key": "7", "other": 7}]


def test_text_that_looks_like_nothing_stays_text(tmp_path):
    (tmp_path / "l.csv").write_text("kind,day\nNA,x\nnull,y\n,z\n")
    [chunk] = read_rows(f"{tmp_path}/l.csv")
    assert chunk.rows["kind"].to_pylist() == ["NA", "null", None]
    (tmp_path / "l.jsonl").write_text('{"kind": "2020-01-01"}\n{"kind": "NA"}\n')
    [chunk] = read_rows(f"{tmp_path}/l.jsonl")
    assert chunk.rows["kind"].to_pylist() == ["2020-01-01", "NA"]


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("l.csv", "a,b\n1,2\n1,2,3\n",
         " cannot be read as .csv: CSV parse error: Row #3: Expected 2 columns, got 3"),
        ("l.jsonl", '{"a": 1}\n\n{"a" 2}\n',
         " cannot be read as .jsonl: line 3, column 6: Expecting ':' delimiter"),
        ("l.jsonl", '{"a": 1}\n7\n',
         " cannot be read as .jsonl: line 2 is not a JSON object, and every line must hold one"),
        ("l.csv", "a,a\n1,2\n", " has a column named 'a' several times: rename it"),
        ("l.xls", "", ' has the extension ".xls". Label tables are .csv, .tsv, .jsonl, .ndjson, '
         ".parquet, .xlsx; in Python, any DataFrame: labels=pandas.read_excel("),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_read_are_refused_with_the_line(tmp_path, name, content, fault):
    (tmp_path / name).write_text(content)
    message = refused(ManifestError, read_rows, f"{tmp_path}/{name}")
    assert message.startswith(f"{tmp_path}/{name}{fault}")


@pytest.mark.parametrize(
    ("name", "text", "line", "part"),
    [
        ("l.csv", "id,kind\n1,caf\xe9\n", 2, rb"1,caf\xe9\n"),
        ("key.csv", "id,kind\n1,x\ncaf\xe9,x\n", 3, rb"caf\xe9,x\n"),
        ("head.tsv", "id\tcaf\xe9\n1\t2\n", 1, rb"id\tcaf\xe9\n"),
        ("l.jsonl", '{"kind": "caf\xe9"}\n', 1, rb'{"kind": "caf\xe9"}\n'),
    ],
)
def test_a_table_in_another_encoding_is_refused_with_the_line(tmp_path, name, text, line, part):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    said = refused(ManifestError, read_rows, f"{tmp_path}/{name}", ["id"])
    assert said.startswith(
        f"{tmp_path}/{name} is not UTF-8 text: line {line} has b'{part.decode()}'. Save it as "
        "UTF-8, or name its encoding, as with "
    )
    assert "caf\xe9" in said.partition("In cp1252, as Excel saves ")[2]


def test_the_index_of_a_frame_becomes_columns_unless_they_are_there_already():
    frame = pd.DataFrame({"id": [1], "shard": [2], "kind": ["cat"]})
    for names in (["id"], ["id", "shard"]):
        [chunk] = read_rows(frame.set_index(names))
        assert chunk.rows.column_names == ["id", "shard", "kind"]
    assert refused(ManifestError, read_rows, frame.set_index("id", drop=False)) == (
        'the label table has "id" as a column and as its index. Drop one: '
        "labels.reset_index(drop=True) keeps the column"
    )


def test_names_that_are_not_utf8_and_left_out_can_be_printed(tmp_path):
    (tmp_path / "a.png").touch()
    try:
        with open(os.fsencode(tmp_path) + b"/\xff.dat", "w"):
            pass
    except OSError:
        pytest.skip("this file system allows UTF-8 names only")
    [chunk] = read_files(str(tmp_path))
    assert chunk.skipped == {".dat": ["\\xff.dat"]}


@pytest.mark.parametrize("name", ["boxes", "keypoints", "annotated_width"])
def test_a_label_may_be_called_as_a_column_of_boxes(tmp_path, name):
    (tmp_path / "l.csv").write_text(f"file,{name}\na.png,3\n")
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    frame = dfgen.build_manifest(labels=tmp_path / "l.csv", path_column="file")
    assert frame[name].tolist() == [3]
