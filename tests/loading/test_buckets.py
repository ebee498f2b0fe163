"""Batches of like with like: each row once, the same anywhere, and less padding."""

import math

import keras
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sized import OPTIONS, ROWS, equal, manifest_of, padded, sequence, size_of, with_facts

import dfgen
from dfgen.errors import ArgumentError
from dfgen.loading.order.draws import balance_of
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.row_order import (
    BatchRows,
    Buckets,
    PaddingShare,
    RowOrder,
    like_with_like,
    padding_share,
)
from dfgen.loading.order.shuffle import permutation

SIZES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=90)
SIZE = np.array([size_of(row) for row in range(ROWS)], np.int32)


def order_of(sizes, batch_size, window=3, seed=0, balance=None):
    buckets = Buckets(np.array(sizes, np.int32), batch_size, window)
    return RowOrder(len(sizes), seed, balance, buckets)


class TestOrder:
    @given(SIZES, st.integers(1, 8), st.integers(1, 4), st.integers(0, 2))
    def test_each_row_once_and_each_window_its_own_rows(self, sizes, batch_size, window, epoch):
        n = len(sizes)
        found = order_of(sizes, batch_size, window).at(epoch, np.arange(n))[0]
        plain = permutation(np.arange(n), n, seed=0, epoch=epoch)
        for start in range(0, n, window * batch_size):
            part = slice(start, start + window * batch_size)
            assert sorted(found[part]) == sorted(plain[part])
        assert found[n - n % batch_size :].tolist() == plain[n - n % batch_size :].tolist()

    @given(SIZES, st.integers(1, 4), st.sampled_from([1, 2, 4]), st.booleans(), st.data())
    def test_hosts_take_equal_slices_of_the_same_batches(self, sizes, size, count, drop, data):
        batch_size = size * count
        order, tail = order_of(sizes, batch_size), "drop" if drop else "short"
        whole = Plan(len(sizes), batch_size, (0, 1), tail)
        assume(len(whole))
        step = data.draw(st.integers(0, len(whole) - 1))
        plans = [Plan(len(sizes), batch_size, (index, count), tail) for index in range(count)]
        parts = [BatchRows(order, plan).batch(1, step, plan)[0] for plan in plans]
        expected = order.at(1, whole.positions(step))[0]
        assert np.concatenate(parts).tolist() == expected.tolist()

    @given(SIZES, st.integers(1, 8), st.data())
    def test_any_positions_can_be_asked_for_alone(self, sizes, batch_size, data):
        positions = data.draw(st.lists(st.integers(0, len(sizes) - 1)))
        order = order_of(sizes, batch_size)
        whole = order.at(0, np.arange(len(sizes)))
        assert (order.at(0, np.array(positions, np.int64)) == whole[:, positions]).all()

    @given(SIZES, st.integers(1, 8))
    def test_balanced_rows_are_gathered_with_how_often_they_came(self, sizes, batch_size):
        balance = balance_of(np.arange(len(sizes)) % 3 == 0)
        found = order_of(sizes, batch_size, balance=balance).at(0, np.arange(len(sizes)))
        plain = RowOrder(len(sizes), 0, balance).at(0, np.arange(len(sizes)))
        assert sorted(found.T.tolist()) == sorted(plain.T.tolist())

    def test_the_order_of_two_windows_in_two_epochs_never_changes(self):
        sizes = [(1 + row * 5 % 7, 1 + row * 3 % 4) for row in range(15)]
        order = order_of(sizes, batch_size=2, window=3, seed=5)
        found = [order.at(epoch, np.arange(15))[0].tolist() for epoch in (0, 1)]
        assert found == [
            [12, 0, 1, 4, 6, 5, 8, 11, 14, 10, 9, 13, 2, 7, 3],
            [12, 11, 0, 7, 10, 14, 6, 13, 5, 9, 8, 4, 1, 3, 2],
        ]

    def test_epochs_differ_and_batches_come_in_a_random_order(self):
        sizes = np.stack([np.arange(1, 401)] * 2, axis=1)
        heights = sizes[order_of(sizes, 4, 100).at(0, np.arange(400))[0], 0].reshape(100, 4)
        assert abs(np.corrcoef(heights.mean(axis=1), np.arange(100))[0, 1]) < 0.3
        other = sizes[order_of(sizes, 4, 100).at(1, np.arange(400))[0], 0].reshape(100, 4)
        assert (heights != other).any()

    def test_only_the_windows_asked_for_are_worked_out(self, monkeypatch):
        asked = []

        def spy(positions, n, **options):
            asked.append(np.size(positions))
            return permutation(positions, n, **options)

        monkeypatch.setattr("dfgen.loading.order.row_order.permutation", spy)
        sizes = np.ones((10**6, 2), np.int32)
        order = RowOrder(10**6, 0, None, Buckets(sizes, 32))
        order.at(0, np.arange(500_000, 500_032))
        assert asked == [64 * 32, 64]  # the rows of one window, then its batches


