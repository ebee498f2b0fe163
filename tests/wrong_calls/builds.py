"""What is given to the functions and commands that make, read and check manifests."""

import os
import re

import numpy as np
from command import run

import dfgen
from dfgen.errors import (
    ArgumentError,
    ManifestError,
    MissingFileError,
    UnknownArgumentError,
    WriteError,
)
from wrong_calls import WrongCall

SHARES = {"train": 0.8, "val": 0.2}
BUILD = "build_manifest has no argument"


class CommandFailed(Exception):
    """A command that ended with another exit code than 0."""


def command(*arguments):
    """Return a call that runs a command, and raises what it says on stderr."""

    def call(pets):
        done = run(*arguments)
        if done.returncode:
            raise CommandFailed(re.sub(r"[│╭╮╰╯─\s]+", " ", done.stderr or done.stdout))

    return call


def build(*given, **options):
    return lambda pets: dfgen.build_manifest(*given, **options)


def split(**options):
    return lambda pets: dfgen.split(pets.frame, **options)


def foreign(name, value, *said):
    """Return the wrong call of an argument that another library has."""
    call = build("imgs", **{name: value})
    return WrongCall(f"{name} of others", call, UnknownArgumentError, BUILD, *said)


def arrays(pets, **shapes):
    """Write .npy files, and build from them."""
    for name, (shape, dtype) in shapes.items():
        np.save(f"{name}.npy", np.zeros(shape, dtype))
    return dfgen.build_manifest(arrays=[f"{name}.npy" for name in shapes])


def written(pets, name, use):
    """Write the frame, not as a manifest, and use it as one."""
    pets.frame.to_csv(name, index=False) if name[-3:] == "csv" else pets.frame.to_parquet(name)
    return use(name)


def emptied(pets):
    """Empty one image, and build a manifest."""
    os.truncate(pets.frame["path"][0], 0)
    return dfgen.build_manifest("imgs")


def dropped(pets):
    """Build a manifest with labels of nine of the twelve files."""
    labels = pets.frame[:9].rename(columns={"id": "object_id"})[["object_id", "age"]]
    return dfgen.build_manifest(
        "imgs", pattern="{kind}/{id}.jpg", labels=labels, on="id=object_id", unmatched="drop"
    )


def cut_in_half(pets):
    """Cut the end off an image, and verify what the manifest takes for whole."""
    path = pets.frame["path"][0]
    os.truncate(path, os.path.getsize(path) - 40)
    dfgen.build_manifest("imgs", out="m.parquet")
    assert run("verify", "m.parquet").returncode == 0
    done = run("verify", "m.parquet", "--decode", "--json")
    assert done.returncode == 1
    raise CommandFailed(done.stdout)


