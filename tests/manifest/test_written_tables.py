"""Label tables as programs write them: separators, decimal commas, dates, encodings, workbooks."""

import sys
import warnings
from datetime import date

import annotated
import pandas as pd
import pytest
from cases import each

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingPackageError
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.table_format import TableFormat


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def columns(path, text, saved="utf-8", **written):
    with open(path, "w", encoding=saved, newline="") as file:
        file.write(text)
    [group] = read_rows(path, ["path"], written=TableFormat(**written))
    return group.rows.drop_columns(["path"]).to_pydict()


GERMAN = "path;größe;am\na.png;0,5;31.12.2024\nb.png;1.234,25;01.02.2024\n"
MEANT = {"größe": [0.5, 1234.25], "am": [date(2024, 12, 31), date(2024, 2, 1)]}


@each(
    ("name", "saved", "written", "text"),
    [
        ("t.csv", "utf-8", {}, GERMAN),
        ("t.csv", "utf-8", {}, GERMAN.replace("\n", "\r\n")),
        ("t.csv", "utf-8-sig", {}, GERMAN),
        ("t.csv", "utf-16", {}, GERMAN),
        ("t.csv", "cp1252", {"encoding": "cp1252"}, GERMAN),
        ("t.csv", "utf-8", {}, "sep=;\r\n" + GERMAN),
        ("t.csv", "utf-8", {}, GERMAN.replace(";", "\t")),
        ("t.tsv", "utf-8", {}, GERMAN),
        ("t.csv", "utf-8", {"sep": "tab"}, GERMAN.replace(";", "\t")),
        ("t.csv", "utf-8", {"decimal": ","}, GERMAN.replace(",", '"').replace(";", ",").replace(
            "0\"5", '"0,5"').replace('1.234"25', '"1.234,25"')),
    ],
)  # fmt: skip
def test_a_german_table_is_read_as_it_is_meant(name, saved, written, text):
    assert columns(name, text, saved, **written) == MEANT


@each(
    ("values", "meant"),
    [
        (["1,5", "-2"], [1.5, -2.0]),
        (["1,5", ""], [1.5, None]),
        (["1.5", "2"], [1.5, 2.0]),
        (["7", "8"], [7, 8]),
        (["+7", "8"], [7.0, 8.0]),
        (["9007199254740993", ""], [9007199254740993, None]),
        (["1.000", "0.5"], [1.0, 0.5]),
        (["1,25e3"], [1250.0]),
        (["13/01/2024", "02/01/2024"], [date(2024, 1, 13), date(2024, 1, 2)]),
        (["01/13/2024", "01/02/2024"], [date(2024, 1, 13), date(2024, 1, 2)]),
        (["2024-12-31"], [date(2024, 12, 31)]),
        (["1.2.2024", ""], [date(2024, 2, 1), None]),
        (["cat", "dog"], ["cat", "dog"]),
        (["1.2.3", "1.2.4"], ["1.2.3", "1.2.4"]),
        (["", ""], [None, None]),
    ],
)
def test_numbers_and_dates_are_recognised_where_all_are_some(values, meant):
    text = "".join(f"{row}.png;{value}\n" for row, value in enumerate(values))
    assert columns("t.csv", f"path;v\n{text}") == {"v": meant}


