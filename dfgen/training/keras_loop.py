"""How Keras reads a Sequence: the only module that knows the internals of Keras's loops.

Keras reads `num_batches` of its data while it makes an EpochIterator. At that moment `loop_of`
reads the stack of the call once, and a `Run`, which knows purpose and model, replaces the Sequence
as the data adapter. Keras calls only the Run from then on.

Read from Keras 3.12 to 3.16: `keras/src/trainers/epoch_iterator.py` and
`keras/src/backend/{tensorflow,jax,torch}/trainer.py`.
"""

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import FrameType
from typing import Any, NamedTuple

import keras
from keras.callbacks import CallbackList
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from dfgen.errors import UnknownKerasError
from dfgen.loading.loader import Loader
from dfgen.loading.order.epochs import Plan
from dfgen.loading.receipts import Handed, Ledger, Place
from dfgen.training.backends import TorchBatches, stacked, tensorflow_dataset
from dfgen.training.checks.check import note_trained
from dfgen.training.checks.losses import check_first_batch
from dfgen.training.checks.model_outputs import nested
from dfgen.training.passes import Consumer, Layout, Pass, SequenceView

_LOOPS = "fit", "evaluate", "predict"
_ARGUMENTS = ("y", "sample_weight", "class_weight", "batch_size", "steps_per_epoch",
              "steps_per_execution", "shuffle")  # fmt: skip
_OF_VALIDATION = "validation_steps", "validation_batch_size"


def unknown_keras(reason: str) -> UnknownKerasError:
    """Return the error for a Keras that reads its data in another way."""
    return UnknownKerasError(
        f"dfgen supports Keras 3.12 to 3.16, and cannot follow Keras {keras.__version__}: {reason}"
        ". Install a supported version of Keras, or a newer dfgen"
    )


