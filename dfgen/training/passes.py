"""Passes: iterators over batches, nested for Keras, from the place that training has reached."""

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pandas as pd

from dfgen.binding.bind import Binding
from dfgen.loading.loader import Loader
from dfgen.loading.order.epochs import Plan
from dfgen.loading.pending_batch import Batch, LookAhead
from dfgen.loading.problems import Problems
from dfgen.loading.receipts import Handed, Ledger, Place, Receipt
from dfgen.spec import Spec, channels_first, leaves, map_leaves, tree_of


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


@dataclass(frozen=True)
class Layout:
    """How the arrays of a batch are nested for Keras. Weights of pixels are (batch, 1, 1)."""

    x: Any  # names of arrays, nested as the inputs of a model
    y: Any  # likewise, or None
    images: frozenset[str]  # arrays that follow `keras.config.image_data_format()`
    weighted: bool  # whether every batch has weights
    weighing: Mapping[str, tuple[int, str | None]]
    """Array of y -> axes of its loss after the batch, and its name if its weights differ."""
    filled: frozenset[str] = frozenset()  # arrays of y with weights of their own, of full shape

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights)."""
        arrays = {**batch.arrays, **{n: channels_first(batch.arrays[n]) for n in self._turned}}

        def weights(name: str) -> Any:
            own = batch.weights_of(name)
            shape = self._weight_shape(name, arrays[name].shape[1:])
            return np.broadcast_to(own.reshape(-1, *[1] * len(shape)), own.shape + shape).copy()

        return self._nest(arrays, weights)

    def specs(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the Spec of each array, nested as the batches."""
        turned = {name: self.turned(name, spec) for name, spec in specs.items()}
        shapes = {name: self._weight_shape(name, turned[name].shape) for name in self.weighing}
        return self._nest(turned, lambda name: Spec(shapes[name], np.dtype(np.float32)))

    def element_spec(self, specs: Mapping[str, Spec]) -> Any:
        """Return the KerasTensor of each array, nested as the batches."""

        def tensor(spec: Spec, name: str) -> keras.KerasTensor:
            dtype = "string" if spec.dtype.hasobject else spec.dtype
            return keras.KerasTensor((None, *spec.shape), dtype, name=name)

        names = self._nest({name: name for name in specs}, lambda name: "sample_weight")
        return keras.tree.map_structure(tensor, self.specs(specs), names)

    def _nest(self, parts: Mapping[str, Any], weights: Callable[[str], Any]) -> tuple[Any, ...]:
        nested = tuple(tree_of(t, parts.__getitem__) for t in (self.x, self.y) if t is not None)
        differ = len(self.weighing) > 1 and (self.filled or len({*self.weighing.values()}) > 1)
        weighed = self.y if differ else next(iter(self.weighing), None)
        return (*nested, tree_of(weighed, weights)) if self.weighted else nested

    def _weight_shape(self, name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        axes = self.weighing[name][0]
        return shape[:axes] if name in self.filled else (1,) * axes

    def turned(self, name: str, spec: Spec) -> Spec:
        """Return the Spec of an array with its channels where the model expects them."""
        if name not in self._turned:
            return spec
        *items, height, width, channels = spec.shape
        return Spec((*items, channels, height, width), spec.dtype)

    @property
    def _turned(self) -> frozenset[str]:
        return self.images if keras.config.image_data_format() == "channels_first" else frozenset()


@dataclass(frozen=True, eq=False)
class SequenceView:
    """The parts of a Sequence; `binding` is None for `repeat()`, which is endless."""

    loader: Loader
    layout: Layout
    endless: bool = False
    binding: Any = None


def layout_of(binding: Binding, weighted: bool) -> Layout:
    """Return the layout of bound inputs and targets."""
    images = frozenset(name for name, spec in binding.reader.specs.items() if spec.pixels)
    weighing: dict[str, tuple[int, str | None]] = {}
    bound_by_name = {bound.name: bound for bound in binding.reader.features}
    for bound in map(bound_by_name.__getitem__, leaves(binding.y)):
        for name, spec in bound.specs.items():
            axes = max(0, len(spec.shape) - 1) if spec.axes is None else spec.axes
            differs = bound.present is not None or name in binding.own_weights
            weighing[name] = axes, bound.name if differs else None
    x, y = (
        map_leaves(lambda name: bound_by_name[name].feature.arrays(name), tree)
        for tree in (binding.x, binding.y)
    )
    return Layout(x, y, images, weighted and y is not None, weighing)


def problems_frame(problems: Problems) -> pd.DataFrame:
    """Return id, path, stage, reason and epoch of the skipped rows, in the order of rows."""
    columns = ["id", "path", "stage", "reason", "epoch"]
    rows = [[*problems.where(row), *problems[row]] for row in sorted(problems)]
    return pd.DataFrame(rows, columns=columns).astype({"epoch": "Int64"})


def summary(loader: Loader, progress: Progress, rows: int, seed: int) -> str:
    """Return one line: rows, batches, arrays, seed and how far training has come."""
    plan, place = loader.plan, progress.place
    arrays = [
        f"{name} {'x'.join(map(str, spec.shape)).replace('None', '?') or 'scalar'} {spec.dtype}"
        for name, spec in loader.specs.items()
    ]
    part = f"; part {plan.shard[0]} of {plan.shard[1]}" if plan.shard[1] > 1 else ""
    part += f"; {plan.left_out:,} rows left out of each epoch" if plan.left_out else ""
    state = f"epoch {place.epoch}" + (f" after {place.step:,} batches" if place.step else "")
    batches = f"{rows:,} rows, {len(loader):,} batches of {loader.batch_size}{part}"
    return f"<dfgen.Sequence: {batches}; {', '.join(arrays)}; seed {seed}, {state}>"


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
                    began = time.perf_counter()
                    batches.append(self._taken(stream, next(stream), began))
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

    def _taken(self, stream: LookAhead, batch: Batch, began: float) -> Any:
        """Count a batch and return it, nested as Keras gets it."""
        nested = self._layout.batch(batch)
        if self._is_first:
            self._consumer.check_first(nested)
            self._is_first = False
        self._handed(Handed(time.perf_counter() - began, batch.rows, batch.skipped))
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
