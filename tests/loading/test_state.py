"""Receipts, and the state a training goes on from."""

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfgen.errors import ArgumentError
from dfgen.loading.order.draws import permutation
from dfgen.loading.receipts import Identity, Place, ids_digest, receipt

N, BATCH_SIZE = 50, 12
IDS = [f"row-{row}" for row in range(N)]


def ids_at(positions, epoch=0):
    return [IDS[row] for row in permutation(positions, N, seed=0, epoch=epoch)]


EPOCH = receipt(0, range(N), ids_at(range(N)))


class TestReceipt:
    def test_is_the_sum_as_written_down(self):
        digests = [blake2b(text, digest_size=16).digest() for text in (b"4|0|a", b"4|9|b")]
        expected = sum(int.from_bytes(digest, "little") for digest in digests) % 2**128
        assert receipt(4, [0, 9], ["a", "b"]) == expected
        assert receipt(0, [0, 1], ["a", "b"]) == 0x7879BDC3D132C9B4FBF0D223A72D24DA

    def test_lost_doubled_or_swapped_rows_change_the_receipt(self):
        positions = list(range(N))
        ids = ids_at(positions)
        swapped = [ids[1], ids[0], *ids[2:]]
        found = {
            receipt(0, positions[1:], ids[1:]), receipt(0, [*positions, 7], [*ids, ids[7]]),
            receipt(0, [*positions[:-1], 7], [*ids[:-1], ids[7]]), receipt(0, positions, swapped),
            receipt(1, positions, ids),
        }  # fmt: skip
        assert len(found) == 5
        assert EPOCH not in found

    def test_numbers_count_as_their_text(self):
        assert receipt(0, np.array([1, 2]), np.array([7, 8])) == receipt(0, [1, 2], ["7", "8"])


class TestIdsDigest:
    def test_golden_digest(self):
        assert ids_digest(["a", "bc", "ä"]) == "c4e2eb8656b8c1b6b3dd99d0f1612011"

    @given(st.lists(st.lists(st.text("ab", max_size=3), max_size=4), min_size=2, max_size=2))
    def test_differs_where_the_ids_differ(self, pair):
        one, other = pair
        assert (ids_digest(one) == ids_digest(other)) == (one == other)

    def test_is_that_of_blocks_as_written_down(self):
        ids = [str(row) for row in range(65_537)]
        digest = blake2b(b"dfgen/ids/1", digest_size=16)
        for block in (ids[:65_536], ids[65_536:]):
            digest.update(b"".join(n.to_bytes(8, "little") for n in (len(block), *map(len, block))))
            digest.update("".join(block).encode())
        assert ids_digest(ids) == digest.hexdigest()

    def test_numbers_count_as_their_text(self):
        assert ids_digest(np.arange(3)) == ids_digest(["0", "1", "2"]) == ids_digest(iter(range(3)))

    def test_arrays_have_that_of_their_values_across_blocks(self):
        text = [f"ä{row}" for row in range(140_000)]
        assert ids_digest(pa.array(text)[7:]) == ids_digest(text[7:])
        numbers = np.arange(140_000) * -(2**40)
        assert ids_digest(numbers) == ids_digest(pa.array(numbers)) == ids_digest(numbers.tolist())


@pytest.mark.parametrize(
    ("name", "least"),
    [("batch_size", 1), ("processes", 1), ("epoch", 0), ("step", 0), ("skipped", 0)],
)
def test_numbers_of_a_state_have_a_least_value(name, least):
    training = Identity("shuffled", 0, rows=6, ids="0", batch_size=2)
    state = training.state(Place(epoch=1, step=2))
    with pytest.raises(ArgumentError, match=f"{name} of the state"):
        training.place({**state, name: least - 1})
