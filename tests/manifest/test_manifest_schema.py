import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dfgen.errors import ManifestError
from dfgen.manifest.metadata import fingerprint
from dfgen.manifest.schema import describe_labels, validate
from dfgen.table.any_table import to_table

FAULTS = [
    ({"ids": [1], "path": ["a.png"]}, r'no column "id"(.|\n)*Did you mean "ids"'),
    ({"id": [1], "file": ["a.png"]}, r'no column "path"(.|\n)*id, file'),
    ({"id": ["a", None], "path": ["a.png", "b.png"]}, "no id: row 1"),
    ({"id": [1, 2, 3], "path": [None, "b.png", ""]}, "no path: row 0, 2"),
    ({"id": [*"ababac"], "path": [*"uvwxyz"]}, r'"a" \(rows 0, 2, 4\); "b" \(rows 1, 3\)'),
    ({"id": [2, 1, 2], "path": [*"abc"]}, r"2 \(rows 0, 2\)"),
    ({"id": [1.5], "path": ["a.png"]}, "double"),
    ({"id": [1], "path": [1]}, "int64"),
]


@pytest.mark.parametrize(("columns", "word"), FAULTS)
def test_invalid_ids_and_paths_are_named(columns, word):
    with pytest.raises(ManifestError, match=word):
        validate(pa.table(columns))


def test_unique_numbers_are_valid_in_any_order():
    large = pa.array([0, 5, 2**64 - 1], pa.uint64())
    for ids in ([3, 1, 2], pa.chunked_array([[1, 2], [3]]), large):
        validate(pa.table({"id": ids, "path": list("abc")}))


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' several times"),
        (pd.DataFrame([[1, 2]]), "0, which is not text"),
        (pd.DataFrame({"mixed": [1, "a"]}), "'mixed' of the frame has int, str"),
    ],
)
def test_columns_that_are_no_table_are_named(frame, word):
    with pytest.raises(ManifestError, match=word):
        to_table(frame)


def test_labels_are_described_by_their_kind():
    frame = pd.DataFrame(
        {
            "id": [1],
            "kind": pd.Categorical(["a"], categories=["b", "a"], ordered=True),
            "name": ["x"],
            "age": [1.5],
            "ok": [True],
            "tags": [["t"]],
            "split": ["train"],
            "width": [3],
        }
    )
    assert describe_labels(to_table(frame)) == {
        "kind": {"kind": "category", "class_names": ["b", "a"], "ordered": True},
        "name": {"kind": "text"},
        "age": {"kind": "number"},
        "ok": {"kind": "boolean"},
        "tags": {"kind": "list"},
    }


def test_half_floats_have_the_fingerprint_of_their_values():
    column = [np.float16(0.5), None, np.float16("nan")]
    half, double = pa.array(column, pa.float16()), pa.array([0.5, None, None], pa.float64())
    rows = {"id": [1, 2, 3], "path": ["a", "b", "c"]}
    assert fingerprint(pa.table(rows | {"n": half})) == fingerprint(pa.table(rows | {"n": double}))


TABLE = pa.table(
    {
        "id": ["a", "b", "c"],
        "path": ["x", "y", "z"],
        "kind": ["cat", None, "dog"],
        "age": [1.0, None, 2.0],
        "tags": [["a"], None, []],
    }
)


def test_the_fingerprint_is_that_of_the_specification():
    """docs/reference/manifests.md shows these bytes."""
    table = pa.table({"id": [1], "path": ["a.png"]})
    assert fingerprint(table) == "4eb5c79142ed03aff127a24c629d1af9"


@pytest.mark.parametrize(
    "same",
    [
        pa.concat_tables([TABLE[:1], TABLE[1:]]),
        TABLE.set_column(2, "kind", TABLE["kind"].dictionary_encode()),
        TABLE.set_column(2, "kind", TABLE["kind"].cast(pa.large_string())),
        TABLE.set_column(3, "age", pa.chunked_array([[1.0, float("nan"), 2.0]])),
        TABLE.select(["path", "tags", "id", "age", "kind"]),
        TABLE.append_column("split", [["train"] * 3]).append_column("mtime_ns", [[1, 2, 3]]),
    ],
    ids=["chunks", "category", "large text", "NaN", "column order", "split and facts"],
)
def test_the_fingerprint_stays(same):
    assert fingerprint(same) == fingerprint(TABLE)


@pytest.mark.parametrize(
    "other",
    [
        TABLE.take([1, 0, 2]),
        TABLE.set_column(0, "id", [["ab", "", "c"]]),
        TABLE.set_column(2, "kind", [["cat", "", "dog"]]),
        TABLE.set_column(4, "tags", pa.chunked_array([[["a"], [], None]], pa.list_(pa.string()))),
        TABLE.rename_columns(["id", "path", "sort", "age", "tags"]),
        TABLE.append_column("index", [[0, 1, 2]]),
        TABLE.append_column("digest", [["d", "e", "f"]]),
    ],
    ids=["row order", "id", "null or empty", "null or empty list", "name", "index", "digest"],
)
def test_the_fingerprint_changes(other):
    assert fingerprint(other) != fingerprint(TABLE)
