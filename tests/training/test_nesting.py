"""Outputs learn from their own targets, and inputs get their own arrays, in any nesting."""

from collections import OrderedDict

import keras
import numpy as np
import pandas as pd
import pytest
from public.keras_helpers import EAGER

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
SGD, layers = keras.optimizers.SGD, keras.layers
ROWS = 8
TRUE = {"a": 1.0, "b": 100.0, "c": 10000.0}


@pytest.fixture
def df():
    """Return rows with a constant per column, so that an output shows which one it has learned."""
    rows = {"id": range(ROWS), "v": 0.0, "w": np.arange(ROWS, dtype="f4")}
    return pd.DataFrame({**rows, **TRUE, "other": TRUE["a"]})


def sequence(df, y, x=None, **options):
    options = {"batch_size": 4, "shuffle": False, "workers": 0, **options}
    return dfgen.Sequence(df, dfgen.Number(["v", "w"]) if x is None else x, y, **options)


def head(name, value=None):
    """Return a layer that learns one number, or knows it."""
    start = keras.initializers.Constant(0 if value is None else value)
    return layers.Dense(1, kernel_initializer="zeros", bias_initializer=start, name=name)


class Subclassed(keras.Model):
    def __init__(self, kind, names, known):
        super().__init__()
        self.kind, self.heads = kind, [head(name, known and TRUE[name]) for name in names]

    def call(self, x):
        outputs = {layer.name: layer(x * 0) for layer in self.heads}
        return [*outputs.values()] if self.kind is list else self.kind(outputs)


def heads(kind=dict, names="ba", known=True, subclassed=False, **compiled):
    """Return a model with an output for each name, in this order."""
    if subclassed:
        made = Subclassed(kind, names, known)
    else:
        inputs = keras.Input((2,), name="v")
        zeros = layers.Rescaling(0.0)(inputs)
        outputs = {name: head(name, known and TRUE[name])(zeros) for name in names}
        made = keras.Model(inputs, [*outputs.values()] if kind is list else kind(outputs))
    made.compile(**{"optimizer": SGD(0.5), "loss": "mse", "run_eagerly": EAGER, **compiled})
    return made


NESTED = {  # kind of the outputs, subclassed, y
    "a dict": (dict, False, {"a": "a", "b": "b"}),
    "an ordered dict": (OrderedDict, False, {"a": "a", "b": "b"}),
    "a dict for a list": (list, False, {"a": "a", "b": "b"}),
    "lists": (list, False, ["b", "a"]),
    "a subclassed dict": (dict, True, {"a": "a", "b": "b"}),
    "a subclassed list": (list, True, ["b", "a"]),
}


@pytest.mark.parametrize("name", NESTED)
def test_each_output_learns_from_its_own_target(df, name):
    kind, subclassed, y = NESTED[name]
    made, seq = heads(kind, known=False, subclassed=subclassed), sequence(df, y)
    made.fit(seq, validation_data=sequence(df.assign(id=df.id + ROWS), y), epochs=2, verbose=0)
    loss = made.evaluate(seq, verbose=0, return_dict=True)["loss"]
    frame = dfgen.predict_frame(made, seq)
    assert loss < 1 and frame.loss.mean() == pytest.approx(loss, abs=1e-3)
    for place, name in enumerate("ba"):
        shown = name if f"y_true_{name}" in frame else place  # in a list without names
        assert frame[f"y_true_{shown}"].tolist() == [TRUE[name]] * ROWS
        np.testing.assert_allclose(frame[f"y_pred_{shown}"], TRUE[name], rtol=0.01)


