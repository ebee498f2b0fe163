"""Windows: rows of a few blocks shuffled together, each row once, any position at once."""

import itertools
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfgen.loading.order.draws import permutation
from dfgen.loading.order.epochs import Epochs, Plan
from dfgen.loading.order.windows import Windowed, fitting, windows_of

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=30)
PER_WINDOW = st.integers(2, 8)
GOLDEN = [11, 12, 5, 10, 9, 8, 13, 7, 14, 6, 16, 26, 20, 1, 2, 21, 22, 15, 27, 23, 0, 25, 19, 17,
          24, 4, 18, 29, 3, 28]  # fmt: skip

LANES = [35, 24, 49, 26, 23, 37, 27, 59, 36, 45, 52, 58, 42, 39, 54, 53, 34, 25, 30, 56, 41,
         44, 50, 31, 32, 22, 29, 51, 20, 33]  # fmt: skip


def of_sizes(sizes, per_window=3):
    return Windowed(np.append(0, np.cumsum(sizes, dtype=np.int64)), per_window)


def epoch_of(windows, seed=0, epoch=0):
    return windows.reseeded(seed).at(epoch, np.arange(windows.places))[0]


@given(SIZES, PER_WINDOW, st.integers(0, 3), st.randoms())
def test_each_row_once_per_epoch_in_its_window(sizes, per_window, epoch, random):
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    random.shuffle(blocks)
    windows = windows_of(blocks, per_window)
    rows, plan = epoch_of(windows, epoch=epoch), Plan(len(blocks), 4)
    assert sorted(rows) == list(range(len(blocks)))
    positions = range(len(blocks))
    for window, group in itertools.groupby(positions, lambda at: windows.window(epoch, at)):
        places, own = [*group], windows.rows_of(epoch, window, plan)
        assert sorted(own) == sorted(rows[places])
        count = len({*blocks[own].tolist()})
        assert 2 <= count <= per_window + 1 or len(sizes) == 1
        assert sum(sizes[block] for block in {*blocks[own].tolist()}) == len(own)


@given(SIZES, PER_WINDOW, st.data())
def test_any_positions_may_be_requested_alone(sizes, per_window, data):
    positions = data.draw(st.lists(st.integers(0, sum(sizes) - 1)))
    windows = of_sizes(sizes, per_window)
    alone = windows.reseeded(2).at(1, np.array(positions, np.int64))[0]
    assert alone.tolist() == epoch_of(windows, 2, 1)[positions].tolist()


@pytest.mark.slow
@given(SIZES, PER_WINDOW, st.integers(1, 4), st.sampled_from([1, 2, 3]), st.data())
def test_hosts_share_the_order_at_any_step(sizes, per_window, size, count, data):
    order = of_sizes(sizes, per_window).reseeded(5)
    whole = Plan(sum(sizes), size * count)
    rows = order.at(1, np.arange(sum(sizes)))[0]
    step = data.draw(st.integers(0, len(whole) - 1))
    fresh = pickle.loads(pickle.dumps(order))
    for later in range(step, len(whole)):
        parts = [
            Epochs(fresh, plan).batch(1, later).rows
            for index in range(count)
            for plan in [Plan(sum(sizes), size * count, (index, count))]
        ]
        here = whole.positions(later)
        assert np.concatenate(parts).tolist() == rows[here].tolist()


@given(SIZES, PER_WINDOW, st.sampled_from([2, 4, 6, 24, 64]), st.integers(0, 2), st.data())
def test_lanes_have_each_row_once_in_its_window(sizes, per_window, batch, epoch, data):
    plain = of_sizes([50 * size for size in sizes], per_window)
    lanes = replace(plain, batch_size=batch)
    rows, rest = (epoch_of(windows, epoch=epoch) for windows in (lanes, plain))
    window_of = np.array([plain.window(epoch, at) for at in range(len(rows))])
    for window in np.unique(window_of):
        assert sorted(rows[window_of == window]) == sorted(rest[window_of == window])
    positions = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    copy = pickle.loads(pickle.dumps(lanes))
    assert copy.at(epoch, np.array(positions, np.int64))[0].tolist() == rows[positions].tolist()


