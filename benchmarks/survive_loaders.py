"""The loaders of survive.py: dfgen and its peers, each as its own documentation has it.

A feed is opened for a job and gives epochs of (pixels, rows). Imports are within: a turn loads no
more than its own loader, and peers are optional.
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
Batches = Iterator[tuple[Any, list[int]]]


def unchanged(pixels: Pixels, row: int, draw: Draw) -> Pixels:
    return pixels


@dataclass(frozen=True)
class Job:
    """Files pet-0000.png, ...: row 7 is a square of the value 7.

    `change(pixels, row, draw)` is the user's function: an augmentation, or what is wrong with it.
    """

    paths: list[str]
    change: Change = unchanged
    size: int = 32
    workers: int = 2
    batch: int = 4
    seconds: int = 5  # that a read may take, where a loader can be told


class Feed:
    """One loader, opened for a job."""

    def epoch(self) -> Batches:
        raise NotImplementedError

    def data(self) -> Any:
        """Return what `fit` of Keras takes."""
        raise NotImplementedError

    def place(self) -> Any:
        """Return the place in the middle of an epoch; None: it cannot tell."""
        return None

    def go_to(self, place: Any) -> None:
        raise NotImplementedError


class OfDfgen(Feed):
    """A Sequence on a manifest with facts of the headers, which is the default."""

    def __init__(self, job: Job, processes: bool) -> None:
        import dfgen

        folder = job.paths[0].rpartition("/")[0]
        frame = dfgen.build_manifest(folder, pattern="{id}.png")
        frame["row"] = [int(id[-4:]) for id in frame["id"]]
        self._data = dfgen.Sequence(
            frame,
            y="row",
            image_size=(job.size, job.size),
            batch_size=job.batch,
            transform=partial(_of_sample, job.change),
            workers=job.workers,
            use_multiprocessing=processes,
            limits=dfgen.Limits(read_timeout=job.seconds),
        )

    def epoch(self) -> Batches:
        for pixels, rows in self._data:
            yield np.asarray(pixels), [int(row) for row in rows]

    def data(self) -> Any:
        return self._data

    def place(self) -> Any:
        return self._data.state_dict()

    def go_to(self, place: Any) -> None:
        self._data.load_state_dict(place)


def _of_sample(change: Change, sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {**sample, "image": change(sample["image"], int(sample["number"]), rng.random)}


class Files:
    """What a user of torch or Grain writes: a row -> its pixels and its number."""

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
    """DataLoader with processes that stay, a time-out, and a seed."""

    def __init__(self, job: Job) -> None:
        import torch
        from torch.utils.data import DataLoader

        self._data = DataLoader(
            Files(job, _of_torch),  # type: ignore[arg-type]
            batch_size=job.batch,
            shuffle=True,
            num_workers=job.workers,
            persistent_workers=True,
            timeout=job.seconds,
            generator=torch.Generator().manual_seed(0),
        )

    def epoch(self) -> Batches:
        for pixels, rows in self._data:
            yield pixels.numpy(), rows.tolist()

    def data(self) -> Any:
        return self._data


def _of_torch() -> float:
    import torch

    return float(torch.rand(()))


class OfKeras(Feed):
    """PyDataset with processes, driven as `fit` drives it without TensorFlow."""

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

        self._data = Dataset(workers=job.workers, use_multiprocessing=True)
        self._adapter: Any = None

    def epoch(self) -> Batches:
        from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

        adapter = self._adapter or PyDatasetAdapter(self._data, shuffle=True)
        self._adapter = None  # a `fit` that is left has another
        adapter.on_epoch_begin()
        for pixels, rows in adapter.get_numpy_iterator():
            yield pixels, rows.tolist()
        adapter.on_epoch_end()
        self._adapter = adapter

    def data(self) -> Any:
        return self._data


class OfGrain(Feed):
    """A MapDataset, shuffled, with processes."""

    def __init__(self, job: Job) -> None:
        import grain
        from absl import flags

        flags.FLAGS.mark_as_parsed()  # as absl's `app.run` does, which Grain's examples begin with
        files = Files(job, float)
        rows = grain.MapDataset.range(len(files)).seed(0).shuffle()
        samples = rows.random_map(lambda row, rng: files.drawing(row, rng.random))
        self._data = (
            samples.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8))
            .batch(job.batch)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=job.workers))
        )
        self._place: Any = None

    def epoch(self) -> Batches:
        self._batches = iter(self._data)
        if self._place is not None:
            self._batches.set_state(self._place)
        self._place = None
        for pixels, rows in self._batches:
            yield pixels, np.asarray(rows).tolist()

    def data(self) -> Any:
        return self._data

    def place(self) -> Any:
        return self._batches.get_state()

    def go_to(self, place: Any) -> None:
        self._place = place


class OfTensorflow(Feed):
    """A pipeline of tf.data in its own operations; what the user adds is a function of Python."""

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
        self._data = samples.batch(job.batch).prefetch(2)
        self._place: Any = None

    def epoch(self) -> Batches:
        self._batches = iter(self._data)
        if self._place is not None:
            self._checkpoint(batches=self._batches).restore(self._place)
        self._place = None
        for pixels, rows in self._batches:
            yield pixels.numpy(), rows.numpy().tolist()

    def data(self) -> Any:
        return self._data

    def place(self) -> Any:
        return self._checkpoint(batches=self._batches).write(f"{tempfile.mkdtemp()}/place")

    def go_to(self, place: Any) -> None:
        self._place = place


LOADERS: dict[str, tuple[str, Callable[[Job], Feed]]] = {
    "dfgen, threads": ("keras-dfgen", partial(OfDfgen, processes=False)),
    "dfgen, processes": ("keras-dfgen", partial(OfDfgen, processes=True)),
    "torch DataLoader": ("torch", OfTorch),
    "tf.data": ("tensorflow", OfTensorflow),
    "Keras PyDataset": ("keras", OfKeras),
    "Grain": ("grain", OfGrain),
}
"""Name in the table -> the package it needs, and what opens it."""
IN_THREADS = "dfgen, threads", "tf.data"
