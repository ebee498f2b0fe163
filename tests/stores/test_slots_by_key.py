"""Which slot a key of a cache has, of few keys and of so many that they go to sorted arrays."""

import numpy as np

from dfgen.samples.stores.cache.slot_pages import NOWHERE, SlotsByKey


def test_the_latest_slot_of_a_key_counts_however_many_keys_there_are():
    keys = np.random.default_rng(0).integers(0, 2**64, (150_000, 2), np.uint64)
    keys[[9, 10, 999, 1000], 1] = 7
    keys[[9, 10, 999, 1000], 0] = np.array([5, 6, 7, 8], np.uint64) + np.uint64(2**63)  # no floats
    found, expected = SlotsByKey(), np.full(len(keys), NOWHERE)
    for start, stop in ((0, 100), (50, 90_000), (80_000, 80_010), (70_000, 149_000)):
        slots = np.arange(start, stop) + 7 * stop
        found.add(keys[start:stop], slots)
        expected[start:stop] = slots
        assert found.slots(keys).tolist() == expected.tolist()
    for row, slot in ((3, 5), (149_500, 6), (4, NOWHERE)):
        found.put((int(keys[row, 0]), int(keys[row, 1])), slot)
        expected[row] = slot
    assert found.slots(keys).tolist() == expected.tolist()
    assert found.slots(np.full((1, 2), 2**64 - 1, np.uint64)).tolist() == [NOWHERE]
