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
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.spec import Present
from dfgen.training.checks.known_losses import SPARSE
from dfgen.training.device_division import keras_division
from dfgen.training.keras_private import as_loss
from dfgen.training.predictions.as_trained import targets_as_trained
from dfgen.training.predictions.heads import ModelHead, model_heads
from dfgen.training.predictions.ordered_passes import OrderedPasses
from dfgen.training.predictions.part_sizes import FIRST_STEPS, next_steps
from dfgen.training.predictions.prediction_columns import Said, table_of
from dfgen.training.predictions.predictions_file import claim
from dfgen.training.predictions.row_losses import row_losses
from dfgen.training.predictions.run_identity import ids_of_rows, run_of
from dfgen.training.predictions.said_arrays import (
    LISTS,
    files_of_rows,
    nested_lists,
    said_of_arrays,
)
from dfgen.training.sequence import Sequence


@dataclass(frozen=True, eq=False)
class Prediction:
    """The rows to predict, and how.

    Args:
        model: the model.
        sequence: whose rows.
        views: passes that are averaged.
        logits: as `from_logits` of `predict_frame`.
        saved: what was saved beside the model.
        arrays: as of `predict_frame`.
        weighs: whether the weights of rows are told.
        heads: is told name -> kind and class names of each head.
    """

    model: Any
    sequence: Sequence
    views: int = 1
    logits: bool | None = None
    saved: Preprocessing | None = None
    arrays: str | None = None
    weighs: bool = False
    heads: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def steps(self) -> range:
        """The batches of this process: those of several follow one another."""
        given = self.sequence._loader.given
        index, count = given.shard
        batches = -(-len(self.sequence._loader.reader) // given.size)
        return range(batches * index // count, batches * (index + 1) // count)

    @cached_property
    def plan(self) -> Plan:
        """How the rows are divided into batches, up to the last row of this process."""
        size = self.sequence._loader.given.size
        rows = min(len(self.sequence._loader.reader), self.steps.stop * size)
        one = keras_division(self.model).devices == 1
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
                said, nbytes = self._of(passes, part)
                if not self._differ:
                    steps = next_steps(len(part), time.perf_counter() - began, nbytes)
                yield part, self._table(said, self.rows(part))
                first = part.stop
        finally:
            passes.end()

    @cached_property
    def _differ(self) -> bool:
        """Whether batches may differ in more than rows: as images are padded to their largest."""
        loader, y = self.sequence._loader, keras.tree.flatten(self.sequence._layout.y)
        if not loader.reader.padding.sizes:
            return False
        outputs = keras.tree.flatten(getattr(self.model, "outputs", None) or [None])
        flat = all(one is not None and len(one.shape) <= 2 for one in outputs)
        return not flat or any(None in loader.specs[name].shape for name in y if name is not None)

    def _of(self, passes: OrderedPasses, part: range) -> tuple[list[Said], int]:
        """Return what each head says of the rows of some batches, and the bytes that it took."""
        found: list[Said] = []
        y, features = self._targets
        nbytes = 0
        for view in range(self.views):
            until = self.steps.stop if self.views == 1 else part.stop
            outputs, targets = passes.predict(self.model, part, view, until)
            arrays = [] if targets is None else keras.tree.flatten(targets)
            true = dict(zip(keras.tree.flatten(y), arrays, strict=bool(arrays)))
            heads = model_heads(self.model, outputs, y, features, self.logits)
            said = [_of_head(head, array, true.get(head.target)) for head, array in heads]
            held = [*true.values(), *(array for _, array in heads)]
            nbytes = sum(one.nbytes for one in held if one is not None)
            found = [a + b for a, b in zip(found, said, strict=True)] if found else said
        return [one.mean(self.views) for one in found], nbytes

    @cached_property
    def run(self) -> dict[str, Any]:
        """The identity that tells this run from others."""
        told = {} if self.sequence._layout.y is not None else self._targets[1]
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

    def said(self, whole: bool) -> dict[str, Any]:
        """Return what is told of the run beside its rows, once these are predicted.

        Its identity is `whole`, or one part of several: to find it takes time.
        """
        rows, alone = self.rows(self.steps), self.sequence.shard[1] == 1
        if alone and not whole:
            return {"heads": self.heads}
        part = {"part": [rows.start, rows.stop], **ids_of_rows(self.sequence, rows)}
        return {**self.run, **part, "heads": self.heads}

    @cached_property
    def _targets(self) -> tuple[Any, Mapping[str, tuple[Any, BoundFeature | None]]]:
        """The names of the arrays of y, nested; and name -> feature, and that with its rows."""
        binding, y = self.sequence._binding, self.sequence._layout.y
        if y is None and self.saved is not None:
            return targets_as_trained(self.saved)
        bound = [binding[name] for name in leaves(binding.y)]
        return y, {name: (one.feature, one) for one in bound for name in one.specs}

    def _table(self, said: list[Said], rows: slice) -> pa.Table:
        """Return the columns of some rows."""
        loader = self.sequence._loader
        for one in said:
            names = one.head.class_names
            known = {"kind": one.head.kind(one.numbers), "class_names": names and list(names)}
            self.heads[one.head.name] = known
        reasons = np.full(rows.stop - rows.start, None, object)
        for row in loader.problems:
            if rows.start <= row < rows.stop:
                reasons[row - rows.start] = loader.problems[row].reason
        weights = None
        if self.weighs:
            alike = np.ones(len(reasons), np.float32)
            weights = alike if loader.weights is None else loader.weights[rows]
        arrays = None if self.arrays is None else partial(self._arrays, rows)
        return table_of(said, rows, reasons, weights, arrays)

    def _arrays(self, rows: slice, head: ModelHead, said: Any, lost: Present) -> pa.Array:
        """Return the column of an output of more axes than one."""
        found = said_of_arrays(head, said)
        if self.arrays == LISTS:
            return nested_lists(found, lost)
        ids = self.sequence._loader.order.ids_at(np.arange(rows.start, rows.stop))
        return files_of_rows(found, lost, os.path.join(self.arrays or "", head.name), ids)


def _of_head(head: ModelHead, outputs: npt.NDArray[Any], target: npt.NDArray[Any] | None) -> Said:
    losses, loss = None, as_loss(head.loss)
    if loss is not None and target is not None:
        _check_classes(head, target, outputs.shape[-1])
        losses = row_losses(loss, target, outputs)
    return Said(head, head.activated(outputs), losses)


def _check_classes(head: ModelHead, target: npt.NDArray[Any], units: int) -> None:
    """Refuse numbers of classes that there is no unit for, where some backends give any loss."""
    known, bound = head.known, head.bound
    if known is None or known.kind != SPARSE or bound is None or not target.size:
        return
    wrong = target[((target < 0) | (target >= units)) & (target != known.ignored)]
    if wrong.size:
        column = ", ".join(bound.feature.columns)
        raise ArgumentError(
            f"column {column!r} holds the class {wrong.flat[0]:g}, but the output "
            f"{head.name or 'of the model'!r} has {units} units, which {known.name} takes for the "
            f"classes 0 to {units - 1}: write y=dfgen.Category({column!r}), which numbers its "
            "values from 0, or predict without y"
        )