@pytest.mark.parametrize("method", ["fit", "evaluate"])
@pytest.mark.parametrize(
    ("y", "shown"),
    [
        (["b", "a"], "{'b': 'b', 'a': 'a'}"),
        (["c", "other"], "{'b': 'c', 'a': 'other'}"),
        ([dfgen.Number(["a", "b"]), "c"], "{'b': 'a, b', 'a': 'c'}"),
    ],
)
def test_list_for_output_dict_raises_with_the_dict(df, method, y, shown):
    with pytest.raises(ArgumentError) as error:
        getattr(heads(), method)(sequence(df, y), verbose=0)
    assert f"y={shown}" in str(error.value)


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_list_for_subclassed_model_dict_raises(df, method):
    made, seq = heads(subclassed=True, run_eagerly=False), sequence(df, ["b", "a"])
    for _ in range(2):
        with pytest.raises(ArgumentError, match="dict"):
            getattr(made, method)(seq, verbose=0)


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize("y", [{"a": "a", "c": "c"}, {"a": "a", "b": "b", "c": "c"}])
def test_other_keys_raise(df, kind, y):
    with pytest.raises(ArgumentError, match="'c'"):
        heads(kind).fit(sequence(df, y), verbose=0)


def test_a_dict_may_exchange_columns(df):
    made = heads(list)
    losses = made.evaluate(sequence(df, {"b": "a", "a": "b"}), verbose=0, return_dict=True)
    assert losses["a_loss"] == pytest.approx(99**2)


def test_an_output_without_a_loss_needs_no_target(df):
    seq = sequence(df.assign(a=7.5), {"a": "a"})
    assert heads(loss={"a": "mse"}).evaluate(seq, verbose=0) == pytest.approx(6.5**2)


def test_loss_list_follows_the_order_of_keras(df):
    logits = keras.losses.BinaryCrossentropy(from_logits=True)
    df = df.assign(a=7.5, b=pd.Categorical(["x", "y"] * 4))
    seq = sequence(df, {"a": "a", "b": "b"})
    heads(loss=["mse", logits]).evaluate(seq, verbose=0)
    with pytest.raises(ArgumentError, match="'a'"):
        heads(loss=[logits, "mse"]).evaluate(seq, verbose=0)


def test_boxes_are_nested_in_an_output(df, files):
    image = keras.Input((4, 4, 3))
    flat = layers.Flatten()(layers.Rescaling(0.0)(image))
    boxes = layers.Reshape((2, 4))(layers.Dense(8)(flat))
    outputs = {"c": head("c", TRUE["c"])(flat), "what": {"boxes": boxes, "labels": flat[:, :2]}}
    made = keras.Model(image, outputs)
    losses = {"c": "mse", "what": {"boxes": "mse", "labels": "mse"}}
    made.compile("sgd", losses, run_eagerly=EAGER)
    df = df.assign(path=files[:ROWS], boxes=[[[0, 0, 2, 2]]] * ROWS, labels=[[1]] * ROWS)
    y = {"what": dfgen.Boxes(max_items=2), "c": "c"}
    results = [
        made.evaluate(sequence(df, part, dfgen.Image(size=(4, 4))), verbose=0, return_dict=True)
        for part in (y, dict(reversed(y.items())))
    ]
    assert results[0] == results[1] and results[0]["c_loss"] == pytest.approx(0)


def test_list_for_input_dict_raises_with_the_dict(df):
    inputs = {name: keras.Input((1,), name=name) for name in "ab"}
    made = keras.Model(inputs, inputs["a"] - inputs["b"])
    made.compile("sgd", "mse")
    seq = sequence(df, "c", ["c", "other"])
    for use in (made.fit, made.evaluate, made.predict):
        with pytest.raises(ArgumentError, match=r"x=\{'a': 'c', 'b': 'other'\}"):
            use(seq, verbose=0)


@pytest.mark.parametrize("sequential", [False, True])
def test_one_output_takes_its_name_and_one_array(df, sequential):
    last, inputs = head("price", TRUE["b"]), keras.Input((2,))
    made = keras.Sequential([inputs, last]) if sequential else keras.Model(inputs, last(inputs))
    made.compile(optimizer=SGD(0.0), loss="mse", run_eagerly=EAGER)
    assert made.evaluate(sequence(df, {"price": "b"}), verbose=0) == 0
    with pytest.raises(ArgumentError, match="price"):
        made.fit(sequence(df, {"prize": "b"}), verbose=0)
    for x, y in ((["v", "w"], "b"), (None, ["a", "b"])):
        with pytest.raises(ArgumentError, match="Number"):
            made.fit(sequence(df, y, x), verbose=0)
