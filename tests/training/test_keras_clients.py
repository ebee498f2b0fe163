"""What else of Keras and torch takes a Sequence: adapt, mixed precision, DataLoader."""

import copy

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from watching import EAGER

import dfgen

ROWS = 20


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """Images as bright as their row, the row as a number, and a text of it."""
    folder = tmp_path_factory.mktemp("clients")
    rows = []
    for row in range(ROWS):
        pixels = np.full((4, 4, 3), (row, 2 * row, 100 + row), np.uint8)
        cv2.imwrite(f"{folder}/{row}.png", pixels[..., ::-1])
        text = f"word{row % 4} all"
        rows.append({"id": row, "path": f"{folder}/{row}.png", "n": row, "text": text})
    return pd.DataFrame(rows).assign(kind=pd.Categorical(["cat", "dog"] * (ROWS // 2)))


def sequence(frame, x=None, y="n", **options):
    x = dfgen.Image("path", size=(4, 4)) if x is None else x
    return dfgen.Sequence(frame, x, y, batch_size=8, **options)


def model(**options):
    layers = keras.layers
    made = keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(1)])
    made.compile("sgd", "mse", **options)
    return made


# adapt

older_than_3_15 = pytest.mark.xfail(
    tuple(map(int, keras.__version__.split(".")[:2])) < (3, 15),
    reason="adapt of older Keras takes arrays and tf.data alone",
    strict=False,
)


@pytest.mark.backend
@older_than_3_15
def test_normalization_adapts_to_a_sequence(frame):
    layer = keras.layers.Normalization(axis=-1)
    with sequence(frame, shuffle=False) as seq:
        layer.adapt(seq)
    rows = np.arange(ROWS)
    expected = [rows.mean(), 2 * rows.mean(), 100 + rows.mean()]
    mean = keras.ops.convert_to_numpy(layer.mean).ravel()
    variance = keras.ops.convert_to_numpy(layer.variance).ravel()
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    np.testing.assert_allclose(variance, np.array([1, 4, 1]) * rows.var(), rtol=1e-4)


@pytest.mark.backend
@older_than_3_15
def test_normalization_of_a_number_has_no_axis(frame):
    layer = keras.layers.Normalization(axis=None)
    with sequence(frame, dfgen.Number("n"), "kind") as seq:
        layer.adapt(seq)
    assert float(np.ravel(keras.ops.convert_to_numpy(layer.mean))[0]) == pytest.approx(9.5)


@pytest.mark.backend
def test_normalization_adapts_to_one_of_several_inputs(frame):
    layer = keras.layers.Normalization(axis=None)
    with sequence(frame, {"image": "path", "n": "n"}, "kind", image_size=(4, 4)) as seq:
        layer.adapt(np.concatenate([np.asarray(x["n"]) for x, y in seq]))
    assert float(np.ravel(keras.ops.convert_to_numpy(layer.mean))[0]) == pytest.approx(9.5)


@pytest.mark.backend
@older_than_3_15
def test_text_vectorization_adapts_to_the_texts_of_batches(frame):
    layer = keras.layers.TextVectorization()
    with sequence(frame, dfgen.Text("text"), shuffle=False) as seq:
        layer.adapt(x for x, y in seq)
    assert layer.get_vocabulary()[2] == "all" and len(layer.get_vocabulary()) == 7
    other = keras.layers.TextVectorization()
    other.adapt(frame["text"].tolist())
    assert other.get_vocabulary() == layer.get_vocabulary()


# How models train


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_takes_pixels_and_scaled_images(frame, policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        for scale, dtype in ((None, None), ((1, 0), "float16")):
            x = dfgen.Image("path", size=(4, 4), scale=scale, dtype=dtype)
            with sequence(frame, x) as seq:
                history = model().fit(seq, verbose=0).history
                assert np.isfinite(history["loss"]).all() and seq.epoch == 1
    finally:
        keras.config.set_dtype_policy(before)


@pytest.mark.backend
def test_copied_callbacks_watch_the_same_sequence(frame, tmp_path):
    with sequence(frame) as seq:
        callbacks = [dfgen.InputMonitor(), dfgen.BackupAndRestore(tmp_path / "backup", seq)]
        for trial in (1, 2):
            copied = copy.deepcopy(callbacks)
            made = model(run_eagerly=EAGER)
            history = made.fit(seq, epochs=2, verbose=0, callbacks=copied).history
            assert len(history["input_wait"]) == 2 and seq.epoch == 2 * trial
        assert seq.receipt.rows == ROWS


def outcome(run):
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.backend
def test_steps_per_execution_auto_matches_plain_arrays(frame):
    """Keras 3 knows whole numbers alone; one that knows more takes a Sequence too."""
    x, y = np.zeros((ROWS, 4, 4, 3)), np.zeros(ROWS)
    with sequence(frame) as seq:
        found = outcome(lambda: model(steps_per_execution="auto").fit(seq, epochs=2, verbose=0))
        assert found is not None or seq.epoch == 2
    assert found == outcome(
        lambda: model(steps_per_execution="auto").fit(x, y, epochs=2, verbose=0)
    )


# torch's DataLoader


@pytest.fixture(scope="module")
def data():
    return pytest.importorskip("torch.utils.data", reason="torch is not installed")


def numbers(batches):
    return [int(number) for _, y in batches for number in np.asarray(y)]


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("used", [False, True], ids=["new", "used before"])
def test_data_loader_gives_each_row_once(frame, data, workers, used):
    with sequence(frame, workers=2) as seq:
        if used:  # its threads are not there in a process that is forked
            seq[0]
            next(iter(seq))
        for options in ({}, {"shuffle": True}):
            loader = data.DataLoader(seq, batch_size=None, num_workers=workers, **options)
            found = numbers(loader)
            assert sorted(found) == list(range(ROWS)) and len(loader) == 3
            assert found != sorted(found)
        assert numbers([seq[1]]) == numbers([seq[1]])


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_pass_follows_the_state_epoch(frame, data, workers):
    with sequence(frame) as seq:
        loader = data.DataLoader(seq, batch_size=None, num_workers=workers)
        passes = []
        for epoch in range(2):
            seq.load_state_dict({**seq.state_dict(), "epoch": epoch})
            passes.append(numbers(loader))
    with sequence(frame) as seq:
        assert passes == [numbers(seq), numbers(seq)]


def test_a_sequence_ends_as_a_list_does(frame):
    with sequence(frame) as seq:
        assert len(seq) == 3
        with pytest.raises(IndexError):
            seq[3]
