"""The peers: each function returns what drains one of them once, and how many images came.

Each is as fast as its documentation and trials could make it on as many cores, in random order,
with batches of uint8 unless it cannot. Imports are within, since most of them are optional.
"""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import PIL.Image
from measure import THREADS

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
    """Make those whose package is installed, and name the others; name -> (package, maker)."""
    there = {}
    for name, (package, make) in drains.items():
        try:
            version(package)
        except PackageNotFoundError:
            print(f"left out: {name} (to have it: pip install {package})")
        else:
            there[name] = make()
    return there


def tf_data_image(path: Any, size: int, antialias: bool = False, ratio: int = 1) -> Any:
    """Read a JPEG at a part of its size, with the fast DCT, and resize it."""
    import tensorflow as tf

    data = tf.io.read_file(path)
    image = tf.io.decode_jpeg(data, channels=3, ratio=ratio, dct_method="INTEGER_FAST")
    return tf.cast(tf.image.resize(image, (size, size), antialias=antialias), tf.uint8)


def tf_data_png(path: Any, size: int) -> Any:
    """Read a PNG that has its size already."""
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


def ffcv_raw(images: Pixels, file: str, batch: int) -> Drain:
    """FFCV's own format: pixels in a mapped file, gathered by its threads, in random order."""
    from ffcv.fields import RGBImageField
    from ffcv.fields.decoders import SimpleRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.writer import DatasetWriter

    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar
        writer = DatasetWriter(file, {"image": RGBImageField(write_mode="raw")}, num_workers=1)
        writer.from_indexed_dataset([(image,) for image in images])
    loader = Loader(
        file,
        batch_size=batch,
        num_workers=THREADS,
        os_cache=True,
        order=OrderOption.RANDOM,
        pipelines={"image": [SimpleRGBImageDecoder()]},
    )
    return lambda: sum(len(images) for (images,) in loader)


def image_dataset(job: Job) -> Drain:
    """`image_dataset_from_directory`; the paths must be all files of one folder."""
    import keras

    folder = job.paths[0].rpartition("/")[0]
    data = keras.utils.image_dataset_from_directory(
        folder, labels=None, batch_size=job.batch, image_size=job.shape, verbose=False
    )
    return lambda: sum(len(images) for images in data)


def flow_from_dataframe(job: Job, workers: int, processes: bool = False) -> Drain:
    """Keras 2's way, drained by a `fit` that does nothing, as its pool can be."""
    from keras.src.legacy.preprocessing.image import ImageDataGenerator
    from models import idle_model

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
    """Alias, as TensorFlow does by default."""
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
    """torch's DataLoader with processes that stay from pass to pass."""
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


def dali_cpu(job: Job) -> Drain:
    """DALI without a GPU; a resize that does not alias is its default."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=job.batch, num_threads=THREADS, device_id=None)
    def images() -> Any:
        files, _ = fn.readers.file(
            files=list(job.paths), random_shuffle=True, initial_fill=len(job.paths)
        )
        decoded = fn.decoders.image(files, device="cpu", output_type=types.RGB, use_fast_idct=True)
        return fn.resize(decoded, size=job.shape, interp_type=types.INTERP_LINEAR)

    pipeline = images()
    pipeline.build()

    def drain() -> int:
        batches = -(-len(job.paths) // job.batch)
        return sum(len(pipeline.run()[0].as_array()) for _ in range(batches))

    return drain
