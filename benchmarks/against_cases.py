"""The cases of against.py, and the process that runs them on one tree, in a folder of its own.

They use only the public API of dfgen, so that they run on older and on later trees.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

import dfgen

IMAGE = dfgen.Image(size=(224, 224))
ALIASED = dfgen.Image(size=(224, 224), antialias=False)
SIZE, SMALL = {"image_size": (224, 224)}, {"image_size": (32, 32)}
KEYS = {"access_key_id": "any", "secret_access_key": "any", "region": "us-east-1"}
Measure = Callable[[], float]


def frame(name: str = "photographs", form: str = "{folder}/{file}", rows: int | None = None) -> Any:
    """Return a frame of the files in a folder of the data."""
    folder = Path.cwd().parent / name
    files = sorted(os.listdir(folder))[:rows]
    return labelled([form.format(folder=folder, file=file) for file in files])


def labelled(paths: list[str]) -> Any:
    table = pd.DataFrame({"id": range(len(paths)), "path": paths})
    return table.assign(label=pd.Categorical.from_codes(table["id"] % 10, [*"abcdefghij"]))


def drained(table: Any, epochs: int = 1, **arguments: Any) -> Measure:
    """Measure rows per second of a Sequence, opening included."""

    def drain() -> float:
        start, rows = time.perf_counter(), 0
        with dfgen.Sequence(table, batch_size=64, **arguments) as sequence:
            for _ in range(epochs):
                rows += sum(len(images) for images, *_ in sequence)
        return rows / (time.perf_counter() - start)

    return drain


def first_batch(table: Any, repeats: int = 3) -> Measure:
    """Measure the milliseconds from opening a Sequence to its first batch."""

    def once() -> float:
        start = time.perf_counter()
        with dfgen.Sequence(table, y="label", batch_size=8, **SIZE) as sequence:
            next(iter(sequence))
            return (time.perf_counter() - start) * 1000

    return lambda: median(once() for _ in range(repeats))


def masks() -> Measure:
    return drained(frame().assign(mask=frame("masks")["path"]), x=IMAGE, y=dfgen.Mask("mask"))


def cached() -> Measure:
    drained(frame(rows=500), cache="cache", **SIZE)()
    return drained(frame(rows=500), epochs=20, cache="cache", **SIZE)


def packed() -> Measure:
    dfgen.pack(frame(rows=500), "pack", **SIZE)
    return drained("pack", epochs=20)


def s3() -> Measure:
    options = KEYS | {"endpoint": os.environ["S3"], "client_options": {"allow_http": True}}
    return drained(frame("bucket", "s3://bucket/{file}"), storage_options=options, **SIZE)


def large() -> str:
    """Write a manifest of 10^6 rows: the photographs by a thousand names each."""
    files, links = frame(form="{file}")["path"], frame("links")["path"]
    if not Path("large.parquet").exists():
        table = labelled([f"{link}/{file}" for link in links for file in files])
        dfgen.write_manifest(table, "large.parquet")
    return "large.parquet"


def build() -> Measure:
    def once() -> float:
        start = time.perf_counter()
        rows = len(dfgen.build_manifest("../tree", pattern="{label}/{_}"))
        return rows / (time.perf_counter() - start)

    return once


def steps() -> Measure:
    from measure import idle_model

    count, model = 2000, idle_model()
    table = pd.DataFrame({"id": range(32 * count), "value": 0.5})

    def fit() -> float:
        with dfgen.Sequence(table, x=dfgen.Number("value"), batch_size=32) as sequence:
            start = time.perf_counter()
            model.fit(sequence, epochs=3, verbose=0)
            return 3 * count / (time.perf_counter() - start)

    return fit


def pause() -> Measure:
    import keras
    from measure import idle_model

    table, model, pauses, end = frame("small", rows=128), idle_model(), [], 0.0

    def on_batch_end(batch: int, logs: Any) -> None:
        nonlocal end
        if batch == 0:
            pauses.append((time.perf_counter() - end) * 1000)
        time.sleep(0.01)  # lets the prefetch catch up
        end = time.perf_counter()

    def fit() -> float:
        pauses.clear()
        callback = keras.callbacks.LambdaCallback(on_train_batch_end=on_batch_end)
        with dfgen.Sequence(table, batch_size=64, **SMALL) as sequence:
            model.fit(sequence, epochs=50, verbose=0, callbacks=[callback])
        return median(pauses[1:])

    return fit


def imported() -> Measure:
    code = "from time import *; start = time(); import dfgen; print(1000 * (time() - start))"
    command = [sys.executable, "-c", code]
    return lambda: median(float(subprocess.check_output(command)) for _ in range(5))


ZIP = "zip://{file}::{folder}.zip"
# name: (title, unit, a function that prepares a measurement); more is better in a unit "x/s"
CASES: dict[str, tuple[str, str, Callable[[], Measure]]] = {
    "jpeg": ("JPEG 500x375", "images/s", lambda: drained(frame(), **SIZE)),
    "aliased": ("JPEG 500x375, antialias=False", "images/s", lambda: drained(frame(), x=ALIASED)),
    "png": ("PNG 32x32", "images/s", lambda: drained(frame("small"), **SMALL)),
    "masks": ("JPEG 500x375 with masks", "images/s", masks),
    "cache": ("cache, second epoch", "images/s", cached),
    "pack": ("pack of pixels", "images/s", packed),
    "zip": ("JPEG 500x375 in a zip", "images/s", lambda: drained(frame(form=ZIP), **SIZE)),
    "s3": ("JPEG 500x375 in S3", "images/s", s3),
    "open_path": ("manifest of 10^6 rows", "ms", lambda: first_batch(large())),
    "open_frame": ("frame of 10^6 rows", "ms", lambda: first_batch(dfgen.read_manifest(large()))),
    "first_batch": ("frame of 1,000 rows", "ms", lambda: first_batch(frame(), 20)),
    "build": ("build_manifest of 10^5 files", "files/s", build),
    "steps": ("fit of an empty model", "steps/s", steps),
    "pause": ("pause between epochs", "ms", pause),
    "import": ("import dfgen", "ms", imported),
}


def main(tree: str) -> None:
    """Read names of cases from standard input; print a line of JSON for each."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of a case is no answer
    if not Path(dfgen.__file__).resolve().is_relative_to(Path(tree).resolve()):
        raise ImportError(f"dfgen was imported from {dfgen.__file__}, not from {tree}")
    current, measure = "", None
    for name in map(str.strip, sys.stdin):
        try:
            if current != name:
                measure, current = CASES[name][2](), name
            answer: float | str = measure()
        except Exception as error:
            answer = f"{type(error).__name__}: {['', *str(error).splitlines()][-1]}"
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
