"""A Sequence that nobody holds ends at once, and one that travels begins anew where it lands."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from functools import partial

import cloudpickle
import keras
import numpy as np
import pytest
from watching import trained_watcher

import dfgen
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import PendingBatch
from dfgen.loading.read_ahead import ReadAhead
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.threads import Threads, Worker


def sequence(df, **options):
    return dfgen.Sequence(
        df, **{"y": "label", "batch_size": 8, "image_size": (4, 4), "workers": 2, **options}
    )


EARLIER = weakref.WeakSet()


@pytest.fixture(autouse=True)
def those_of_other_tests():
    """A test before may have left a Sequence that something else still holds."""
    EARLIER.update(threading.enumerate())


def threads():
    found = [thread for thread in threading.enumerate() if thread.name.startswith("dfgen-")]
    return [thread for thread in found if thread not in EARLIER]


@pytest.fixture
def no_garbage():
    """Python does not look for garbage, which alone would free what a circle holds."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def half(seq):
    for batch, _ in zip(iter(seq), range(2), strict=False):
        assert len(batch) == 2


def fit(seq):
    trained_watcher().fit(seq, epochs=2, verbose=0)


def go_on(seq):
    half(seq)
    seq.load_state_dict(seq.state_dict())
    fit(seq)


def validate(seq):
    model = trained_watcher()
    model.fit(seq, validation_data=seq, verbose=0)
    model.evaluate(seq.repeat(), steps=2, verbose=0)


def back_up(seq):
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [dfgen.BackupAndRestore(folder, seq), dfgen.InputMonitor()]
        trained_watcher().fit(seq, verbose=0, callbacks=callbacks)
    if keras.backend.backend() == "torch":  # Keras's own flatten keeps them in a circle there
        del callbacks
        gc.collect()


WAYS = {
    "one batch": lambda seq: seq[1],
    "two epochs": lambda seq: [list(seq), list(seq)],
    "half an epoch": half,
    "repeat": lambda seq: [batch for batch, _ in zip(seq.repeat(), range(7), strict=False)],
    "batches": lambda seq: next(seq._loader.batches()),
    "state": lambda seq: seq.load_state_dict(seq.state_dict()),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "processes"),
    [*((way, False) for way in WAYS), ("two epochs", True), ("half an epoch", True)],
)
def test_four_rebound_in_a_loop_leave_the_workers_of_the_last(frame, no_garbage, way, processes):
    children = []
    for _ in range(4):
        seq = sequence(frame(40), use_multiprocessing=processes)
        WAYS[way](seq)
        workers = seq._loader._maker.pool.workers
        children.append([w._child for w in workers if getattr(w, "_child", None)])
        assert len(threads()) <= 2
    del seq, workers
    assert not threads()
    assert [bool(several) for several in children] == [processes] * 4
    assert all(child.poll() is not None for several in children for child in several)


def test_own_sizes_in_buckets_keep_nothing_alive(frame, no_garbage):
    seq = sequence(frame(40), image_size=None, bucket_by="shape")
    list(seq)
    repr(seq)
    loader = weakref.ref(seq._loader)
    del seq
    assert loader() is None


@pytest.mark.backend
@pytest.mark.parametrize("use", [fit, go_on, validate, back_up])
@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_nothing_is_left_after_keras_has_used_it(frame, no_garbage, use):
    """The model may live on: here in a circle of Keras's own."""
    for _ in range(2):
        seq = sequence(frame(40))
        use(seq)
        if keras.backend.backend() == "jax" and keras.__version__ < "3.13":
            gc.collect()  # that Keras holds what it was given in a circle
        assert len(threads()) == 2
    del seq
    assert not threads()


@pytest.mark.parametrize("options", [{}, {"transform": lambda sample, rng: {}[0]}])
def test_nothing_is_left_after_an_error(frame, no_garbage, options):
    df = frame(40)
    df.loc[33, "path"] = "missing.png"
    seq = sequence(df, **options)
    loader, message = weakref.ref(seq._loader), ""
    try:
        list(seq)
    except dfgen.errors.DfgenError as error:
        message = str(error)
    assert message.startswith("row id=")
    del seq
    assert loader() is None
    assert not threads()


