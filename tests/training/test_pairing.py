"""Each head learns from its own labels, and each input is fed its own, whatever order they have."""

from collections import OrderedDict

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
EAGER = keras.backend.backend() == "tensorflow"  # which is sooner for a few steps
SGD = keras.optimizers.SGD
ROWS = 8
TRUE = {"a": 1.0, "b": 100.0, "c": 10000.0}


@pytest.fixture
def df():
    """Return rows whose columns are each one number, so that a head tells which it has learned."""
    rows = {"id": range(ROWS), "v": 0.0, "w": np.arange(ROWS, dtype="f4")}
    return pd.DataFrame({**rows, **TRUE, "other": TRUE["a"]})


def sequence(df, y, x="v", **given):
    given = {"batch_size": 4, "shuffle": False, "workers": 0, **given}
    x = dfgen.Number(["v", "w"]) if x == "v" else x
    return dfgen.Sequence(df, x, y, **given)


def others(df):
    """Return rows of other ids."""
    return df.assign(id=df.id + ROWS)


def head(name, value=None):
    """Return a layer that learns one number, or knows it."""
    start = keras.initializers.Constant(0 if value is None else value)
    return keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer=start, name=name)


class Subclassed(keras.Model):
    def __init__(self, kind, names, known):
        super().__init__()
        self.kind, self.made = kind, [head(name, known and TRUE[name]) for name in names]

    def call(self, x):
        made = {one.name: one(x * 0) for one in self.made}
        return list(made.values()) if self.kind is list else self.kind(made)


def heads(kind=dict, names="ba", known=True, subclassed=False, **compiled):
    """Return a model with an output for each name, in this order."""
    if subclassed:
        made = Subclassed(kind, names, known)
    else:
        inputs = keras.Input((2,), name="v")
        zeros = keras.layers.Rescaling(0.0)(inputs)
        found = {name: head(name, known and TRUE[name])(zeros) for name in names}
        made = keras.Model(inputs, list(found.values()) if kind is list else kind(found))
    made.compile(**{"optimizer": SGD(0.5), "loss": "mse", "run_eagerly": EAGER, **compiled})
    return made


def refused(call):
    with pytest.raises(ArgumentError) as error:
        call()
    return str(error.value)


LOGITS = keras.losses.BinaryCrossentropy(from_logits=True)
DICT, LIST = {"a": "a", "b": "b"}, ["b", "a"]
PAIRED = [
    (heads, DICT),
    (lambda **given: heads(list, **given), {"a": "a", "b": "b"}),
    *(pytest.param(make, y, marks=pytest.mark.slow) for make, y in (
     (lambda **given: heads(OrderedDict, **given), DICT),
     (lambda **given: heads(list, **given), ["b", "a"]),
     (lambda **given: heads(list, **given), ["b", "other"]),
     (lambda **given: heads(subclassed=True, **given), DICT),
     (lambda **given: heads(list, subclassed=True, **given), ["b", "a"]))),
]  # fmt: skip


@pytest.mark.parametrize(("make", "y"), PAIRED)
def test_each_head_learns_from_its_own_labels(make, y, df):
    made = make(known=False)
    with sequence(df, y) as seq, sequence(others(df), y) as val:
        made.fit(seq, validation_data=val, epochs=2, verbose=0)
        loss = made.evaluate(seq, verbose=0, return_dict=True)["loss"]
        frame = dfgen.predict_frame(made, seq)
    assert loss < 1 and frame.loss.mean() == pytest.approx(loss, abs=1e-3)
    for place, name in enumerate("ba"):
        shown = name if f"y_true_{name}" in frame else place  # of a list without names
        assert frame[f"y_true_{shown}"].tolist() == [TRUE[name]] * ROWS
        np.testing.assert_allclose(frame[f"y_pred_{shown}"], TRUE[name], rtol=0.01)


@pytest.mark.parametrize(
    ("given", "y", "expected"),
    [
        ({}, ["b", "a"], "y={'b': 'b', 'a': 'a'}"),
        ({}, ["c", "other"], "y={'b': 'c', 'a': 'other'}"),
        ({}, [dfgen.Number(["a", "b"]), "c"], "y={'b': 'a, b', 'a': 'c'}"),
        ({"subclassed": True}, ["b", "a"], "y={'a': 'a', 'b': 'b'}"),
        ({"subclassed": True}, {"a": "a", "c": "c"}, "nothing feeds the output 'b' of the model"),
    ],
)  # fmt: skip
def test_a_list_for_a_dict_of_outputs_is_refused_with_the_dict(given, y, expected, df):
    with sequence(df, y) as seq:
        assert expected in refused(lambda: heads(**given).fit(seq, verbose=0))
        assert expected in refused(lambda: heads(**given).evaluate(seq, verbose=0))


