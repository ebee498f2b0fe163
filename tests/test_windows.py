"""The order of packed rows."""

import json
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfgen.errors import ArgumentError
from dfgen.loading.order.permutation import batch_positions, permutation
from dfgen.loading.windows import window_order

shard_sizes = st.lists(st.integers(0, 30), max_size=12)


def located(order):
    shards, rows = order.locate(np.arange(order.starts[-1]))
    return list(zip(shards.tolist(), rows.tolist(), strict=True))


@given(shard_sizes, st.integers(1, 15), st.integers(0, 5))
def test_every_row_of_every_shard_comes_exactly_once(sizes, window, epoch):
    found = located(window_order(sizes, window, seed=0, epoch=epoch))
    assert sorted(found) == [(s, row) for s, count in enumerate(sizes) for row in range(count)]


@given(shard_sizes, st.integers(1, 15))
def test_a_window_holds_the_rows_of_so_many_shards(sizes, window):
    order = window_order(sizes, window, seed=0, epoch=0)
    found = [shard for shard, _ in located(order)]
    for first in range(0, len(order.shards), window):
        shards = order.shards[first : first + window].tolist()
        start = order.starts[first]
        assert set(found[start : start + sum(sizes[shard] for shard in shards)]) == set(shards)


def test_positions_can_be_asked_for_in_any_order_and_shape():
    order = window_order([5, 0, 8, 3, 1, 9], 2, seed=3, epoch=1)
    found = np.array(located(order))
    asked = np.random.default_rng(0).integers(0, 26, (4, 6))
    shards, rows = order.locate(asked)
    assert np.array_equal(np.stack([shards, rows], axis=-1), found[asked])


def test_is_made_of_the_permutations_written_down():
    """Shards by the tag "shard", rows by "window/{w}"."""
    order = window_order([10] * 6, 2, seed=4, epoch=2)
    shards = permutation(range(6), 6, seed=4, epoch=2, tag="shard")
    assert order.shards.tolist() == shards.tolist()
    for w in range(3):
        places = permutation(range(20), 20, seed=4, epoch=2, tag=f"window/{w}")
        found_shards, rows = order.locate(range(20 * w, 20 * w + 20))
        assert found_shards.tolist() == shards[2 * w + places // 10].tolist()
        assert rows.tolist() == (places % 10).tolist()


def test_golden_digest():
    """A change here changes the order of everybody's training: it needs a new version."""
    found = json.dumps(located(window_order([7, 0, 100, 31, 55], 2, seed=1, epoch=1)))
    assert blake2b(found.encode(), digest_size=8).hexdigest() == "91ec1bfdcfa51d39"


def test_seed_and_epoch_change_shards_and_rows():
    orders = [window_order([50] * 50, 2, seed=s, epoch=e) for s in range(3) for e in range(3)]
    assert len({order.shards.tobytes() for order in orders}) == 9
    assert len({order.locate(range(100))[1].tobytes() for order in orders}) == 9


def test_no_rows():
    for sizes in ([], [0, 0]):
        shards, rows = window_order(sizes, 4, seed=0, epoch=0).locate([])
        assert (shards.tolist(), rows.tolist()) == ([], [])


@pytest.mark.parametrize(
    ("window", "in_label_order", "permuted"), [(1, 1.2, 92.4), (16, 14.9, 92.4), (64, 46.8, 92.4)]
)
def test_rows_permuted_when_packed_mix_like_a_full_shuffle(window, in_label_order, permuted):
    """Classes in a batch of 256: 1000 shards of 1000 rows, 100 classes sorted by label."""
    n = 10**6
    order = window_order([1000] * 1000, window, seed=0, epoch=0)
    steps = np.random.default_rng(0).choice(n // 256, 200, replace=False)
    classes = {"label": [], "permuted": []}
    for step in steps:
        shards, rows = order.locate(batch_positions(int(step), n, 256))
        packed = shards * 1000 + rows
        mixed = permutation(packed, n, seed=0, epoch=0, tag="pack")
        classes["label"].append(len(np.unique(packed // 10_000)))
        classes["permuted"].append(len(np.unique(mixed // 10_000)))
    assert np.mean(classes["label"]) == pytest.approx(in_label_order, rel=0.05)
    assert np.mean(classes["permuted"]) == pytest.approx(permuted, abs=0.6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"window": 0}, "window=0 is not a whole number of 1 or more"),
        ({"seed": -1}, "seed=-1 is not a whole number of 0 or more"),
        ({"epoch": 0.5}, "epoch=0.5 is not a whole number of 0 or more"),
        (
            {"shard_rows": [3, -1]},
            "shard_rows=[3, -1]: expected a list of whole numbers, one for each shard.",
        ),
        (
            {"shard_rows": [1.5]},
            "shard_rows=[1.5]: expected a list of whole numbers, one for each shard.",
        ),
        (
            {"shard_rows": 7},
            "shard_rows=7: expected a list of whole numbers, one for each shard.",
        ),
    ],
)
def test_refuses(arguments, text):
    with pytest.raises(ArgumentError) as refusal:
        window_order(**{"shard_rows": [3], "window": 1, "seed": 0, "epoch": 0} | arguments)
    assert str(refusal.value) == text


def test_refuses_positions_outside_the_rows():
    with pytest.raises(ArgumentError) as refusal:
        window_order([3, 4], 1, seed=0, epoch=0).locate([6, 7])
    assert str(refusal.value) == "positions hold 7; expected integers from 0 to n - 1, and n=7."
