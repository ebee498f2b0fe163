"""Columns of odd kinds: each is used as it is meant, or an error names it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfgen
from dfgen.errors import ArgumentError, ManifestError

SIZE = {"image_size": (4, 4), "workers": 0, "shuffle": False}
NONE = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array(["a", None]))


def table(files, **columns):
    return pd.DataFrame({"id": range(4), "path": files[:4], **columns})


def opened(frame, x="path", y=None, **options):
    return dfgen.Sequence(frame, x, y, **{**SIZE, **options})


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_labels_within_text_are_blank(files, missing):
    tags = dfgen.MultiLabel("tags", sep=",", missing="ignore")
    seq = opened(table(files, tags=["cat, dog", missing, "", "dog"]), y=tags)
    labels, weights = seq[0][1:]
    assert seq.class_names == ["cat", "dog"] and weights.tolist() == [1, 0, 1, 1]
    np.testing.assert_array_equal(labels, [[1, 1], [0, 0], [0, 0], [0, 1]])


def test_text_labels_warn_about_nothing(files, recwarn):
    assert opened(table(files, kind=list("abab")), y="kind").class_names == ["a", "b"]
    assert not recwarn.list


@pytest.mark.parametrize("dtype", ["category", object, "string"])
def test_file_names_of_any_dtype_are_files(files, dtype):
    frame = table(files, image=[*files[:4]]).astype({"image": dtype})
    np.testing.assert_array_equal(
        opened(frame, "image", "id")[0][0], opened(frame, "path", "id")[0][0]
    )
    with pytest.raises(ArgumentError, match="Mask"):
        opened(frame, y="image")


def test_first_valid_value_decides(files):
    frame = table(files, mask=[None, *files[1:4]])
    with pytest.raises(ArgumentError, match="Mask"):
        opened(frame, y="mask")


@pytest.mark.parametrize(
    ("column", "y", "word"),
    [
        (["a, b", None, "", "b"], dfgen.MultiLabel("n", ["a", "b"], sep=","), "row 1"),
        (pd.Series([None] * 4, dtype="string"), dfgen.Category("n", missing="ignore"), "no class"),
        (np.ones(4, complex), "n", "complex128"),
        (pd.arrays.SparseArray([0.0, 1, 0, 1]), "n", "Sparse"),
        (np.ones(4, "datetime64[ns]"), "n", "timestamp"),
        ([None] * 4, "n", "null"),
        ([{"a": 1}] * 4, "n", "dfgen.Column"),
        (range(4), dfgen.Number, "class dfgen.Number"),
        (range(4), {"a": {"b": "n"}}, "list or dict"),
        (range(4), np.ones(4), "column name"),
    ],
)  # fmt: skip
def test_wrong_targets_are_named(files, column, y, word):
    with pytest.raises((ManifestError, ArgumentError), match=word):
        opened(table(files, n=column), y=y)


@pytest.mark.parametrize(
    ("column", "word"),
    [
        ([1, 2, 3, 4], ".jpg"),
        ([["a.png"], ["b.png"]] * 2, "explode"),
        ([["a.png", b"\x89PNG"]] * 4, "UTF8"),
    ],
)
def test_wrong_files_are_named(files, column, word):
    with pytest.raises((ManifestError, ArgumentError), match=word):
        dfgen.Sequence(table(files, v=column), dfgen.Image("v", size=(4, 4)), "id")


def test_repeated_ids_name_their_column(files):
    with pytest.raises(ManifestError, match=r'"a" \(rows 0, 2\).*"key"'):
        opened(table(files, key=list("abac")), id="key")


def test_where_needs_a_manifest_file(files):
    with pytest.raises(ArgumentError, match="query"):
        opened(table(files), where="id > 1")


@pytest.mark.parametrize(
    ("weight", "class_weight", "word"),
    [
        ([1.0] * 4, {"a": 1, "b": 1e300}, "1e[+]300"),
        ([1.0, None, 1, 1], None, "row 1"),
        ([1.0, -1, -0.5, 1], None, "2 of 4"),
        ([1.0, 1, np.inf, 1], None, "row 2"),
        ([1.0] * 4, np.array([1, 2]), "dict"),
        ([1.0] * 4, "Auto", "balanced"),
        ([1.0] * 4, {"a": float("inf"), "b": 1}, "inf"),
    ],
)
def test_wrong_weights_are_named(files, weight, class_weight, word):
    frame = table(files, kind=pd.Categorical(list("abab")), w=weight)
    with pytest.raises((ManifestError, ArgumentError), match=word):
        opened(frame, y="kind", sample_weight="w", class_weight=class_weight)


@pytest.mark.parametrize(
    ("column", "word"),
    [
        (NONE, "2 rows"),
        (pa.array([0.5, 1.0, 0.5, 1.0]).dictionary_encode(), "sampling_weight"),
        (pa.array([0.0, 1.0, 0.0, 1.0]), "sampling_weight"),
    ],
)
def test_wrong_balance_is_named(files, column, word):
    frame = pa.table({"id": range(4), "path": files[:4], "w": column})
    with pytest.raises(ManifestError, match=word):
        opened(frame, y="id", balance="w", shuffle=True)


def test_null_category_is_a_missing_label():
    frame = pa.table({"id": range(4), "n": NONE})
    y = dfgen.Category("n", missing="ignore")
    seq = dfgen.Sequence(frame, dfgen.Number("id"), y, shuffle=False, workers=0)
    assert seq.class_names == ["a"] and seq[0][2].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("columns", "fold", "error", "word"),
    [
        ({"split": [True, False]}, None, ManifestError, "bool"),
        ({"split": ["val", "test"]}, None, ManifestError, "train"),
        ({"split": ["train", None]}, None, ManifestError, "row 1"),
        ({"fold": ["0", "1"]}, 0, ArgumentError, "'0', '1'"),
        ({"fold": [True, False]}, 0, ArgumentError, "False, True"),
        ({"fold": [0, 0]}, 0, ManifestError, "none is left"),
        ({}, 0, ManifestError, "dfgen.split"),
    ],
)
def test_wrong_splits_are_named(files, columns, fold, error, word):
    frame = pd.DataFrame({"id": range(2), "path": files[:2], **columns})
    with pytest.raises(error, match=word):
        dfgen.sequences(frame, fold=fold, label_mode=None, workers=0)


def test_rows_without_bytes_and_path_are_named(files):
    with open(files[1], "rb") as file:
        images = [None, {"bytes": None, "path": None}, {"bytes": file.read(), "path": None}]
    frame = pa.table({"id": range(3), "image": images})
    with pytest.warns(UserWarning, match="2 problem"):
        built = dfgen.build_manifest(labels=frame, path_column="image")
    assert built["problem"].fillna("").tolist() == ["neither bytes nor a path"] * 2 + [""]
    with pytest.raises(ManifestError, match="bytes or path in 2 rows"):
        opened(frame, "image", "id")