@dataclass(frozen=True)
class Loop:
    """The call of fit, evaluate or predict that makes an EpochIterator."""

    purpose: str  # "fit", "evaluate" or "predict"; the validation of fit is "evaluate"
    model: keras.Model
    iterator: Any  # Keras's EpochIterator
    arguments: Mapping[str, Any]  # passed next to the data
    validation: Any = None  # validation_data of fit
    of_validation: Mapping[str, Any] = field(default_factory=dict)  # validation_steps, …_batch_size
    callbacks: CallbackList | None = None  # a CallbackList that was passed to fit

    @property
    def steps_per_execution(self) -> int:
        """Steps of one compiled call."""
        return self.arguments["steps_per_execution"] or 1

    @property
    def steps(self) -> int | None:
        """Batches of `steps_per_epoch`, in whole executions; None without it."""
        steps: int | None = self.arguments["steps_per_epoch"]
        size = self.steps_per_execution
        return steps and -(-steps // size) * size


class Fit(NamedTuple):
    """The fit that calls a callback."""

    data: Any
    callbacks: CallbackList


def running_fit() -> Fit | None:
    """Return the innermost fit that called the caller; None outside of a fit."""
    frame = _running(sys._getframe(1), ("fit",))
    if frame is None or (callbacks := _callbacks(frame)) is None:
        return None
    return Fit(frame.f_locals.get("x"), callbacks)


def is_training(progress: Any) -> bool:
    """Whether a fit is taking batches from data with this Progress now, in any thread.

    Only the thread of the last fit is inspected: frames of threads that run may end meanwhile.
    """
    if progress.thread is None:
        return False
    own = progress.thread == threading.get_ident()
    innermost = sys._getframe(1) if own else sys._current_frames().get(progress.thread)
    frame = _running(innermost, ("fit",))
    while frame is not None:
        for value in frame.f_locals.values():
            run = getattr(value, "__dict__", {}).get("data_adapter")
            if isinstance(run, Run) and run.purpose == "fit" and run.progress is progress:
                return True
        frame = _running(frame.f_back, ("fit",))
    return False


def loop_of(data: Any) -> Loop | None:
    """Return the loop that makes an EpochIterator of data right now; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame and not str(frame.f_globals.get("__name__")).startswith("keras."):
        frame = frame.f_back
    iterator = frame and frame.f_locals.get("self")
    if frame is None or getattr(iterator, "data_adapter", None) is not data:
        return None
    local, running = frame.f_locals, _running(frame, _LOOPS)
    if running is None or not {*_ARGUMENTS} <= {*local}:
        raise unknown_keras("the arguments of fit, evaluate and predict are not visible")
    arguments = {name: local[name] for name in _ARGUMENTS}
    purpose, outer = running.f_code.co_name, running.f_locals
    if purpose == "fit" and any(type(value) is type(iterator) for value in outer.values()):
        purpose = "evaluate"  # fit has made the iterator of its training data before
        arguments["batch_size"] = outer.get("validation_batch_size")  # not that of arrays
    of_fit = outer if purpose == "fit" else {}
    return Loop(
        purpose, outer["self"], iterator, arguments, of_fit.get("validation_data"),
        {name: outer.get(name) for name in _OF_VALIDATION}, _callbacks(running),
    )  # fmt: skip


def called_by_keras() -> bool:
    """Whether Keras has called the caller."""
    return str(sys._getframe(2).f_globals.get("__name__")).startswith("keras.")


def _running(frame: FrameType | None, names: tuple[str, ...]) -> FrameType | None:
    """Return the innermost frame of a method of a model, from a frame outwards."""
    while frame is not None:
        if frame.f_code.co_name in names and isinstance(frame.f_locals.get("self"), keras.Model):
            return frame
        frame = frame.f_back
    return None


def _callbacks(running: FrameType) -> CallbackList | None:
    """Return the CallbackList of a loop; None before Keras has made it."""
    values = running.f_locals.values()
    return next((value for value in values if isinstance(value, CallbackList)), None)


class Run(DataAdapter, Consumer):
    """The batches of one EpochIterator, and the count of the steps that its model took.

    A pass begins at the place that training has reached when its first batch is requested. Only
    steps of `fit` change that place: batches that build a model, prefetched batches and iterators
    that Keras drops do not.
    """

    def __init__(self, data: Any, loop: Loop, loader: Loader, plan: Plan, layout: Layout) -> None:
        self.progress, self.purpose, self.endless = data.progress, loop.purpose, data.endless
        self._loader, self._plan, self._layout = loader, plan, layout
        self._iterator: Any = weakref.ref(loop.iterator)  # weak: Keras holds this Run in them
        self._model: Any = weakref.ref(loop.model)
        self._ledger: Ledger | None = None  # of the steps of this fit
        self._waiting: deque[Handed] = deque()  # batches of the last pass that has begun
        self._steps_per_epoch = loop.iterator.steps_per_epoch
        self._at_once = loop.steps_per_execution
        self._callbacks = loop.callbacks if self.purpose == "fit" else None
        self._has_begun = self._is_reset = self._is_checked = False
        self._steps = self._done = 0  # of Keras's epoch: counted, and taken before it
        self._failure: BaseException | None = None
        self._variables: list[tuple[Any, Any]] = []
        if self.purpose == "fit":
            self.progress.thread = threading.get_ident()
            self.progress.begin(self.endless)

    @property
    def num_batches(self) -> int | None:
        """Batches of the pass that begins next; None if it has no end."""
        if self.endless:
            return None
        place = self.progress.place if self.purpose == "fit" else Place()
        return len(self._plan) - place.step

    def on_epoch_begin(self) -> None:
        """Begin a pass, of an epoch or to build the model."""
        if not self._has_begun and self._builds(_running(sys._getframe(1), _LOOPS)):
            return
        if not self._is_checked:
            nested(self._layout, self._loader, self._model(), self.purpose)  # raises
        if self.purpose == "fit":
            self._begin_epoch()
        self._has_begun = True
        if keras.backend.backend() == "jax" and (model := self._model()) is not None:
            variables = [*model.variables, *model.metrics_variables]
            if getattr(model, "optimizer", None) is not None:
                variables += model.optimizer.variables
            self._variables = [(variable, variable.value) for variable in variables]

    def _builds(self, running: FrameType | None) -> bool:
        """Whether fit only builds its model; if not, have its steps counted."""
        if running is None or running.f_code.co_name != self.purpose:
            raise unknown_keras(f"it does not run the {self.purpose} that was expected")
        if self.purpose != "fit":
            return False
        callbacks = _callbacks(running)
        if not self._is_reset and callbacks is self._callbacks:
            return True
        if callbacks is None:
            raise unknown_keras("the callbacks of fit are not visible")
        _count_steps(callbacks, self)
        return False

    def _begin_epoch(self) -> None:
        """Continue, or begin at the place of a state that was loaded."""
        iterator, progress = self._iterator(), self.progress
        if self._has_begun and not self._steps:
            raise unknown_keras("an epoch has ended, but no step of it was counted")
        is_moved = self._ledger is not progress.ledger
        if is_moved:
            iterator._current_iterator = None  # else Keras continues the previous pass
            self._ledger = progress.begin(self.endless)
        place, self._steps, self._done = progress.place, 0, progress.done
        if not self.endless and (is_moved or not place.step):
            iterator._num_batches = self.num_batches
        if self._steps_per_epoch:
            iterator.steps_per_epoch = self._steps_per_epoch - self._done

    def took(self, steps: int) -> None:
        """The model has taken so many steps of Keras's epoch."""
        count = min(steps - self._steps, len(self._waiting))
        batches = [self._waiting.popleft() for _ in range(count)]
        self._steps, self._variables = steps, []
        if self._ledger is not None and self._ledger is self.progress.ledger:
            self.progress.take(self._ledger, batches, self.endless)
            done = self._done + steps
            self.progress.done = done if done < (self._steps_per_epoch or 0) else 0

    def on_epoch_end(self) -> None:
        """End a pass; Keras calls it also before the first step of an iterator."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self.purpose == "fit" and self._steps:
            self.progress.end()
            note_trained(self._model(), SequenceView(self._loader, self._layout))
        self._is_reset, self._variables = True, []

    def failed(self, error: BaseException) -> None:
        """Keep the error of a batch for the thread of Keras, and the variables of the model.

        TensorFlow reports errors of its data as text, so a pass ends there and `on_epoch_end`
        raises. On JAX, Keras removes the variables from the model during its steps, and does not
        restore all of them after an error.
        """
        self._failure = error
        if (iterator := self._iterator()) is not None:
            iterator._interrupted_warning = lambda: None
        if any(value.is_deleted() for _, value in self._variables):  # steps donated them
            self._model().jax_state_sync()
        else:
            for variable, value in self._variables:
                variable.assign(value)

    def begin_pass(self) -> tuple[Place, Callable[[Handed], None]]:
        """Return the place of the first batch of a pass; only those of fit are counted."""
        if self.purpose != "fit":
            start = self.progress.start
            return start if self.endless else Place(start.epoch), lambda handed: None
        self._waiting = deque()
        return self.progress.place, self._waiting.append

    def check_first(self, batch: Any) -> None:
        """Check the first batch that is not read to build the model."""
        if self._is_reset and not self._is_checked:
            self._is_checked = True
            if self.purpose != "predict":
                view = SequenceView(self._loader, self._layout)
                check_first_batch(self._model(), view, self.purpose, batch)

    def _pass(self, at_once: int) -> Pass:
        return Pass(self._loader, self._plan, self._layout, self, at_once)

    def get_numpy_iterator(self) -> Iterator[Any]:
        """Return an iterator over batches of NumPy arrays."""
        return chain.from_iterable(self._pass(1))

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        """Return an iterator over batches; those of an execution are made before its first step.

        Keras 3.16 passes `super_batch`, the number of batches to stack in each item.
        """
        executions = self._pass(self._at_once)
        return chain.from_iterable(executions) if super_batch is None else map(stacked, executions)

    def get_torch_dataloader(self) -> TorchBatches:
        """Return an iterable of batches of torch tensors."""
        return TorchBatches(self.get_numpy_iterator)

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of the batches."""
        specs = self._layout.specs(self._loader.specs)
        return tensorflow_dataset(self, Run.get_numpy_iterator, specs, tunes=False)


def _count_steps(callbacks: CallbackList, run: Run) -> None:
    """Tell a run of each step of this fit, before any callback learns of it.

    A callback of its own would be late: without batch callbacks of the user, Keras calls
    callbacks in other threads on torch and JAX.
    """
    owner: Any = weakref.ref(callbacks)
    kind = type(callbacks)

    def on_train_batch_end(batch: int, logs: Any = None) -> None:
        run.took(batch + 1)
        kind.on_train_batch_end(owner(), batch, logs)

    def on_train_begin(logs: Any = None) -> None:  # of a later fit that gets the same list
        del owner().on_train_begin, owner().on_train_batch_end
        kind.on_train_begin(owner(), logs)

    vars(callbacks).update(on_train_begin=on_train_begin, on_train_batch_end=on_train_batch_end)
