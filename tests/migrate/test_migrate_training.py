"""Iterators of `dfgen.migrate` in `fit`, `evaluate` and `predict`, beside Keras's own."""

import warnings

import beside_keras
import keras
import numpy as np
import pytest
from beside_keras import BOTH

from dfgen.errors import ArgumentError
from dfgen.migrate import ImageDataGenerator

pytestmark = pytest.mark.backend
SIZE = (16, 12)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("kinds"))
    return beside_keras.write_folder(folder), folder


def flow(generator, data, **options):
    options = {"target_size": SIZE, "batch_size": 5, "shuffle": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return generator(rescale=1 / 255).flow_from_dataframe(*data, **options)


def model(units=3, loss="categorical_crossentropy"):
    keras.utils.set_random_seed(0)
    activation = "softmax" if "cross" in loss else None
    layers = [keras.layers.Flatten(), keras.layers.Dense(units, activation=activation)]
    made = keras.Sequential([keras.Input((*SIZE, 3)), *layers])
    made.compile("sgd", loss, jit_compile=False)
    return made


@pytest.mark.parametrize(
    ("options", "of_fit", "arguments"),
    [
        ({}, {"class_weight": {0: 1.0, 1: 3.0, 2: 0.5}}, {}),
        pytest.param(
            {"class_mode": "sparse"},
            {"class_weight": {1: 3}},
            {"loss": "sparse"},
            marks=pytest.mark.slow,
        ),
        ({"weight_col": "share"}, {"steps_per_epoch": 2, "epochs": 4}, {}),
        pytest.param(
            {"class_mode": "raw", "y_col": ["share", "number"]},
            {},
            {"units": 2, "loss": "mse"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["class_weight", "class_weight of numbers", "steps and weights", "raw"],
)
def test_fit_comes_to_the_same_losses_and_predictions(data, options, of_fit, arguments):
    loss = {"sparse": "sparse_categorical_crossentropy"}.get(arguments.get("loss"))
    arguments = {**arguments, "loss": loss} if loss else arguments
    found = []
    for generator in BOTH:
        trained, batches = model(**arguments), flow(generator, data, **options)
        history = trained.fit(batches, verbose=0, shuffle=False, **of_fit)
        alone = flow(generator, data, class_mode=None)
        told = trained.evaluate(batches, verbose=0), trained.predict(alone, verbose=0)
        found.append((history.history["loss"], *told))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_fit_takes_several_targets(data):
    inputs = keras.Input((*SIZE, 3))
    flat = keras.layers.Flatten()(inputs)
    two = keras.Model(inputs, [keras.layers.Dense(1, name=name)(flat) for name in "ab"])
    two.compile("sgd", ["mse", "mse"])
    batches = flow(ImageDataGenerator, data, class_mode="multi_output", y_col=["share", "number"])
    assert [y.shape for y in batches[0][1]] == [(5,), (5,)]
    assert len(two.fit(batches, verbose=0).history["loss"]) == 1
    assert [made.shape for made in two.predict(batches, verbose=0)] == [(18, 1), (18, 1)]


def test_a_shuffled_predict_warns(data):
    shuffled = flow(ImageDataGenerator, data, shuffle=True)
    with pytest.warns(
        UserWarning, match=r"^predict on an iterator that shuffles: .* shuffle=False$"
    ):
        assert model().predict(shuffled, verbose=0).shape == (18, 3)


@pytest.mark.parametrize(
    ("options", "of_fit", "message"),
    [
        ({}, {"y": np.zeros(18)},
         "When providing `x` as a PyDataset, `y` should not be passed. Instead, the targets "
         "should be included as part of the PyDataset. Columns of them are "
         "flow_from_dataframe(y_col=)"),
        ({"weight_col": "share"}, {"class_weight": {0: 2}},
         "You cannot specify `class_weight` and `sample_weight` at the same time. Multiply "
         "weight_col= by the weights of the classes"),
        ({}, {"class_weight": "balanced"},
         "class_weight must be a dict of the number of a class and its weight, got 'balanced': "
         'dfgen.Sequence takes names, and "balanced"'),
        ({"classes": ["fox"]}, {},
         "The PyDataset has length 0: no rows were taken. The warnings when it was made name the "
         "rows left out; subset= and validation_split= leave out others"),
    ],
    ids=["y", "two weights", "balanced", "no rows"],
)  # fmt: skip
def test_fit_is_refused_what_keras_refuses_it(data, options, of_fit, message):
    with pytest.raises(ArgumentError) as caught:
        model().fit(flow(ImageDataGenerator, data, **options), verbose=0, **of_fit)
    assert str(caught.value) == message


def test_what_fit_drops_is_told(data):
    batches = flow(ImageDataGenerator, data)
    with pytest.warns(UserWarning) as caught:
        model().fit(batches, batch_size=2, class_weight={"cat": 2, 1: 3}, verbose=0)
    told = [str(one.message) for one in caught if one.category is UserWarning]
    assert told == [
        "batch_size=2 of fit does nothing, as in Keras, which does not say so: it is for "
        "flow_from_dataframe(batch_size=)",
        "class_weight has weights for 'cat', which count for nothing, as in Keras, which does not "
        "say so: classes go by their numbers, it.class_indices",
    ]


def test_draws_are_of_the_row_and_the_epoch(data):
    def batches(epochs):
        generator = ImageDataGenerator(rotation_range=90, horizontal_flip=True)
        one = generator.flow_from_dataframe(
            *data, target_size=SIZE, batch_size=6, shuffle=False, seed=4, class_mode=None
        )
        return [next(one) for _ in range(epochs * len(one))]

    first, again = batches(2), batches(2)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[0], first[3])
