"""What do polygons, keypoints, sounds of unequal length and mixed sources cost?"""

import json
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
from bench_features import filled
from corpus import photographs, small_images
from in_memory import rest
from measure import THREADS, Findings, Verdict, alternate, finish

import dfgen
from dfgen.loading.metrics import Stopwatch
from dfgen.samples.pixels.geometry import place
from dfgen.samples.pixels.upright import prepare_worker

SIZE, FILES, ROUNDS = 640, 48, 20
OBJECTS, CORNERS = 7, 24  # of an image of COCO, about
RATE, SOUNDS = 16_000, 1000
KINDS = tuple(f"kind {number}" for number in range(OBJECTS))
IMAGE = dfgen.Image(size=(SIZE, SIZE))


def main() -> Findings:
    prepare_worker()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return finish([*regions(folder), sounds(folder), mixture()])


def regions(folder: Path) -> list[Verdict]:
    frame = annotated(folder)
    rates = alternate(
        {
            "image": filled(frame, IMAGE),
            "image and PNG mask": filled(frame, IMAGE, dfgen.Mask("mask")),
            "image and polygons": filled(frame, IMAGE, dfgen.Segmentation(class_names=KINDS)),
            "keypoints": moved(frame, dfgen.Keypoints(max_items=OBJECTS)),
        },
        ROUNDS,
    )
    print(f"\nJPEG {SIZE}x{SIZE}, {OBJECTS} polygons of {CORNERS} corners, one thread", end="")
    rates.show("rows", "image")
    drawn = rates.ratio("image and PNG mask", "image and polygons")
    points = rates.ratio("image", "keypoints")
    return [
        Verdict("image and polygons", drawn, 1.15, "x time of PNG mask", at_most=True),
        Verdict("Keypoints alone", points, 0.02, "x time of image", at_most=True),
    ]


def sounds(folder: Path) -> Verdict:
    frame = recorded(folder)
    own = {"bucket_by": "length"}
    rates = alternate(
        {
            "fixed": drained(frame, dfgen.Audio("path", RATE, seconds=3)),
            "padded": drained(frame, dfgen.Audio("path", RATE, seconds=None)),
            "padded, in buckets": drained(frame, dfgen.Audio("path", RATE, seconds=None), **own),
        },
        rounds=9,
    )
    print(f"\nWAV of 1 to 3 s, {RATE} Hz, {THREADS} threads", end="")
    rates.show("sounds", "fixed")
    return Verdict("sounds padded, in buckets", rates.ratio("padded, in buckets", "fixed"), 1,
                   "x fixed length")  # fmt: skip


def mixture() -> Verdict:
    files = [str(path) for path in small_images()[:8192]]
    frame = pd.DataFrame({"id": range(len(files)), "path": files})
    source = pd.Categorical(np.where(frame["id"] % 4, "ours", "theirs"))
    mixed = frame.assign(source=source)
    image, shares = dfgen.Image(size=(32, 32)), {"source": {"ours": 0.5, "theirs": 0.5}}
    rates = alternate(
        {
            "one source": drained(frame, image),
            "two sources": drained(mixed, image, balance=shares),
        },
        rounds=9,
    )
    print(f"\nPNG 32x32, {THREADS} threads", end="")
    rates.show("images", "one source")
    return Verdict("two sources by balance=", rates.ratio("two sources", "one source"), 0.98,
                   "x one source")  # fmt: skip


def drained(frame: pd.DataFrame, x: Any, **options: Any) -> Callable[[], int]:
    """Make an epoch; nothing is made ahead while others are timed."""
    made = dfgen.Sequence(frame, x, batch_size=32, workers=THREADS, **options)

    def once() -> int:
        for _ in made:
            pass
        rest(made._loader)
        return len(frame)

    return once


def moved(frame: pd.DataFrame, points: dfgen.Keypoints) -> Callable[[], int]:
    """Make the points of all rows, without the images, in which they would drown."""
    sequence = dfgen.Sequence(frame, IMAGE, points, workers=0)
    reader = sequence._loader.reader
    bound = next(one for one in reader.features if isinstance(one.feature, dfgen.Keypoints))
    source, spec = reader.source(bound), bound.feature.spec
    out = np.empty((len(frame), *spec.shape), spec.dtype)
    geometry: Any = place((SIZE, SIZE), (SIZE, SIZE), (SIZE, SIZE), "stretch")

    def once() -> int:
        for row, array in enumerate(out):
            source.read(row, array, reader.store, Stopwatch(), geometry)
        return len(frame)

    return once


def annotated(folder: Path) -> pd.DataFrame:
    """Return images with polygons, and with masks of the same regions."""
    rng, rows = np.random.default_rng(0), []
    for number, file in enumerate(photographs()[:FILES]):
        path, mask = f"{folder}/{number}.jpg", f"{folder}/{number}.png"
        cv2.imwrite(path, cv2.resize(cv2.imread(str(file)), (SIZE, SIZE)))
        polygons = [outline(rng) for _ in range(OBJECTS)]
        drawn = np.zeros((SIZE, SIZE), np.uint8)
        for kind, polygon in enumerate(polygons, 1):
            cv2.fillPoly(drawn, [polygon.round().astype(np.int32)], kind)
        cv2.imwrite(mask, drawn)
        regions = [json.dumps([polygon.ravel().round(2).tolist()]) for polygon in polygons]
        points = rng.uniform(0, SIZE, (OBJECTS, 17, 3))
        points[..., 2] = 2
        rows.append((number, path, mask, regions, KINDS, points.reshape(OBJECTS, -1).tolist()))
    names = ["id", "path", "mask", "segmentation", "labels", "keypoints"]
    return pd.DataFrame(rows, columns=names).assign(width=SIZE, height=SIZE)


def outline(rng: np.random.Generator) -> Any:
    """Return the corners of a region as large as many in COCO: a sixth of the image across."""
    angles = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    radii = rng.uniform(0.06, 0.1, CORNERS) * SIZE * rng.uniform(0.5, 2)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii[:, None]
    return (circle + rng.uniform(0.2, 0.8, 2) * SIZE).clip(0, SIZE - 1)


def recorded(folder: Path) -> pd.DataFrame:
    rng, rows = np.random.default_rng(0), []
    for number in range(SOUNDS):
        path, frames = f"{folder}/{number}.wav", int(RATE * rng.uniform(1, 3))
        with wave.open(path, "wb") as file:
            file.setparams((1, 2, RATE, frames, "NONE", ""))
            file.writeframes(rng.integers(-9999, 9999, frames).astype("<i2").tobytes())
        rows.append((number, path, frames))
    return pd.DataFrame(rows, columns=["id", "path", "frames"])


if __name__ == "__main__":
    main()
