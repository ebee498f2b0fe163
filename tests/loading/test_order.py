"""The permutation, batches and hosts. All keys are fixed: a test that passes once always passes."""

import tracemalloc
from hashlib import blake2b
from itertools import pairwise
from math import comb, factorial, isqrt

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

from dfgen.errors import ArgumentError
from dfgen.loading.order import draws as order
from dfgen.loading.order.draws import permutation
from dfgen.loading.order.epochs import Plan
from dfgen.loading.pending_batch import batch_weights
from dfgen.loading.workers.chunks import batch_rng, sample_rng

LIMIT = 5  # standard deviations
POWERS = [2**k + d for k in range(10, 19) for d in (-1, 0, 1)]

GOLDEN_10 = [9, 2, 7, 3, 1, 6, 4, 8, 5, 0]
GOLDEN = {  # rows at positions 0, 1, n // 2, n - 1 under seed 7, epoch 3
    10**6: [687935, 617244, 77976, 990523],
    10**9: [570460417, 663786838, 181391626, 946601827],
    2**61: [433558219227843349, 247876607691935404, 1910505910938756296, 604136317880556769],
}
GOLDEN_WINDOW = [124, 212]
GOLDEN_BITS = [8125826852441131439, 1328220770992062058, 1588988374687192562]


def whole_order(n, seed=0, epoch=0, tag="rows"):
    return permutation(np.arange(n), n, seed=seed, epoch=epoch, tag=tag)


def by_the_book(x, n, seed, epoch, tag):
    """dfgen/perm/1 as it is written down, one position at a time in Python's own integers."""
    words = b"".join(
        blake2b(f"dfgen/perm/1|{tag}|{seed}|{epoch}|{j}".encode()).digest() for j in (0, 1)
    )
    keys = [int.from_bytes(words[i : i + 8], "little") for i in range(0, 128, 8)]
    a = isqrt(n - 1) + 1
    b = (n + a - 1) // a

    def mix(z):
        z %= 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    while True:
        left, right = divmod(x, b)
        for r, key in enumerate(keys):
            if r % 2 == 0:
                left = (left + ((mix(right + key) >> 32) * a >> 32)) % a
            else:
                right = (right + ((mix(left + key) >> 32) * b >> 32)) % b
        x = left * b + right
        if x < n:
            return x


