"""Is dfgen ahead of its peers on loose files?

Prints a table for each kind of file. `--chart` also draws the first one for the docs.
"""

import sys
import time

import numpy as np
import pandas as pd
import peers
from corpus import large_photographs, photographs, small_images
from measure import HERE, THREADS, Rates, alternate
from peers import Drain, Job

import dfgen

DFGEN, ALIASED, TF_DATA = "dfgen", "dfgen, antialias=False", "tf.data"
FEW = 450  # files for slow candidates
TUNED = 15.0  # seconds after which dfgen has chosen its workers
ALIASING = {TF_DATA, ALIASED, "image_dataset_from_directory"}


def main() -> None:
    ordinary = Job([str(path) for path in photographs()], 224)
    rates = alternate(of_photographs(ordinary))
    print(rates.table(f"JPEG 500x375 to 224x224, {THREADS} CPUs", TF_DATA))
    print(f"\nMean distance from a full decode and Pillow's resize: {fidelity(ordinary)}.\n")
    if "--chart" in sys.argv:
        draw(rates)
    large = Job([str(path) for path in large_photographs()] * 3, 224, batch=24)
    print(alternate(of_large(large)).table("JPEG 3000x2000 to 224x224", TF_DATA))
    small = Job([str(path) for path in small_images()[:10_000]], 32)
    print(f"\n{alternate(of_small(small), rounds=7).table('PNG 32x32', TF_DATA)}")


def of_photographs(job: Job) -> dict[str, Drain]:
    few = Job(job.paths[:FEW], job.size)
    return {
        DFGEN: opened(job),
        ALIASED: opened(job, antialias=False),
        TF_DATA: peers.tf_data(job),
        "tf.data, antialias=True": peers.tf_data(few, antialias=True),
        "image_dataset_from_directory": peers.image_dataset(job),
        f"flow_from_dataframe, {THREADS} threads": peers.flow_from_dataframe(few, THREADS),
        f"flow_from_dataframe, {THREADS} processes": peers.flow_from_dataframe(few, THREADS, True),
        **of_libraries(job),
    }


def of_libraries(job: Job) -> dict[str, Drain]:
    loads = {"Pillow": peers.with_pillow, "OpenCV": peers.with_opencv}
    candidates = {}
    for name, load in loads.items():
        candidates[f"torch DataLoader, {name}"] = (
            "torch",
            lambda load=load: peers.torch_loader(job, load),
        )
        candidates[f"Grain, {name}"] = ("grain", lambda load=load: peers.grain_threads(job, load))
    return peers.installed(candidates)


def of_large(job: Job) -> dict[str, Drain]:
    return {
        DFGEN: opened(job),
        TF_DATA: peers.tf_data(job),
        "tf.data, ratio=8": peers.tf_data(job, ratio=8),
        **of_libraries(job),
    }


def of_small(job: Job) -> dict[str, Drain]:
    """Small files: the Sequences stay open, because their choice of workers takes some seconds."""
    own = {
        DFGEN: {},
        "dfgen, workers=0": {"workers": 0},
        f"dfgen, workers={THREADS}": {"workers": THREADS},
        f"dfgen, {THREADS} processes": {"workers": THREADS, "use_multiprocessing": True},
    }
    drains = {name: kept(sequence(job, **options)) for name, options in own.items()}
    begin = time.monotonic()
    while time.monotonic() - begin < TUNED:
        drains[DFGEN]()
    return {**drains, TF_DATA: peers.tf_data(job, peers.tf_data_png), **of_libraries(job)}


def sequence(job: Job, antialias: bool = True, **options: object) -> dfgen.Sequence:
    frame = pd.DataFrame({"id": range(len(job.paths)), "path": job.paths})
    image = dfgen.Image("path", size=job.shape, antialias=antialias)
    return dfgen.Sequence(frame, x=image, batch_size=job.batch, **options)  # type: ignore[arg-type]


def opened(job: Job, antialias: bool = True) -> Drain:
    """Open a Sequence for each pass, so that nothing is prefetched before it is timed."""

    def drain() -> int:
        with sequence(job, antialias, workers=THREADS) as data:
            return sum(len(images) for (images,) in data)

    return drain


def kept(data: dfgen.Sequence) -> Drain:
    """Drain the same Sequence in each pass; its prefetch is dropped at the end."""

    def drain() -> int:
        rows = sum(len(images) for (images,) in data)
        data._loader.stream(epoch=1_000_000).close()
        return rows

    return drain


def fidelity(job: Job, count: int = 24) -> str:
    """Return the mean distance of some images from Pillow's, in gray levels."""
    paths = list(job.paths[:: len(job.paths) // count])
    few = Job(paths, job.size, batch=len(paths))
    wanted = np.stack([peers.with_pillow(path, job.size) for path in paths]).astype(int)
    found = {TF_DATA: np.stack([peers.tf_data_image(path, job.size) for path in paths])}
    for name, antialias in ((DFGEN, True), (ALIASED, False)):
        with sequence(few, antialias, shuffle=False) as data:
            found[name] = data[0][0]
    far = {name: np.abs(images - wanted).mean() for name, images in found.items()}
    return ", ".join(f"{name} {levels:.2f} gray levels" for name, levels in far.items())


def draw(rates: Rates) -> None:
    """Draw medians as bars, fastest first; those that antialias are in front."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    groups: dict[str, list[str]] = {"antialiased": [], "not antialiased": []}
    for name in rates.rounds:
        aliased = name in ALIASING or name.endswith("OpenCV")
        groups["not antialiased" if aliased else "antialiased"].append(name)
    for axes, (title, names) in zip(figure.subplots(2, sharex=True), groups.items(), strict=True):
        names.sort(key=rates.median)
        colors = ["#d1495b" if name.startswith(DFGEN) else "#8d99ae" for name in names]
        bars = axes.barh(names, [rates.median(name) for name in names], color=colors)
        axes.bar_label(bars, fmt=" {:,.0f}", fontsize=8)
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"JPEG 500x375 to 224x224, images/s on {THREADS} CPUs", x=0.01, ha="left")
    figure.savefig(HERE.parent / "docs/pictures/loaders.png", dpi=80)


if __name__ == "__main__":
    main()
