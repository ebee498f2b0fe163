"""Is predict_frame as fast as model.predict on the same batches?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from corpus import photographs
from measure import Findings, Rates, Verdict, alternate, finish

import dfgen

SIZE, CLASSES, ROUNDS = 64, 10, 7
SMALL = "a Dense layer, of rows of a table"
LARGE = "three convolutions, of photographs"


def main() -> Findings:
    rates = {SMALL: measured(of_numbers()), LARGE: measured(of_images())}
    verdicts = []
    for what, each in rates.items():
        print(f"\n{what}")
        each.show("rows", "predict")
        for name in ("predict_frame", "evaluate_frame"):
            if what == LARGE:
                ratio = each.ratio(name, "predict")
                verdicts.append(Verdict(f"{name} to model.predict, {what}", ratio, 0.95, "x"))
            else:
                beyond = 1e6 / each.median(name) - 1e6 / each.median("predict")
                what_is = f"{name} beyond model.predict, {what}"
                verdicts.append(Verdict(what_is, beyond, 2, "microseconds a row", at_most=True))
    return finish(verdicts)


def measured(job: tuple[Any, Callable[[], dfgen.Sequence], int]) -> Rates:
    """Return rows per second of Keras's own predict, and with a frame made of it."""
    model, sequence, rows = job
    seq = sequence()

    def run(work: Callable[[], object]) -> Callable[[], int]:
        def counted() -> int:
            work()
            return rows

        return counted

    return alternate(
        {
            "predict": run(lambda: model.predict(seq, verbose=0)),
            "predict_frame": run(lambda: dfgen.predict_frame(model, seq)),
            "evaluate_frame": run(lambda: dfgen.evaluate_frame(model, seq)),
        },
        ROUNDS,
        before=lambda: seq._loader.park(None),  # what predict has made ahead for its next call
    )


def of_numbers() -> tuple[Any, Callable[[], dfgen.Sequence], int]:
    """Return a job in which a batch costs next to nothing."""
    import keras

    rows = 400_000
    frame = pd.DataFrame({"id": range(rows), "number": np.linspace(-1, 1, rows)})
    frame["label"] = labels(rows)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(CLASSES)])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = dfgen.Number(["number"])
    return model, lambda: dfgen.Sequence(frame, x=x, y="label", batch_size=256, shuffle=False), rows


def of_images() -> tuple[Any, Callable[[], dfgen.Sequence], int]:
    """Return a job of photographs and a small model."""
    import keras

    layers = keras.layers
    paths = [str(path) for path in photographs()]
    frame = pd.DataFrame({"id": range(len(paths)), "path": paths, "label": labels(len(paths))})
    convolutions = [layers.Conv2D(32 << n, 3, 2, activation="relu") for n in range(3)]
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Rescaling(1 / 255),
            *convolutions,
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile(loss="sparse_categorical_crossentropy")

    def sequence() -> dfgen.Sequence:
        return dfgen.Sequence(
            frame, y="label", image_size=(SIZE, SIZE), batch_size=64, shuffle=False
        )

    return model, sequence, len(frame)


def labels(rows: int) -> pd.Categorical:
    return pd.Categorical.from_codes(np.arange(rows) % CLASSES, [f"c{n}" for n in range(CLASSES)])


if __name__ == "__main__":
    main()
