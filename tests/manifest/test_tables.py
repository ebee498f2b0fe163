"""Any table beside pandas: Arrow, Polars, DuckDB, whatever has the Arrow PyCapsule interface."""

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DfgenError, ManifestError
from dfgen.manifest.building.splitting import split
from dfgen.manifest.diff import diff, verify
from dfgen.manifest.io import read_manifest, write_manifest
from dfgen.samples.features.classes import Category, MultiLabel, Number
from dfgen.table.any_table import arrow_table, data_frame
from dfgen.table.arrow_types import OR_IGNORE, with_paths

ROWS = pd.DataFrame(
    {
        "id": range(6),
        "path": [f"/imgs/{row}.png" for row in range(6)],
        "kind": pd.Categorical(["cat", "dog"] * 3, categories=["dog", "cat", "owl"]),
        "age": np.arange(6) / 2,
    }
)


class Stream:
    """A table that has the Arrow PyCapsule interface and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        reader = pa.RecordBatchReader.from_batches(self._table.schema, self._table.to_batches())
        return reader.__arrow_c_stream__(requested_schema)


class OnlyBatch:
    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


def polars(frame):
    pl = pytest.importorskip("polars")
    classes = pl.Enum(list(frame["kind"].cat.categories))
    columns = {name: frame[name].tolist() for name in frame}
    return pl.DataFrame(columns, schema_overrides={"kind": classes})


def duckdb(frame):
    return pytest.importorskip("duckdb").from_df(frame)


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


TABLES = {
    "arrow": arrow,
    "batch": lambda frame: arrow(frame).to_batches()[0],
    "reader": lambda frame: arrow(frame).to_reader(),
    "stream": lambda frame: Stream(arrow(frame)),
    "array": lambda frame: OnlyBatch(arrow(frame).to_batches()[0]),
    "polars": polars,
    "duckdb": duckdb,
}


@pytest.fixture(params=TABLES.values(), ids=TABLES.keys())
def table(request):
    return request.param


def test_a_table_binds_as_the_frame_does(table):
    y = Category("kind")
    one, other = (
        bind(SequenceArguments(t, x={"image": "path", "age": "age"}, y=y))
        for t in (ROWS, table(ROWS))
    )
    assert other.class_names == one.class_names == ["dog", "cat", "owl"]
    assert other.labels_digest == one.labels_digest
    assert list(other.reader.ids) == list(one.reader.ids)
    rows = np.arange(6)
    for bound, twin in zip(one.reader.features, other.reader.features, strict=True):
        if bound.files is not None:
            assert twin.files.to_pylist() == bound.files.to_pylist()
        else:
            np.testing.assert_array_equal(
                twin.feature.gather(twin.values, rows), bound.feature.gather(bound.values, rows)
            )


def test_manifest_of_a_table_has_no_differences(table, tmp_path):
    write_manifest(table(ROWS), tmp_path / "of_table.parquet", root="/imgs")
    write_manifest(ROWS, tmp_path / "of_frame.parquet")
    found = read_manifest(tmp_path / "of_table.parquet", root="/imgs")
    assert found["kind"].cat.categories.tolist() == ["dog", "cat", "owl"]
    assert diff(tmp_path / "of_table.parquet", ROWS).empty
    assert diff(table(ROWS), tmp_path / "of_frame.parquet").empty


def test_a_table_is_split_as_the_frame_is(table):
    shares = {"train": 0.5, "val": 0.5}
    found = split(table(ROWS), shares, stratify="kind", seed=3)
    assert isinstance(found, pd.DataFrame)
    assert found["split"].tolist() == split(ROWS, shares, stratify="kind", seed=3)["split"].tolist()


def test_a_table_is_verified_as_the_frame_is(table):
    assert verify(table(ROWS))["change"].tolist() == ["missing"] * 6


def views():
    """Return a table of the types that Polars has."""
    text = pa.array(["b", "a", None], pa.string_view())
    codes = pa.array([0, 1, None], pa.uint32())
    return pa.table(
        {
            "text": text,
            "bytes": pa.array([b"x", b"", None], pa.binary_view()),
            "classes": pa.DictionaryArray.from_arrays(codes, text[:2]),
            "lists": pa.array([["a"], [], None], pa.list_(pa.string_view())),
            "struct": pa.array([{"a": "x"}, {"a": None}, None], pa.struct({"a": pa.string_view()})),
        }
    )


def test_views_become_types_that_every_function_takes():
    table = arrow_table(Stream(views()))
    assert {str(field.type) for field in table.schema} == {
        "large_string",
        "large_binary",
        "dictionary<values=large_string, indices=int32, ordered=0>",
        "large_list<item: large_string>",
        "struct<a: large_string>",
    }
    assert table.to_pylist() == views().to_pylist()
    assert table["classes"].chunk(0).dictionary.to_pylist() == ["b", "a"]


def test_usual_types_are_not_copied():
    table = pa.table({"id": [1, 2], "path": ["a", "b"]})
    found = arrow_table(Stream(table))
    for name in table.column_names:
        buffers = zip(table[name].chunk(0).buffers(), found[name].chunk(0).buffers(), strict=True)
        assert all(one is other or one.address == other.address for one, other in buffers)


def test_polars_nulls_and_nans_are_rejected():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"id": [1, 2], "none": [1, None], "nan": [1.0, float("nan")]})
    for name in ("none", "nan"):
        with pytest.raises(ManifestError) as error:
            bind(SequenceArguments(frame, x=Number(name), y=None))
        assert str(error.value) == (
            f"column '{name}' has 1 missing values, the first in row 1; drop or fill them: "
            f"df = df[df['{name}'].notna()], {OR_IGNORE}"
        )


def test_polars_enum_keeps_its_numbers_through_filters():
    pl = pytest.importorskip("polars")
    kinds = pl.Series(["dog", "cat", "dog"], dtype=pl.Enum(["owl", "cat", "dog"]))
    frame = pl.DataFrame({"id": [1, 2, 3], "kind": kinds})
    bound = bind(SequenceArguments(frame[1:], x=Number("id"), y="kind"))
    assert bound.class_names == ["owl", "cat", "dog"]
    assert bound["label"].values.tolist() == [1, 2]


def test_polars_categorical_is_read_as_text():
    pl = pytest.importorskip("polars")
    kinds = pl.Series(["dog", "cat", "dog"], dtype=pl.Categorical)
    frame = pl.DataFrame({"id": [1, 2, 3], "kind": kinds})
    for table in (frame, frame.to_arrow()):
        bound = bind(SequenceArguments(table, x=Number("id"), y="kind"))
        assert bound.class_names == ["cat", "dog"]
        assert bound["label"].values.tolist() == [1, 0, 1]


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table], ids=["pandas", "arrow"])
def test_decimals_are_floats(make):
    prices = [decimal.Decimal("1.25"), decimal.Decimal("0.50")]
    bound = bind(SequenceArguments(make({"id": [1, 2], "price": prices}), x="price", y=None))
    assert bound["number"].values.tolist() == [1.25, 0.5]
    assert bound["number"].values.dtype == np.float32


def lazy():
    return pytest.importorskip("polars").LazyFrame({"id": [1]})


@pytest.mark.parametrize("make", [lambda: [1], lambda: pa.Table, lazy, lambda: None, lambda: b"1"])
def test_other_objects_are_no_tables(make):
    for function in (
        lambda one: bind(SequenceArguments(one)),
        data_frame,
        diff_to_itself,
        write_manifest_nowhere,
    ):
        with pytest.raises(DfgenError, match=r"DataFrame|text"):
            function(make())


@pytest.mark.parametrize(
    ("column", "word"),
    [
        ([b"1", "a"], "bytes, str"),
        ([b"1", 2], "bytes, int"),
        (["a", ["b"]], "list, str"),
        ([object, object], "type"),
        ([["a"], [["b"]]], "list"),
        (["a\ud800", "b"], "not Unicode"),
        ([np.zeros((2, 2, 3), np.uint8)] * 2, "ndarray"),
        ([Image.new("L", (2, 2))] * 2, "Image"),
    ],
)
def test_columns_unknown_to_arrow_are_named(column, word):
    frame = pd.DataFrame({"id": [1, 2], "n": pd.Series(column, dtype=object)})
    with pytest.raises(ManifestError, match=f"column 'n' of the label table .*{word}"):
        arrow_table(frame, "the label table")


def test_file_column_may_begin_with_missing_values():
    for none in (None, np.nan, pd.NA, pd.NaT):
        frame = pd.DataFrame({"id": [1, 2], "image": pd.Series([none, b"1"], dtype=object)})
        assert arrow_table(frame)["image"].to_pylist() == [None, b"1"]


def test_multi_level_columns_are_rejected_with_advice():
    frame = pd.DataFrame({("pets", "id"): [1], ("pets", "kind"): ["cat"]})
    with pytest.raises(ManifestError, match=r"'pets', 'id'.*join"):
        arrow_table(frame)


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.struct({"bytes": pa.binary(), "path": pa.utf8()})]
)
def test_empty_tables_keep_the_type_of_files(kind):
    files = [pa.chunked_array([], kind), pa.chunked_array([pa.array([None], kind)])]
    empty, one = (arrow_table(pa.table({"file": each})) for each in files)
    assert empty.schema == one.schema
    assert with_paths(files[0], pa.chunked_array([], pa.string())).type == kind
    assert arrow_table(data_frame(pa.table({"file": files[1]}))).schema == one.schema


def diff_to_itself(given):
    return diff(given, given)


def write_manifest_nowhere(given):
    return write_manifest(given, "never_written.parquet")


@pytest.mark.parametrize("index", [None, [7, 5]], ids=["none", "its own"])
@pytest.mark.parametrize(
    ("kind", "held", "one"),
    [(pa.uint64(), "UInt64", 2**63 + 1), (pa.int64(), "Int64", -(2**53) - 1),
     (pa.bool_(), "boolean", True)],
)  # fmt: skip
def test_numbers_keep_all_digits_beside_missing_ones(index, kind, held, one):
    table = pa.Table.from_pandas(pd.DataFrame({"id": [1, 2]}, index))
    found = data_frame(table.append_column("phash", pa.array([one, None], kind)))
    expected = pd.DataFrame({"id": [1, 2], "phash": pd.array([one, None], held)}, index)
    pd.testing.assert_frame_equal(found, expected)


def test_what_arrow_cannot_hold_is_an_error():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("the connection is closed")

    with pytest.raises(ManifestError) as error:
        bind(SequenceArguments(Broken()))
    assert str(error.value) == (
        "the manifest cannot be read as an Arrow table: RuntimeError: the connection is closed"
    )


def tagged(*tags):
    return pd.DataFrame({"id": range(len(tags)), "tags": tags})


def test_a_column_of_text_without_sep_is_classes():
    frame = tagged("cat,dog", "cat").astype({"tags": "category"})
    assert bind(SequenceArguments(frame, x=Number("id"), y="tags")).class_names == [
        "cat",
        "cat,dog",
    ]


@pytest.mark.parametrize("separator", ["", 1])
def test_a_separator_is_text(separator):
    with pytest.raises(ValueError) as error:
        MultiLabel("tags", sep=separator)
    assert str(error.value) == f'sep must be text between labels such as ",", got {separator!r}'


def test_path_and_array_objects_become_text_and_lists(tmp_path):
    boxes = [np.array([[1, 2, 3, 4.5]]), np.zeros((0, 4))]
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    frame = pd.DataFrame({"id": [1, 2], "path": paths, "boxes": boxes, "kind": ["cat", None]})
    frame["mask"] = [tmp_path / "m.png", None]
    write_manifest(frame, tmp_path / "m.parquet")
    read = read_manifest(tmp_path / "m.parquet")
    assert read["path"].tolist() == [*map(str, paths)]
    assert [[[*box] for box in row] for row in read["boxes"]] == [[[1, 2, 3, 4.5]], []]
    assert read["kind"].isna().tolist() == read["mask"].isna().tolist() == [False, True]


def test_zero_dimensional_arrays_are_rejected_with_column(tmp_path):
    frame = pd.DataFrame({"id": [1, 2], "path": ["a", "b"], "n": [np.array(3), np.array(4)]})
    with pytest.raises(ManifestError, match="column 'n' of the frame has ndarray"):
        write_manifest(frame, tmp_path / "m.parquet")
