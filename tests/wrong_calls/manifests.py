"""Manifests at hand: written, read, corrected, compared, split and packed."""

import pandas as pd

import dfgen
from dfgen.errors import ArgumentError, ManifestError, UnknownArgumentError, WriteError
from wrong_calls import WrongCall


def written(pets):
    dfgen.write_manifest(pets.frame.astype({"kind": "category"}), "pets.parquet")
    return "pets.parquet"


def corrected(**columns):
    def call(pets):
        pd.DataFrame(columns).to_csv("fix.csv", index=False)
        dfgen.update_labels(written(pets), "fix.csv")

    return call


def packed(pets, out="packed", **options):
    dfgen.pack(written(pets), out, **{"image_size": (8, 8), "workers": 1, **options})
    return out


def divided(pets):
    return pets.frame.assign(split=["train", "val"] * 6)


HALVES = {"train": 0.5, "val": 0.5}

CALLS = [
    WrongCall(
        "write_manifest with its arguments swapped",
        lambda pets: dfgen.write_manifest("m.parquet", pets.frame), ArgumentError, "'m.parquet'",
        "expected the frame and then the path", "dfgen.write_manifest(df, path)",
    ),
    WrongCall(
        "a manifest written as CSV", lambda pets: dfgen.write_manifest(pets.frame, "m.csv"),
        WriteError, "m.csv", "a manifest is a Parquet file", "df.to_csv",
    ),
    WrongCall(
        "a manifest without ids",
        lambda pets: dfgen.write_manifest(pets.frame.drop(columns="id"), "m.parquet"),
        ManifestError, 'no column "id"', "a name of its own", 'df["id"] = range(len(df))',
    ),
    WrongCall(
        "a manifest with each row twice",
        lambda pets: dfgen.write_manifest(pd.concat([pets.frame] * 2), "m.parquet"),
        ManifestError, "100 (rows 0, 12)", "An id is the name of one row", ".duplicated(",
    ),
    WrongCall(
        "a frame that is read", lambda pets: dfgen.read_manifest(pets.frame), ArgumentError,
        "got a DataFrame", "'pets.parquet'", "give it to dfgen.Sequence as it is",
    ),
    WrongCall(
        "a CSV file that is read as a manifest", lambda pets: dfgen.read_manifest("labels.csv"),
        ManifestError, "labels.csv is no manifest", "a Parquet file of dfgen", "pd.read_csv",
    ),
    WrongCall(
        "update_labels with its arguments swapped",
        lambda pets: dfgen.update_labels("labels.csv", written(pets)), ArgumentError,
        "is a manifest", "expected corrections: it comes first", "dfgen update-labels",
    ),
    WrongCall(
        "a correction of an id that is not there", corrected(id=[999], kind=["cat"]),
        ManifestError, '"999"', "not in the manifest", "leave their rows out",
    ),
    WrongCall(
        "a correction to a misspelt class", corrected(id=[100], kind=["cta"]), ManifestError,
        '"cta" in row 0 (id "100")', "Classes: cat, dog, owl", 'Did you mean "cat"?',
    ),
    WrongCall(
        "a correction of a misspelt column", corrected(id=[100], knd=["cat"]), ManifestError,
        'column "knd"', "Labels: kind, age, legs", 'Did you mean "kind"?',
    ),
    WrongCall(
        "two corrections of one id", corrected(id=[100, 100], kind=["cat", "dog"]), ManifestError,
        '"100" (rows 0, 1: kind "cat", "dog")', "Each id has one row", "keep one of them",
    ),
    WrongCall(
        "a correction to nothing", corrected(id=[100], kind=[None]), ManifestError,
        'row 0 (id "100")', "the manifest has a label", "leave the row out",
    ),
    WrongCall(
        "corrections without ids", corrected(kind=["cat"]), ManifestError, "Columns: kind",
        'no column "id" to join on', 'Call the column of ids "id"',
    ),
    WrongCall(
        "a correction of a number by a word", corrected(id=[100], age=["old"]), ManifestError,
        '"old" in row 0 (id "100")', "a value of type double", "as the manifest has",
    ),
    WrongCall(
        "a correction of a path", corrected(id=[100], path=["x.jpg"]), ManifestError,
        'column "path"', "Labels: kind, age, legs", "Rename it",
    ),
    WrongCall(
        "corrections as a dict", lambda pets: dfgen.update_labels(written(pets), {100: "dog"}),
        ManifestError, "got a dict", "a pandas or Polars DataFrame", "pd.DataFrame(given)",
    ),
    WrongCall(
        "verify of two paths in a list", lambda pets: dfgen.verify(["a.parquet", "b.parquet"]),
        ManifestError, "got a list", "a pandas or Polars DataFrame", "pd.concat",
    ),
    WrongCall(
        "verify of the folder of images", lambda pets: dfgen.verify("imgs"), ManifestError,
        "it is a folder", "a Parquet file of dfgen", 'dfgen.build_manifest("imgs")',
    ),
    WrongCall(
        "diff of a frame without ids",
        lambda pets: dfgen.diff(pets.frame.drop(columns="id"), pets.frame), ManifestError,
        'no column "id"', "a name of its own", "rename the column that has it",
    ),
    WrongCall(
        "diff with a folder", lambda pets: dfgen.diff(pets.frame, "imgs"), ManifestError,
        "it is a folder", "a Parquet file of dfgen", 'dfgen.build_manifest("imgs")',
    ),
    WrongCall(
        "shares in percent", lambda pets: dfgen.split(pets.frame, {"train": 80, "val": 20}),
        ArgumentError, "train=80, val=20 add up to 100", "Shares must add up to 1",
        "{'train': 0.8, 'val': 0.2}",
    ),
    WrongCall(
        "shares in a list", lambda pets: dfgen.split(pets.frame, [0.8, 0.2]), ArgumentError,
        "split=[0.8, 0.2]", "split -> share", '{"train": 0.8, "val": 0.2}',
    ),
    WrongCall(
        "one share", lambda pets: dfgen.split(pets.frame, 0.2), ArgumentError, "split=0.2",
        "split -> share", '{"train": 0.8, "val": 0.2}',
    ),
    WrongCall(
        "test_size, as scikit-learn has it", lambda pets: dfgen.split(pets.frame, test_size=0.2),
        UnknownArgumentError, "test_size", "name each split with its share",
        '{"train": 0.8, "val": 0.2}',
    ),
    WrongCall(
        "a misspelt column to stratify by",
        lambda pets: dfgen.split(pets.frame, HALVES, stratify="knd"), ArgumentError,
        'stratify="knd"', "Columns: id, path, kind, age, legs", 'Did you mean "kind"?',
    ),
    WrongCall(
        "a group that leaves a split empty",
        lambda pets: dfgen.split(pets.frame.assign(one=1), HALVES, group="one"), UserWarning,
        'Split "', "has no row", "more groups",
    ),
    WrongCall(
        "sequences of a frame without splits",
        lambda pets: dfgen.sequences(pets.frame, y="kind"), ManifestError, 'no column "split"',
        "Columns: id, path, kind, age, legs", "dfgen.split(df,",
    ),
    WrongCall(
        "sequences of two frames", lambda pets: dfgen.sequences([pets.frame] * 2, y="kind"),
        ManifestError, "got a list", "a pandas or Polars DataFrame", "pd.concat",
    ),
    WrongCall(
        "a split that is not there",
        lambda pets: dfgen.sequences(divided(pets), y="age")["test"],
        KeyError, "'test'", "expected one of", "'train', 'val'",
    ),
    WrongCall(
        "a pack of a CSV file", lambda pets: dfgen.pack("labels.csv", "packed"), ManifestError,
        "labels.csv is no manifest", "a Parquet file of dfgen", "pd.read_csv",
    ),
    WrongCall(
        "a pack of one number for its size", lambda pets: packed(pets, image_size=8),
        ArgumentError, "got 8", "(height, width) in pixels", "image_size=(8, 8)",
    ),
    WrongCall(
        "a pack into a file", lambda pets: packed(pets, "labels.csv"), WriteError, "labels.csv",
        "cannot be packed into", "Not a directory",
    ),
    WrongCall(
        "a misspelt column of a pack", lambda pets: dfgen.Sequence(packed(pets), y="knd"),
        ManifestError, 'y="knd"', "Columns: id, path, kind", 'Did you mean "kind"?',
    ),
    WrongCall(
        "a cache of what is packed",
        lambda pets: dfgen.Sequence(packed(pets), y="kind", cache="cache"), ArgumentError,
        "cache='cache'", "no image to keep", "in a pack already",
    ),
    WrongCall(
        "images larger than they are packed",
        lambda pets: dfgen.Sequence(packed(pets), y="kind", image_size=(32, 32)), UserWarning,
        "packed with image_size=(8, 8)", "enlarged to (32, 32)", "pack them in this size",
    ),
]  # fmt: skip
