"""How fast are packs read, beside a bare gather, tf.data's cache in memory, and a bare hand-over?

And packs of smaller JPEGs, beside the large photographs that they were made of.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import peers
from corpus import large_photographs
from measure import THREADS, Findings, Rates, Verdict, alternate, finish, in_new_process

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.ordering import Ordering
from dfgen.loading.loader import Loader
from dfgen.loading.order.shuffle import permutation
from dfgen.samples.features.image import Image

ROWS, SIDE, BATCH = 4_000, 224, 128
EPOCHS = 24  # so many that the beginning and the end hardly count
GATHER, READY = f"bare gather, {THREADS} threads", "fit over ready arrays"
BOTH = "both at once, the slower of them"
CACHED, CACHED_BATCHES = "tf.data .cache() of images", "tf.data .cache() of batches"
DRAIN, SMALLER = "packed pixels, drained as NumPy", "JPEG 512 packed, random resized crops"
FFCV = "FFCV, raw pixels"
NO_FFCV = "FFCV's build needs OpenCV and libturbojpeg of the system, and pkg-config"
BACKENDS = ("tensorflow", "torch", "jax")


def main() -> Findings:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        pack = made_pack(Path(folder), ROWS, SIDE)
        rates = in_new_process(drained_all, pack)
        print(f"\nPacked pixels {SIDE}x{SIDE}, warm, batch {BATCH}, drained as NumPy", end="")
        rates.show("images", GATHER)
        fits = {backend: in_new_process(fitted_all, pack, backend=backend) for backend in BACKENDS}
        shutil.rmtree(pack)
        smaller = in_new_process(crops, Path(folder))
        print("\nJPEG 3000x2000, random resized crops to 224", end="")
        smaller.show("images", "loose files")
    remark = (
        f"FFCV: {rates.ratio(FFCV, GATHER):.2f} x a gather" if FFCV in rates.rounds else NO_FFCV
    )
    drain, fit = partial(rates.ratio, "dfgen"), "packed pixels, fit on {}, empty step"
    slower = "x slower of gather, hand-over, at once"
    cropped = smaller.ratio("packed", "loose files")
    return finish(
        [
            Verdict(DRAIN, drain(GATHER), 0.85, "x a gather", limit=remark),
            Verdict(DRAIN, drain(CACHED), 1, f"x {CACHED}"),
            *(Verdict(fit.format(backend), ratio, 0.9, slower) for backend, ratio in fits.items()),
            Verdict(SMALLER, cropped, 5, "x loose 3000x2000"),
        ],
        {f"Packed pixels {SIDE}x{SIDE}, images/s": rates},
    )


def made_pack(folder: Path, rows: int, side: int, **arguments: Any) -> Path:
    """Pack noise: a thousand files, again and again."""
    files = folder / "files"
    files.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(1000):
        noise = rng.integers(0, 256, (side, side, 3), np.uint8)
        cv2.imwrite(f"{files}/{number}.jpg", noise, [cv2.IMWRITE_JPEG_QUALITY, 40])
    paths = [f"{files}/{number % 1000}.jpg" for number in range(rows)]
    out = folder / f"pack{side}"
    frame = pd.DataFrame({"id": range(rows), "path": paths})
    dfgen.pack(frame, out, image_size=(side, side), **arguments)
    shutil.rmtree(files)
    return out


def drained_all(pack: Path) -> Rates:
    arrays = views(pack)
    return alternate(
        beside(arrays, pack)
        | {
            GATHER: lambda: sum(bare_gather(arrays, BATCH) for _ in range(EPOCHS)),
            "dfgen": partial(drained, Image(), pack, epochs=EPOCHS),
            "dfgen, no windows": partial(
                drained, Image(), dfgen.read_manifest(pack), windows=False, epochs=EPOCHS
            ),
            "dfgen, crop 192 and flip": partial(drained, CROPPED, pack),
            "dfgen, scaled": partial(drained, Image(scale="0..1"), pack),
            CACHED: tf_cached(arrays, of_batches=False),
            CACHED_BATCHES: tf_cached(arrays, of_batches=True),
        }
    )


def beside(arrays: list[npt.NDArray[np.uint8]], pack: Path) -> dict[str, Callable[[], int]]:
    """Return what drains FFCV, if it can be had here."""
    try:
        drain = peers.ffcv_raw(np.concatenate(arrays), str(pack.with_suffix(".beton")), BATCH)
    except ImportError as error:
        print(f"left out: {FFCV} ({error}): {NO_FFCV}")
        return {}
    return {FFCV: lambda: sum(drain() for _ in range(EPOCHS))}


CROPPED = Image(size=(192, 192), load_size=(SIDE, SIDE), crop="random", flip="horizontal")


def drained(
    image: Image,
    manifest: Any,
    batch: int = BATCH,
    windows: bool = True,
    epochs: int = 8,
    window: int = 10**9,
) -> int:
    """Drain epochs, of a Loader for each pass: one that stays would work ahead of its time."""
    bound = bind(
        manifest, x=image, options=Options(label_mode=None), ordering=Ordering(window=window)
    )
    loader = Loader(bound.reader, batch_size=batch, order=bound.order if windows else None)
    ahead, images = loader.stream(0), 0
    for _ in range(epochs * len(loader)):
        images += len(next(ahead).arrays["image"])
    ahead.close()
    loader.close()
    return images


def views(pack: Path) -> list[npt.NDArray[np.uint8]]:
    """Return the pixels of each shard, mapped, with every page touched."""
    shards = bind(pack, options=Options(label_mode=None)).columns.packs.shards("path")
    found = [shards[number].pixels for number in range(len(shards))]
    for pixels in found:
        pixels[:, ::8].max()
    return found


def bare_gather(shards: list[npt.NDArray[np.uint8]], batch: int, buffers: int = 6) -> int:
    """Copy all rows in random order, as a loop by hand would, into some buffers a thread in turn.

    Each batch is of one shard, so that one call of NumPy copies it.
    """
    order = [
        (shard, rows)
        for shard in shards
        for rows in permutation(np.arange(len(shard)), len(shard), seed=0, epoch=0)[
            : len(shard) // batch * batch
        ].reshape(-1, batch)
    ]

    def run(share: list[Any]) -> None:
        own = [np.empty((batch, *shards[0].shape[1:]), np.uint8) for _ in range(buffers)]
        for number, (shard, rows) in enumerate(share):
            np.take(shard, rows, axis=0, out=own[number % buffers], mode="clip")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, [order[part::THREADS] for part in range(THREADS)]))
    return len(order) * batch


def tf_cached(shards: list[npt.NDArray[np.uint8]], of_batches: bool) -> Any:
    """Return what drains tf.data's cache in memory: of images, shuffled and batched; of batches."""
    import tensorflow as tf

    def samples() -> Iterable[Any]:
        return (image for shard in shards for image in shard)

    spec = tf.TensorSpec(shards[0].shape[1:], tf.uint8)
    data = tf.data.Dataset.from_generator(samples, output_signature=spec)
    rows = sum(map(len, shards))
    data = data.batch(BATCH).cache() if of_batches else data.cache().shuffle(rows).batch(BATCH)
    data = data.prefetch(tf.data.AUTOTUNE)
    data = data.repeat(EPOCHS)
    return lambda: sum(len(images) for images in data.as_numpy_iterator())


