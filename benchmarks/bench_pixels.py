"""What do a cache and a pack cost at first, and give in later epochs?"""

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import peers
from corpus import large_photographs, photographs
from measure import THREADS, alternate

import dfgen

SIDE, BATCH, EPOCHS = 224, 64, 8
LOOP = "a loop over np.memmap"


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        folder = Path(name)
        print(stored(folder))
        print(f"\n{cropped(folder)}")


def stored(folder: Path) -> str:
    """Compare cache and pack with the files, and with other stores of decoded pixels."""
    paths = [str(path) for path in photographs()]
    frame = pd.DataFrame({"id": range(len(paths)), "path": paths})
    dfgen.pack(frame, folder / "pack", image_size=(SIDE, SIDE))
    pixels = np.lib.format.open_memmap(
        folder / "pixels.npy", "w+", np.uint8, (len(frame), SIDE, SIDE, 3)
    )
    with opened(folder / "pack", shuffle=False) as sequence:
        for number, (images,) in enumerate(sequence):
            pixels[number * BATCH : number * BATCH + len(images)] = images
    cached = partial(opened, frame, image_size=(SIDE, SIDE))
    memory, packed = cached(cache="memory"), opened(folder / "pack")
    drain(memory)
    with cached(cache=folder / "full") as sequence:
        drain(sequence)

    def first_epoch(cache: str | None) -> int:
        with cached(cache=cache) as sequence:
            return drain(sequence)

    def later_epochs(open_: Callable[[], dfgen.Sequence]) -> int:
        with open_() as sequence:
            return drain(sequence, EPOCHS)

    rates = alternate(
        {
            "no cache": partial(first_epoch, None),
            "cache in a folder, first epoch": partial(first_epoch, str(folder / "new")),
            "cache in memory, first epoch": partial(first_epoch, "memory"),
            "cache in a folder, later epochs": partial(
                later_epochs, partial(cached, cache=folder / "full")
            ),
            "cache in memory, later epochs": partial(drain, memory, EPOCHS),
            "pack": partial(drain, packed, EPOCHS),
            LOOP: partial(copy_loop, pixels),
            "tf.data, cache() in memory": tf_cache(pixels),
            **peers.ffcv(pixels, folder, BATCH, EPOCHS),
        },
        rounds=11,
        before=partial(shutil.rmtree, folder / "new", ignore_errors=True),
    )
    memory.close()
    packed.close()
    return rates.table(f"{len(frame)} images of {SIDE}x{SIDE}, {THREADS} CPUs", "no cache")


def cropped(folder: Path) -> str:
    """Compare a pack of smaller JPEGs with the large photographs."""
    frame = pd.DataFrame({"path": [str(path) for path in large_photographs()] * 2})
    frame["id"] = range(len(frame))
    dfgen.pack(frame, folder / "smaller", format="jpeg", max_side=512)
    image = dfgen.Image(size=(SIDE, SIDE), crop="random_resized", flip="horizontal")

    def epoch(manifest: Any) -> int:
        with opened(manifest, x=image) as sequence:
            return drain(sequence)

    rates = alternate(
        {
            "files": partial(epoch, frame),
            "pack of JPEGs of 512 pixels": partial(epoch, folder / "smaller"),
        }
    )
    return rates.table("JPEG 3000x2000, random resized crops", "files")


def opened(manifest: Any, **options: Any) -> dfgen.Sequence:
    options = {"label_mode": None} | options if "x" not in options else options
    return dfgen.Sequence(manifest, batch_size=BATCH, workers=THREADS, **options)


def drain(sequence: dfgen.Sequence, epochs: int = 1) -> int:
    """Drain some epochs, and drop the prefetched batches of the next one."""
    rows = sum(len(images) for _ in range(epochs) for (images, *_) in sequence)
    sequence._loader.stream(epoch=1_000_000).close()
    return rows


def copy_loop(pixels: npt.NDArray[np.uint8]) -> int:
    """Copy all rows in random order into batches, row by row."""
    rng = np.random.default_rng(0)
    for _ in range(EPOCHS):
        order = rng.permutation(len(pixels))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = np.empty((len(rows), *pixels.shape[1:]), np.uint8)
            for image, row in zip(batch, rows, strict=True):
                image[...] = pixels[row]
    return EPOCHS * len(pixels)


def tf_cache(pixels: npt.NDArray[np.uint8]) -> Callable[[], int]:
    """tf.data's cache in memory, shuffled and batched."""
    import tensorflow as tf

    spec = tf.TensorSpec(pixels.shape[1:], tf.uint8)
    data = tf.data.Dataset.from_generator(lambda: iter(pixels), output_signature=spec)
    data = data.cache().shuffle(len(pixels)).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    return lambda: sum(len(images) for _ in range(EPOCHS) for images in data.as_numpy_iterator())


if __name__ == "__main__":
    main()
