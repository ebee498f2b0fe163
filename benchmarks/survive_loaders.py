"""The loaders of survive.py: dfgen and its peers, each used as its documentation shows.

A feed is opened for a job and gives epochs of (pixels, rows). Peers are optional, and a turn loads
only its own loader, so functions import them.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

Pixels = npt.NDArray[np.uint8]
Draw = Callable[[], float]
Change = Callable[[Pixels, int, Draw], Pixels]


def unchanged(pixels: Pixels, row: int, draw: Draw) -> Pixels:
    return pixels


@dataclass(frozen=True)
class Job:
    """Files pet-0000.png, ...: row 7 is a square of the value 7.

    `change(pixels, row, draw)` is the user's function: an augmentation, or a fault.
    """

    paths: list[str]
    change: Change = unchanged
    size: int = 32
    workers: int = 2
    batch: int = 4
    timeout: int = 5  # seconds of a read, if the loader has a limit


class Feed:
    """One loader, opened for a job."""

    data: Any
    """What `fit` of Keras takes."""
    state: Any = None
    """A state to resume from; it is read at the start of an epoch."""

    def epoch(self) -> Iterator[tuple[Any, list[int]]]:
        for pixels, rows in self.batches():
            yield np.asarray(pixels), np.asarray(rows).tolist()

    def batches(self) -> Any:
        return self.data

    def state_dict(self) -> Any:
        """Return the state in the middle of an epoch, or None if the loader has none."""


class OfDfgen(Feed):
    def __init__(self, job: Job, processes: bool) -> None:
        import dfgen

        folder = job.paths[0].rpartition("/")[0]
        frame = dfgen.build_manifest(folder, pattern="{id}.png")
        frame["row"] = [int(id[-4:]) for id in frame["id"]]
        self.data = dfgen.Sequence(
            frame,
            y="row",
            image_size=(job.size, job.size),
            batch_size=job.batch,
            transform=partial(_of_sample, job.change),
            workers=job.workers,
            use_multiprocessing=processes,
            limits=dfgen.Limits(read_timeout=job.timeout),
        )

    def batches(self) -> Any:
        if self.state is not None:
            self.data.load_state_dict(self.state)
            self.state = None
        return self.data

    def state_dict(self) -> Any:
        return self.data.state_dict()


def _of_sample(change: Change, sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {**sample, "image": change(sample["image"], int(sample["number"]), rng.random)}


class Files:
    """The data set that a user of torch or Grain writes."""

    def __init__(self, job: Job, draw: Draw) -> None:
        self._job, self._draw = job, draw

    def __len__(self) -> int:
        return len(self._job.paths)

    def __getitem__(self, row: int) -> tuple[Pixels, int]:
        return self.drawing(row, self._draw)

    def drawing(self, row: int, draw: Draw) -> tuple[Pixels, int]:
        job = self._job
        with PIL.Image.open(job.paths[row]) as image:
            pixels = np.array(image.convert("RGB").resize((job.size, job.size)))
        return job.change(pixels, row, draw), row


class OfTorch(Feed):
    def __init__(self, job: Job) -> None:
        import torch
        from torch.utils.data import DataLoader

        self.data = DataLoader(
            Files(job, _of_torch),  # type: ignore[arg-type]
            batch_size=job.batch,
            shuffle=True,
            num_workers=job.workers,
            persistent_workers=True,
            timeout=job.timeout,
            generator=torch.Generator().manual_seed(0),
        )


def _of_torch() -> float:
    import torch

    return float(torch.rand(()))


class OfKeras(Feed):
    """PyDataset with processes, read as `fit` does without TensorFlow."""

    def __init__(self, job: Job) -> None:
        import keras

        keras.utils.set_random_seed(0)
        files = Files(job, np.random.rand)

        class Dataset(keras.utils.PyDataset):
            def __len__(self) -> int:
                return -(-len(files) // job.batch)

            def __getitem__(self, index: int) -> tuple[Any, Any]:
                start = index * job.batch
                rows = range(start, min(start + job.batch, len(files)))
                pixels, numbers = zip(*(files[row] for row in rows), strict=True)
                return np.stack(pixels), np.array(numbers, np.int32)

        self.data = Dataset(workers=job.workers, use_multiprocessing=True)
        self._adapter: Any = None

    def batches(self) -> Any:
        from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

        adapter = self._adapter or PyDatasetAdapter(self.data, shuffle=True)
        self._adapter = None  # a `fit` that ends early has a new one next time
        adapter.on_epoch_begin()
        yield from adapter.get_numpy_iterator()
        adapter.on_epoch_end()
        self._adapter = adapter


class OfGrain(Feed):
    def __init__(self, job: Job) -> None:
        import grain
        from absl import flags

        flags.FLAGS.mark_as_parsed()  # as absl's `app.run` does, with which Grain's examples start
        files = Files(job, float)
        rows = grain.MapDataset.range(len(files)).seed(0).shuffle()
        samples = rows.random_map(lambda row, rng: files.drawing(row, rng.random))
        self.data = (
            samples.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8))
            .batch(job.batch)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=job.workers))
        )

    def batches(self) -> Any:
        self._batches = iter(self.data)
        if self.state is not None:
            self._batches.set_state(self.state)
            self.state = None
        return self._batches

    def state_dict(self) -> Any:
        return self._batches.get_state()


class OfTensorflow(Feed):
    """A tf.data pipeline; the user's function runs in Python."""

    def __init__(self, job: Job) -> None:
        import tensorflow as tf

        self._checkpoint = tf.train.Checkpoint

        def read(row: Any, seed: Any) -> Any:
            pixels = tf.io.decode_png(tf.io.read_file(tf.gather(job.paths, row)), channels=3)
            pixels = tf.cast(tf.image.resize(pixels, (job.size, job.size)), tf.uint8)
            if job.change is not unchanged:
                pixels = tf.numpy_function(change, (pixels, row, seed), tf.uint8)
                pixels.set_shape((job.size, job.size, 3))
            return pixels, row

        def change(pixels: Pixels, row: int, seed: int) -> Pixels:
            return job.change(pixels, int(row), np.random.default_rng(int(seed)).random)

        rows = tf.data.Dataset.range(len(job.paths)).shuffle(len(job.paths), seed=0)
        seeds = tf.data.Dataset.random(seed=0)
        samples = tf.data.Dataset.zip((rows, seeds)).map(read, num_parallel_calls=job.workers)
        self.data = samples.batch(job.batch).prefetch(2)

    def batches(self) -> Any:
        self._batches = iter(self.data)
        if self.state is not None:
            self._checkpoint(batches=self._batches).restore(self.state)
            self.state = None
        return self._batches

    def state_dict(self) -> Any:
        return self._checkpoint(batches=self._batches).write(f"{tempfile.mkdtemp()}/state")


LOADERS: dict[str, tuple[str, Callable[[Job], Feed]]] = {
    "dfgen, threads": ("dfgen", partial(OfDfgen, processes=False)),
    "dfgen, processes": ("dfgen", partial(OfDfgen, processes=True)),
    "torch DataLoader": ("torch", OfTorch),
    "tf.data": ("tensorflow", OfTensorflow),
    "Keras PyDataset": ("keras", OfKeras),
    "Grain": ("grain", OfGrain),
}
"""Name in the table -> (package, function that opens the feed)."""
IN_THREADS = "dfgen, threads", "tf.data"
