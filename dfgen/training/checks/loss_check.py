"""Do the targets of a Sequence suit the losses and the outputs of a model?

Told before the first step. Known are the losses of Keras, by name, class or function; of those of
the user's own, of classes derived from Keras's, and of models with a step of their own nothing is
guessed. So it is with labels that a `transform` or `batch_transform` may have changed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError, DecodeError, MissingFileError, warn
from dfgen.loading.loader import Loader
from dfgen.samples.albumentations import Pipeline
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.encoded import Encoded
from dfgen.training.checks.loss_rules import doubt, mismatch
from dfgen.training.checks.model_outputs import (
    CHECKED,
    KnownLoss,
    Output,
    Target,
    Trained,
    known_loss,
    outputs_made,
    outputs_of,
)
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


_STEPS = {"fit": "train_step", "evaluate": "test_step"}

_FILES = 4
"""Files of masks that are looked into, whose classes no table tells."""

_NUMBERS = 4_000_000
"""Zeros and ones that are looked through for rows of several labels."""


def check_loss(call: Call, view: SequenceView, where: str = "") -> None:
    """Refuse targets that a model's losses cannot learn from, and warn of logits taken for others.

    There are no targets, or classes, numbers and units do not go together. `where` begins messages.
    """
    model, own, step = call.model, type(call.model), _STEPS.get(call.purpose or "")
    loss = getattr(model, "loss", None)
    if step is None or getattr(own, step) is not getattr(keras.Model, step):
        return
    if own.compute_loss is not keras.Model.compute_loss:
        return
    losses = [one for one in keras.tree.flatten(loss) if one is not None]
    if view.layout.y is None:
        if any(map(_needs_targets, losses)):
            raise ArgumentError(where + _no_targets(losses))
        return
    outputs, is_fit = outputs_of(model), call.purpose == "fit"  # the call would hold its iterator
    on_tensorflow, said = keras.backend.backend() == "tensorflow", set[str]()

    def check(outputs: dict[str, Output]) -> None:
        for trained in _trained(outputs, loss, view):
            told = mismatch(trained, is_fit)
            if told is not None:
                raise ArgumentError(where + told)
            told = doubt(trained, on_tensorflow) if is_fit else None
            if told is not None and told not in said:
                warn(told)
                said.add(told)

    check(outputs)
    if losses and (not outputs or any(output.units is None for output in outputs.values())):
        when_losses_are_built(call, lambda made: check(outputs_made(model, made)))


def _trained(outputs: dict[str, Output], loss: Any, view: SequenceView) -> Iterator[Trained]:
    loader, layout = view.loader, view.layout
    losses, targets = _by_output(loss, list(outputs)), _by_output(layout.y, list(outputs))
    bound = {name: one for one in loader.reader.features for name in one.specs}
    for name, output in outputs.items():
        known, array = known_loss(losses.get(name), CHECKED), targets.get(name)
        if known is not None and isinstance(array, str) and not layout.turns(array):
            yield Trained(output, known, _target(bound[array], array, loader, known))


def _by_output(tree: Any, names: list[str]) -> dict[str, Any]:
    if isinstance(tree, Mapping) and names and set(names) >= set(tree):
        return dict(tree)
    if isinstance(tree, Mapping | list | tuple):
        found = list(leaves(tree))
        in_order = len(found) == len(names) and (len(names) == 1 or not isinstance(tree, Mapping))
        return dict(zip(names, found, strict=True)) if in_order else {}
    return dict.fromkeys(names, tree)


def _target(bound: BoundFeature, array: str, loader: Loader, loss: KnownLoss) -> Target:
    """Return a target as far as it is known; what a function of the user's makes of it is not."""
    feature, reader = bound.feature, loader.reader
    same = loader.specs is reader.specs  # without a batch_transform
    as_written = same and isinstance(reader.transform, Pipeline | None)
    names = feature.class_names if same and len(bound.specs) == 1 else None

    def numbers() -> Any:
        if not as_written:
            return None
        counted, found = _counted(bound, loader), feature.label_numbers(bound.values)
        if found is None:
            found = _labels_in_files(bound, reader.store, counted)
        elif len(found) == len(counted) and not counted.all():
            found = found[counted]
        ignored = loss.ignored
        return found if found is None or ignored is None else found[found != ignored]

    def has_several() -> bool:
        shape = next(iter(bound.specs.values())).shape
        if not as_written or not isinstance(feature, Encoded) or len(shape) != 1:
            return False
        rows = np.flatnonzero(_counted(bound, loader))
        found = bound.gather(rows[:: 1 + len(rows) * shape[0] // _NUMBERS])
        return bool(np.isin(found, (0, 1)).all() and (found.sum(axis=1) > 1).any())

    column = ", ".join(feature.columns)
    spec, many = loader.specs[array], feature.many_labels
    is_bytes = as_written and spec.dtype == np.uint8 and bound.image is not None
    of_files = feature.follows and feature.label_numbers(bound.values) is None
    return Target(column, spec.shape, names, many, has_several, is_bytes, of_files, numbers)


def _counted(bound: BoundFeature, loader: Loader) -> Any:
    return loader.counted if bound.present is None else loader.counted & bound.present


def _labels_in_files(bound: BoundFeature, store: Any, counted: Any) -> Any:
    whole = bound.files is not None and bound.array_rows is None and not bound.has_lists
    if not whole or not counted.any():
        return None
    rows, found = np.flatnonzero(counted), list[Any]()
    for row in rows[np.linspace(0, len(rows) - 1, min(len(rows), _FILES)).astype(int)]:
        try:
            data = store.read(bound.feature.at(bound.values, row))
            found.append(bound.feature.label_numbers(bound.values, data))
        except (DecodeError, MissingFileError):
            continue  # told when the row is read
    found = [labels for labels in found if labels is not None]
    return np.unique(np.concatenate(found)) if found else None


def _needs_targets(given: Any) -> bool:
    """Whether a loss fails without targets: all do but classes that are called otherwise."""
    kind = given if isinstance(given, type) else type(given)
    return not issubclass(kind, keras.losses.Loss) or kind.__call__ is keras.losses.Loss.__call__


def _no_targets(losses: list[Any]) -> str:
    names = [getattr(one, "name", getattr(one, "__name__", one)) for one in losses]
    return (
        f"the loss {', '.join(map(str, names))} of the model needs targets, but the Sequence has "
        "inputs alone: give it y=, the column of the labels, and no label_mode=None; for an "
        'autoencoder y=dfgen.Image("path"). A model that makes its own loss is compiled with '
        "loss=None"
    )
