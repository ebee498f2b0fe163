"""Columns of odd kinds: each is taken as it is meant, or refused by a message that names it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.frame_columns import Columns
from dfgen.binding.ordering import Ordering
from dfgen.binding.split_rows import split_rows
from dfgen.errors import ArgumentError, ManifestError

SIZE = Options(image_size=(4, 4))
NONE = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array(["a", None]))


def table(files, **columns):
    return pd.DataFrame({"id": range(4), "path": files[:4], **columns})


@pytest.mark.parametrize("lacking", [None, np.nan, pd.NA])
def test_labels_within_a_text_may_be_missing_and_tell_the_classes_of_the_others(files, lacking):
    tags = dfgen.MultiLabel("tags", sep=",", missing="ignore")
    with pytest.warns(UserWarning, match="its 2 classes are numbered by the sorted values"):
        bound = bind(table(files, tags=["cat, dog", lacking, "", "dog"]), y=tags, options=SIZE)
    assert bound.class_names == ["cat", "dog"]
    assert bound.reader.present["label"].tolist() == [True, False, True, True]
    label = bound["label"]
    found = label.feature.gather(label.values, np.array([0, 2, 3]))
    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("column", "y", "message"),
    [
        (["a, b", None, "", "b"], dfgen.MultiLabel("n", ["a", "b"], sep=","),
         "column 'n' has no text in 1 rows, the first is row 1: write \"\" where a row has no "
         'labels, or, in y, give these rows no weight, by missing="ignore" in the feature'),
        (pd.Series([None] * 4, dtype="string"),
         dfgen.MultiLabel("n", sep=",", missing="ignore"),
         "column 'n' has no class in any row: give class_names="),
        (pd.Series([None] * 4, dtype="string"), dfgen.Category("n", missing="ignore"),
         "column 'n' has no class in any row: give class_names="),
        (np.ones(4, complex), "n",
         "column 'n' is of dtype complex128, which Arrow lacks: make two columns of it: "
         'df["n_real"] = df["n"].to_numpy().real, and .imag'),
        (pd.arrays.SparseArray([0.0, 1, 0, 1]), "n",
         "column 'n' is of dtype Sparse[float64, nan], expected a dense one: df['n'] = "
         "df['n'].sparse.to_dense()"),
        (np.ones(4, "datetime64[ns]"), "n",
         "column 'n' holds timestamp[ns], for which no feature is known: make numbers of it, as "
         "the days: df['n'] = (df['n'] - df['n'].min()).dt.days, or write dfgen.Column('n', fn, "
         "shape=...)"),
        (np.ones(4, "timedelta64[ns]"), "n",
         "column 'n' holds duration[ns], for which no feature is known: make numbers of it, as "
         "the days: df['n'] = df['n'].dt.days, or write dfgen.Column('n', fn, shape=...)"),
        ([None] * 4, "n",
         "column 'n' holds null, for which no feature is known: it is missing in all rows; drop "
         "it, or choose another column"),
        ([{"a": 1}] * 4, "n",
         "column 'n' holds struct<a: int64>, for which no feature is known: write "
         "dfgen.Column('n', fn, shape=...)"),
    ],
    ids=["null", "all null tags", "all null classes", "complex", "sparse", "dates", "spans",
         "nothing", "dicts"],
)  # fmt: skip
def test_columns_that_are_no_targets(files, column, y, message):
    with pytest.raises((ManifestError, ArgumentError)) as caught:
        bind(table(files, n=column), y=y, options=SIZE)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("y", "advice"),
    [
        (dfgen.Number, 'give an object of it, y=dfgen.Number("kind")'),
        ({"n", "id"}, "write y=['id', 'n'], whose order tells them apart"),
        ({"a": {"b": "n"}}, "lists and dicts are not nested in one another"),
        (np.ones(4), 'put it into a column of the frame, and write y="kind", its name'),
        (pd.Series([1] * 4, name="n"), 'put it into the frame, df["n"] = ..., and write y="n"'),
        (4.5, 'write y="kind"'),
    ],
    ids=["class", "set", "nested", "array", "column", "number"],
)
def test_a_target_that_is_neither_column_nor_feature_is_told_what_to_write(files, y, advice):
    with pytest.raises(ArgumentError) as caught:
        bind(table(files, n=range(4)), y=y, options=SIZE)
    text = str(caught.value)
    assert text.startswith("y must be a column name, a feature such as dfgen.Image, or a list or ")
    assert text.endswith(f": {advice}")


@pytest.mark.parametrize(
    ("paths", "dtype", "whole"), [([1, 2], "int64", ""), ([1.0, 2.0], "double", ".astype(int)")]
)
def test_numbers_are_no_paths_and_the_message_makes_paths_of_them(paths, dtype, whole):
    with pytest.raises(ManifestError) as caught:
        bind(pd.DataFrame({"id": [1, 2], "path": paths}), x=dfgen.Image("path"), y="id")
    assert str(caught.value) == (
        f"column 'path' holds {dtype}, expected paths of files: where files are named by it, "
        f'df["path"] = df[\'path\']{whole}.astype(str) + ".jpg"'
    )


def test_ids_of_a_column_of_another_name_that_repeat_are_found_in_that_column(files):
    with pytest.raises(ManifestError) as caught:
        bind(table(files, key=list("abac")), y=None, options=Options(label_mode=None), id="key")
    assert str(caught.value) == (
        'the manifest (id="key") has ids that are on several rows (1): "a" (rows 0, 2). Each row '
        'needs its own id. Find them with df[df["key"].duplicated(keep=False)]. Rows 0 and 2 of '
        "key='a' differ in id, path: was a table merged that has several rows of an id? Drop those "
        "first: table.drop_duplicates('key'), or gather its rows: groupby('key').agg(list)"
    )


def test_a_condition_is_for_the_path_of_a_manifest(files):
    with pytest.raises(ArgumentError) as caught:
        bind(table(files), where="id > 1")
    assert str(caught.value) == (
        "where='id > 1' filters the files of a manifest, expected its path, got a DataFrame: "
        "filter that, df.query(...), or give the path"
    )


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([{"a.png", "b.png"}] * 4, "column 'v' holds sets, which have no order: make them lists"),
        ([["a.png", b"\x89PNG"]] * 4,
         "column 'v' has lists that mix bytes, str: give all entries one type"),
    ],
    ids=["sets", "paths and bytes"],
)  # fmt: skip
def test_lists_that_are_no_lists_of_files(files, lists, message):
    with pytest.raises(ManifestError) as caught:
        bind(table(files, v=lists), dfgen.Image("v", size=(4, 4)), "id")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("weight", "class_weight", "message"),
    [
        ([1.0] * 4, {"a": 1, "b": 1e300},
         "class_weight makes the weight of row 1 more than float32 can hold, 3.4e+38: give "
         "smaller ones"),
        ([1.0, 1, 1, 1e30], {"a": 1, "b": 1e30},
         "class_weight makes the weight of row 3 more than float32 can hold, 3.4e+38: give "
         "smaller ones"),
        ([1.0, None, 1, 1], None,
         'sample_weight="w" is missing in 1 rows, the first is row 1: give them a weight, as 0, or '
         "drop them"),
        ([1.0, -1, -0.5, 1], None,
         'sample_weight="w" is -1 in row 1, and below 0 in 2 of 4 rows: training would make their '
         "loss larger. Expected 0 or more: df['w'] = df['w'].clip(lower=0) lets them count "
         "nothing"),
        ([1.0] * 4, np.array([1, 2]),
         'class_weight must be class -> weight or "balanced", got array([1, 2]): write '
         "class_weight=dict(enumerate(weights)). Classes: 'a', 'b', or 0 to 1"),
        ([1.0] * 4, "Auto",
         "class_weight must be class -> weight or \"balanced\", got 'Auto': write "
         "class_weight=\"balanced\". Classes: 'a', 'b', or 0 to 1"),
        ([1.0] * 4, 2.0,
         'class_weight must be class -> weight or "balanced", got 2.0: write class_weight={0: 1.0, '
         "1: 2.0}, or \"balanced\". Classes: 'a', 'b', or 0 to 1"),
        ([1.0] * 4, {"a": float("inf"), "b": 1},
         "class_weight gives class 0 the weight inf: expected a number of 0 or more"),
        ([1.0, 1, np.inf, 1], None, 'sample_weight="w" is inf in row 2: expected finite numbers'),
        ([0.0, 1, 0, 1], {"a": 1, "b": 0},
         "all 4 rows weigh 0 by sample_weight='w' and class_weight={'a': 1, 'b': 0}, so the model "
         "learns nothing: expected a weight above 0 in some row"),
    ],
    ids=["too large", "product", "missing", "negative", "array", "word", "number", "endless",
         "infinite", "all 0"],
)  # fmt: skip
def test_weights_that_no_loss_can_take(files, weight, class_weight, message):
    df = table(files, kind=pd.Categorical(list("abab")), w=weight)
    with pytest.raises((ManifestError, ArgumentError)) as caught:
        bind(df, y="kind", options=SIZE, sample_weight="w", class_weight=class_weight)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (NONE, "2 rows have no class"),
        (pa.array([0.5, 1.0, 0.5, 1.0]).dictionary_encode(), "sampling_weight="),
    ],
    ids=["a null category", "categories of floats"],
)  # fmt: skip
def test_categories_that_no_rows_are_drawn_by(files, column, message):
    given = pa.table({"id": range(4), "path": files[:4], "w": column})
    with pytest.raises(ManifestError, match=message):
        bind(given, y="id", options=SIZE, ordering=Ordering(balance="w"))


def test_a_null_category_is_no_class_but_a_missing_label():
    given = pa.table({"id": range(4), "n": NONE})
    bound = bind(given, dfgen.Number("id"), dfgen.Category("n", missing="ignore"))
    assert bound.class_names == ["a"]
    assert bound.reader.present["label"].tolist() == [True, False, True, False]


def test_splits_that_are_truth_values_are_refused_with_what_makes_names_of_them():
    with pytest.raises(ManifestError) as caught:
        split_rows(Columns(pa.table({"split": [True, False]})))
    assert str(caught.value) == (
        'the column "split" holds bool, expected names, as "train" and "val": of rows that '
        'validate write df["split"] = np.where(df["split"], "val", "train")'
    )


def test_a_fold_of_text_is_shown_as_such():
    with pytest.raises(ArgumentError) as caught:
        split_rows(Columns(pa.table({"fold": ["0", "1"]})), 0)
    assert str(caught.value) == "fold=0 is none of the folds of the manifest: '0', '1'"


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_row_without_bytes_and_path_is_a_problem_of_its_own(files):
    with open(files[1], "rb") as file:
        images = [None, {"bytes": None, "path": None}, {"bytes": file.read(), "path": None}]
    given = pa.table({"id": range(3), "image": images})
    built = dfgen.build_manifest(labels=given, path_column="image")
    assert built["problem"].fillna("").tolist() == ["neither bytes nor a path"] * 2 + [""]
    with pytest.raises(ManifestError) as caught:
        bind(given, "image", "id", options=SIZE)
    assert str(caught.value) == (
        "column 'image' has neither bytes nor a path in 2 rows, the first is row 0 (id 0): drop "
        'them, or, in y, give these rows no weight, by missing="ignore" in the feature'
    )
