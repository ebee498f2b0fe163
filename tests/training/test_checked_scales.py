"""Scales and losses that are right pass the checks before training; wrong scales do not."""

import keras
import numpy as np
import pytest
from public.keras_helpers import EAGER, numbers, sequence
from public.test_checks_before_training import BINARY as BINARY
from public.test_checks_before_training import CATEGORICAL as CATEGORICAL
from public.test_checks_before_training import HOT as HOT
from public.test_checks_before_training import LOGITS as LOGITS
from public.test_checks_before_training import SPARSE as SPARSE
from public.test_checks_before_training import TAGS as TAGS
from public.test_checks_before_training import WRONG as WRONG
from public.test_checks_before_training import dense as dense
from public.test_checks_before_training import df as df
from public.test_checks_before_training import other as other
from public.watching import built_watcher

import dfgen
from dfgen.errors import ArgumentError


def test_pixels_under_sigmoid_raise(df):
    model = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.Conv2D(3, 1, activation="sigmoid")]
    )
    model.compile("sgd", "mse", run_eagerly=EAGER)
    image = dfgen.Image(size=(4, 4))
    with pytest.raises(WRONG, match="scale"):
        model.fit(dfgen.Sequence(df, image, image, workers=0), verbose=0)
    scaled = dfgen.Image(size=(4, 4), scale="0..1")
    model.fit(dfgen.Sequence(df, image, scaled, workers=0), verbose=0)


RIGHT = {
    "classes": (3, "softmax", SPARSE, "kind", {}),
    "logits": (3, None, LOGITS, "kind", {}),
    "units for later classes": (7, "softmax", SPARSE, "code", {}),
    "one-hot classes": (3, "softmax", CATEGORICAL, "kind", HOT),
    "one-hot classes under a binary loss": (3, "sigmoid", BINARY, "kind", HOT),
    "two classes": (1, "sigmoid", BINARY, "tame", {"label_mode": "binary"}),
    "two classes as numbers": (1, "sigmoid", BINARY, "tame", {}),
    "several labels": (3, "sigmoid", BINARY, TAGS, {}),
    "a number": (1, None, "mse", "share", {}),
    "shares under sigmoid": (1, "sigmoid", "mse", "share", {}),
    "two numbers": (2, None, keras.losses.Huber(), dfgen.Number(["share", "code"]), {}),
}  # fmt: skip


@pytest.mark.parametrize("built", [True, False], ids=["built", "unbuilt"])
@pytest.mark.parametrize("name", RIGHT)
def test_matching_loss_and_targets_train_without_a_warning(df, name, built):
    *layer, y, options = RIGHT[name]
    seq = numbers(df, y, batch_size=8, **options)
    assert np.isfinite(dense(*layer, built=built).fit(seq, verbose=0).history["loss"][0])


def images(df, **options):
    return dfgen.Sequence(df, dfgen.Image(size=(4, 4), **options), "kind", workers=0)


@pytest.mark.parametrize("scale", [None, "-1..1", (1 / 255, 0.5)])
def test_validation_of_another_scale_raises(df, scale):
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])
    model.compile("sgd", SPARSE, run_eagerly=EAGER)
    with pytest.raises(ArgumentError, match="scale"):
        val = images(other(df), scale=scale)
        model.fit(images(df, scale="0..1"), validation_data=val, verbose=0)
    same = images(other(df), scale=(1 / 255, 0), resize="pad")
    model.fit(images(df, scale="0..1"), validation_data=same, verbose=0)


def test_pixels_that_are_scaled_twice_raise(df):
    model = keras.Sequential(
        [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")]
    )
    model.compile("sgd", SPARSE, run_eagerly=EAGER)
    with pytest.raises(WRONG, match="scale"):
        model.fit(images(df, scale="0..1"), verbose=0)
    model.fit(images(df), verbose=0)


pytestmark = pytest.mark.backend


def test_arrays_and_sequences_validate_each_other(frame):
    model, val = built_watcher(), sequence(frame(10), shuffle=False)
    arrays = np.zeros((12, 4, 4, 3), "uint8"), np.zeros(12, "int32")
    model.fit(*arrays, validation_data=val, epochs=2, verbose=0)
    model.fit(sequence(frame(8)), validation_data=arrays, verbose=0)
    assert (model.seen("tested"), val.epoch) == ([*range(10)] * 2 + [0] * 12, 0)


def test_batch_size_of_training_arrays_spares_validation(frame):
    model, arrays = built_watcher(), (np.zeros((12, 4, 4, 3), "uint8"), np.zeros(12, "int32"))
    val = sequence(frame(10), shuffle=False)
    model.fit(*arrays, batch_size=4, validation_data=val, verbose=0)
    assert model.seen("tested") == [*range(10)]
