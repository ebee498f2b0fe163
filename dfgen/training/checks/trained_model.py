"""A model remembers in this process what it was trained on: later data must mean the same.

A model that was loaded is unknown here: `SavePreprocessing` writes beside it what tells.
"""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import prod
from typing import Any

import keras

from dfgen.errors import ArgumentError, warn
from dfgen.training.checks.meanings import (
    CLASSES,
    ORDER,
    SCALE,
    Difference,
    Meanings,
    differences,
    meanings,
    pairs,
)
from dfgen.training.keras_calls import Call
from dfgen.training.layout import SequenceView

_HERE = "this Sequence"
_SHOWN = 10
_ANEW = (
    "To train a model on other classes, make it anew, give it a new last layer, copy it with "
    "keras.models.clone_model, or put back the weights that it had before its first fit"
)
_SMALL = 4_096
"""Numbers in a weight, such as a bias, that is compared with what it was before the first fit."""


@dataclass(frozen=True)
class _Trained:
    """What x and y meant to a model that was trained; it holds neither the model nor rows."""

    told: dict[str, Meanings]
    weights: tuple[weakref.ref[Any], ...]


_KNOWN: weakref.WeakKeyDictionary[Any, _Trained] = weakref.WeakKeyDictionary()
_BEFORE: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()
"""Model -> digest of its weights before it was trained on anything."""


def check_trained(call: Call, view: SequenceView) -> None:
    """Refuse what means something else than the model was trained on."""
    told = meanings(view)
    if call.purpose == "fit":
        _check_fit(call.model, told)
    elif call.purpose == "evaluate":
        check_as_before(call.model, told, "evaluate")
    elif call.purpose == "predict":
        check_as_before(call.model, {"x": told["x"]}, "predict")


def check_as_before(model: Any, told: Mapping[str, Meanings], purpose: str) -> None:
    """Refuse inputs and targets that mean something else than those that a model was trained on."""
    known = _known(model)
    if known is None:
        return
    for one in differences(known.told, told, _HERE):
        advice = f". Give {purpose} the order of training" if one.kind == ORDER else ""
        raise ArgumentError(_numbered(one, purpose) + advice)


def _check_fit(model: Any, told: Mapping[str, Meanings]) -> None:
    """Refuse other numbers of the same classes in another `fit`.

    Classes of which the model knows none may be another task: they are trained on, with a warning.
    Pixels of another range it can learn. A model that has its first weights again, as in a loop of
    one model a class, knows nothing. Other weights prove nothing: `EarlyStopping` puts back those
    of its best epoch.
    """
    known = _known(model)
    if known is None:
        _BEFORE[model] = _digest(model)
        return
    for fault, certain in _refused(known.told, told):
        before = _BEFORE.get(model)
        if before is not None and before == _digest(model):
            _KNOWN.pop(model, None)
            return
        if certain:
            raise ArgumentError(f"{fault}. {_ANEW}")
        warn(f"fit goes on with classes that the model was not trained on: {fault}. {_ANEW}")


def _digest(model: Any) -> str | None:
    small = [weight for weight in model.trainable_weights if prod(weight.shape) <= _SMALL]
    digest = blake2b(digest_size=16)
    try:
        for weight in small:
            digest.update(keras.ops.convert_to_numpy(weight.value).tobytes())
    except Exception:  # of weights that lie on several machines
        return None
    return digest.hexdigest() if small else None


def note_epoch(model: Any, view: SequenceView) -> None:
    """Note what `fit` has trained a model on for an epoch."""
    known, told = _known(model), meanings(view)
    if known is not None and not any(_refused(known.told, told)):
        told = {what: _longest(theirs, known.told[what]) for what, theirs in told.items()}
    _KNOWN[model] = _Trained(told, tuple(map(weakref.ref, model.weights)))


def _refused(
    known: Mapping[str, Meanings], told: Mapping[str, Meanings]
) -> Iterator[tuple[str, bool]]:
    """Yield what another `fit` is told otherwise than the one before, and whether it is certain."""
    for one in differences(known, told, _HERE):
        if one.kind != SCALE:
            names = [{*map(str, each.class_names or ())} for each in one.pair or ()]
            another_task = bool(names) and all(names) and names[0].isdisjoint(names[1])
            yield _numbered(one, "fit"), not another_task


def _known(model: Any) -> _Trained | None:
    """Return what is known of a model, or of one that it is a part of or wraps, by their weights.

    None of a model whose layers were replaced since.
    """
    own = {*map(id, model.weights)}
    for known in (_KNOWN.get(model), *_KNOWN.values()):
        noted = set() if known is None else {id(weight()) for weight in known.weights}
        if own and own <= noted:
            return known
    return None


def _longest(theirs: Meanings, ours: Meanings) -> Meanings:
    before = {new.name: old.class_names or () for new, old in pairs(theirs, ours)}
    longer = {
        key: replace(new, class_names=before[new.name])
        for key, new in theirs.items()
        if len(before.get(new.name, ())) > len(new.class_names or ())
    }
    return {**theirs, **longer} or ours


def _numbered(one: Difference, purpose: str) -> str:
    """Return a difference in words, with the numbers of training where it is of classes."""
    if one.kind != CLASSES or one.pair is None:
        return one.text
    ours, names = one.pair[0], one.pair[0].class_names
    given = "class_names= of the Sequence that it was trained on"
    if ours.palette:
        given = f"palette={dict(ours.palette)}"
    elif names is None:
        given = f"dfgen.Number({ours.columns[0]!r})"
    elif len(names) <= _SHOWN:
        given = f"class_names={[*names]}"
    return f"{one.text}. Give {purpose} a Sequence with the numbers of training: {given}"
