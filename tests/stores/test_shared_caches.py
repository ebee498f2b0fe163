"""Caches that two Sequences, or many settings, share."""

import numpy as np
from public.leftovers import nothing_left as nothing_left
from public.leftovers import passes, sequence
from public.test_cache import X
from public.test_cache import frame as frame


def test_two_sequences_share_one_folder_at_once(frame, tmp_path):
    expected, options = passes(frame, X, 1, shuffle=False)[0][0], {"cache": tmp_path / "cache"}
    with sequence(frame, X, **options) as one, sequence(frame[::-1], X, **options) as other:
        for batches in zip(one, other, strict=True):
            for x, y in batches:
                np.testing.assert_array_equal(x, expected[y])
        assert one.metrics.cache_hits + other.metrics.cache_hits > 0
