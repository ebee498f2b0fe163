"""Predictions for the rows of a Sequence, one part of them after the other."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.binding.nested import leaves
from dfgen.binding.preprocessing import Preprocessing
from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.loading.state import Place
from dfgen.samples.bound_feature import BoundFeature
from dfgen.spec import Present
from dfgen.training.checks.model_outputs import LossKind
from dfgen.training.data_adapter import Passes, view_of
from dfgen.training.device_division import keras_division
from dfgen.training.fit_pass import Run
from dfgen.training.keras_calls import Call
from dfgen.training.keras_private import as_loss, predicting_alone
from dfgen.training.layout import SequenceView
from dfgen.training.predictions.heads import ModelHead, makes_own_outputs, model_heads
from dfgen.training.predictions.prediction_columns import (
    LISTS,
    HeadValues,
    array_values,
    files_of_rows,
    nested_lists,
    row_losses,
    table_of,
)
from dfgen.training.predictions.predictions_file import claim
from dfgen.training.predictions.run_identity import ids_of_rows, run_of
from dfgen.training.predictions.saved_preprocessing import targets_as_trained
from dfgen.training.progress import Progress
from dfgen.training.sequence import Sequence


class OrderedPasses(Passes):
    """Feeds `model.predict` a few batches of the manifest at a time, and keeps their targets.

    The workers are those of the Sequence, whose epochs are left alone.
    """

    def __init__(self, sequence: Sequence, plan: Plan) -> None:
        view = view_of(sequence)
        loader = view.loader.in_order(plan)
        super().__init__(loader, Progress(loader), view.layout, shuffle=False, endless=False)
        self._targets: dict[int, Any] = {}
        self._current = Run(plan, self._layout)
        self._made: Any = None

    def predict(self, model: Any, part: range, view: int, until: int) -> tuple[Any, Any]:
        """Return outputs and targets of some batches, without rows that only fill up a batch.

        `view` is the epoch that chance draws as; from the step `until` on none is made ahead.
        """
        self._part, self._targets = (part, until), {}
        self.progress.place = Place(view)
        with predicting_alone(model):
            own = is_task(model)
            outputs = self._by_task(model) if own else model.predict(self, verbose=0)
        rows = sum(map(self._loader.plan.real, part))
        targets = [self._targets[step] for step in part]
        joined = None
        if self._layout.y is not None:
            joined = keras.tree.map_structure(lambda *each: np.concatenate(each)[:rows], *targets)
        self._targets = {}
        return keras.tree.map_structure(lambda array: np.asarray(array)[:rows], outputs), joined

    def _by_task(self, model: Any) -> Any:
        """Return the outputs of a task of KerasHub, whose `predict` takes no Sequence.

        Its preprocessor comes between, which may change targets too, as it scales a mask. What the
        `predict_step` of a detector is given by `predict_on_batch` it cannot take.
        """
        steps = range(0) if self._part is None else self._part[0]
        run, made = Run(self._loader.plan, self._layout, part=self._part, driver="predict"), []
        for step, batch in zip(steps, self.new_pass(run), strict=True):
            made_of = keras.utils.unpack_x_y_sample_weight(model.preprocess_samples(*batch[:2]))
            x, self._targets[step] = keras.tree.map_structure(_numpy, made_of[:2])
            if makes_own_outputs(model):
                found = keras.Model.predict(model, x, batch_size=self._loader.plan.size, verbose=0)
            else:
                found = keras.Model.predict_on_batch(model, x)
            made.append(found)
        return keras.tree.map_structure(lambda *each: np.concatenate(each), *made)

    def _run(self, call: Call | None) -> Run:
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


def is_task(model: Any) -> bool:
    """Whether a model is a task of KerasHub, which preprocesses what it is given.

    On TensorFlow its detectors need batches of one size.
    """
    return hasattr(model, "preprocess_samples")


def _numpy(array: Any) -> Any:
    return keras.ops.convert_to_numpy(array) if keras.ops.is_tensor(array) else np.asarray(array)


FIRST_STEPS = 16
"""Batches of the first part: what an error of the last layer costs."""

_SECONDS = 5.0
_BYTES = 1 << 24
_GROWTH = 8.0


def next_steps(steps: int, seconds: float, nbytes: int) -> int:
    """Return the batches of the next part: for 5 seconds, and no more than 16 MiB of outputs.

    So little is lost of a run that is killed, and the progress bar moves.

    Example:
        >>> next_steps(8, 0.1, 1000), next_steps(100, 10.0, 1000), next_steps(8, 0.1, 1 << 27)
        (64, 50, 1)
    """
    growth = min(_GROWTH, _SECONDS / max(seconds, 1e-9), _BYTES / max(nbytes, 1))
    return max(1, int(steps * growth))


@dataclass(frozen=True, eq=False)
class Prediction:
    """The rows to predict, and how: the arguments of `predict_frame`."""

    model: Any
    sequence: Sequence
    views: int = 1
    logits: bool | None = None
    saved: Preprocessing | None = None  # beside the model
    arrays: str | None = None
    weighs: bool = False  # the weights of rows are told
    heads: dict[str, Any] = field(default_factory=dict)  # name -> kind and class names

    @property
    def view(self) -> SequenceView:
        """The parts of the Sequence."""
        return view_of(self.sequence)

    @cached_property
    def steps(self) -> range:
        """The batches of this process: those of several follow one another."""
        loader = self.view.loader
        index, count = loader.given.shard
        batches = -(-len(loader.reader) // loader.given.size)
        return range(batches * index // count, batches * (index + 1) // count)

    @cached_property
    def plan(self) -> Plan:
        """How the rows are divided into batches, up to the last row of this process."""
        loader = self.view.loader
        size = loader.given.size
        rows = min(len(loader.reader), self.steps.stop * size)
        one = keras_division(self.model).devices == 1 and not is_task(self.model)
        return Plan(rows, size, tail="short" if one else "pad")

    def rows(self, steps: range) -> slice:
        """Return the rows of some batches."""
        return slice(steps.start * self.plan.size, min(steps.stop * self.plan.size, self.plan.rows))

    def tables(self, first: int) -> Iterator[tuple[range, pa.Table]]:
        """Yield the columns of the rows of some batches after the other, from one batch on."""
        passes = OrderedPasses(self.sequence, self.plan)
        steps = 1 if self._differ else FIRST_STEPS
        try:
            while first < self.steps.stop:
                part = range(first, min(first + steps, self.steps.stop))
                began = time.perf_counter()
                values, nbytes = self._of(passes, part)
                if not self._differ:
                    steps = next_steps(len(part), time.perf_counter() - began, nbytes)
                yield part, self._table(values, self.rows(part))
                first = part.stop
        finally:
            passes.end()

    @cached_property
    def _differ(self) -> bool:
        """Whether batches may differ in more than rows: as images are padded to their largest."""
        loader, y = self.view.loader, keras.tree.flatten(self.view.layout.y)
        if not loader.reader.padding.sizes:
            return False
        outputs = keras.tree.flatten(getattr(self.model, "outputs", None) or [None])
        flat = all(one is not None and len(one.shape) <= 2 for one in outputs)
        return not flat or any(None in loader.specs[name].shape for name in y if name is not None)

    def _of(self, passes: OrderedPasses, part: range) -> tuple[list[HeadValues], int]:
        """Return what each head says of the rows of some batches, and the bytes that it took."""
        found: list[HeadValues] = []
        y, features = self._targets
        nbytes = 0
        for view in range(self.views):
            until = self.steps.stop if self.views == 1 else part.stop
            outputs, targets = passes.predict(self.model, part, view, until)
            arrays = [] if targets is None else keras.tree.flatten(targets)
            true = dict(zip(keras.tree.flatten(y), arrays, strict=bool(arrays)))
            heads = model_heads(self.model, outputs, y, features, self.logits)
            if self.views > 1 and any(head.detects for head, _ in heads):
                raise ArgumentError(
                    f"views={self.views} with a detector, expected one: the boxes of each view lie "
                    "otherwise on the image, so that their mean means nothing. Leave views out"
                )
            values = [_of_head(head, array, true.get(head.target)) for head, array in heads]
            held = [*true.values(), *(array for _, array in heads)]
            nbytes = sum(one.nbytes for one in held if one is not None)
            found = [a + b for a, b in zip(found, values, strict=True)] if found else values
        return [one.mean(self.views) for one in found], nbytes

    @cached_property
    def run(self) -> dict[str, Any]:
        """The identity that tells this run from others."""
        told = {} if self.view.layout.y is not None else self._targets[1]
        return run_of(
            self.model,
            self.sequence,
            {name: feature for name, (feature, _) in told.items()},
            views=self.views,
            from_logits=self.logits,
            evaluates=self.weighs,
            arrays=self.arrays,
        )

    def claim_arrays(self) -> None:
        """Make the folder of files of arrays, or refuse one of another run."""
        if self.arrays not in (None, LISTS):
            claim(str(self.arrays), self.run, "arrays")

    def described(self, whole: bool) -> dict[str, Any]:
        """Return what is told of the run beside its rows; its identity takes time."""
        rows, alone = self.rows(self.steps), self.sequence.shard[1] == 1
        if alone and not whole:
            return {"heads": self.heads}
        part = {"part": [rows.start, rows.stop], **ids_of_rows(self.sequence, rows)}
        return {**self.run, **part, "heads": self.heads}

    @cached_property
    def _targets(self) -> tuple[Any, Mapping[str, tuple[Any, BoundFeature | None]]]:
        """The names of the arrays of y, nested; and name -> feature, and that with its rows."""
        binding, y = self.view.binding, self.view.layout.y
        if y is None and self.saved is not None:
            return targets_as_trained(self.saved)
        bound = [binding[name] for name in leaves(binding.y)]
        return y, {name: (one.feature, one) for one in bound for name in one.specs}

    def _table(self, values: list[HeadValues], rows: slice) -> pa.Table:
        loader = self.view.loader
        for one in values:
            names = one.head.class_names
            known = {"kind": one.head.kind(one.numbers), "class_names": names and list(names)}
            self.heads[one.head.name] = known
        reasons = np.full(rows.stop - rows.start, None, object)
        for row in loader.problems:
            if rows.start <= row < rows.stop:
                reasons[row - rows.start] = loader.problems[row].reason
        weights = (lambda target: loader.weights_of(target)[rows]) if self.weighs else None
        arrays = None if self.arrays is None else partial(self._arrays, rows)
        return table_of(values, rows, reasons, weights, arrays)

    def _arrays(self, rows: slice, head: ModelHead, outputs: Any, lost: Present) -> pa.Array:
        found = array_values(head, outputs)
        if self.arrays == LISTS:
            return nested_lists(found, lost)
        ids = self.view.loader.order.ids_at(np.arange(rows.start, rows.stop))
        return files_of_rows(found, lost, os.path.join(self.arrays or "", head.name), ids)


def _of_head(
    head: ModelHead, outputs: npt.NDArray[Any], target: npt.NDArray[Any] | None
) -> HeadValues:
    losses, loss = None, as_loss(head.loss)
    if loss is not None and target is not None:
        _check_classes(head, target, outputs.shape[-1])
        losses = row_losses(loss, target, outputs)
    return HeadValues(head, head.activated(outputs), losses)


def _check_classes(head: ModelHead, target: npt.NDArray[Any], units: int) -> None:
    """Refuse numbers of classes that there is no unit for, where some backends give any loss."""
    known, bound = head.known, head.bound
    if known is None or known.kind != LossKind.SPARSE or bound is None or not target.size:
        return
    wrong = target[((target < 0) | (target >= units)) & (target != known.ignored)]
    if wrong.size:
        column, names = ", ".join(bound.feature.columns), head.class_names
        advice = f"write y=dfgen.Category({column!r}), which numbers its values from 0"
        if names is not None:
            advice = f"predict with a model that has a unit for each of its {len(names)} classes"
        raise ArgumentError(
            f"column {column!r} holds the class {wrong.flat[0]:g}, but the output "
            f"{head.name or 'of the model'!r} has {units} units, which {known.name} takes for the "
            f"classes 0 to {units - 1}: {advice}, or predict without y"
        )