def many_orders(n, count, rounds=16):
    """The orders of n rows under `count` seeds, one a line, from the cipher that is shipped."""
    keys = np.stack([order.round_keys.__wrapped__("rows", seed, 0) for seed in range(count)])
    columns = keys.T[:, :, np.newaxis]
    a = isqrt(n - 1) + 1
    a, b = np.uint64(a), np.uint64(-(-n // a))
    start = np.tile(np.arange(n, dtype=np.uint64), (count, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "ROUNDS", rounds)
        found = order.encipher(start, a, b, columns)
        while (found >= n).any():
            found = np.where(found >= n, order.encipher(found, a, b, columns), found)
    return found.astype(np.int64)


class TestPermutation:
    @pytest.mark.parametrize("sizes", [range(600), POWERS, [46_205, 65_537, 262_145, 10**6 + 3]])
    def test_every_row_comes_exactly_once(self, sizes):
        for n in sizes:
            assert np.bincount(whole_order(n, seed=n), minlength=n).tolist() == [1] * n

    def test_golden_vectors(self):
        """A change here changes the order of everybody's training: it needs a new version."""
        assert whole_order(10).tolist() == GOLDEN_10
        for n, rows in GOLDEN.items():
            assert permutation([0, 1, n // 2, n - 1], n, seed=7, epoch=3).tolist() == rows
        found = permutation([0, 1], 1000, seed=2**70, epoch=0, tag="window/5")
        assert found.tolist() == GOLDEN_WINDOW

    @each("n", [2, 3, 50, 1000, 46_205, 10**9, 2**40 + 1, 2**61, 2**62 - 1])
    def test_is_the_algorithm_as_written_down(self, n):
        positions = sorted({0, 1, n // 3, n // 2, n - 2, n - 1})
        found = permutation(positions, n, seed=11, epoch=2, tag="pack")
        assert found.tolist() == [by_the_book(x, n, 11, 2, "pack") for x in positions]

    def test_positions_accept_any_order_shape_and_type(self):
        rows = whole_order(1000)
        asked = np.random.default_rng(0).integers(0, 1000, (7, 5))
        for dtype in (np.int64, np.uint64, np.int32, np.uint16):
            found = permutation(asked.astype(dtype), 1000, seed=0, epoch=0)
            assert found.dtype == np.int64
            assert np.array_equal(found, rows[asked])
        assert permutation(3, 1000, seed=0, epoch=0) == rows[3]
        assert permutation([], 1000, seed=0, epoch=0).tolist() == []

    def test_huge_epoch_opens_far_in_little_memory(self):
        permutation([0], 10**9, seed=0, epoch=0)
        tracemalloc.start()
        permutation(Plan(10**9, 256).positions(10**6), 10**9, seed=0, epoch=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000


def scores(orders):
    """How many standard deviations each statistic of permutations lies from what chance gives."""
    count, n = orders.shape
    steps = np.diff(orders, axis=1)
    inversions = sum((orders[:, :k] > orders[:, [k]]).sum() for k in range(1, n))
    successions = (steps == 1).sum(axis=1)
    succession_variance = (n - 2) / n + (n - 1) / n - ((n - 1) / n) ** 2
    followers = np.bincount((orders[:, :-1] * n + orders[:, 1:]).ravel(), minlength=n * n)
    followers = followers.reshape(n, n)[~np.eye(n, dtype=bool)]
    places = np.bincount((np.arange(n) * n + orders).ravel(), minlength=n * n)
    expected = count / n

    def z(total, mean, variance):
        return (total - count * mean) / np.sqrt(count * variance)

    def chi_square(counts, freedom):
        scale = freedom / (counts.size * (1 - 1 / n))
        value = scale * ((counts - expected) ** 2).sum() / expected
        return (value - freedom) / np.sqrt(2 * freedom)

    return {
        "fixed points": z((orders == np.arange(n)).sum(), 1, 1),
        "successions": z(successions.sum(), (n - 1) / n, succession_variance),
        "variance of successions": z(  # nearly a Poisson variable, so its square varies by 3
            ((successions - (n - 1) / n) ** 2).sum(), succession_variance, 3
        ),
        "ascents": z((steps > 0).sum(), (n - 1) / 2, (n + 1) / 12),
        "inversions": z(inversions, n * (n - 1) / 4, n * (n - 1) * (2 * n + 5) / 72),
        "ordered pairs": chi_square(followers, (n - 1) ** 2),
        "row at each position": chi_square(places, (n - 1) ** 2),
    }


class TestRandomness:
    def test_many_orders_are_those_of_permutation(self):
        for n in (5, 50):
            for seed, rows in enumerate(many_orders(n, 20)):
                assert np.array_equal(rows, whole_order(n, seed))

    def test_statistics_over_many_seeds_match_chance(self):
        """At n = 50, where averages over a million rows would hide the defects."""
        worst = {name: z for name, z in scores(many_orders(50, 20_000)).items() if abs(z) > LIMIT}
        assert worst == {}

    def test_statistics_see_the_defect_of_four_rounds(self):
        found = scores(many_orders(50, 20_000, rounds=4))
        assert abs(found["ascents"]) > 10
        assert abs(found["variance of successions"]) > 10

    @pytest.mark.parametrize("n", [3, 4, 5, 6])
    def test_all_orders_of_few_rows_are_equally_likely(self, n):
        orders = many_orders(n, max(20_000, 100 * factorial(n)))
        _, counts = np.unique(orders @ n ** np.arange(n), return_counts=True)
        expected = len(orders) / factorial(n)
        freedom = factorial(n) - 1
        chi_square = ((counts - expected) ** 2).sum() / expected
        assert len(counts) == factorial(n)
        assert abs(chi_square - freedom) / np.sqrt(2 * freedom) < LIMIT

    def test_neighbours_epochs_and_seeds_are_not_correlated(self):
        n = 10**5
        epochs = [whole_order(n, 0, epoch) for epoch in range(8)]
        seeds = [whole_order(n, seed, 0) for seed in range(8)]
        pairs = [*((rows[:-1], rows[1:]) for rows in epochs), *pairwise(epochs), *pairwise(seeds)]
        assert all(abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(n) < LIMIT for a, b in pairs)

    def test_batches_of_sorted_manifest_mix_classes_by_chance(self):
        n, classes, batch_size = 10**5, 100, 256
        share = n // classes
        labels = whole_order(n) // share
        batches = labels[: n - n % batch_size].reshape(-1, batch_size)
        counts = np.stack([np.bincount(batch, minlength=classes) for batch in batches])
        present = classes * (1 - comb(n - share, batch_size) / comb(n, batch_size))
        assert abs((counts > 0).sum(axis=1).mean() - present) < 0.5  # 92.4 of 100
        variance = batch_size / classes * (1 - 1 / classes) * (n - batch_size) / (n - 1)
        assert counts.var() == pytest.approx(variance, rel=0.05)


class TestSampleRng:
    def test_key_is_128_little_endian_blake2b_bits(self):
        digest = blake2b(b"dfgen/rng/1|5|2|cat-1|3").digest()
        words = np.frombuffer(digest[:16], "<u8")
        bits = sample_rng(5, 2, "cat-1", 3).bit_generator
        assert np.array_equal(bits.state["state"]["key"], words)
        assert bits.random_raw(3).tolist() == GOLDEN_BITS
        assert sample_rng(5, 2, 7).random() == sample_rng(5, 2, "7", 0).random()

    def test_batch_has_its_own_key(self):
        digest = blake2b(b"dfgen/batch-rng/1|5|2|7|3").digest()
        words = np.frombuffer(digest[:16], "<u8")
        state = batch_rng(5, 2, 7, host=3).bit_generator.state["state"]
        assert np.array_equal(state["key"], words)
        assert batch_rng(5, 2, 7).random() == batch_rng(5, 2, 7, host=0).random()


@st.composite
def splits(draw):
    """(n, batch_size, hosts), the batch a multiple of the hosts."""
    hosts = draw(st.integers(1, 9))
    return draw(st.integers(0, 300)), hosts * draw(st.integers(1, 12)), hosts


class TestBatches:
    @given(splits())
    def test_slices_of_the_hosts_make_the_global_batch(self, split):
        n, batch_size, hosts = split
        plans = [Plan(n, batch_size, (r, hosts)) for r in range(hosts)]
        taken = []
        for step in range(len(plans[0])):
            batch = np.concatenate([plan.positions(step) for plan in plans])
            assert np.array_equal(batch, Plan(n, batch_size).positions(step))
            assert (
                sum(
                    batch_weights(plan, step).tolist() == [1] * len(plan.positions(step))
                    for plan in plans
                )
                == hosts
            )
            taken.append(batch)
        assert np.concatenate([*taken, []]).tolist() == list(range(n))

    @given(splits())
    def test_padded_batches_are_full_and_weigh_rows_once(self, split):
        n, batch_size, hosts = split
        real, total = [], 0.0
        plans = [Plan(n, batch_size, (r, hosts), "pad") for r in range(hosts)]
        for step in range(len(plans[0])):
            parts = [(plan.positions(step), batch_weights(plan, step)) for plan in plans]
            assert {len(part) for pair in parts for part in pair} == {batch_size // hosts}
            positions, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
            assert (positions.dtype, weights.dtype) == (np.int64, np.float32)
            assert ((positions >= 0) & (positions < n)).all()
            assert len(set(weights.tolist()) - {0.0}) == 1
            total += weights.sum(dtype=np.float64)
            real.append(positions[weights > 0])
        assert total == pytest.approx(len(plans[0]) * batch_size)
        assert np.concatenate([*real, []]).tolist() == list(range(n))

    def test_padding_repeats_rows_of_a_small_epoch(self):
        plan = Plan(3, 8, tail="pad")
        assert plan.positions(0).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
        assert batch_weights(plan, 0).tolist() == [np.float32(8 / 3)] * 3 + [0] * 5

    def test_weights_are_multiplied_and_lost_rows_shared_out(self):
        plan = Plan(7, 4, tail="pad")
        given = np.float32([1, 2, 0.5, 4])
        share = 8 / 7
        assert batch_weights(plan, 1, given).tolist() == pytest.approx(
            [share, 2 * share, share / 2, 0]
        )
        lost = batch_weights(plan, 1, given, lost=[0, 3])  # of the padding, nothing is lost
        assert lost.tolist() == pytest.approx([0, 3 * share, 3 / 4 * share, 0])
        assert batch_weights(plan, 1, lost=[0, 1, 2]).tolist() == [0] * 4
        assert batch_weights(Plan(6, 4), 1, lost=[1]).tolist() == [2, 0]
        assert given.tolist() == [1, 2, 0.5, 4]
        assert batch_weights(Plan(6, 4), 0).dtype == np.float32

    def test_batches_are_divided_evenly_over_hosts(self):
        with pytest.raises(ArgumentError, match="batch_size=4 cannot be divided over 3 hosts"):
            Plan(10, 4, (0, 3))
