"""How far training has come: where the next pass begins, and what was taken of this one."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.loading.loader import Loader
from dfgen.loading.order.draws import Proportions, proportions_of
from dfgen.loading.order.plan import Plan
from dfgen.loading.receipts import Handed, Ledger, Receipt
from dfgen.loading.state import Place

TAKEN, HANDED_OUT = "taken", "handed out"


class Progress:
    """How far training has come; one for a Sequence and its `repeat()`.

    TensorFlow fetches batches ahead. If a callback of dfgen watches `fit`, they wait here until it
    tells that their step has ended. Elsewhere they count as soon as they are handed out.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.place = Place()  # where the next pass begins
        self.resumed = False  # whether a pass that has an end begins there too
        self.steps_done = 0  # of Keras's epoch, where `steps_per_epoch` says how long it is
        self.receipt: Receipt | None = None
        self._latest: list[Handed] = []
        self._steps = self._counted = 0
        self._begun = -1  # the last epoch of which a batch was made for a pass that counts
        self._redrawing = threading.Lock()
        self.fit = self.ledger = self._new_ledger()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_redrawing": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        locks = {"_redrawing": threading.Lock()}
        self.__dict__.update({**state, **locks})

    def _new_ledger(self, place: Place | None = None) -> Ledger:
        return Ledger(self._loader.order, self.place if place is None else place, HANDED_OUT)

    def go_to(self, place: Place, begun: int) -> None:
        """Have the next pass begin at a place, and draw rows by the weights that were set last.

        Its epoch was begun with so many rows in a batch.
        """
        self._begun = -1
        if (draws := self._loader.row_order.proportions) is not None:
            self._redraw(draws.at_once)
        self._loader.go_on(place.epoch, begun if place.under_way else self._loader.batch_size)
        place = place._replace(step=min(place.step, self._length(place)))
        counted, self.fit = self.fit.counted, self._new_ledger(place)
        self.ledger, self.fit.counted = self.fit, counted
        if self.fit.complete:
            self._note(self.fit.close())
        self.place, self.resumed = self._next(place), True

    def begin(self, epoch: int) -> None:
        """A pass is about to ask for a batch of an epoch, whose rows stay what they are now."""
        with self._redrawing:
            self._begun = max(self._begun, epoch)

    def draw_by(self, weights: npt.NDArray[np.float64]) -> None:
        """Draw rows by other weights since the next epoch that has not begun."""
        if (draws := self._loader.row_order.proportions) is None:
            return  # whoever goes on from a state of weights is refused
        later = proportions_of(weights, draws.places)
        with self._redrawing:
            since = self.place.epoch + self.place.under_way
            self._redraw(draws.followed_by(later, max(since, self._begun + 1)))

    def _redraw(self, draws: Proportions) -> None:
        self._loader.redraw(draws)
        for ledger in (self.fit, self.ledger):
            ledger.order = ledger.order.redrawn(self._loader.row_order)

    def weights_of(self, place: Place) -> list[Proportions]:
        """Return the weights of the epoch to go on with at a place, and those of later ones."""
        draws = self._loader.row_order.proportions
        if draws is None:
            return []
        own = draws.of(self._next(place).epoch)
        return [own] if own is draws else [own, draws]

    def _next(self, place: Place) -> Place:
        """The place itself, or the beginning of the next epoch where one has ended."""
        return Place(place.epoch + 1) if place.step >= self._length(place) else place

    def _length(self, place: Place) -> int:
        return len(self.plan(place).of(place.epoch))

    def plan(self, place: Place | None = None) -> Plan:
        """Return the plan of epochs that go on at a place, None: where the next pass begins."""
        return (self.place if place is None else place).plan(self._loader.plan)

    def begin_loop(self, place: Place) -> Ledger:
        """A loop of the user's own begins."""
        self.ledger = self._new_ledger(place)
        return self.ledger

    def begin_fit(self, endless: bool) -> None:
        """`fit` begins; what an earlier one left undone is given back."""
        if not (endless or self.resumed):
            self.place = Place(self.place.epoch)
        self.place = self._next(self.place)  # devices may share batches now, which are fewer
        self.fit = self.ledger = self._new_ledger()

    def begin_plain(self, endless: bool) -> Ledger:
        """A plain PyDataset begins an epoch: its batches come in any order, so no place in it."""
        self.begin_fit(endless)
        if not endless:
            self.ledger = self._new_ledger()
        return self.fit

    def end_plain(self, epoch: int) -> None:
        """A plain PyDataset has ended an epoch."""
        self.end_loop(Place(epoch + 1))
        self.ledger = self._new_ledger()

    def count_taken(self) -> None:
        """A callback will tell which batches this `fit` takes."""
        self.fit.counted = TAKEN

    def begin_epoch(self, steps: int) -> None:
        """`fit` begins an epoch of so many steps."""
        self._steps, self._counted, self._latest = steps, 0, []

    def hand_out(self, handed: Handed, ledger: Ledger) -> None:
        """Note a batch that leaves."""
        if ledger.counted == TAKEN:
            ledger.waiting.append(handed)
        else:
            self._note(ledger.take(handed))

    def taken(self, batch: int) -> list[Handed]:
        """Return the batches of the execution that ended with this step of the epoch of `fit`."""
        self.ledger, waiting = self.fit, self.fit.waiting
        steps = min(batch + 1, self._steps) - self._counted
        if steps > 0:
            self._counted += steps
            self._latest = [waiting.popleft() for _ in range(min(steps, len(waiting)))]
            for handed in self._latest:
                self._note(self.fit.take(handed))
        return self._latest

    def end_epoch(self, endless: bool) -> None:
        """`fit` has ended its epoch."""
        self.taken(self._steps - 1)
        length, (epoch, step) = self._length(self.place), self.place[:2]
        step += self._steps if endless else min(self._steps, length - step)
        if step >= length:
            more, step = divmod(step - length, len(self._loader))
            epoch += 1 + more
        if self.fit.place.epoch < epoch and not self.fit.complete:
            self._note(self.fit.close())  # some of its batches never came
        self.place, self.resumed = self.fit.at(epoch, step), False

    def end_loop(self, place: Place) -> None:
        """A loop of the user's own has come so far."""
        self.place, self.resumed = self._next(place), False

    def _note(self, receipt: Receipt | None) -> None:
        if receipt is not None:
            self.receipt = receipt