def test_a_column_may_feed_two_heads_and_a_dict_may_exchange_them(df):
    made = heads(list)
    with sequence(df, ["b", "b"]) as seq:  # a head beside it may learn the same
        made.evaluate(seq, verbose=0)
    with sequence(df, {"b": "a", "a": "b"}) as seq:
        assert made.evaluate(seq, verbose=0, return_dict=True)["a_loss"] == pytest.approx(99**2)


@pytest.mark.parametrize("subclassed", [False, True], ids=["functional", "subclassed"])
def test_data_of_another_nesting_than_that_of_training_are_paired(subclassed, df):
    made = heads(subclassed=subclassed, optimizer=SGD(0.0))
    with sequence(others(df), DICT) as train, sequence(df, DICT) as seq:
        history = made.fit(train, validation_data=None if subclassed else seq, verbose=0).history
        assert made.evaluate(seq, verbose=0, return_dict=True)["loss"] == pytest.approx(0)
        assert subclassed or history["val_loss"] == [pytest.approx(0)]


def test_classes_are_compared_though_training_and_validation_are_nested_otherwise(df):
    kinds = pd.Categorical(["cat", "dog"] * 4)
    df = df.assign(a=kinds, b=kinds.rename_categories(["dog", "cat"]))
    loss = dict.fromkeys("ab", LOGITS)
    other = df.assign(a=pd.Categorical(["dog", "cat"] * 4, ["dog", "cat"]))
    for kind, y in ((dict, DICT), (list, ["b", "a"])):
        with sequence(df, {"a": "a", "b": "b"}) as train, sequence(other, y) as seq:
            made = heads(kind, loss=loss)
            told = refused(lambda: made.fit(train, validation_data=seq, verbose=0))  # noqa: B023
            assert told.startswith("validation_data: class")


def test_an_output_without_a_loss_needs_no_target(df):
    with sequence(df.assign(a=7.5), {"a": "a"}) as seq:
        assert heads(loss={"a": "mse"}).evaluate(seq, verbose=0) == pytest.approx(6.5**2)


def test_weights_of_each_target_follow_it(df):
    df["a"] = [1.0, None] * 4
    y = {name: dfgen.Number(name, missing="ignore") for name in "ba"}
    expected = {"a_loss": 2.0, "b_loss": 0.0}
    for kind, given in ((list, {"a": y["a"], "b": y["b"]}), (dict, y)):
        made = heads(kind)
        made.get_layer("a").bias.assign([3.0])
        with sequence(df, given) as seq:
            found = made.evaluate(seq, verbose=0, return_dict=True)
            frame = dfgen.predict_frame(made, seq)
        assert {name: found[name] for name in expected} == pytest.approx(expected)
        assert frame.loss_a.isna().tolist() == [False, True] * 4


def test_boxes_are_paired_by_what_other_names_leave(df, files):
    image = keras.Input((4, 4, 3))
    flat = keras.layers.Flatten()(keras.layers.Rescaling(0.0)(image))
    boxes = keras.layers.Reshape((2, 4))(keras.layers.Dense(8)(flat))
    outputs = {"c": head("c", TRUE["c"])(flat), "what": {"boxes": boxes, "labels": flat[:, :2]}}
    made = keras.Model(image, outputs)
    losses = {"c": "mse", "what": {"boxes": "mse", "labels": "mse"}}
    made.compile("sgd", losses, run_eagerly=EAGER)
    df = df.assign(path=files[:ROWS], boxes=[[[0, 0, 2, 2]]] * ROWS, labels=[[1]] * ROWS)
    found = []
    for y in (
        {"what": dfgen.Boxes(max_boxes=2), "c": "c"},
        {"c": "c", "what": dfgen.Boxes(max_boxes=2)},
    ):
        with sequence(df, y, x=dfgen.Image(size=(4, 4))) as seq:
            found.append(made.evaluate(seq, verbose=0, return_dict=True))
    assert found[0] == found[1] and found[0]["c_loss"] == pytest.approx(0)


