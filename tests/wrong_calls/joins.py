"""Labels that do not match their files: keys, columns, patterns, paths and their roots."""

import shutil
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

import dfgen
from dfgen.cli import app
from dfgen.errors import ArgumentError, DfgenError, ManifestError, MissingFileError
from wrong_calls import Pets, WrongCall

PATTERN = "{kind}/{id}.jpg"


def labels(pets: Pets) -> pd.DataFrame:
    """Return a table of object_id and age."""
    return pets.frame[["id", "age"]].rename(columns={"id": "object_id"})


def join(table, folder="imgs", *, pattern=PATTERN, on="id=object_id", **options):
    return dfgen.build_manifest(folder, pattern=pattern, labels=table, on=on, **options)


def named(pets: Pets, change, **options):
    """Build of a table whose paths are changed ones, relative to the working folder."""
    paths = [str(Path(path).relative_to(pets.folder)) for path in pets.frame["path"]]
    table = pd.DataFrame({"file": map(change, paths), "kind": pets.frame["kind"]})
    return dfgen.build_manifest(labels=table, path_column="file", **options)


def keyed(pets: Pets, change, **options):
    """Join with a table whose keys are changed ones."""
    table = labels(pets)
    return join(table.assign(object_id=[change(key) for key in table["object_id"]]), **options)


def as_file(pets: Pets, name, **options):
    """Join with the table as pandas writes it to a file."""
    labels(pets).to_csv(name, **{"index": False, **options})
    return join(name)


def command(*arguments):
    """Run the command; raise what it says."""
    result = CliRunner().invoke(app, ["build-manifest", *arguments, "--out", "m.parquet"])
    if isinstance(result.exception, DfgenError):
        raise result.exception
    if result.exit_code:
        raise DfgenError(result.output)


def with_other_extensions(pets: Pets):
    for path in sorted(Path("imgs/cat").iterdir()):
        path.rename(path.with_suffix(".JPEG"))
    return join(labels(pets))


def one_folder_deeper(pets: Pets):
    shutil.move("imgs/owl", "imgs/new/owl")
    return join(labels(pets))


def grown_with_other_ids(pets: Pets):
    join(labels(pets), pattern="{kind}/{id:int}.jpg", out="m.parquet")
    return dfgen.build_manifest("imgs", pattern="{kind}/{pet}.jpg", labels=labels(pets),
                                on="pet=object_id", update="m.parquet")  # fmt: skip


CAUSED = [
    ("float ids", lambda key: f"{key}.0", '"100.0"', "whole numbers as floats", 'astype("int64")'),
    ("blanks around ids", lambda key: f" {key} ", '" 100 "', "blanks", ".str.strip()"),
    ("zero padding", lambda key: f"{key:06}", '"000100"', "leading zeros", "{field:int}"),
    ("a prefix", lambda key: f"pet_{key}", '"pet_100"', 'the prefix "pet_"', "removeprefix"),
    ("Excel's formula for text", lambda key: f'="{key}"', r'"=\"100\""', "Excel", "is text"),
    ("quoted ids", lambda key: f"'{key}'", '''"'100'"''', "quotes", "remove the quotes"),
    ("line ends", lambda key: f"{key}\r", r'"100\r"', "line ends", ".str.strip()"),
    ("names for ids", lambda key: f"{key}.jpg", '"100.jpg"', "extension", "in the table"),
    ("paths for ids", lambda key: f"imgs/x/{key}", '"imgs/x/100"', "directory", "cut off"),
    ("Windows paths for ids", lambda key: f"C:\\x\\{key}.JPG", "C:", "directory, and ext", "cut"),
]

