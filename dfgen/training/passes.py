"""What Keras sees of a Sequence: passes over the rows, and when one counts as an epoch.

Keras takes exactly `num_batches` items and on torch and JAX never asks for one more; it takes
batches to build a model, and makes iterators that it never uses. So an epoch counts when `fit`
says that its steps are done, and a pass learns which epoch it is when its first batch is asked for.
"""

import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import keras

from dfgen.loading.loader import Loader
from dfgen.loading.metrics import Metrics
from dfgen.loading.plan import Plan
from dfgen.loading.stream import Stream
from dfgen.training.division import check_not_empty, divide
from dfgen.training.handover import (
    DataAdapter,
    Layout,
    TorchBatches,
    Use,
    check_arguments,
    driver,
    epoch_iterator,
    is_reset,
    tensorflow_dataset,
    use_of,
)

_REMEMBERED = 10_000  # batches taken but not asked about, as where nobody monitors


class Cursor:
    """How far training has come.

    Args:
        epoch: passes completed.
        step: batches of the next pass that were trained on already; only `repeat()` leaves any.
    """

    def __init__(self, epoch: int = 0, step: int = 0) -> None:
        self.epoch = epoch
        self.step = step


class Pass:
    """One run through the order, bound to its epoch when its first batch is asked for.

    An iterator with a lock and not a generator: TensorFlow drops it from another thread.

    Args:
        loader: makes the batches.
        cursor: where to begin.
        run: whose pass it is.
        length: batches of the pass, None = endless.
        taken: gets (when, rows) of every batch that `fit` takes.
    """

    def __init__(
        self,
        loader: Loader,
        cursor: Cursor,
        run: "Run",
        length: int | None,
        taken: deque[tuple[float, int]],
    ) -> None:
        self._loader = loader
        self._taken = taken
        self._cursor = cursor
        self._layout = run.layout
        self._plan = run.plan
        self._driver = run.driver
        self._left = length
        self._stream: Stream | None = None
        self._lock = threading.Lock()

    def __iter__(self) -> "Pass":
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self._left == 0:
                self._exhausted()
                raise StopIteration
            if self._stream is None:
                self._begin()
            batch = next(self._stream)  # type: ignore[arg-type]
            self._handed_out()
            nested = self._layout.batch(batch)
            if self._driver == "fit":
                self._taken.append((time.perf_counter(), len(batch.rows)))
        return nested

    def _begin(self) -> None:
        step = self._cursor.step if self._left is None else 0
        self._epoch = self._cursor.epoch
        self._stream = self._loader.stream(self._epoch, step, self._plan)
        self._stream.repeat_epoch = self._driver in ("evaluate", "predict")
        self._abandon = weakref.finalize(self, self._stream.close)

    def _handed_out(self) -> None:
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._abandon.detach()
                self._loader.park(self._stream)  # type: ignore[arg-type]
        elif self._driver is None:
            self._cursor.epoch, self._cursor.step = self._stream.position  # type: ignore[union-attr]

    def _exhausted(self) -> None:
        """A loop of the user's own ends an epoch by asking for one batch more."""
        if self._driver is None and self._cursor.epoch == self._epoch:
            self._cursor.epoch += 1


