"""The fall-back where Keras is not as dfgen knows it: a Sequence as a plain PyDataset."""

import threading
import time
from collections.abc import Iterable
from itertools import count

import keras

from dfgen.errors import ArgumentError
from dfgen.loading.loader import Loader
from dfgen.loading.pending_batch import Batch
from dfgen.loading.receipts import Handed, Ledger
from dfgen.loading.state import Place
from dfgen.training.checks.model_check import check_dropped
from dfgen.training.keras_calls import given_beside
from dfgen.training.keras_probe import lacks, refuse_if_unseen
from dfgen.training.progress import Progress

_KNOWN = f"Keras {keras.__version__}, which is not as dfgen knows it"


class PlainPasses:
    """Which epoch each batch is of, by no more than what Keras tells every PyDataset.

    It asks for each batch of a pass once, in an order of its own, ahead of time or not, and says
    when a pass begins and ends. So an epoch has ended when Keras ends a pass and has been given
    each of its batches; one that was left early is given back. That a pass is `evaluate` and not
    `fit` cannot be told: it counts too. What comes before Keras has ended any pass builds a model.

    TensorFlow fetches in a thread of its own, and begins the next pass before Keras has ended this
    one; that pass goes on, or another one is begun in its place. Keras asks each for its length.

    An endless view goes on behind the batches that were asked for when its index begins anew.
    """

    def __init__(self, loader: Loader, progress: Progress, endless: bool) -> None:
        self._loader = loader
        self._progress = progress
        self._endless = endless
        self._ended = self._within = self._goes_on = False
        self._place = Place()
        self._next = 0
        self._thread: int | None = None
        self._is_new = self._is_cut = self._turned = False
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
        self._thread, self._is_new, self._turned = threading.get_ident(), True, False
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
        if self._is_of_fit and not self._turned:
            self._is_cut = not whole
            if whole:
                self._progress.end_plain(self._place.epoch)
                if not self._goes_on:
                    self._handed.clear()
        self._within, self._ended = False, True

    def begin_fetching(self) -> None:
        """Keras asks for the length: in a thread of its own, as it begins to fetch a pass."""
        if not (self._is_of_fit and self._fetches_ahead):
            return
        with self._lock:
            # a whole one that Keras has begun to take, and so did not fetch to throw it away
            if len(self._handed) == len(self._loader) and (self._is_cut or not self._is_new):
                if self._place.epoch == self._progress.place.epoch:
                    self._progress.end_plain(self._place.epoch)
                self._begin_epoch()
                self._turned = True
            self._handed.clear()

    @property
    def _fetches_ahead(self) -> bool:
        return threading.get_ident() != self._thread

    @property
    def _is_of_fit(self) -> bool:
        """Whether the batches handed out last are of `fit`, and of a pass that has an end."""
        of_fit = self._ledger is self._progress.fit
        return of_fit and bool(self._handed) and not self._endless

    def batch(self, index: int) -> Batch:
        """Return a batch, of the current epoch or as many epochs later."""
        if self._endless and self._within and index == 0:
            self._begin_epoch()
        # a pass is fetched ahead of Keras's epochs; one that was left may go on behind another
        of_fit = self._endless or self._is_of_fit
        within = self._within or self._turned or (of_fit and 0 < index == self._next)
        within = within or (self._is_of_fit and self._is_cut and self._fetches_ahead)
        self._is_new = False
        of_pass = within or self._goes_on
        self._next = index + 1 if within else self._next
        place = self._place if of_pass else Place(self._progress.place.epoch)
        epochs, step = divmod(index + place.step, len(self._loader))
        position = place.epoch + (epochs if self._endless else 0), step
        if within and not self._endless:
            self._progress.begin(position[0])
        batch = self._loader.batch(*position)
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
        """Refuse what a plain PyDataset cannot do."""
        place = self._progress.place
        if self._loader.plan.shard[1] > 1:
            fault = "processes cannot share batches: train in one process, or in a loop of your own"
        elif self._progress.resumed and place.step and not self._endless:
            fault = (
                f"training cannot go on after {place.step} batches of an epoch: load a state from "
                "between two epochs, or go on in a loop of your own"
            )
        else:
            return
        raise ArgumentError(f"with {_KNOWN}, {fault}")
