"""Label tables as people have them: separators, encodings, odd values, other kinds of files."""

import gzip
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from public.trees import images, plain

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError
from dfgen.limits import Limits

NAMES = ["a/1.png", "b/2.png"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images(tmp_path / "imgs", NAMES)
    return tmp_path / "imgs"


def of(table, **options):
    """Build from a table with the column `file`; return its labels as lists."""
    frame = dfgen.build_manifest(labels=table, path_column="file", facts="none", **options)
    return {name: plain(frame[name].tolist()) for name in frame if name not in ("id", "path")}


def written(content, name="t.csv", encoding="utf-8"):
    data = content if isinstance(content, bytes) else content.encode(encoding)
    with open(name, "wb") as file:
        file.write(data)
    return name


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["7", "-3"], [7, -3]), (["007", "08"], ["007", "08"]), (["1", "x"], ["1", "x"]),
        (["1.5", "2"], [1.5, 2]), (["1e3", ".5"], ["1e3", ".5"]), (["NA", "None"], ["NA", "None"]),
        (["", "nan"], [None, "nan"]), (["1", ""], [1, None]), (["", ""], [None, None]),
        (["true", "FALSE"], ["True", "False"]), (["1e3", "0.25"], [1000, 0.25]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["2024-12-31", "2024-01-02"], ["2024-12-31", "2024-01-02"]), (["1.10", "2.5"], [1.1, 2.5]),
        (["@x", "'x"], ["@x", "'x"]), (["+1", "-0"], ["+1", "-0"]),
    ],
)  # fmt: skip
def test_values_become_numbers_only_if_nothing_is_lost(folder, values, expected):
    for name, sep in (("t.csv", ","), ("t.tsv", "\t"), ("t.csv.gz", ",")):
        rows = "".join(f"{f}{sep}{v}\r\n" for f, v in zip(NAMES, values, strict=True))
        data = f"file{sep}x\r\n{rows}".encode()
        written(gzip.compress(data) if name.endswith("gz") else data, name)
        assert of(name)["x"] == expected
    pd.DataFrame({"file": NAMES, "x": [one or None for one in values]}).to_excel("t.xlsx")
    assert of("t.xlsx")["x"] == [one or None for one in values]  # text is text in a workbook


@pytest.mark.parametrize("packed", [False, True])
def test_tables_of_many_blocks_are_read_whole(folder, packed):
    rows = np.arange(200_000)
    frame = pd.DataFrame({"file": [f"folder/{row:030}.png" for row in rows], "n": rows})
    frame["half"], frame["id"] = rows / 2, 3 * rows
    frame.to_csv("t.csv.gz" if packed else "t.csv", index=False)
    for _ in range(3):
        built = of("t.csv.gz" if packed else "t.csv")
        assert built["n"] == rows.tolist() and built["half"] == (rows / 2).tolist()
    if not packed:
        with open("t.csv", "a") as file:
            file.write("1,2\n")
        with pytest.raises(ManifestError, match=r"t\.csv(.|\n)*Row #200002: Expected 4 columns"):
            of("t.csv")


@pytest.mark.parametrize(
    ("encoding", "options"),
    [("utf-8", {}), ("utf-8-sig", {}), ("utf-16", {}), ("cp1252", {"encoding": "cp1252"}),
     ("utf-16-le", {"encoding": "utf-16-le"})],
)  # fmt: skip
def test_encodings(folder, encoding, options):
    content = f'file,"größe"\n{NAMES[0]},"é, ""x""\nß"\n{NAMES[1]},ü\n'
    assert of(written(content, encoding=encoding), **options) == {"größe": ['é, "x"\nß', "ü"]}


def test_separators_and_decimal_marks_are_passed_on(folder):
    rows = f"{NAMES[0]};1,5;10.000,5\n{NAMES[1]};-2,25;7\n"
    table = written(f"file;x;y\n{rows}")
    assert of(table, sep=";", decimal=",")["x"] == [1.5, -2.25]
    with pytest.warns(UserWarning, match='column "x" of t.csv is text(.|\n)*"1,5"(.|\n)*decimal='):
        found = of(table, sep=";")
    assert found == {"x": ["1,5", "-2,25"], "y": ["10.000,5", "7"]}


MESSY = [  # content, arguments, what the message must name, the arguments that it asks for
    (f"file;kind\n{NAMES[0]};cat\n{NAMES[1]};dog\n", {}, "sep=", {"sep": ";"}),
    ("file,kind\n1.png,cat\n2.png,dog\n", {"on": "stem=file"}, "name", {"on": "name=file"}),
    ("file,kind\nA/1.png,cat\nb/2.png,dog\n", {"on": "relpath=file"}, "case", None),
    ("file,kind\n01,cat\n02,dog\n", {"on": "stem=file"}, "leading zeros", None),
    ("file,kind\n1.0,cat\n2.0,dog\n", {"on": "stem=file"}, "floats", None),
    ("file,kind\n1 ,cat\n2 ,dog\n", {"on": "stem=file"}, "blanks", None),
    ("file,kind\nx/a/1.png,cat\ny/b/2.png,dog\n", {"on": "stem=file"}, "folder and the ext", None),
]


@pytest.mark.parametrize(("content", "how", "word", "mended"), MESSY)
def test_messy_tables_are_explained_by_the_first_message(folder, content, how, word, mended):
    build = {"labels": written(content), "facts": "none"}
    build |= {"source": "imgs", "pattern": "{_}/{n}.png", **how} if how else {"path_column": "file"}
    with pytest.raises((ManifestError, ArgumentError), match=word):
        dfgen.build_manifest(**build)
    if mended is not None:
        assert dfgen.build_manifest(**{**build, **mended})["kind"].tolist() == ["cat", "dog"]


