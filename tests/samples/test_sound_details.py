"""Sounds and arrays that are random, broken or of another shape."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from public.first_batch import x_of
from public.test_features import RATE as RATE
from public.test_features import df as df
from public.test_features import sounds as sounds

import dfgen
from dfgen.errors import DecodeError

pytestmark = pytest.mark.filterwarnings("ignore:.* is not categorical")


def test_random_starts_cover_the_sound(sounds):
    frame = pd.concat([sounds[0][3:]] * 200).assign(id=range(200))
    found = x_of(frame, dfgen.Audio("path", RATE, 398 / RATE, 2, start="random"))
    starts = np.rint(found[:, 0, 0] * 512).astype(int)
    assert {*starts.tolist()} == {0, 1, 2}
    np.testing.assert_allclose(found[7], sounds[1][3][starts[7] :][:398], atol=1e-6)


@pytest.mark.parametrize("damage", ["half", "rate", "image"])
def test_broken_sounds_name_their_row(sounds, files, damage):
    frame, path = sounds[0], Path(sounds[0]["path"][3])
    if damage == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    frame.loc[3, "path"] = files[0] if damage == "image" else str(path)
    with pytest.raises(DecodeError, match="sample_rate" if damage == "rate" else "'d'"):
        x_of(frame, dfgen.Audio("path", RATE + (damage == "rate"), 0.1))


@pytest.mark.parametrize("dtype", ["f8", "O", "c16", "U1"])
def test_arrays_of_another_shape_or_kind_are_rejected(df, tmp_path, dtype):
    array = np.zeros((2, 4 if dtype == "f8" else 3), dtype)
    np.save(tmp_path / "odd.npy", array, allow_pickle=True)
    df.loc[2, "array"] = f"{tmp_path}/odd.npy"
    with pytest.raises(DecodeError, match="r2"):
        x_of(df, dfgen.Array("array", (2, 3)))
