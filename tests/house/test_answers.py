"""What docs/how-to tells of predictions holds: pixels encode the row number."""

import cv2
import keras
import numpy as np
import pandas as pd
import pytest

import dfgen

pytestmark = pytest.mark.backend
KINDS = ["cat", "dog", "owl"]


@keras.saving.register_keras_serializable("test_answers")
class Corner(keras.layers.Layer):
    """The colours of the pixel in the upper left."""

    def call(self, images):
        return keras.ops.cast(images[:, 0, 0, :], "float32")


@pytest.fixture
def df(tmp_path):
    """Twelve images whose red is the column, green the line, blue ten times the row."""
    rows = []
    for row in range(12):
        blue, green, red = np.full((24, 32), 10 * row), *np.mgrid[:24, :32]
        path = str(tmp_path / f"{row}.png")
        assert cv2.imwrite(path, np.stack([blue, green, red], axis=-1).astype(np.uint8))
        rows.append((f"row {row}", path, KINDS[row % 3]))
    df = pd.DataFrame(rows, columns=["id", "path", "kind"])
    return df.astype({"kind": pd.CategoricalDtype(KINDS)})


def test_each_seed_draws_other_crops_and_flips_and_rows_stay_in_order(df):
    random = dfgen.Image(size=(16, 16), resize="crop_or_pad", crop="random", flip="horizontal")
    model = keras.Sequential([Corner()])
    options = {"label_mode": None, "shuffle": False, "batch_size": 5}
    seqs = [dfgen.Sequence(df, random, seed=seed, **options) for seed in (0, 1, 2, 0)]
    *passes, again = [np.asarray(model.predict(seq, verbose=0)) for seq in seqs]
    for found in passes:
        np.testing.assert_array_equal(found[:, 2], 10 * np.arange(12))
    corners = np.stack(passes)[:, :, :2]
    assert (np.ptp(corners, axis=0) > 0).any(axis=1).all()  # each row has other crops
    assert (corners[:, :, 0] > 16).any() and (corners[:, :, 0] < 16).any()  # mirrored or not
    np.testing.assert_array_equal(again, passes[0])
    np.testing.assert_array_equal(model.predict(seqs[0], verbose=0), passes[0])
    assert seqs[0].epoch == 0
    for seq in seqs:
        seq.close()


def test_names_of_predictions_are_those_of_their_rows(df):
    image, shuffled = dfgen.Image(size=None), df.sample(frac=1, random_state=0)
    with (
        dfgen.Sequence(df, image, "kind", batch_size=5) as train,
        dfgen.Sequence(shuffled.drop(columns="kind"), image, shuffle=False, batch_size=5) as new,
    ):
        class_of = np.arange(12) % 3  # a model that knows it by the blue of an image

        def known(x):
            pixels = x["images"] if isinstance(x, dict) else x
            return np.eye(3)[class_of[np.asarray(pixels)[:, 0, 0, 2] // 10]]

        scores = np.concatenate([known(new[step][0]) for step in range(len(new))])
        guesses = train.preprocessing().decode(scores)
        assert new.manifest.assign(kind=guesses)["kind"].tolist() == shuffled["kind"].tolist()
        assert [i for step in range(3) for i in new.ids(step)] == shuffled["id"].tolist()
        for step in range(len(train)):
            numbers = train[step][1]
            rows = train.manifest.iloc[train.rows(step)]
            assert rows["id"].tolist() == train.ids(step)
            assert [train.class_names[number] for number in numbers] == rows["kind"].tolist()
