"""A loop, of Keras or of the user, over a Sequence: a run and its passes.

Where Keras is not as dfgen knows it, a Sequence is a plain PyDataset: `PlainPasses`.
"""

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import keras

from dfgen.errors import ArgumentError
from dfgen.loading.loader import Loader
from dfgen.loading.lookahead import LookAhead
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, Position
from dfgen.loading.receipts import Handed, Ledger
from dfgen.loading.state import Place
from dfgen.training.backends import super_batch
from dfgen.training.checks.model_check import check_dropped
from dfgen.training.keras_calls import given_beside, put_variables_back
from dfgen.training.keras_private import on_interruption
from dfgen.training.keras_probe import lacks, refuse_if_unseen
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
        except BaseException:
            if self._driver in ("fit", "evaluate", "predict"):
                put_variables_back()
            raise

    def _begin(self) -> None:
        progress, place = self._progress, self._progress.place
        follows = self._endless or self._driver == "fit" or (progress.resumed and not self._driver)
        place = place if follows else Place(place.epoch)
        plan = place.plan(self._plan)
        steps = range(place.step, len(plan.of(place.epoch)))
        steps = steps if self._part is None else self._part[0]
        self._epoch = place.epoch
        if not self._endless:
            self._left = len(steps)
            if self._exact and place.under_way:
                raise ArgumentError(
                    f"this dataset is of whole epochs of {len(plan)} batches, and the state "
                    f"that was loaded since goes on after {place.step} of them: call "
                    "get_tf_dataset() again"
                )
        self._ledger = progress.fit if self._driver else progress.begin_loop(place)
        self._stream = self._loader.stream(
            place.epoch, steps.start, plan, self._at_once or 1, self._endless
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


_KNOWN = f"Keras {keras.__version__}, which is not as dfgen knows it"


class PlainPasses:
    """Which epoch each batch is of, by no more than what Keras tells every PyDataset.

    An epoch has ended when Keras ends a pass and has been given each of its batches; one that was
    left early is given back. That a pass is `evaluate` and not `fit` cannot be told: it counts too.
    Keras builds a model by what it asks for before it has ended any pass.

    TensorFlow begins the next pass before Keras has ended this one. With `steps_per_epoch` nobody
    could tell to which epoch that belongs: so it is refused but of an endless view, which goes on
    behind the batches that were asked for when its index begins anew.
    """

    def __init__(self, loader: Loader, progress: Progress, endless: bool) -> None:
        self._loader, self._progress, self._endless = loader, progress, endless
        self._ended = self._within = self._goes_on = False
        self._place = Place()
        self._next = 0
        self._ledger: Ledger | None = None
        self._handed: set[int] = set()
        self._lock = threading.Lock()

    def indices(self) -> Iterable[int]:
        """Return what Keras asks a pass for."""
        return count() if self._endless else range(len(self._loader))

    def check(self, data: object) -> None:
        """Refuse what was given beside the data and does not reach it, or disturbs its epochs."""
        if not lacks("DataAdapter"):
            refuse_if_unseen()
        given = given_beside(data)
        check_dropped(given, "fit")
        if given.get("steps_per_epoch") is not None and not self._endless:
            raise ArgumentError(
                f"with {_KNOWN}, an epoch has all batches of a Sequence: leave steps_per_epoch= or "
                "steps= out, or give fit sequence.repeat()"
            )

    def begin(self) -> None:
        """Keras begins a pass: a new epoch, where all batches of the one before were asked for."""
        self._within, progress = self._ended, self._progress
        self._refuse()
        if not self._within or self._endless:
            return
        self._goes_on = bool(self._handed)
        if self._ledger is not progress.fit or self._place.epoch != progress.place.epoch:
            self._begin_epoch()
            self._goes_on = False

    def _begin_epoch(self) -> None:
        self._ledger = self._progress.begin_plain(self._endless)
        self._place = self._progress.place
        self._handed.clear()

    def end(self) -> None:
        """Keras ends a pass, or is about to begin its first."""
        whole = len(self._handed) == len(self._loader)
        if whole and self._ledger is self._progress.fit and not self._endless:
            self._progress.end_plain(self._place.epoch)
            if not self._goes_on:
                self._handed.clear()
        self._within, self._ended = False, True

    def batch(self, index: int) -> Batch:
        """Return a batch, of the current epoch or as many epochs later."""
        if self._endless and self._within and index == 0:
            self._begin_epoch()
        # an endless one is fetched ahead, also between two epochs of Keras
        within = self._within or (self._endless and 0 < index == self._next)
        of_pass = within or self._goes_on
        self._next = index + 1 if within else self._next
        place = self._place if of_pass else Place(self._progress.place.epoch)
        epochs, step = divmod(index + place.step, len(self._loader))
        position = place.epoch + (epochs if self._endless else 0), step
        if within and not self._endless:
            self._progress.begin(position[0])
        batch = self._loader.batch(*position, self._progress.plan())
        with self._lock:
            if within and self._ledger and (self._endless or step not in self._handed):
                handed = Handed(time.perf_counter(), position, batch.rows, batch.skipped)
                self._progress.hand_out(handed, self._ledger)
                if self._endless:
                    self._progress.end_loop(self._ledger.place)
                else:
                    self._handed.add(step)
        return batch

    def _refuse(self) -> None:
        place = self._progress.place
        if self._loader.plan.shard[1] > 1:
            fault = "processes cannot share batches: train in one process, or in a loop of your own"
        elif self._progress.resumed and (place.first or (place.step and not self._endless)):
            fault = (
                f"training cannot go on after {place.step} batches of an epoch: load a state from "
                "between two epochs, or go on in a loop of your own"
            )
        else:
            return
        raise ArgumentError(f"with {_KNOWN}, {fault}")