CALLS = [
    # the first argument of build_manifest
    WrongCall(
        "a DataFrame for the folder", lambda pets: dfgen.build_manifest(pets.frame),
        ArgumentError, "source=a pandas.DataFrame", "expected text", "dfgen.Sequence(df)",
    ),
    WrongCall(
        "a Series for the folder", lambda pets: dfgen.build_manifest(pets.frame["path"]),
        ArgumentError, "source=a pandas.Series", "folder of the files", "dfgen.Sequence(pandas",
    ),
    WrongCall(
        "a list of paths for the folder", lambda pets: dfgen.build_manifest([*pets.frame["path"]]),
        ArgumentError, "source=a list of 12", "expected text", 'DataFrame({"id": range(len(paths))',
    ),
    WrongCall(
        "a dict for the folder", build({"path": ["a.jpg"]}),
        ArgumentError, "source={'path'", "expected text", "labels= with path_column=",
    ),
    WrongCall(
        "a table for the folder", build("labels.csv"),
        ManifestError, '"labels.csv" is a file', "the folder of the images", "labels= (--labels)",
    ),
    WrongCall(
        "a manifest for the folder", lambda pets: written(pets, "m.parquet", dfgen.build_manifest),
        ManifestError, '"m.parquet" is a file', "A manifest", "dfgen.read_manifest(path)",
    ),
    WrongCall(
        "an image for the folder", build("imgs/cat/100.jpg"),
        ManifestError, '"imgs/cat/100.jpg" is a file', "the folder of the images", '"imgs/cat"',
    ),
    WrongCall(
        "a file of arrays for the folder",
        lambda pets: [arrays(pets, x=((3, 2), "f")), dfgen.build_manifest("x.npy")],
        ManifestError, '"x.npy" is a file', "a row for each sample", "arrays= (--arrays)",
    ),
    WrongCall(
        "a folder that is not there", build("imgz"),
        MissingFileError, 'no folder "imgz"', "Looked in", 'Did you mean "imgs"?',
    ),
    WrongCall(
        "a folder of a folder below", build("cat"),
        MissingFileError, 'no folder "cat"', "Looked in", 'There is "imgs/cat"',
    ),
    WrongCall(
        "a glob for the folder", build("imgs/*/*.jpg"),
        MissingFileError, '"imgs/*/*.jpg"', "No * is expanded", "pattern=",
    ),
    WrongCall(
        "a folder with backslashes", build("imgs\\cat"),
        MissingFileError, '"imgs\\\\cat"', "there is no folder", "Write / for each backslash",
    ),
    WrongCall(
        "a bucket for the folder", build("gopher://bucket/imgs"),
        MissingFileError, '"gopher://bucket/imgs"', "Mount it", "listing=",
    ),
    WrongCall(
        "a home folder that no shell has made whole", build("~/imgs"),
        MissingFileError, '"~/imgs"', "is not expanded", os.path.expanduser("~/imgs"),
    ),
    WrongCall(
        "a folder without images", lambda pets: [os.mkdir("no"), dfgen.build_manifest("no")],
        ManifestError, 'no file in "no"', "Extensions that are opened", "the folder is empty",
    ),
    WrongCall("nothing to build from", build(), ArgumentError, "nothing", "a folder", "labels="),
    WrongCall(
        "a table without path_column", build(labels="labels.csv"),
        ArgumentError, "by labels=", "a folder of files", "path_column=",
    ),
    # other arguments of build_manifest
    WrongCall(
        "labels of Keras", build("imgs", labels="inferred"),
        ArgumentError, "labels=", "which part of a file's path", "on= (--on)",
    ),
    foreign("label_mode", "categorical", "dfgen.Sequence", "makes the batches"),
    foreign("validation_split", 0.2, "each split with its share", '{"train": 0.8, "val": 0.2}'),
    foreign("valid_pct", 0.2, "each split with its share", '{"train": 0.8, "val": 0.2}'),
    foreign("subset", "training", "a split is a column", 'df.split == "train"'),
    foreign("follow_links", True, "follow_links:", "are followed"),
    foreign("is_valid_file", None, "keeps its row", "the column problem"),
    foreign("random_state", 1, "random_state", "is now seed"),
    foreign("directory", "imgs", "directory", "is now source"),
    foreign("num_workers", 2, "num_workers", "is now workers"),
    foreign("patern", "{id}.jpg", "Arguments: source", 'Did you mean "pattern"?'),
    WrongCall(
        "class_names of Keras", build("imgs", class_names=["cat"]),
        ArgumentError, "class_names=", "voc=", "leave class_names= out",
    ),
    WrongCall(
        "a glob for the pattern", build("imgs", pattern="*/*.jpg"),
        ArgumentError, '"*/*.jpg"', "it is no glob", "{kind}/{shard}/{id:int}.jpg",
    ),
    WrongCall(
        "a regular expression for the pattern", build("imgs", pattern=r"(\w+)/(\d+)\.jpg"),
        ArgumentError, r"\\d+", "no regular expression", "{kind}/{shard}/{id:int}.jpg",
    ),
    WrongCall(
        "a compiled expression for the pattern", build("imgs", pattern=re.compile("a")),
        ArgumentError, "re.compile('a')", "expected text", '"{kind}/{id}.jpg"',
    ),
    WrongCall(
        "a pattern of another depth", build("imgs", pattern="{label}.jpg"),
        ManifestError, '"{label}.jpg"', '"cat/100.jpg"', "a field in braces for each part",
    ),
    WrongCall(
        "a pattern with the folder in it", build("imgs", pattern="imgs/{kind}/{id}.jpg"),
        ManifestError, '"imgs/{kind}/{id}.jpg"', "begins below the folder", 'leave "imgs" out',
    ),
    WrongCall(
        "a pattern with backslashes", build("imgs", pattern="{kind}\\{id}.jpg"),
        ManifestError, '"{kind}\\\\{id}.jpg"', "separated by /", "write no backslash",
    ),
    WrongCall(
        "a number of workers in words", build("imgs", workers="auto"),
        ArgumentError, "workers='auto'", "a whole number", "of 0 or more",
    ),
    WrongCall(
        "a frame to update", lambda pets: dfgen.build_manifest("imgs", update=pets.frame),
        ArgumentError, "got a DataFrame", "the path of a manifest", "'pets.parquet'",
    ),
    WrongCall(
        "CSV to write", build("imgs", out="m.csv"),
        WriteError, "m.csv is called .csv", "a Parquet file", "name it m.parquet",
    ),
    WrongCall(
        "a folder to write into that is not there", build("imgs", out="no/m.parquet"),
        WriteError, "no/m.parquet", "does not exist", "Create the folder first",
    ),
    # files
    WrongCall(
        "a table whose files are all elsewhere",
        lambda pets: dfgen.build_manifest(
            labels=pets.frame.assign(path="imgz/1.jpg"), path_column="path"
        ),
        MissingFileError, "imgz/1.jpg", "no folder 'imgz'", "root= (--root)",
    ),
    WrongCall(
        "files that cannot be read", emptied, UserWarning, "1 problem",
        "the file is empty (0 bytes)", 'df["problem"].notna()',
    ),
    WrongCall(
        "labels that were dropped", dropped,
        UserWarning, "Left out 3 files", "without a row", "the label table",
    ),
    WrongCall(
        "x and y as two files of arrays",
        lambda pets: arrays(pets, x=((20, 4, 4), "f"), y=((20,), "i")),
        ManifestError, "y.npy has 20 rows of int32 ()", "x and y of the same rows", 'df["y"] =',
    ),
    WrongCall(
        "x and y of unlike lengths", lambda pets: arrays(pets, x=((20, 4), "f"), y=((19, 2), "f")),
        ManifestError, "y.npy has 19 rows of float32 (2,)", "are not alike", 'dfgen.Array("y_path"',
    ),
    WrongCall(
        "an .npz", lambda pets: [np.savez("a.npz", x=np.zeros(3)),
                                 dfgen.build_manifest(arrays="a.npz")],
        ManifestError, "a.npz", "neither .npy nor HDF5", "numpy.save",
    ),
    WrongCall(
        "an array in hand", build(arrays=np.zeros((30, 4))),
        ArgumentError, "arrays=a numpy.ndarray of shape (30, 4)", "expected text", "or a list",
    ),
    # splits
    WrongCall("a share alone", lambda pets: dfgen.split(pets.frame, 0.8),
              ArgumentError, "split=0.8", "split -> share", '{"train": 0.8, "val": 0.2}'),
    WrongCall("percentages", lambda pets: dfgen.split(pets.frame, {"train": 80, "val": 20}),
              ArgumentError, "train=80, val=20", "add up to 1", "{'train': 0.8, 'val': 0.2}"),
    WrongCall("shares that do not add up", build("imgs", split={"train": 0.8, "val": 0.1}),
              ArgumentError, "add up to 0.9", "must add up to 1", "'train': 0.8888889"),
    WrongCall("one share", build("imgs", split={"train": 0.8}),
              ArgumentError, "add up to 0.8", "must add up to 1", "the rest too, as in val=0.2"),
    WrongCall("a split that is a number", build("imgs", split=0.2),
              ArgumentError, "split=0.2", "split -> share", '{"train": 0.8, "val": 0.2}'),
    WrongCall("test_size of scikit-learn", split(test_size=0.2),
              UnknownArgumentError, "test_size", "its share", '{"train": 0.8, "val": 0.2}'),
    WrongCall("n_splits of scikit-learn", split(n_splits=5),
              UnknownArgumentError, "n_splits", "is now", "folds"),
    WrongCall("names for arguments", split(train=0.8, val=0.2),
              UnknownArgumentError, "train:", "its share", '{"train": 0.8, "val": 0.2}'),
    WrongCall("a stratify that says yes", split(shares=SHARES, stratify=True),
              ArgumentError, "stratify=True", "the name of one column", 'stratify="kind"'),
    WrongCall("a stratify of values",
              lambda pets: dfgen.split(pets.frame, SHARES, stratify=pets.frame["kind"]),
              ArgumentError, "stratify=a pandas.Series", "the name of one column", 'y="kind"'),
    WrongCall("a seed of text", split(shares=SHARES, seed="0"),
              ArgumentError, "seed='0'", "a whole number", "seed=0"),
    WrongCall("a split of a table that is no manifest",
              lambda pets: dfgen.split("labels.csv", SHARES),
              ManifestError, "labels.csv is no manifest", "a Parquet file", "pd.read_csv"),
    # reading and writing
    WrongCall("CSV for a manifest", lambda pets: dfgen.read_manifest("labels.csv"),
              ManifestError, "labels.csv is no manifest", "a Parquet file", "pd.read_csv"),
    WrongCall("a folder for a manifest", lambda pets: dfgen.read_manifest("imgs"),
              ManifestError, "imgs is no manifest", "a Parquet file", "dfgen.build_manifest("),
    WrongCall("Parquet that is no manifest",
              lambda pets: written(pets, "m.parquet", dfgen.read_manifest),
              ManifestError, "m.parquet is a Parquet file", "dfgen", "dfgen.write_manifest"),
    WrongCall("a frame to read", lambda pets: dfgen.read_manifest(pets.frame),
              ArgumentError, "got a DataFrame", "the path of a manifest", "dfgen.Sequence"),
    WrongCall("filters of pandas.read_parquet",
              lambda pets: dfgen.read_manifest("m.parquet", filters=[("split", "==", "train")]),
              UnknownArgumentError, "filters", "where=", "split == 'train'"),
    WrongCall("CSV to write a frame to", lambda pets: dfgen.write_manifest(pets.frame, "m.csv"),
              WriteError, "is called .csv", "a Parquet file", "df.to_csv"),
    WrongCall("the path before the frame",
              lambda pets: dfgen.write_manifest("m.parquet", pets.frame),
              ArgumentError, "'m.parquet' first", "the frame and then the path", "(df, path)"),
    WrongCall("index of pandas.to_parquet",
              lambda pets: dfgen.write_manifest(pets.frame, "m.parquet", index=False),
              UnknownArgumentError, "index", "never written", "df.reset_index()"),
    WrongCall("a frame without paths",
              lambda pets: dfgen.write_manifest(pets.frame.drop(columns="path"), "m.parquet"),
              ManifestError, "Columns: id, kind", 'no column "path"', "holds the file"),
    # verify
    WrongCall("a frame without ids to verify",
              lambda pets: dfgen.verify(pets.frame.drop(columns="id")),
              ManifestError, 'no column "id"', "a name of its own", 'df["id"] = range(len(df))'),
    WrongCall("a Series to verify", lambda pets: dfgen.verify(pets.frame["path"]),
              ManifestError, "got a Series", "pandas or Polars DataFrame", 'df[["id", "path"]]'),
    WrongCall("a list to verify", lambda pets: dfgen.verify([*pets.frame["path"]]),
              ManifestError, "got a list", "must be", "pandas or Polars DataFrame"),
    WrongCall("a folder to verify", lambda pets: dfgen.verify("imgs"),
              ManifestError, "imgs is no manifest", "a Parquet file", "dfgen.build_manifest("),
    WrongCall("a frame to correct", lambda pets: dfgen.verify(pets.frame, write=True),
              ArgumentError, "a frame was given", "the path of a manifest", "write=True"),
    # commands
    WrongCall("build-manifest of nothing", command("build-manifest"),
              CommandFailed, "say with --out", "where to write", "--out pets.parquet"),
    WrongCall("build-manifest without --out", command("build-manifest", "imgs"),
              CommandFailed, "say with --out", "where to write", "--out pets.parquet"),
    WrongCall("build-manifest into CSV", command("build-manifest", "imgs", "--out", "m.csv"),
              CommandFailed, "m.csv is called .csv", "a Parquet file", "name it m.parquet"),
    WrongCall("build-manifest into no folder", command("build-manifest", "imgs", "--out", "a/m"),
              CommandFailed, "a/m cannot be written", "does not exist", "Create the folder first"),
    WrongCall("an option that is called otherwise",
              command("build-manifest", "imgs", "--outt", "m.parquet"),
              CommandFailed, "No such option: --outt", "--out", "--help"),
    WrongCall("a share without a name",
              command("build-manifest", "imgs", "--out", "m.parquet", "--split", "0.8"),
              CommandFailed, "--split 0.8", "NAME=SHARE", "train=0.8"),
    WrongCall("a share in per cent",
              command("build-manifest", "imgs", "--out", "m.parquet", "--split", "train=80%"),
              CommandFailed, "--split train=80%", "NAME=SHARE", "train=0.8"),
    WrongCall("verify of a folder", command("verify", "imgs"),
              CommandFailed, "imgs is no manifest", "a Parquet file", "dfgen build-manifest"),
    WrongCall("verify of CSV", command("verify", "labels.csv"),
              CommandFailed, "labels.csv is no manifest", "a Parquet file", "--path-column path"),
    WrongCall("verify of a manifest that is not there", command("verify", "m.parquet"),
              CommandFailed, "there is no manifest", "m.parquet", "dfgen:"),
    WrongCall("an image that is cut short", cut_in_half,
              CommandFailed, '"broken": 1', "cannot be decoded: broken jpeg file", "100.jpg"),
]  # fmt: skip
