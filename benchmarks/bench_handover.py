"""What do threads, batches and each backend cost where samples are ready in memory?"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from measure import THREADS, Verdict, alternate

from dfgen import Image
from dfgen.loading.loader import Loader
from dfgen.samples.reader import Part, SampleReader
from dfgen.training.handover import Layout
from dfgen.training.passes import Cursor, Passes

BATCH, SIZE = 128, 224
ROWS = 64_000  # so many that the fresh memory of the first batches hardly counts
PICTURES = np.random.default_rng(0).integers(0, 256, (1000, SIZE, SIZE, 3), np.uint8)


@dataclass(frozen=True)
class InMemory(SampleReader):
    """Copies pictures instead of reading files."""

    def read(self, row: int, out: dict[str, np.ndarray], *_: object) -> None:
        out["image"][...] = PICTURES[row % len(PICTURES)]


def main() -> list[Verdict]:
    drains: dict[str, Callable[[Passes], Iterable[Any]]] = {
        "NumPy": Passes.get_numpy_iterator,
        "TensorFlow": Passes.get_tf_dataset,
    }
    if find_spec("torch"):
        drains["torch"] = Passes.get_torch_dataloader
    if find_spec("jax"):
        drains["JAX"] = jax_arrays
    rates = alternate(
        {
            "bare copy into one buffer": bare_copy,
            **{name: drained(batches) for name, batches in drains.items()},
        }
    )
    print(f"\n{SIZE}x{SIZE} pictures in memory, batch {BATCH}, {THREADS} threads", end="")
    rates.show("images", "bare copy into one buffer")
    return []


def drained(batches: Callable[[Passes], Iterable[Any]]) -> Callable[[], int]:
    """Make a Loader for each pass: one that stays would work ahead while others are timed."""
    ids = np.arange(ROWS)
    part = Part("image", Image(size=(SIZE, SIZE)), pa.nulls(ROWS, pa.string()))
    layout = Layout("image", None, frozenset(["image"]), weighted=False)

    def drain() -> int:
        loader = Loader(InMemory(ids, (part,)), batch_size=BATCH, workers=THREADS)
        passes = Passes(loader, Cursor(), layout, shuffle=True, endless=False)
        images = sum(len(images) for (images,) in batches(passes))
        loader.close()
        return images

    return drain


def jax_arrays(passes: Passes) -> Iterable[Any]:
    import jax

    return ((jax.device_put(images),) for (images,) in passes.get_jax_iterator())


def bare_copy() -> int:
    """Copy pictures in a random order into one buffer, and wait for nothing."""
    buffer = np.empty((BATCH, SIZE, SIZE, 3), np.uint8)

    def run(rows: np.ndarray) -> None:
        for number, row in enumerate(rows.tolist()):
            buffer[number % BATCH] = PICTURES[row % len(PICTURES)]

    rows = np.random.default_rng(0).permutation(ROWS)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, np.array_split(rows, THREADS)))
    return ROWS


if __name__ == "__main__":
    main()
