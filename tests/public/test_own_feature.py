"""A feature, a transform and a batch transform of one's own: what they get and must return."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError, DecodeError
from public.first_batch import equal, x_of

WAYS = [{}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True}]
every_way = pytest.mark.parametrize("how", WAYS, ids=["caller", "threads", "process"])


@dataclass(frozen=True)
class Signal(dfgen.Feature):
    """The first `length` numbers of a file of float32, or a random stretch of them."""

    column: str = "path"
    length: int = 4
    random: bool = False
    kind: ClassVar[str] = "signal"
    of_files: ClassVar[bool] = True

    @property
    def spec(self):
        return dfgen.Spec((self.length,), np.dtype("float32"))

    @property
    def is_random(self):
        return self.random

    def draw(self, rng):
        return rng.random()

    def read(self, value, out, reading, *others):
        drawn = others[-1] if others else getattr(reading, "drawn", None)
        signal = np.frombuffer(getattr(reading, "store", reading).read(value), "<f4")
        if len(signal) < self.length:
            raise DecodeError(f"the signal has {len(signal)} numbers, expected {self.length}")
        first = int((drawn or 0) * (len(signal) - self.length + 1))
        out[...] = signal[first : first + self.length]


@pytest.fixture
def signals(tmp_path):
    """Eight files of 10 numbers, those of row i from 100 * i on; the last is cut short."""
    for row in range(8):
        numbers = 100 * row + np.arange(10 if row < 7 else 3)
        (tmp_path / f"{row}.bin").write_bytes(numbers.astype("<f4").tobytes())
    paths = [f"{tmp_path}/{row}.bin" for row in range(8)]
    return pd.DataFrame({"id": [f"s{row}" for row in range(8)], "path": paths, "y": range(8)})


@every_way
def test_own_feature_is_read_by_every_worker_kind(signals, how):
    expected = 100 * np.arange(7)[:, None] + np.arange(4)
    equal(x_of(signals[:7], Signal(), **how), expected.astype(np.float32))
    drawn = x_of(signals[:7], Signal(random=True), **how)
    equal(drawn, x_of(signals[:7], Signal(random=True)))
    assert {*np.diff(drawn).ravel()} == {1} and len({*(drawn[:, 0] % 100)}) > 1
    with pytest.raises(DecodeError, match=r"s7.*numbers"):
        x_of(signals, Signal(), **how)


def test_bad_row_of_own_feature_is_skipped(signals):
    with dfgen.Sequence(signals, Signal(), "y", on_error="skip", batch_size=8, workers=0) as seq:
        x, y, weights = map(np.asarray, seq[0])
        assert seq.problems["id"].tolist() == ["s7"]
    assert not x[weights == 0].any() and sorted(y[weights > 0]) == [*range(7)]
    np.testing.assert_array_equal(x[weights > 0][:, 0], 100 * y[weights > 0])


def test_an_own_feature_serves_paths_and_bytes(signals):
    with dfgen.Sequence(signals[:7], Signal(), "y", shuffle=False) as seq:
        x, preprocessing = np.asarray(seq[0][0]), seq.preprocessing()
    with open(signals["path"][2], "rb") as file:
        equal(preprocessing([signals["path"][1], file.read()]), x[1:3])


def brighter(sample, rng):
    """Add up to 99 to red, in place, and tell the target the draw."""
    drawn = int(rng.integers(100))
    sample["image"][..., 0] += np.uint8(drawn)
    return {**sample, "number": np.float32(drawn)}


@every_way
def test_transform_draws_the_same_for_every_worker_kind(frame, how):
    df = frame(60).assign(y=0.0)
    epochs = []
    for options in ({}, how):
        given = {"image_size": (4, 4), "transform": brighter, "batch_size": 25, **options}
        with dfgen.Sequence(df, "path", "y", **given) as seq:
            epochs.append([[np.asarray(a) for a in batch] for _ in range(2) for batch in seq])
    for (x, y), expected in zip(*epochs[::-1], strict=True):
        equal([x, y], expected)
    x, y = (np.concatenate(parts) for parts in zip(*epochs[0], strict=True))
    rows = x[:, 0, 0, 0] - y
    assert sorted(rows[:60]) == sorted(rows[60:]) == [*range(60)]
    assert len({*zip(rows, y, strict=True)}) > 110  # another draw in each epoch


@pytest.mark.parametrize("wrong", [3, lambda: 0, lambda sample: sample])
def test_a_transform_of_another_signature_is_an_error(frame, wrong):
    with pytest.raises(ArgumentError, match="transform"):
        dfgen.Sequence(frame(3), "path", "label", transform=wrong)
