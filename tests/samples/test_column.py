"""Column: a function of a row's columns, run in the workers."""

import threading

import numpy as np
import pandas as pd
import pytest
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.features.column import Column


def frame(rows=6):
    return pd.DataFrame(
        {
            "id": [f"r{row}" for row in range(rows)],
            "a": range(rows),
            "b": [None if row == 1 else row / 2 for row in range(rows)],
            "tokens": [[row, row + 1] for row in range(rows)],
            "kind": pd.Categorical(["xy"[row % 2] for row in range(rows)]),
            "y": 1.0,
        }
    )


def sequence(x, df=None, **options):
    given = {"batch_size": 3, "shuffle": False, "workers": 2, "y": "y"}
    return dfgen.Sequence(frame() if df is None else df, x, **{**given, **options})


def scaled(a, b):
    return [a, -1 if b is None else b]


@pytest.mark.parametrize(
    "options", [{}, {"workers": 0}, {"workers": 1, "use_multiprocessing": True}]
)
def test_values_reach_the_function_in_the_order_of_the_names(options):
    factor = 10
    x = {
        "pair": Column(["a", "b"], scaled, (2,)),
        "swapped": Column(["b", "a"], lambda b, a: a * factor, dtype="int32"),
        "tokens": Column("tokens", np.array, (2,), "int64"),
        "kind": Column("kind", "xy".index, dtype="uint8"),
    }
    with sequence(x, **options) as seq:
        batches = [x for x, _ in seq]
    found = {name: np.concatenate([batch[name] for batch in batches]) for name in x}
    np.testing.assert_array_equal(
        found["pair"], [[0, 0], [1, -1], [2, 1], [3, 1.5], [4, 2], [5, 2.5]]
    )
    np.testing.assert_array_equal(found["swapped"], np.arange(6) * 10)
    np.testing.assert_array_equal(found["tokens"], [[row, row + 1] for row in range(6)])
    np.testing.assert_array_equal(found["kind"], [0, 1] * 3)
    assert [array.dtype.name for array in found.values()] == ["float32", "int32", "int64", "uint8"]


def test_values_are_plain_python_objects():
    seen = []

    def look(*values):
        seen.append(values)
        return 0

    df = frame().assign(when=pd.Timestamp("2020-01-02"), flag=True, big=2**40)
    columns = ["a", "b", "tokens", "kind", "flag", "big", "when"]
    sequence(Column(columns, look), df, workers=0)[0]
    Column(columns, look)(df.iloc[1])
    when = pd.Timestamp("2020-01-02")
    assert seen[0] == (0, 0.0, [0, 1], "x", True, 2**40, when)
    Column(["when", "big"], look)({"when": np.datetime64("2020-01-02", "ns"), "big": np.int64(2)})
    assert seen[4] == (pd.Timestamp("2020-01-02"), 2)
    assert seen[1] == seen[3] == (1, None, [1, 2], "y", True, 2**40, when)
    assert [type(value) for value in seen[0][:6]] == [int, float, list, str, bool, int]


PROCESS = {"workers": 1, "use_multiprocessing": True}


def fails(a):
    return 1 // (a - 4)


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (pd.Categorical(["a", "b"]), ["/far/a", "/far/b"]),
        ([["a", "/b"], []], [["/far/a", "/b"], []]),
        ([[1], [2]], [[1], [2]]),  # which are none
    ],
)
@pytest.mark.parametrize("names", ["path", ["path", "a"]])
def test_paths_of_categories_and_lists_have_their_root(paths, told, names):
    seen = []
    df = frame(2).assign(path=paths)
    column = Column(names, lambda path, *a: seen.append(path) or 0)
    with sequence(column, df, batch_size=2, workers=0, root="/far") as seq:
        assert seq[0][0].tolist() == [0, 0]
    assert seen == told


@pytest.mark.parametrize("paths", [["a", None], [["a"], None]])
def test_a_path_that_is_missing_is_refused(paths):
    call = lambda: sequence(Column("path", len), frame(2).assign(path=paths), root="/far")  # noqa: E731
    assert "column 'path' has no path in 1 rows, the first is row 1: " in message_of(
        ManifestError, call
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Column("a", fails),
         "row id='r4': Column('a'): fails raised ZeroDivisionError: integer division or modulo by "
         "zero"),
        (Column("a", lambda a: [1] * a, (3,)),
         "row id='r0': Column('a'): <lambda> returned an array that has shape (0,), expected "
         "(3,)"),
        (Column(["a", "b"], lambda a, b: a / 2, (), "int32"),
         "row id='r0': Column(('a', 'b')): <lambda> returned an array that is float64, which "
         "int32 cannot hold"),
        (Column("a", lambda a: 2**40, (), "int32"),
         "row id='r0': Column('a'): <lambda> returned an array that holds 1099511627776 to "
         "1099511627776, more than int32 can hold"),
        (Column("kind", str),
         "row id='r0': Column('kind'): str returned an array that is <U1, which float32 cannot "
         "hold"),
        (Column("a", lambda a: None),
         "row id='r0': Column('a'): <lambda> returned NoneType, expected numbers"),
        (Column("a", lambda a: [[1, 2], [3]]),
         "row id='r0': Column('a'): <lambda> raised ValueError: setting an array element"),
    ],
)  # fmt: skip
def test_a_function_that_fails_names_the_row(column, message):
    options = PROCESS if column.fn is fails else {}
    with (
        sequence(column, **options) as seq,
        pytest.raises(DecodeError) as error,
    ):
        list(seq)
    assert str(error.value).startswith(message)


def test_a_row_whose_function_fails_can_be_skipped():
    seq = sequence(Column("a", fails), on_error="skip", workers=0)
    x, _, weights = seq[1]
    assert x.tolist() == [-1, 0, 1] and weights.tolist() == [1.5, 0, 1.5]
    assert seq.problems["id"].tolist() == ["r4"]


def test_a_function_that_cannot_travel_is_named_when_processes_are_asked_for():
    lock = threading.Lock()

    def locked(a):
        with lock:
            return a

    assert sequence(Column("a", locked))[0][0].tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError) as error:
        sequence(Column("a", locked), use_multiprocessing=True)
    assert str(error.value).startswith("fn of Column('a')=<function ")
    assert "cannot be sent to a worker process: TypeError: " in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, abs), "expected the name of a column, or a list of different names, got 3"),
        (([], abs), "expected the name of a column, or a list of different names, got []"),
        ((["a", "a"], abs),
         "expected the name of a column, or a list of different names, got ['a', 'a']"),
        (("a", "abs"), "fn must be a function of a row's values, got 'abs'"),
        (("a", abs, 3), "shape must be a tuple of positive integers, got 3: write shape=(3,)"),
        (("a", abs, (), "text"),
         "dtype must be a NumPy dtype of numbers as \"float32\", got 'text'"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    assert message_of(ArgumentError, Column, *arguments) == message
