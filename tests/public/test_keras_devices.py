"""Two devices of one machine train as one does; TensorFlow's dataset of a Sequence."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import pytest

import dfgen
from public.permutation import epoch_rows, epochs_rows

ROWS, SIZE, EPOCHS = 46, 6, 2
VALUES = np.arange(ROWS, dtype="float32") ** 2 / 100
SMALL = {"batch_size": SIZE, "image_size": (4, 4), "workers": 2}


def rows_in_weights(y_true, y_pred):
    """A loss whose gradient counts in the weight of each row how often it was trained on."""
    return keras.ops.sum(y_pred, axis=-1)


def counting_model():
    pixels, number = keras.Input((4, 4, 3), name="pixels"), keras.Input((), name="number")
    start = keras.initializers.RandomNormal(seed=1)
    flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(pixels))
    one_hot = keras.ops.one_hot(keras.ops.cast(number, "int32"), ROWS)
    outputs = {
        "kind": keras.layers.Dense(2, kernel_initializer=start, name="kind")(flat),
        "row": keras.layers.Dense(1, use_bias=False, name="row")(one_hot),
    }
    model = keras.Model({"pixels": pixels, "number": number}, outputs)
    kinds = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), {"kind": kinds, "row": rows_in_weights})
    model.get_layer("row").set_weights([VALUES[:, None]])
    return model


def counting_sequence(manifest, **options):
    x = {"pixels": "path", "number": "id"}
    return dfgen.Sequence(manifest, x, {"row": "id", "kind": "label"}, **SMALL | options)


def error_of(act):
    try:
        act()
    except ValueError as error:
        return str(error)
    return None


def results(manifest, scope=nullcontext, **options):
    """Return what can be seen of predict, evaluate and fit, as JSON takes it."""
    with scope():
        model = counting_model()
    train, val = counting_sequence(manifest, **options), counting_sequence(manifest, shuffle=False)
    evaluated = model.evaluate(val, verbose=0, return_dict=True)
    some = model.evaluate(val, steps=3, verbose=0, return_dict=True)
    predicted = {name: p.tolist() for name, p in model.predict(val, verbose=0).items()}
    history = model.fit(train, validation_data=None, epochs=EPOCHS, verbose=0).history
    return {
        "evaluated": evaluated,
        "some": some,
        "predicted": predicted,
        "history": history,
        "weights": [weight.tolist() for weight in model.get_weights()],
        "rows": model.get_layer("row").get_weights()[0][:, 0].tolist(),
        "train": [len(train), train.left_out, train.epoch],
    }


def errors(manifest, scope):
    """Return the errors of batches that two devices cannot share."""
    with scope():
        model = counting_model()
    df = dfgen.read_manifest(manifest)
    odd = counting_sequence(df[:-1], shuffle=False)
    return {
        "predict": error_of(lambda: model.predict(odd, verbose=0)),
        "batch_size": error_of(lambda: model.fit(counting_sequence(df, batch_size=9), verbose=0)),
    }


def main(manifest):
    if keras.backend.backend() == "jax":
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        scope = nullcontext
    else:
        import tensorflow as tf

        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
        scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope
    print(json.dumps(results(manifest, scope) | errors(manifest, scope)))


@pytest.mark.backend
def test_two_devices_train_as_one(frame, tmp_path):
    """Training leaves out the short last batch, evaluation weighs each row equally."""
    if keras.backend.backend() == "torch":
        return  # Keras trains on one device there
    manifest, tests = tmp_path / "m.parquet", Path(__file__).parents[1]
    dfgen.write_manifest(frame(ROWS), manifest)
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    env["PYTHONPATH"] = os.pathsep.join([str(tests), str(tests.parent), *sys.path[:1]])
    command = [sys.executable, __file__, str(manifest)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    two, one = json.loads(done.stdout.splitlines()[-1]), results(manifest, drop_remainder=True)
    assert two["train"] == [ROWS // SIZE, ROWS % SIZE, EPOCHS]
    trained = [
        row for epoch in range(EPOCHS) for row in epoch_rows(ROWS, epoch)[: -ROWS % SIZE - 6]
    ]
    counts = np.bincount(trained, minlength=ROWS)
    np.testing.assert_allclose(two["rows"], VALUES - counts * 0.5 / SIZE, rtol=1e-4, atol=1e-5)
    for name, values in one["history"].items():
        np.testing.assert_allclose(two["history"][name], values, rtol=1e-4, err_msg=name)
    for weight, expected in zip(two["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-6)
    for steps, rows in (("evaluated", ROWS), ("some", 3 * SIZE)):
        assert two[steps]["row_loss"] == pytest.approx(VALUES[:rows].mean(), rel=1e-4)
        for name in ("loss", "kind_loss"):
            assert two[steps][name] == pytest.approx(one[steps][name], rel=1e-4)
    np.testing.assert_allclose(np.ravel(two["predicted"]["row"]), VALUES, rtol=1e-5)
    np.testing.assert_allclose(two["predicted"]["kind"], one["predicted"]["kind"], rtol=1e-4)
    assert "2 devices" in two["predict"] and "batch_size" in two["batch_size"]


# get_tf_dataset, called by the user


def rows_of(dataset):
    return [int(row) for x, *_ in dataset for row in np.asarray(x)[:, 0, 0, 0]]


def test_tf_dataset_has_each_row_in_order(frame):
    seq = dfgen.Sequence(frame(ROWS), **SMALL)
    dataset = seq.get_tf_dataset()
    x, y = dataset.element_spec
    assert (tuple(x.shape), x.dtype.name) == ((None, 4, 4, 3), "uint8")
    assert (tuple(y.shape), y.dtype.name) == ((None,), "int32")
    assert int(dataset.cardinality()) == int(dataset.map(lambda x, y: y).cardinality()) == 8
    assert rows_of(dataset) + rows_of(dataset) == epochs_rows(ROWS, range(2))
    assert seq.epoch == 2
    labels = np.concatenate([np.asarray(y) for _, y in dataset])
    assert labels.tolist() == [row % 2 for row in epoch_rows(ROWS, 2)]
    endless = seq.repeat().get_tf_dataset()
    assert int(endless.cardinality()) == -1  # infinite
    assert rows_of(endless.take(10)) == epochs_rows(ROWS, [3, 4])[: ROWS + 2 * SIZE]


def test_fit_on_tf_dataset_uses_each_row_once(frame):
    from public.watching import built_watcher

    seq, model = dfgen.Sequence(frame(22), **SMALL | {"batch_size": 4}), built_watcher()
    model.fit(seq.get_tf_dataset(), epochs=3, shuffle=False, verbose=0)
    assert (model.seen(), seq.epoch) == (epochs_rows(22, range(3)), 3)
    endless = seq.repeat().get_tf_dataset()
    model.fit(endless, steps_per_epoch=3, epochs=2, shuffle=False, verbose=0)
    assert model.seen() == epochs_rows(22, range(4))


if __name__ == "__main__":
    main(sys.argv[1])
