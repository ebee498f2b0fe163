"""RowStep: what is done for each row, one feature after the other: read, decode, or fill."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dfgen.samples.cached_pixels import CachedPixels
from dfgen.samples.features.base import Feature
from dfgen.samples.features.spec import Present, Spec, Values, Watch, filled
from dfgen.samples.pixels.geometry import after
from dfgen.samples.stored_rows import StoredPixels
from dfgen.samples.stores.known_files import KnownFiles
from dfgen.samples.stores.store import Store
from dfgen.samples.transforms import Sample


class RowStep(NamedTuple):
    """A step that makes the arrays of one feature, one row after the other."""

    feature: Feature
    values: Any
    name: str
    told_by: str  # whose draw or Geometry it is told: its own, or that of its image
    names: tuple[str, ...]  # of the arrays that it reads
    of: Callable[[Mapping[str, Values]], Any]  # returns its array, or several
    between: dict[str, Spec]  # of those, what comes before the batch
    own: list[str]  # of these, whose dtype their file tells
    present: Present | None  # which rows have it
    known: KnownFiles | None  # what its files should be
    pixels: StoredPixels | None  # what is decoded already
    cached: CachedPixels | None  # what reads it in the place of the feature

    def read(self, row: int, sample: Sample, store: Store, watch: Watch, given: Any) -> Any:
        """Fill its arrays of a sample, if a row has them; return what is told those that follow."""
        told = None
        if self.present is None or self.present[row]:
            stored = None if self.pixels is None else self.pixels.at(row)
            if self.pixels is None or stored is None:
                store = store if self.known is None else self.known.of(row, store)
                if self.cached is not None:
                    told = self.cached.read(row, self.of(sample), store, watch, given)
                else:
                    value = self.feature.at(self.values, row)
                    told = self.feature.read(value, self.of(sample), store, watch, given)
                if self.pixels is not None and (placed := self.pixels.placed(row)) is not None:
                    told = after(placed, told)
            else:
                placed = self.pixels.placed(row)
                told = self.feature.fill(stored, self.of(sample), watch, given, placed)
        else:
            for name in self.own:
                sample[name].of(np.uint8)  # type: ignore[attr-defined]
        for name in self.own:
            sample[name] = filled(sample[name])
        return told
