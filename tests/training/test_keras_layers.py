"""Keras's preprocessing layers stay in the model, where they run on its device."""

import keras
import numpy as np
import pytest

import dfgen

LAYERS = keras.layers


def augmented():
    """A model that begins as the README has it begin."""
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            LAYERS.Rescaling(1 / 255),
            LAYERS.RandomFlip("horizontal", seed=0),
            LAYERS.RandomTranslation(0.2, 0.2, seed=1),
            LAYERS.RandomContrast(0.3, seed=2),
            LAYERS.Flatten(),
            LAYERS.Dense(2),
        ]
    )


@pytest.mark.backend
def test_layers_augment_in_training_alone_and_get_bytes(frame):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with dfgen.Sequence(frame(64), image_size=(16, 16), batch_size=16, shuffle=False) as seq:
        model = augmented()
        model.compile("adam", loss)
        assert np.isfinite(model.fit(seq, epochs=2, verbose=0).history["loss"]).all()
        np.testing.assert_array_equal(model.predict(seq, verbose=0), model.predict(seq, verbose=0))
        x, _ = seq[0]
        assert x.dtype == np.uint8
        x = x + np.arange(16, dtype=np.uint8)[:, None]  # what is of one colour only stays as it is
        once, twice = (keras.ops.convert_to_numpy(model(x, training=True)) for _ in range(2))
        assert (once != twice).any()


@pytest.mark.backend
def test_model_layers_learn_from_transformed_batches(frame):
    """Both at once: what needs the CPU in the workers, the rest in the model."""

    def brighten(sample, rng):
        sample["image"] += np.uint8(rng.integers(5))
        return sample

    def mixed(batch, rng):
        share = np.float32(rng.beta(0.2, 0.2))
        image = batch["image"].astype(np.float32)
        label = np.eye(2, dtype=np.float32)[batch["label"]]
        return {
            "image": share * image + (1 - share) * image[::-1],
            "label": share * label + (1 - share) * label[::-1],
        }

    options = {"transform": brighten, "batch_transform": mixed}
    with dfgen.Sequence(frame(40), image_size=(16, 16), batch_size=16, **options) as seq:
        model = augmented()
        model.compile("adam", keras.losses.CategoricalCrossentropy(from_logits=True))
        assert np.isfinite(model.fit(seq, epochs=2, verbose=0).history["loss"]).all()
