"""Is dfgen ahead of its peers on loose files?"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import cv2
import numpy as np
import pandas as pd
import peers
from bench_decode import distance, with_dfgen, with_tensorflow
from corpus import large_photographs, photographs, small_images
from measure import THREADS, Findings, Rates, Verdict, alternate, finish, rest
from peers import Drain, Job

import dfgen
from dfgen.samples.pixels.decoders import prepare_worker
from dfgen.stores.stores import Stores

BATCH, BARE = 64, "bare decode and resize"
DFGEN, ALIASED = "dfgen", "dfgen, antialias=False"
PROCESSES = "dfgen, use_multiprocessing=True"
TF_DATA = "tf.data by hand"
PILLOW = "torch DataLoader, Pillow"
WITHOUT_FILTER = {
    ALIASED,
    TF_DATA,
    "image_dataset_from_directory",
    "torch DataLoader, OpenCV",
    "Grain, OpenCV",
}
EIGHTH = "decode at 1/8 alone"
FEW = 450  # files for the slow ones


def main() -> Findings:
    ordinary = Job([str(path) for path in photographs()], 224)
    large = Job([str(path) for path in large_photographs()] * 3, 224, batch=24)
    small = Job([str(path) for path in small_images()], 32)
    rates = {
        "JPEG 500x375 to 224x224, images/s": compare(ordinary, candidates_of_photographs(ordinary)),
        "JPEG 3000x2000 to 224x224, images/s": compare(large, candidates_of_large(large)),
        "PNG 32x32, images/s": compare(small, candidates_of_small(small)),
    }
    for title, rate in rates.items():
        print(f"\n{title}, {THREADS} threads or processes", end="")
        rate.show("images", TF_DATA)
    first = next(iter(rates))
    rates[first] = like_with_like(rates[first], ordinary)
    of_photographs, of_large, of_small = rates.values()
    return finish(
        [
            *verdicts_of_photographs(of_photographs),
            verdict_of_large(of_large),
            faster(of_small, "PNG 32x32", DFGEN, TF_DATA, 1.3, aim=1.7),
            faster(of_small, "PNG 32x32", PROCESSES, TF_DATA, 1.3, aim=1.7),
        ],
        rates,
    )


def compare(job: Job, candidates: dict[str, Drain]) -> Rates:
    """Run dfgen, its own decode and resize without a pipeline, and the peers."""
    paths = list(job.paths)
    return alternate(
        {
            DFGEN: sequence_pass(paths, job.size, True, job.batch),
            BARE: bare_loop(paths, job.size, True),
            **candidates,
        }
    )


def like_with_like(rates: Rates, job: Job) -> Rates:
    """Part the candidates that antialias from the others, each group with its grey levels."""
    images = {
        antialias: dfgen.Image(size=job.shape, antialias=antialias) for antialias in (True, False)
    }
    off = {DFGEN: distance(partial(with_dfgen, images[True]), job)}
    off[ALIASED] = distance(partial(with_dfgen, images[False]), job)
    off[TF_DATA] = distance(partial(with_tensorflow, peers.tf_data_image), job)
    print(f"grey levels from Pillow's pixels: {', '.join(f'{one} {off[one]:.2f}' for one in off)}")
    loaders = [name for name in rates.rounds if not name.startswith(BARE)]
    filtered = [name for name in loaders if name not in WITHOUT_FILTER]
    aliased = [name for name in loaders if name in WITHOUT_FILTER]
    few, many = (
        f"antialiased: at most {off[DFGEN]:.1f}",
        f"not antialiased: {off[ALIASED]:.1f} to {off[TF_DATA]:.1f}",
    )
    unit = "grey levels from Pillow's pixels"
    return replace(rates, groups={f"{few} {unit}": filtered, f"{many} {unit}": aliased})


def candidates_of_photographs(job: Job) -> dict[str, Drain]:
    few = Job(job.paths[:FEW], job.size)
    return {
        ALIASED: sequence_pass(list(job.paths), job.size, False, job.batch),
        f"{BARE}, antialias=False": bare_loop(list(job.paths), job.size, False),
        TF_DATA: peers.tf_data(job),
        f"{TF_DATA}, antialias=True": peers.tf_data(few, antialias=True),
        "image_dataset_from_directory": peers.image_dataset(job),
        "flow_from_dataframe, 1 worker": peers.flow_from_dataframe(few, 1),
        f"flow_from_dataframe, {THREADS} threads": peers.flow_from_dataframe(few, THREADS),
        f"flow_from_dataframe, {THREADS} processes": peers.flow_from_dataframe(few, THREADS, True),
        **peers.installed(
            {
                PILLOW: ("torch", lambda: peers.torch_loader(job, peers.with_pillow)),
                "torch DataLoader, OpenCV": (
                    "torch",
                    lambda: peers.torch_loader(job, peers.with_opencv),
                ),
                "Grain, Pillow": ("grain", lambda: peers.grain_threads(job, peers.with_pillow)),
                "Grain, OpenCV": ("grain", lambda: peers.grain_threads(job, peers.with_opencv)),
                "DALI on the CPU": ("nvidia-dali-cuda120", lambda: peers.dali_cpu(job)),
            }
        ),
    }


def candidates_of_large(job: Job) -> dict[str, Drain]:
    return {
        EIGHTH: decode_eighth(job),
        TF_DATA: peers.tf_data(job),
        f"{TF_DATA}, ratio=8": peers.tf_data(job, ratio=8),
        **peers.installed({PILLOW: ("torch", lambda: peers.torch_loader(job, peers.with_pillow))}),
    }


def candidates_of_small(job: Job) -> dict[str, Drain]:
    return {
        PROCESSES: process_pass(list(job.paths), job.size, job.batch),
        TF_DATA: peers.tf_data(job, peers.tf_data_png),
        **peers.installed(
            {
                "torch DataLoader, OpenCV": (
                    "torch",
                    lambda: peers.torch_loader(job, peers.with_opencv),
                ),
            }
        ),
    }


def verdicts_of_photographs(rates: Rates) -> list[Verdict]:
    what = "JPEG 500x375"
    verdicts = [
        faster(rates, what, ALIASED, TF_DATA, 1.05, aim=1.15),
        faster(rates, what, ALIASED, rates.best("flow_from_dataframe"), 2.5),
        faster(rates, what, DFGEN, f"{TF_DATA}, antialias=True", 2.2),
        faster(rates, what, DFGEN, TF_DATA, 0.8, aim=1.0),
    ]
    if PILLOW in rates.rounds:
        verdicts.append(faster(rates, what, DFGEN, PILLOW, 1.5))
    return verdicts


def verdict_of_large(rates: Rates) -> Verdict:
    """Compare; the limit is what no resize and no pipeline can go below: the decode itself."""
    limit = f"decode at 1/8 alone on {THREADS} threads: {rates.ratio(EIGHTH, TF_DATA):.2f} x"
    ratio = rates.ratio(DFGEN, TF_DATA)
    what = f"JPEG 3000x2000, {DFGEN}"
    return Verdict(what, ratio, 2.7, f"x {TF_DATA}", aim=3.5, limit=limit)


def decode_eighth(job: Job) -> Drain:
    """Decode at 1/8 of the size, the least that a JPEG decoder can do, and drop the pixels."""

    def run(share: list[str]) -> int:
        for path in share:
            cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_8)
        return len(share)

    def drain() -> int:
        with ThreadPoolExecutor(THREADS, initializer=prepare_worker) as pool:
            return sum(pool.map(run, [list(job.paths[first::THREADS]) for first in range(THREADS)]))

    return drain


def faster(
    rates: Rates, what: str, candidate: str, peer: str, target: float, aim: float | None = None
) -> Verdict:
    """Compare; the limit is what the same decode and resize make without a pipeline."""
    bare = BARE if candidate == PROCESSES else candidate.replace(DFGEN, BARE)
    limit = f"{bare} on {THREADS} threads, without a pipeline: {rates.ratio(bare, peer):.2f} x"
    ratio = rates.ratio(candidate, peer)
    return Verdict(f"{what}, {candidate}", ratio, target, f"x {peer}", aim=aim, limit=limit)


def sequence_pass(
    paths: list[str], size: int, antialias: bool, batch: int = BATCH
) -> Callable[[], int]:
    """Open a Sequence for each pass: otherwise it would prefetch while others are timed."""
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(size, size), antialias=antialias)

    def drain() -> int:
        with dfgen.Sequence(frame, x=image, batch_size=batch, workers=THREADS) as sequence:
            return sum(len(images) for (images,) in sequence)

    return drain


def process_pass(paths: list[str], size: int, batch: int = BATCH) -> Callable[[], int]:
    """Repeat passes of one Sequence with processes, which take seconds to start."""
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(size, size))
    sequence = dfgen.Sequence(
        frame, x=image, batch_size=batch, workers=THREADS, use_multiprocessing=True
    )

    def drain() -> int:
        rows = sum(len(images) for (images,) in sequence)
        rest(sequence)
        return rows

    return drain


def bare_loop(paths: list[str], size: int, antialias: bool) -> Callable[[], int]:
    """Read, decode and resize in random order into one buffer per thread, without a pipeline."""
    image = dfgen.Image("path", size=(size, size), antialias=antialias)
    order, store = np.random.default_rng(0), Stores()

    def run(share: list[str]) -> int:
        buffer = np.empty((BATCH, size, size, 3), np.uint8)
        for number, path in enumerate(share):
            image.read(path, buffer[number % BATCH], store)
        return len(share)

    def loop() -> int:
        shuffled = [paths[row] for row in order.permutation(len(paths))]
        with ThreadPoolExecutor(THREADS, initializer=prepare_worker) as pool:
            return sum(pool.map(run, [shuffled[first::THREADS] for first in range(THREADS)]))

    return loop


if __name__ == "__main__":
    main()
