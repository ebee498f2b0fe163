"""Caches that two Sequences, or many settings, share."""

import numpy as np
from public.leftovers import assert_same, passes, sequence
from public.leftovers import nothing_left as nothing_left
from public.test_cache import X
from public.test_cache import frame as frame

import dfgen


def test_two_sequences_share_one_folder_at_once(frame, tmp_path):
    expected, options = passes(frame, X, 1, shuffle=False)[0][0], {"cache": tmp_path / "cache"}
    with sequence(frame, X, **options) as one, sequence(frame[::-1], X, **options) as other:
        for batches in zip(one, other, strict=True):
            for x, y in batches:
                np.testing.assert_array_equal(x, expected[y])
        assert one.metrics.cache_hits + other.metrics.cache_hits > 0


def rolled(sample, rng):
    return {**sample, "image": np.roll(sample["image"], rng.integers(5), axis=1)}


SETTINGS = [
    *({}, {"size": (8, 6)}, {"color_mode": "grayscale"}, {"color_mode": "rgba"}),
    *({"resize": "crop"}, {"resize": "pad"}, {"interpolation": "nearest"}, {"antialias": False}),
    *({"scale": "-1..1"}, {"dtype": "uint16"}, {"flip": "vertical"}),
    {"size": (5, 4), "load_size": (12, 11), "crop": "random"},
]


def test_settings_and_transforms_in_one_folder_are_not_mixed(frame, tmp_path):
    for transform in (None, rolled):
        for settings in SETTINGS:
            image = dfgen.Image("path", **{"size": (6, 8), **settings})
            options = {"transform": transform, "workers": 0, "seed": 3}
            found = passes(frame, image, cache=tmp_path / "cache", **options)
            assert_same(found, passes(frame, image, **options))
