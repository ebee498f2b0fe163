"""What one loop, of Keras or of the user, does with a Sequence: a run and its passes."""

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dfgen.errors import ArgumentError
from dfgen.loading.interruption import Interruption
from dfgen.loading.loader import Loader
from dfgen.loading.lookahead import LookAhead
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, Position
from dfgen.loading.receipts import Handed
from dfgen.loading.state import Place
from dfgen.training.backends import super_batch
from dfgen.training.keras_calls import put_variables_back
from dfgen.training.keras_private import on_interruption
from dfgen.training.layout import Layout
from dfgen.training.progress import Progress


@dataclass(eq=False)
class Run:
    """The work of one of Keras's EpochIterators, of which several may run, one inside the other."""

    plan: Plan
    layout: Layout
    keras_iterator: "weakref.ref[Any] | None" = None
    steps: int | None = None  # batches that `steps_per_epoch` takes
    steps_per_execution: int = 1
    plain: bool = False  # Keras gets single batches, `sequence[i]`, as of a plain PyDataset
    exact: bool = False  # a loop of the user's own knows the length, and asks for no more
    part: tuple[range, int] | None = None  # its steps, and from which none is made ahead
    is_reset: bool = False  # Keras has begun; what it takes before builds a model
    driver: str | None = None  # fit, evaluate, predict, build; None: a loop of the user's own
    note: Callable[[tuple[int, int], Any], None] | None = None  # shown each position and batch
    undo: Callable[[Any, bool], None] | None = None  # gives Keras's epochs their length again
    failure: Exception | None = None  # which Keras's own thread is still to raise

    def fail(self, error: Exception) -> None:
        """Keep an error until Keras's own thread comes by, and spare the user Keras's warning."""
        self.failure = error
        if self.keras_iterator is not None and (found := self.keras_iterator()) is not None:
            on_interruption(found, lambda: None)


class Pass:
    """One run through the order, bound to its epoch when its first batch is asked for.

    An iterator with a lock and not a generator: TensorFlow drops it from another thread.
    """

    def __init__(
        self, loader: Loader, progress: Progress, run: Run, endless: bool, at_once: int | None
    ) -> None:
        self._loader, self._progress = loader, progress
        self._layout, self._plan = run.layout, run.plan
        self._driver, self._exact = run.driver, run.exact
        self._part, self._note = run.part, run.note
        self._endless, self._at_once = endless, at_once
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
            count = self._at_once or 1
            made = [self._made() for _ in range(min(count, self._left or count))]
            nested = [self._layout.batch(batch) for _, batch in made]
            for each, (position, batch) in zip(nested, made, strict=True):
                if self._note is not None:
                    self._note(position, each)
                self._handed_out(Handed(time.perf_counter(), position, batch.rows, batch.skipped))
        if self._at_once is None:
            return nested[0]
        return super_batch(nested, [batch.block for _, batch in made], self._at_once)

    def _made(self) -> tuple[Position, Batch]:
        position = self._stream.position  # type: ignore[union-attr]
        if self._driver is None or (self._driver == "fit" and not self._endless):
            self._progress.begin(position[0])
        try:
            return position, next(self._stream)  # type: ignore[arg-type]
        except BaseException as error:
            if self._driver in ("fit", "evaluate", "predict"):
                put_variables_back()
            is_main = threading.current_thread() is threading.main_thread()
            if isinstance(error, Interruption) and is_main:
                error.leave()
            raise

    def _begin(self) -> None:
        progress, place = self._progress, self._progress.place
        follows = self._endless or self._driver == "fit" or (progress.resumed and not self._driver)
        place = place if follows else Place(place.epoch)
        steps = range(place.step, len(self._plan)) if self._part is None else self._part[0]
        self._epoch = place.epoch
        if not self._endless:
            self._left = len(steps)
            if self._exact and place.step:
                raise ArgumentError(
                    f"this dataset is of whole epochs of {len(self._plan)} batches, and the state "
                    f"that was loaded since goes on after {place.step} of them: call "
                    "get_tf_dataset() again"
                )
        self._ledger = progress.fit if self._driver else progress.begin_loop(place)
        self._stream = self._loader.stream(
            place.epoch, steps.start, self._plan, self._at_once or 1, self._endless
        )
        if self._part is None:
            self._stream.repeat_epoch = self._driver in ("evaluate", "predict")
        else:
            self._stream.end = (place.epoch, self._part[1])
        self._abandon = weakref.finalize(self, self._stream.close)

    def _handed_out(self, handed: Handed) -> None:
        if self._driver in ("fit", None):
            self._progress.hand_out(handed, self._ledger)
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self._abandon.detach()
                self._loader.park(self._stream)
                if self._exact:
                    self._exhausted()
        elif self._driver is None:
            self._progress.end_loop(self._ledger.place)

    def _exhausted(self) -> None:
        """A loop of the user's own ends an epoch, if it did not begin another one meanwhile."""
        if self._driver is None and self._progress.place.epoch == self._epoch:
            self._progress.end_loop(Place(self._epoch + 1))
