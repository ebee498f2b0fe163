"""Labels that rows lack: what batches hold there, what they weigh, and what is refused."""

from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from loaders import batches_of

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.loading.loader import Loader
from dfgen.loading.order.epochs import Plan

ROWS = 12
LACKING = [1, 4, 7, 10]
IMAGE = dfgen.Image(size=(4, 4))


def holed(values, hole=None):
    return [hole if row in LACKING else value for row, value in enumerate(values)]


@pytest.fixture
def df(files, tmp_path):
    """Return rows of which every third lacks all labels; those tell the number of the row."""
    np.save(tmp_path / "7.npy", np.full(2, 7))
    cv2.imwrite(str(tmp_path / "9.png"), np.full((4, 4), 9, np.uint8))
    return pd.DataFrame(
        {
            "id": [f"r{row}" for row in range(ROWS)],
            "path": files[:ROWS],
            "age": holed(np.arange(ROWS) + 0.5),
            "kind": pd.Categorical(holed(["a", "?", "b"] * 4)),
            "sex": holed(["m", "f"] * 6),
            "tags": holed([["x"], ["x", "y"], ["y"], []] * 3),
            "boxes": holed([[[0, 0, 2, 2]], [], [[1, 1, 3, 3]]] * 4),
            "labels": holed([[1], [], [2]] * 4),
            "mask": holed([f"{tmp_path}/9.png"] * ROWS),
            "array": holed([f"{tmp_path}/7.npy"] * ROWS),
            "after": holed(files[:ROWS]),
        }
    )


IGNORE = {"missing": "ignore"}
Y = {
    "age": dfgen.Number("age", **IGNORE),
    "kind": dfgen.Category("kind", **IGNORE),
    "hot": dfgen.Category("kind", "categorical", **IGNORE),
    "sex": dfgen.Category("sex", "binary", ("f", "m"), **IGNORE),
    "tags": dfgen.MultiLabel("tags", ("x", "y"), **IGNORE),
    "boxes": dfgen.Boxes(like="path", max_items=2, **IGNORE),
    "mask": dfgen.Mask("mask", like="path", fill_value=255, **IGNORE),
    "array": dfgen.Array("array", (2,), **IGNORE),
    "after": dfgen.Image("after", size=(4, 4), scale="-1..1", **IGNORE),
    "deep": dfgen.Image("after", size=(4, 4), dtype="uint16", **IGNORE),
}
BLANK = dict.fromkeys(Y, 0) | {"boxes": -1, "labels": -1, "mask": 255}


def loader(df, y, x=None, transform=None, **options):
    bound = bind(
        SequenceArguments(df, {"image": IMAGE} if x is None else x, y, transform=transform)
    )
    return Loader(bound.reader, weights=bound.weights, workers=0, **options)


def brighter(sample, rng):
    """Change every label, and give all images of `after` something to show."""
    return {**sample, "after": sample["after"] + 1, "age": sample["age"] + np.float32(1)}


@pytest.mark.parametrize("transform", [None, brighter])
@pytest.mark.parametrize("use_multiprocessing", [False, True])
def test_missing_labels_are_blank_with_zero_weight(df, transform, use_multiprocessing):
    options = {"workers": 1, "use_multiprocessing": True} if use_multiprocessing else {}
    made = Loader(bind(SequenceArguments(df, {"image": IMAGE}, Y, transform=transform)).reader,
                  **{"batch_size": ROWS, "workers": 0, **options})  # fmt: skip
    batch = made.batch(0, 0)
    made.close()
    there = ~np.isin(np.arange(ROWS), LACKING)
    assert batch.arrays.keys() == {"image", *BLANK}
    for name, blank in BLANK.items():
        np.testing.assert_array_equal(batch.arrays[name][LACKING], blank, name)
        np.testing.assert_array_equal(batch.weights_of(name), there, name)
    np.testing.assert_array_equal(batch.weights, 1)
    np.testing.assert_array_equal(batch.weights_of("image"), 1)
    np.testing.assert_array_equal(batch.arrays["image"][:, 0, 0, 0], np.arange(ROWS))
    shift = transform is not None
    np.testing.assert_array_equal(batch.arrays["age"][there], np.arange(ROWS)[there] + 0.5 + shift)
    np.testing.assert_array_equal(batch.arrays["kind"][there], [0, 1] * 4)
    np.testing.assert_array_equal(batch.arrays["hot"][there].argmax(axis=1), [0, 1] * 4)
    assert (batch.arrays["mask"][there] == 9).all() and (batch.arrays["array"][there] == 7).all()
    np.testing.assert_allclose(
        batch.arrays["after"][there, 0, 0, 0], (np.arange(ROWS)[there] + shift) / 127.5 - 1, 1e-5
    )
    assert batch.arrays["labels"][there][:, 0].tolist() == [1, 2] * 4


