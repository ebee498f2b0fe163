"""Processes and devices that share each batch: real ones, on this machine."""

import json
import os
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from several_ranks import BATCH_SIZE, EPOCHS, ROWS, sequence, train, watching_model
from watching import KERAS, order

import dfgen
from dfgen.errors import ArgumentError
from dfgen.loading.loader import Loader
from dfgen.loading.order.plan import Plan
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader
from dfgen.training import device_division

FULL = ROWS // BATCH_SIZE
SCRIPT = Path(__file__).parents[1] / "several_ranks.py"
SECONDS = 150  # that a process may take; they take about ten


def free_ports(count):
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in found]
    for server in found:
        server.close()
    return ports


def environment(kind):
    """That of a user's script, without what this process says of processes and devices."""
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "TF_CONFIG")}
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    backend = {"KERAS_BACKEND": kind.partition("-")[0], "TF_CPP_MIN_LOG_LEVEL": "3"}
    return kept | backend | (devices if kind == "jax-devices" else {})


def run(kind, count, folder, manifest):
    """What each of several processes found; if one fails or hangs, what they printed, as text."""
    ports = ",".join(map(str, free_ports(count)))
    outs = [folder / f"{kind}-{index}.json" for index in range(count)]
    logs = [out.with_suffix(".log") for out in outs]
    started = []
    try:
        for index, (out, log) in enumerate(zip(outs, logs, strict=True)):
            command = [sys.executable, SCRIPT, kind, str(index), ports, manifest, out]
            with open(log, "wb") as file:
                process = subprocess.Popen(
                    command,
                    env=environment(kind),
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            started.append(process)
        codes = [process.wait(SECONDS) for process in started]
    except subprocess.TimeoutExpired:
        codes = ["hangs"]
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if any(codes):
        return "\n".join(log.read_text(errors="replace")[-3000:] for log in logs)
    return [json.loads(out.read_text()) for out in outs]


@pytest.fixture(scope="module")
def manifest(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("hosts") / "rows.parquet"
    df = dfgen.build_manifest(str(Path(files[0]).parent), pattern="{id:int}.png")
    df = df.sort_values("id", ignore_index=True)[:ROWS]
    df["label"] = (df["id"] % 3 == 0).map({True: "fizz", False: "plain"}).astype("category")
    dfgen.write_manifest(df, path)
    return str(path)


@pytest.fixture(scope="module")
def together(manifest, tmp_path_factory):
    """A function: what the processes of one kind found; each kind runs once."""
    once = cache(lambda kind, count: run(kind, count, tmp_path_factory.mktemp(kind), manifest))

    def found(kind, count):
        package = kind.partition("-")[0]
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-backends installs it")
        found = once(kind, count)
        assert not isinstance(found, str), found
        return found

    return found


@pytest.fixture(scope="module")
def single(manifest):
    """One process on one device, with the same batches."""
    model = watching_model()
    found = train(model, manifest, drop_remainder=True)
    val = sequence(manifest, shuffle=False)
    found["evaluated"] = model.evaluate(val, verbose=0, return_dict=True)
    found["predicted"] = watching_model().predict(val, verbose=0).tolist()
    return found


def mean(found, *names):
    values = []
    for process in found:
        for name in names:
            process = process[name]
        values.append(process)
    return np.mean(values, axis=0)


def same(found, expected):
    return np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def each(found, kind, *names):
    """The same value of each process; on torch before Keras 3.16, of ranks apart, their mean."""
    if kind == "torch" and KERAS < (3, 16):
        return [mean(found, *names)]
    values = []
    for process in found:
        for name in names:
            process = process[name]
        values.append(process)
    return values


KINDS = [("torch", 2), ("torch", 3), ("jax", 2), ("tensorflow", 2)]
DEVICES = [("jax-devices", 1), ("tensorflow-devices", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), KINDS)
class TestProcesses:
    def test_each_row_once_in_one_of_them_less_those_counted_as_left_out(
        self, together, kind, count
    ):
        found = together(kind, count)
        left_out = ROWS % BATCH_SIZE
        assert [process["shard"] for process in found] == [[rank, count] for rank in range(count)]
        assert {(process["steps"], process["left_out"]) for process in found} == {(FULL, left_out)}
        assert {process["epoch"] for process in found} == {EPOCHS}
        expected = [row for epoch in range(EPOCHS) for row in order(ROWS, epoch)[:-left_out]]
        if kind == "jax":  # a model on JAX sees the whole of each batch, in its order
            assert all(process["trained"] == expected for process in found)
        else:
            parts = [np.reshape(process["trained"], (EPOCHS * FULL, -1)) for process in found]
            assert np.concatenate(parts, axis=1).ravel().tolist() == expected
        positions = np.concatenate([process["positions"] for process in found], axis=1)
        assert positions.ravel().tolist() == list(range(ROWS - left_out))

    def test_loss_and_weights_are_those_of_one_process(self, together, single, kind, count):
        found = together(kind, count)
        for loss in each(found, kind, "history", "loss"):
            same(loss, single["history"]["loss"])
        for process in found:
            same(process["weights"][0], single["weights"][0])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [*KINDS[:3], *DEVICES])
class TestEvaluation:
    def test_gives_what_one_process_with_a_short_last_batch_gives(
        self, together, single, kind, count
    ):
        found = together(kind, count)
        # Before Keras 3.16 a rank of torch has a metric of its own rows; the last has fewer.
        apart = kind == "torch" and KERAS < (3, 16)
        for name in ("loss",) if apart else ("loss", "cross_entropy"):
            for value in each(found, kind, "evaluated", name):
                same(value, single["evaluated"][name])
            for value in each(found, kind, "some", name):
                same(value, single["some"][name])

    def test_sees_every_row_and_pads_with_others(self, together, kind, count):
        tested = [row for process in together(kind, count) for row in process["tested"]]
        assert set(tested) == set(range(ROWS))


@pytest.mark.slow
def test_where_fit_of_keras_on_torch_trains_each_rank_apart_it_is_warned_of(together):
    """Before 3.16, where no hook averages gradients."""
    first, second = together("torch", 2)
    apart = not np.allclose(first["alone"][0], second["alone"][0])
    assert apart == (KERAS < (3, 16))
    warning = (
        f"Keras {keras.__version__} averages no gradients over the 2 processes of "
        "torch.distributed, and no variable of the model has a hook that does: each process "
        "trains a model of its own. Build the model and register hooks before fit: see the "
        "guide to several machines. Keras 3.16 averages by itself"
    )
    assert first["warned"] == second["warned"] == [warning] * apart
    refused = (
        "ArgumentError: the model is not built, so its variables have no hooks yet that average "
        "gradients over the 2 processes of torch.distributed. Before fit, call it on a batch, "
        "model(sequence[0][0]), and then register the hooks"
    )
    assert first["unbuilt"] == second["unbuilt"] == (refused if KERAS < (3, 16) else None)


@pytest.mark.slow
def test_ranks_of_torch_go_on_from_what_the_first_one_saved(together, single):
    for process in together("torch", 3):
        same(process["resumed"]["weights"], single["weights"][0])
        assert 2 * FULL <= process["resumed"]["steps"] <= 2 * FULL + 3  # three were lost at most


@pytest.mark.slow
@pytest.mark.skipif(KERAS < (3, 16), reason="Keras before 3.16 has no distribution on torch")
def test_processes_that_share_a_model_on_torch_train_it_as_one_does(together, single):
    for index, process in enumerate(together("torch-meshes", 2)):
        parts = {"data": [index, 2], "halves": [0, 1], "wholes": [index, 2]}
        assert {name: process[name]["shard"] for name in parts} == parts
        for name in parts:
            same(process[name]["loss"], single["history"]["loss"])
            same(process[name]["kernel"], single["weights"][0])
            same(process[name]["evaluated"]["loss"], single["evaluated"]["loss"])
            assert process[name]["other"] == (
                f"ArgumentError: keras.distribution takes part {tuple(parts[name])} of each batch "
                "from this process, but the Sequence makes part (1, 3): rows would be repeated or "
                'missed. Make it with shard="auto", after keras.distribution is set'
            )


@pytest.mark.slow
def test_keras_fails_with_several_tensorflow_workers_and_dfgen_says_so_first(together):
    """If this fails, Keras can do it: see device_division.py, README."""
    for process in together("tensorflow", 2):
        assert process["keras"] is not None
        assert process["fit"] == (
            f"ArgumentError: Keras {keras.__version__} cannot run fit or evaluate with "
            "CollectiveAllReduceStrategy on several workers: its own code fails there, with any "
            "data. Train with a loop of your own over "
            "strategy.distribute_datasets_from_function(lambda context: "
            "sequence.get_tf_dataset()), or with JAX or torch"
        )


@pytest.mark.slow
def test_jax_processes_refuse_rows_that_all_of_them_have(together):
    for index, process in enumerate(together("jax", 2)):
        assert process["whole"] == (
            f"ArgumentError: keras.distribution takes part ({index}, 2) of each batch from this "
            "process, but the Sequence makes part (0, 1): rows would be repeated or missed. "
            'Make it with shard="auto", after keras.distribution is set'
        )
        assert process["small"] == (
            "ArgumentError: 46 rows fill no batch of batch_size=276, and a batch that processes "
            "or devices share must be full: make the batches smaller"
        )


@pytest.mark.slow
def test_auto_loads_no_framework(together):
    """TensorFlow could not be loaded there at all."""
    assert [process["loaded"] for process in together("jax", 2)] == [["jax"]] * 2


def softmax(logits):
    powers = np.exp(np.array(logits))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_each_process_predicts_rows_of_its_own_for_a_frame(together, single):
    ids, prob = zip(*(process["framed"] for process in together("torch", 2)), strict=True)
    assert ids[0] + ids[1] == [*range(ROWS)]
    np.testing.assert_allclose(prob[0] + prob[1], softmax(single["predicted"]), rtol=1e-4)
    assert together("torch", 2)[0]["first"][0] == [*range(ROWS)]


@pytest.mark.slow
def test_a_frame_of_a_model_that_processes_share_is_refused(together):
    for process in together("jax", 2):
        assert process["framed"] == (
            "ArgumentError: keras.distribution divides each batch over 2 processes, expected a "
            "model that each process has to itself: predict without it, each process its part, as "
            "shard=(index, count) of the Sequence says"
        )


PREDICT = (
    "predict with shard=({0}, 2): the predictions of this process could not be matched with the "
    "rows. dfgen.predict_frame(model, sequence) gives each process its part of them, with their ids"
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torch", "jax"])
def test_predict_in_several_processes_is_refused(together, kind):
    found = [process["predict"] for process in together(kind, 2)]
    assert found == [f"ArgumentError: {PREDICT.format(index)}" for index in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), DEVICES)
class TestDevices:
    def test_fit_leaves_out_the_short_last_batch_and_counts_it(self, together, kind, count):
        (found,) = together(kind, count)
        assert (found["steps"], found["left_out"], found["epoch"]) == (FULL, 4, EPOCHS)
        expected = [row for epoch in range(EPOCHS) for row in order(ROWS, epoch)[:-4]]
        trained = np.reshape(found["trained"], (-1, BATCH_SIZE))
        assert np.sort(trained).tolist() == np.sort(np.reshape(expected, (-1, BATCH_SIZE))).tolist()

    def test_losses_and_weights_are_those_of_one_device(self, together, single, kind, count):
        (found,) = together(kind, count)
        for name in ("loss", "cross_entropy"):
            same(found["history"][name], single["history"][name])
        same(found["weights"][0], single["weights"][0])

    def test_predictions_stand_in_the_order_of_the_rows(self, together, single, kind, count):
        (found,) = together(kind, count)
        same(found["predicted"], single["predicted"])

    def test_a_frame_holds_no_row_that_fills_up_the_last_batch(self, together, single, kind, count):
        (found,) = together(kind, count)
        ids, prob = found["framed"]
        assert ids == [*range(ROWS - 1)]
        np.testing.assert_allclose(prob, softmax(single["predicted"])[:-1], rtol=1e-4)

    def test_what_cannot_be_is_refused(self, together, kind, count):
        (found,) = together(kind, count)
        by = "keras.distribution" if kind == "jax-devices" else "MirroredStrategy"
        assert found["predict"] == (
            "ArgumentError: predict on 2 devices: the last batch has 3 rows, which cannot be "
            "divided over them. Predict on one device, or leave out 1 of the rows"
        )
        assert found["indivisible"] == (
            f"ArgumentError: {by} spreads the 9 rows that this process makes of a batch over 2 "
            "devices: expected batch_size to be a multiple of 2, got 9"
        )
        assert found["unlabelled"] == (
            "ArgumentError: the last 4 of 46 rows fill no batch of batch_size=6, and without y "
            "nothing tells evaluate not to count what fills it up. Leave them out with "
            "drop_remainder=True, or evaluate in one process on one device"
        )


numbers = BoundFeature("number", Number("number"), np.arange(400, dtype=np.int64))


def loader(rows, shard=(0, 1), **options):
    options = {"batch_size": 12, "workers": 1, **options}
    return Loader(SampleReader(np.arange(rows), (numbers,)), shard=shard, **options)


fixed = settings(max_examples=60)


@st.composite
def journeys(draw):
    """(n, batch_size, hosts of each step): 4, 2 and 3 hosts in turns, of a batch for all of them"""
    n, batch_size = draw(st.integers(1, 399)), 12 * draw(st.integers(1, 4))
    steps = n // batch_size
    return n, batch_size, draw(st.lists(st.sampled_from([4, 2, 3]), min_size=steps, max_size=steps))


class TestElastic:
    @fixed
    @given(journeys())
    def test_a_change_of_hosts_leaves_the_sequence_of_global_batches_as_it_was(self, journey):
        n, batch_size, hosts = journey
        made = {
            (index, count): loader(n, (index, count), batch_size=batch_size, workers=0)
            for count in set(hosts)
            for index in range(count)
        }
        assert {len(each) for each in made.values()} <= {n // batch_size}
        assert {each.plan.left_out for each in made.values()} <= {n % batch_size}
        for step, count in enumerate(hosts):
            parts = [made[index, count] for index in range(count)]
            rows = np.concatenate([part.batch(5, step).arrays["number"] for part in parts])
            start = step * batch_size
            assert rows.tolist() == order(n, 5)[start : start + batch_size]
            positions = np.concatenate([part.plan.positions(step) for part in parts])
            assert positions.tolist() == list(range(start, start + batch_size))

    @fixed
    @given(st.integers(1, 300), st.integers(1, 6), st.integers(1, 5))
    def test_padded_epochs_weigh_each_row_once_on_any_number_of_hosts(self, n, count, each):
        batch_size, total = count * each, np.zeros(n)
        plans = [Plan(n, batch_size, (index, count), "pad") for index in range(count)]
        for plan in plans:
            made = loader(n, plan.shard, batch_size=batch_size, workers=0)
            for step in range(len(plan)):
                batch = made.result(made.start(0, step, plan))
                assert len(batch.rows) == each
                real = int(np.clip(n - step * batch_size - plan.shard[0] * each, 0, each))
                assert (batch.weights > 0).tolist() == [True] * real + [False] * (each - real)
                np.add.at(total, batch.rows, batch.weights)
        places = len(plans[0]) * batch_size
        assert np.allclose(total, places / n)


def test_a_stream_looks_ahead_within_its_own_part_and_over_the_end_of_the_epoch():
    made = loader(40, (1, 3), workers=2)
    stream = made.stream(0)
    rows = [next(stream).rows.tolist() for _ in range(7)]
    expected = [
        order(40, epoch)[step * 12 + 4 : step * 12 + 8] for epoch in (0, 1, 2) for step in range(3)
    ]
    assert rows == expected[:7]
    stream.close()


def test_what_was_made_ahead_for_training_is_not_taken_for_evaluation():
    made = loader(40, (0, 2), workers=2)
    stream = made.stream(0)
    for _ in range(3):
        next(stream)
    made.park(stream)
    padded = made.stream(1, 0, Plan(40, 12, (0, 2), "pad"))
    assert [len(next(padded).rows) for _ in range(4)] == [6] * 4
    assert padded.position == (2, 0)


def test_rows_that_cannot_be_read_count_apart_from_what_fills_a_batch():
    problems = {38: "known", 0: "known"}
    made = loader(40, (0, 2), shuffle=False, on_error="skip", problems=problems)
    last = made.result(made.start(0, 3, Plan(40, 12, (0, 2), "pad")))
    assert last.rows.tolist() == [36, 37, 38, 39, 0, 1]
    weight = 48 / 40 * 4 / 3  # of four places for three rows
    assert last.weights.tolist() == pytest.approx([weight, weight, 0, weight, 0, 0])


def test_padding_weighs_nothing_where_rows_have_weights_of_their_own():
    own = np.arange(1, 41, dtype=np.float32)
    made = loader(40, (0, 2), shuffle=False, weights=own)
    last = made.result(made.start(0, 3, Plan(40, 12, (0, 2), "pad")))
    assert last.rows.tolist() == [36, 37, 38, 39, 0, 1]
    assert last.weights.tolist() == pytest.approx([*(own[36:] * 48 / 40), 0, 0])
    assert (last.weights == 0).sum() == 2


@pytest.mark.parametrize(("steps", "tail"), [(2, "drop"), (3, "pad"), (None, "pad")])
def test_evaluation_on_devices_is_padded_where_it_comes_to_the_last_batch(steps, tail):
    strategy = SimpleNamespace(extended=SimpleNamespace(), num_replicas_in_sync=2)
    model = SimpleNamespace(distribute_strategy=strategy)
    call = SimpleNamespace(model=model, purpose="evaluate", steps=steps)
    plan, divided = device_division.divide(Plan(28, 12), call, weighable=True, endless=False)
    assert (plan.tail, divided) == (tail, True)


@pytest.mark.parametrize(
    ("jobs", "workers"),
    [({"worker": "ab"}, 2), ({"chief": "a", "worker": "b"}, 2), ({"worker": "a", "ps": "bc"}, 1),
     ({"chief": "a"}, 1), ({}, 1), (None, 1)],
)  # fmt: skip
def test_a_strategy_of_tensorflow_is_taken_on_one_worker_alone(jobs, workers):
    strategy = SimpleNamespace(num_replicas_in_sync=4)
    if jobs is not None:
        cluster = SimpleNamespace(as_dict=lambda: jobs)
        strategy.cluster_resolver = SimpleNamespace(cluster_spec=lambda: cluster)
    model = SimpleNamespace(distribute_strategy=strategy)
    if workers == 1:
        made = device_division.keras_division(model)
        assert made == device_division.Division("SimpleNamespace", (0, 1), 4)
        return
    with pytest.raises(ArgumentError, match="cannot run fit or evaluate with SimpleNamespace on s"):
        device_division.keras_division(model)


@pytest.mark.backend
@pytest.mark.parametrize("found", [None, (0, 1), (1, 2)])
def test_one_process_alone_is_connected_to_nobody(monkeypatch, found):
    backend = keras.backend.backend()
    for name in ("torch", "jax"):
        monkeypatch.setattr(device_division, f"{name}_processes", lambda: found)
    expected = None if backend == "tensorflow" or found != (1, 2) else found
    assert device_division.connected() == expected


def test_inputs_alone_have_no_weights_on_devices_either(frame):
    strategy = SimpleNamespace(extended=SimpleNamespace(), num_replicas_in_sync=2)
    spread = type("Spread", (keras.Model,), {"distribute_strategy": strategy})
    call = SimpleNamespace(model=spread(), purpose="fit", steps=None)
    for label_mode, weighted in ((None, False), ("int", True)):
        seq = dfgen.Sequence(frame(10), image_size=(4, 4), batch_size=4, label_mode=label_mode)
        plan, layout = seq._divided(call)
        assert (plan.tail, layout.weighted) == ("drop", weighted)


@pytest.mark.filterwarnings("ignore:shard=.* makes a part of each batch, but nothing connects")
class TestOneOfSeveral:
    """One of several processes, which nothing connects here."""

    def test_is_warned_of(self, frame):
        seq = dfgen.Sequence(frame(8), batch_size=4, image_size=(4, 4), shard=(1, 2))
        message = r"^shard=\(1, 2\) makes a part of each batch, but nothing connects this process"
        with pytest.warns(UserWarning, match=message):
            watching_model().fit(seq, verbose=0)

    def test_batches_are_weighted_and_the_repr_tells_what_is_left_out(self, frame):
        seq = dfgen.Sequence(frame(46), batch_size=8, image_size=(4, 4), shard=(1, 4))
        assert [(x.shape, y.tolist(), w.tolist()) for x, y, w in seq] == [
            ((2, 4, 4, 3), [row % 2 for row in order(46, 0)[start : start + 2]], [1, 1])
            for start in range(2, 42, 8)
        ]
        assert repr(seq) == (
            "<dfgen.Sequence: 46 rows, 5 batches of 8; part 1 of 4; 6 rows left out of each epoch; "
            "image 4x4x3 uint8, label scalar int32; seed 0, epoch 1>"
        )

    @pytest.mark.filterwarnings("ignore:validation_data has the")
    def test_repeat_evaluate_and_input_monitor_go_on_working(self, frame):
        seq = dfgen.Sequence(frame(46), batch_size=8, image_size=(4, 4), shard=(0, 2))
        model = watching_model()
        monitor = dfgen.InputMonitor()
        model.fit(
            seq.repeat(),
            steps_per_epoch=4,
            epochs=3,
            validation_data=seq,
            callbacks=[monitor],
            verbose=0,
        )
        mine = [order(46, epoch)[s : s + 4] for epoch in range(3) for s in range(0, 40, 8)]
        assert model.seen() == np.concatenate(mine[:12]).tolist()
        assert (seq.epoch, seq.progress.place.step) == (2, 2)
        assert len(monitor.model.history.history["images_per_second"]) == 3
        assert len(model.seen("tested")) == 3 * 6 * 4

    @pytest.mark.parametrize("index", [0, 1])
    def test_predict_is_refused(self, frame, index):
        options = {"image_size": (4, 4), "shuffle": False, "shard": (index, 2)}
        with pytest.raises(ArgumentError) as refused:
            watching_model().predict(dfgen.Sequence(frame(8), batch_size=4, **options), verbose=0)
        assert str(refused.value) == PREDICT.format(index)

    def test_drop_remainder_leaves_out_in_evaluation_too(self, frame):
        options = {"batch_size": 8, "image_size": (4, 4), "shuffle": False, "shard": (0, 2)}
        seq = dfgen.Sequence(frame(46), drop_remainder=True, **options)
        model = watching_model()
        model.evaluate(seq, verbose=0)
        assert model.seen("tested") == [row for row in range(40) if row % 8 < 4]

    def test_too_few_rows_for_a_batch_can_be_evaluated_only(self, frame):
        seq = dfgen.Sequence(frame(6), batch_size=8, image_size=(4, 4), shard=(1, 2))
        message = (
            "^6 rows fill no batch of batch_size=8, and a batch that processes or devices share "
            "must be full: make the batches smaller$"
        )
        model = watching_model()
        for act in (lambda: model.fit(seq, verbose=0), lambda: seq[0], lambda: next(iter(seq))):
            with pytest.raises(ArgumentError, match=message):
                act()
        model.evaluate(seq, verbose=0)
        assert model.seen("tested") == [order(6, 0)[p] for p in (4, 5, 0, 1)]


MESHES = [
    ((4,), 0, [0, 0, 1, 1], [((0, 2), 2), ((1, 2), 2)]),
    ((2, 2), 0, [0, 0, 1, 1], [((0, 2), 1), ((1, 2), 1)]),
    ((2, 2), 0, [0, 1, 2, 3], [((0, 2), 1), ((0, 2), 1), ((1, 2), 1), ((1, 2), 1)]),
    ((2, 2), 1, [0, 1, 2, 3], [((0, 2), 1), ((1, 2), 1), ((0, 2), 1), ((1, 2), 1)]),
    ((1, 4), 0, [0, 0, 1, 1], [((0, 1), 1), ((0, 1), 1)]),
    ((4, 1), 0, [0, 0, 0, 0], [((0, 1), 4)]),
]
ONE_DEVICE = [mesh for mesh in MESHES if mesh[2] == [*range(4)]]  # of each process, as on torch


@pytest.mark.parametrize(
    ("shape", "axis", "processes", "expected", "backend"),
    [*((*mesh, "jax") for mesh in MESHES), *((*mesh, "torch") for mesh in ONE_DEVICE)],
)
def test_processes_of_one_replica_of_a_model_feed_the_same_rows(
    monkeypatch, shape, axis, processes, expected, backend
):
    """Where the model is divided too: by which devices of the mesh are a process's own."""
    monkeypatch.setattr(device_division, "VERSION", (3, 16))
    devices = np.array([SimpleNamespace(process_index=p) for p in processes]).reshape(shape)
    names = ["batch", "model"] if axis == 0 else ["model", "batch"]
    mesh = SimpleNamespace(axis_names=names, backend_mesh=SimpleNamespace(devices=devices))
    mesh.devices = np.array([f"cpu:{p}" for p in processes]).reshape(shape)
    shared = SimpleNamespace(device_mesh=mesh, batch_dim_name="batch")
    monkeypatch.setattr(device_division, "_distribution", {backend: shared}.get)
    found = []
    for index in range(len(expected)):
        own = index, len(expected)
        monkeypatch.setattr(device_division, f"{backend}_processes", lambda own=own: own)
        each = device_division.mesh_division()
        found.append((each.shard, each.devices))
    assert found == expected


class TestShard:
    @pytest.fixture(autouse=True)
    def clean(self, monkeypatch):
        names = "RANK", "WORLD_SIZE", "TF_CONFIG", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"
        for name in names:
            monkeypatch.delenv(name, raising=False)
        self.set = monkeypatch.setenv

    def of(self, frame, shard="auto", **options):
        return dfgen.Sequence(frame(24), batch_size=12, shard=shard, **options).shard

    def test_is_the_whole_where_nothing_says_otherwise(self, frame):
        assert self.of(frame) == self.of(frame, None) == (0, 1)

    def test_comes_from_rank_and_world_size(self, frame):
        self.set("RANK", "2")
        assert self.of(frame) == (0, 1)
        self.set("WORLD_SIZE", "3")
        assert self.of(frame) == (2, 3)
        assert self.of(frame, None) == (0, 1)
        assert self.of(frame, (1, 4)) == (1, 4)

    @pytest.mark.parametrize(
        ("task", "expected"),
        [
            ({"type": "worker", "index": 1}, (2, 3)),
            ({"type": "chief", "index": 0}, (0, 3)),
            ({}, (1, 3)),
        ],
    )
    def test_comes_from_tf_config(self, frame, task, expected):
        cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
        self.set("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        assert self.of(frame) == expected

    def test_comes_from_srun_where_nothing_tells_more(self, frame):
        self.set("SLURM_PROCID", "1")
        assert self.of(frame) == (0, 1)  # of sbatch, which runs one process
        self.set("SLURM_STEP_NUM_TASKS", "2")
        assert self.of(frame) == (1, 2)
        self.set("RANK", "5")
        self.set("WORLD_SIZE", "6")
        assert self.of(frame) == (5, 6)

    def test_of_an_empty_tf_config_is_the_whole(self, frame):
        self.set("TF_CONFIG", "{}")
        assert self.of(frame) == (0, 1)

    def refuses(self, frame, message, shard="auto", **options):
        with pytest.raises(ArgumentError) as refusal:
            self.of(frame, shard, **options)
        assert str(refusal.value) == message

    def test_refuses_sources_that_contradict_each_other(self, frame):
        self.set("RANK", "1")
        self.set("WORLD_SIZE", "2")
        self.set("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1", "b:1", "c:1"]}}))
        self.refuses(
            frame,
            'shard="auto" finds several answers to which of how many processes this is: TF_CONFIG: '
            "(0, 3), RANK and WORLD_SIZE: (1, 2). Unset what does not hold, or give "
            "shard=(index, count)",
        )

    @pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0")])
    def test_refuses_variables_that_cannot_be(self, frame, rank, size):
        self.set("RANK", rank)
        self.set("WORLD_SIZE", size)
        self.refuses(
            frame,
            f"the environment has RANK='{rank}' and WORLD_SIZE='{size}', expected whole numbers, "
            "RANK below WORLD_SIZE. Mend them, or give shard=(index, count)",
        )

    def test_refuses_a_tf_config_that_cannot_be(self, frame):
        self.set("TF_CONFIG", "[1")
        with pytest.raises(ArgumentError, match=r"^TF_CONFIG is not what TensorFlow expects \("):
            self.of(frame)
        cluster = {"worker": ["a:1"], "ps": ["b:1"]}
        self.set("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}}))
        self.refuses(
            frame,
            "TF_CONFIG makes this process a ps, which is no worker: it feeds no batches. "
            "Give it shard=None if it is to feed whole ones",
        )
        task = {"type": "worker", "index": 1}
        self.set("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        self.refuses(frame, "index of TF_CONFIG=1 is not a whole number from 0 to 0")

    @pytest.mark.parametrize(
        ("shard", "message"),
        [
            ((3, 3), "index in shard=(index, count)=3 is not a whole number from 0 to 2"),
            ((-1, 3), "index in shard=(index, count)=-1 is not a whole number from 0 to 2"),
            ((0, 0), "count in shard=(index, count)=0 is not a whole number of 1 or more"),
            ((0, 1.5), "count in shard=(index, count)=1.5 is not a whole number of 1 or more"),
            ((0, 5), "batch_size=12 cannot be split over 5 hosts: expected a multiple of 5"),
            (2, 'shard must be (index, count), such as (0, 4) on the first of 4, "auto" or None, '
             "got 2"),
            ("host",
             'shard must be (index, count), such as (0, 4) on the first of 4, "auto" or None, '
             "got 'host'"),
        ],
    )  # fmt: skip
    def test_refuses_what_cannot_be(self, frame, shard, message):
        self.refuses(frame, message, shard)
