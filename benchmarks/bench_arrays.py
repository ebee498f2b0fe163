"""What do threads, processes, batches and each backend cost where samples are ready in memory?

And what does job D cost, whose samples are rows of one .npy file?
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import keras
import numpy as np
from array_files import big_array
from in_memory import SIZE, gather, make_loader, pictures, rest
from measure import THREADS, Findings, Rates, Verdict, alternate, finish, in_new_process
from models import idle_model, passes, ready_dataset

from dfgen.training.data_adapter import Passes

BATCH = 128
ROWS = 64_000  # so many that beginning and ending a `fit` hardly count
ROWS_BETWEEN_PROCESSES = 2_560  # Keras takes more than a second for these
IN_FLIGHT = 12  # buffers of a loader that works ten batches ahead: no cache holds them
GATHER = f"bare gather into {IN_FLIGHT} reused buffers"
READY = "empty from_generator loop"


def main() -> Findings:
    threads, processes = with_threads(), in_new_process(with_processes)
    lesser = min(GATHER, READY, key=threads.median)
    limit = limit_of_fit()
    return finish(
        [
            Verdict(
                "arrays in memory, threads, drained as NumPy",
                threads.ratio("dfgen, NumPy", GATHER),
                0.9,
                "x bare gather",
                limit=limit_of_drain(),
            ),
            Verdict(
                "arrays in memory, TensorFlow's fit, empty step",
                threads.ratio("dfgen, TensorFlow's fit", lesser),
                0.9,
                f"x {lesser.split(' into')[0]}",
                limit=limit,
            ),
            Verdict(
                "arrays in memory, 2 processes",
                processes.ratio("dfgen, 2 processes", "Keras PyDataset, 2 processes"),
                10,
                "x Keras's processes",
                aim=30,
            ),
            in_new_process(big_array),
        ],
        {"Pictures of 224x224 in memory, images/s": threads},
    )


def with_threads() -> Rates:
    drains: dict[str, Callable[[Passes], Iterable[Any]]] = {"NumPy": Passes.get_numpy_iterator}
    if find_spec("torch"):
        drains["torch"] = Passes.get_torch_dataloader
    if find_spec("jax"):
        drains["JAX"] = jax_arrays
    drains["TensorFlow"] = Passes.get_tf_dataset
    ready, idle = ready_dataset(ROWS // BATCH, (BATCH, SIZE, SIZE, 3)), idle_model()
    rates = alternate(
        {
            GATHER: lambda: bare_gather(IN_FLIGHT // THREADS or 1),
            "bare gather into a buffer a thread": lambda: bare_gather(1),
            READY: lambda: sum(len(images) for (images,) in ready),
            "fit over ready arrays": lambda: fitted(idle, ready),
            "dfgen, TensorFlow's fit": lambda: dfgen_fitted(idle),
            **{f"dfgen, {name}": drained(batches) for name, batches in drains.items()},
        }
    )
    print(f"\n{SIZE}x{SIZE} pictures in memory, batch {BATCH}, {THREADS} threads", end="")
    rates.show("images", GATHER)
    return rates


def limit_of_fit() -> str:
    """Return what stands in the way where the gather and `fit` share the processors."""
    ready, idle = ready_dataset(ROWS // BATCH, (BATCH, SIZE, SIZE, 3)), idle_model()
    fitted(idle, ready)
    gathering = cpu_milliseconds(lambda: bare_gather(IN_FLIGHT // THREADS or 1))
    fitting = cpu_milliseconds(lambda: fitted(idle, ready))
    together = cpu_milliseconds(lambda: dfgen_fitted(idle))
    return (
        f"a batch takes {gathering:.1f} ms of processor time to gather and {fitting:.1f} ms in "
        f"`fit` over ready arrays: where they share all CPUs at most "
        f"{gathering / (gathering + fitting):.2f} x. Both at once take {together:.1f} ms, as they "
        f"also share caches and memory: {gathering / together:.2f} x"
    )


def limit_of_drain() -> str:
    """Return what a batch costs all threads together, beside the bare gather."""
    gathering = cpu_milliseconds(lambda: bare_gather(IN_FLIGHT // THREADS or 1))
    draining = cpu_milliseconds(drained(Passes.get_numpy_iterator))
    return (
        f"a batch takes {draining:.2f} ms of processor time, the bare gather {gathering:.2f} ms: "
        f"the rest is {THREADS} threads and their consumer taking turns on {THREADS} CPUs"
    )


def cpu_milliseconds(work: Callable[[], int]) -> float:
    """Return the processor time of a batch, of all threads together."""
    start = time.process_time()
    rows = work()
    return (time.process_time() - start) * 1000 / (rows // BATCH)


def with_processes() -> Rates:
    loader, idle = make_loader(ROWS // 4, BATCH, processes=2), idle_model()
    sequence = passes(loader)

    def dfgen_processes() -> int:
        images = fitted(idle, sequence, ROWS // 4)
        rest(loader)
        return images

    keras_batches = Gathered(workers=2, use_multiprocessing=True)
    rates = alternate(
        {
            "Keras PyDataset, 2 processes": lambda: fitted(
                idle, keras_batches, ROWS_BETWEEN_PROCESSES
            ),
            "dfgen, 2 processes": dfgen_processes,
        },
        rounds=3,
    )
    loader.close()
    print("\nthe same on processes, through TensorFlow's fit", end="")
    rates.show("images", "Keras PyDataset, 2 processes")
    return rates


def drained(batches: Callable[[Passes], Iterable[Any]]) -> Callable[[], int]:
    """Make a Loader for each pass: one that stays would work ahead while others are timed."""

    def drain() -> int:
        loader = make_loader(ROWS, BATCH)
        images = sum(len(images) for (images,) in batches(passes(loader)))
        loader.close()
        return images

    return drain


def fitted(model: keras.Model, data: Any, rows: int = ROWS) -> int:
    model.fit(data, verbose=0)
    return rows


def dfgen_fitted(model: keras.Model) -> int:
    loader = make_loader(ROWS, BATCH)
    rows = fitted(model, passes(loader))
    loader.close()
    return rows


class Gathered(keras.utils.PyDataset):  # type: ignore[misc]
    """Hands Keras's own pool the same batches."""

    def __len__(self) -> int:
        return ROWS_BETWEEN_PROCESSES // BATCH

    def __getitem__(self, index: int) -> Any:
        rows = np.random.default_rng(index).integers(0, len(pictures()), BATCH)
        images = np.empty((BATCH, SIZE, SIZE, 3), np.uint8)
        gather(rows, images)
        return (images,)


def jax_arrays(batches: Passes) -> Iterable[Any]:
    import jax

    return ((jax.device_put(images),) for (images,) in batches.get_jax_iterator())


def bare_gather(buffers: int) -> int:
    """Gather batches in a random order, into some buffers a thread in turn; wait for nothing."""
    rows = np.random.default_rng(0).permutation(ROWS).reshape(-1, BATCH)

    def run(share: np.ndarray) -> None:
        own = [np.empty((BATCH, SIZE, SIZE, 3), np.uint8) for _ in range(buffers)]
        for number, batch in enumerate(share):
            gather(batch, own[number % buffers])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, np.array_split(rows, THREADS)))
    return ROWS


if __name__ == "__main__":
    main()
