"""How long is the pause between an epoch's last batch and the next one's first?"""

import time
from collections.abc import Iterable
from importlib.util import find_spec
from statistics import median
from typing import Any

from measure import Findings, Verdict, finish, in_new_process

EPOCHS, STEPS, BATCH = 12, 16, 32
FULL = 0.03  # seconds that each step lasts, so that the look-ahead is full

Times = tuple[list[float], list[float]]
"""Milliseconds from an epoch's last batch to the next one's first; and between other batches."""


def main() -> Findings:
    times = {"dfgen, drained": in_new_process(drained)}
    for backend in ("torch", "jax"):
        if find_spec(backend):
            times[f"dfgen, {backend}"] = in_new_process(fitted, "dfgen", backend=backend)
    for what in ("dfgen", "empty from_generator", "Keras's pool, 2 threads"):
        times[f"{what}, tensorflow"] = in_new_process(fitted, what, backend="tensorflow")
    print(f"\n{'':<40}{'ms, median':>12}{'lowest .. highest':>22}{'between other batches':>24}")
    for what, (pauses, others) in times.items():
        spread = f"{min(pauses):.1f} .. {max(pauses):.1f}"
        print(f"{what:<40}{median(pauses):>12.1f}{spread:>22}{median(others):>24.1f}")
    pauses = {what: median(pauses) for what, (pauses, _) in times.items()}
    ours, least = pauses["dfgen, tensorflow"], pauses["empty from_generator, tensorflow"]
    return finish(
        [
            *(
                Verdict(f"pause between epochs, {what}", pause, 5, "ms", at_most=True)
                for what, pause in pauses.items()
                if what.startswith("dfgen") and "tensorflow" not in what
            ),
            Verdict(
                "pause between epochs, dfgen, tensorflow", ours, 1.1 * least, "ms", at_most=True
            ),
        ]
    )


def drained() -> Times:
    """Take batches in a plain loop."""
    from in_memory import make_loader
    from models import passes

    loader = make_loader(STEPS * BATCH, BATCH)
    batches = passes(loader)
    pauses, others = [], []
    ended = time.perf_counter()
    for _ in range(EPOCHS):
        for step, _batch in enumerate(batches):
            (others if step else pauses).append((time.perf_counter() - ended) * 1000)
            time.sleep(FULL)
            ended = time.perf_counter()
    loader.close()
    return pauses[1:], others


def fitted(what: str) -> Times:
    """Take batches in a `fit` whose step does nothing but wait for the look-ahead to fill."""
    import keras
    from models import idle_model

    class Pauses(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ended = time.perf_counter()
            self.pauses: list[float] = []
            self.others: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            took = (time.perf_counter() - self.ended) * 1000
            (self.others if batch else self.pauses).append(took)
            time.sleep(FULL)
            self.ended = time.perf_counter()

    clock = Pauses()
    idle_model().fit(source(what), epochs=EPOCHS, verbose=0, callbacks=[clock])
    return clock.pauses[1:], clock.others


def source(what: str) -> Iterable[Any]:
    import keras
    import numpy as np
    from in_memory import SIZE, make_loader
    from models import passes, ready_dataset

    if what == "dfgen":
        return passes(make_loader(STEPS * BATCH, BATCH))
    if what == "empty from_generator":
        return ready_dataset(STEPS, (BATCH, SIZE, SIZE, 3))

    class Ready(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return STEPS

        def __getitem__(self, index: int) -> Any:
            return (np.zeros((BATCH, SIZE, SIZE, 3), np.uint8),)

    return Ready(workers=2)


if __name__ == "__main__":
    main()