class TestTravel:
    @pytest.mark.slow
    def test_a_sequence_lands_in_another_process_where_it_was(self, frame, tmp_path):
        df = frame(46)
        with sequence(df, shuffle=True, seed=3, transform=lambda sample, rng: sample) as seq:
            next(iter(seq))
            list(seq)
            payload = cloudpickle.dumps(seq)
            assert seq.epoch == 1
            expected = [1, [(x.tobytes(), y.tolist()) for x, y in seq], seq.state_dict()]
            assert [thread.name for thread in threads()] == ["dfgen-0", "dfgen-1"]
        (tmp_path / "seq.pkl").write_bytes(payload)
        code = (
            "import pickle, sys\n"
            "from pathlib import Path\n"
            "with pickle.loads(Path('seq.pkl').read_bytes()) as seq:\n"
            "    batches = [(x.tobytes(), y.tolist()) for x, y in seq]\n"
            "    found = [1, batches, seq.state_dict()]\n"
            "Path('found.pkl').write_bytes(pickle.dumps(found))\n"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)
        assert cloudpickle.loads((tmp_path / "found.pkl").read_bytes()) == expected

    @pytest.mark.parametrize(
        "options",
        [
            {"image_size": None, "bucket_by": "shape"},
            {"balance": "label", "on_error": "skip"},
            {"workers": 1, "use_multiprocessing": True},
            {"batch_transform": lambda batch, rng: batch, "workers": 0},
        ],
        ids=["buckets", "balance", "processes", "batch transform"],
    )
    def test_with_all_that_it_holds(self, frame, options):
        with sequence(frame(40), **options) as seq:
            begin = seq.state_dict()
            expected = [[a.tobytes() for a in batch] for batch in seq]
            with cloudpickle.loads(cloudpickle.dumps(seq)) as copy:
                assert copy.epoch == seq.epoch == 1
                assert copy._loader.metrics.batches == 0
                copy.load_state_dict(begin)
                assert [[a.tobytes() for a in batch] for batch in copy] == expected
        with pytest.raises(ValueError, match=r"^this Sequence was closed: make a new one$"):
            cloudpickle.loads(cloudpickle.dumps(seq))[0]


def test_rows_and_ids_of_a_batch_of_the_epoch(frame):
    df = frame(46)
    with sequence(df.assign(id=[f"r{row}" for row in range(46)])) as seq:
        for _ in range(2):
            rows = [seq.rows(step) for step in range(6)]
            assert sorted(np.concatenate(rows).tolist()) == [*range(46)]
            for step, found in enumerate(rows):
                assert seq[step][0][:, 0, 0, 0].tolist() == found.tolist()
                assert seq.ids(step) == [f"r{row}" for row in found]
            assert seq.ids(-1) == seq.ids(5)
            list(seq)
        with pytest.raises(IndexError, match=r"^batch 6 does not exist: an epoch has 6 batches$"):
            seq.rows(6)
        with pytest.raises(IndexError, match=r"^batch -7 does not exist: an epoch has 6 batches$"):
            seq.ids(-7)


def test_threads_end_that_collect_their_own_pool_while_they_make_the_arrays_of_a_batch():
    """A lock that they hold there must not be wanted by what ends them."""
    dropped, lives = threading.Event(), []

    def make():
        dropped.wait()
        gc.collect()
        return {}

    pool = Threads(1, Worker)
    batch = PendingBatch(make, np.arange(2), (0, 0), Plan(2, 2), left=2)
    for row in range(2):
        chunk = Chunk(0, np.array([row]), np.zeros(1, int))
        pool.submit(partial(batch.run, chunk, slice(row, row + 1)))
    (thread,) = pool._threads
    circle = [weakref.finalize(pool, lives.append, "no more"), pool]
    circle.append(circle)
    del pool, circle
    dropped.set()
    thread.join(10)
    assert lives == ["no more"] and not thread.is_alive()


def test_readers_end_that_collect_what_they_read_for_while_they_hold_its_lock():
    dropped = threading.Event()

    def cancelled():
        dropped.wait()
        gc.collect()
        return True

    ahead = ReadAhead(None, 1_000)
    expected = ahead.expect(["a", "b"], cancelled)
    readers = ahead._reads.threads
    circle = [ahead]
    circle.append(circle)
    del ahead, expected, circle
    dropped.set()
    for thread in readers:
        thread.join(10)
    assert readers and not any(thread.is_alive() for thread in readers)
