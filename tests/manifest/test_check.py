"""All faults of a table and its files at once: those of a build, in its words, and odd ones."""

import json
import os
import shlex

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from annotated import image
from command import run
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError
from dfgen.explain.odd_columns import NamedRows, column_findings

ROWS = 24
BREEDS = ["corgi", "husky", "poodle"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """24 images and their labels, of which nothing is wrong."""
    monkeypatch.chdir(tmp_path)
    for row in range(ROWS):
        image(f"imgs/{('cat', 'dog')[row % 2]}/{row}.png", 40, 30)
    breeds = [BREEDS[row % 3] for row in range(ROWS)]
    return pd.DataFrame({"key": range(ROWS), "breed": breeds, "age": [*range(6)] * 4})


def found(table, source="imgs", **options):
    """Return the faults by kind, in their order."""
    return {one.kind: one for one in dfgen.check(table, source, **options).findings}


def with_value(column, row, value):
    def change(table):
        table[column] = table[column].astype(object)
        table.loc[row, column] = value

    return change


def with_column(**columns):
    def change(table):
        for name, values in columns.items():
            table[name] = [*map(values, range(ROWS))] if callable(values) else values

    return change


def saved(name, mode, size=(40, 30), **how):
    def change(table):
        Image.new(mode, size).save(f"imgs/{name}", **how)

    return change


def written(name, data):
    def change(table):
        with open(f"imgs/{name}", "wb") as file:
            file.write(data)

    return change


def frequent(table):
    table["breed"] = ["corgi"] * (ROWS - 1) + ["corgy"]


@pytest.mark.parametrize(("rows", "beside", "odd"), [
    (1, 20, True), (2, 40, True), (3, 60, False), (5, 500, True), (11, 5_000, False),
])  # fmt: skip
def test_a_name_is_misspelt_only_if_it_is_rare_beside_the_other(rows, beside, odd):
    table = pa.table({"what": ["boat"] * rows + ["goat"] * beside})
    found = [*column_findings(NamedRows(table), ["what"], asked=True)]
    assert [one.kind for one in found] == ["labels that look misspelt"] * odd


FAULTS = [
    (with_value("breed", 2, "Corgi "), "labels that differ by case or blanks", 1,
     "the classes 'corgi', 'Corgi ', which differ", ".str.strip().str.lower()"),
    (frequent, "labels that look misspelt", 1,
     "'corgy' (1 row) beside 'corgi' (23)", "df['breed'].replace({'corgy': 'corgi'})"),
    (with_value("breed", 2, " "), "blank labels", 1, "in 1 rows, the first is row 2 (id 2)",
     "drop such rows"),
    (with_value("breed", 2, None), "missing labels", 1, "missing in 1 of 24 rows, row 2 (id 2)",
     'missing="ignore"'),
    (with_value("breed", 2, "nan"), "missing labels as text", 1, "has the class 'nan'", "isin"),
    (with_value("key", 2, None), "missing keys", 1, '"key" is missing in 1 row of', "Fill them in"),
    (with_value("key", 2, 3), "repeated keys", 2, '"3" (rows 2, 3: breed "poodle", "corgi")',
     "keep one row a key"),
    (with_column(key=lambda row: f"{row}.0"), "ids written as floats", ROWS, "as 0.0, 1.0, 2.0",
     '.astype(float).astype("int64")'),
    (with_column(day=lambda row: f"2024-01-{row % 5 + 10}"), "dates as text", ROWS,
     "as '2024-01-10'", "pd.to_datetime(df['day'])"),
    (with_column(day=lambda row: f"{row % 28 + 1}.2.24"), "dates as text", ROWS, "as '1.2.24'",
     "format='%d.%m.%y'"),
    (with_column(day=lambda row: f"2/{row % 28 + 1}/2024"), "dates as text", ROWS, "'2/1/2024'",
     "format='%m/%d/%Y'"),
    (with_column(day=lambda row: f"0{row % 9 + 1}/02/2024"), "dates that are ambiguous", ROWS,
     "which may be day first or month first", "if the month is first, format='%m/%d/%Y'"),
    (with_column(cost=lambda row: f"{row % 3},5"), "numbers as text", ROWS,
     "'0,5', a number with a decimal comma", '.str.replace(",", ".")'),
    (with_column(camera="nikon"), "constant columns", ROWS, "'camera' is 'nikon' in all 24 rows",
     "drop(columns='camera')"),
    (with_column(**{"Unnamed: 0": range(ROWS)}), "columns without a name", ROWS,
     "'Unnamed: 0' has no name", "to_csv(index=False)"),
    (with_column(tags=["a,b", "b,a"] * 12), "several labels in one text", ROWS, "the class 'a,b'",
     "MultiLabel('tags'"),
    (with_column(width=[*range(ROWS)]), "columns that the files fill", ROWS, 'the column "width"',
     "Rename it"),
    (written("cat/0.png", b""), "the file is empty (0 bytes)", 1, "imgs/cat/0.png", "Replace"),
    (written("cat/0.png", b"<html>"), "a page of HTML", 1, "imgs/cat/0.png", "their rows out"),
    (saved("cat/0.png", "I;16"), "16-bit images", 1, "imgs/cat/0.png", 'dtype="uint8"'),
    (saved("cat/0.png", "CMYK", format="JPEG"), "CMYK images", 1, "imgs/cat/0.png", "as RGB"),
    (saved("cat/0.png", "L", (8_000, 7_000)), "huge images", 1, "imgs/cat/0.png", "pack"),
    (saved("cat/0.png", "L", format="GIF", save_all=True, append_images=[
        Image.new("L", (40, 30), 255)]), "images of several frames", 1, "imgs/cat/0.png", "first"),
    (written("notes.txt", b"x"), "files left out as .txt", 1, "notes.txt", "Move files"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "kind", "rows", "told", "fix"), FAULTS)
def test_a_fault_is_found_counted_and_has_its_fix(table, spoil, kind, rows, told, fix):
    assert found(table) == {}
    spoil(table)
    [finding] = [one for one in dfgen.check(table, "imgs").findings if one.kind == kind]
    assert finding.rows == rows
    assert told in finding.told
    assert fix in finding.fix


def test_all_faults_are_told_at_once_those_of_most_rows_first_with_row_and_file(table):
    for spoil in (frequent, written("cat/0.png", b""), with_column(camera="nikon")):
        spoil(table)
    table["key"] = [f"{row}.PNG" for row in [*range(ROWS - 1), 99]]
    table["id"] = range(100, 100 + ROWS)
    checked = dfgen.check(table, "imgs", on="name=key")
    assert [(one.kind, one.rows, one.stops) for one in checked.findings] == [
        ("files without a row, rows without a file", 2 * ROWS, True),
        ("constant columns", ROWS, False),
        ("labels that look misspelt", 1, False),
        ("the file is empty (0 bytes)", 1, False),
    ]
    said = repr(checked)
    assert said.startswith("24 rows of the label table, 24 files, joined on name=key: 4 faults")
    assert "48  files without a row, rows without a file (stops build-manifest)" in said
    assert "Fix: Likely cause: case; 23 of these files and 23 of these rows would match" in said
    table["key"] = [f"{row}.png" for row in range(ROWS)]
    [empty] = [one for one in dfgen.check(table, "imgs").findings if "empty" in one.kind]
    assert empty.examples[0].endswith("imgs/cat/0.png (id 100)")


@pytest.mark.parametrize(
    ("keys", "on", "cause"),
    [
        ("{row}", "stem=key", None),
        ("{row}.png", "name=key", None),
        ("{kind}/{row}.png", "relpath=key", None),
        ("{row:03}", "stem=key", "leading zeros"),
        ("{row}.PNG", "name=key", "case"),
        ("{row}.jpg", "name=key", "extension"),
        ("pets/{kind}/{row}.png", "relpath=key", "directory"),
        ("pet_{row}", "stem=key", 'the prefix "pet_"'),
    ],
)
def test_the_join_is_found_also_where_keys_agree_but_for_how_they_are_written(
    table, keys, on, cause
):
    kinds = ["cat", "dog"] * (ROWS // 2)
    texts = [keys.format(row=row, kind=kind) for row, kind in enumerate(kinds)]
    checked = dfgen.check(table.assign(key=texts), "imgs")
    assert checked.on == f"joined on {on}"
    told = [one.fix for one in checked.findings]
    assert [f"Likely cause: {cause};" in one for one in told] == [True] * (cause is not None)


def test_a_column_of_paths_is_checked_without_a_folder_and_beside_one(table):
    table["file"] = [f"imgs/{('cat', 'dog')[row % 2]}/{row}.png" for row in range(ROWS)]
    assert found(table, None, path_column="file") == {}
    written("cat/0.png", b"")(table)
    table.loc[1, "file"] = "imgs/dog/x.png"
    assert [*found(table, None, path_column="file")] == [
        "the file is empty (0 bytes)", "missing files",
    ]  # fmt: skip
    [gone] = found(table.assign(file="gone/" + table["file"]), None, path_column="file").values()
    assert gone.stops
    assert "none of the 24 files exists" in gone.told
    assert 'removeprefix("gone/") (3 of 3 are found by that)' in gone.fix
    beside = dfgen.check(table.assign(file=table["file"].str[5:]), "imgs", path_column="file")
    assert beside.on == "joined on relpath=file"


def test_texts_and_numbers_are_no_fault_unless_they_are_named_as_labels(table):
    table["note"] = [f"text {row}" for row in range(ROWS)]
    table["cost"] = np.linspace(0, 1, ROWS)
    assert found(table) == {}
    assert [*found(table, label="note")] == ["nearly as many classes as rows"]


def test_labels_in_paths_are_checked(table):
    image("imgs/Cat/24.png", 40, 30)
    table.loc[ROWS] = [24, "corgi", 1]
    faults = found(table, pattern="{kind}/{id}.png")
    assert "'Cat', 'cat'" in faults["labels that differ by case or blanks"].told


def test_facts_none_opens_no_file_and_full_finds_truncated_ones(table):
    written("cat/0.png", b"")(table)
    with open("imgs/dog/1.png", "rb") as file:
        data = file.read()
    written("dog/1.png", data[:-30])(table)
    assert found(table, facts="none") == {}
    assert [*found(table)] == ["the file is empty (0 bytes)"]
    assert {*found(table, facts="full")} == {"the file is empty (0 bytes)", "cannot be decoded"}


def test_a_build_raises_and_warns_of_the_same_words(table):
    frequent(table)
    table.loc[1, "key"] = 0
    table["key"] = table["key"].astype("Int64")
    table.loc[2, "key"] = None
    table["width"] = 1
    table.to_csv("labels.csv", index=False)
    stopping = [one for one in dfgen.check("labels.csv", "imgs").findings if one.stops]
    assert [one.kind for one in stopping] == [
        "columns that the files fill", "repeated keys", "files without a row", "missing keys",
    ]  # fmt: skip
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest("imgs", labels="labels.csv", on="stem=key")
    said = str(caught.value)
    assert said.startswith("4 faults stop the build:\n1. ")
    assert all(str(one) in said for one in stopping)
    assert said.endswith("dfgen check labels.csv imgs --on stem=key")
    written("cat/0.png", b"")(table)
    table = table.assign(key=range(ROWS)).drop(columns="width")
    [empty] = [one for one in dfgen.check(table, "imgs").findings if "empty" in one.kind]
    with pytest.warns(UserWarning, match="1 problem") as warned:
        dfgen.build_manifest("imgs", labels=table, on="stem=key")
    assert empty.told in str(warned[0].message)


def test_the_command_that_an_error_points_to_lists_what_it_said(table):
    table.loc[1, "key"] = 0
    table.to_csv("my labels.csv", index=False)
    done = run("build-manifest", "imgs", "--labels", "my labels.csv", "--on", "stem=key",
               "--pattern", "{kind}/{id}.png", "--out", "m.parquet")  # fmt: skip
    call = done.stderr.splitlines()[-1].partition(": ")[2]
    assert call == ("dfgen check 'my labels.csv' imgs --pattern '{kind}/{id}.png' --on stem=key")
    checked = run(*shlex.split(call)[1:])
    assert checked.returncode == 1
    assert '1 key in several rows of my labels.csv, column "key": "0"' in checked.stdout


def test_the_command_ends_with_0_1_or_2_and_prints_json(table):
    table.to_csv("labels.csv", index=False)
    done = run("check", "labels.csv", "imgs")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "24 rows of labels.csv, 24 files, joined on stem=key: no fault found\n"
    with_column(camera="nikon")(table)
    table.to_csv("labels.csv", index=False)
    done = run("check", "labels.csv", "imgs", "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert (said["rows"], said["files"]) == (ROWS, ROWS)
    [fault] = said["findings"]
    assert (fault["kind"], fault["rows"], fault["examples"]) == (
        "constant columns",
        ROWS,
        ["nikon"],
    )
    assert run("check", "labels.csv", "imgz").returncode == 2
    assert "0 if nothing is found, 1" in run("check", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("labels.csv",), ArgumentError, "nothing says where the files of labels.csv are: "
         "give their folder, dfgen check TABLE FOLDER, or the column that names them, path_column= "
         "(--path-column)"),
        *(
            (arguments, ArgumentError, "imgs is a folder, expected a table of labels: it comes "
             "first, dfgen check labels.csv imgs")
            for arguments in (("imgs", "labels.csv"), ("imgs",))
        ),
        (("gone.csv", "imgs"), MissingFileError, "there is no label table gone.csv"),
        (("label.csv", "imgs"), MissingFileError, 'Did you mean "labels.csv"?'),
        (("labels.csv", "imgz"), MissingFileError, 'Did you mean "imgs"?'),
        (("labels.csv", "labels.csv"), ManifestError, '"labels.csv" is a file'),
        (("m.parquet", "imgs"), ArgumentError, "m.parquet is a manifest, expected a table of "
         "labels: dfgen verify m.parquet compares it with its files"),
        (("other.csv", "imgs"), ArgumentError, "no column of other.csv names a file of imgs, such "
         'as "cat/0.png". Columns: breed, age. Say which names which, on="FIELD=COLUMN" (--on '
         'FIELD=COLUMN), where FIELD is name, stem, relpath or a field of the pattern'),
        (("empty.csv", "imgs"), ManifestError, "empty.csv is empty (0 bytes), expected a first"),
        (("header.csv", "imgs"), ArgumentError, "header.csv has no rows, expected one for each "
         "file: fill it in"),
        ((None, "imgs"), ArgumentError, "labels=None: expected a table of labels, or a file of "
         "one"),
        ((7, "imgs"), ManifestError, "the label table must be a pandas"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_is_an_error(table, arguments, error, said):
    table.to_csv("labels.csv", index=False)
    table.drop(columns="key").to_csv("other.csv", index=False)
    table[:0].to_csv("header.csv", index=False)
    with open("empty.csv", "w"):
        pass
    dfgen.build_manifest("imgs", out="m.parquet")
    with pytest.raises(error) as caught:
        dfgen.check(*arguments)
    text = str(caught.value)
    assert text == said if error is ArgumentError else said in text


def test_a_report_has_the_faults_of_the_most_rows_first(table):
    table = table.assign(key=[f"imgs/{('cat', 'dog')[n % 2]}/{n}.png" for n in range(ROWS)])
    table = table.assign(camera="nikon")
    table.loc[[3], "breed"] = None
    table.loc[[5], "key"] = "imgs/gone.png"
    assert repr(dfgen.check(table, path_column="key", root=".")) == (
        '24 rows of the label table, 24 files, named by the column "key": 3 faults, that of the '
        "most rows first\n\n"
        "24  constant columns\n"
        "    column 'camera' is 'nikon' in all 24 rows: a model learns nothing from it\n"
        "    Fix: leave it out: df = df.drop(columns='camera')\n\n"
        " 1  missing labels\n"
        "    column 'breed' is missing in 1 of 24 rows, row 3 (id imgs/dog/3.png)\n"
        "    Fix: fill them in, drop such rows, df = df[df['breed'].notna()], or leave them out of "
        'the loss with missing="ignore"\n\n'
        " 1  missing files\n"
        f"    the file does not exist: {os.getcwd()}/imgs/gone.png\n"
        "    Fix: Put the file where its row says, or correct the row"
    )


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_short_tables_are_checked(table, rows):
    kinds = [*found(table[:rows], on="stem=key")]
    assert kinds == ["files without a row"]


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda table: table.assign(note=None), ["missing labels"]),
        (lambda table: table.assign(key=table["key"].astype(float)), ["ids written as floats"]),
        (lambda table: table.set_index("key"), []),
        (lambda table: table.astype({"breed": "category"}), []),
        (lambda table: table.assign(tags=[["a", "b"]] * ROWS), []),
        (lambda table: table.assign(cost=np.inf), ["constant columns"]),
        (lambda table: table.assign(split=["train", "val"] * (ROWS // 2)), []),
        (pa.Table.from_pandas, []),
    ],
)
def test_columns_of_any_type_are_looked_at(table, change, kinds):
    assert [*found(change(table))] == kinds
