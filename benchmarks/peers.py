"""The peers: each function returns a function that drains one once and returns the image count.

Each is set up as fast as its documentation and trials allow on as many cores, in random order, with
batches of uint8 where it can. Most packages are optional, so the functions import them.
"""

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import PIL.Image
from measure import THREADS, idle_model

Pixels = npt.NDArray[np.uint8]
Drain = Callable[[], int]


@dataclass(frozen=True)
class Job:
    """Files of one format to batches of square images of `size` pixels."""

    paths: Sequence[str]
    size: int
    batch: int = 64

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size


def installed(drains: dict[str, tuple[str, Callable[[], Drain]]]) -> dict[str, Drain]:
    """Make the candidates whose package is installed; name -> (package, maker)."""
    there = {}
    for name, (package, make) in drains.items():
        if find_spec(package):
            there[name] = make()
        else:
            print(f"{name}: not installed (pip install {package})", file=sys.stderr)
    return there


def tf_data_image(path: Any, size: int, antialias: bool = False, ratio: int = 1) -> Any:
    """Read a JPEG at a part of its size, with the fast DCT, and resize it."""
    import tensorflow as tf

    data = tf.io.read_file(path)
    image = tf.io.decode_jpeg(data, channels=3, ratio=ratio, dct_method="INTEGER_FAST")
    return tf.cast(tf.image.resize(image, (size, size), antialias=antialias), tf.uint8)


def tf_data_png(path: Any, size: int) -> Any:
    """Read a PNG that already has the size."""
    import tensorflow as tf

    return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path), channels=3), (size, size, 3))


def tf_data(job: Job, load: Callable[..., Any] = tf_data_image, **options: Any) -> Drain:
    """tf.data tuned by hand: AUTOTUNE, batches in any order."""
    import tensorflow as tf

    settings = tf.data.Options()
    settings.deterministic = False
    data = tf.data.Dataset.from_tensor_slices(list(job.paths)).shuffle(len(job.paths))
    data = data.map(partial(load, size=job.size, **options), num_parallel_calls=tf.data.AUTOTUNE)
    data = data.batch(job.batch).prefetch(tf.data.AUTOTUNE).with_options(settings)
    return lambda: sum(len(images) for images in data)


def ffcv(images: Pixels, folder: Path, batch: int, epochs: int) -> dict[str, Drain]:
    """FFCV's own format: its threads gather pixels of a mapped file in random order."""
    try:
        from ffcv.fields import RGBImageField
        from ffcv.fields.decoders import SimpleRGBImageDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.writer import DatasetWriter
    except ImportError:
        print("FFCV: not installed; README.md has the commands", file=sys.stderr)
        return {}
    file = str(folder / "pixels.beton")
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar
        writer = DatasetWriter(file, {"image": RGBImageField(write_mode="raw")}, num_workers=1)
        writer.from_indexed_dataset([(image,) for image in images])
    loader = Loader(
        file, batch_size=batch, num_workers=THREADS, os_cache=True, order=OrderOption.RANDOM,
        pipelines={"image": [SimpleRGBImageDecoder()]},
    )  # fmt: skip
    return {"FFCV": lambda: sum(len(images) for _ in range(epochs) for (images,) in loader)}


def image_dataset(job: Job) -> Drain:
    """`image_dataset_from_directory`; the paths must be all files of one folder."""
    import keras

    folder = job.paths[0].rpartition("/")[0]
    data = keras.utils.image_dataset_from_directory(
        folder, labels=None, batch_size=job.batch, image_size=job.shape, verbose=False
    )
    return lambda: sum(len(images) for images in data)


def flow_from_dataframe(job: Job, workers: int, processes: bool = False) -> Drain:
    """Keras 2's way, drained by a `fit` that does nothing, because only `fit` uses its pool."""
    from keras.src.legacy.preprocessing.image import ImageDataGenerator

    frame = pd.DataFrame({"path": job.paths})
    with contextlib.redirect_stdout(io.StringIO()):
        flow = ImageDataGenerator(dtype="uint8").flow_from_dataframe(
            frame, x_col="path", class_mode=None, target_size=job.shape, batch_size=job.batch,
            interpolation="bilinear", validate_filenames=False,
        )  # fmt: skip
    flow.workers, flow.use_multiprocessing = workers, processes
    model = idle_model()

    def drain() -> int:
        model.fit(flow, verbose=0)
        return len(job.paths)

    return drain


def with_pillow(path: str, size: int) -> Pixels:
    """Filter before shrinking, as Pillow's resize does: the reference of fidelity."""
    with PIL.Image.open(path) as image:
        resized = image.convert("RGB").resize((size, size), PIL.Image.Resampling.BILINEAR)
    return np.array(resized)


def with_opencv(path: str, size: int) -> Pixels:
    """Do not antialias, which is TensorFlow's default."""
    pixels = cv2.imread(path, cv2.IMREAD_COLOR_RGB)
    return cv2.resize(pixels, (size, size), interpolation=cv2.INTER_LINEAR)


class Files:
    """A torch data set of image files."""

    def __init__(self, job: Job, load: Callable[[str, int], Pixels]) -> None:
        self._job, self._load = job, load

    def __len__(self) -> int:
        return len(self._job.paths)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.from_numpy(self._load(self._job.paths[index], self._job.size))


def torch_loader(job: Job, load: Callable[[str, int], Pixels]) -> Drain:
    """torch's DataLoader with persistent workers."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        Files(job, load),  # type: ignore[arg-type]
        batch_size=job.batch,
        shuffle=True,
        num_workers=THREADS,
        persistent_workers=True,
        multiprocessing_context="spawn",  # a fork of TensorFlow's threads may hang
        worker_init_fn=_one_thread,
    )
    return lambda: sum(len(images) for images in loader)


def _one_thread(worker: int) -> None:
    cv2.setNumThreads(1)


def grain_threads(job: Job, load: Callable[[str, int], Pixels]) -> Drain:
    import grain

    data = grain.MapDataset.source(list(job.paths)).shuffle(seed=0).map(lambda p: load(p, job.size))
    options = grain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=4 * job.batch)
    batches = data.to_iter_dataset(options).batch(job.batch)
    return lambda: sum(len(images) for images in batches)