CALLS = [
    *(
        WrongCall(what, lambda pets, change=change: keyed(pets, change), ManifestError, *words)
        for what, change, *words in CAUSED
    ),
    WrongCall("another extension than the pattern's", with_other_extensions, ManifestError,
              '4 with another extension: "cat/100.JPEG"', "4 are those of rows without a file",
              'pattern="{kind}/{id}.{_}"'),
    WrongCall("a folder between", one_folder_deeper, ManifestError, '"new/owl/102.jpg"',
              "4 in folders further below", 'pattern="{_}/{kind}/{id}.jpg"'),
    WrongCall("blanks and case in the name of a column",
              lambda pets: join(labels(pets).rename(columns={"object_id": "Object_ID "})),
              ManifestError, '"object_id"', 'Did you mean "Object_ID "', "on=FIELD=COLUMN"),
    WrongCall("another case of the name of a column",
              lambda pets: join(labels(pets).rename(columns={"object_id": "ID"}), on="id"),
              ManifestError, '"id"', 'Did you mean "ID"', "on=FIELD=COLUMN"),
    WrongCall("semicolons that pandas was not told of",
              lambda pets: join(labels(pets).to_csv("l.csv", sep=";") or pd.read_csv("l.csv")),
              ManifestError, "object_id;age", 'separated by ";"', 'sep=";"'),
    WrongCall("no header", lambda pets: as_file(pets, "l.csv", header=False), ManifestError,
              "Columns: 100, 0.0", "Its first line is a row", "header=None, names="),
    WrongCall("the index of a CSV for ids",
              lambda pets: join(labels(pets).reset_index(names="Unnamed: 0"), on="id=Unnamed: 0"),
              ManifestError, '"Unnamed: 0" holds the row numbers', 'on="id=object_id"',
              "to_csv(index=False)"),
    WrongCall("two labels for one file",
              lambda pets: join(pd.concat([labels(pets), labels(pets)[:1].assign(age=9.0)])),
              ManifestError, '"100" (rows 0, 12: age 0.0, 9.0)', "one row only", "keep one row"),
    WrongCall("a missing id",
              lambda pets: join(labels(pets).assign(object_id=[None, *range(101, 112)])),
              ManifestError, '"object_id" is missing in 1 row', "row 0", "Fill them in"),
    WrongCall("measures for ids", lambda pets: join(labels(pets), on="id=age"), ManifestError,
              "holds 0.5 in row 1", "whole numbers", "Name the column of ids"),
    WrongCall("the column alone", lambda pets: join(labels(pets), on="object_id"), ArgumentError,
              '"object_id" is not a key of a file', "FIELD=COLUMN", 'on="id=object_id"'),
    WrongCall("the two sides swapped", lambda pets: join(labels(pets), on="object_id=id"),
              ArgumentError, '"object_id" is not a key', "FIELD=COLUMN", 'on="id=object_id"'),
    WrongCall("a pair as on", lambda pets: join(labels(pets), on=("id", "object_id")),
              ArgumentError, "('id', 'object_id')", "expected text", 'on="id=object_id"'),
    WrongCall("a field that the pattern lacks",
              lambda pets: join(labels(pets), pattern="{kind}/{_}.jpg"), ArgumentError,
              '"id" is not a key', "Keys: kind, name, stem, relpath", "field of the pattern"),
    WrongCall("on without labels", lambda pets: join(None), ArgumentError, "on=", "labels=",
              "give both"),
    WrongCall("labels without on", lambda pets: join(labels(pets), on=None), ArgumentError,
              "labels=", "needs on=", "FIELD=COLUMN"),
    WrongCall("a label in another case", lambda pets: join(labels(pets), label="AGE"),
              ArgumentError, '"AGE"', "Columns: ", 'Did you mean "age"'),
    WrongCall("a category that is no column", lambda pets: join(labels(pets), category="agee"),
              ArgumentError, '"agee"', "Columns: ", 'Did you mean "age"'),
    WrongCall("an id that is no column", lambda pets: join(labels(pets), id="objectid"),
              ArgumentError, '"objectid"', "Columns: ", 'Did you mean "object_id"'),
    WrongCall("a home folder", lambda pets: join(labels(pets), "~/imgs"), MissingFileError,
              '"~/imgs"', '"~" is not expanded', "give "),
    WrongCall("a glob", lambda pets: join(labels(pets), "imgs/*/*.jpg"), MissingFileError,
              '"imgs/*/*.jpg"', "give the folder", "pattern="),
    WrongCall("a list of labels", lambda pets: join([0, 1, 2]), ManifestError, "got a list",
              "the label table must be", "DataFrame"),
    WrongCall("an old workbook", lambda pets: join("labels.xls"), ManifestError, '".xls"',
              "Label tables are", 'pandas.read_excel("labels.xls")'),
    WrongCall("a column of labels for paths",
              lambda pets: dfgen.build_manifest(labels=pets.frame[["id", "kind"]],
                                                path_column="kind"),
              MissingFileError, '"cat"', "the path of a file?", "path_column="),
    WrongCall("a root too deep", lambda pets: named(pets, str, root="imgs"), MissingFileError,
              "imgs/imgs/cat/100.jpg", "none of the 12 files exists", "leave root= out"),
    WrongCall("a root too shallow", lambda pets: named(pets, lambda path: path[5:]),
              MissingFileError, "cat/100.jpg", "none of the 12 files", 'imgs" (--root)'),
    WrongCall("backslashes", lambda pets: named(pets, lambda path: path.replace("/", "\\")),
              MissingFileError, r"imgs\\cat", "none of the 12 files", r'.str.replace("\\", "/")'),
    WrongCall("paths of a Windows machine",
              lambda pets: named(pets, lambda path: "C:\\pets\\" + path.replace("/", "\\")),
              MissingFileError, r"C:\\pets\\imgs", 'removeprefix("C:/pets/")', ".str.replace"),
    WrongCall("paths of another machine", lambda pets: named(pets, "/home/eve/{}".format),
              MissingFileError, "/home/eve/imgs/cat/100.jpg", "none of the 12 files",
              'removeprefix("/home/eve/")'),
    WrongCall("paths with ~", lambda pets: named(pets, "~/{}".format), MissingFileError,
              "~/imgs/cat/100.jpg", "is not expanded", "os.path.expanduser"),
    WrongCall("other ids than before", grown_with_other_ids, ManifestError, "ids of type int64",
              "make ids of that type", "without update="),
    WrongCall("the command: no field",
              lambda pets: command("imgs", "--labels", "labels.csv", "--on", "object_id"),
              DfgenError, '"object_id" is not a key', "FIELD=COLUMN", 'on="stem=object_id"'),
    WrongCall("the command: a column in another case",
              lambda pets: command("imgs", "--labels", "labels.csv", "--on", "stem=Object_Id"),
              DfgenError, '"Object_Id"', 'Did you mean "object_id"', "--on FIELD=COLUMN"),
    WrongCall("the command: another key",
              lambda pets: command("imgs", "--labels", "labels.csv", "--on", "name=object_id"),
              DfgenError, '"100.jpg", nearest: "100"', 'on="stem=object_id" would match',
              "join on stem"),
]  # fmt: skip
