"""Row and class weights: losses and training equal Keras's own with weights made by NumPy."""

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ProblemsError
from public.keras_helpers import EAGER, assert_close, numbers, weights_of

ROWS, SIZE = 10, 4  # so the last batch is short
W = np.array([0, 1, 2, 3, 0.5, 4, 1, 2, 1, 3], "float32")
V = np.array([1, 0, 0, 2, 3, 0.5, 1, 1, 5, 0.25], "float32")
KIND = np.array([*"xyxxxyxxyx"])
BALANCED = np.where(KIND == "x", 10 / (2 * 7), 10 / (2 * 3)).astype("f4")
FIVE = np.where(KIND == "x", 1, 5).astype("f4")
ONES = np.ones(ROWS, "float32")
SPARSE = keras.losses.SparseCategoricalCrossentropy
Y = {"kind": "kind", "age": "age"}


@pytest.fixture
def df():
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(ROWS, 2)).astype("f4"), columns=["a", "b"])
    kinds = {"kind": pd.Categorical(KIND), "age": np.arange(ROWS, dtype="f4")}
    return df.assign(id=range(ROWS), w=W, v=V, **kinds)


def model(nesting=dict, names=("kind", "age"), **options):
    """Return the same heads each time; they share nothing."""
    inputs, outputs = keras.Input((2,)), {}
    for name, units in {"kind": 2, "age": 1}.items():
        start = keras.initializers.RandomNormal(seed=units)
        outputs[name] = keras.layers.Dense(units, kernel_initializer=start, name=name)(inputs)
    losses = {"kind": SPARSE(from_logits=True), "age": "mse"}
    outputs, losses = ({name: part[name] for name in names} for part in (outputs, losses))
    metrics = {name: {"kind": ["accuracy"], "age": ["mae"]}[name] for name in names}
    if nesting is list:
        outputs, losses, metrics = (list(part.values()) for part in (outputs, losses, metrics))
    elif nesting is None:  # one output
        ((outputs,), (losses,), (metrics,)) = (part.values() for part in (outputs, losses, metrics))
    made = keras.Model(inputs, outputs)
    made.compile("sgd", losses, weighted_metrics=metrics, run_eagerly=EAGER, **options)
    return made


def arrays(df, nesting, kind, age):
    y = {"kind": df.kind.cat.codes.to_numpy("i4"), "age": df.age.to_numpy("f4")}
    parts = y, {"kind": kind, "age": age}
    if nesting is list:
        parts = [list(part.values()) for part in parts]
    elif nesting is None:
        parts = [part["kind"] for part in parts]
    return df[["a", "b"]].to_numpy(), *parts


def assert_as_arrays(df, seq, nesting, kind, age):
    """Training and evaluating on `seq` equals Keras on arrays with these weights."""
    names = ("kind",) if nesting is None else ("kind", "age")
    ours, theirs = model(nesting, names), model(nesting, names)
    x, y, weights = arrays(df, nesting, kind, age)
    options = {"batch_size": seq.batch_size, "verbose": 0, "sample_weight": weights}
    expected = theirs.evaluate(x, y, return_dict=True, **options)
    assert ours.evaluate(seq, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-4)
    history = ours.fit(seq, epochs=2, verbose=0).history
    expected = theirs.fit(x, y, epochs=2, shuffle=False, **options).history
    assert {*history} == {*expected}
    for name, values in expected.items():
        assert history[name] == pytest.approx(values, rel=1e-4), name
    assert_close(weights_of(ours), weights_of(theirs))


CASES = {  # arguments, weights of kind and of age
    "a column of one output": ({"sample_weight": {"kind": "w"}}, W, ONES),
    "a column of each": ({"sample_weight": {"age": "v", "kind": "w"}}, W, V),
    "class weights of one": ({"class_weight": {"kind": {"x": 1, "y": 5}}}, FIVE, ONES),
    "balanced": ({"class_weight": {"kind": "balanced", "age": None}}, BALANCED, ONES),
    "both": (
        {"sample_weight": {"kind": "w", "age": "v"}, "class_weight": {"kind": {0: 1, 1: 5}}},
        W * FIVE, V,
    ),
    "one column of both": (
        {"sample_weight": "w", "class_weight": {"kind": "balanced"}}, W * BALANCED, W,
    ),
}  # fmt: skip


def nested(options, nesting):
    if nesting is dict:
        return options
    return {
        name: value if isinstance(value, str) else [value.get(key) for key in Y]
        for name, value in options.items()
    }


@pytest.mark.backend
@pytest.mark.parametrize(
    ("case", "nesting"),
    [*((case, dict) for case in CASES), ("both", list), ("one column of both", list)],
)
def test_weights_of_two_outputs_train_as_arrays(df, case, nesting):
    options, kind, age = CASES[case]
    seq = numbers(df, Y if nesting is dict else [*Y.values()], **nested(options, nesting))
    assert_as_arrays(df, seq, nesting, kind, age)


