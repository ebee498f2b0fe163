"""Frames and files as odd as they come: numbers beyond 64 bits, types beyond Arrow, long texts."""

from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, WriteError
from wrong_calls import WrongCall

LONG = "x" * 100_000


def frame(what, change, raises, received, expected, advice, **arguments):
    """Return a call of a Sequence of a frame that was changed."""

    def call(pets):
        dfgen.Sequence(change(pets.frame), **{"y": "kind", "image_size": (8, 8), **arguments})

    return WrongCall(what, call, raises, received, expected, advice)


def written(what, change, raises, received, expected, advice):
    """Return a call that writes the manifest of a frame that was changed."""

    def call(pets):
        dfgen.write_manifest(change(pets.frame), "m.parquet")

    return WrongCall(what, call, raises, received, expected, advice)


def parted(what, call, raises, received, expected, advice):
    """Return a call that splits the frame."""
    return WrongCall(what, lambda pets: call(pets.frame), raises, received, expected, advice)


def boxes_of(pets, box):
    """Open a Sequence of frames with one box each."""
    frame = pets.frame.assign(boxes=[[box]] * 12, labels=[["cat"]] * 12)
    boxes = dfgen.Boxes("boxes", class_names=["cat"])
    dfgen.Sequence(frame, x=dfgen.Image("path", size=(8, 8)), y=boxes)


