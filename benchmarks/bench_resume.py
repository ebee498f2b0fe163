"""What do receipts, states and backups cost, and does going on late in an epoch cost more?"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from measure import Findings, Verdict, finish, in_new_process

from dfgen.loading.order.plan import Plan
from dfgen.loading.order.row_order import RowOrder
from dfgen.loading.receipts import DueRows, Handed, Ledger
from dfgen.loading.state import Place

ROUNDS = 7
ROWS, BATCH = 1437, 32  # of the demo
MANY, LATE = 10**9, 10**6


def main() -> Findings:
    step, state, ours, theirs = in_new_process(demo, backend="tensorflow")
    receipts = receipt_seconds()
    first, late = (open_seconds(at) for at in (0, LATE))
    print(f"\nstep of the demo {step * 1e3:.2f} ms; its receipt {receipts * 1e6:.0f} microseconds")
    print(f"state {state * 1e6:.0f} microseconds; a backup of the demo {ours * 1e3:.1f} ms, ")
    print(f"with keras.callbacks.BackupAndRestore {theirs * 1e3:.1f} ms")
    print(f"opening at step 0 {first * 1e3:.2f} ms, at step {LATE:,} {late * 1e3:.2f} ms")
    return finish(
        [
            Verdict("receipts, of a step of the demo", 100 * receipts / step, 1, "%", True),
            Verdict("state, a step", state * 1e3, 1, "ms", True),
            Verdict("a backup beyond one of Keras's own", (ours - theirs) * 1e3, 1, "ms", True),
            Verdict("opening at step 10^6 of 10^9 rows, to step 0", late / first, 1.1, "x", True),
        ]
    )


def timed(work: Callable[[], object]) -> float:
    """Return the median of the seconds that some work takes."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return median(seconds)


def receipt_seconds() -> float:
    """Return the seconds that the receipt of one batch takes, its share of the order included."""
    ids = np.arange(ROWS) + 100_000
    order = DueRows(Plan(ROWS, BATCH), RowOrder(ROWS, 0), ids)
    batches = [Handed(0.0, (0, step), order.batch(0, step)[1]) for step in range(ROWS // BATCH)]

    def epoch() -> None:
        ledger = Ledger(DueRows(Plan(ROWS, BATCH), RowOrder(ROWS, 0), ids), Place(), "taken")
        for batch in batches:
            ledger.take(batch)

    return timed(epoch) / len(batches)


class Ids:
    """The ids of any number of rows: their numbers."""

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        return rows


def open_seconds(step: int) -> float:
    """Return the seconds until the rows of a step of a huge epoch are known and counted."""

    def first_batch() -> None:
        order = DueRows(Plan(MANY, BATCH), RowOrder(MANY, 0), Ids())  # type: ignore[arg-type]
        ledger = Ledger(order, Place(0, step), "taken")
        ledger.take(Handed(0.0, (0, step), order.batch(0, step)[1]))

    first_batch()
    return timed(first_batch)


def demo() -> tuple[float, float, float, float]:
    """Return the seconds of a step of the demo, of a state, of a backup, and of one of Keras's."""
    import keras

    import dfgen
    from dfgen.demo import load_digits, network

    pixels, digits = load_digits()
    pixels = pixels[:ROWS, ..., None].astype("float32")
    model = keras.Sequential([network(), keras.layers.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(pixels, digits[:ROWS], batch_size=BATCH, epochs=1, verbose=0)
    steps = -(-ROWS // BATCH)
    arguments = {"batch_size": BATCH, "epochs": 1, "verbose": 0}
    step = timed(lambda: model.fit(pixels, digits[:ROWS], **arguments)) / steps
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "pixels.npy"), pixels)
        frame = dfgen.build_manifest(arrays=Path(folder, "pixels.npy")).assign(
            digit=digits[:ROWS].astype(int)
        )
        x = dfgen.Array("path", shape=pixels.shape[1:], dtype="float32", index="index")
        sequence = dfgen.Sequence(frame, x=x, y="digit", batch_size=BATCH)
        state = timed(lambda: json.dumps(sequence.state_dict()))
        ours = dfgen.BackupAndRestore(Path(folder, "ours"), sequence)
        theirs = keras.callbacks.BackupAndRestore(str(Path(folder, "theirs")))
        theirs.set_model(model)
        backups: list[float] = []

        def at_step(step: int, logs: object) -> None:
            if step == 1:
                backups.extend(map(timed, (ours._save, theirs._save_model)))

        at = keras.callbacks.LambdaCallback(on_train_batch_end=at_step)
        model.fit(sequence, epochs=1, verbose=0, callbacks=[ours, at])
    return step, state, *backups


if __name__ == "__main__":
    main()
