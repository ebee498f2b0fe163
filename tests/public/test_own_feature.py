"""A feature, a transform and a batch transform of one's own: what they get and must return."""

import traceback
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError, TransformError
from public.first_batch import batch_of, equal, x_of

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
def test_an_own_feature_is_read_by_every_kind_of_worker(signals, how):
    expected = 100 * np.arange(7)[:, None] + np.arange(4)
    equal(x_of(signals[:7], Signal(), **how), expected.astype(np.float32))
    drawn = x_of(signals[:7], Signal(random=True), **how)
    equal(drawn, x_of(signals[:7], Signal(random=True)))
    assert {*np.diff(drawn).ravel()} == {1} and len({*(drawn[:, 0] % 100)}) > 1
    with pytest.raises(DecodeError, match=r"s7.*numbers"):
        x_of(signals, Signal(), **how)


def test_a_bad_row_of_an_own_feature_is_skipped(signals):
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
def test_a_transform_draws_the_same_for_every_kind_of_worker(frame, how):
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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s, rng: None, lambda s, rng: s["image"], lambda s, rng: {"image": s["image"]},
        lambda s, rng: {**s, "more": 1}, lambda s, rng: {**s, "image": s["image"][1:]},
        lambda s, rng: {**s, "image": s["image"] / 255}, lambda s, rng: {**s, "label": "a"},
    ],
)  # fmt: skip
def test_a_transform_must_return_what_it_got(frame, wrong):
    with pytest.raises(TransformError, match="id"):
        batch_of(frame(3), "path", "label", transform=wrong)


def failing(sample, rng):
    red = int(sample["image"][0, 0, 0])
    return sample if red < 3 else {}["the line that fails"]


def failing_column(number):
    return number if number < 3 else {}["the line that fails"]


@every_way
def test_errors_of_user_functions_name_row_and_line(frame, how):
    df = frame(4).assign(id=["a", "b", "c", "row-d"], number=range(4))
    image = dfgen.Image(size=(4, 4))
    for x, options in (
        (image, {"transform": failing}),
        (dfgen.Column("number", failing_column), {}),
    ):
        with pytest.raises(DfgenError, match="row-d") as caught:
            batch_of(df, x, "label", **options, **how)
        trace = "".join(traceback.format_exception(caught.value))
        assert '{}["the line that fails"]' in trace and "KeyError" in trace


@pytest.mark.parametrize("wrong", [3, lambda: 0, lambda sample: sample])
def test_a_transform_of_another_signature_is_an_error(frame, wrong):
    with pytest.raises(ArgumentError, match="transform"):
        dfgen.Sequence(frame(3), "path", "label", transform=wrong)


def mixup(batch, rng):
    share = np.float32(rng.beta(0.4, 0.4))
    other = rng.permutation(len(batch["label"]))
    soft = np.eye(2, dtype=np.float32)[batch["label"]]
    image = batch["image"].astype(np.float32)
    return {
        "image": share * image + (1 - share) * image[other],
        "label": share * soft + (1 - share) * soft[other],
    }


@every_way
def test_mixup_as_batch_transform_with_weights(frame, how):
    df = frame(24).assign(weight=np.arange(24) / 4)
    given = {"image_size": (4, 4), "batch_size": 10, "sample_weight": "weight"}
    epochs = []
    for options in (how, {"workers": 0}):
        with dfgen.Sequence(df, "path", "label", batch_transform=mixup, **given, **options) as seq:
            epochs.append([seq[2], *seq, *seq])
    with dfgen.Sequence(df, "path", "label", **given, workers=0) as seq:
        plain = [*seq]
    for batch, expected in zip(*epochs, strict=True):
        equal([*map(np.asarray, batch)], [*map(np.asarray, expected)])
    equal(np.asarray(epochs[0][0][0]), np.asarray(epochs[0][3][0]))
    for (x, y, weights), (images, labels, own) in zip(epochs[0][1:4], plain, strict=True):
        rows, soft = np.asarray(images)[:, 0, 0, 0].astype(float), np.asarray(y)
        equal(np.asarray(weights), np.asarray(own))
        np.testing.assert_allclose(own, rows / 4)
        assert (soft.shape, soft.dtype, x.dtype) == ((len(x), 2), np.float32, np.float32)
        np.testing.assert_allclose(soft.sum(0), np.eye(2)[np.asarray(labels)].sum(0), atol=1e-5)
        np.testing.assert_allclose(np.asarray(x)[:, 0, 0, 0].sum(), rows.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda b, rng: None, lambda b, rng: {"image": b["image"]},
        lambda b, rng: {**b, "label": b["label"][1:]}, lambda b, rng: {**b, "image": 1},
        lambda b, rng: 1 // 0,
    ],
)  # fmt: skip
def test_a_batch_transform_must_return_whole_arrays(frame, wrong):
    with pytest.raises(DfgenError, match=r"batch.transform"):
        batch_of(frame(6), "path", "label", batch_transform=wrong, image_size=(4, 4))