def fitted_all(pack: Path) -> float:
    """Return fit on a pack beside the slower of a bare gather and a bare hand-over.

    These share the CPUs, as in any loader: they run at once, for as many batches each.
    """
    import warnings

    import keras
    from models import idle_model, ready_dataset

    warnings.filterwarnings("ignore", "`shuffle=True` was passed")

    arrays, idle, steps = views(pack), idle_model(), EPOCHS * (ROWS // BATCH)
    shape = (BATCH, SIDE, SIDE, 3)
    image = np.zeros(shape, np.uint8)

    def ready() -> Any:
        if keras.backend.backend() == "tensorflow":
            return ready_dataset(steps, shape)
        return ((image,) for _ in range(steps))  # without tf.data in between

    def fitted(data: Any) -> int:
        idle.fit(data, steps_per_epoch=steps, verbose=0)
        return steps * BATCH

    def gathered() -> int:
        return sum(bare_gather(arrays, BATCH) for _ in range(EPOCHS))

    def at_once() -> int:
        with ThreadPoolExecutor(1) as beside:
            gathering = beside.submit(gathered)
            return min(fitted(ready()), gathering.result())

    def from_pack() -> int:
        with dfgen.Sequence(
            pack, label_mode=None, batch_size=BATCH, drop_remainder=True
        ) as sequence:
            return fitted(sequence.repeat())

    rates = alternate(
        {
            GATHER: gathered,
            READY: lambda: fitted(ready()),
            BOTH: at_once,
            "dfgen": from_pack,
        },
        rounds=3,
    )
    print("\nfit with an empty step", end="")
    rates.show("images", GATHER)
    return rates.ratio("dfgen", BOTH)


def crops(folder: Path) -> Rates:
    files = [str(file) for file in large_photographs()] * 2
    frame = pd.DataFrame({"id": range(len(files)), "path": files})
    dfgen.pack(frame, folder / "smaller", format="jpeg", max_side=512)
    image = Image(size=(SIDE, SIDE), crop="random_resized", flip="horizontal")
    return alternate(
        {
            "loose files": partial(drained, image, frame, 16, epochs=1),
            "packed": partial(drained, image, folder / "smaller", 16, epochs=1),
        }
    )


if __name__ == "__main__":
    main()
