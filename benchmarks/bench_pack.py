"""How fast are packs written, beside bare decode and resize on as many cores, and the disk itself?

Three shards of 256 MB, so that what is idle between them and at the end counts. The disk's figure
is the same bytes written and flushed, with nothing decoded.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bench_decode import bare_loop, with_dfgen
from corpus import large_photographs, photographs
from measure import THREADS, Findings, Verdict, alternate, finish
from peers import Job

import dfgen
from dfgen.samples.pixels.upright import prepare_worker

SIDE = 224
BARE, PACKED, DISK = "bare decode and resize", "dfgen.pack", "the disk writes the same bytes"


def main() -> Findings:
    prepare_worker()
    files = [str(file) for file in photographs()] * 3
    large = [str(file) for file in large_photographs()] * 4
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        rates = alternate(passes(files, Path(folder), image_size=(SIDE, SIDE)), rounds=3)
        print(f"\nJPEG 500x375 -> {SIDE} as pixels, {THREADS} threads", end="")
        rates.show("images", BARE)
        others = alternate(passes(large, Path(folder), format="jpeg"), rounds=3)
        print(f"\nJPEG 3000x2000 -> JPEG 512, {THREADS} threads", end="")
        others.show("images", BARE)
    limited = max(rates.ratio(PACKED, BARE), rates.ratio(PACKED, DISK))
    what = "packing as pixels, JPEG 500x375 -> 224"
    return finish([Verdict(what, limited, 0.9, "x the slower of loop, disk")], {what: rates})


def passes(files: list[str], folder: Path, **arguments: object) -> dict[str, Callable[[], int]]:
    frame = pd.DataFrame({"id": range(len(files)), "path": files})
    image = dfgen.Image(size=(SIDE, SIDE))
    return {
        BARE: partial(bare_loop, partial(with_dfgen, image), Job(files, SIDE, batch=24)),
        PACKED: partial(packed, frame, folder / "out", arguments),
        DISK: partial(written, len(files), folder / "bytes"),
    }


def packed(frame: pd.DataFrame, out: Path, arguments: dict[str, object]) -> int:
    dfgen.pack(frame, out, **arguments)
    shutil.rmtree(out)
    return len(frame)


def written(count: int, path: Path) -> int:
    pixels = np.ones((64, SIDE, SIDE, 3), np.uint8)
    with open(path, "wb", 0) as file:
        for _ in range(-(-count // 64)):
            file.write(pixels)
        os.fsync(file.fileno())
    path.unlink()
    return count


if __name__ == "__main__":
    main()