@pytest.mark.backend
@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({"sample_weight": "w"}, W),
        ({"class_weight": {"x": 1, "y": 5}}, FIVE),
        ({"class_weight": {0: 1, 1: 5}, "sample_weight": "v"}, V * FIVE),
        ({"class_weight": "balanced"}, BALANCED),
    ],
    ids=["sample_weight", "names", "numbers and sample_weight", "balanced"],
)
def test_weights_of_one_output_train_as_arrays(df, options, weights):
    assert_as_arrays(df, numbers(df, "kind", **options), None, weights, None)


@pytest.mark.backend
def test_fit_without_weights_equals_arrays(df):
    seq = numbers(df, Y)
    assert len(seq[0]) == 2
    assert_as_arrays(df, seq, dict, ONES, ONES)


@pytest.mark.backend
@pytest.mark.parametrize("nesting", [dict, list])
@pytest.mark.parametrize("weighted", [False, True])
def test_missing_labels_count_nothing(df, nesting, weighted):
    """Some rows lack a kind; the second batch has no age at all."""
    there = {"kind": ~df.id.isin([0, 7]), "age": ~df.id.isin([2, 4, 5, 6, 7])}
    partial = df.assign(**{name: df[name].where(mask) for name, mask in there.items()})
    y = {
        "kind": dfgen.Category("kind", missing="ignore"),
        "age": dfgen.Number("age", missing="ignore"),
    }
    options = {"sample_weight": "w"} if weighted else {}
    seq = numbers(partial, y if nesting is dict else [*y.values()], **options)
    kind, age = ((W if weighted else ONES) * there[name] for name in y)
    targets = seq[1][1:]
    if nesting is dict:
        assert targets[1]["age"].tolist() == [0] * 4
    assert_as_arrays(df, seq, nesting, kind, age)


@pytest.fixture
def bad_rows(df, files, tmp_path):
    """Return the frame with files, of which rows 2, 3 and 9 are corrupt or missing."""
    (tmp_path / "bad.png").write_bytes(b"no image")
    paths = files[:ROWS]
    paths[2], paths[3], paths[9] = str(tmp_path / "bad.png"), str(tmp_path / "gone.png"), ""
    paths[9] = str(tmp_path / "bad.png")
    return df.assign(path=paths)


@pytest.mark.backend
def test_skipped_rows_leave_mean_loss_of_good_rows(bad_rows):
    """The loss of each batch is the mean over its good rows, with their own weights."""
    image = keras.Input((4, 4, 3))
    start = keras.initializers.RandomNormal(seed=1)
    flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(image))
    own = keras.Model(image, keras.layers.Dense(2, kernel_initializer=start)(flat))
    own.compile("sgd", SPARSE(from_logits=True), run_eagerly=EAGER)
    options = {"on_error": "skip", "shuffle": False, "image_size": (4, 4), "batch_size": 5}
    seq = dfgen.Sequence(bad_rows, y="kind", **options)
    good = np.array([True, True, False, False, True, *[True] * 4, False])
    expected, batches = [], []
    for batch in (slice(0, 5), slice(5, 10)):
        rows = np.flatnonzero(good[batch]) + batch.start
        x = np.zeros((len(rows), 4, 4, 3))
        x[..., 0] = rows[:, None, None]
        batches.append((x, bad_rows.kind.cat.codes.to_numpy("i4")[rows]))
        expected.append(own.evaluate(*batches[-1], verbose=0))
    assert own.evaluate(seq, verbose=0) == pytest.approx(np.mean(expected), rel=1e-4)
    weights = [seq[step][2] for step in range(2)]
    np.testing.assert_allclose(weights[0], np.array([1, 1, 0, 0, 1]) * 5 / 3, rtol=1e-6)
    np.testing.assert_allclose(weights[1], np.array([1, 1, 1, 1, 0]) * 5 / 4, rtol=1e-6)
    assert not seq[0][0][2:4].any() and seq.problems["id"].tolist() == [2, 3, 9]
    theirs = keras.models.clone_model(own)
    theirs.compile("sgd", SPARSE(from_logits=True), run_eagerly=EAGER)
    theirs.set_weights(own.get_weights())
    for x, y in batches:
        theirs.train_on_batch(x, y)
    own.fit(seq, verbose=0)
    assert_close(weights_of(own), weights_of(theirs))


@pytest.mark.backend
@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_batch_of_bad_rows_stops_training(bad_rows, method):
    options = {"on_error": "skip", "shuffle": False, "image_size": (4, 4), "batch_size": 2}
    seq = dfgen.Sequence(bad_rows, y="kind", **options)
    image = keras.Input((4, 4, 3))
    own = keras.Model(image, keras.layers.Dense(2)(keras.layers.Flatten()(image)))
    own.compile("sgd", SPARSE(from_logits=True), run_eagerly=EAGER)
    with pytest.raises(ProblemsError, match="id=2"):
        getattr(own, method)(seq, verbose=0)
