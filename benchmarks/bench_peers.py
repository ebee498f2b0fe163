"""Is dfgen ahead of its peers on loose files, and no further from Pillow's pixels?"""

from collections.abc import Callable

import numpy as np
import peers
from bench_loader import BARE, bare_loop, sequence_pass
from corpus import large_photographs, photographs, small_images
from measure import THREADS, Findings, Rates, Verdict, alternate, finish
from peers import Drain, Job, Pixels

import dfgen

DFGEN, ALIASED = "dfgen", "dfgen, antialias=False"
TF_DATA = "tf.data by hand"
PILLOW = "torch DataLoader, Pillow"
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
    of_photographs, of_large, of_small = rates.values()
    return finish(
        [
            *verdicts_of_photographs(of_photographs),
            *fidelity(ordinary.paths[::30], "500x375", {True: 0.7, False: None}),
            faster(of_large, "JPEG 3000x2000", DFGEN, TF_DATA, 2.7, aim=3.5),
            *fidelity(large.paths[:24:2], "3000x2000", {True: 1.0}),
            faster(of_small, "PNG 32x32", DFGEN, TF_DATA, 1.3, aim=1.7),
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
        TF_DATA: peers.tf_data(job),
        f"{TF_DATA}, ratio=8": peers.tf_data(job, ratio=8),
        **peers.installed({PILLOW: ("torch", lambda: peers.torch_loader(job, peers.with_pillow))}),
    }


def candidates_of_small(job: Job) -> dict[str, Drain]:
    return {
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


def faster(
    rates: Rates, what: str, candidate: str, peer: str, target: float, aim: float | None = None
) -> Verdict:
    """Compare; the limit is what the same decode and resize make without a pipeline."""
    bare = candidate.replace(DFGEN, BARE)
    limit = f"{bare} on {THREADS} threads, without a pipeline: {rates.ratio(bare, peer):.2f} x"
    ratio = rates.ratio(candidate, peer)
    return Verdict(f"{what}, {candidate}", ratio, target, f"x {peer}", aim=aim, limit=limit)


def fidelity(paths: list[str], what: str, targets: dict[bool, float | None]) -> list[Verdict]:
    """Compare differences to full decode and Pillow's resize; None: no further than tf.data."""
    of_tf_data = difference(paths, lambda path: peers.tf_data_image(path, 224).numpy())
    print(f"\n{what}: mean difference to Pillow's pixels, of 255: tf.data {of_tf_data:.2f}", end="")
    verdicts = []
    for antialias, target in targets.items():
        image = dfgen.Image("path", size=(224, 224), antialias=antialias)
        figure = difference(paths, lambda path, image=image: image({"path": path}))
        print(f", dfgen with antialias={antialias} {figure:.2f}", end="")
        name = f"difference, JPEG {what}, {DFGEN if antialias else ALIASED}"
        limit = of_tf_data if target is None else target
        verdicts.append(Verdict(name, figure, limit, "of 255", at_most=True))
    print()
    return verdicts


def difference(paths: list[str], load: Callable[[str], Pixels]) -> float:
    """Return the mean absolute difference to what Pillow makes of whole images."""
    pairs = ((load(path), peers.with_pillow(path, 224)) for path in paths)
    return float(np.mean([np.abs(ours.astype(int) - theirs).mean() for ours, theirs in pairs]))


if __name__ == "__main__":
    main()