LISTS = pd.ArrowDtype(pa.list_(pa.int64()))
HALF = {"train": 0.5, "val": 0.5}
CALLS = [
    WrongCall("relative boxes as pixels", lambda pets: boxes_of(pets, [0.1, 0.2, 0.5, 1.0]),
              ManifestError, "column 'boxes' lie within 0 to 1 as xyxy", "expected pixels",
              'write source_format="rel_xyxy"'),
    frame("a number beyond 64 bits as y", lambda df: df.assign(kind=[10**30] * 12), ManifestError,
          "column 'kind' holds a number beyond 64 bits", "expected what UTF-8 or 64 bits",
          "df['kind'] = df['kind'].astype(str)"),
    frame("hashes of 128 bits as ids", lambda df: df.assign(id=[2**100 + i for i in range(12)]),
          ManifestError, "column 'id' holds a number beyond 64 bits", "expected what UTF-8",
          "df['id'] = df['id'].astype(str)"),
    frame("dates beside text", lambda df: df.assign(kind=[date(2020, 1, 1), "a"] * 6),
          ManifestError, "mixes date, str", "give it one type", ".astype(str)"),
    frame("objects of one's own as classes", lambda df: df.assign(kind=[object()] * 12),
          ManifestError, "holds object, which Arrow lacks", "give it one type",
          "df['kind'] = df['kind'].astype(str)"),
    frame("lists for ids", lambda df: df.assign(id=[[1]] * 12), ManifestError,
          'column "id" of the manifest has type list', "An id is a whole number or text",
          'df["id"] = df["id"].astype(str)'),
    frame("lists for ids, named", lambda df: df.assign(k=[["a"]] * 12), ManifestError,
          "has type list", "An id is a whole number or text", ".astype(str)", id="k"),
    frame("intervals for ids", lambda df: df.assign(id=pd.cut(df.id, 12)), ManifestError,
          'column "id" of the manifest has type', "An id is a whole number or text",
          'df["id"] = df["id"].astype(str)'),
    frame("half precision for ids", lambda df: df.assign(id=np.arange(12, dtype="f2")),
          ManifestError, "has type halffloat", "An id is a whole number or text",
          'df["id"].astype("int64")'),
    frame("a column name of 100 kB as y", lambda df: df, ManifestError, 'y="xxx',
          "xxx ... xxx", "Columns: id, path, kind, age, legs", y=LONG),
    frame("a class of 100 kB", lambda df: df.assign(kind=[LONG, "a"] * 6), ManifestError,
          "column 'kind' holds 'xxx", "xxx", "class_names=", class_names=["a", "b"]),
    frame("a control character as y", lambda df: df, ManifestError, r'y="\x1b[31m"',
          "is not a column of the manifest", "Columns: id, path", y="\x1b[31m"),
    frame("braces and per cent in a path", lambda df: df.assign(path="{0}%s{path!r}.jpg"),
          MissingFileError, "path='{0}%s{path!r}.jpg'", "there is no file", "Give root="),
    frame("a Series of complex numbers", lambda df: df.assign(kind=df.legs * 1j), ManifestError,
          "is of dtype complex128", "which Arrow lacks", 'df["kind_real"]'),
    written("sparse columns in a manifest",
            lambda df: df.assign(legs=pd.arrays.SparseArray(df.legs)), ManifestError,
            "column 'legs' of the frame is of dtype Sparse[int64, 0]", "expected a dense one",
            "df['legs'] = df['legs'].sparse.to_dense()"),
    written("hashes of 128 bits in a manifest", lambda df: df.assign(hash=[2**100] * 12),
            ManifestError, "column 'hash' of the frame holds a number beyond 64 bits",
            "expected what UTF-8 or 64 bits hold", "df['hash'] = df['hash'].astype(str)"),
    written("half a surrogate in a manifest",
            lambda df: df.assign(note=pd.Series(["\ud800"] * 12, dtype=object)), ManifestError,
            "text that is not Unicode", "expected what UTF-8", "mend the text"),
    written("intervals as a split", lambda df: df.assign(split=pd.cut(df.age, 2)), ManifestError,
            'column "split" of the frame has extension', "expected text or whole numbers",
            'df["split"] = df["split"].cat.rename_categories(str)'),
    written("intervals as labels", lambda df: df.assign(band=pd.cut(df.age, 2)), ManifestError,
            'column "band" ', "text or whole numbers", "(str)"),
    written("a function in each row", lambda df: df.assign(fn=[len] * 12), ManifestError,
            "column 'fn' of the frame holds builtin_function_or_method", "which Arrow lacks",
            "astype(str)"),
    parted("columns that are numbers, split",
           lambda df: dfgen.split(df.set_axis([0, 1, 2, 3, 4], axis=1), HALF), ManifestError,
           "the manifest has a column named 0", "which is not text", "rename it"),
    parted("lists of Arrow to stratify by",
           lambda df: dfgen.split(df.assign(t=pd.array([[1]] * 12, LISTS)), HALF, stratify="t"),
           ManifestError, '"t" holds lists', "not classes", "Make a column of one class"),
    parted("lists of Arrow as groups",
           lambda df: dfgen.split(df.assign(t=pd.array([[1]] * 12, LISTS)), HALF, group="t"),
           ManifestError, '"t" holds lists', "rows cannot be grouped by it", "Make a column"),
    parted("mixed types to order by",
           lambda df: dfgen.split(df.assign(t=["\ud800", 1] * 6), HALF, order="t"),
           ManifestError, 'order="t"', "expected dates, times or numbers", "Make them first"),
    parted("half a surrogate for the name of a split",
           lambda df: dfgen.split(df, {"\ud800": 0.5, "val": 0.5}), ArgumentError,
           r"split: \ud800=0.5", "Each split has a name and a share above 0",
           "as in train=0.8 val=0.2"),
    WrongCall("a manifest named by a folder", lambda pets: dfgen.write_manifest(pets.frame, "imgs"),
              WriteError, "is a folder", "give the name of a file", "such as pets.parquet"),
    WrongCall("random crops of a stretched image",
              lambda pets: dfgen.Image("path", size=(8, 8), crop="random"), ArgumentError,
              "crop='random'", "resize='stretch' crops nothing", "give load_size="),
    WrongCall(
        "weights that are all 0",
        lambda pets: dfgen.Sequence(pets.frame.assign(w=0.0), y="legs", sample_weight="w"),
        ManifestError, "all 12 rows weigh 0 by sample_weight='w'", "expected a weight above 0",
        "the model learns nothing",
    ),
]  # fmt: skip
