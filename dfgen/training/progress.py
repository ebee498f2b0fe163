"""The place of training, where the next pass begins, and the batches that were taken."""

from dfgen.loading.loader import Loader
from dfgen.loading.receipts import Handed, Ledger, Receipt
from dfgen.loading.state import Place


class Progress:
    """The place of training; shared by a Sequence and its `repeat()`.

    `fit` counts the steps that the model has taken. A loop of the user counts the batches that it
    has received.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.start = Place()  # where the next pass begins
        self.resumed = False  # whether `start` was loaded, and its epoch has not ended
        self.done = 0  # steps taken of Keras's epoch, if `steps_per_epoch` sets its length
        self.latest: list[Handed] = []  # batches of the last execution
        self.receipt: Receipt | None = None  # of the last epoch that has ended
        self.ledger = self._ledger()
        self.thread: int | None = None  # of the last fit

    @property
    def place(self) -> Place:
        """The place after the last batch that was taken."""
        return self._following(self.ledger.place)

    def load(self, place: Place) -> None:
        """Have the next pass begin at a place."""
        self._loader.park(None)
        self.start = place._replace(step=min(place.step, len(self._loader.plan)))
        self.ledger = self._ledger()
        if self.ledger.complete:
            self.receipt = self.ledger.close()
        self.start, self.resumed, self.done = self._following(self.start), True, 0

    def begin(self, endless: bool) -> Ledger:
        """Begin at `start`; steps of an epoch that was left early do not count."""
        self.end()
        if not (endless or self.resumed):
            self.start = Place(self.start.epoch)
        self.start = self._following(self.start)  # devices may share batches now, which are fewer
        self.ledger = self._ledger()
        return self.ledger

    def take(self, ledger: Ledger, batches: list[Handed], endless: bool) -> None:
        """Count batches. Without an end of the pass, the next one begins after them."""
        self.latest = batches
        for batch in batches:
            self.receipt = ledger.take(batch) or self.receipt
        if endless and ledger is self.ledger:
            self.start, self.resumed = self.place, False

    def end(self) -> None:
        """Have the next pass begin with the next epoch if all batches of this one were taken."""
        if self.ledger.complete and self.ledger.place.epoch == self.start.epoch:
            self.start, self.resumed = self.place, False

    def _ledger(self) -> Ledger:
        return Ledger(self._loader.epochs(), self._loader.reader.ids, self.start)

    def _following(self, place: Place) -> Place:
        """Return the place itself, or the start of the next epoch if its epoch has ended."""
        return Place(place.epoch + 1) if place.step >= len(self._loader.plan) else place
