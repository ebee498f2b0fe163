"""What each output of a model is taken for: its target, its loss, its kind, its probabilities."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from cases import each

import dfgen
from dfgen.errors import ArgumentError
from dfgen.training.checks.model_outputs import known_loss
from dfgen.training.predictions.heads import ModelHead, model_heads
from dfgen.training.predictions.prediction_columns import array_values

pytestmark = pytest.mark.backend
SPARSE, BINARY = "sparse_categorical_crossentropy", "binary_crossentropy"
NAMED = dfgen.Category("kind", class_names=["a", "b"])
TAGS = dfgen.MultiLabel("tags", class_names=["a", "b"])
AGE = dfgen.Number("age")


def bound(dtype, *channels):
    spec = SimpleNamespace(dtype=np.dtype(dtype))
    return SimpleNamespace(specs={"y": spec, "": spec}, channel_arrays=channels)


def head(feature=None, loss=None, activation=None, dtype=None, logits=None, channels=()):
    loss = keras.losses.get(loss)
    made = None if dtype is None else bound(dtype, *channels)
    known = None if loss is None else known_loss(loss)
    return ModelHead("", "y", feature, made, loss, known, activation, logits)


@each(("one", "shape", "kind"), [
    (head(NAMED), (3, 2), "classes"),
    (head(NAMED), (3, 4, 2), "array"),
    (head(TAGS), (3, 2), "labels"),
    (head(TAGS), (3, 2, 2), "array"),
    (head(AGE, BINARY, dtype="int32"), (3, 1), "classes"),
    (head(AGE, BINARY, dtype="int32"), (3,), "classes"),
    (head(AGE, BINARY, dtype="bool"), (3, 1), "classes"),
    (head(AGE, BINARY, dtype="float32"), (3, 1), "numbers"),
    (head(AGE, BINARY, dtype="int32"), (3, 2), "numbers"),
    (head(AGE, BINARY), (3, 1), "classes"),
    (head(AGE, SPARSE, dtype="int32"), (3, 4), "classes"),
    (head(AGE, "categorical_crossentropy", dtype="float32"), (3, 4), "numbers"),
    (head(None, "categorical_crossentropy"), (3, 4), "classes"),
    (head(None, None, "softmax"), (3, 4), "classes"),
    (head(AGE, None, "softmax"), (3, 4), "numbers"),
    (head(None, None, "sigmoid"), (3, 1), "numbers"),
    (head(None, "mse", "softmax"), (3, 4), "numbers"),
    (head(AGE, "mse", dtype="float32"), (3, 1), "numbers"),
])  # fmt: skip
def test_what_an_output_says_is_told_by_target_loss_and_shape(one, shape, kind):
    assert one.kind(np.zeros(shape, np.float32)) == kind


LOGITS = np.array([[-2.0, 0.5], [3.0, 2.0]], np.float32)
SIGMOID = 1 / (1 + np.exp(-LOGITS.astype(np.float64)))
SOFTMAX = np.exp(LOGITS.astype(np.float64))
SOFTMAX /= SOFTMAX.sum(axis=1, keepdims=True)


class OwnLoss(keras.losses.Loss):
    from_logits = True

    def call(self, y_true, y_pred):
        return y_pred[:, 0]


def of_logits(kind):
    return kind(from_logits=True)


@pytest.mark.parametrize(("one", "expected"), [
    (head(NAMED, of_logits(keras.losses.SparseCategoricalCrossentropy)), SOFTMAX),
    (head(TAGS, of_logits(keras.losses.BinaryCrossentropy)), SIGMOID),
    (head(TAGS, None, "linear"), SIGMOID),
    (head(NAMED, None, "linear"), SOFTMAX),
    (head(NAMED, OwnLoss()), SOFTMAX),
    (head(NAMED, SPARSE, logits=True), SOFTMAX),
    (head(AGE, "mse", "linear"), LOGITS),
    (head(AGE, "mse", logits=True), LOGITS),
])  # fmt: skip
def test_of_logits_come_probabilities(one, expected):
    found = one.activated(LOGITS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("low", [-0.5, 0.1])
@pytest.mark.parametrize(
    ("loss", "instead"), [("hinge", "binary"), ("categorical_hinge", "categorical")]
)
def test_margins_are_no_probabilities_whatever_they_are(loss, instead, low):
    with pytest.raises(ArgumentError) as refused:
        head(NAMED, keras.losses.get(loss), "tanh").activated(np.array([[low, 0.2]], np.float32))
    assert str(refused.value) == (
        f"the output 'of the model' is trained by {loss}, which makes margins of classes and no "
        f"probabilities: use model.predict, or train with {instead}_crossentropy"
    )


@pytest.mark.parametrize("loss", ["hinge", keras.losses.hinge, keras.losses.Hinge()])
def test_margins_are_refused_however_compile_is_given_their_loss(loss):
    said = np.array([[0.2, 0.7]], np.float32)
    [(one, _)] = model_heads(model(loss, names=("kind",)), said, "k", {"k": (NAMED, None)})
    with pytest.raises(ArgumentError, match="trained by hinge, which makes margins"):
        one.activated(said)


def test_logits_of_one_unit_and_huge_ones_stay_finite():
    one = head(NAMED, None, "linear")
    np.testing.assert_allclose(one.activated(LOGITS[:, :1]), SIGMOID[:, :1], rtol=1e-5)
    np.testing.assert_allclose(one.activated(LOGITS[:, 0]), SIGMOID[:, 0], rtol=1e-5)
    huge = np.array([[-1e4, 1e4]], np.float32)
    assert one.activated(huge).tolist() == [[0, 1]]
    assert head(TAGS, None, "linear").activated(huge).tolist() == [[0, 1]]
    pixels = np.stack([LOGITS, LOGITS])
    masks = head(AGE, of_logits(keras.losses.SparseCategoricalCrossentropy)).activated(pixels)
    np.testing.assert_allclose(masks, np.stack([SOFTMAX, SOFTMAX]), rtol=1e-5)


@pytest.mark.parametrize(("low", "high", "fits"), [
    (0, 1, True), (-0.0009, 1.0009, True), (-0.002, 1, False), (0, 1.002, False),
    (np.nan, 0.5, True),
])  # fmt: skip
def test_probabilities_are_between_0_and_1(low, high, fits):
    said, one = np.array([[low, high]], np.float32), head(NAMED, SPARSE, "softmax")
    if fits:
        np.testing.assert_array_equal(one.activated(said), said)
        return
    with pytest.raises(ArgumentError) as caught:
        one.activated(said)
    assert str(caught.value) == (
        f"the output 'of the model' goes from {low:g} to {high:g}, which are no probabilities, and "
        "the loss does not say that they are logits: give from_logits=True if they are, or end the "
        "model in a softmax or a sigmoid"
    )
    assert one.activated(said[:0]).shape == (0, 2)


@pytest.mark.parametrize(("feature", "said", "last", "instead"), [
    (NAMED, [[-0.1], [1.1]], "sigmoid", "binary"), (NAMED, [-0.1, 1.1], "sigmoid", "binary"),
    (TAGS, [[-0.1, 1.1]], "sigmoid", "binary"), (NAMED, [[-0.1, 1.1]], "softmax", "categorical"),
])  # fmt: skip
def test_classes_trained_as_numbers_are_not_called_logits(feature, said, last, instead):
    one = head(feature, keras.losses.mean_squared_error, "linear")
    with pytest.raises(ArgumentError) as caught:
        one.activated(np.array(said, np.float32))
    assert str(caught.value) == (
        "the output 'of the model' goes from -0.1 to 1.1, which are no probabilities, and "
        "mean_squared_error, the loss, makes none of them: use model.predict, or end the model in "
        f"a {last} and train it with {instead}_crossentropy"
    )


def model(loss=None, loss_weights=None, names=("age", "kind")):
    image = keras.Input((2,))
    made = keras.Model(image, [keras.layers.Dense(2, name=name)(image) for name in names])
    if loss is not None:
        made.compile(loss=loss, loss_weights=loss_weights)
    return made


def paired(made, outputs, y, **targets):
    targets = {name: (one, None) for name, one in targets.items()}
    return [
        (one.name, one.target, one.known and one.known.name, one.loss_weight, one.activation, array)
        for one, array in model_heads(made, outputs, y, targets)
    ]


def test_outputs_meet_their_targets_losses_and_weights_by_name():
    made = model({"kind": SPARSE, "age": "mse"}, {"age": 3.0})
    y, targets = {"kind": "k", "age": "a"}, {"k": NAMED, "a": AGE}
    mse = known_loss(keras.losses.get("mse")).name
    expected = [("age", "a", mse, 3.0, "linear", 1), ("kind", "k", SPARSE, 1.0, "linear", 2)]
    assert paired(made, [1, 2], y, **targets) == expected
    assert paired(made, {"age": 1, "kind": 2}, y, **targets) == expected
    listed = model(["mse", SPARSE], [3.0, 1.0])
    assert paired(listed, [1, 2], y, **targets) == expected
    assert paired(listed, [1, 2], ["a", "k"], **targets) == expected
    assert [one[:3] for one in paired(made, [1, 2], None)] == [
        ("age", None, mse), ("kind", None, SPARSE)
    ]  # fmt: skip
    assert [one[:2] for one in paired(made, {"a": {"b": 1, "c": [2, 3]}}, None)] == [
        ("a_b", None), ("a_c_0", None), ("a_c_1", None)
    ]  # fmt: skip
    alone = paired(model("mse", names=("age",)), [1], "a", a=AGE)
    assert alone == [("", "a", mse, 1.0, "linear", 1)]
    assert paired(made, (1, 2, 3), None)[2][0] == "2"  # which no name is for


def test_outputs_that_are_nested_meet_their_losses_and_weights():
    image = keras.Input((2,))
    outputs = {"kind": keras.layers.Dense(2)(image), "more": {"age": keras.layers.Dense(1)(image)}}
    made = keras.Model(image, outputs)
    losses, weights = {"kind": SPARSE, "more": {"age": "mse"}}, {"kind": 1.0, "more": {"age": 3.0}}
    made.compile(loss=losses, loss_weights=weights)
    y = {"kind": "k", "more": {"age": "a"}}
    found = paired(made, {"kind": 1, "more": {"age": 2}}, y, k=NAMED, a=AGE)
    mse = known_loss(keras.losses.get("mse")).name
    assert [one[:4] for one in found] == [("kind", "k", SPARSE, 1.0), ("more_age", "a", mse, 3.0)]


@pytest.mark.parametrize("loss", ["mse", ["mse"], {"age": "mse"}])
def test_the_loss_of_a_single_output_is_found_however_compile_is_given_it(loss):
    image = keras.Input((2,))
    made = keras.Model(image, keras.layers.Dense(1, name="age")(image))
    made.compile(loss=loss)
    [(one, _)] = model_heads(made, np.zeros((3, 1)), "a", {"a": (AGE, None)})
    assert one.known.kind == "regression"


def test_targets_and_outputs_of_other_names_are_refused():
    for y, told in (
        ({"kind": "k", "size": "s"}, "2 (kind, size)"),
        ({"kind": "k"}, "1 (kind)"),
        ("k", "1 (without a name)"),
    ):
        with pytest.raises(ArgumentError) as caught:
            paired(model(["mse", SPARSE]), [1, 2], y, k=NAMED, s=AGE)
        assert str(caught.value) == (
            f"the model has 2 outputs (age, kind), but y has {told}: write y={{'age': ..., ...}}, "
            "a feature for each output by its name, or predict with a model of those outputs "
            "alone, keras.Model(model.input, ...)"
        )
    without = model({"kind": SPARSE, "age": None})
    assert [one[1] for one in paired(without, [1, 2], {"kind": "k"}, k=NAMED)] == [None, "k"]


class OwnStep(keras.Model):
    def compute_loss(self, *given, **named):
        return super().compute_loss(*given, **named)


def test_a_loss_of_its_own_is_asked_of_no_row():
    plain = model(["mse", SPARSE])
    made = OwnStep(plain.input, plain.output)
    made.compile(loss=["mse", SPARSE])
    assert [one[2] for one in paired(made, [1, 2], ["a", "k"], a=AGE, k=NAMED)] == [None, None]


BYTES, FLOATS = np.uint8, np.float32


@each(("one", "shape", "expected"), [
    (head(None, BINARY), (2, 3, 3, 1), BYTES),
    (head(None, None, "sigmoid"), (2, 3, 1), BYTES),
    (head(None, SPARSE), (2, 3, 3, 4), BYTES),
    (head(None, None, "softmax"), (2, 3, 256), BYTES),
    (head(None, None, "softmax"), (2, 3, 257), np.uint16),
    (head(None, "categorical_crossentropy"), (2, 3, 2), BYTES),
    (head(None, "mse"), (2, 3, 4), FLOATS),
    (head(None, None, "sigmoid"), (2, 3, 4), FLOATS),
    (head(None, SPARSE), (2, 3, 1), FLOATS),
    (head(), (2, 3, 1), FLOATS),
])  # fmt: skip
def test_classes_of_pixels_become_their_numbers(one, shape, expected):
    said = np.random.default_rng(0).random(shape, np.float32)
    found = array_values(one, said)
    assert found.dtype == expected
    if expected == np.float32:
        assert found is said
    elif shape[-1] == 1:
        np.testing.assert_array_equal(found, said[..., 0] > 0.5)
    else:
        np.testing.assert_array_equal(found, said.argmax(axis=-1))


def test_pixels_are_turned_where_channels_come_first(monkeypatch):
    monkeypatch.setattr(keras.config, "image_data_format", lambda: "channels_first")
    said = np.random.default_rng(0).random((2, 4, 3, 5), np.float32)
    one = head(None, SPARSE, dtype="uint8", channels=("y",))
    np.testing.assert_array_equal(array_values(one, said), said.argmax(axis=1))
    other = head(None, SPARSE, dtype="uint8", channels=("x",))
    np.testing.assert_array_equal(array_values(other, said), said.argmax(axis=-1))