@pytest.mark.parametrize(
    ("values", "lacking"),
    [
        (pd.Series([1.5, np.nan, 2, 3]), [1]),
        (pd.Series([1, None, pd.NA, 3], dtype="Int64"), [1, 2]),
        (pd.Series([1, None, 2, 3], dtype="float16"), [1]),
        (pd.Series([True, pd.NA, None, False], dtype="boolean"), [1, 2]),
        (pd.Series(["x", None, pd.NA, float("nan")], dtype=object), [1, 2, 3]),
        (pd.Series(["x", None, "y", pd.NA], dtype="string"), [1, 3]),
        (pd.Series(["x", None, "y", None], dtype="category"), [1, 3]),
        (pd.Series(pd.arrays.ArrowExtensionArray(pa.array([5, None, 7, 8]))), [1]),
        (pd.Series([None, None, 1.0, None]), [0, 1, 3]),
        (pd.Series([np.nan] * 4), [0, 1, 2, 3]),
        (pd.Series([None] * 4, dtype="Int64"), [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_every_pandas_and_arrow_null_is_recognized(files, values, lacking):
    df = pd.DataFrame({"id": range(4), "path": files[:4], "y": values})
    text = values.dtype in ("object", "string", "category")
    y = dfgen.Category("y", "int", ("x", "y"), **IGNORE) if text else dfgen.Number("y", **IGNORE)
    batch = loader(df, y).batch(0, 0)
    name = next(name for name in batch.arrays if name != "image")
    assert np.flatnonzero(batch.weights_of(name) == 0).tolist() == lacking
    assert (batch.arrays[name][lacking] == 0).all()
    found = [row for row in range(4) if row not in lacking]
    expected = [{"x": 0, "y": 1}.get(value, value) for value in values[found]]
    assert batch.arrays[name][found].tolist() == expected


def test_nan_in_a_manifest_file_is_missing_too(files, tmp_path):
    df = pd.DataFrame({"id": ["a", "b"], "path": files[:2], "age": [np.nan, 2.0]})
    dfgen.write_manifest(df, tmp_path / "m.parquet")
    batch = loader(str(tmp_path / "m.parquet"), Y["age"]).batch(0, 0)
    assert (batch.weights_of("number").tolist(), batch.arrays["number"].tolist()) == (
        [0, 1],
        [0, 2],
    )


def test_one_missing_column_blanks_the_whole_target(df):
    df = df.assign(height=1.0)
    df.loc[0, "height"] = None
    df["labels"] = df["labels"].where(df.index != 2)
    y = {"vector": dfgen.Number(["age", "height"], **IGNORE), "boxes": Y["boxes"]}
    batch = loader(df, y, batch_size=ROWS).batch(0, 0)
    assert np.flatnonzero(batch.weights_of("vector") == 0).tolist() == [0, *LACKING]
    for name in ("boxes", "labels"):
        assert np.flatnonzero(batch.weights_of(name) == 0).tolist() == [1, 2, 4, 7, 10]
    assert (batch.arrays["boxes"][2] == -1).all()


@pytest.mark.parametrize(
    ("tail", "hosts"), [("short", 1), *((tail, n) for tail in ("drop", "pad") for n in (1, 2, 4))]
)
def test_epoch_weights_sum_to_labelled_rows_seen(df, hosts, tail):
    """Of 11 rows in batches of 4; padded ones weigh batches * batch_size / rows, as ever."""
    df = df[:11].assign(weight=np.arange(11.0))
    for weight, own in ((None, np.ones(11)), ("weight", np.arange(11))):
        y = {"age": Y["age"], "kind": dfgen.Category("kind", **IGNORE)}
        bound = bind(SequenceArguments(df, "path", y, sample_weight=weight))
        total, seen, places = 0, set(), 0
        for host in range(hosts):
            made = Loader(bound.reader, weights=bound.weights, batch_size=4, workers=0, seed=1,
                          shard=(host, hosts))  # fmt: skip
            plan = Plan(11, 4, (host, hosts), tail)
            for batch in batches_of(made, plan=plan):
                total += batch.weights_of("age").sum()
                places += len(batch.weights)
                seen.update(batch.rows.tolist())
        rows = [row for row in seen if row not in LACKING]
        factor = 12 / 11 if tail == "pad" else 1
        assert total == pytest.approx(own[rows].sum() * factor)
        assert (len(seen), places) == {"short": (11, 11), "drop": (8, 8), "pad": (11, 12)}[tail]


def test_skipped_row_weighs_nothing_and_others_more(df):
    df.loc[0, "path"] = "gone.png"
    bound = bind(
        SequenceArguments(df, "path", {"age": Y["age"], "kind": Y["kind"]}, on_error="skip")
    )
    made = Loader(bound.reader, batch_size=4, workers=0, on_error="skip")
    batch = made.batch(0, 0)
    np.testing.assert_allclose(batch.weights, [0, 4 / 3, 4 / 3, 4 / 3])
    np.testing.assert_allclose(batch.weights_of("age"), [0, 0, 4 / 3, 4 / 3])


def test_errors_name_the_paths_that_a_row_has(df):
    df.loc[4, "path"] = "gone.png"
    with pytest.raises(dfgen.DfgenError) as error:
        loader(df, Y["array"]).batch(0, 0)
    assert str(error.value) == "row id='r4', path='gone.png': the file does not exist"
    df.loc[0, "array"] = df["path"][0]
    with pytest.raises(DecodeError) as error:
        loader(df, Y["array"]).batch(0, 0)
    assert str(error.value).startswith(f"row id='r0', path={df.path[0]!r}, array={df.path[0]!r}: ")


def test_present_labels_are_checked_with_row_number(df):
    df["boxes"] = [*df["boxes"][:11], [[3, 3, 1, 1]]]
    with pytest.raises(ManifestError) as error:
        bind(SequenceArguments(df, "path", Y["boxes"]))
    assert str(error.value).startswith("object 0 of row 11 in column 'boxes' is (3, 3, 1, 1) as ")


def test_incomplete_paths_do_not_serve_as_ids(df):
    x, y = dfgen.Number("row"), Y["array"]
    df = df.assign(row=range(ROWS)).drop(columns=["id", "path"])
    with pytest.raises(ManifestError) as error:
        bind(SequenceArguments(df, x, y))
    assert str(error.value).startswith("the manifest has no column 'id'")
    assert len(bind(SequenceArguments(df, x, y, id="row")).reader) == ROWS


def test_the_digest_of_labels_sees_which_are_missing(df):
    def digest(y, **changed):
        return bind(SequenceArguments(df.assign(**changed), "path", y)).labels_digest

    assert digest(Y["age"]) == digest(Y["age"])
    assert digest(Y["age"]) != digest(Y["age"], age=df["age"].fillna(0.5))  # as stands in for it
    assert digest(Y["array"]) != digest(Y["array"], array=df["array"].fillna("a.npy"))


def refused(use):
    with pytest.raises(dfgen.DfgenError) as error:
        use()
    return type(error.value), str(error.value)


@pytest.mark.parametrize(
    ("x", "y", "kind", "message"),
    [
        (Y["age"], None, ArgumentError, "for targets"),
        ("path", dfgen.Number("none", **IGNORE), ManifestError, "all 12 rows"),
        ("path", {"after": dfgen.Image("after", size=(4, 4), **IGNORE),
                  "mask": dfgen.Mask("mask", like="after", **IGNORE)}, ArgumentError, "follows"),
        ("path", dfgen.Array("array", (2,)), ManifestError, "no path in 4 rows"),
    ],
)  # fmt: skip
def test_wrong_missing_is_refused(df, x, y, kind, message):
    options = {"x": x, "y": y} | ({"label_mode": None} if y is None else {})
    with pytest.raises(kind, match=message):
        bind(SequenceArguments(df.assign(none=None), **options))


def test_arguments_and_rows_that_cannot_be(df):
    assert refused(lambda: dfgen.Number("age", missing="skip")) == (
        ArgumentError, "missing must be one of ('raise', 'ignore'), got 'skip'"
    )  # fmt: skip
    with pytest.raises(ArgumentError, match="missing"):
        dfgen.Image(size=None, missing="ignore")


@pytest.mark.parametrize("size", [(4, 4), None])
@pytest.mark.parametrize("lacking", [LACKING, list(range(ROWS))], ids=["some", "all"])
def test_second_image_of_a_pair_may_be_missing(df, size, lacking):
    df["after"] = [None if row in lacking else path for row, path in enumerate(df["path"])]
    df["after"] = df["after"].astype("string")
    y = dfgen.Image("after", like="path", **IGNORE)
    batch = loader(df, y, dfgen.Image(size=size), batch_size=ROWS).batch(0, 0)
    before, after = batch.arrays["image_0"], batch.arrays["image_1"]
    there = ~np.isin(np.arange(ROWS), lacking)
    np.testing.assert_array_equal(after, np.where(there[:, None, None, None], before, 0))
    np.testing.assert_array_equal(batch.weights_of("image_1"), there)


@pytest.mark.parametrize("structs", [False, True])
def test_files_within_the_table_may_be_missing(df, structs):
    data = [None if pd.isna(path) else Path(path).read_bytes() for path in df["mask"]]
    df["mask"] = [d and {"bytes": d, "path": None} for d in data] if structs else data
    for table in (df, pa.Table.from_pandas(df)):
        batch = loader(table, dfgen.Mask("mask", **IGNORE), IMAGE, batch_size=ROWS).batch(0, 0)
        there = ~np.isin(np.arange(ROWS), LACKING)
        np.testing.assert_array_equal(batch.weights_of("mask"), there)
        np.testing.assert_array_equal(batch.arrays["mask"][:, 0, 0, 0], there * 9)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 2, "b": 3}])
def test_class_weights_count_labelled_rows_only(df, class_weight):
    options = {"class_weight": class_weight}
    bound = bind(SequenceArguments(df[2:], "path", Y["kind"], **options))
    expected = bind(
        SequenceArguments(df[2:].dropna(subset="kind"), "path", Y["kind"], **options)
    ).weights
    np.testing.assert_array_equal(bound.weights[bound["label"].present], expected)
    none = df.assign(kind=df["kind"].where(df["kind"].isna()))
    assert bind(SequenceArguments(none, "path", Y["kind"], **options)).weights.shape == (ROWS,)
