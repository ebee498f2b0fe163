"""Frames with faults, odd ones that are none, and frames that their owner changes later."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from loaders import batches_of

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DfgenError, ManifestError
from dfgen.loading.loader import Loader

ROWS = 6
KINDS = ["a", "b"] * (ROWS // 2)


@pytest.fixture
def plain(files):
    kinds = pd.Categorical(KINDS)
    return pd.DataFrame({"id": [*"uvwxyz"], "path": files[:ROWS], "kind": kinds})


def bound(frame, **options):
    return bind(SequenceArguments(frame, y="kind", image_size=(4, 4), **options))


def rows_seen(frame, batch_size=4, **options):
    """Train two epochs: return (epoch, id, number in the image, class) of what was seen, sorted."""
    loader = Loader(bound(frame, **options).reader, batch_size=batch_size, workers=2)
    seen = []
    for epoch in range(2):
        for batch in batches_of(loader, epoch):
            red, labels = batch.arrays["image"][:, 0, 0, 0], batch.arrays["label"]
            seen += zip(
                [epoch] * len(red),
                loader.ids_at(batch.rows),
                map(int, red),
                map(int, labels),
                strict=True,
            )
    loader.close()
    return sorted(seen)


def due(ids, numbers, labels):
    return sorted((e, *row) for e in range(2) for row in zip(ids, numbers, labels, strict=True))


ALL = (list("uvwxyz"), range(ROWS), [0, 1] * 3)

REFUSED = {
    "duplicate ids": (lambda df: df.assign(id=[*"uvwwyz"]), r'"w" \(rows 2, 3\)'),
    "null ids": (lambda df: df.assign(id=["u", None, *"wxyz"]), "no id .* row 1"),
    "ids with NaN": (lambda df: df.assign(id=[0, np.nan, 2, 3, 4, 5]), "id.* double"),
    "null paths": (lambda df: df.assign(path=[None, *df["path"][1:]]), "no path .* row 0"),
    "null labels": (
        lambda df: df.assign(kind=pd.Categorical([None, *KINDS[1:]])), "no class in 1 rows"
    ),
    "NaN": (lambda df: df.assign(kind=[np.nan, 1.0, 2.0, 3.0, 4.0, 5.0]), "kind.* in row 0"),
    "mixed labels": (lambda df: df.assign(kind=["a", 1, "b", "a", "b", "a"]), "kind.* int, str"),
    "mixed ids": (lambda df: df.assign(id=["u", 1, *"wxyz"]), "id.* int, str"),
    "no rows": (lambda df: df[:0], "no rows"),
    "a column twice": (lambda df: pd.concat([df, df[["kind"]]], axis=1), "several times"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_odd_frames_are_rejected_by_column_and_row(plain, fault):
    spoil, word = REFUSED[fault]
    with pytest.raises(ManifestError, match=word):
        bound(spoil(plain))


def test_class_outside_class_names_is_never_added(plain):
    with pytest.raises(DfgenError) as caught:
        bound(plain, class_names=["a"])
    assert "'b'" in str(caught.value)
    assert "kind" in str(caught.value)
    unused = plain.assign(kind=pd.Categorical(KINDS, ["b", "c", "a"]))
    assert rows_seen(unused) == due(*ALL[:2], [2, 0] * 3)


AB = ["a", "b"]
STRAY = {  # what stands in the last of six rows, whose others are a and b
    "text": ("z", dfgen.Category("kind", class_names=AB)),
    "another case": ("A", dfgen.Category("kind", "categorical", class_names=AB)),
    "a blank behind it": ("a ", dfgen.Category("kind", "binary", class_names=AB)),
    "an accent": ("a\u0301", dfgen.Category("kind", class_names=AB)),
    "nothing between quotes": ("", dfgen.Category("kind", class_names=AB, missing="ignore")),
    "one of a list": (["a", "z"], dfgen.MultiLabel("kind", class_names=AB)),
    "one of a list that may be missing": (
        ["z"], dfgen.MultiLabel("kind", class_names=AB, missing="ignore"),
    ),
    "one of a text": ("a;b", dfgen.MultiLabel("kind", class_names=AB, sep=",")),
}  # fmt: skip


@pytest.mark.parametrize("form", ["frame", "categories", "arrow", "manifest", "input"])
@pytest.mark.parametrize("name", STRAY)
def test_stray_class_is_rejected_for_every_label_kind(plain, tmp_path, name, form):
    stray, feature = STRAY[name]
    known = ["a", "b"] * 2 + ["a"]
    kinds = [[one] for one in known] if isinstance(stray, list) else known
    df = plain.assign(kind=pd.Series([*kinds, stray], dtype=object))
    if form == "categories" and isinstance(stray, str):
        df["kind"] = df["kind"].astype("category")
    given, x, y, options = df, dfgen.Image(size=(4, 4)), feature, {"workers": 0}
    if form == "arrow":
        given = pa.Table.from_pandas(df)
    if form == "manifest":
        given = dfgen.write_manifest(df, tmp_path / "m.parquet") or tmp_path / "m.parquet"
    if form == "input":
        x, y = [x, replace(feature, missing="raise")], None
        options |= {"label_mode": None}
    with pytest.raises(DfgenError, match="not among its class names: 'a', 'b'"):
        dfgen.Sequence(given, x, y, **options)


@pytest.mark.parametrize(
    "index",
    [[*"aabbcc"], [5, 4, 3, 2, 1, 0], [None, 1.5, 1.5, -1, 7, 0], pd.date_range("2020", periods=6)],
)
def test_index_of_any_kind_is_ignored(plain, index):
    assert rows_seen(plain.set_axis(index)) == due(*ALL)
    assert rows_seen(plain.set_axis(index)[::-1].iloc[::2]) == due("zxv", [5, 3, 1], [1, 1, 1])
    assert rows_seen(plain.set_index([plain["kind"], plain["id"]])) == due(*ALL)


@pytest.mark.parametrize("batch_size", [1, 5, 6, 7, 1000])
def test_single_rows_and_partial_batches_are_all_seen(plain, batch_size):
    assert rows_seen(plain, batch_size) == due(*ALL)
    assert rows_seen(plain[3:4], batch_size) == due("x", [3], [1])


def test_columns_named_like_dfgen_columns_are_ignored(plain):
    named = {"width": "wide", "bytes": None, "fold": "x", "split": 1, "index": 3, "image": 0}
    named |= {"label": 7, "weight": -1, "row": "r", "epoch": 9, "sample_weight": 5, "mtime_ns": "?"}
    assert rows_seen(plain.assign(**named)) == due(*ALL)


def test_later_changes_to_a_frame_change_nothing(plain):
    loader = Loader(bound(plain).reader, batch_size=2, workers=2)
    batches = batches_of(loader)
    first = next(batches)
    plain["kind"] = plain["kind"].cat.rename_categories(["z", "a"])
    plain.loc[:, "path"] = "/gone.png"
    plain.loc[:, "id"] = "same"
    plain.pop("path")
    seen = [first, *batches, *batches_of(loader, 1)]
    loader.close()
    found = [
        (epoch, id, int(red), int(label))
        for epoch, batch in zip([0] * 3 + [1] * 3, seen, strict=True)
        for id, red, label in zip(
            loader.ids_at(batch.rows),
            batch.arrays["image"][:, 0, 0, 0],
            batch.arrays["label"],
            strict=True,
        )
    ]
    assert sorted(found) == due(*ALL)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float64", "float32", "bool"])
def test_source_arrays_of_a_frame_may_be_overwritten(dtype):
    ids, values = np.arange(ROWS), np.array([1, 0] * 3, dtype)
    frame = pd.DataFrame({"id": ids, "x": values}, copy=False)
    reader = bind(SequenceArguments(frame, x="x")).reader
    before = _read(reader)
    ids[:], values[:] = 7, 1
    assert _read(reader) == before


def _read(reader):
    loader = Loader(reader, batch_size=ROWS, workers=0)
    (batch,) = batches_of(loader)
    loader.close()
    return loader.ids_at(batch.rows), {name: array.tolist() for name, array in batch.arrays.items()}
