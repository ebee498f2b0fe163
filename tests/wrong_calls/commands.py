"""Commands: a file for a folder, a folder for a file, arguments swapped, numbers that cannot be."""

import pandas as pd

import dfgen
from wrong_calls import WrongCall
from wrong_calls.builds import CommandFailed, command


def after(prepare, *arguments):
    """Return a call that makes what a command is given, and runs it."""

    def call(pets):
        prepare(pets)
        command(*arguments)(pets)

    return call


def manifest(pets):
    dfgen.write_manifest(pets.frame.astype({"kind": "category"}), "pets.parquet")


def no_rows(pets):
    dfgen.write_manifest(pets.frame[:0].astype({"kind": "category"}), "pets.parquet")


def file(name, data=b""):
    def write(pets):
        manifest(pets)
        with open(name, "wb") as opened:
            opened.write(data)

    return write


def table(name, **columns):
    def write(pets):
        manifest(pets)
        pd.DataFrame(columns).to_csv(name, index=False)

    return write


def failed(what, call, *words):
    return WrongCall(what, call, CommandFailed, *words)


OF_MANIFEST = {
    "verify": ["verify", None],
    "diff": ["diff", "pets.parquet", None],
    "split": ["split", None, "--folds", "2"],
    "recipe": ["recipe", None],
    "pack": ["pack", None, "--out", "packed", "--image-size", "8,8"],
    "report": ["report", None, "--out", "pets.html"],
    "bench": ["bench", None, "--rows", "4"],
    "update-labels": ["update-labels", None, "labels.csv"],
    "build-manifest --update": ["build-manifest", "--update", None],
}
"""Command -> its arguments; None: the manifest."""
FOR_A_MANIFEST = {
    "a folder": ("imgs", "imgs is no manifest", "a Parquet file of dfgen", "it is a folder"),
    "a CSV": ("labels.csv", "labels.csv is no manifest", "a Parquet file of dfgen", "read_csv"),
    "a missing file": ("petz.parquet", "there is no manifest", "petz.parquet", "Did you mean"),
    "an empty path": ("", "the path of a manifest is empty", "expected", "pets.parquet"),
}
WORKERS = {
    "verify": ["verify", "pets.parquet"],
    "build-manifest": ["build-manifest", "imgs", "--out", "m.parquet"],
    "check": ["check", "labels.csv", "imgs", "--on", "stem=object_id"],
    "report": ["report", "pets.parquet", "--out", "pets.html"],
    "bench": ["bench", "pets.parquet", "--rows", "4"],
    "pack": ["pack", "pets.parquet", "--out", "packed", "--image-size", "8,8"],
}
OF_TABLE = {
    "check": ["check", None, "imgs"],
    "build-manifest --labels": [
        "build-manifest", "imgs", "--labels", None, "--on", "stem=key", "--out", "m.parquet",
    ],
    "build-manifest --path-column": [
        "build-manifest", "--labels", None, "--path-column", "file", "--out", "m.parquet",
    ],
    "update-labels": ["update-labels", "pets.parquet", None],
    "verify --add": ["verify", "pets.parquet", "--add", None],
}  # fmt: skip
FOR_A_TABLE = {
    "a missing file": ("gone.csv", "there is no", "gone.csv", "Looked in"),
    "an empty file": ("empty.csv", "empty.csv is empty", "expected a first line", "fetch it again"),
    "a model": ("model.keras", 'extension ".keras"', "Label tables are", "pandas.read_csv"),
}


def given(arguments, value):
    return [value if one is None else one for one in arguments]


