"""Deep pixels reach a model on every backend as they are."""

import cv2
import keras
import numpy as np
import pandas as pd
import pytest

import dfgen


@pytest.mark.backend
@pytest.mark.parametrize("dtype", ["uint16", "float32", "float16"])
def test_a_model_sees_16_bits(tmp_path, dtype):
    rows = []
    for row in range(4):
        path = f"{tmp_path}/{row}.png"
        cv2.imwrite(path, np.full((4, 5), 16_000 * (row + 1), np.uint16))
        rows.append({"id": row, "path": path, "label": 16.0 * (row + 1)})
    x = dfgen.Image(
        size=(4, 5), color_mode="grayscale", dtype=dtype, scale=(0.001, 0) if "f" in dtype else None
    )
    inputs = keras.Input((4, 5, 1), dtype=dtype)
    scaled = keras.layers.Rescaling(1.0 if "f" in dtype else 0.001)(inputs)
    means = keras.layers.GlobalAveragePooling2D()(scaled)
    outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")(means)
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mae")
    with dfgen.Sequence(pd.DataFrame(rows), x, "label", batch_size=2, shuffle=False) as seq:
        np.testing.assert_allclose(
            model.predict(seq, verbose=0).ravel(), [16, 32, 48, 64], rtol=2e-3
        )
        assert model.evaluate(seq, verbose=0) < 0.1
        model.fit(seq, verbose=0)
