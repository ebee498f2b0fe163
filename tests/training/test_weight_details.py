"""Weights of masks, of skipped rows with several outputs, and wrong ones."""

import keras
import numpy as np
import pytest
from public.keras_helpers import EAGER, numbers
from public.test_keras_weights import BALANCED as BALANCED
from public.test_keras_weights import ROWS as ROWS
from public.test_keras_weights import SIZE as SIZE
from public.test_keras_weights import V as V
from public.test_keras_weights import W as W
from public.test_keras_weights import Y as Y
from public.test_keras_weights import bad_rows as bad_rows
from public.test_keras_weights import df as df

import dfgen
from dfgen.errors import ArgumentError, ManifestError


def test_skipped_rows_keep_the_weights_of_each_output(bad_rows):
    options = {"on_error": "skip", "shuffle": False, "image_size": (4, 4), "batch_size": 5}
    own = {"sample_weight": {"age": "v"}, "class_weight": {"kind": "balanced"}}
    with dfgen.Sequence(bad_rows, y=Y, **options, **own) as seq:
        weights = seq[0][2]
        good = np.array([1, 1, 0, 0, 1]) * 5 / 3
        np.testing.assert_allclose(weights["kind"], good * BALANCED[:5], rtol=1e-6)
        np.testing.assert_allclose(weights["age"], good * V[:5], rtol=1e-6)


@pytest.mark.backend
def test_weights_of_masks_count_each_row_once(df, files):
    """Weights of (batch,) broadcast over the pixels of a row, not over the rows of a batch."""
    made = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.Conv2D(1, 1, bias_initializer="ones")]
    )
    made.compile("sgd", "mse", run_eagerly=EAGER)
    y = dfgen.Image("path", size=(4, 4), color_mode="grayscale", scale=(1, 0))
    options = {"batch_size": SIZE, "shuffle": False, "sample_weight": "w", "workers": 0}
    seq = dfgen.Sequence(df.assign(path=files[:ROWS]), dfgen.Image(size=(4, 4)), y, **options)
    x, y = (np.concatenate([np.asarray(batch[k], "f4") for batch in seq]) for k in (0, 1))
    errors = ((made.predict(x, verbose=0) - y) ** 2).mean((1, 2, 3))
    batches = [np.mean((errors * W)[i : i + SIZE]) for i in range(0, ROWS, SIZE)]
    expected = np.average(batches, weights=[4, 4, 2])
    assert made.evaluate(seq, verbose=0) == pytest.approx(expected, rel=1e-4)


WRONG = {  # y, arguments, error, word of the message
    "a dict for one target": ("kind", {"sample_weight": {"kind": "w"}}, ArgumentError, "kind"),
    "no such output": (Y, {"sample_weight": {"kin": "w"}}, ArgumentError, "kin"),
    "classes without an output": (Y, {"class_weight": {"x": 1, "y": 2}}, ArgumentError, "kind"),
    "balanced without an output": (Y, {"class_weight": "balanced"}, ArgumentError, "kind"),
    "a list for a dict": (Y, {"sample_weight": ["w", None]}, ArgumentError, "kind"),
    "a dict for a list": (["kind", "age"], {"sample_weight": {"kind": "w"}}, ArgumentError, "kind"),
    "a short list": (["kind", "age"], {"sample_weight": ["w"]}, ArgumentError, "sample_weight"),
    "balanced numbers": (Y, {"class_weight": {"age": "balanced"}}, ArgumentError, "age"),
    "no such class": ("kind", {"class_weight": {"x": 1, "y": 1, "z": 2}}, ArgumentError, "z"),
    "a negative class weight": ("kind", {"class_weight": {"x": -1, "y": 1}}, ArgumentError, "-1"),
    "a word": ("kind", {"class_weight": "even"}, ArgumentError, "balanced"),
    "no such column": (Y, {"sample_weight": {"kind": "ww"}}, ManifestError, "ww"),
    "weights below 0": ("kind", {"sample_weight": "a"}, ManifestError, "a"),
    "a text column": ("age", {"sample_weight": "kind"}, ManifestError, "kind"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_weights_raise(df, name):
    y, options, error, word = WRONG[name]
    with pytest.raises(error, match=word):
        numbers(df, y, **options)


def test_class_without_a_weight_warns_and_counts_one(df):
    with pytest.warns(UserWarning, match="class_weight"):
        seq = numbers(df, "kind", class_weight={"x": 5})
    assert seq[0][2].tolist() == [5, 1, 5, 5]