@each(
    ("values", "message"),
    [
        (["007", "8"], '"007" has a leading zero: it is taken for a code. For numbers, write them '
         "without"),
        (["0x10", "0x0010"], '"0x10" has a leading zero: it is taken for a code'),
        (["12345678901234567890", "12345678901234567891"],
         '"12345678901234567890" has more digits than a number: it is taken for a code. For '
         "numbers, write them with 15 digits at most"),
        (["0,5", "n/a", "1,5"], 'numbers such as "0,5", but 1 of 3 are others, as "n/a"'),
        (["0.5", "-", "1.5"], 'numbers such as "0.5", but 1 of 3 are others, as "-"'),
        (["01/02/2024", "03/04/2024"], 'dates such as "01/02/2024", day or month first'),
        (["31/12/2024", "12/31/2024"], "some have the day first and some the month"),
        (["31.12.2024", "12.31.2024"], "some have the day first and some the month"),
        (["31.12.2024", "2024-12-31"], 'dates such as "31.12.2024"'),
        (["31.12.2024", "soon"], 'dates such as "31.12.2024", but 1 of 2 are others, as "soon"'),
        (["31.02.2024"], "dates, of which one is none: "),
    ],
)  # fmt: skip
def test_a_column_that_stays_text_though_it_looks_like_something_else_is_told(values, message):
    text = "".join(f"{row}.png;{value}\n" for row, value in enumerate(values))
    with pytest.warns(UserWarning, match="column 'v' of t.csv is text") as caught:
        assert columns("t.csv", f"path;v\n{text}") == {"v": values}
    assert message in str(caught[0].message)


def test_quoted_decimal_commas_between_commas_are_told_and_read_when_asked():
    text = 'path,v\na.png,"0,5"\nb.png,"1,5"\n'
    with pytest.warns(UserWarning, match=r'numbers such as "0,5"\. .* give decimal= \(--decimal\)'):
        assert columns("t.csv", text) == {"v": ["0,5", "1,5"]}
    assert columns("t.csv", text, decimal=",") == {"v": [0.5, 1.5]}
    assert columns("t.csv", text, decimal=".") == {"v": ["0,5", "1,5"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path;v\na.png;1,234\n",
         "column 'v' of t.csv holds \"1,234\", which is 1.234 or 1234: name the decimal mark, "
         'decimal="," (--decimal ",") or decimal="."'),
        ("path;v;w\na.png;0,5;1.234\n",
         "column 'w' of t.csv holds \"1.234\", beside decimal commas in \"v\", which is 1.234 or "
         '1234: name the decimal mark, decimal="." (--decimal ".") or decimal=","'),
        ("path;a,b;c\na.png;1,2;3\n",
         't.csv has the same number of values in every row, 2 by "," and 3 by ";". Say which '
         'separates them, as in sep=";" (--sep ";"), or save it with "," and quotes around values '
         "that hold one"),
    ],
)  # fmt: skip
def test_what_may_be_read_in_two_ways_is_refused(text, message):
    with pytest.raises(ManifestError) as caught:
        columns("t.csv", text)
    assert str(caught.value) == message


def test_utf_16_without_its_mark_is_refused():
    with pytest.raises(ManifestError, match=r'encoding="utf-16-le" \(--encoding utf-16-le\)$'):
        columns("t.csv", GERMAN, "utf-16-le")
    assert columns("t.csv", GERMAN, "utf-16-le", encoding="utf-16-le") == MEANT


def test_a_table_of_a_header_alone_matches_nothing(here):
    annotated.image("imgs/a.png")
    (here / "t.csv").write_text("file;kind\n")
    with pytest.raises(ManifestError, match=r"1 of 1 files have no row in t\.csv"):
        dfgen.build_manifest("imgs", labels="t.csv", on="name=file")


