"""How far from Pillow's pixels are decode and resize, and how fast in a bare loop on all CPUs?

Only tf.data, which has no other way, runs its whole pipeline; bench_peers judges the speed of
dfgen's. All of them gain from what `prepare_worker` sets for the process.
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
from corpus import large_photographs, photographs, small_images
from measure import THREADS, Findings, Rates, Verdict, alternate, finish
from peers import Job, tf_data, tf_data_image, tf_data_png

import dfgen
from dfgen.samples.pixels.decoders import decode_image, prepare_worker
from dfgen.stores.stores import Stores

Pixels = npt.NDArray[np.uint8]
Load = Callable[[str, Pixels], None]

BASELINE = "tf.data, aliased"
FILTERED, ALIASED = "dfgen, antialias=True", "dfgen, antialias=False"
COMPARED = 24  # files whose distance from Pillow is averaged


@dataclass(frozen=True)
class Question:
    """Files, the side of the square that they become, and how far from Pillow dfgen may be.

    `distances`: candidate -> the largest, None: no further than tf.data.
    """

    what: str
    files: list[Path]
    side: int
    distances: dict[str, float | None] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        return Job([str(file) for file in self.files], self.side, batch=24)


def main() -> Findings:
    prepare_worker()
    verdicts, charts = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for question in questions(Path(folder)):
            rates, distances = answer(question)
            charts[question.what] = rates
            verdicts += judge(question, distances)
    return finish(verdicts, charts)


def questions(folder: Path) -> list[Question]:
    return [
        Question("JPEG 500x375 -> 224", photographs(), 224, {ALIASED: None, FILTERED: 0.7}),
        Question("JPEG 3000x2000 -> 224", large_photographs() * 3, 224, {FILTERED: 1.0}),
        Question("PNG 32x32", small_images()[:10_000], 32, {FILTERED: 0.0}),
        Question("WebP 500x375 -> 224", webp(photographs()[:200], folder), 224),
    ]


def answer(question: Question) -> tuple[Rates, dict[str, float]]:
    job, shape = question.job, (question.side, question.side)
    filtered, aliased = (
        dfgen.Image(size=shape, antialias=antialias) for antialias in (True, False)
    )
    loads: dict[str, Load] = {
        FILTERED: partial(with_dfgen, filtered),
        ALIASED: partial(with_dfgen, aliased),
        "OpenCV, bilinear": partial(with_opencv, cv2.INTER_LINEAR),
        "OpenCV, INTER_AREA": partial(with_opencv, cv2.INTER_AREA),
        "Pillow, draft": partial(with_pillow, True),
        "Pillow": partial(with_pillow, False),
    }
    passes = {name: partial(bare_loop, load, job) for name, load in loads.items()}
    if not question.what.startswith("WebP"):  # tf.data would need another decoder
        peer = tf_data_png if question.what.startswith("PNG") else tf_data_image
        loads[BASELINE] = partial(with_tensorflow, peer)
        passes[BASELINE] = tf_data(job, peer)
    distances = {name: distance(load, job) for name, load in loads.items()}
    rates = alternate(passes, rounds=3)
    print(f"\n{question.what}, {THREADS} threads", end="")
    rates.show("images", BASELINE if BASELINE in passes else "Pillow")
    print("distance:", ", ".join(f"{name} {far:.2f}" for name, far in distances.items()))
    return rates, distances


def judge(question: Question, distances: dict[str, float]) -> list[Verdict]:
    verdicts = []
    for name, most in question.distances.items():
        target = distances[BASELINE] if most is None else most
        what = f"{question.what}, {name}"
        verdicts.append(Verdict(what, distances[name], target, "grey levels away", at_most=True))
    return verdicts


def bare_loop(load: Load, job: Job) -> int:
    """Fill one buffer for each thread over and over, and wait for nothing."""

    def run(paths: list[str]) -> int:
        buffer = np.empty((job.batch, *job.shape, 3), np.uint8)
        for number, path in enumerate(paths):
            load(path, buffer[number % job.batch])
        return len(paths)

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(run, [list(job.paths[first::THREADS]) for first in range(THREADS)]))


def distance(load: Load, job: Job) -> float:
    """Return the mean absolute difference to a full decode and Pillow's bilinear."""
    differences = []
    for path in job.paths[:: -(-len(job.paths) // COMPARED)]:
        out = np.empty((*job.shape, 3), np.uint8)
        load(path, out)
        whole = PIL.Image.fromarray(decode_image(Path(path).read_bytes())[0])
        reference = np.asarray(whole.resize(job.shape, PIL.Image.Resampling.BILINEAR))
        differences.append(np.abs(out.astype(int) - reference).mean())
    return float(np.mean(differences))


def with_dfgen(image: dfgen.Image, path: str, out: Pixels) -> None:
    image.read(path, out, Stores())


def with_opencv(interpolation: int, path: str, out: Pixels) -> None:
    pixels = cv2.imdecode(np.frombuffer(Stores().read(path), np.uint8), cv2.IMREAD_COLOR_RGB)
    cv2.resize(pixels, out.shape[:2], out, interpolation=interpolation)


def with_pillow(draft: bool, path: str, out: Pixels) -> None:
    with PIL.Image.open(path) as image:
        if draft:
            image.draft("RGB", (out.shape[1] * 3 // 2, out.shape[0] * 3 // 2))
        small = image.convert("RGB").resize(out.shape[:2], PIL.Image.Resampling.BILINEAR)
    out[...] = np.asarray(small)


def with_tensorflow(peer: Callable[[str, int], Pixels], path: str, out: Pixels) -> None:
    out[...] = peer(path, len(out))


def webp(files: list[Path], folder: Path) -> list[Path]:
    for file in files:
        cv2.imwrite(
            str(folder / f"{file.stem}.webp"), cv2.imread(str(file)), [cv2.IMWRITE_WEBP_QUALITY, 90]
        )
    return sorted(folder.iterdir())


if __name__ == "__main__":
    main()