class TestLikeWithLike:
    @given(st.lists(st.sampled_from([(4, 4), (4, 9), (9, 2)]), max_size=90), st.integers(1, 4))
    def test_is_as_written_down(self, sizes, batch_size):
        """Strips of as many batches as there are strips, whatever sorts: ties keep their order."""
        batches = len(sizes) // batch_size
        sizes = sizes[: batches * batch_size]
        strips = math.ceil(math.sqrt(batches))
        rows = batch_size * math.ceil(batches / strips) if strips else 1
        by_height = sorted(range(len(sizes)), key=lambda row: sizes[row][0])
        order = []
        for start in range(0, len(sizes), rows):
            order += sorted(by_height[start : start + rows], key=lambda row: sizes[row][1])
        found = like_with_like(np.array(sizes, np.int32).reshape(-1, 2), batch_size)
        starts = range(0, len(order), batch_size)
        assert found.tolist() == [sorted(order[start : start + batch_size]) for start in starts]

    @given(SIZES, st.integers(1, 8))
    def test_each_once_and_in_their_own_order_within_a_batch(self, sizes, batch_size):
        whole = len(sizes) // batch_size * batch_size
        found = like_with_like(np.array(sizes, np.int32)[:whole].reshape(-1, 2), batch_size)
        assert sorted(found.ravel()) == [*range(whole)]
        assert (np.diff(found, axis=1) > 0).all()

    def test_few_shapes_are_told_apart_wholly(self):
        sizes = np.array([(375, 500), (500, 375)] * 32, np.int32)
        found = like_with_like(sizes, 8)
        assert all(len(np.unique(sizes[batch], axis=0)) == 1 for batch in found)

    def test_sizes_of_all_kinds_leave_less_padding_than_sorting_does(self):
        rng = np.random.default_rng(0)
        sizes = np.exp(rng.normal(6, 0.5, (64 * 32, 2))).astype(np.int32)
        by_sorting = sizes[np.lexsort(sizes.T[::-1])]
        shares = [
            padding_share(found, 32)
            for found in (sizes, by_sorting, sizes[like_with_like(sizes, 32).ravel()])
        ]
        assert shares[0] > 0.8 and shares[1] > 0.6 and shares[2] < 0.45


def test_padding_share_counts_pixels():
    sizes = np.array([(2, 2), (1, 4), (3, 3)], np.int32)
    assert padding_share(sizes, 2) == 1 - (4 + 4 + 9) / (2 * 2 * 4 + 9)
    assert padding_share(np.zeros((2, 2), np.int32), 2) == 1
    assert padding_share(np.ones((3, 2), np.int32), 2) == 0


@pytest.fixture
def manifest(sized_folder):
    return manifest_of(sized_folder)


def rows_of(seq):
    """The rows of each batch, as the pixels tell them."""
    return [(seq[step][0][:, 0, 0, 0] - 100).tolist() for step in range(len(seq))]


def expected(epoch=0):
    return RowOrder(ROWS, 0, None, Buckets(SIZE, 4)).at(epoch, np.arange(ROWS))[0].tolist()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("facts", [True, False], ids=["facts", "headers"])
def test_batches_are_the_same_for_any_workers(manifest, options, facts):
    if facts:
        manifest = with_facts(manifest)
    with sequence(manifest, bucket_by="shape", **options) as seq:
        found = rows_of(seq)
        assert np.concatenate(found).tolist() == expected()
        assert all(equal(seq[step][0], padded(rows)) for step, rows in enumerate(found))


