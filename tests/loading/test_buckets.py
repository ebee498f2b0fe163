"""Batches of similar sizes."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dfgen.loading.order.epochs import like_with_like

SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=90)


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
    def test_rows_come_once_in_order_within_a_batch(self, sizes, batch_size):
        whole = len(sizes) // batch_size * batch_size
        found = like_with_like(np.array(sizes, np.int32)[:whole].reshape(-1, 2), batch_size)
        assert sorted(found.ravel()) == [*range(whole)]
        assert (np.diff(found, axis=1) > 0).all()

    def test_few_shapes_are_told_apart_wholly(self):
        sizes = np.array([(375, 500), (500, 375)] * 32, np.int32)
        found = like_with_like(sizes, 8)
        assert all(len(np.unique(sizes[batch], axis=0)) == 1 for batch in found)
