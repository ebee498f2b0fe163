"""A feature from outside: several arrays, class names, chance and any number of items per row."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from public.first_batch import batch_of, equal, x_of

import dfgen
from dfgen.errors import DecodeError, ManifestError


@dataclass(frozen=True, repr=False)
class Events(dfgen.Feature):
    """Times and classes of the events of a recording, from a random time on.

    The file holds float32 times; the column `kinds` has a list with the class of each.
    """

    column: str = "path"
    kinds: str = "kinds"
    most: int = 4
    random: bool = False
    class_names: tuple[str, ...] | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "events"
    of_files: ClassVar[bool] = True

    @property
    def columns(self):
        return self.column, self.kinds

    def resolve(self, columns):
        labels = columns[self.kinds].flatten()
        return replace(self, class_names=columns.class_names(self.kinds, labels))

    @property
    def spec(self):
        times = dfgen.Spec((None,), np.dtype("float32"), -1)
        kinds = dfgen.Spec((None,), np.dtype("int32"), -1)
        specs = times, kinds
        return tuple(replace(one, shape=(self.most,), seen=one) for one in specs)

    def arrays(self, name):
        return {"times": name, "kinds": f"{name}_kinds"}

    def bind(self, columns):
        both = [columns.files(self.column), columns[self.kinds]]
        return pa.StructArray.from_arrays(both, ["path", "kinds"])

    @property
    def is_random(self):
        return self.random

    def draw(self, rng):
        return rng.integers(0, 2)

    def read(self, value, out, reading):
        times = np.frombuffer(reading.store.read(value["path"]), "<f4")
        kinds = [self.class_names.index(one) for one in value["kinds"]]
        if len(times) != len(kinds):
            raise DecodeError(f"the file has {len(times)} times, expected {len(kinds)}")
        self.finish((times[reading.drawn or 0 :], kinds[reading.drawn or 0 :]), out)

    def finish(self, sample, out):
        for made, into in zip(sample, out, strict=True):
            into[: len(made)], into[len(made) :] = made, -1


@pytest.fixture
def recordings(tmp_path):
    kinds = [["b", "a"], ["c"], ["a", "a", "b"], ["b"], ["c", "b", "a", "a"]]
    for row, some in enumerate(kinds):
        (tmp_path / f"{row}.bin").write_bytes((np.arange(len(some)) + row).astype("<f4").tobytes())
    paths = [f"{tmp_path}/{row}.bin" for row in range(5)]
    return pd.DataFrame({"id": [*"vwxyz"], "path": paths, "kinds": kinds})


TIMES = np.array(
    [[0, 1, -1, -1], [1, -1, -1, -1], [2, 3, 4, -1], [3, -1, -1, -1], [4, 5, 6, 7]], np.float32
)
KINDS = np.array(
    [[1, 0, -1, -1], [2, -1, -1, -1], [0, 0, 1, -1], [1, -1, -1, -1], [2, 1, 0, 0]], np.int32
)


@pytest.mark.parametrize("how", [{}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True}])
def test_a_complete_feature_from_outside(recordings, how):
    equal(x_of(recordings, Events(), **how), {"times": TIMES, "kinds": KINDS})
    with dfgen.Sequence(recordings, Events(), Events(), shuffle=False, **how) as seq:
        assert seq.class_names == ["a", "b", "c"]


def later(sample, rng):
    assert len(sample["events"]) == len(sample["events_kinds"]) == (sample["events"] >= 0).sum()
    return {**sample, "events": sample["events"] + np.float32(10)}


def test_a_transform_sees_it_without_padding(recordings):
    expected = np.where(TIMES < 0, np.float32(-1), TIMES + 10)
    equal(x_of(recordings, Events(), transform=later), {"times": expected, "kinds": KINDS})


def test_chance_is_drawn_for_each_row_and_epoch(recordings):
    found = [x_of(recordings, Events(random=True), seed=seed)["times"][4] for seed in range(8)]
    assert {len(one[one >= 0]) for one in found} == {3, 4}


def test_its_errors_name_the_row(recordings):
    recordings.at[2, "kinds"] = ["a"]
    with pytest.raises(DecodeError, match=r"id='x'.*3 times"):
        x_of(recordings, Events())


def test_missing_rows_get_blanks_of_weight_0(recordings):
    recordings["kinds"] = [None if row == 1 else one for row, one in enumerate(recordings["kinds"])]
    y, weights = batch_of(recordings, dfgen.Bytes("path"), Events(missing="ignore"))[1:]
    assert y["kinds"].tolist() == [[1, 0, -1, -1], [-1] * 4, *KINDS[2:].tolist()]
    assert weights.tolist() == [1, 0, 1, 1, 1]


class Typo(dfgen.Feature):
    kind = "typo"
    column = "kinds"

    @property
    def spec(self):
        return dfgen.Spec((self.lenght,), np.dtype("float32"))


def test_property_mistake_is_raised_unchanged(recordings):
    with pytest.raises(AttributeError, match="lenght"):
        x_of(recordings, Typo())


def test_a_column_that_does_not_exist_is_named(recordings):
    with pytest.raises(ManifestError, match="kind"):
        x_of(recordings, Events(kinds="kind"))