@pytest.mark.parametrize("tail", ["short", "drop"])
def test_what_an_epoch_leaves_out_is_what_it_leaves_out_without_buckets(manifest, tail):
    seqs = [
        sequence(manifest, drop_remainder=tail == "drop", bucket_by=by) for by in ("shape", None)
    ]
    bucketed, plain = ({*np.concatenate(rows_of(seq))} for seq in seqs)
    assert bucketed == plain


def test_less_is_padding_and_it_says_so(manifest):
    seq = sequence(manifest, bucket_by="shape")
    x = [seq[step][0] for step in range(len(seq))]
    share = 1 - SIZE.prod(axis=1).sum() / sum(batch[..., 0].size for batch in x)
    assert seq.padding == pytest.approx((share, sequence(manifest).padding.unbucketed))
    assert seq.padding.share < 0.7 * seq.padding.unbucketed
    shares = tuple(f"{share:.1%}" for share in seq.padding)
    assert f"; {shares[0]} padding, {shares[1]} without bucket_by; " in repr(seq)
    plain = sequence(manifest)
    assert plain.padding == PaddingShare(seq.padding.unbucketed, seq.padding.unbucketed)
    assert sequence(manifest, dfgen.Image("path", size=(4, 4))).padding is None


def test_hosts_share_the_batches_and_their_shape(manifest):
    hosts = [sequence(manifest, bucket_by="shape", shard=(index, 2)) for index in range(2)]
    rows = expected()
    for step in range(ROWS // 4):
        batch = rows[4 * step : 4 * step + 4]
        for host, own in zip(hosts, (batch[:2], batch[2:]), strict=True):
            assert equal(host[step][0], padded(own, largest=batch))


@pytest.mark.backend
def test_a_model_trains_goes_on_in_mid_epoch_and_takes_each_row_once(manifest):
    def model():
        pooled = keras.layers.GlobalAveragePooling2D()
        found = keras.Sequential([keras.Input((None, None, 3)), pooled, keras.layers.Dense(2)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        found.compile(keras.optimizers.SGD(1e-6), loss)
        return found

    first = sequence(manifest, bucket_by="shape")
    model().fit(first, epochs=2, verbose=0)
    interrupted = sequence(manifest, bucket_by="shape")
    for _ in zip(range(3), interrupted, strict=False):
        pass
    seq = sequence(manifest, bucket_by="shape")
    seq.load_state_dict(interrupted.state_dict())
    model().fit(seq, epochs=2, verbose=0)
    assert (seq.receipt.rows, seq.receipt.missing, seq.receipt.repeated) == (ROWS, 0, 0)
    assert seq.receipt == first.receipt


def test_the_state_of_another_bucketing_is_refused(manifest):
    state = sequence(manifest, bucket_by="shape").state_dict()
    assert state["bucket_by"].startswith("shape 64 ")
    with pytest.raises(ArgumentError, match="the state was saved with bucket_by='shape 64 "):
        sequence(manifest).load_state_dict(state)
    with pytest.raises(ArgumentError, match="the state was saved with bucket_by=None, this"):
        sequence(manifest, bucket_by="shape").load_state_dict(sequence(manifest).state_dict())
    with pytest.raises(ArgumentError, match="the state was saved with bucket_by='shape 64 "):
        other = with_facts(manifest, height=5)
        sequence(other, bucket_by="shape").load_state_dict(state)


def test_what_cannot_be_gathered_is_refused(manifest):
    with pytest.raises(ArgumentError) as caught:
        sequence(manifest, bucket_by="shape", shuffle=False)
    assert str(caught.value) == (
        "bucket_by takes rows by chance, which shuffle=False does not allow: leave out one of them"
    )
    with pytest.raises(ArgumentError) as caught:
        dfgen.Sequence(manifest, y="label", bucket_by="shape")
    assert str(caught.value) == (
        'bucket_by="shape" gathers images that keep their own sizes, but x has none: give '
        'image_size=None, or dfgen.Image("path", size=None)'
    )
    with pytest.raises(ArgumentError, match=r"one of \(None, 'shape', 'length'\), got 'size'"):
        sequence(manifest, bucket_by="size")
