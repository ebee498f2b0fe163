"""Draws by weights: how often each row comes, at any place, and as weights change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfgen.errors import ArgumentError
from dfgen.loading.order.draws import proportions_of
from dfgen.loading.order.row_order import RowOrder
from dfgen.loading.order.shuffle import permutation

WEIGHTS = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.sampled_from([1.0, 2.0])),
    min_size=1,
    max_size=60,
).filter(any)


def drawn(weights, places, epoch=0, seed=0):
    order = RowOrder(len(weights), seed, proportions_of(weights, places))
    return order.at(epoch, np.arange(places))


@settings(max_examples=40)
@given(WEIGHTS, st.integers(1, 200), st.integers(0, 3), st.integers(0, 3))
def test_a_row_comes_as_often_as_its_share_give_or_take_less_than_two(weights, places, seed, epoch):
    rows, _ = drawn(weights, places, epoch, seed)
    counts = np.bincount(rows, minlength=len(weights))
    shares = places * np.array(weights) / np.sum(weights)
    assert counts.sum() == places
    assert (np.abs(counts - shares) < 2).all()
    assert not counts[np.array(weights) == 0].any()


@settings(max_examples=40)
@given(WEIGHTS, st.integers(1, 200))
def test_repeats_are_numbered_from_0_on(weights, places):
    rows, earlier = drawn(weights, places)
    for row in np.unique(rows):
        assert sorted(earlier[rows == row]) == [*range((rows == row).sum())]


@settings(max_examples=40)
@given(WEIGHTS, st.integers(1, 200), st.data())
def test_any_positions_can_be_asked_for_alone(weights, places, data):
    positions = data.draw(st.lists(st.integers(0, places - 1)))
    order = RowOrder(len(weights), 0, proportions_of(weights, places))
    found = order.at(0, np.array(positions, np.int64))
    assert (found == drawn(weights, places)[:, positions]).all()


@pytest.mark.parametrize("rows", [1, 3, 7, 1000, 99_991])
def test_equal_weights_give_each_row_once(rows):
    found, earlier = drawn(np.full(rows, 0.1), rows)
    assert sorted(found) == [*range(rows)]
    assert not earlier.any()


def test_in_many_epochs_rows_come_in_proportion():
    weights = np.array([0.5, 1, 1.5, 2, 7, 0, 0.25])
    epochs = 400
    counts = sum(np.bincount(drawn(weights, 5, epoch)[0], minlength=7) for epoch in range(epochs))
    shares = 5 * epochs * weights / weights.sum()
    assert (np.abs(counts - shares) <= 5 * np.sqrt(epochs / 2)).all()  # a variance of 1/2 at most


def test_rows_that_take_turns_are_drawn_alike_from_a_part_of_them():
    alternating = np.arange(2000) % 2
    for epoch in range(5):
        rows, _ = drawn(np.ones(2000), 1000, epoch)
        assert 400 < alternating[rows].sum() < 600


def test_only_what_weights_are_to_each_other_counts():
    small, large = np.array([1, 2, 3]) * 1e-300, np.array([1, 2, 3]) * 1e300
    assert (drawn(small, 50) == drawn(large, 50)).all()


def test_a_place_takes_the_row_at_the_point_written_down():
    weights, places = 9 * [3.0, 1.0, 2.0, 0.7, 1.9, 5.0, 0.3], 41  # so that the points decide
    found = drawn(weights, places, epoch=7, seed=5)[0].tolist()
    expected = []
    for place in permutation(range(places), places, seed=5, epoch=7).tolist():
        point = permutation(place, 2**62 - 1, seed=5, epoch=7, tag="draw") / 2**62
        ends = np.cumsum(weights) * places / sum(weights)
        expected.append(int(np.searchsorted(ends, place + point, "right")))
    assert found == expected


def test_draws_of_version_1_never_change():
    rows, earlier = drawn([1.0, 0.0, 4.0, 0.5], 11, epoch=1, seed=2)
    assert rows.tolist() == [2, 2, 2, 2, 2, 3, 0, 2, 2, 2, 0]
    assert earlier.tolist() == [3, 5, 2, 4, 1, 0, 0, 7, 0, 6, 1]
    found = proportions_of([1, 0, 4], 11)
    assert found.digest == proportions_of([1.0, 0.0, 4.0], 5).digest == "6cfb22689aa91e79"
    assert (found.weights.dtype, found.weights.tolist()) == (np.float64, [1, 0, 4])


def test_counts_are_of_rows_and_not_of_places():
    order = RowOrder(3, 0, proportions_of([1, 0, 3], 8))
    counts = order.counts(0, 8)
    assert (counts.tolist(), counts.dtype) == ([2, 0, 6], np.int64)


class TestChange:
    FIRST, SECOND, THIRD = (proportions_of(row, 4) for row in np.eye(3))

    def rows(self, draws, epoch):
        return set(RowOrder(3, 0, draws).at(epoch, np.arange(4))[0])

    def test_an_epoch_keeps_its_weights_and_later_ones_have_others(self):
        draws = self.FIRST.followed_by(self.SECOND, 2)
        assert [self.rows(draws, epoch) for epoch in range(4)] == [{0}, {0}, {1}, {1}]
        digests = [RowOrder(3, 0, draws).drawn_by(epoch) for epoch in range(4)]
        assert digests == [self.FIRST.digest] * 2 + [self.SECOND.digest] * 2
        assert RowOrder(3, 0).drawn_by(0) == ""

    def test_weights_that_were_never_used_are_replaced(self):
        draws = self.FIRST.followed_by(self.SECOND, 2).followed_by(self.THIRD, 2)
        assert [self.rows(draws, epoch) for epoch in (1, 2)] == [{0}, {2}]

    def test_all_but_the_last_two_are_forgotten(self):
        draws = self.FIRST.followed_by(self.SECOND, 2).followed_by(self.THIRD, 3)
        assert [self.rows(draws, epoch) for epoch in (2, 3)] == [{1}, {2}]
        with pytest.raises(ArgumentError) as caught:
            self.rows(draws, 1)
        assert str(caught.value) == (
            "epoch 1 is over, and the weights that it drew by were replaced: known are those since "
            "epoch 2"
        )

    def test_before_training_they_hold_for_every_epoch(self):
        draws = self.FIRST.followed_by(self.SECOND, 0)
        assert draws.before is None
        assert self.rows(draws, 0) == {1}
