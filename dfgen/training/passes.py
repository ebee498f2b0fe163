"""A pass: an iterator over batches, from the place where training is."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import keras

from dfgen.loading.loader import Loader
from dfgen.loading.order.epochs import Plan
from dfgen.loading.pending_batch import Batch, LookAhead
from dfgen.loading.receipts import Handed
from dfgen.loading.state import Place
from dfgen.training.layout import Layout
from dfgen.training.progress import Progress


class Consumer:
    """What reads a pass: a loop of Keras, or of the user."""

    purpose: Any  # "fit", "evaluate", "predict"; None for a loop of the user
    endless: bool  # whether a pass continues into the next epoch

    def begin_pass(self) -> tuple[Place, Callable[[Handed], None]]:
        """Return the place of the first batch, and a function to call with each batch."""
        raise NotImplementedError

    def check_first(self, batch: Any) -> None:
        """Check the first batch, nested as Keras gets it."""

    def failed(self, error: BaseException) -> None:
        """A batch has failed."""

    def end_pass(self) -> None:
        """All batches were taken, and another one was requested."""


class Pass:
    """One pass over the batches of a loader.

    The place of its first batch is settled when that is requested. It is an iterator with a lock
    instead of a generator: TensorFlow drops it in another thread than the one that reads it.

    Args:
        loader: makes the batches.
        plan: divides the rows of an epoch into batches.
        layout: nests the arrays of a batch.
        consumer: reads the pass.
        at_once: batches of an item, as a list; None for an item that is one batch.
    """

    def __init__(
        self,
        loader: Loader,
        plan: Plan,
        layout: Layout,
        consumer: Consumer,
        at_once: int | None = None,
    ) -> None:
        self._loader, self._plan, self._layout = loader, plan, layout
        self._consumer, self._at_once = consumer, at_once
        self._stream: LookAhead | None = None
        self._left: int | None = None  # batches; None without an end
        self._lock = threading.Lock()

    def __iter__(self) -> "Pass":
        return self

    def __next__(self) -> Any:
        with self._lock:
            try:
                stream = self._stream or self._begin()
                count = self._at_once or 1
                count = count if self._left is None else min(count, self._left)
                batches: list[Any] = []
                while len(batches) < count:
                    batches.append(self._taken(stream, next(stream)))
            except BaseException as error:
                self._consumer.failed(error)
                if self._consumer.purpose is None or keras.backend.backend() != "tensorflow":
                    raise
                batches = []  # TensorFlow would raise the error as text
        if not batches:
            self._consumer.end_pass()
            raise StopIteration
        return batches[0] if self._at_once is None else batches

    def _begin(self) -> LookAhead:
        consumer = self._consumer
        place, self._handed = consumer.begin_pass()
        if not consumer.endless:
            self._left = len(self._plan) - place.step
        at_once = self._at_once or 1
        self._stream = stream = self._loader.stream(place.epoch, place.step, self._plan, at_once)
        stream.repeat_epoch = consumer.purpose in ("evaluate", "predict")
        self._is_first = True
        self._abandon = weakref.finalize(self, stream.close)
        return stream

    def _taken(self, stream: LookAhead, batch: Batch) -> Any:
        """Count a batch and return it, nested as Keras gets it."""
        nested = self._layout.batch(batch)
        if self._is_first:
            self._consumer.check_first(nested)
            self._is_first = False
        self._handed(Handed(batch.rows, batch.skipped))
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._abandon.detach()
                self._loader.park(stream)  # for the next pass
        return nested


class UserLoop(Consumer):
    """A loop of the user: the batches that it receives are counted.

    A loop inside of a callback of `fit` on the same Sequence is not counted.
    """

    purpose = None

    def __init__(self, progress: Progress, endless: bool, counts: Callable[[], bool]) -> None:
        self._progress, self.endless, self._counts = progress, endless, counts

    def begin_pass(self) -> tuple[Place, Callable[[Handed], None]]:
        """Begin at the place where training is."""
        progress, endless = self._progress, self.endless
        if not self._counts():
            return Place(progress.start.epoch), lambda handed: None
        ledger = progress.begin(endless)
        return ledger.place, lambda handed: progress.take(ledger, [handed], endless)

    def end_pass(self) -> None:
        """End the epoch."""
        self._progress.end()
