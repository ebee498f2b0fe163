"""Models with a head whose labels some rows lack: losses, gradients and metrics of the others."""

import keras
import numpy as np
import pandas as pd
import pytest
from watching import EAGER

import dfgen

pytestmark = pytest.mark.backend
ROWS, SIZE = 12, 4
LOSSES = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "age": "mse"}
Y = {"kind": dfgen.Category("kind", missing="ignore"), "age": dfgen.Number("age", missing="ignore")}
X = dfgen.Number(["a", "b"])


@pytest.fixture
def df():
    """Return rows of which those of the second batch have no age, and two others no kind."""
    generator = np.random.default_rng(0)
    df = pd.DataFrame(generator.normal(size=(ROWS, 2)).astype("f4"), columns=["a", "b"])
    df["kind"] = pd.Categorical([None, "x", "y", "y", "x", "x", "y", None, *"xyxy"])
    df["age"] = [1.0, 2, None, 4, *[None] * 4, 9, 10, 11, None]
    return df.assign(id=range(ROWS), weight=np.arange(ROWS) / 4)


def sequence(df, y=Y, **options):
    options = {"batch_size": SIZE, "shuffle": False, "workers": 1, **options}
    return dfgen.Sequence(df, X, y, **options)


def model(names=("kind", "age"), keyed=True):
    """Return heads that share nothing, the same however many."""
    inputs = keras.Input((2,))
    heads = {}
    for name, size in {"kind": 2, "age": 1}.items():
        start = keras.initializers.RandomNormal(seed=size)
        heads[name] = keras.layers.Dense(size, kernel_initializer=start, name=name)(inputs)
    outputs = {name: heads[name] for name in names} if keyed else [heads[name] for name in names]
    made = keras.Model(inputs, outputs)
    losses = {name: LOSSES[name] for name in names}
    metrics = {"kind": ["accuracy"], "age": ["mae"]}
    weighted = {name: metrics[name] for name in names}
    made.compile("sgd", losses, weighted_metrics=weighted, run_eagerly=EAGER)
    return made


def array(found):
    return keras.ops.convert_to_numpy(found)


def weights_of(made, name):
    return np.concatenate([array(w).ravel() for w in made.get_layer(name).weights])


def trained_on_labelled_rows(df, name, own):
    """Return the weights of a head after its labelled rows alone, each batch / labelled of it."""
    made = model([name])
    for start in range(0, ROWS, SIZE):
        batch = df[start : start + SIZE]
        there = batch[name].notna()
        if there.any():
            labels = batch[name].cat.codes if name == "kind" else batch[name]
            weight = own[start : start + SIZE][there] * there.sum() / SIZE
            x, y = batch.loc[there, ["a", "b"]].to_numpy(), {name: labels[there].to_numpy()}
            made.train_on_batch(x, y, {name: weight.astype("f4")})
    return weights_of(made, name)


@pytest.mark.parametrize(
    ("keyed", "y"),
    [(True, Y), (False, list(Y.values())), (False, dict(reversed(Y.items())))],
    ids=["dicts", "lists", "a dict for a list"],
)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_a_head_learns_from_labelled_rows_alone(df, keyed, y, weight):
    own = np.ones(ROWS) if weight is None else df[weight].to_numpy()
    made = model(keyed=keyed)
    with sequence(df, y, sample_weight=weight) as seq:
        history = made.fit(seq, verbose=0).history
    assert np.isfinite([*history.values()]).all()
    for name in Y:
        expected = trained_on_labelled_rows(df, name, own)
        np.testing.assert_allclose(weights_of(made, name), expected, 1e-5, 1e-6, err_msg=name)
        assert (expected != weights_of(model(), name)).any()


def test_a_batch_without_any_label_of_a_head_has_loss_0_and_changes_nothing_there(df):
    made = model()
    with sequence(df[4:8]) as seq:
        _, _, weights = seq[0]
        assert {name: w.tolist() for name, w in weights.items()} == {
            "kind": [1, 1, 1, 0], "age": [0, 0, 0, 0],
        }  # fmt: skip
        before = weights_of(made, "age"), weights_of(made, "kind")
        history = made.fit(seq, verbose=0).history
    assert history["age_loss"] == history["age_mae"] == [0]
    assert np.isfinite([*history.values()]).all() and history["loss"] == history["kind_loss"]
    np.testing.assert_array_equal(weights_of(made, "age"), before[0])
    assert (weights_of(made, "kind") != before[1]).any()


