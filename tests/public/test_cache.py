"""cache=: pixels kept between epochs, runs and Sequences equal those without it."""

import os
import warnings
from pathlib import Path

import cv2
import numpy as np
import pytest

import dfgen
from dfgen.errors import ArgumentError
from public.leftovers import assert_same, of_pass, passes, pictures, sequence, written
from public.leftovers import nothing_left as nothing_left

ROWS, SLOT = 17, 6 * 8 * 3
X = dfgen.Image("path", size=(6, 8))


@pytest.fixture
def frame(tmp_path):
    sizes = [(9 + row % 3, 7 + row % 4) for row in range(ROWS)]
    return written(tmp_path / "imgs", [pictures(1, s, n)[1][0] for n, s in enumerate(sizes)])


def cached(frame, cache, x=X, **options):
    """Compare three epochs with those without a cache; return hits, misses and bytes."""
    with sequence(frame, x, cache=cache, **options) as seq:
        found, metrics = [of_pass(seq) for _ in range(3)], seq.metrics
    assert_same(found, passes(frame, x, 3))
    return metrics.cache_hits, metrics.cache_misses, metrics.cache_bytes


@pytest.mark.parametrize("processes", [False, True])
def test_a_later_run_decodes_nothing(frame, tmp_path, processes):
    cached(frame, tmp_path / "cache", use_multiprocessing=processes)
    assert cached(frame, tmp_path / "cache", workers=0) == (3 * ROWS, 0, ROWS * SLOT)
    later = cached(frame, tmp_path / "cache", use_multiprocessing=processes)
    assert later[0] >= 3 * ROWS and later[1] == 0


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_a_full_cache_keeps_what_it_has(frame, tmp_path, place):
    cache = tmp_path / "cache" if place == "folder" else "memory"
    hits, misses, size = cached(frame, cache, workers=0, limits=dfgen.Limits(cache=8 * SLOT - 1))
    assert 0 < size < 8 * SLOT and hits == 2 * size // SLOT and hits + misses == 3 * ROWS
    cache = tmp_path / "other" if place == "folder" else "memory"
    assert cached(frame, cache, workers=0) == (2 * ROWS, ROWS, ROWS * SLOT)


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_changed_file_is_decoded_again(tmp_path, change):
    pixels = pictures(3)[0]
    contents = [cv2.imencode(".bmp", each[..., ::-1])[1].tobytes() for each in pixels]
    frame = written(tmp_path / "imgs", contents[:2], ".bmp")
    passes(frame, cache=tmp_path / "cache")
    path, time = Path(frame.path[1]), os.stat(frame.path[1]).st_mtime_ns
    path.write_bytes(contents[2] + b"more" * (change == "size"))
    os.utime(path, ns=(time + 5 * 10**9 * (change == "time"),) * 2)
    for _ in range(2):
        [(found, _)] = passes(frame, epochs=1, cache=tmp_path / "cache", shuffle=False)
        np.testing.assert_array_equal(found, pixels[[0, 2]])


DAMAGE = {
    "flipped": lambda data: bytes(byte ^ 0x55 for byte in data),
    "one byte": lambda data: data[: len(data) // 3] + b"\x7f" + data[len(data) // 3 + 1 :],
    "zeroed": lambda data: bytes(len(data)),
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "swapped": lambda data: data[4 * SLOT : 8 * SLOT] + data[: 4 * SLOT] + data[8 * SLOT :],
    "longer": lambda data: data + b"more",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_never_gives_wrong_pixels(frame, tmp_path, damage):
    cached(frame, tmp_path / "cache")
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
        with warnings.catch_warnings(action="ignore"):  # a cache that cannot be used warns
            cached(frame, tmp_path / "cache")
    assert files


@pytest.mark.parametrize("cache", [5, "", "~/cache", "s3://bucket/cache"])
def test_non_local_cache_folder_is_rejected(frame, cache):
    with pytest.raises(ArgumentError, match=r"cache.*must be a folder"):
        sequence(frame, X, cache=cache)


def rolled(sample, rng):
    return {**sample, "image": np.roll(sample["image"], rng.integers(5), axis=1)}


SETTINGS = [
    *({}, {"size": (8, 6)}, {"color_mode": "grayscale"}, {"color_mode": "rgba"}),
    *({"resize": "crop"}, {"resize": "pad"}, {"interpolation": "nearest"}, {"antialias": False}),
    *({"scale": "-1..1"}, {"dtype": "uint16"}, {"flip": "vertical"}),
    {"size": (5, 4), "load_size": (12, 11), "crop": "random"},
]


def test_cache_folder_separates_settings_and_transforms(frame, tmp_path):
    for transform in (None, rolled):
        for settings in SETTINGS:
            image = dfgen.Image("path", **{"size": (6, 8), **settings})
            options = {"transform": transform, "workers": 0, "seed": 3}
            found = passes(frame, image, cache=tmp_path / "cache", **options)
            assert_same(found, passes(frame, image, **options))
