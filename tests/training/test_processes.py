"""Processes and devices that share each batch: real processes, and one of several on its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__" and os.environ["KERAS_BACKEND"] != "tensorflow":
    sys.modules["tensorflow"] = None  # Keras imports it on any backend

import keras
import numpy as np
import pytest
from public.numbered import epoch_batches, joined
from public.permutation import epoch_rows
from public.test_processes_together import BATCH_SIZE, FULL, ROWS, connect, sequence
from public.training_script import acting
from public.watching import BACKEND, KERAS, watcher

import dfgen
from dfgen.errors import ArgumentError

TESTS = Path(__file__).parents[1]
VERSION = dfgen.__version__
WRONG = [  # how rank 1 differs, words of the error of rank 0
    ({"seed": 4}, "seed: 0 on rank 0, 4 on rank 1"),
    ({"batch_size": 12}, "batch_size: 6 on rank 0, 12 on rank 1"),
    ({"shard": (0, 2)}, "0, 2"),
    ({"rows": 36}, "rows: 46 on rank 0, 36 on rank 1; ids: "),
    ({"scale": "0..1"}, "scale of 'image': None on rank 0, '0..1' on rank 1"),
    ({"keras_seed": 3}, "keras.utils.set_random_seed: 1 on rank 0, 3 on rank 1"),
    ({"version": "0.1"}, f"version of dfgen: {VERSION} on rank 0, 0.1 on rank 1"),
    ({"label_mode": "categorical"}, "array 'label': () int32 on rank 0, (2,) float32 on rank 1"),
    ({"rows": 1}, "rank 1 cannot train: 1 rows fill no batch"),
]


# What the processes do


def error_of(act):
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def of_process(images, rows=ROWS, **options):
    options = {"batch_size": BATCH_SIZE, "image_size": (4, 4), "shard": "auto"} | options
    return dfgen.Sequence(sequence(images).manifest[:rows], workers=1, **options)


def model_maker(index, count, port):
    keras.utils.set_random_seed(1)
    return connect(index, count, port) if count > 1 else partial(watcher, built=True)


def kernel(model):
    return np.asarray(model.dense.get_weights()[0]).tolist()


def together(images, folder, *process):
    """Return what a process sees of fit, evaluate, predict and predict_frame."""
    model = model_maker(*process)()
    seq = of_process(images, drop_remainder=True)
    val = of_process(images, shuffle=False)
    seen = {"loss": model.fit(seq, epochs=2, verbose=0).history["loss"], "kernel": kernel(model)}
    seen["evaluated"] = [model.evaluate(val, steps=steps, verbose=0) for steps in (None, 3)]
    seen["tested"] = model.seen("tested")
    seen["predict"] = error_of(lambda: model.predict(val, verbose=0))

    def frame():
        rows = dfgen.predict_frame(model, val)
        seen["frame"] = rows.id.tolist(), rows.loss.tolist()

    seen["refused"] = error_of(frame)
    return seen


def wrong(images, folder, index, *process):
    """Return the errors of a fit for which rank 1 is set up differently."""
    model, errors = model_maker(index, *process)(), []
    for differing, _ in WRONG:
        options = dict(differing) if index else {}
        keras.utils.set_random_seed(options.pop("keras_seed", 1))
        dfgen.__version__ = options.pop("version", VERSION)
        errors.append(error_of(partial(model.fit, of_process(images, **options), verbose=0)))
    return errors


def apart(images, folder, *process):
    """Return the warnings of a fit in which nothing averages gradients."""
    model_maker(*process)
    if BACKEND == "jax":
        keras.distribution.set_distribution(None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watcher(built=True).fit(of_process(images), verbose=0)
    return [str(each.message) for each in caught if "gradients" in str(each.message)]


def meshes(images, folder, *process):
    """Return shard and losses with a replica of the model per process, and with one for both."""
    model_maker(*process)
    seen = []
    for shape in ((2, 1), (1, 2)):
        mesh = keras.distribution.DeviceMesh(shape, ["batch", "model"])
        layout = keras.distribution.LayoutMap(mesh)
        layout["dense.*kernel"] = (None, "model")
        parallel = keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")
        keras.distribution.set_distribution(parallel)
        keras.utils.set_random_seed(1)
        layers = keras.layers.Flatten(), keras.layers.Dense(2)
        model = keras.Sequential([keras.Input((4, 4, 3)), *layers])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        seq = of_process(images, scale="0..1", drop_remainder=True)
        seen.append([seq.shard, model.fit(seq, epochs=2, verbose=0).history["loss"]])
    return seen


def resuming(
    images, folder, index, count, port, name=None, after=10, backup="backup", save_freq=3, **options
):
    """Train two epochs, with a signal to rank 1 after some steps; return weights and receipt."""
    model, seq = model_maker(index, count, port)(), of_process(images, **options)

    def act():
        os.kill(os.getpid(), getattr(signal, name))

    steps = acting(after if name and index else None, act, [])
    backup = dfgen.BackupAndRestore(f"{folder}/{backup}", seq, save_freq=save_freq)
    model.fit(seq, epochs=2, verbose=0, callbacks=[steps, backup])
    receipt = seq.receipt
    return kernel(model), int(receipt.digest, 16), receipt.rows, receipt.missing, receipt.repeated


def devices(images, folder, *process):
    """Return a frame of predictions of two devices, and the error of rows without targets."""
    scope = nullcontext
    if BACKEND == "jax":
        keras.distribution.set_distribution(keras.distribution.DataParallel())
    else:
        import tensorflow as tf

        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
        scope = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope
    with scope():
        model = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()])
        model.compile()
    odd = of_process(images, rows=ROWS - 1, label_mode=None)
    frame = dfgen.predict_frame(model, odd)
    rows = [int(pixels[0]) for pixels in frame.y_pred]
    return frame.id.tolist(), rows, error_of(lambda: model.evaluate(odd, verbose=0))


# Tests of them


@pytest.fixture(params=["torch", "jax"])
def backend(request):
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: make test-backends installs it")
    return request.param


@contextmanager
def started(backend, function, count, files, folder, *differing, **options):
    """Start processes, with further options for some ranks, and kill them at the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    env |= {"KERAS_BACKEND": backend, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    if function == "devices":
        env["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    processes = []
    for index, own in enumerate([*differing, *[{}] * (count - len(differing))]):
        given = [str(Path(files[0]).parent), str(folder), index, count, port]
        command = [sys.executable, __file__, function, json.dumps([given, options | own])]
        with open(folder / f"{index}.log", "w") as log:
            processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(backend, function, count, files, folder, *differing, code=0, **options):
    """Return the results of processes, or their logs if they are to end with another code."""
    with started(backend, function, count, files, folder, *differing, **options) as processes:
        codes = [process.wait(300) for process in processes]
    logs = [(folder / f"{index}.log").read_text() for index in range(count)]
    assert codes == [code] * count, "\n".join(logs)
    return logs if code else [json.loads(log.splitlines()[-1]) for log in logs]


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.long
class TestProcesses:
    @pytest.mark.parametrize("count", [2, 3])
    def test_processes_train_and_evaluate_as_one(self, backend, files, tmp_path, count):
        (one,) = run(backend, "together", 1, files, tmp_path)
        ranks = run(backend, "together", count, files, tmp_path)
        has_own_losses = backend == "torch" and KERAS < (3, 16)
        for name in ("loss", "evaluated"):
            losses = [rank[name] for rank in ranks]
            for loss in [np.mean(losses, axis=0)] if has_own_losses else losses:
                close(loss, one[name])
        for rank in ranks:
            close(rank["kernel"], one["kernel"])
            assert "predict_frame" in rank["predict"] and {*rank["tested"]} <= {*range(ROWS)}
        assert {row for rank in ranks for row in rank["tested"]} == {*range(ROWS)}
        if backend == "jax":  # the model is shared
            assert all("shard=(index, count)" in rank["refused"] for rank in ranks)
            return
        ids, losses = (joined(rank["frame"][part] for rank in ranks) for part in (0, 1))
        assert ids == [*range(ROWS)]
        close(losses, one["frame"][1])

    def test_wrong_settings_are_refused_before_the_first_step(self, backend, files, tmp_path):
        first, other = run(backend, "wrong", 2, files, tmp_path)
        for (options, words), errors in zip(WRONG, zip(first, other, strict=True), strict=True):
            assert words in errors[0] and "ArgumentError" in errors[1], options

    def test_models_that_drift_apart_warn(self, backend, files, tmp_path):
        warned = backend == "jax" or KERAS < (3, 16)  # then Keras averages on torch
        ranks = run(backend, "apart", 2, files, tmp_path)
        assert [len(texts) for texts in ranks] == [int(warned)] * 2

    def test_processes_of_one_replica_make_the_same_rows(self, backend, files, tmp_path):
        if backend == "torch" and KERAS < (3, 16):
            pytest.skip("Keras before 3.16 has no distribution on torch")
        for index, (whole, halves) in enumerate(run(backend, "meshes", 2, files, tmp_path)):
            assert (whole[0], halves[0]) == ([index, 2], [0, 1])
            close(whole[1], halves[1])

    def test_sigterm_to_one_stops_all_and_they_resume(self, backend, files, tmp_path):
        (_, digest, *_), (weights, *_) = (
            run(backend, "resuming", count, files, tmp_path, drop_remainder=True)[0]
            for count in (1, 2)
        )
        logs = run(backend, "resuming", 2, files, tmp_path, code=143, name="SIGTERM")
        assert all(f"saved to {tmp_path / 'backup'}" in log for log in logs)
        own = {}, {"backup": "other"}
        logs = run(backend, "resuming", 2, files, tmp_path, *own, code=1)
        assert all("other backups" in log and "no backup on rank 1" in log for log in logs)
        ranks = run(backend, "resuming", 2, files, tmp_path)
        for after, _, *receipt in ranks:
            assert (after, receipt) == (weights, [FULL * BATCH_SIZE // 2, 0, 0])
        assert sum(rank[1] for rank in ranks) % 2**128 == digest

    def test_single_process_resumes_with_smaller_batches_after_kill(self, backend, files, tmp_path):
        options = {"batch_size": 12, "name": "SIGKILL", "after": 5, "save_freq": 1}
        with started(backend, "resuming", 2, files, tmp_path, **options) as processes:
            assert processes[1].wait(300) == -signal.SIGKILL
        ((_, digest, *receipt),) = run(backend, "resuming", 1, files, tmp_path, batch_size=4)
        assert receipt == [ROWS, 0, 0]
        whole = of_process(Path(files[0]).parent, shard=None)
        assert len([*whole, *whole]) == 2 * (FULL + 1)
        assert digest == int(whole.receipt.digest, 16)

    @pytest.mark.parametrize("backend", ["jax", "tensorflow"])
    def test_frames_of_devices_have_no_padding(self, backend, files, tmp_path):
        ((ids, rows, error),) = run(backend, "devices", 1, files, tmp_path)
        assert ids == rows == [*range(ROWS - 1)]
        assert "drop_remainder=True" in error


# One process of several, on its own


@pytest.fixture
def images(files):
    return Path(files[0]).parent


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:shard=.* nothing averages")
class TestOneOfSeveral:
    def test_one_that_nothing_connects_warns(self, images):
        with pytest.warns(UserWarning, match="several machines"):
            watcher().fit(of_process(images, shard=(1, 2)), verbose=0)

    def test_batches_are_full_and_weighted(self, images):
        seq = of_process(images, shard=(1, 2))
        assert f"{ROWS % BATCH_SIZE} rows left out" in repr(seq) and len(seq) == FULL
        for _, y, weights in seq:
            assert (y.shape, weights.tolist()) == ((3,), [1, 1, 1])

    def test_repeat_goes_on_and_validation_has_all_rows(self, images):
        seq, model = of_process(images, shard=(0, 2)), watcher()
        val = of_process(images, shard=(0, 2), rows=20)
        options = {"steps_per_epoch": 4, "epochs": 3, "validation_data": val, "verbose": 0}
        model.fit(seq.repeat(), **options)
        batches = joined(epoch_batches(ROWS, BATCH_SIZE, epoch, shard=(0, 2)) for epoch in (0, 1))
        assert model.seen() == joined(batches[:12])
        assert len(model.seen("tested")) == 3 * 4 * BATCH_SIZE // 2

    @pytest.mark.parametrize(
        "options",
        [{}, {"rows": 7}, {"sample_weight": "id"}, {"drop_remainder": True}],
        ids=str,
    )
    def test_padded_evaluation_weighs_each_row_once(self, images, options):
        model, options = watcher(built=True), {"shuffle": False, **options}
        whole, *parts = (
            model.evaluate(of_process(images, shard=shard, **options), verbose=0)
            for shard in (None, (0, 3), (1, 3), (2, 3))
        )
        assert np.mean(parts) == pytest.approx(whole, rel=1e-4)

    def test_rows_filling_no_batch_can_only_be_evaluated(self, images):
        seq, model = of_process(images, rows=5, shard=(1, 2)), watcher()
        for act in (lambda: model.fit(seq, verbose=0), lambda: seq[0], lambda: next(iter(seq))):
            with pytest.raises(ArgumentError, match="5 rows fill no batch of batch_size=6"):
                act()
        model.evaluate(seq, verbose=0)
        order = epoch_rows(5, 0)
        assert model.seen("tested") == [order[position] for position in (3, 4, 0)]

    def test_an_epoch_with_nothing_left_to_share_ends(self, images):
        one, shared = of_process(images, shard=None), of_process(images, shard=(0, 2))
        batches = iter(one)
        for _ in range(FULL):
            next(batches)
        with pytest.warns(UserWarning, match="processes"):
            shared.load_state_dict(one.state_dict())
        model = watcher()
        model.fit(shared, verbose=0)
        assert model.seen() == joined(epoch_batches(ROWS, BATCH_SIZE, 1, shard=(0, 2)))


def test_auto_refuses_contradictions(images, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert of_process(images).shard == (1, 2)
    monkeypatch.setattr("dfgen.training.processes._jax_processes", lambda: (0, 2))
    with pytest.raises(ArgumentError, match="WORLD_SIZE"):
        of_process(images)


if __name__ == "__main__":
    given, options = json.loads(sys.argv[2])
    print("\n" + json.dumps(globals()[sys.argv[1]](*given, **options)))
