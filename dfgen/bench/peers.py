"""The peers, each tuned as its users would, doing the same job with the same number of workers.

Each library is loaded when it is asked for. torch's worker processes import this module.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import PIL.Image

from dfgen.bench.job import Job
from dfgen.bench.rates import timed
from dfgen.errors import ArgumentError, did_you_mean
from dfgen.samples.pixels.formats import sniff

Candidates = dict[str, Callable[[], float]]

_PACKAGES = {"tf.data": "tensorflow", "torch": "torch", "keras": "keras"}


def check_against(names: Iterable[str]) -> list[str]:
    """Return the peers that are meant; `all` are those that are installed."""
    chosen, known = dict[str, None](), [*_PACKAGES, "all"]
    for name in names:
        if name not in known:
            raise ArgumentError(
                f'--against "{name}" is not a peer.{did_you_mean(name, known)} '
                f"Peers: {', '.join(known)}"
            )
        package = _PACKAGES.get(name)
        if package and not find_spec(package):
            raise ArgumentError(
                f"--against {name} needs {package}, which is not installed: pip install {package}"
            )
        installed = (peer for peer, package in _PACKAGES.items() if find_spec(package))
        chosen |= dict.fromkeys([name] if package else installed)
    return list(chosen)


def peers(names: Iterable[str], job: Job) -> Candidates:
    """Return the candidates of some peers."""
    makers = {"tf.data": _tf_data, "torch": _torch, "keras": _keras}
    return {label: work for name in names for label, work in makers[name](job).items()}


def _tf_data(job: Job) -> Candidates:
    """Tune tf.data by hand: fast DCT for JPEG, AUTOTUNE, batches in any order."""
    import tensorflow as tf

    jpeg = all(_format(path) == "jpeg" for path in set(job.paths))
    antialias, size = job.image.antialias, job.size

    def load(path: Any) -> Any:
        data = tf.io.read_file(path)
        if jpeg:
            image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_FAST")
        else:
            image = tf.io.decode_image(data, channels=3, expand_animations=False)
        image = tf.image.resize(image, size, antialias=antialias)
        return tf.saturate_cast(tf.round(image), tf.uint8)

    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = max(1, job.workers)
    data = tf.data.Dataset.from_tensor_slices(list(job.paths)).shuffle(len(job.paths))
    data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(job.batch_size)
    data = data.prefetch(tf.data.AUTOTUNE).with_options(options)
    drain = timed(lambda: sum(len(images) for images in data.as_numpy_iterator()))
    return {f"tf.data, antialias={antialias}": drain}


def _format(path: str) -> str | None:
    with open(path, "rb") as file:
        return sniff(file.read(16))


def _torch(job: Job) -> Candidates:
    """Give torch's DataLoader as many processes, which stay from pass to pass."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _Files(job.paths, job.size),
        batch_size=job.batch_size,
        shuffle=True,
        num_workers=job.workers,
        persistent_workers=job.workers > 0,
        # A fork of a process that runs TensorFlow's threads may hang.
        multiprocessing_context="spawn" if job.workers else None,
    )
    drain = timed(lambda: sum(len(images) for images in loader))
    return {f"torch DataLoader, Pillow, {job.workers} processes": drain}


class _Files:
    """A torch data set of image files."""

    def __init__(self, paths: Sequence[str], size: tuple[int, int]) -> None:
        self._paths = paths
        self._size = size

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        height, width = self._size
        with PIL.Image.open(self._paths[index]) as image:
            pixels = image.convert("RGB").resize((width, height), PIL.Image.Resampling.BILINEAR)
        return np.array(pixels)


def _keras(job: Job) -> Candidates:
    """Let Keras's own pool make the batches, with one worker and with as many as the others.

    A PyDataset can only be drained by `fit`: the model's step does nothing.
    """
    from dfgen.training import keras

    class Files(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self, workers: int) -> None:
            super().__init__(workers=workers)
            self.made: list[int] = []  # Keras makes some batches twice, to see their shapes

        def __len__(self) -> int:
            return -(-len(job.paths) // job.batch_size)

        def __getitem__(self, index: int) -> Any:
            paths = job.paths[index * job.batch_size : (index + 1) * job.batch_size]
            load = partial(keras.utils.load_img, target_size=job.size)
            images = [np.asarray(load(path, interpolation="bilinear")) for path in paths]
            self.made.append(len(images))
            return (np.stack(images),)

    class Idle(keras.Model):  # type: ignore[misc]
        def train_step(self, *given: Any) -> Any:
            logs = {"loss": keras.ops.zeros(())}
            return (logs, given[0]) if keras.backend.backend() == "jax" else logs

    def passes(workers: int) -> Callable[[], int]:
        model = Idle()
        model.built = True
        model.compile()

        def one_pass() -> int:
            files = Files(workers)
            model.fit(files, verbose=0)
            return sum(files.made)

        return one_pass

    return {
        f"Keras PyDataset, load_img, workers={workers}": timed(passes(workers))
        for workers in sorted({1, max(1, job.workers)})
    }
