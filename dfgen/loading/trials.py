"""What would make batches sooner, tried on a few rows: what it saves is measured, not guessed."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dfgen.errors import DfgenError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.spec import Values
from dfgen.samples.reader import SampleReader

_ROWS = 8  # tried at most
_SECONDS = 0.2  # for one way to make them, about
_ROUNDS = 3  # the fastest counts: other programs only make it slower
_SAVED = 0.1  # of a stage: what is less is noise
_SURPLUS = 2.0  # times as many pixels as are used: what is less is little


@dataclass(frozen=True)
class Remedy:
    """Something that makes batches sooner.

    Args:
        what: is to be written, or done.
        left: stage -> the share of its seconds that is left; the other stages stay.
    """

    what: str
    left: Mapping[str, float]


def remedies(reader: SampleReader) -> list[Remedy]:
    """Return what would make the samples of a reader sooner, beside functions of the user's.

    Tried are what features call cheaper. What makes the same arrays, as a filter for shrinking does
    where nothing shrinks, is none, nor is what saves no time. A file that cannot be read is passed
    over.
    """
    features = tuple(bound for bound in reader.features if _is_tried(bound.feature))
    reader = replace(reader, features=features, transform=None)
    rows = _good_rows(reader) if features else []
    return [*_cheaper(reader, rows), *_smaller(reader, rows)] if rows else []


def _is_tried(feature: Feature) -> bool:
    """Whether it reads files, and does no more: functions of the user's may do anything."""
    return feature.of_files and not any(
        callable(value) and not isinstance(value, Feature) for value in vars(feature).values()
    )


def _cheaper(reader: SampleReader, rows: list[int]) -> Iterator[Remedy]:
    for what in dict.fromkeys(what for bound in reader.features for what in bound.feature.cheaper):
        others = tuple(
            replace(bound, feature=bound.feature.cheaper.get(what, bound.feature))
            for bound in reader.features
        )
        left = _compared(reader, replace(reader, features=others), rows)
        if left:
            yield Remedy(what, left)


def _smaller(reader: SampleReader, rows: list[int]) -> Iterator[Remedy]:
    surplus = min(
        bound.feature.surplus(bound.feature.at(bound.values, row), reader.store)
        for bound in reader.features
        for row in rows
        if bound.has(row)
    )
    if surplus >= _SURPLUS:
        what = f"files of fewer pixels, as these have {surplus:.1f} times as many as are used"
        yield Remedy(what, dict.fromkeys(("decode", "resize"), 1 / surplus))


def _good_rows(reader: SampleReader) -> list[int]:
    """Return rows from everywhere that can be read, as many as there is time for."""
    rows, end = [], time.perf_counter() + _SECONDS
    out = _arrays(reader)
    for row in dict.fromkeys(np.linspace(0, len(reader) - 1, _ROWS).astype(int).tolist()):
        try:
            reader.read(row, out, None)
        except DfgenError:
            continue
        rows.append(row)
        if time.perf_counter() > end:
            break
    return rows


def _compared(reader: SampleReader, other: SampleReader, rows: list[int]) -> dict[str, float]:
    """Return what share of each stage another reader leaves; nothing where it makes the same."""
    try:
        if all(_same(_made(reader, row), _made(other, row)) for row in rows):
            return {}
        rounds = [(_seconds(reader, rows), _seconds(other, rows)) for _ in range(_ROUNDS)]
    except DfgenError:  # the other one refuses these files
        return {}
    before, after = (
        {stage: min(seconds[stage] for seconds in each) for stage in each[0]}
        for each in zip(*rounds, strict=True)
    )
    shares = {stage: after.get(stage, 0) / spent for stage, spent in before.items() if spent}
    return {stage: share for stage, share in shares.items() if stage and share <= 1 - _SAVED}


def _seconds(reader: SampleReader, rows: list[int]) -> dict[str, float]:
    """Return how long this thread is on a CPU for each stage of some rows."""
    watch, out = _CpuWatch(), _arrays(reader)
    for row in rows:
        reader.read(row, out, None, watch)
        watch("")
    return watch.seconds


class _CpuWatch:
    """Told each stage as it begins, it notes the time on a CPU: other programs change it little."""

    def __init__(self) -> None:
        self.stage, self.since = "", time.thread_time()
        self.seconds: dict[str, float] = defaultdict(float)

    def __call__(self, stage: str, nbytes: int = 0) -> None:
        now = time.thread_time()
        self.seconds[self.stage] += now - self.since
        self.stage, self.since = stage, now


def _made(reader: SampleReader, row: int) -> dict[str, Values]:
    out = _arrays(reader)
    reader.read(row, out, None)
    return out


def _same(ones: Mapping[str, Values], others: Mapping[str, Values]) -> bool:
    return all(
        array.dtype == others[name].dtype and np.array_equal(array, others[name])
        for name, array in ones.items()
    )


def _arrays(reader: SampleReader) -> dict[str, Values]:
    """Return arrays for one sample of any size."""
    specs: Mapping[str, Any] = reader.padding.specs(slice(None), reader.specs)
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
