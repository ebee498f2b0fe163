"""What Keras sees of a Sequence: passes over the rows, and when one counts as an epoch.

Keras takes exactly `num_batches` items and on torch and JAX never asks for one more; it takes
batches to build a model, and makes iterators that it never uses. So an epoch counts when `fit`
says that its steps are done, and a pass learns which epoch it is when its first batch is asked for.
"""

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import keras

from dfgen.loading.loader import Loader
from dfgen.loading.lookahead import LookAhead
from dfgen.loading.metrics import Metrics
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.plan import Plan
from dfgen.loading.receipts import Handed
from dfgen.loading.state import Place
from dfgen.training.backends import (
    DataAdapter,
    TorchBatches,
    Use,
    check_arguments,
    driver,
    epoch_iterator,
    is_reset,
    shorten,
    tensorflow_dataset,
    use_of,
)
from dfgen.training.division import check_not_empty, divide
from dfgen.training.layout import Layout
from dfgen.training.model_check import check_model
from dfgen.training.progress import Progress


class Pass:
    """One run through the order, bound to its epoch when its first batch is asked for.

    An iterator with a lock and not a generator: TensorFlow drops it from another thread.

    Args:
        loader: makes the batches.
        progress: where to begin, and what counts the batches.
        run: whose pass it is.
        endless: whether it goes on into the next epoch.
    """

    def __init__(
        self,
        loader: Loader,
        progress: Progress,
        run: "Run",
        endless: bool,
    ) -> None:
        self._loader = loader
        self._progress = progress
        self._layout = run.layout
        self._plan = run.plan
        self._driver = run.driver
        self._endless = endless
        self._left: int | None = None
        self._stream: LookAhead | None = None
        self._lock = threading.Lock()

    def __iter__(self) -> "Pass":
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self._stream is None:
                self._begin()
            if self._left == 0:
                self._exhausted()
                raise StopIteration
            position = self._stream.position  # type: ignore[union-attr]
            batch = next(self._stream)  # type: ignore[arg-type]
            nested = self._layout.batch(batch)
            self._handed_out(Handed(time.perf_counter(), position, batch.rows, batch.skipped))
        return nested

    def _begin(self) -> None:
        progress, place = self._progress, self._progress.place
        follows = self._endless or self._driver == "fit" or (progress.resumed and not self._driver)
        place = place if follows else Place(place.epoch)
        self._epoch = place.epoch
        if not self._endless:
            self._left = len(self._plan) - place.step
        self._ledger = progress.fit if self._driver else progress.begin_loop(place)
        self._stream = self._loader.stream(place.epoch, place.step, self._plan)
        self._stream.repeat_epoch = self._driver in ("evaluate", "predict")
        self._abandon = weakref.finalize(self, self._stream.close)

    def _handed_out(self, handed: Handed) -> None:
        if self._driver in ("fit", None):
            self._progress.hand_out(handed, self._ledger)
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._abandon.detach()
                self._loader.park(self._stream)
        elif self._driver is None:
            self._progress.end_loop(self._ledger.place)

    def _exhausted(self) -> None:
        """A loop of the user's own ends an epoch by asking for one batch more."""
        if self._driver is None and self._progress.place.epoch == self._epoch:
            self._progress.end_loop(Place(self._epoch + 1))


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
        self.undo: Callable[[bool], None] | None = None
        """Gives Keras's epochs their full length again."""
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
        progress: how far training has come.
        layout: nests the arrays of a batch as Keras wants them.
        shuffle: whether the order is shuffled.
        endless: whether a pass goes on into the next epoch.
    """

    def __init__(
        self,
        loader: Loader,
        progress: Progress,
        layout: Layout,
        shuffle: bool,
        endless: bool,
    ) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self._loader = loader
        self.progress = progress
        self._layout = layout
        self._shuffle = shuffle
        self._endless = endless
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
        check_model(use, self.element_spec)
        if isinstance(use.validation, Passes):
            check_model(replace(use, driver="evaluate"), use.validation.element_spec)
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

    @property
    def element_spec(self) -> Any:
        """Shape and dtype of every array of a batch, known without reading a file.

        A `keras.KerasTensor` for each, nested as the batches are: (x,), (x, y) or (x, y, weights);
        the batch axis is None, text and bytes are `string`. Called with them, a model is built, or
        tells that they do not fit.

        Example:
            >>> model(seq.element_spec[0]).shape  # doctest: +SKIP
            (None, 10)
        """
        return self._layout.element_spec(self._loader.specs)

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self._loader.batch_size

    def __getitem__(self, index: int) -> Any:
        """Return batch `index` of the current epoch; any index, any order, any thread."""
        return self._layout.batch(self._loader.batch(*self._position(index)))

    def rows(self, index: int) -> Integers:
        """Return which rows of the manifest batch `index` of the current epoch holds, in order.

        Example:
            >>> seq.manifest.iloc[seq.rows(0)]  # doctest: +SKIP
        """
        return self._loader.rows(*self._position(index))

    def ids(self, index: int) -> list[object]:
        """Return the ids of the rows of batch `index` of the current epoch, in order."""
        return self._loader.order.ids_at(self.rows(index))

    def _position(self, index: int) -> tuple[int, int]:
        """Return (epoch, step) of batch `index` of the current epoch."""
        check_not_empty(self._loader.plan)
        length = len(self._loader)
        epochs, step = divmod(index, length) if self._endless else (0, index)
        if not self._endless and not -length <= index < length:
            raise IndexError(f"batch {index} does not exist: an epoch has {length} batches")
        return self.progress.place.epoch + epochs, step % length

    def __iter__(self) -> Iterator[Any]:
        return self.new_pass(self._run(None))

    def new_pass(self, run: Run) -> Iterator[Any]:
        """Return a pass of NumPy arrays for one run."""
        check_not_empty(run.plan)
        return Pass(self._loader, self.progress, run, self._endless)

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
        if run.driver == "fit":
            self.progress.begin_epoch(self._first_steps(run, epoch_iterator(frame)))

    def _first_steps(self, run: Run, keras_iterator: Any) -> int:
        """Return the steps of an epoch of Keras, made shorter where a part of it was done."""
        progress, length = self.progress, len(self._loader)
        done, progress.steps_done = progress.steps_done, 0
        left = length - (progress.place.step if progress.resumed and not self._endless else 0)
        if done or left < length:
            run.undo = shorten(keras_iterator, left, done)
        return getattr(keras_iterator, "steps_per_epoch", None) or left

    def on_epoch_end(self) -> None:
        """Keras has ended a pass, or is about to begin its first."""
        frame = sys._getframe(1)
        run = self._run(frame)
        ended, run.driver = run.driver, None  # Keras may call twice
        failure, run.failure = run.failure, None
        if is_reset(frame):
            if driver(frame) == "fit":
                self.progress.begin_fit(self._endless)
        elif failure is not None:
            raise failure
        elif ended == "fit":
            self.progress.end_epoch(self._endless)
            if run.undo is not None:
                run.undo(self.progress.place.step == 0)
