"""Advice that would make samples sooner, by what features do and how large their files are."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dfgen.errors import DfgenError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader

_ROWS = 8  # whose files' sizes are looked at


@dataclass(frozen=True)
class Remedy:
    """Something that makes batches sooner.

    Args:
        what: is to be written, or done.
        left: stage -> the share of its seconds that is left; the other stages stay.
        costs: seconds of a worker that it takes for each row.
        is_stored: whether it keeps what is made of files on a disk.
    """

    what: str
    left: Mapping[str, float]
    costs: float = 0.0
    is_stored: bool = False


def remedies(reader: SampleReader) -> list[Remedy]:
    """Return what would make the samples of a reader sooner, beside functions of the user's.

    Headers of a few files are read, no pixels. A file that cannot be read is passed over.
    """
    found: dict[str, Mapping[str, float]] = {}
    for bound in reader.features:
        if bound.feature.of_files:
            found = bound.feature.savings(_surplus(bound, reader)) | found
    return [Remedy(what, left) for what, left in found.items()]


def _surplus(bound: BoundFeature, reader: SampleReader) -> float:
    """Return how many times as many pixels the files have as are used, of some the least."""
    if bound.pixels is not None:  # decoded already, of the size that is read
        return 1.0
    found = []
    for row in np.unique(np.linspace(0, len(reader) - 1, _ROWS).astype(int)).tolist():
        if bound.has(row):
            try:
                value = bound.feature.at(bound.values, row)
                found.append(bound.feature.surplus(value, reader.store))
            except DfgenError:
                continue
    return min(found, default=1.0)
