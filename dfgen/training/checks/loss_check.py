"""Do the targets of a Sequence suit the losses and the outputs of a model?

Of losses, steps and transforms of the user's own nothing is guessed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError, warn
from dfgen.training.checks.loss_rules import doubt, mismatch
from dfgen.training.checks.model_outputs import (
    CHECKED,
    Output,
    Target,
    Trained,
    known_loss,
    outputs_made,
    outputs_of,
)
from dfgen.training.checks.pairing import by_output, has_keras_loss, steps_as_keras
from dfgen.training.keras_calls import Call, when_losses_are_built
from dfgen.training.keras_private import unweighted_metrics
from dfgen.training.layout import SequenceView


def warn_of_metrics(model: Any, view: SequenceView, padded: bool) -> None:
    """Warn of metrics that will count rows which hold blanks, or fill up the last batch."""
    metrics = unweighted_metrics(model)
    left_out = list(_left_out(metrics, view, padded)) if metrics else []
    if left_out:
        warn(
            f"Keras's metrics= ignore weights, and so count rows of weight 0: "
            f"{'; '.join(left_out)}. For metrics of the other rows alone compile the model with "
            "weighted_metrics= instead of metrics="
        )


def _left_out(metrics: Any, view: SequenceView, padded: bool) -> Iterator[str]:
    loader, asked = view.loader, metrics.keys() if isinstance(metrics, Mapping) else None
    for name in leaves(view.layout.y):
        there = loader.reader.present.get(name) if isinstance(name, str) else None
        if there is not None and not there.all() and (asked is None or name in asked):
            yield f"{np.count_nonzero(~there):,} without a label, as blanks in {name!r}"
    if loader.problems:
        yield f'{len(loader.problems):,} that cannot be read, as zeros (on_error="skip")'
    if padded:
        yield "those that fill up the last batch, which processes or devices share"


def check_loss(call: Call, view: SequenceView, where: str = "") -> None:
    """Refuse targets that a model's losses cannot learn from, and warn of logits taken for others.

    `where` begins messages.
    """
    model, loss = call.model, getattr(call.model, "loss", None)
    as_keras = steps_as_keras(model, call.purpose) and has_keras_loss(model)
    if call.purpose not in ("fit", "evaluate") or not as_keras:
        return
    losses = [one for one in keras.tree.flatten(loss) if one is not None]
    if view.layout.y is None:
        if any(map(_needs_targets, losses)):
            names = [getattr(one, "name", getattr(one, "__name__", one)) for one in losses]
            raise ArgumentError(
                f"{where}the loss {', '.join(map(str, names))} of the model needs targets, but the "
                "Sequence has inputs alone: give it y=, the column of the labels, and no "
                'label_mode=None; for an autoencoder y=dfgen.Image("path"). A model that makes its '
                "own loss is compiled with loss=None"
            )
        return
    outputs, is_fit = outputs_of(model), call.purpose == "fit"  # the call would hold its iterator
    on_tensorflow, said = keras.backend.backend() == "tensorflow", set[str]()

    def check(outputs: dict[str, Output]) -> None:
        for trained in _trained(outputs, loss, view):
            if (told := mismatch(trained, is_fit)) is not None:
                raise ArgumentError(where + told)
            told = doubt(trained, on_tensorflow) if is_fit else None
            if told is not None and told not in said:
                said.add(told)
                warn(told)

    check(outputs)
    if losses and (not outputs or any(output.units is None for output in outputs.values())):
        when_losses_are_built(call, lambda made: check(outputs_made(model, made)))


def _trained(outputs: dict[str, Output], loss: Any, view: SequenceView) -> Iterator[Trained]:
    loader, layout = view.loader, view.layout
    losses, targets = by_output(loss, list(outputs)), by_output(layout.y, list(outputs))
    bound = {name: one for one in loader.reader.features for name in one.specs}
    for name, output in outputs.items():
        known, array = known_loss(losses.get(name), CHECKED), targets.get(name)
        if known is not None and isinstance(array, str) and not layout.turns(array):
            yield Trained(output, known, Target(bound[array], array, loader, known.ignored))


def _needs_targets(given: Any) -> bool:
    """Whether a loss fails without targets: all do but classes that are called otherwise."""
    kind = given if isinstance(given, type) else type(given)
    return not issubclass(kind, keras.losses.Loss) or kind.__call__ is keras.losses.Loss.__call__
