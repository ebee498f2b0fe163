"""What a model says of the rows of a Sequence, a part of them after the other."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.binding.nested import leaves
from dfgen.loading.order.plan import Plan
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.training.device_division import keras_division
from dfgen.training.keras_private import loss_weights
from dfgen.training.predictions.heads import ModelHead, model_heads
from dfgen.training.predictions.ordered_passes import OrderedPasses
from dfgen.training.predictions.part_sizes import FIRST_STEPS, next_steps
from dfgen.training.predictions.prediction_columns import Said, table_of
from dfgen.training.predictions.row_losses import row_losses
from dfgen.training.predictions.run_identity import run_of
from dfgen.training.sequence import Sequence


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is predicted, and how.

    Args:
        model: the model.
        sequence: whose rows.
        views: passes that are averaged.
        logits: as `from_logits` of `predict_frame`.
        weighs: whether the weights of rows are told.
        heads: is told name -> kind and class names of each head.
    """

    model: Any
    sequence: Sequence
    views: int = 1
    logits: bool | None = None
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
        passes, steps = OrderedPasses(self.sequence, self.plan), FIRST_STEPS
        try:
            while first < self.steps.stop:
                part = range(first, min(first + steps, self.steps.stop))
                began = time.perf_counter()
                said, nbytes = self._of(passes, part)
                steps = next_steps(len(part), time.perf_counter() - began, nbytes)
                yield part, self._table(said, self.rows(part))
                first = part.stop
        finally:
            passes.end()

    def _of(self, passes: OrderedPasses, part: range) -> tuple[list[Said], int]:
        """Return what each head says of the rows of some batches, and the bytes that it took."""
        found: list[Said] = []
        y = self.sequence._layout.y
        nbytes = 0
        for view in range(self.views):
            until = self.steps.stop if self.views == 1 else part.stop
            outputs, targets = passes.predict(self.model, part, view, until)
            true = dict(zip(keras.tree.flatten(y), keras.tree.flatten(targets), strict=True))
            heads = model_heads(self.model, outputs, y, self._targets, self.logits)
            said = [_of_head(head, array, true.get(head.target)) for head, array in heads]
            held = [*true.values(), *(array for _, array in heads)]
            nbytes = sum(one.nbytes for one in held if one is not None)
            found = [a + b for a, b in zip(found, said, strict=True)] if found else said
        return [one.mean(self.views) for one in found], nbytes

    @cached_property
    def run(self) -> dict[str, Any]:
        """What tells this run from others."""
        return run_of(
            self.model,
            self.sequence,
            views=self.views,
            from_logits=self.logits,
            evaluates=self.weighs,
        )

    def said(self, whole: bool) -> dict[str, Any]:
        """Return what is told of the run beside its rows, once these are predicted.

        What tells it from others is `whole`, or one part of several: to find it takes time.
        """
        rows, alone = self.rows(self.steps), self.sequence.shard[1] == 1
        known = {} if alone and not whole else {**self.run, "part": [rows.start, rows.stop]}
        return {**known, "heads": self.heads}

    @cached_property
    def _targets(self) -> Mapping[str, tuple[Feature, BoundFeature | None]]:
        """Name of an array of y -> its feature, and that with its rows."""
        binding = self.sequence._binding
        bound = [binding[name] for name in leaves(binding.y)]
        return {name: (one.feature, one) for one in bound for name in one.specs}

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
        return table_of(said, rows, reasons, weights, loss_weights(self.model))


def _of_head(head: ModelHead, outputs: npt.NDArray[Any], target: npt.NDArray[Any] | None) -> Said:
    losses = None
    if head.loss is not None and target is not None:
        losses = row_losses(head.loss, target, outputs)
    return Said(head, head.activated(outputs), losses)
