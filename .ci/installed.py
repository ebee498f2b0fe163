"""Trains with a dfgen that is installed: `installed.py CHECKOUT`, of which nothing may be loaded.

It runs on Linux, macOS and Windows, on any backend of Keras, in an empty folder.
"""

import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import cv2
import keras
import numpy as np

import dfgen

CHECKOUT, HOME = Path(sys.argv[1]).resolve(), Path(dfgen.__file__).resolve().parent
COMMAND = Path(sysconfig.get_path("scripts"), "dfgen")


def run(*arguments: str) -> str:
    """Return what the installed command prints."""
    return subprocess.run(
        [COMMAND, *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def expect(what: str, found: object, wanted: object) -> None:
    """Print a line, or leave with what was found."""
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}")
    print(f"  {what}: {found}")


def main() -> None:
    """Make a manifest by the command, train on it, and write a report of it."""
    elsewhere = HOME != CHECKOUT / "dfgen" and str(CHECKOUT) not in map(str, map(Path, sys.path))
    expect("import dfgen, from outside of the checkout", elsewhere, True)
    expect("its metadata are of its version", version("keras-dfgen"), dfgen.__version__)
    expect("dfgen --version", run("--version").split()[-1], dfgen.__version__)
    for number in range(32):
        path = Path("imgs", ("even", "odd")[number % 2], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((8, 8, 3), number, np.uint8))
    run("build-manifest", "imgs", "--pattern", "{kind}/{id}.png", "--out", "m.parquet")
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for processes in (False, True)[: 1 if sys.platform == "win32" else 2]:
        with dfgen.Sequence(
            "m.parquet", image_size=(8, 8), batch_size=8, workers=2, use_multiprocessing=processes
        ) as train:
            model.fit(train, epochs=2, verbose=0)
            counts = train.receipt.rows, train.receipt.repeated, train.receipt.missing
        expect(f"rows of an epoch in {'processes' if processes else 'threads'}", counts, (32, 0, 0))
    run("report", "m.parquet", "--out", "m.html")
    expect("dfgen report writes a page", Path("m.html").stat().st_size > 10_000, True)


if __name__ == "__main__":
    main()