CALLS = [
    *(
        failed(f"{name} of {what}", after(manifest, *given(arguments, value)), *words)
        for name, arguments in OF_MANIFEST.items()
        for what, (value, *words) in FOR_A_MANIFEST.items()
        if not (value == "" and "--update" in arguments)  # as if it were left out
    ),
    *(
        failed(
            f"{name} with {number} workers",
            after(manifest, *arguments, "--workers", number),
            f"workers={number}", "is not a whole number of", "or more",
        )
        for name, arguments in WORKERS.items()
        for number in ("-3", "-1")
    ),
    *(
        failed(f"{name} of {what}", after(file("empty.csv"), *given(arguments, value)), *words)
        for name, arguments in OF_TABLE.items()
        for what, (value, *words) in FOR_A_TABLE.items()
    ),
    *(
        failed(
            f"{name} of a folder", after(manifest, *given(arguments, "imgs")), "imgs is a folder",
            "expected a table of labels", ".csv",
        )
        for name, arguments in OF_TABLE.items()
    ),
    failed(
        "predict with its arguments swapped",
        after(manifest, "predict", "pets.parquet", "model.keras", "--out", "p.parquet"),
        "pets.parquet is a manifest", "expected a model saved by Keras",
        "dfgen predict model.keras pets.parquet",
    ),
    failed(
        "predict by a folder",
        after(manifest, "predict", "imgs", "pets.parquet", "--out", "p.parquet"),
        "imgs is a folder", "expected a model saved by Keras", "model.save(",
    ),
    failed(
        "predict by a table",
        after(manifest, "predict", "labels.csv", "pets.parquet", "--out", "p.parquet"),
        "labels.csv is no .keras", "expected a model saved by Keras", "model.save(",
    ),
    failed(
        "predict by a missing model",
        after(file("pets.keras"), "predict", "petz.keras", "pets.parquet", "--out", "p.parquet"),
        "there is no model petz.keras", "Looked in", 'Did you mean "pets.keras"?',
    ),
    failed(
        "predict without what training knew",
        after(file("m.keras", b"PK"), "predict", "m.keras", "pets.parquet", "--out", "p.parquet"),
        "there is no m.keras.json", "how rows were made in training", "SavePreprocessing(",
    ),
    failed(
        "verify of a model", after(file("m.keras", b"PK"), "verify", "m.keras"),
        "m.keras is no manifest", "it is a model", "pets.parquet",
    ),
    failed(
        "verify of a damaged manifest", after(file("m.parquet", b"PAR1"), "verify", "m.parquet"),
        "m.parquet cannot be read", "as a Parquet file", "build it anew",
    ),
    failed(
        "verify below a folder that is not there",
        after(manifest, "verify", "pets.parquet", "--root", "imgz"),
        'there is no folder "imgz"', "Looked in", 'Did you mean "imgs"?',
    ),
    failed(
        "verify below a file", after(manifest, "verify", "pets.parquet", "--root", "labels.csv"),
        '"labels.csv" is a file', "--root", "the folder of the files",
    ),
    failed(
        "a split of no rows", after(no_rows, "split", "pets.parquet", "--folds", "2"),
        "the manifest has no rows", "expected some to split", "filtered",
    ),
    failed(
        "bench of no rows", after(no_rows, "bench", "pets.parquet"), "pets.parquet has no rows",
        "expected rows of images", "Build it again",
    ),
    failed(
        "a pack of no rows",
        after(no_rows, "pack", "pets.parquet", "--out", "packed", "--image-size", "8,8"),
        "the manifest has no rows", "nothing", "to pack",
    ),
    failed(
        "an update of no rows",
        after(
            no_rows, "build-manifest", "imgs", "--pattern", "{kind}/{id:int}.jpg", "--update",
            "pets.parquet",
        ),
        "none of the 0 rows", "is in the source", "without update=",
    ),
    failed(
        "a pack into a file",
        after(manifest, "pack", "pets.parquet", "--out", "labels.csv", "--image-size", "8,8"),
        "labels.csv cannot be packed into", "Not a directory", "Name a folder",
    ),
    failed(
        "a report of a folder of predictions",
        after(manifest, "report", "pets.parquet", "--out", "r.html", "--predictions", "imgs"),
        "is a folder", "expected the Parquet file", "dfgen predict",
    ),
    failed(
        "a report of a table of predictions",
        after(manifest, "report", "pets.parquet", "--out", "r.html", "--predictions", "labels.csv"),
        "labels.csv cannot be read", "expected the Parquet file", "dfgen predict",
    ),
    failed(
        "a cache that is not there", command("cache", "info", "cache"), "cache is no cache",
        "it is not there", "the folder that cache= was given",
    ),
    failed(
        "a cache that is another folder", command("cache", "clear", "imgs"), "imgs is no cache",
        "it is another folder", "the folder that cache= was given",
    ),
    failed(
        "check with its arguments swapped", command("check", "imgs", "labels.csv"),
        "imgs is a folder", "expected a table of labels", "dfgen check labels.csv imgs",
    ),
    failed(
        "check without files", command("check", "labels.csv"), "nothing says where the files of",
        "give their folder", "--path-column",
    ),
    failed("check of nothing", command("check"), "Missing argument", "TABLE", "dfgen check --help"),
    failed(
        "check of a manifest", after(manifest, "check", "pets.parquet", "imgs"),
        "pets.parquet is a manifest", "expected a table of labels", "dfgen verify pets.parquet",
    ),
    failed(
        "check of a misspelt folder", command("check", "labels.csv", "imgz"),
        'there is no folder "imgz"', "Looked in", 'Did you mean "imgs"?',
    ),
    failed(
        "check of a file for the folder", command("check", "labels.csv", "labels.csv"),
        '"labels.csv" is a file', "the folder of the images", "--path-column",
    ),
    failed(
        "check of a table without a key",
        after(table("kinds.csv", kind=["cat"] * 12, age=[1] * 12), "check", "kinds.csv", "imgs"),
        "no column of kinds.csv names a file of imgs", "Columns: kind, age", "--on FIELD=COLUMN",
    ),
    failed(
        "check of one column without a key",
        after(table("kinds.csv", kind=["cat", "dog", "owl"]), "check", "kinds.csv", "imgs"),
        "no column of kinds.csv names a file of imgs", "Columns: kind", "--on FIELD=COLUMN",
    ),
    failed(
        "check on a misspelt column",
        command("check", "labels.csv", "imgs", "--on", "stem=objct_id"),
        'no column "objct_id"', "Columns: object_id, kind, age", 'Did you mean "object_id"?',
    ),
    failed(
        "check by a misspelt column of paths",
        command("check", "labels.csv", "imgs", "--path-column", "objct_id"),
        'path_column="objct_id" is not a column', "Columns: object_id", 'Did you mean "object_id"?',
    ),
    failed(
        "check of a misspelt label", command("check", "labels.csv", "imgs", "--label", "knd"),
        'label="knd" is not a column', "Columns: object_id, kind, age", 'Did you mean "kind"?',
    ),
    failed(
        "check with facts that there are not",
        command("check", "labels.csv", "imgs", "--facts", "all"),
        'facts="all" is unknown', "Expected:", '"header"',
    ),
    failed(
        "build-manifest of one column that is no path",
        after(
            table("kinds.csv", kind=["cat", "dog"]),
            "build-manifest", "--labels", "kinds.csv", "--path-column", "kind", "--out", "m.pq",
        ),
        "none of the 2 files exists", "the path of a file?", "path_column=",
    ),
]  # fmt: skip