def test_numbers_that_could_be_thousands_are_read_when_the_mark_is_given():
    assert columns("t.csv", "path;v\na.png;1,234\n", decimal=",") == {"v": [1.234]}
    assert columns("t.csv", "path;v\na.png;1.234\n", decimal=".") == {"v": [1.234]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": ";;"}, 'sep=";;": expected one character'),
        ({"sep": ","}, 'sep= and decimal= are both ","'),
        ({"decimal": "'"}, 'decimal="\'": expected "." or ","'),
        ({"encoding": "klingon"}, 'encoding="klingon" is unknown'),
        ({"sheet": "a"}, "sheet= (--sheet) goes with a table of .xlsx, got a .csv file"),
        ({"labels": None, "path_column": None, "source": "imgs"},
         "decimal= (--decimal) goes with a table of .csv or .tsv or .xlsx, got no label table"),
        ({"labels": pd.DataFrame({"path": ["a"]})},
         "decimal= (--decimal) goes with a table of .csv or .tsv or .xlsx, got a table in memory"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options, message):
    given = {"labels": "t.csv", "path_column": "path", "decimal": ",", **options}
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(**given)
    assert str(caught.value).startswith(message)


def workbook(path="t.xlsx", **sheets):
    sheets = sheets or {
        "Labels": pd.DataFrame(
            {"path": ["a.png", "b.png"], "nr": ["007", "8"], "v": [0.5, 2], "w": ["0,5", "1,5"],
             "am": pd.to_datetime(["2024-12-31", "2024-01-02"]), "kind": ["NA", None]}
        )
    }  # fmt: skip
    with pd.ExcelWriter(path) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return path


def test_a_workbook_is_read_with_its_types():
    [group] = read_rows(workbook(), ["path"])
    frame = group.rows.to_pandas()
    assert frame["nr"].tolist() == ["007", "8"]
    assert frame["v"].tolist() == [0.5, 2]
    assert frame["w"].tolist() == [0.5, 1.5]
    assert frame["am"].dt.date.tolist() == [date(2024, 12, 31), date(2024, 1, 2)]
    assert frame["kind"].fillna("").tolist() == ["NA", ""]


def test_a_workbook_of_several_sheets_says_which_is_read():
    one, two = (pd.DataFrame({"path": ["a.png"], "v": [v]}) for v in (1, 2))
    workbook(First=one, Second=two)
    given = {"labels": "t.xlsx", "path_column": "path", "facts": "none"}
    with pytest.warns(UserWarning, match='the first is read, "First"'):
        assert dfgen.build_manifest(**given)["v"].tolist() == [1]
    assert dfgen.build_manifest(**given, sheet="Second")["v"].tolist() == [2]
    with pytest.raises(ArgumentError, match='Did you mean "Second"'):
        dfgen.build_manifest(**given, sheet="second")


def test_a_workbook_whose_column_mixes_types_is_refused():
    workbook(Labels=pd.DataFrame({"path": ["a.png", "b.png"], "v": [1, "n/a"]}))
    with pytest.raises(ManifestError, match=r"'v' of t\.xlsx mixes int, str: .* empty where"):
        dfgen.build_manifest(labels="t.xlsx", path_column="path")


def test_a_workbook_without_openpyxl_says_what_to_install(monkeypatch):
    workbook()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingPackageError, match=r'pip install "keras-dfgen\[excel\]"'):
        dfgen.build_manifest(labels="t.xlsx", path_column="path")


def test_a_broken_workbook_is_refused():
    with open("t.xlsx", "w") as file:
        file.write("path\n")
    with pytest.raises(ManifestError, match=r"t\.xlsx cannot be read as \.xlsx: BadZipFile"):
        dfgen.build_manifest(labels="t.xlsx", path_column="path")


def test_an_update_reads_the_table_as_the_build_did():
    for name in ("a", "b", "c"):
        annotated.image(f"imgs/{name}.png")
    head = "path;v\na.png;1,234\nb.png;2,345\n"
    with open("t.csv", "w", encoding="cp1252") as file:
        file.write(head)
    given = {"labels": "t.csv", "path_column": "path", "root": "imgs"}
    built = dfgen.build_manifest(**given, decimal=",", encoding="cp1252", out="m.parquet")
    assert built["v"].tolist() == [1.234, 2.345]
    with open("t.csv", "a", encoding="cp1252") as file:
        file.write("c.png;3,456\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grown = dfgen.build_manifest(update="m.parquet", out="m.parquet")
    assert grown["v"].tolist() == [1.234, 2.345, 3.456]
    frame = grown.assign(path=["a.png", "b.png", "c.png"])[["path", "v"]]
    with pytest.warns(UserWarning, match="The recipe is not that of m.parquet"):
        dfgen.build_manifest(update="m.parquet", labels=frame)
