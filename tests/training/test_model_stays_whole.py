"""On JAX Keras takes the variables out of a model for its steps: an error leaves them in it."""

import keras
import numpy as np
import pytest
from watching import trained_watcher

import dfgen
from dfgen.errors import DecodeError, MissingFileError

pytestmark = pytest.mark.backend


def sequence(frame, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 0, "shuffle": False, **options}
    return dfgen.Sequence(frame, y="label", **options)


def weights(model):
    return [np.array(keras.ops.convert_to_numpy(v)) for v in model.dense.variables]


@pytest.mark.parametrize("bad", [1, 9])
@pytest.mark.parametrize("verb", ["fit", "evaluate", "predict"])
def test_model_stays_usable_after_an_unreadable_file(verb, bad, frame):
    model, rows = trained_watcher(), frame(12)
    before = weights(model)
    paths = rows["path"].tolist()
    paths[bad] = "gone.png"
    with pytest.raises((MissingFileError, DecodeError), match=f"id={bad}, "):
        getattr(model, verb)(sequence(rows.assign(path=paths)), verbose=0)
    if verb != "fit" or bad == 1:
        for old, new in zip(before, weights(model), strict=True):
            np.testing.assert_array_equal(old, new)
    model.fit(sequence(rows), validation_data=sequence(frame(24)[12:]), verbose=0)
    assert all(np.isfinite(each).all() for each in weights(model))


def test_unreadable_validation_file_keeps_trained_weights(frame, tmp_path):
    model, rows = trained_watcher(), frame(16)
    (tmp_path / "bad.png").write_bytes(b"no image")
    validation = rows[12:].assign(path=str(tmp_path / "bad.png"))
    before = weights(model)
    with pytest.raises(DecodeError, match="id=12, "):
        model.fit(sequence(rows[:12]), validation_data=sequence(validation), verbose=0)
    assert any((old != new).any() for old, new in zip(before, weights(model), strict=True))
    assert model.predict(sequence(rows), verbose=0).shape == (16, 2)
