"""Samples that lie ready in memory, so that only the loader and the hand-over cost anything.

Nothing here loads Keras: worker processes import this module.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from measure import THREADS

from dfgen import Image
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader
from dfgen.samples.transforms import Transform

SIZE = 224


@cache
def pictures() -> npt.NDArray[np.uint8]:
    """Return 1,000 pictures: 150 MB, too many for the processor's caches."""
    return np.random.default_rng(0).integers(0, 256, (1000, SIZE, SIZE, 3), np.uint8)


def gather(rows: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> None:
    """Copy pictures; of other than `mode="raise"` NumPy makes no second copy."""
    np.take(pictures(), rows % len(pictures()), axis=0, out=out, mode="clip")


@dataclass(frozen=True)
class InMemory(SampleReader):
    """Gathers pictures instead of reading files."""

    @property
    def reads_rows(self) -> bool:
        return self.transform is not None

    def gather(self, rows: npt.NDArray[np.int64], out: Any) -> None:
        gather(rows, out["image"])

    def read(self, row: int, out: Any, rng: Any, watch: Any = None, *_: Any) -> None:
        if self.transform is not None:
            watch("transform")
            self.transform({"image": out["image"]}, rng)


def make_loader(
    rows: int,
    batch: int,
    processes: int = 0,
    transform: Transform | None = None,
    threads: int = THREADS,
) -> Loader:
    """Return a Loader of pictures in memory, on threads unless processes are asked for."""
    pictures()
    part = BoundFeature("image", Image(size=(SIZE, SIZE)), pa.nulls(rows, pa.string()))
    return Loader(
        InMemory(np.arange(rows), (part,), transform),
        batch_size=batch,
        workers=processes or threads,
        use_multiprocessing=bool(processes),
    )


def rest(loader: Loader) -> None:
    """Give up what a Loader makes ahead, which would take time from others."""
    loader.stream(epoch=1_000_000).close()
