"""The rows of a Sequence in their own order, each once, for `model.predict`."""

from typing import Any

import keras
import numpy as np

from dfgen.loading.order.plan import Plan
from dfgen.loading.state import Place
from dfgen.training.keras_calls import Call
from dfgen.training.keras_private import predicting_alone
from dfgen.training.passes import Passes
from dfgen.training.progress import Progress
from dfgen.training.runs import Run
from dfgen.training.sequence import Sequence


class OrderedPasses(Passes):
    """Feeds `model.predict` a few batches at a time, and keeps their targets.

    Rows come in the order of the manifest, whatever that of the Sequence is; the workers are its
    own, and its epochs are left alone.

    Args:
        sequence: whose rows they are.
        plan: how they are divided into batches.
    """

    def __init__(self, sequence: Sequence, plan: Plan) -> None:
        loader = sequence._loader.in_order(plan)
        super().__init__(loader, Progress(loader), sequence._layout, shuffle=False, endless=False)
        self._targets: dict[int, Any] = {}
        self._current = Run(plan, self._layout)
        self._made: Any = None

    def predict(self, model: Any, part: range, view: int, until: int) -> tuple[Any, Any]:
        """Return what a model says of the rows of some batches, and their targets.

        Args:
            model: the model.
            part: the steps of the plan.
            view: the epoch that chance draws as.
            until: the step that none is made ahead of from.

        Returns:
            Outputs and targets, nested as they are, without rows that only fill up a batch.
        """
        self._part, self._targets = (part, until), {}
        self.progress.place = Place(view)
        with predicting_alone(model):
            outputs = model.predict(self, verbose=0)
        rows = sum(map(self._loader.plan.real, part))
        targets = [self._targets[step] for step in part]
        joined = None
        if self._layout.y is not None:
            joined = keras.tree.map_structure(lambda *each: np.concatenate(each)[:rows], *targets)
        self._targets = {}
        return keras.tree.map_structure(lambda array: np.asarray(array)[:rows], outputs), joined

    def _run(self, call: Call | None) -> Run:
        """Return the run, the same object for every part."""
        run = super()._run(call)
        if call is None or run is self._current:
            return run
        vars(self._current).update(vars(run), note=self._note)
        self._runs[call.iterator] = self._current
        return self._current

    def _dataset(self, run: Run, length: int | None) -> Any:
        """Return the data set of all parts: TensorFlow takes 40 ms to make one."""
        if self._made is None:
            self._made = super()._dataset(run, length)
        return self._made

    def __len__(self) -> int:
        """Return the number of batches of the part."""
        return 0 if self._part is None else len(self._part[0])

    def __getitem__(self, index: int) -> Any:
        """Return a batch of the part, where Keras takes it as a plain PyDataset."""
        steps = range(0) if self._part is None else self._part[0]
        position = self.epoch, steps[index]
        batch = self._layout.batch(self._loader.batch(*position))
        self._note(position, batch)
        return batch

    def end(self) -> None:
        """Let go of what was made ahead."""
        self._loader.park(None)
        self._made = None  # which holds this: a circle

    def _note(self, position: tuple[int, int], batch: Any) -> None:
        self._targets[position[1]] = batch[1] if len(batch) > 1 else None
