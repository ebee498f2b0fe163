"""The loss of each row is that of a batch of it alone, of every kind of loss and of array."""

import keras
import numpy as np
import pytest

from dfgen.training.predictions import prediction_columns as module
from dfgen.training.predictions.predicted_rows import next_steps
from dfgen.training.predictions.prediction_columns import row_losses

pytestmark = pytest.mark.backend
losses = keras.losses


class Largest(losses.Loss):
    """One number of a batch, so that it is asked row by row."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        return keras.ops.max(keras.ops.abs(y_true - y_pred))


class Whole(losses.Loss):
    """A number without an axis."""

    def call(self, y_true, y_pred):
        return keras.ops.mean(keras.ops.square(y_true - y_pred))


class Spread(losses.Loss):
    """A number for each row, which NumPy's rules make of all rows: (rows,) beside (rows, 1)."""

    def call(self, y_true, y_pred):
        return keras.ops.square(y_true[:, 0] - y_pred[:, :1])


SPARSE = losses.SparseCategoricalCrossentropy
MADE = {
    "mse": (losses.MeanSquaredError(), (), False),
    "sum": (losses.MeanSquaredError(reduction="sum"), (3,), False),
    "weighted mean": (losses.MeanSquaredError(reduction="mean_with_sample_weight"), (3,), False),
    "none": (losses.MeanAbsoluteError(reduction="none"), (), False),
    "binary": (losses.BinaryCrossentropy(from_logits=True), (2,), False),
    "sparse": (SPARSE(from_logits=True), (), True),
    "pixels": (SPARSE(from_logits=True), (3, 2), True),
    "sum of pixels": (SPARSE(from_logits=True, reduction="sum"), (3, 2), True),
    "ignored": (SPARSE(from_logits=True, ignore_class=1), (3, 2), True),
    "largest": (Largest(), (2,), False),
    "whole": (Whole(), (), False),
    "spread": (Spread(), (), False),
}


@pytest.mark.parametrize("rows", [1, 2, 5, 9])
@pytest.mark.parametrize("name", MADE)
def test_a_loss_is_that_of_a_batch_of_the_row(monkeypatch, name, rows):
    loss, axes, of_classes = MADE[name]
    random = np.random.default_rng(rows)
    said = random.normal(size=(rows, *axes, 4)).astype(np.float32)
    true = random.integers(0, 4, (rows, *axes)) if of_classes else np.round(np.abs(said[::-1]) % 1)
    if name == "ignored":
        true[0] = 1  # of which nothing counts
    sizes = []
    of_rows = module._of_rows
    monkeypatch.setattr(module, "_of_rows", lambda *a: sizes.append(len(a[1])) or of_rows(*a))
    expected = np.array([
        float(np.mean(keras.ops.convert_to_numpy(loss(true[n : n + 1], said[n : n + 1]))))
        for n in range(rows)
    ])  # fmt: skip
    if name == "ignored":
        expected[0] = np.nan
    each = said[0].nbytes + true[0].nbytes
    for most, nbytes, parts in [
        (1 << 15, 1 << 24, [1 << (rows - 1).bit_length()]),
        (4, 1 << 24, [min(4, 1 << (rows - 1).bit_length())] * -(-rows // 4)),
        (1 << 15, 2 * each + 1, [min(2, rows)] * -(-rows // 2)),
        (1 << 15, 1, [1] * rows),
    ]:
        sizes.clear()
        monkeypatch.setattr(module, "_MOST", most)
        monkeypatch.setattr(module, "_BYTES", nbytes)
        found = row_losses(loss, true, said)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        assert sizes == parts


def test_of_no_rows_there_are_no_losses():
    nothing = np.zeros((0, 2), np.float32)
    assert row_losses(losses.MeanSquaredError(), nothing, nothing).shape == (0,)


@pytest.mark.parametrize(("given", "steps"), [
    ((8, 0.1, 1000), 64), ((100, 10.0, 1000), 50), ((8, 0.1, 1 << 27), 1), ((16, 5.0, 1), 16),
    ((16, 0.0, 0), 128), ((3, 0.625, 0), 24), ((10, 1.0, 1 << 23), 20), ((1, 50.0, 0), 1),
])  # fmt: skip
def test_a_part_aims_at_five_seconds_and_sixteen_mib(given, steps):
    assert next_steps(*given) == steps