class Run:
    """What one of Keras's EpochIterators does with a Sequence: several may, one inside the other.

    Args:
        plan: how an epoch is divided into batches.
        layout: how a batch is nested.
        keras_iterator: a weak reference to it, or None for a use without one.
    """

    def __init__(
        self, plan: Plan, layout: Layout, keras_iterator: "weakref.ref[Any] | None" = None
    ) -> None:
        self.plan = plan
        self.layout = layout
        self.keras_iterator = keras_iterator
        self.driver: str | None = None
        """Who asks: fit, evaluate, predict, build, or None for a loop of the user's own."""
        self.steps = 0
        self.failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Keep an error until Keras's own thread comes by, and spare the user Keras's warning."""
        self.failure = error
        found = self.keras_iterator() if self.keras_iterator is not None else None
        if found is not None:
            found._interrupted_warning = lambda: None


class Passes(keras.utils.PyDataset, DataAdapter):
    """A PyDataset that is its own DataAdapter, so that Keras's worker pool is never used.

    Args:
        loader: makes the batches.
        cursor: how far training has come.
        layout: nests the arrays of a batch as Keras wants them.
        shuffle: whether the order is shuffled.
        endless: whether a pass goes on into the next epoch.
    """

    def __init__(
        self,
        loader: Loader,
        cursor: Cursor,
        layout: Layout,
        shuffle: bool,
        endless: bool,
    ) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self._loader = loader
        self._cursor = cursor
        self._layout = layout
        self._shuffle = shuffle
        self._endless = endless
        self._taken: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self._runs: weakref.WeakKeyDictionary[Any, Run] = weakref.WeakKeyDictionary()

    @property
    def num_batches(self) -> int | None:
        """Batches of a pass; None where passes have no end."""
        frame = sys._getframe(1)
        check_arguments(frame, self._shuffle, self._endless)
        run = self._run(frame)
        if (use := use_of(frame)) is not None:
            self._divide(run, use)
        return None if self._endless else len(run.plan)

    def _divide(self, run: Run, use: Use) -> None:
        """Settle how a run's batches are divided over processes and devices."""
        weighable = self._layout.y is not None
        run.plan, divided = divide(
            self._loader.given, use, weighable=weighable, endless=self._endless
        )
        if divided and weighable:
            run.layout = replace(self._layout, weighted=True)
        if use.driver == "fit":
            self._loader.plan = run.plan

    @property
    def metrics(self) -> Metrics:
        """What the workers have done since the Sequence was made: seconds by stage, counts."""
        return self._loader.metrics

    def taken(self, batches: int) -> list[tuple[float, int]]:
        """Return when `fit` took its next batches, and their rows; each batch once."""
        return [self._taken.popleft() for _ in range(min(batches, len(self._taken)))]

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self._loader.batch_size

    def __getitem__(self, index: int) -> Any:
        """Return batch `index` of the current epoch; any index, any order, any thread."""
        check_not_empty(self._loader.plan)
        length = len(self._loader)
        epochs, step = divmod(index, length) if self._endless else (0, index)
        if not self._endless and not -length <= index < length:
            raise IndexError(f"batch {index} does not exist: an epoch has {length} batches")
        return self._layout.batch(self._loader.batch(self._cursor.epoch + epochs, step % length))

    def __iter__(self) -> Iterator[Any]:
        return self.new_pass(self._run(None))

    def new_pass(self, run: Run) -> Iterator[Any]:
        """Return a pass of NumPy arrays for one run."""
        check_not_empty(run.plan)
        length = None if self._endless else len(run.plan)
        return Pass(self._loader, self._cursor, run, length, self._taken)

    def get_numpy_iterator(self) -> Iterator[Any]:
        """Return a pass of NumPy arrays."""
        return self.new_pass(self._run(sys._getframe(1)))

    def get_jax_iterator(self) -> Iterator[Any]:
        """Return a pass of NumPy arrays, which JAX on the CPU reads in place."""
        return self.new_pass(self._run(sys._getframe(1)))

    def get_torch_dataloader(self) -> TorchBatches:
        """Return an iterable of passes of torch tensors."""
        return TorchBatches(partial(self.new_pass, self._run(sys._getframe(1))))

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of passes."""
        run = self._run(sys._getframe(1))
        return tensorflow_dataset(self, run.layout.specs(self._loader.specs), run)

    def _run(self, frame: FrameType | None) -> Run:
        """Return the run of the EpochIterator whose method a frame runs."""
        plan, layout = self._loader.plan, self._layout
        found = None if frame is None else epoch_iterator(frame)
        if found is None:
            return Run(plan, layout)
        return self._runs.setdefault(found, Run(plan, layout, weakref.ref(found)))

    def on_epoch_begin(self) -> None:
        """Keras begins a pass."""
        frame = sys._getframe(1)
        run = self._run(frame)
        run.driver = driver(frame)
        run.steps = getattr(epoch_iterator(frame), "steps_per_epoch", None) or len(self._loader)

    def on_epoch_end(self) -> None:
        """Keras has ended a pass, or is about to begin its first."""
        frame = sys._getframe(1)
        run = self._run(frame)
        ended, run.driver = run.driver, None  # Keras may call twice
        failure, run.failure = run.failure, None
        if is_reset(frame):
            if driver(frame) == "fit":
                self._begin_training()
        elif failure is not None:
            raise failure
        elif ended == "fit":
            self._count(run.steps)

    def _begin_training(self) -> None:
        """`fit` begins a pass of its own; what an earlier one left undone is given back."""
        self._taken.clear()
        if not self._endless:
            self._cursor.step = 0

    def _count(self, steps: int) -> None:
        """Count steps that `fit` has trained."""
        length = len(self._loader)
        steps = self._cursor.step + steps
        epochs, step = divmod(steps if self._endless else min(steps, length), length)
        self._cursor.epoch += epochs
        self._cursor.step = step
