"""`dfgen bench`: images per second of a Sequence, and its bottleneck."""

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any

import dfgen
from dfgen.errors import ArgumentError, did_you_mean
from dfgen.loading.metrics import STAGES
from dfgen.machine import usable_cpus
from dfgen.manifest.io import Path
from dfgen.training import keras

_CLASSES = 1000
_WARM_UP = 0.2  # share of `seconds`


def bench(
    manifest: Path,
    *,
    image_size: tuple[int, int] = (256, 256),
    batch_size: int = 32,
    workers: int | None = None,
    cache: Path | None = None,
    root: Path | None = None,
    seconds: float = 5.0,
    model: str | None = None,
) -> dict[str, Any]:
    """Measure how fast batches come from a manifest, and what limits them.

    Batches are those of a `dfgen.Sequence`, so files, URLs, packs and caches are measured as they
    are. Rows that cannot be read are counted as `problems`.

    Args:
        manifest: The manifest to measure, or the folder or URL of a pack.
        image_size: Height and width of the images in pixels.
        batch_size: Images per batch.
        workers: Threads that make batches. Default: all CPUs.
        cache: The folder of a cache to read pixels from, and to fill.
        root: Folder where relative paths start, if the manifest was moved.
        seconds: How long to measure, after a fifth of this time to warm up.
        model: Also train this model of keras.applications, and measure how long it waits.

    Returns:
        `images_per_second`, `bytes_per_second` read, `workers`, `busy` (the share of their time
        that they worked), `stages` (the share of each stage of that), the settings, and `model`.

    Raises:
        ArgumentError: a value is not allowed, or the model takes no images of this size.
        ManifestError: the manifest has no rows, or cannot be read.
        MissingFileError: there is no such manifest, or none of its files exists.

    Example:
        >>> bench("pets.parquet", image_size=(224, 224))["images_per_second"]  # doctest: +SKIP
    """
    if not seconds > 0:
        raise ArgumentError(f"seconds={seconds} must be more than 0: try seconds=5")
    settings: dict[str, Any] = {"image_size": image_size, "batch_size": batch_size}

    def sequence() -> dfgen.Sequence:
        label = dfgen.Column("id", lambda _: 0, dtype="int32")
        return dfgen.Sequence(
            manifest, y=label, on_error="skip", workers=workers, cache=cache, root=root, **settings
        )

    trained = None if model is None else _application(model, image_size)
    with sequence() as seq:
        batches = iter(seq.repeat())
        _rate(seq, batches, _WARM_UP * seconds)
        figures = _rate(seq, batches, seconds)
        figures |= {"rows": len(seq.row_counts()), "problems": len(seq.problems)}
    if model is not None:
        with sequence() as seq:
            figures["model"] = {"name": model, **_fit(seq, trained, seconds)}
    setting = {"dfgen": dfgen.__version__, "backend": keras.backend.backend()}
    return {"manifest": str(manifest), **setting, "cpus": usable_cpus(), **settings, **figures}


def _rate(seq: dfgen.Sequence, batches: Iterator[Any], seconds: float) -> dict[str, Any]:
    """Take batches for some seconds; return what the Sequence's metrics say of this time."""
    before, images, began = seq.metrics, 0, time.perf_counter()
    while (lasted := time.perf_counter() - began) < seconds or not images:
        images += len(next(batches)[0])
    after = seq.metrics
    spent = {stage: after.seconds[stage] - before.seconds[stage] for stage in STAGES}
    working = sum(spent.values())
    return {
        "images_per_second": images / lasted,
        "bytes_per_second": (after.bytes - before.bytes) / lasted,
        "workers": after.workers,
        "use_multiprocessing": after.use_multiprocessing,
        "busy": min(1.0, working / (max(1, after.workers) * lasted)),
        "stages": {stage: part / working for stage, part in spent.items() if part},
    }


def _application(name: str, image_size: tuple[int, int]) -> Any:
    """Return a compiled model of `keras.applications` without weights."""
    models = [key for key, value in vars(keras.applications).items() if key[0].isupper() and value]
    if name not in models:
        raise ArgumentError(
            f'"{name}" is not a model of keras.applications.{did_you_mean(name, models)} '
            f"Models: {', '.join(sorted(models))}"
        )
    shape = (*image_size, 3)
    if keras.config.image_data_format() == "channels_first":
        shape = (3, *image_size)
    try:
        model = getattr(keras.applications, name)(weights=None, input_shape=shape, classes=_CLASSES)
    except ValueError as error:
        height, width = image_size
        raise ArgumentError(
            f"{name} does not take images of {height}x{width}: {error}. Give another --image-size"
        ) from error
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def _fit(seq: dfgen.Sequence, model: Any, seconds: float) -> dict[str, Any]:
    """Train for about some seconds; return the rate, the share of waiting, and the verdict."""
    batches = seq.repeat()
    model.fit(batches, steps_per_epoch=1, verbose=0)  # compiles
    began = time.perf_counter()
    model.fit(batches, steps_per_epoch=2, verbose=0)
    steps = 1 + round(2 * seconds / (time.perf_counter() - began))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        history = model.fit(
            batches, steps_per_epoch=steps, callbacks=[dfgen.InputMonitor()], verbose=2
        ).history
    return {
        "steps": steps,
        "images_per_second": history["images_per_second"][-1],
        "input_wait": history["input_wait"][-1],
        "verdict": printed.getvalue().partition("dfgen: ")[2].strip(),
    }


def table(figures: dict[str, Any]) -> str:
    """Return figures as text."""
    height, width = figures["image_size"]
    stages = sorted(figures["stages"].items(), key=lambda item: -item[1])
    shares = ", ".join(f"{stage} {share:.0%}" for stage, share in stages if share >= 0.005)
    workers = "processes" if figures["use_multiprocessing"] else "threads"
    lines = [
        f"{figures['manifest']}: {figures['rows']:,} rows to {height}x{width}, batches of "
        f"{figures['batch_size']}, {figures['cpus']} CPUs, backend {figures['backend']}",
        f"{figures['images_per_second']:,.0f} images/s, {figures['bytes_per_second'] / 1e6:,.1f} "
        f"MB/s read; {figures['workers']} {workers} busy {figures['busy']:.0%}: {shares}",
    ]
    if figures["problems"]:
        lines.append(f"{figures['problems']} rows cannot be read; dfgen verify lists them")
    if model := figures.get("model"):
        rate = f"{model['images_per_second']:,.0f} images/s"
        lines.append(f"{model['name']}: {rate}; {model['verdict']}")
    return "\n".join(lines)