def test_hosts_read_a_stretch_of_each_block():
    rows, blocks = 40_000, 10
    windows = replace(of_sizes([rows // blocks] * blocks, 5), batch_size=96, seed=1)
    for hosts in (2, 3, 4):
        plans = [Plan(rows, 96, (host, hosts), "drop") for host in range(hosts)]
        own = [windows.rows_of(0, 0, plan) for plan in plans]
        assert len(np.unique(np.concatenate(own))) == sum(map(len, own)) >= 20_000 - 96
        for part in own:
            assert np.count_nonzero(np.diff(part) > 9) < 5


def test_lanes_mix_classes_as_a_full_shuffle_does():
    classes = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 1000))
    windows = replace(of_sizes([1000] * 100, 4), batch_size=256)
    shuffled = permutation(np.arange(10**5), 10**5, seed=0, epoch=0)
    full = classes_per_batch(shuffled, classes)
    assert abs(classes_per_batch(epoch_of(windows), classes) / full - 1) < 0.01
    meets = []  # how many rows of a batch meet others of it in a batch of the next epochs
    for order in (windows, replace(windows, batch_size=None)):
        batch_of = np.empty((9, 10**5), np.int64)
        for epoch in range(9):
            batch_of[epoch, epoch_of(order, epoch=epoch)] = np.arange(10**5) // 256
        first = batch_of[1:, batch_of[0] == 0]
        meets.append(sum(256 - len(np.unique(batches)) for batches in first) / 8)
    assert abs(meets[0] / meets[1] - 1) < 0.05


def test_golden_orders():
    """A change here changes the order of everybody's training: it needs a new version."""
    windows = of_sizes([5, 3, 7, 5, 10], 2)
    assert epoch_of(windows, seed=7, epoch=3).tolist() == GOLDEN
    assert windows.digest == "windows of 2 534f5154499af860"
    assert windows_of(np.array([1, 0, 1]), 2).digest != of_sizes([1, 2], 2).digest
    lanes = replace(of_sizes([20, 12, 28, 20, 40], 2), batch_size=4)
    assert epoch_of(lanes, seed=7, epoch=3)[:30].tolist() == LANES
    assert lanes.digest == "windows of 2 fbe2e5c61ad1b6bf"


def test_a_window_has_two_blocks_or_more():
    assert [fitting(10, block) for block in (0, 1, 3, 10)] == [10, 10, 3, 2]


def test_far_position_in_huge_epoch_needs_little_memory():
    """10**8 rows in 10**4 shards, as a pack of 15 TB has."""
    order = of_sizes(np.full(10**4, 10**4), 4)
    order.at(0, np.arange(10))
    tracemalloc.start()
    found = order.at(3, np.arange(9 * 10**7, 9 * 10**7 + 8192))[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len({*found.tolist()}) == 8192
    assert len({*(found // 10**4).tolist()}) in (4, 8)
    assert peak < 3 * 2**20


def classes_per_batch(rows, classes, batch=256):
    labels = classes[rows][: len(rows) // batch * batch].reshape(-1, batch)
    return np.mean([len(np.unique(one)) for one in labels[::4]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "in_label_order", "permuted"),
    [(1, 1.2, 92.3), (2, 2.2, 92.4), (16, 14.9, 92.4), (64, 46.8, 92.3)],
)
def test_permuted_packs_mix_classes_like_full_shuffle(blocks, in_label_order, permuted):
    """1000 shards of 1000 rows, 100 classes, batches of 256; a full shuffle gives 92.4."""
    n = 10**6
    rows = epoch_of(of_sizes([1000] * 1000, blocks))
    labels = np.arange(n) // 10**4
    packed = labels[permutation(np.arange(n), n, seed=0, epoch=0, tag="pack")]
    assert classes_per_batch(rows, labels) == pytest.approx(in_label_order, rel=0.12)
    assert classes_per_batch(rows, packed) == pytest.approx(permuted, abs=0.3)