def test_a_list_of_losses_is_compared_in_the_order_that_keras_has_for_a_dict(df):
    df = df.assign(a=7.5, b=pd.Categorical(["x", "y"] * 4))
    with sequence(df, DICT) as seq:
        heads(loss=["mse", LOGITS]).evaluate(seq, verbose=0)
        made = heads(loss=[LOGITS, "mse"])
        assert "column 'a' holds" in refused(lambda: made.evaluate(seq, verbose=0))
        found = heads(loss=["mse", None]).evaluate(seq, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(6.5**2)


def adding(kind, names="ba"):
    """Return a model that adds a thousand times b to a, and knows what it makes of each row."""
    inputs = {name: keras.Input((1,), name=name) for name in names}
    by = {name: keras.initializers.Constant(1000.0 if name == "b" else 1.0) for name in names}
    parts = [
        keras.layers.Dense(1, use_bias=False, kernel_initializer=by[name])(one)
        for name, one in inputs.items()
    ]
    made = keras.Model(list(inputs.values()) if kind is list else inputs, sum(parts[1:], parts[0]))
    made.compile(SGD(0.0), "mse", run_eagerly=EAGER)
    return made


@pytest.mark.parametrize(
    ("kind", "names", "x"),
    [
        (dict, "ab", {"b": "b", "a": "a"}),
        pytest.param(list, "ab", {"b": "b", "a": "a"}, marks=pytest.mark.slow),
        pytest.param(list, "ab", ["other", "b"], marks=pytest.mark.slow),
    ],
)
def test_each_input_is_fed_its_own_column(kind, names, x, df):
    made = adding(kind, names)
    df = df.assign(sum=100001.0)
    with sequence(df, "sum", x) as seq, sequence(others(df), "sum", x) as val:
        history = made.fit(seq, validation_data=val, verbose=0).history
        assert [*history.values()] == [[0.0], [0.0]]
        np.testing.assert_allclose(made.predict(seq, verbose=0), 100001)
        assert dfgen.predict_frame(made, seq).y_pred.tolist() == [100001.0] * ROWS


def test_a_list_for_a_dict_of_inputs_is_refused_with_the_dict(df):
    made = adding(dict, "ab")
    with sequence(df, "c", ["c", "other"]) as seq:
        for use in (made.fit, made.evaluate, made.predict):
            assert "x={'a': 'c', 'b': 'other'}" in refused(lambda: use(seq, verbose=0))  # noqa: B023
        assert "x={'a': 'c', 'b': 'other'}" in refused(lambda: dfgen.predict_frame(made, seq))


def of_one_output(sequential):
    layers = [keras.layers.Rescaling(0.0), head("price")]
    if sequential:
        made = keras.Sequential([keras.Input((2,)), *layers])
    else:
        inputs = keras.Input((2,))
        made = keras.Model(inputs, layers[1](layers[0](inputs)))
    made.compile(optimizer=SGD(0.5), loss="mse", run_eagerly=EAGER)
    return made


@pytest.mark.parametrize("sequential", [False, True])
def test_one_output_may_be_fed_by_its_name_and_by_no_other(sequential, df):
    made = of_one_output(sequential)
    with sequence(df, {"price": "b"}) as seq:
        made.fit(seq, epochs=2, verbose=0)
        assert made.evaluate(seq, verbose=0) == 0
        told = dfgen.predict_frame(made, seq)
    assert told.y_pred.tolist() == told.y_true.tolist() == [TRUE["b"]] * ROWS
    with sequence(df, {"prize": "b"}) as seq:
        assert refused(lambda: of_one_output(sequential).fit(seq, verbose=0)) == (
            "nothing feeds the output 'price' of the model: y has 'prize'. Rename the key or the "
            'output, or add a feature to y. Did you mean "price"?'
        )


@pytest.mark.parametrize("side", ["x", "y"])
def test_several_arrays_for_a_model_of_one_say_how_to_make_them_one(df, side):
    made = keras.Sequential([keras.Input((2,)), head("a")])
    made.compile("sgd", "mse", run_eagerly=EAGER)
    columns, what = ["a", "b", "c"], {"x": "input", "y": "output"}[side]
    with sequence(df, **{"x": "v", "y": "a", side: columns}) as seq:
        assert refused(lambda: made.fit(seq, verbose=0)) == (
            f"the model has one {what}, but {side} gives 3: columns of numbers, one-hot ones too, "
            f"are one vector as {side}=dfgen.Number([...]); for 3 arrays build keras.Model(inputs, "
            f"outputs) with 3 {what}s"
        )
