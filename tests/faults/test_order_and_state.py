"""State and determinism: the same bytes whatever makes them, and training goes on where it was."""

import json
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from cases import each
from watching import order, orders, trained_watcher, watcher

import dfgen
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import permutation

BATCHES = 12
"""Of four rows in an epoch, the last of two."""

GOLDEN = [[9, 2, 7, 3, 1, 6, 4, 8, 5, 0], [9, 6, 3, 8, 0, 7, 2, 5, 4, 1]]
FAR = [352392556352361241, 989811891387066293, 568994537455459330]


def sequence(frame, rows=46, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, **options}
    return dfgen.Sequence(frame(rows), y="label", **options)


def shift(sample, rng):
    return {**sample, "image": sample["image"] + rng.integers(100, dtype=np.uint8)}


def bytes_of(frame, **options):
    """All that two epochs hold, in order."""
    with sequence(frame, transform=shift, **options) as seq:
        return [part.tobytes() for _ in range(2) for batch in seq for part in batch]


def rows_of(x):
    return x[:, 0, 0, 0].tolist()


@pytest.mark.parametrize(
    "options",
    [
        *({"workers": workers} for workers in (1, 2, 7)),
        *({"workers": 2, "max_queue_size": size} for size in (1, 30)),
        {"workers": 2, "use_multiprocessing": True},
        {"workers": 2, "limits": dfgen.Limits(read_timeout=None)},
        {"workers": 2, "on_error": "skip"},
    ],
    ids=repr,
)
def test_fault_44_the_same_bytes_whatever_makes_them(frame, options):
    weights = [np.ones(size, np.float32).tobytes() for size in ([4] * 11 + [2]) * 2]
    made, alone = bytes_of(frame, **options), bytes_of(frame, workers=0)
    if options.get("on_error") == "skip":  # which has weights too
        assert made[2::3] == weights
        del made[2::3]
    assert made == alone


@pytest.mark.parametrize("step", range(BATCHES + 1))
def test_fault_45_resumed_at_any_step_it_is_the_run_that_was_never_broken_off(frame, step):
    first, whole = sequence(frame), orders(46, range(3))
    batches, seen = iter(first), []
    for _ in range(step):
        seen += rows_of(next(batches)[0])
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    with sequence(frame) as again:
        again.load_state_dict(state)
        again.load_state_dict(json.loads(json.dumps(again.state_dict())))  # twice in one epoch
        seen += [row for x, _ in again for row in rows_of(x)]
        ends = len(seen)
        seen += [row for _ in range(2) for x, _ in again for row in rows_of(x)]
    assert ends == (46 if 0 < step < BATCHES else 92 if step else 46)
    assert seen[: len(whole)] == whole


def test_fault_47_the_order_of_a_seed_is_written_down():
    found = [permutation(np.arange(10), 10, seed=0, epoch=epoch).tolist() for epoch in (0, 1)]
    assert found == GOLDEN
    assert permutation(np.arange(3), 10**18, seed=7, epoch=3).tolist() == FAR


@each("rows", [1, 7, 8, 45, 120])
@each("count", [1, 2, 4])
def test_fault_48_hosts_take_as_many_steps_each_and_together_all_rows(rows, count):
    plans = [Plan(rows, 8, (index, count), "pad") for index in range(count)]
    assert len({len(plan) for plan in plans}) == 1
    taken = [p for plan in plans for step in range(len(plan)) for p in plan.positions(step)]
    assert set(taken) == set(range(rows))
    assert len(taken) == -(-rows // 8) * 8  # what fills the last batch is declared


def test_fault_49_another_number_of_hosts_gives_the_same_global_batches():
    def globally(count, step):
        parts = [Plan(120, 8, (index, count), "drop").positions(step) for index in range(count)]
        return np.concatenate(parts).tolist()

    for step in range(15):
        assert globally(1, step) == globally(2, step) == globally(4, step)


QUICK = [(True, 0, None), (True, 3, 6), (False, 0, 6), (False, 3, None)]


@pytest.mark.backend
@pytest.mark.parametrize(
    ("built", "workers", "steps"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in product((True, False), (0, 1, 3), (None, 6))
    ],
)
def test_fault_50_the_model_sees_each_row_once_an_epoch(frame, built, workers, steps):
    model = trained_watcher() if built else watcher()
    with sequence(frame, 48, workers=workers) as seq:
        given, epochs = (seq, 2) if steps is None else (seq.repeat(), 4)
        model.fit(given, epochs=epochs, steps_per_epoch=steps, verbose=0)
        assert model.seen() == orders(48, range(2))


@pytest.mark.backend
def test_fault_51_what_keras_tries_out_before_the_first_epoch_moves_nothing(frame):
    with sequence(frame, 48) as seq:
        state = seq.state_dict()
        seq[0], seq[1]
        seq.on_epoch_end()
        assert seq.state_dict() == state
        model = trained_watcher()
        model.fit(seq, epochs=1, verbose=0)
        assert model.seen() == order(48, 0)


MEMORY = """
import sys
import numpy as np, psutil
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader

rows, epochs = 100_000, int(sys.argv[1])
numbers = BoundFeature("number", Number("number"), np.arange(rows) / rows)
loader = Loader(SampleReader(np.arange(rows), (numbers,)), batch_size=5_000, workers=2)
sizes = []
for epoch in range(epochs):
    seen = sum(len(batch.rows) for batch in loader.batches(epoch))
    assert seen == rows, seen
    if epoch >= epochs // 5:
        sizes.append(psutil.Process().memory_info().rss / 1e6)
print(np.polyfit(np.arange(len(sizes)), sizes, 1)[0] * epochs)
"""


@pytest.mark.alarm(150)
@pytest.mark.parametrize("epochs", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_fault_52_memory_is_flat_over_epochs_of_a_hundred_thousand_rows(epochs):
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(epochs)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert float(run.stdout) < 8  # MB over all of them; one epoch's arrays are 0.8


def test_addresses_of_no_store_are_refused_by_name(frame):
    df = frame(4).assign(path=[f"gopher://bucket/{row}.png" for row in range(4)])
    with pytest.raises(dfgen.DfgenError) as refused:
        dfgen.Sequence(df, y="label", image_size=(4, 4))[0]
    assert "gopher://bucket/0.png" in str(refused.value)
