"""Text and Bytes: strings of any length, from threads and processes."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfgen
from dfgen.binding.frame_columns import Columns
from dfgen.errors import ManifestError, MissingFileError, TransformError
from dfgen.samples.features.bytes import Bytes
from dfgen.samples.features.text import Text

TEXTS = ["", "a cat", "Kätzchen 犬", "a\0b\0", "x" * 10_000, "last"]
BLOBS = [b"\0", b"a\0\0", b"", b"\xff\xfe", b"y" * 10_000, b"z"]


@pytest.fixture
def df(tmp_path):
    paths = []
    for row, text in enumerate(TEXTS):
        paths.append(str(tmp_path / f"{row}.bin"))
        (tmp_path / f"{row}.bin").write_bytes(f"{text} of {row}\0".encode())
    return pd.DataFrame({"id": range(6), "path": paths, "text": TEXTS, "blob": BLOBS, "n": 1.0})


X = {"text": Text("text"), "file": Bytes(), "blob": Bytes("blob")}


def sequence(df, **options):
    given = {"x": X, "y": "n", "batch_size": 4, "shuffle": False, "workers": 1}
    return dfgen.Sequence(df, **{**given, **options})


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 0}, {"use_multiprocessing": True}])
def test_strings_come_whole_from_any_worker(df, options):
    with sequence(df, **options) as seq:
        batches = [x for x, _ in seq]
    found = {name: [value for x in batches for value in x[name]] for name in X}
    files = [f"{text} of {row}\0".encode() for row, text in enumerate(TEXTS)]
    assert found == {"text": TEXTS, "file": files, "blob": BLOBS}
    assert all(array.dtype == object for x in batches for array in x.values())


@pytest.mark.parametrize("processes", [False, True])
def test_a_row_that_is_skipped_has_empty_strings(df, processes):
    df.loc[1, "path"] = "gone.bin"
    with sequence(df, on_error="skip", use_multiprocessing=processes) as seq:
        x, _, weights = seq[0]
        assert (x["text"][1], x["file"][1], x["blob"][1], weights[1]) == ("", b"", b"", 0)
        assert x["text"][2] == TEXTS[2]
        assert seq.problems["reason"].tolist() == ["the file does not exist"]


def upper(sample, rng):
    return sample | {"text": str(sample["text"]).upper(), "blob": bytes(sample["blob"].item()) * 2}


@pytest.mark.parametrize("processes", [False, True])
def test_a_transform_may_change_strings(df, processes):
    with sequence(df, transform=upper, use_multiprocessing=processes) as seq:
        x, _ = seq[0]
    assert x["text"].tolist() == [text.upper() for text in TEXTS[:4]]
    assert x["blob"].tolist() == [2 * blob for blob in BLOBS[:4]]


def test_a_transform_that_returns_several_strings_for_one(df):
    seq = sequence(df, transform=lambda sample, rng: sample | {"text": ["a", "b"]}, workers=0)
    with pytest.raises(TransformError) as error:
        seq[0]
    assert "the transform returned 'text' as object of shape (2,), expected object of shape ()" in (
        str(error.value)
    )


@pytest.mark.parametrize("make", [dict, pd.Series])
def test_one_row(df, make):
    row = make(df.iloc[2].to_dict())
    assert Text("text")(row).item() == TEXTS[2]
    assert Bytes("path")(row).item() == f"{TEXTS[2]} of 2\0".encode()
    assert Bytes("blob")(row).item() == b""
    with pytest.raises(MissingFileError, match=r"^path='gone.bin': the file does not exist$"):
        Bytes()(make({"path": "gone.bin"}))


def test_categorical_text():
    values = Text("text").encode(pa.array(["b", "a", "b"]).dictionary_encode())
    assert Text("text").gather(values, np.array([0, 1])).tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("feature", "column", "message"),
    [
        (Text("text"), pa.array([1]),
         "column 'text' holds int64, Text needs text: df['text'] = df['text'].astype(str)"),
        (Text("text"), pa.array(["a", None, None]),
         "column 'text' has no text in 2 rows, the first is row 1: "
         "df['text'] = df['text'].fillna(\"\")"),
        (Text("text"), pa.array(["a", None]).dictionary_encode(),
         "column 'text' has no text in 1 rows, the first is row 1: "
         "df['text'] = df['text'].fillna(\"\")"),
        (Bytes("blob"), pa.array([b"a", None]),
         "column 'blob' has no bytes in 1 rows, the first is row 1: "
         "drop them, df = df[df['blob'].notna()], or, in y, give these rows no weight, by "
         'missing="ignore" in the feature'),
    ],
)  # fmt: skip
def test_columns_that_cannot_be(feature, column, message):
    with pytest.raises(ManifestError) as error:
        feature.bind(Columns(pa.table({feature.column: column})))
    assert str(error.value) == message


def test_bytes_of_a_column_of_numbers(df):
    with pytest.raises(ManifestError, match="column 'n' holds double, expected paths of files"):
        sequence(df, x=Bytes("n"), y=None, label_mode=None)


def test_ids_are_not_taken_from_a_column_of_bytes(df):
    df = df.drop(columns="id")
    assert sequence(df, x=Bytes())._loader.reader.id(0) == df.path[0]
    with pytest.raises(ManifestError, match="the manifest has no column 'id'"):
        sequence(df, x=Bytes("blob"))


def test_errors_do_not_show_the_bytes_of_a_row(df, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    df.loc[0, "path"] = "gone.bin"
    (tmp_path / "gone.bin").touch()
    seq = sequence(df, workers=0)
    (tmp_path / "gone.bin").unlink()
    with pytest.raises(dfgen.DfgenError) as error:
        seq[0]
    where = "row id=0, path='gone.bin', blob=(1 bytes)"
    assert str(error.value) == f"{where}: the file does not exist"
