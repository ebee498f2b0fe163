"""Batches to TensorFlow, JAX, torch and NumPy, and who in Keras asks for them.

Read from Keras 3.12 and 3.15, `keras/src/trainers/epoch_iterator.py`, `data_adapters/__init__.py`
and `backend/*/trainer.py`. What leans on Keras's private parts is here and nowhere else:

- `DataAdapter`, which `fit` takes as it is;
- the EpochIterator's own counts, which a `fit` that goes on in mid-epoch needs shorter once;
- the calling frames, which tell `fit` from `evaluate` and from the building of a model;
- the arguments of `fit` that Keras drops in silence for a DataAdapter.
"""

import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import keras

from dfgen.errors import ArgumentError

try:
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter as DataAdapter
    from keras.src.trainers.epoch_iterator import EpochIterator
except ImportError:  # pragma: no cover - no released Keras yet

    class DataAdapter:  # type: ignore[no-redef]
        """Stands in where Keras has moved its own."""

    EpochIterator = None
    warnings.warn(
        f"Keras {keras.__version__} has moved its DataAdapter: dfgen.Sequence runs as a plain "
        "PyDataset, exact but slower. Is there a newer dfgen?",
        stacklevel=2,
    )

_DRIVERS = {
    "fit": "fit",
    "evaluate": "evaluate",
    "predict": "predict",
    "_symbolic_build": "build",
    "_maybe_symbolic_build": "build",
}


def driver(frame: FrameType | None) -> str | None:
    """Return what in Keras drives the iteration: fit, evaluate, predict, build, or None."""
    caller = _caller(frame)
    return None if caller is None else _DRIVERS[caller.f_code.co_name]


