"""Does a Sequence with default arguments make small files as fast as the best choice of workers?

Each candidate stays from pass to pass, as in a training: what is fastest is found out while batches
are made, and processes are tried after ten seconds.
"""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import peers
from corpus import small_images
from measure import THREADS, Findings, Rates, Verdict, alternate, finish, rest

import dfgen

DEFAULT, TF_DATA = "default arguments", "tf.data by hand"
FILES, SIZE, BATCH = 10_000, 32, 64
TRIED = 15.0  # seconds of work before it is measured
FIXED = {
    "workers=0": {"workers": 0},
    "workers=1": {"workers": 1},
    f"workers={THREADS}": {"workers": THREADS},
    f"{THREADS} processes": {"workers": THREADS, "use_multiprocessing": True},
}


def main() -> Findings:
    paths = [str(path) for path in small_images()[:FILES]]
    sequences = {
        name: sequence(paths, **options) for name, options in {DEFAULT: {}, **FIXED}.items()
    }
    tf_data = peers.tf_data(peers.Job(paths, SIZE, BATCH), peers.tf_data_png)
    begun = time.monotonic()
    while time.monotonic() - begun < TRIED:  # what is fastest is found out by then
        passes(sequences[DEFAULT])()
    rates = alternate(
        {**{name: passes(made) for name, made in sequences.items()}, TF_DATA: tf_data}, rounds=7
    )
    metrics = sequences[DEFAULT].metrics
    chosen = f"{metrics.workers} {'processes' if metrics.use_multiprocessing else 'threads'}"
    print(f"\nPNG 32x32, batch {BATCH}, {THREADS} CPUs; {DEFAULT}: {chosen}", end="")
    rates.show("images", TF_DATA)
    for made in sequences.values():
        made.close()
    return finish(verdicts(rates), {"PNG 32x32 by workers, images/s": rates})


def sequence(paths: list[str], **options: object) -> dfgen.Sequence:
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(SIZE, SIZE))
    return dfgen.Sequence(frame, x=image, batch_size=BATCH, **options)  # type: ignore[arg-type]


def passes(made: dfgen.Sequence) -> Callable[[], int]:
    """Pass after pass; nothing is made ahead while others are timed."""

    def drain() -> int:
        rows = sum(len(images) for (images,) in made)
        rest(made)
        return rows

    return drain


def verdicts(rates: Rates) -> list[Verdict]:
    """Compare with tf.data, and with the best choice by hand of threads, and of all."""
    threads = max((name for name in FIXED if "workers=" in name), key=rates.median)
    best = max(FIXED, key=rates.median)
    of_all = rates.ratio(DEFAULT, best)
    return [
        Verdict(f"PNG 32x32, {DEFAULT}", rates.ratio(DEFAULT, TF_DATA), 1.3, f"x {TF_DATA}"),
        Verdict(f"PNG 32x32, {DEFAULT}", rates.ratio(DEFAULT, threads), 0.9, f"x {threads}"),
        Verdict(f"PNG 32x32, {DEFAULT}", of_all, 0.9, f"x {best}"),
    ]


if __name__ == "__main__":
    main()
