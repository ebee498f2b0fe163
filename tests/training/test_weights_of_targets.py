"""Weights of several targets and of pixels, which Keras multiplies with losses of these shapes."""

import keras
import numpy as np
import pandas as pd
import pytest
from public.keras_helpers import EAGER, numbers

import dfgen

pytestmark = pytest.mark.backend
ROWS = 12
SPARSE = keras.losses.SparseCategoricalCrossentropy
Y = {"kind": dfgen.Category("kind", missing="ignore"), "age": dfgen.Number("age", missing="ignore")}


@pytest.fixture
def df(files, tmp_path):
    """Return rows that lack some labels and masks; no row of the second batch has an age."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(ROWS, 2)).astype("f4"), columns=["a", "b"])
    df["kind"] = pd.Categorical([None, "x", "y", "y", "x", "x", "y", None, *"xyxy"])
    df["age"] = [1.0, 2, None, 4, *[None] * 4, 9, 10, 11, None]
    for name, pixels in (("eye", np.eye(4)), ("one", np.ones((4, 4)))):
        keras.utils.save_img(tmp_path / f"{name}.png", pixels[..., None], scale=False)
    masks = [f"{tmp_path}/eye.png", None, f"{tmp_path}/one.png"] * 4
    return df.assign(id=range(ROWS), path=files[:ROWS], mask=masks, weight=np.arange(ROWS) / 4)


def model(metrics=None):
    inputs = keras.Input((2,))
    heads = {"kind": 2, "age": 1}
    outputs = {name: keras.layers.Dense(heads[name], name=name)(inputs) for name in heads}
    made = keras.Model(inputs, outputs)
    weighted = {"kind": ["accuracy"], "age": ["mae"]}
    losses = {"kind": SPARSE(from_logits=True), "age": "mse"}
    made.compile("sgd", losses, metrics=metrics, weighted_metrics=weighted, run_eagerly=EAGER)
    return made


def test_weighted_metrics_count_labelled_rows_and_losses_all(df):
    made, seq = model(), numbers(df, Y)
    results = made.evaluate(seq, verbose=0, return_dict=True)
    predicted = made.predict(seq, verbose=0)
    has_age, has_kind = df["age"].notna(), df["kind"].notna()
    errors = (predicted["age"][:, 0] - df["age"])[has_age]
    assert results["age_mae"] == pytest.approx(errors.abs().mean(), rel=1e-5)
    assert results["age_loss"] == pytest.approx((errors**2).sum() / ROWS, rel=1e-5)
    right = predicted["kind"].argmax(axis=1) == df["kind"].cat.codes
    assert results["kind_accuracy"] == pytest.approx(right[has_kind].mean())


@pytest.mark.parametrize("names", [["kind"], ["age"], ["kind", "age"]], ids="+".join)
def test_metrics_that_count_rows_without_a_label_warn(df, names):
    made = model({name: {"kind": ["accuracy"], "age": ["mae"]}[name] for name in names})
    with pytest.warns(UserWarning, match="metrics=") as warned:
        made.evaluate(numbers(df, Y), verbose=0)
    (message,) = [str(one.message) for one in warned if "metrics=" in str(one.message)]
    for name in Y:
        assert (f"{df[name].isna().sum()} without a label in {name!r}" in message) == (
            name in names
        )


def test_possibly_missing_targets_always_have_weights(df):
    """So that training and validation have one structure."""
    full = df.assign(kind=df["kind"].fillna("x"), age=1.0)
    for y, names in ((Y, ["kind", "age"]), ({"kind": Y["kind"], "age": "age"}, ["kind", "age"]),
                     ({"age": Y["age"]}, None)):  # fmt: skip
        weights = numbers(full, y)[0][2]
        assert (list(weights) if isinstance(weights, dict) else None) == names
        assert all((array == 1).all() for array in keras.tree.flatten(weights))


def test_arrays_of_one_target_have_the_same_weights(df):
    df = df.assign(boxes=[[[0, 0, 2, 2]], None] * 6, labels=[[1], None] * 6)
    y = {"what": dfgen.Boxes(max_items=2, missing="ignore"), "age": Y["age"]}
    with dfgen.Sequence(df, dfgen.Image(size=(4, 4)), y, batch_size=4, shuffle=False) as seq:
        _, targets, weights = seq[0]
    keras.tree.assert_same_structure(targets, weights)
    assert weights["what"]["boxes"].ravel().tolist() == [1, 0, 1, 0]
    assert weights["what"]["boxes"].tolist() == weights["what"]["labels"].tolist()
    assert weights["what"]["boxes"].shape == (4, 1) and weights["age"].shape == (4,)


def masks(df, units, loss, **options):
    """Return a model of pixels, compiled, and a Sequence of masks, of which some are missing."""
    made = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Conv2D(units, 1)])
    made.compile("sgd", loss, run_eagerly=EAGER)
    y = dfgen.Mask("mask", fill_value=1, missing="ignore", **options)
    x = dfgen.Image(size=(4, 4))
    return made, dfgen.Sequence(df, x, y, batch_size=ROWS, shuffle=False, workers=0)


def test_missing_masks_count_nothing_in_pixel_loss(df):
    made, seq = masks(df, 2, SPARSE(from_logits=True))
    _, targets, weights = seq[0]
    assert weights.shape == (ROWS, 1, 1) and (targets[1] == 1).all()
    there = np.arange(ROWS) % 3 != 1
    pixels = SPARSE(from_logits=True)(targets[there], made.predict(seq, verbose=0)[there])
    assert made.evaluate(seq, verbose=0) == pytest.approx(float(pixels) * 2 / 3, rel=1e-5)
    assert np.isfinite(made.fit(seq, verbose=0).history["loss"][0])


def test_missing_masks_count_nothing_beside_an_ignored_class(df):
    """The mean is over the pixels that count."""
    loss = SPARSE(from_logits=True, ignore_class=0)
    made, seq = masks(df, 2, loss)
    targets = seq[0][1]
    plain = SPARSE(from_logits=True, reduction=None)(targets, made.predict(seq, verbose=0))
    there = (np.arange(ROWS) % 3 != 1)[:, None, None]
    losses = keras.ops.convert_to_numpy(plain) * (targets[..., 0] == 1) * there
    total = made.evaluate(seq, verbose=0)
    assert total == pytest.approx(losses.sum() / (targets == 1).sum(), rel=1e-4)
    assert np.isfinite(made.fit(seq, verbose=0).history["loss"][0])


def test_loss_per_row_has_one_weight_per_row(df):
    """Weights of (batch, 1, 1) would broadcast such losses over the rows of a batch."""
    loss = keras.losses.Dice(axis=(1, 2, 3), reduction="sum_over_batch_size")
    made, seq = masks(df.assign(mask=df["mask"].bfill()), 1, loss)
    weighted = dfgen.Sequence(
        seq.manifest, dfgen.Image(size=(4, 4)), dfgen.Mask("mask"), batch_size=ROWS,
        shuffle=False, workers=0, sample_weight="weight",
    )  # fmt: skip
    targets, predicted = weighted[0][1], made.predict(seq, verbose=0)
    rows = [float(loss(targets[[row], ..., None], predicted[[row]])) for row in range(ROWS)]
    expected = np.mean(np.array(rows) * df["weight"])
    assert made.evaluate(weighted, verbose=0) == pytest.approx(expected, rel=1e-4)