def _caller(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the model's method that drives the iteration."""
    while frame is not None:
        of_keras = str(frame.f_globals.get("__name__", "")).startswith("keras.src.")
        if of_keras and frame.f_code.co_name in _DRIVERS:
            return frame
        frame = frame.f_back
    return None


@dataclass(frozen=True)
class Use:
    """What one of Keras's EpochIterators is made for.

    Args:
        driver: fit, evaluate or predict; evaluate also for the validation data of fit.
        model: whose method that is.
        steps: how many batches were asked for, or None.
        validation: the validation data of fit, which Keras looks at after the first epoch only.
    """

    driver: str
    model: Any
    steps: int | None
    validation: Any = None


def use_of(frame: FrameType) -> Use | None:
    """Return what an EpochIterator is made for if the frame is its `__init__`, else None."""
    caller = _caller(frame)
    if not _makes_iterator(frame) or caller is None:
        return None
    model, steps = caller.f_locals["self"], frame.f_locals.get("steps_per_epoch")
    if _validates(frame):
        return Use("evaluate", model, steps)
    validation = caller.f_locals.get("validation_data")
    return Use(_DRIVERS[caller.f_code.co_name], model, steps, validation)


def _makes_iterator(frame: FrameType) -> bool:
    return epoch_iterator(frame) is not None and frame.f_code is EpochIterator.__init__.__code__


def epoch_iterator(frame: FrameType) -> Any:
    """Return Keras's EpochIterator whose method a frame runs, or None."""
    if EpochIterator is None:
        return None
    owner = frame.f_locals.get("self")
    return owner if isinstance(owner, EpochIterator) else None


def is_reset(frame: FrameType) -> bool:
    """Whether the frame is `EpochIterator.reset`, which ends no epoch."""
    return epoch_iterator(frame) is not None and frame.f_code.co_name == "reset"


def shorten(keras_iterator: Any, batches: int, done: int) -> Callable[[bool], None]:
    """Let the EpochIterator of a `fit` that goes on do only what is left of its first epoch.

    Args:
        keras_iterator: the EpochIterator, before its first step.
        batches: left of the pass, where it has an end.
        done: steps of the epoch that were done before, where `steps_per_epoch` tells its length.

    Returns:
        A function that undoes it when that epoch has ended; is told whether the pass has too.
    """
    steps, full = keras_iterator.steps_per_epoch, keras_iterator._num_batches
    if full is not None:
        keras_iterator._num_batches = batches
    if steps is not None:
        keras_iterator.steps_per_epoch = steps - done

    def undo(pass_has_ended: bool) -> None:
        keras_iterator.steps_per_epoch = steps
        if pass_has_ended:
            keras_iterator._num_batches = full

    return undo


def input_of_fit(frame: FrameType | None) -> Any:
    """Return what the `fit` that called a frame trains on, as Keras holds it."""
    while frame is not None and not (frame.f_code.co_name == "fit" and driver(frame) == "fit"):
        frame = frame.f_back
    return None if frame is None else frame.f_locals["epoch_iterator"].data_adapter


def check_arguments(frame: FrameType, shuffle: bool, endless: bool) -> None:
    """Refuse arguments of fit, evaluate and predict that never reach a DataAdapter.

    `EpochIterator.__init__` holds them when it reads `num_batches`.

    Args:
        frame: the frame that reads `num_batches`.
        shuffle: whether the Sequence shuffles.
        endless: whether it is a view made by `repeat()`.

    Raises:
        ArgumentError: naming the argument of Sequence that does what was meant.
    """
    if not _makes_iterator(frame):
        return
    given = frame.f_locals
    caller = driver(frame)
    for name, instead in {
        "y": "y=, a column of the manifest",
        "sample_weight": "sample_weight=, a column of the manifest",
        "class_weight": "class_weight=",
        "batch_size": "batch_size=",
    }.items():
        if given.get(name) is not None:
            raise ArgumentError(
                f"{caller}({name}=...) does not reach a dfgen.Sequence, Keras would drop it. "
                f"Give the Sequence its own {instead}"
            )
    if endless and given.get("steps_per_epoch") is None:
        raise ArgumentError(
            f"{caller} on repeat() would never end: give it "
            f"{'steps_per_epoch' if caller == 'fit' else 'steps'}=, or the Sequence itself"
        )
    if caller == "predict" and shuffle:
        raise ArgumentError(
            "predict on a Sequence that shuffles: the predictions could not be matched with the "
            "rows. Make one with shuffle=False"
        )
    if caller == "fit" and shuffle and given.get("shuffle") is False and not _validates(frame):
        raise ArgumentError(
            "fit(shuffle=False) does not reach a dfgen.Sequence, Keras would drop it. "
            "Give the Sequence its own shuffle=False"
        )


def _validates(frame: FrameType | None) -> bool:
    """Whether `fit` makes the iterator of its validation data, for which Keras never shuffles."""
    while frame is not None and frame.f_code.co_name != "fit":
        frame = frame.f_back
    return frame is not None and "epoch_iterator" in frame.f_locals


def tensorflow_dataset(owner: Any, structure: Any, run: Any) -> Any:
    """Return a tf.data.Dataset of an owner's passes, without a copy and without a probe.

    TensorFlow keeps the function given to `from_generator` for ever, so that holds a weak
    reference, and the dataset holds the owner.

    Args:
        owner: its `new_pass(run)` iterates over the batches of one pass.
        structure: the Spec of every array of a batch, nested as the batches are.
        run: whose passes they are; where Keras drives it, an error goes to its `fail` and ends
            the data, since out of `from_generator` errors come as text only.
    """
    import tensorflow as tf

    reference = weakref.ref(owner)

    def batches() -> Iterator[Any]:
        held = reference()
        if held is None:
            return iter(())
        passed = held.new_pass(run)
        return passed if run.keras_iterator is None else _EndsWhereItFails(passed, run.fail)

    signature = keras.tree.map_structure(
        lambda spec: tf.TensorSpec((None, *spec.shape), spec.dtype), structure
    )
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(1)
    dataset._dfgen_owner = owner
    return dataset


class _EndsWhereItFails:
    """Iterates until an error, which it hands on."""

    def __init__(self, batches: Iterator[Any], fail: Callable[[Exception], None]) -> None:
        self._batches = batches
        self._fail = fail

    def __iter__(self) -> "_EndsWhereItFails":
        return self

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except Exception as error:
            self._fail(error)
            raise StopIteration from None


class TorchBatches:
    """An iterable of batches of torch tensors.

    Not a `torch.utils.data.DataLoader`, whose iterator draws from torch's global generator. On the
    CPU a tensor is the batch's own memory. Where CUDA is, it goes through page-locked memory, from
    which the copy to the GPU runs beside Python.
    """

    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        import torch

        def tensor(array: Any) -> Any:
            if array.dtype.hasobject:  # torch has no strings
                return array
            found = torch.from_numpy(array)
            return found.pin_memory().to("cuda", non_blocking=True) if on_gpu else found

        on_gpu = torch.cuda.is_available()
        return (keras.tree.map_structure(tensor, batch) for batch in self._batches())
