"""Heads: each output of a model, with the target and the loss that it is compared by."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.training.checks.model_outputs import (
    CHECKED,
    KnownLoss,
    LossKind,
    keras_order,
    known_loss,
    outputs_of,
)
from dfgen.training.checks.pairing import Ends, by_output, has_keras_loss, steps_as_keras
from dfgen.training.keras_private import loss_weights

CLASSES, LABELS, NUMBERS, ARRAY = "classes", "labels", "numbers", "array"
"""The kinds of a head: one class, any number of classes, a few numbers, or more axes."""
DETECTIONS = "detections"
"""And what a detector tells of each box that it finds: where it is, its class, how sure it is."""

_OF_DETECTIONS = ("boxes", "confidence", "labels")
"""The outputs of KerasHub's detectors, filled up with -1 as `Boxes` are."""


@dataclass(frozen=True, eq=False)
class ModelHead:
    """One output of a model, with what y has for it, and the loss as `compile` takes it."""

    name: str  # "" where there is one output alone
    target: str | None  # the name of its array in y
    feature: Feature | None
    bound: BoundFeature | None
    loss: Any
    known: KnownLoss | None
    activation: str | None
    logits: bool | None = None  # as `from_logits` of `predict_frame`
    loss_weight: float = 1.0
    detects: bool = False  # an entry for each box that is found

    def column(self, name: str) -> str:
        """Return the name of a column of this head."""
        return f"{name}_{self.name}" if self.name else name

    @property
    def class_names(self) -> tuple[Any, ...] | None:
        """The classes in the order of their numbers, where the Sequence knows them."""
        return getattr(self.feature, "class_names", None)

    @property
    def has_pixels(self) -> bool:
        """Whether y has (height, width, channels), or as `image_data_format` says."""
        return self.bound is not None and self.target in self.bound.channel_arrays

    @property
    def loss_kind(self) -> str | None:
        """Which crossentropy the loss is, or regression; None where it is not known."""
        return None if self.known is None else self.known.kind

    def kind(self, outputs: npt.NDArray[Any]) -> str:
        """Return what it tells of a row, by the outputs of the model."""
        if self.detects:
            return DETECTIONS
        if outputs.ndim > 2:
            return ARRAY
        if isinstance(self.feature, MultiLabel):
            return LABELS
        units = outputs.shape[1] if outputs.ndim == 2 else 1
        if self.class_names is not None or self._counts_classes(units):
            return CLASSES
        return NUMBERS

    def _counts_classes(self, units: int) -> bool:
        """Whether the loss takes the target for class numbers, though they have no names."""
        if self.loss_kind == LossKind.BINARY:
            whole = self.bound is None or self.bound.specs[self.target or ""].dtype.kind in "biu"
            return units == 1 and whole
        if self.loss_kind is None and self.feature is None:
            return self.activation == "softmax"
        return self.loss_kind == LossKind.SPARSE or (
            self.loss_kind == LossKind.CATEGORICAL and self.feature is None
        )

    def activated(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return probabilities of what are logits, other numbers as they are, as float32."""
        found: npt.NDArray[np.float32] = np.asarray(outputs, np.float32)
        kind = self.kind(outputs)
        of_classes = kind in (CLASSES, LABELS) or self.loss_kind in (
            LossKind.SPARSE,
            LossKind.CATEGORICAL,
            LossKind.BINARY,
        )
        if not of_classes or not found.size:
            return found
        self._refuse_margins()
        if self._gives_logits():
            alone = kind == LABELS or self.loss_kind == LossKind.BINARY or found.shape[-1] == 1
            return _sigmoid(found) if alone or found.ndim == 1 else _softmax(found)
        low, high = np.fmin.reduce(found, axis=None), np.fmax.reduce(found, axis=None)
        if low < -1e-3 or high > 1 + 1e-3:
            raise ArgumentError(
                f"the output {self.name or 'of the model'!r} goes from {low:g} to {high:g}, which "
                f"are no probabilities, and {self._way_to_probabilities(kind, found)}"
            )
        return found

    def _way_to_probabilities(self, kind: str, found: npt.NDArray[np.float32]) -> str:
        if self.known is None or self.loss_kind != LossKind.REGRESSION:
            return (
                "the loss does not say that they are logits: give from_logits=True if they are, or "
                "end the model in a softmax or a sigmoid"
            )
        alone = kind == LABELS or found.ndim == 1 or found.shape[-1] == 1
        last, loss = ("sigmoid", "binary") if alone else ("softmax", "categorical")
        return (
            f"{self.known.name}, the loss, makes none of them: use model.predict, or end the model "
            f"in a {last} and train it with {loss}_crossentropy"
        )

    def _refuse_margins(self) -> None:
        """Refuse outputs whose sign, not whose half, tells classes apart, whatever they are now."""
        loss = known_loss(self.loss, CHECKED)
        if (
            loss is not None
            and loss.kind in (LossKind.MARGIN, LossKind.VECTORS)
            and self.activation != "softmax"
        ):
            raise ArgumentError(
                f"the output {self.name or 'of the model'!r} is trained by {loss.name}, which "
                "makes margins of classes and no probabilities: use model.predict, or train with "
                f"{'binary' if loss.kind == LossKind.MARGIN else 'categorical'}_crossentropy"
            )

    def _gives_logits(self) -> bool:
        if self.logits is not None:
            return self.logits
        if self.known is not None:
            return self.known.from_logits
        said = getattr(self.loss, "from_logits", None)
        return self.activation == "linear" if said is None else bool(said)


def _softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: npt.NDArray[np.float32] = powers / powers.sum(axis=-1, keepdims=True)
    return found


def _sigmoid(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    low = np.exp(-np.abs(logits))  # which cannot overflow
    found: npt.NDArray[np.float32] = np.where(logits >= 0, 1, low) / (1 + low)
    return found


def makes_own_outputs(model: Any) -> bool:
    """Whether a model has a `predict_step` of its own, whose outputs its loss may never see."""
    return not steps_as_keras(model, "predict")


def model_heads(
    model: Any,
    outputs: Any,
    y: Any,
    targets: Mapping[str, tuple[Feature, BoundFeature | None]],
    logits: bool | None = None,
) -> list[tuple[ModelHead, npt.NDArray[Any]]]:
    """Return each output of a model with its head."""
    named = dict(_named(outputs, list(getattr(model, "output_names", ()))))
    keyed = isinstance(outputs, Mapping)
    in_lists = sorted(named) if keyed and keras_order(outputs) != [*outputs] else list(named)
    own = makes_own_outputs(model)
    told = has_keras_loss(model) and not own
    losses = by_output(_flat(getattr(model, "loss", None)), in_lists) if told else {}
    weights = by_output(_flat(loss_weights(model)), in_lists)
    detects = own and named.keys() >= {*_OF_DETECTIONS}
    needed = [name for name in named if losses.get(name) is not None] or [*named] * (not detects)
    ends = Ends("output", "y", [*named], needed, keyed)
    pairs = _pairs(named, _nested(ends, y, targets), needed)
    known = {} if own else outputs_of(model)
    last = known.get if len(known) != 1 else lambda name: next(iter(known.values()))
    found = []
    for name, target in pairs.items():
        feature, bound = targets[target] if target is not None else (None, None)
        output = last(name) if len(named) == 1 or len(known) > 1 else None
        loss, weight = losses.get(name), weights.get(name)
        head = ModelHead(
            "" if len(named) == 1 else name,
            target,
            feature,
            bound,
            loss,
            None if loss is None else known_loss(loss),
            None if output is None else output.activation,
            logits,
            1.0 if weight is None else float(weight),
            detects and name in _OF_DETECTIONS,
        )
        found.append((head, named[name]))
    return found


def _named(tree: Any, names: list[str], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name of each output and what it is; of nested ones all keys in one."""
    if isinstance(tree, list | tuple):
        fits = not within and len(names) == len(tree) == len({*names})
        tree = dict(zip(names if fits else map(str, range(len(tree))), tree, strict=True))
    if not isinstance(tree, Mapping):
        yield within, tree
        return
    for key, one in tree.items():
        yield from _named(one, [], f"{within}_{key}" if within else str(key))


def _flat(tree: Any) -> Any:
    """Return the losses or weights of nested outputs by the names that these have."""
    return dict(_named(tree, [])) if isinstance(tree, Mapping) else tree


def _nested(ends: Ends, y: Any, targets: Mapping[str, tuple[Feature, BoundFeature | None]]) -> Any:
    """Return y nested as the outputs are; of a saved list, which has no rows, what fits."""
    known = {name: one.columns for name, (one, _) in targets.items() if one is not None}
    columns = {name: one[0] for name, one in known.items() if len(one) == 1}
    has_rows = all(bound is not None for _, bound in targets.values())
    if has_rows or not ends.keyed or len(ends.names) == 1 or isinstance(y, Mapping):
        return ends.nest(y, columns)
    found = {columns.get(next(leaves(one))): one for one in leaves(y)}
    return {name: found.get(name) for name in ends.names}


def _pairs(named: dict[str, Any], y: Any, needed: list[str]) -> dict[str, str | None]:
    if y is None:
        return dict.fromkeys(named)
    wanted = dict(_named(y, list(named)))
    if len(wanted) == len(named) == 1:
        return dict.fromkeys(named, next(iter(wanted.values())))
    strangers = [name for name in wanted if name not in named]
    lacking = [name for name in needed if name not in wanted]
    if not strangers and not lacking:
        return {name: wanted.get(name) for name in named}
    raise ArgumentError(
        f"the model has {len(named)} outputs ({_listed(named)}), but y has {len(wanted)} "
        f"({_listed(wanted)}): write y={{{next(iter(named))!r}: ..., ...}}, a feature for each "
        "output by its name, or predict with a model of those outputs alone, "
        "keras.Model(model.input, ...)"
    )


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(name or "without a name" for name in names)
