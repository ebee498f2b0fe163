"""Trains one epoch as one of several processes, or on two devices; tells in JSON what it saw.

python several_ranks.py KIND INDEX PORTS MANIFEST: as many processes as ports, which commas part.
"""

import json
import os
import sys
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np

ROWS, BATCH_SIZE, EPOCHS = 46, 6, 2
LOSSES = ("loss", "cross_entropy")


def compiled(model):
    """The same model on each backend, and weighted metrics, which leave out what fills a batch."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metric = keras.metrics.SparseCategoricalCrossentropy(name="cross_entropy", from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss, weighted_metrics=[metric])
    return model


def fixed_kernel(shape, dtype=None):
    import keras

    values = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    return keras.ops.convert_to_tensor(values, dtype or "float32")


def watching_model():
    from watching import Watcher

    model = Watcher()
    model.dense.kernel_initializer = fixed_kernel
    return compiled(model)


def sequence(manifest, **options):
    import dfgen

    options = {"batch_size": BATCH_SIZE, "image_size": (4, 4), "workers": 2, **options}
    return dfgen.Sequence(manifest, y="label", **options)


def refusal(act):
    """The message of the error that an act raises."""
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def train(model, manifest, **options):
    """Fit, evaluate, and tell all that can be known of it."""
    seq = sequence(manifest, **options)
    val = sequence(manifest, shuffle=False, **options)
    warnings.filterwarnings("ignore", "validation_data has the")  # as many rows as are trained on
    history = model.fit(seq, validation_data=val, epochs=EPOCHS, verbose=0).history
    found = {
        "history": {name: [float(value) for value in history[name]] for name in history},
        "weights": [np.asarray(weight).tolist() for weight in model.dense.get_weights()],
        "evaluated": model.evaluate(val, verbose=0, return_dict=True),
        "some": model.evaluate(val, steps=3, verbose=0, return_dict=True),
        "shard": seq.shard,
        "steps": len(seq),
        "left_out": seq.left_out,
        "epoch": seq.epoch,
        "positions": [seq._loader.plan.positions(step).tolist() for step in range(len(seq))],
    }
    if hasattr(model, "seen"):
        found |= {name: model.seen(name) for name in ("trained", "tested")}
    return found


def framed(model, seq):
    """The ids and probabilities of a frame of predictions."""
    import dfgen

    frame = dfgen.predict_frame(model, seq)
    return frame.id.tolist(), np.stack(frame.prob).tolist()


def torch_rank(index, ports, manifest):
    import torch
    import torch.distributed as distributed
    from watching import KERAS

    connect(index, ports)

    def average(gradient):
        distributed.all_reduce(gradient)
        return gradient / distributed.get_world_size()

    def averaging():
        model = watching_model()
        model(torch.zeros((1, 4, 4, 3)))
        model.forget()
        for variable in model.trainable_variables if KERAS < (3, 16) else ():
            variable.value.register_hook(average)
        return model

    alone, unbuilt = watching_model(), watching_model()
    alone(torch.zeros((1, 4, 4, 3)))
    alone.forget()
    found = train(averaging(), manifest, shard="auto")
    found["resumed"] = resumed(averaging, f"{manifest}-{len(ports)}", manifest)
    with warnings.catch_warnings(record=True) as warned:
        alone.fit(sequence(manifest, shard="auto"), verbose=0)
    val = sequence(manifest, shuffle=False, shard="auto")
    found["alone"] = [weight.tolist() for weight in alone.dense.get_weights()]
    found["warned"] = [str(each.message) for each in warned]
    found["unbuilt"] = refusal(lambda: unbuilt.fit(sequence(manifest, shard="auto"), verbose=0))
    found["predict"] = refusal(lambda: alone.predict(val, verbose=0))
    found["framed"] = framed(watching_model(), val)
    distributed.barrier()
    if not index:  # the others do not help
        found["first"] = framed(watching_model(), sequence(manifest, shuffle=False))
    distributed.barrier()
    distributed.destroy_process_group()
    return found


def resumed(make_model, folder, manifest):
    """The weights after a training that was cut in its second epoch, and went on elsewhere."""
    import keras
    import torch.distributed as distributed

    import dfgen

    class Cut(keras.callbacks.Callback):
        """Ends a training after twelve steps, once."""

        def on_train_batch_end(self, batch, logs=None):
            taken.append(batch)
            if len(taken) == 12:
                raise InterruptedError

    taken = []
    for _ in range(2):
        model, seq = make_model(), sequence(manifest, shard="auto")
        backup = dfgen.BackupAndRestore(folder, seq, save_freq=3)
        with suppress(InterruptedError):
            model.fit(seq, epochs=EPOCHS, verbose=0, callbacks=[backup, Cut()])
        distributed.barrier()
    return {"weights": model.dense.get_weights()[0].tolist(), "steps": len(taken)}


def connect(index, ports):
    import torch.distributed as distributed

    address = f"tcp://127.0.0.1:{ports[0]}"
    distributed.init_process_group("gloo", address, rank=index, world_size=len(ports))


def torch_meshes(index, ports, manifest):
    """Both processes hold a half of one model, then each a whole one; and DataParallel."""
    import keras
    import torch.distributed as distributed

    connect(index, ports)
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    found = {"data": fitted(manifest)}
    for name, shape in (("halves", (1, 2)), ("wholes", (2, 1))):
        mesh = keras.distribution.DeviceMesh(shape, ["batch", "model"])
        layout = keras.distribution.LayoutMap(mesh)
        layout["dense.*kernel"] = (None, "model")
        parallel = keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")
        keras.distribution.set_distribution(parallel)
        found[name] = fitted(manifest)
    distributed.destroy_process_group()
    return found


def flat_model():
    import keras

    layers = keras.layers
    dense = layers.Dense(2, kernel_initializer=fixed_kernel, name="dense")
    given = [layers.Input((4, 4, 3)), layers.Rescaling(1 / 255), layers.Flatten()]
    return compiled(keras.Sequential([*given, dense]))


def fitted(manifest):
    """What is found where a model is divided too, as by `train`."""
    seq = sequence(manifest, shard="auto", drop_remainder=True)
    val = sequence(manifest, shard="auto", shuffle=False)
    model = flat_model()
    history = model.fit(seq, epochs=EPOCHS, verbose=0).history
    kernel = model.layers[-1].kernel.value.detach()
    kernel = kernel.full_tensor() if hasattr(kernel, "full_tensor") else kernel
    return {
        "shard": seq.shard,
        "other": refusal(lambda: model.fit(sequence(manifest, shard=(1, 3)), verbose=0)),
        "loss": [float(value) for value in history["loss"]],
        "kernel": kernel.tolist(),
        "evaluated": model.evaluate(val, verbose=0, return_dict=True),
    }


def jax_process(index, ports, manifest):
    import keras

    keras.distribution.initialize(f"127.0.0.1:{ports[0]}", len(ports), index)
    whole = sequence(manifest)
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    found = train(watching_model(), manifest, shard="auto")
    val = sequence(manifest, shuffle=False, shard="auto")
    small = sequence(manifest, batch_size=3 * len(ports) * ROWS, shard="auto")
    return found | {
        "loaded": sorted({"jax", "tensorflow", "torch"} & {n for n, m in sys.modules.items() if m}),
        "whole": refusal(lambda: watching_model().fit(whole, verbose=0)),
        "predict": refusal(lambda: watching_model().predict(val, verbose=0)),
        "framed": refusal(lambda: framed(watching_model(), val)),
        "small": refusal(lambda: watching_model().fit(small, verbose=0)),
    }


def jax_devices(index, ports, manifest):
    import keras

    keras.distribution.set_distribution(keras.distribution.DataParallel())
    return train(watching_model(), manifest) | devices(watching_model, manifest)


def devices(make_model, manifest, scope=nullcontext):
    """What predict and odd sizes come to on two devices."""
    import keras

    import dfgen

    df = dfgen.read_manifest(manifest)
    even, odd = (sequence(df[:rows], shuffle=False) for rows in (ROWS, ROWS - 1))
    model = make_model()
    with scope():
        without_loss = keras.Sequential([keras.layers.Flatten()])
        without_loss.compile()
    return {
        "predicted": model.predict(even, verbose=0).tolist(),
        "framed": framed(model, odd),
        "predict": refusal(lambda: model.predict(odd, verbose=0)),
        "indivisible": refusal(lambda: make_model().fit(sequence(df, batch_size=9), verbose=0)),
        "unlabelled": refusal(
            lambda: without_loss.evaluate(
                dfgen.Sequence(df, label_mode=None, batch_size=BATCH_SIZE)
            )
        ),
    }


def tensorflow_model(seen):
    """Logs rows outside of the graph: a variable that both replicas write is not to be had."""
    import keras
    import tensorflow as tf

    class Noting(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2, kernel_initializer=fixed_kernel)

        def build(self, shape):
            self.dense.build((None, 48))

        def call(self, x, training=False):
            note = seen["trained" if training else "tested"].extend
            if tf.inside_function():
                tf.numpy_function(lambda rows: note(rows.tolist()), [x[:, 0, 0, 0]], [])
            return self.dense(keras.ops.cast(keras.ops.reshape(x, (-1, 48)), "float32") / 255)

    return compiled(Noting())


def tensorflow_devices(index, ports, manifest):
    import tensorflow as tf

    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    seen = {"trained": [], "tested": []}

    def make_model():
        with strategy.scope():
            return tensorflow_model({"trained": [], "tested": []})

    with strategy.scope():
        model = tensorflow_model(seen)
    return train(model, manifest) | seen | devices(make_model, manifest, strategy.scope)


def tensorflow_worker(index, ports, manifest):
    """Keras's own fit fails there, whatever the data; a loop of one's own does not."""
    workers = [f"127.0.0.1:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tensorflow_model({"trained": [], "tested": []})
        model.build((None, 4, 4, 3))
        model.optimizer.build(model.trainable_variables)
    seq = sequence(manifest, shard="auto")
    dataset = strategy.distribute_datasets_from_function(lambda context: seq.get_tf_dataset())

    @tf.function
    def step(x, y, weight):
        def replica(x, y, weight):
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                loss = tf.reduce_sum(weight * losses) / BATCH_SIZE
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(replica, (x, y, weight)), axis=None)

    losses, trained = [], []
    for _ in range(EPOCHS):
        taken = []
        for x, y, weight in dataset:
            taken.append(float(step(x, y, weight)))
            trained += strategy.experimental_local_results(x)[0].numpy()[:, 0, 0, 0].tolist()
        losses.append(float(np.mean(taken)))
    plain = tf.data.Dataset.from_tensors((np.zeros((6, 4, 4, 3), "uint8"), np.zeros(6, "int32")))
    return {
        "history": {"loss": losses},
        "weights": [weight.tolist() for weight in model.dense.get_weights()],
        "shard": seq.shard,
        "steps": len(taken),
        "left_out": seq.left_out,
        "epoch": seq.epoch,
        "positions": [seq._loader.plan.positions(step).tolist() for step in range(len(seq))],
        "trained": trained,
        "fit": refusal(lambda: model.fit(seq, verbose=0)),
        "keras": refusal(lambda: model.fit(plain, shuffle=False, verbose=0)),
    }


KINDS = {
    "torch": torch_rank,
    "torch-meshes": torch_meshes,
    "jax": jax_process,
    "jax-devices": jax_devices,
    "tensorflow": tensorflow_worker,
    "tensorflow-devices": tensorflow_devices,
}

if __name__ == "__main__":
    kind, index, ports, manifest, out = sys.argv[1:]
    if not kind.startswith("tensorflow"):
        sys.modules["tensorflow"] = None  # Keras would load it to ask whether data is of its kind
    found = KINDS[kind](int(index), ports.split(","), manifest)
    Path(out).write_text(json.dumps(found))
