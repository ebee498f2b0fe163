"""Columns to numbers: Number and Category."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each

from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.category import Category
from dfgen.samples.features.number import Number

OR_IGNORE = ', or, in y, give these rows no weight, by missing="ignore" in the feature'
MEND = ". Mend the values, drop such rows, or add them to class_names="
NO_CLASS = (
    "column 'kind' has 1 rows without a class; drop them: df = df[df['kind'].notna()]" + OR_IGNORE
)


def refused(kind, make):
    with pytest.raises(kind) as error:
        make()
    return str(error.value)


@each(
    ("column", "dtype", "expected"),
    [
        (pa.array([1, -2], pa.int64()), None, np.array([1, -2], np.int32)),
        (pa.array([1, 2], pa.uint8()), None, np.array([1, 2], np.int32)),
        (pa.array([True, False]), None, np.array([1, 0], np.int32)),
        (pa.array([0.5, 2.0]), None, np.array([0.5, 2], np.float32)),
        (pa.array([0.1], pa.float32()), "float64", np.array([np.float32(0.1)], np.float64)),
        (pa.array([2**40]), "int64", np.array([2**40])),
        (pa.array([3]), "float32", np.array([3], np.float32)),
        (pa.array([np.float16(0.5)]), None, np.array([0.5], np.float32)),
        (pa.array([np.float16(0.5)]), "float64", np.array([0.5], np.float64)),
        (pa.array([float("inf")]), None, np.array([np.inf], np.float32)),
        (pa.array([], pa.int64()), None, np.array([], np.int32)),
    ],
)
def test_number(column, dtype, expected):
    values = Number("n", dtype).encode(column)
    np.testing.assert_array_equal(values, expected)
    assert values.dtype == expected.dtype
    rows = np.arange(len(values))[::-1]
    np.testing.assert_array_equal(Number("n", dtype).gather(values, rows), expected[::-1])


@pytest.mark.parametrize(
    ("column", "dtype", "message"),
    [
        (pa.array(["a"]), None,
         "column 'n' holds string, Number needs numbers. For classes write dfgen.Category('n'), "
         "for numbers df['n'] = pd.to_numeric(df['n'])"),
        (pa.array([1, None, None]), None,
         "column 'n' has 2 missing values, the first in row 1; drop or fill "
         "them: df = df[df['n'].notna()]" + OR_IGNORE),
        (pa.array([1.5, None, float("nan")]), None,
         "column 'n' has 2 missing values, the first in row 1; drop or fill "
         "them: df = df[df['n'].notna()]" + OR_IGNORE),
        (pa.array([1, 2**40]), None,
         "column 'n' holds 1 to 1099511627776, more than int32 can hold: "
         "write dfgen.Number('n', dtype='int64')"),
        (pa.array([-1]), "uint8",
         "column 'n' holds -1 to -1, more than uint8 can hold: "
         "write dfgen.Number('n', dtype='int64')"),
        (pa.array([2**64 - 1], pa.uint64()), "int64",
         "column 'n' holds 18446744073709551615 to 18446744073709551615, more than int64 can hold: "
         "write dfgen.Number('n', dtype='uint64')"),
        (pa.array([1e300]), None,
         "column 'n' holds 1e+300 to 1e+300, more than float32 can hold: "
         "write dfgen.Number('n', dtype='float64')"),
        (pa.array([1.0]), "int32", "column 'n' holds floats, int32 cannot hold them"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(column, dtype, message):
    assert refused(ManifestError, lambda: Number("n", dtype).encode(column)) == message


@pytest.mark.parametrize("dtype", ["text", "object", "datetime64[s]", "complex64", 5])
def test_a_dtype_that_holds_no_numbers(dtype):
    message = refused(ArgumentError, lambda: Number("n", dtype))
    assert message == f'dtype must be a NumPy dtype of numbers as "float32", got {dtype!r}'


@pytest.mark.parametrize("make", [dict, pd.Series])
def test_number_of_one_row(make):
    value = Number("age")(make({"age": 41.5}))
    assert (value, value.dtype, value.shape) == (41.5, np.float32, ())
    value = Number("age", "int64")(make({"age": np.int16(3)}))
    assert (value, value.dtype) == (3, np.int64)


def test_number_of_several_columns():
    number = Number(["age", "height"])
    columns = pa.array([3, 4, 5], pa.int8()), pa.array([0.5, 1.5, 2.5])
    values = number.encode(*columns)
    assert number.columns == ("age", "height") and values.dtype == np.float32
    np.testing.assert_array_equal(number.gather(values, np.array([2, 0])), [[5, 2.5], [3, 0.5]])
    whole = Number(["a", "b"]).encode(pa.array([True]), pa.array([7]))
    assert (whole.tolist(), whole.dtype) == ([[1, 7]], np.int32)
    assert Number(["age"], "float64").encode(pa.array([1, 2])).shape == (2, 1)
    np.testing.assert_array_equal(number({"age": 41, "height": 1.5}), [41, 1.5])
    message = refused(ManifestError, lambda: number.encode(columns[0], pa.array(["a"] * 3)))
    assert message == (
        "column 'height' holds string, Number needs numbers. For classes write "
        "dfgen.Category('height'), for numbers df['height'] = pd.to_numeric(df['height'])"
    )
    message = refused(ManifestError, lambda: number.encode(columns[0], pa.array([1.0, None, 2])))
    assert message == (
        "column 'height' has 1 missing values, the first in row 1; drop or fill them: "
        "df = df[df['height'].notna()]" + OR_IGNORE
    )
    for names in ([], ["a", 3], 3, ["a", "a"]):
        message = refused(ArgumentError, lambda: Number(names))  # noqa: B023
        assert message == (
            f"expected the name of a column, or a list of different names, got {names!r}"
        )


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("int", np.array([1, 0], np.int32)),
        ("binary", np.array([[1], [0]], np.float32)),
        ("categorical", np.array([[0, 1], [1, 0]], np.float32)),
    ],
)
def test_label_modes(mode, expected):
    category = Category("kind", mode, ("a", "b"))
    batch = category.gather(category.encode(pa.array(["b", "a"])), np.arange(2))
    np.testing.assert_array_equal(batch, expected)
    assert batch.dtype == expected.dtype
    for make in (dict, pd.Series):
        one = category(make({"kind": "b"}))
        np.testing.assert_array_equal(one, expected[0])
        assert (one.dtype, one.shape) == (expected.dtype, expected.shape[1:])


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        (pa.array(["a", None]), ("a", "b"),
         NO_CLASS),
        (pa.array(["a", None]).dictionary_encode(), ("a", "b"),
         NO_CLASS),
        (pa.array(["a", "x", "y", "x"]), ("a", "b"),
         "column 'kind' holds 'x', 'y' (3 in all), not among its class names: 'a', 'b'" + MEND),
        (pa.array([99]), tuple(range(12)),
         "column 'kind' holds 99 (1 in all), not among its class names: "
         "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (12 in all)" + MEND),
        (pa.array([1]), ("a", "b"),
         "class_names of column 'kind' are 'a', 'b', but the column holds int64: "
         "give names of that type"),
        (pa.array([1], pa.int8()), (1, 300),
         "class_names of column 'kind' are 1, 300, but the column holds int8: "
         "give names of that type"),
        (pa.array(pd.cut([1, 2], 2)), ("a", "b"),
         "column 'kind' holds extension<pandas.interval<ArrowIntervalType>>, Category needs text, "
         "numbers or booleans: df['kind'] = df['kind'].astype(str).astype('category')"),
    ],
)  # fmt: skip
def test_values_that_are_no_class(column, names, message):
    category = Category("kind", class_names=names)
    assert refused(ManifestError, lambda: category.encode(column)) == message


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_class_of_one_row(missing):
    message = refused(
        ManifestError, lambda: Category("kind", class_names=("a", "b"))({"kind": missing})
    )
    assert message == NO_CLASS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_mode": "onehot"},
         "label_mode must be one of ('int', 'categorical', 'binary'), got 'onehot'"),
        ({"class_names": "ab"}, "class_names must be distinct names, got 'ab': write "
         "class_names=[\"cat\", \"dog\"], in the order of their numbers"),
        ({"class_names": ("a", "a")}, "class_names must be distinct names, got ('a', 'a')"),
        ({"class_names": {"a"}},
         "class_names must be a list, whose order gives the classes their numbers, got {'a'}: "
         "write sorted(class_names)"),
        ({"class_names": ()}, "class_names must be distinct names, got ()"),
        ({"class_names": [{"left": 1}]},
         "column 'kind' holds {'left': 1}, Category needs text, numbers or booleans: "
         "df['kind'] = df['kind'].astype(str).astype('category')"),
        ({"class_names": 5}, "class_names must be distinct names, got 5: write "
         "class_names=[\"cat\", \"dog\"], in the order of their numbers"),
        ({"label_mode": "binary", "class_names": ("a", "b", "c")},
         "label_mode=\"binary\" needs two classes, column 'kind' has 3: 'a', 'b', 'c'. "
         'Use label_mode="int" or "categorical"'),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    assert refused(ArgumentError, lambda: Category("kind", **arguments)) == message


def test_one_row_does_not_tell_the_classes():
    message = refused(ArgumentError, lambda: Category("kind")({"kind": "a"}))
    assert message == ("one row does not tell the classes: write Category('kind', class_names=...)")
