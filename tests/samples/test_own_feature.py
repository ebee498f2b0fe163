"""A kind of feature of a user's own, by the protocol alone: signals of .bin files, cut at random.

It goes wherever dfgen's own go. docs/how-to/own-file-formats.md tells of it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import DecodeError
from dfgen.samples.features.base import Feature
from dfgen.spec import Spec


@dataclass(frozen=True, repr=False)
class Signal(Feature):
    """`length` numbers of a file of float32, from its middle or from anywhere."""

    column: str = "path"
    length: int = 4
    start: str = "middle"
    kind: ClassVar[str] = "signal"
    of_files: ClassVar[bool] = True

    @property
    def spec(self):
        return Spec((self.length,), np.dtype("float32"))

    @property
    def is_random(self):
        return self.start == "random"

    @property
    def still(self):
        return replace(self, start="middle")

    def draw(self, rng):
        return rng.random()

    def read(self, value, out, store, watch, given):
        watch("read")
        data = store.read(value)
        watch("decode", len(data))
        signal = np.frombuffer(data, "<f4", len(data) // 4)
        free = len(signal) - self.length
        if free < 0:
            raise DecodeError(f"the signal has {len(signal)} numbers, expected {self.length}")
        first = int((0.5 if given is None else given) * (free + 1))
        out[...] = signal[first : first + self.length]


@pytest.fixture
def signals(tmp_path):
    """Six files of 10 numbers, those of row i from 100 * i on; the last is cut short."""
    paths = [tmp_path / f"{row}.bin" for row in range(6)]
    for row, path in enumerate(paths):
        path.write_bytes((100 * row + np.arange(10 if row < 5 else 2)).astype("<f4").tobytes())
    return pd.DataFrame({"id": range(6), "path": map(str, paths), "y": range(6)})


@pytest.mark.parametrize("how", [{"workers": 0}, {"workers": 2}, {"use_multiprocessing": True}])
def test_it_is_shuffled_drawn_and_read_by_any_workers_and_a_bad_row_is_skipped(signals, how):
    given = {"x": Signal(start="random"), "y": "y", "batch_size": 6, "on_error": "skip", **how}
    with dfgen.Sequence(signals, seed=1, **given) as seq:
        x, y, weights = map(np.asarray, seq[0])
        [problem] = seq.problems["reason"]
    assert problem == "the signal has 2 numbers, expected 4"
    x, y = x[weights > 0], y[weights > 0]
    assert sorted(y) == [0, 1, 2, 3, 4] != y.tolist()
    np.testing.assert_array_equal(x[:, 0] // 100, y)
    np.testing.assert_array_equal(np.diff(x, axis=1), 1)
    assert len({*(x[:, 0] % 100).tolist()}) > 1


def test_it_serves_a_path_and_the_bytes_of_a_file_as_it_was_trained(signals):
    with dfgen.Sequence(signals[:5], Signal(), "y", shuffle=False) as seq:
        once, served = seq[0][0], seq.preprocessing()
    with open(signals["path"][2], "rb") as file:
        np.testing.assert_array_equal(served([signals["path"][1], file.read()]), once[1:3])