def test_weighted_metrics_are_means_over_labelled_rows_and_losses_over_all(df):
    made = model()
    with sequence(df) as seq:
        found = made.evaluate(seq, verbose=0, return_dict=True)
        predicted = made.predict(seq, verbose=0)
    there, lacking = df["age"].notna(), df["kind"].isna()
    errors = (predicted["age"][:, 0] - df["age"])[there]
    assert found["age_mae"] == pytest.approx(errors.abs().mean(), rel=1e-5)
    assert found["age_loss"] == pytest.approx((errors**2).sum() / ROWS, rel=1e-5)
    right = (predicted["kind"].argmax(axis=1) == df["kind"].cat.codes)[~lacking]
    assert found["kind_accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize("names", [["kind"], ["age"], ["kind", "age"]], ids="+".join)
def test_metrics_that_count_rows_without_a_label_are_told_by_the_outputs_that_have_them(df, names):
    made = model()
    metrics = {name: {"kind": ["accuracy"], "age": ["mae"]}[name] for name in names}
    made.compile("sgd", LOSSES, metrics=metrics, run_eagerly=EAGER)
    with sequence(df) as seq, pytest.warns(UserWarning, match="metrics= ignore") as told:
        made.evaluate(seq, verbose=0)
    blanks = [f"{df[name].isna().sum()} without a label, as blanks in {name!r}" for name in names]
    assert [str(one.message) for one in told if "metrics=" in str(one.message)] == [
        f"Keras's metrics= ignore weights, and so count rows of weight 0: {'; '.join(blanks)}. For "
        "metrics of the other rows alone compile the model with weighted_metrics= instead of "
        "metrics="
    ]


def test_one_target_alone_may_be_missing(df):
    with sequence(df, Y["age"]) as seq:
        _, y, weights = seq[0]
        assert [spec.shape for spec in seq.element_spec] == [(None, 2), (None,), (None,)]
        assert (y.tolist(), weights.tolist()) == ([1, 2, 0, 4], [1, 1, 0, 1])
        made = model(["age"])
        assert made.predict(seq, verbose=0)["age"].shape == (ROWS, 1)
        single = keras.Model(made.inputs, made.outputs[0])
        single.compile("sgd", "mse")
        assert np.isfinite(single.fit(seq, verbose=0).history["loss"]).all()
    with sequence(df, Y["kind"], class_weight={"x": 2, "y": 3}) as seq:
        assert seq[0][2].tolist() == [0, 2, 3, 3]


def test_each_target_has_weights_of_its_own_though_no_row_lacks_any(df):
    """So that training and validation have one structure."""
    full = df.assign(kind=df["kind"].fillna("x"), age=1.0)
    for y, nested in (
        (Y, ["kind", "age"]),
        ({"kind": Y["kind"], "age": "age"}, ["kind", "age"]),
        ({"age": Y["age"]}, None),
    ):
        with sequence(full, y) as seq:
            weights = seq[0][2]
            assert (list(weights) if isinstance(weights, dict) else None) == nested
            assert all((w == 1).all() for w in keras.tree.flatten(weights))


def test_arrays_of_one_target_weigh_alike(df, files):
    df = df.assign(path=files[:ROWS], boxes=[[[0, 0, 2, 2]], None] * 6, labels=[[1], None] * 6)
    y = {"what": dfgen.Boxes(max_boxes=2, missing="ignore"), "age": Y["age"]}
    with dfgen.Sequence(df, dfgen.Image(size=(4, 4)), y, batch_size=4, shuffle=False) as seq:
        _, targets, weights = seq[0]
        keras.tree.assert_same_structure(targets, weights)
        assert weights["what"]["boxes"].tolist() == weights["what"]["labels"].tolist()
        assert weights["what"]["boxes"].ravel().tolist() == [1, 0, 1, 0]
        assert weights["what"]["boxes"].shape == (4, 1) and weights["age"].shape == (4,)
    with dfgen.Sequence(df, dfgen.Image(size=(4, 4)), y["what"], shuffle=False) as seq:
        assert seq[0][2].shape == (ROWS, 1)


def test_a_mask_that_a_row_lacks_leaves_the_loss_of_pixels(df, files, tmp_path):
    keras.utils.save_img(tmp_path / "1.png", np.eye(4)[..., None], scale=False)
    df = df.assign(path=files[:ROWS], mask=[f"{tmp_path}/1.png", None, None] * 4)
    y = dfgen.Mask("mask", fill_value=1, missing="ignore")
    with dfgen.Sequence(df, dfgen.Image(size=(4, 4)), y, batch_size=ROWS, shuffle=False) as seq:
        _, masks, weights = seq[0]
        assert weights.shape == (ROWS, 1, 1) and (masks[1] == 1).all()
        made = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Dense(2)])
        made.compile("sgd", LOSSES["kind"])
        predicted = made.predict(seq, verbose=0)[::3]
        pixels = LOSSES["kind"](masks[::3], predicted)
        assert made.evaluate(seq, verbose=0) == pytest.approx(float(pixels) / 3, rel=1e-5)
