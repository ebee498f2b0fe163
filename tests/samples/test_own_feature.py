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


@pytest.mark.parametrize(
    "how", [{"workers": 0}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True}]
)
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


@dataclass(frozen=True)
class Points(Feature):
    """Any number of points of a row, a list of (x, y), in a batch up to four."""

    column: str = "points"
    kind: ClassVar[str] = "points"

    @property
    def spec(self):
        return Spec((4, 2), np.dtype("float32"), blank=-1)

    def read_spec(self, transform):
        return replace(self.spec, shape=(None, 2))

    def read(self, value, out, store, watch, given):
        out[: len(value)], out[len(value) :] = np.reshape(value, (-1, 2)), -1

    def finish(self, sample, out):
        out[: len(sample)], out[len(sample) :] = sample, -1


def test_an_array_of_any_length_comes_to_a_transform_without_blank_rows_and_may_change_it():
    points = [[], [[0, -1]], [[-1, -1], [2, 3], [4, 5]]]
    seen = []

    def doubled(sample, rng):
        seen.append(sample["points"].tolist())
        return {**sample, "points": np.concatenate([sample["points"], [[9, 9]]], dtype="float32")}

    df = pd.DataFrame({"id": range(3), "points": points})
    given = {"label_mode": None, "batch_size": 3, "shuffle": False, "workers": 0}
    with dfgen.Sequence(df, Points(), transform=doubled, **given) as seq:
        (x,) = seq[0]
    assert seen == points
    assert [row[: len(one) + 1].tolist() for row, one in zip(x, points, strict=True)] == [
        [*one, [9, 9]] for one in points
    ]
    assert (x[0][1:] == -1).all()


class Doubled(Feature):
    column = "y"
    kind = "doubled"
    spec = Spec((2,), np.dtype("float32"))

    def read(self, value, out, store, watch, given):
        out[:] = 2 * value


def test_a_class_that_is_no_dataclass_is_read_and_shown_and_cannot_be_saved():
    df = pd.DataFrame({"id": range(4), "y": range(4)})
    with dfgen.Sequence(df, Doubled(), "y", batch_size=4, shuffle=False) as seq:
        assert seq[0][0].tolist() == [[0, 0], [2, 2], [4, 4], [6, 6]]
        assert repr(Doubled()) == "Doubled()"
        with pytest.raises(dfgen.DfgenError, match=r"Doubled\('y'\) .* above class Doubled"):
            seq.preprocessing().to_json()


class Older(Feature):
    """Two numbers of a list, by the members that kept their names."""

    column = "y"
    kind = "old"
    spec = Spec((2,), np.dtype("int32"))

    def read(self, value, out, store, watch, given):
        out[...] = value


def of_older(**members):
    """Return a feature with members by older names, each of which is warned of."""
    with pytest.warns(DeprecationWarning, match=r"^Old\.\w+ is now ") as told:
        Old = type("Old", (Older,), members)
    assert len(told) == len(members)
    return dataclass(frozen=True)(Old)()