def test_message_shows_counts_and_examples_of_both_sides(folder):
    images(folder, [f"c/{n}.png" for n in range(10, 20)])
    rows = "".join(f"{n}.png,{n}\n" for n in ["1", "2", *range(13, 26)])
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(
            "imgs", labels=written(f"file,x\n{rows}"), on="name=file", facts="none"
        )
    assert str(caught.value).splitlines()[:3] == [
        'files and t.csv do not match on name = "file".',
        '3 of 12 files have no row in t.csv: "10.png", "11.png", "12.png"',
        '6 of 15 rows of t.csv have no file: "20.png", "21.png", "22.png", ...',
    ]


@pytest.mark.parametrize(
    ("content", "name", "word"),
    [
        ("", "t.csv", "empty"), ("file,x\na.png,1\nb.png,1,2\n", "t.csv", "Expected 2 columns"),
        ("file,x,x\na,1,2\n", "t.csv", "'x' several times"), ("file,x\n\xff,1\n", "t.csv", "enc"),
        ('{"file": "a.png"}\n{"file"\n', "t.jsonl", "line 2"), ("[1]\n", "t.jsonl", "line 1"),
        ('{"file": "a", "x": 1}\n{"file": "b", "x": "y"}\n', "t.jsonl", '"x"'),
        ("x", "t.xlsx", "zip"), ("x", "t.parquet", "footer"), ("x", "t.pkl", "pandas"),
        ("x", "t.json", "pandas"), ("x", "t.csv.gz", "gzip"),
    ],
)  # fmt: skip
def test_wrong_file_is_named(folder, content, name, word):
    written(content, name, "latin-1")
    with pytest.raises(ManifestError, match=rf"{name}(.|\n)*{word}|{word}(.|\n)*{name}"):
        of(name)


def test_wrong_arguments_of_a_table_are_named(folder):
    table = written("file,x\na.png,1\n")
    for options, word in (
        ({"encoding": "utf-77"}, "utf-77"), ({"labels": "u.csv"}, r"u\.csv(.|\n)*t\.csv"),
        ({"labels": "~/t.csv"}, "~"), ({"labels": pd.DataFrame({"file": []}), "sep": ";"}, "sep="),
        ({"labels": written("{}", "t.jsonl"), "sep": ";"}, "sep="), ({"path_column": "fil"}, "fi"),
        ({"labels": "s3://b/t.csv"}, "remote"), ({"labels": "."}, "label table"),
    ):  # fmt: skip
        with pytest.raises((ArgumentError, ManifestError, MissingFileError), match=word):
            dfgen.build_manifest(**{"labels": table, "path_column": "file", **options})


def test_json_lines_keep_their_types(folder):
    rows = [{"file": NAMES[0], "x": "007", "tags": ["a"], "y": None, "z": float("nan")}]
    rows.append({"file": NAMES[1], "x": "8", "tags": [], "y": 2, "new": True})
    content = "\n\n".join(map(json.dumps, rows))
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        found = of(written(content, "t.jsonl", encoding))
        assert found == {
            "x": ["007", "8"], "tags": [["a"], []], "y": [None, 2], "z": [None, None],
            "new": [None, "True"],
        }  # fmt: skip


def test_first_workbook_sheet_is_read_and_others_named(folder):
    with pd.ExcelWriter("t.xlsx") as book:
        frame = pd.DataFrame({"file": NAMES, "x": [1, 2.5], "at": pd.Timestamp("2024-01-02")})
        frame.to_excel(book, sheet_name="one", index=False)
        frame[:1].to_excel(book, sheet_name="two")
    with pytest.warns(UserWarning, match='"one"(.|\n)*"two"'):
        found = of("t.xlsx")
    assert found["x"] == [1, 2.5] and found["at"][0] == pd.Timestamp("2024-01-02")


def test_limits_hold_for_tables(folder):
    packed = written(gzip.compress(b"file,x\n" + b"a.png,1\n" * 9999), "t.csv.gz")
    with pytest.raises(ManifestError, match=r"limits\.decoded_bytes"):
        of(packed, limits=Limits(decoded_bytes=9999))
    book = io.BytesIO()
    pd.DataFrame({"file": ["a.png"] * 999}).to_excel(book)
    with pytest.raises(ManifestError, match=r"limits\.decoded_bytes"):
        of(written(book.getvalue(), "t.xlsx"), limits=Limits(decoded_bytes=999))


def test_frames_keep_their_categories_and_index(folder):
    kinds = pd.Categorical(["cat", "dog"], ["owl", "dog", "cat"], ordered=True)
    frame = pd.DataFrame({"kind": kinds, "half": np.array([1, 2], "float16")})
    frame.index = pd.Index(NAMES, name="file")
    for table in (frame, pa.Table.from_pandas(frame)):
        built = dfgen.build_manifest(labels=table, path_column="file", root=folder, out="m.parquet")
        label = built.attrs["dfgen"]["labels"]["kind"]
        assert label == {"kind": "category", "class_names": ["owl", "dog", "cat"], "ordered": True}
        assert built["half"].tolist() == [1, 2]
    with pytest.raises(ManifestError, match="width"):
        dfgen.build_manifest(labels=frame.assign(width=3), path_column="file")
    with pytest.raises(
        ManifestError, match=r"3 of 4 rows(.|\n)*key(.|\n)*row 1, 2, 3|missing in 3"
    ):
        keys = pd.DataFrame({"key": ["1", None, "", None], "x": 1})
        dfgen.build_manifest("imgs", labels=keys, on="stem=key")
