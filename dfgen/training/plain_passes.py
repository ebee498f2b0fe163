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

    An epoch has ended when Keras ends a pass and has been given each of its batches; one that was
    left early is given back. That a pass is `evaluate` and not `fit` cannot be told: it counts too.
    What comes before Keras has ended any pass builds a model.

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
