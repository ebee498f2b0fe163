"""Sounds: random cuts, facts, and files that do not fit."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
from public.first_batch import equal, x_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError

RATE = 8_000


@pytest.fixture
def sounds(tmp_path):
    """Return a frame of sounds of 60, 120, 180 and 240 frames that count from 0."""
    paths = [f"{tmp_path}/{row}.wav" for row in range(4)]
    for row, path in enumerate(paths):
        wave = np.arange(60 * (row + 1)) / 1024
        soundfile.write(path, np.stack([wave, wave], 1), RATE, subtype="PCM_16")
    return pd.DataFrame({"id": [*"abcd"], "path": paths})


def test_random_cuts_lie_anywhere_in_a_longer_sound(sounds):
    audio = dfgen.Audio("path", RATE, 100 / RATE, start="random")
    firsts = {row: set() for row in range(4)}
    for seed in range(12):
        for row, wave in enumerate(x_of(sounds, audio, seed=seed)[..., 0] * 1024):
            firsts[row].add(round(float(wave[0])))
            np.testing.assert_allclose(np.diff(wave[: min(100, 60 * row + 60)]), 1, atol=0.1)
    assert firsts[0] == {0} and len(firsts[3]) > 6 and max(firsts[3]) <= 140
    equal(x_of(sounds, audio, seed=1, workers=2), x_of(sounds, audio, seed=1))


def test_a_padding_mask_tells_sounds_from_zeros(sounds):
    found = x_of(sounds, dfgen.Audio("path", RATE, None, padding_mask=True))
    assert found["audio"].shape == (4, 240, 1)
    expected = np.arange(240) < 60 * np.arange(1, 5)[:, None]
    equal(found["padding_mask"], expected)


def test_wrong_facts_are_noticed(sounds):
    df = sounds.assign(frames=[60, 120, 170, 240])
    with pytest.raises(DecodeError, match=r"id='c'.*180.*170"):
        x_of(df, dfgen.Audio("path", RATE, None))


def test_other_sample_rates_and_files_are_bad_rows(sounds, tmp_path):
    with pytest.raises(DecodeError, match=r"id='a'.*nothing is resampled"):
        x_of(sounds, dfgen.Audio("path", 16_000, 0.1))
    with pytest.raises(DecodeError, match="channels"):
        x_of(sounds, dfgen.Audio("path", RATE, 0.1, channels=3))
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(DecodeError, match="not a sound"):
        x_of(sounds.assign(path=f"{tmp_path}/a.npy"), dfgen.Audio("path", RATE, 0.1))


def test_columns_of_bytes_are_sounds_too(sounds):
    df = sounds.assign(path=[Path(path).read_bytes() for path in sounds["path"]])
    for seconds in (0.01, None):
        audio = dfgen.Audio("path", RATE, seconds)
        equal(x_of(df, audio), x_of(sounds, audio))


@pytest.mark.parametrize(
    "options",
    [{"seconds": 0}, {"seconds": "1"}, {"sample_rate": 0}, {"channels": 0}, {"start": "end"},
     {"padding_mask": True}, {"seconds": None, "missing": "ignore"}, {"seconds": -1}],
)  # fmt: skip
def test_arguments_that_cannot_be_are_refused(options):
    with pytest.raises(ArgumentError, match=[*options][-1]):
        dfgen.Audio(**{"column": "path", "sample_rate": RATE, "seconds": 1, **options})
