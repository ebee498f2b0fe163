"""Features of the table: odd types of columns, lists, text, functions and array files."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from public.first_batch import batch_of, equal, x_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError


def y_of(files, feature, values, **options):
    df = pd.DataFrame({"id": range(len(values)), "path": files[: len(values)], "c": values})
    return batch_of(df, dfgen.Image(size=(4, 4)), feature, **options)[1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.array([1, 2, 3], "Int64"), [1, 2, 3]),
        (pd.array([1, 2, 3], "uint8"), [1, 2, 3]),
        (np.array([1, 2, 3], np.float16), [1, 2, 3]),
        (pd.array([True, False, True], "boolean"), [1, 0, 1]),
        (pd.Series([1, 2, 3], dtype=pd.ArrowDtype(pa.int32())), [1, 2, 3]),
    ],
)
def test_numbers_of_any_type(files, values, expected):
    assert y_of(files, dfgen.Number("c"), values).tolist() == expected


def test_numbers_that_a_dtype_rounds_or_cannot_hold(files):
    y = y_of(files, dfgen.Number("c", "float16"), [0.1, 1e4, -2])
    equal(y, np.array([0.1, 1e4, -2], np.float16))
    for dtype, value in (("float16", 1e6), ("int32", 2**31), ("uint8", -1), ("bool", 2)):
        with pytest.raises(ManifestError, match="hold"):
            y_of(files, dfgen.Number("c", dtype), [0, value])


def test_categories_of_other_values(files):
    days = [datetime.date(2026, 1, day) for day in (2, 1, 2)]
    assert y_of(files, dfgen.Category("c"), days).tolist() == [1, 0, 1]
    ordered = pd.Categorical(["x", "y", "x"], ["y", "x"], ordered=True)
    assert y_of(files, dfgen.Category("c"), ordered).tolist() == [1, 0, 1]
    assert y_of(files, dfgen.Category("c", class_names=["x", "y"]), ordered).tolist() == [0, 1, 0]


@pytest.mark.parametrize("names", [[], ["a", "a"], "ab", {"a", "b"}, {"a": 0}, [["a"]], 3])
def test_class_names_are_distinct_and_in_order(names):
    for feature in (dfgen.Category, dfgen.MultiLabel):
        with pytest.raises(ArgumentError, match="class"):
            feature("c", class_names=names)


def test_labels_of_numbers_and_booleans(files):
    y = y_of(files, dfgen.MultiLabel("c", class_names=[3, 1]), [[1], [3, 1], []])
    assert y.tolist() == [[0, 1], [1, 1], [0, 0]]
    y = y_of(files, dfgen.MultiLabel("c", sep=";"), ["b; a", "", "c"])
    assert y.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "values", [[["a", None], ["a"]], [[["a"]], [["b"]]], [1, 2], ["a,,b", "c"], [["a"], None]]
)
def test_lists_that_hold_no_labels_are_refused(files, values):
    sep = "," if values[0] == "a,,b" else None
    with pytest.raises(DfgenError, match="'c'"):
        y_of(files, dfgen.MultiLabel("c", sep=sep), values)


def test_all_labels_missing_or_empty(files):
    for feature, values in ((dfgen.MultiLabel("c"), [[], []]), (dfgen.Category("c"), [None, None])):
        with pytest.raises(DfgenError, match=r"'c'|class"):
            y_of(files, feature, values)


def test_text_keeps_its_characters(files):
    texts = ["", "Kätzchen 犬", "a\0b", "x" * 1000]
    for how in ({}, {"workers": 1, "use_multiprocessing": True}):
        assert y_of(files, dfgen.Text("c"), texts, **how).tolist() == texts


def tokens(values, n=0):
    return [ord(one) for one in values]


def test_functions_of_columns(files):
    column = dfgen.Column("c", tokens, (None,), "int16", padding_mask=True)
    y = y_of(files, column, [["a"], [], ["b", "c"]])
    equal(
        y,
        {
            "column": np.array([[97, 0], [0, 0], [98, 99]], np.int16),
            "padding_mask": np.array([[1, 0], [0, 0], [1, 1]], bool),
        },
    )
    wrong = {"shape": tokens, "float": lambda c: 0.5, "ZeroDivisionError": lambda c: 1 / 0,
             "hold": lambda c: 2**40, "U1": lambda c: "x"}  # fmt: skip
    for word, fn in wrong.items():
        shape = (3,) if fn is tokens else ()
        with pytest.raises(DecodeError, match=rf"id=0.*{word}"):
            y_of(files, dfgen.Column("c", fn, shape, "int32"), [["a"]])
    for wrong in ({"fn": 3}, {"fn": lambda: 0}, {"names": []}, {"shape": (0,)}, {"dtype": "text"},
                  {"padding_mask": True}):  # fmt: skip
        with pytest.raises(ArgumentError):
            dfgen.Column(**{"names": "c", "fn": tokens, **wrong})


def test_a_function_gets_paths_below_the_root(files, tmp_path):
    df = pd.DataFrame({"id": [0], "path": ["a.txt"], "n": [3]})
    (tmp_path / "a.txt").write_text("7")

    def read(path, n):
        with open(path) as file:
            return int(file.read()) + n

    assert x_of(df, dfgen.Column(["path", "n"], read), root=tmp_path).tolist() == [10]


@pytest.fixture
def arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    return pd.DataFrame({"id": [0], "path": [f"{tmp_path}/a.npy"]})


@pytest.mark.parametrize(
    ("shape", "dtype", "word"),
    [
        ((3, 2), "int16", r"\(2, 3\)"),
        ((2, 3), "uint8", None),
        ((None, 4), "int16", r"\(2, 3\)"),
        ((None, 3), "int16", None),
        ((2, 3), "bool", "bool"),
    ],
)
def test_arrays_with_wrong_shape_or_type_are_rejected(arrays, shape, dtype, word):
    if word is None:
        equal(
            x_of(arrays, dfgen.Array("path", shape, dtype))[0],
            np.arange(6).reshape(2, 3).astype(dtype),
        )
        return
    with pytest.raises(DfgenError, match=word):
        x_of(arrays, dfgen.Array("path", shape, dtype))


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([print], object), allow_pickle=True)
    df = pd.DataFrame({"id": [0], "path": [f"{tmp_path}/a.npy"]})
    with pytest.raises(DecodeError, match="id=0"):
        x_of(df, dfgen.Array("path", (1,)))


@pytest.mark.parametrize(
    "options",
    [
        {"shape": 3},
        {"shape": (0,)},
        {"dtype": "text"},
        {"decode": 3},
        {"decode": lambda: 0},
        {"decode": len, "index": "n"},
        {"dataset": "d"},
        {"padding_mask": True},
        {"shape": (None, 3), "decode": len},
        {"shape": (None, 3), "missing": "ignore"},
    ],
)
def test_arguments_of_arrays_that_cannot_be_are_refused(options):
    with pytest.raises(ArgumentError):
        dfgen.Array(**{"column": "path", "shape": (3,), **options})


def test_lists_of_files_are_refused(files):
    df = pd.DataFrame({"id": [0, 1], "views": [files[:2], files[2:4]]})
    with pytest.raises(ArgumentError, match="explode"):
        x_of(df, dfgen.Image("views", size=(4, 4)))
