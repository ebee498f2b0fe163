"""Meanings of the numbers in an input or a target: which class, which range, which column.

A model remembers in this process what it was trained on: later data must mean the same. One that
was loaded is unknown here.
"""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np

from dfgen.errors import ArgumentError, listed, warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.pixels.scaling import rescale
from dfgen.spec import Spec
from dfgen.training.keras_calls import Call
from dfgen.training.layout import SequenceView

CLASSES, ORDER, SCALE = "classes", "order", "scale"


@dataclass(frozen=True)
class Meaning:
    """The meaning of the numbers of one input or target, without its rows and functions."""

    name: str
    columns: tuple[str, ...]  # that of classes the last
    class_names: tuple[object, ...] | None  # None where classes are numbers already
    palette: tuple[tuple[Any, int], ...]
    spec: Spec | None = None  # of its first array
    scale: tuple[Any] | None = None  # of pixels, if no function may change their range

    @property
    def is_one_hot(self) -> bool:
        """Whether its array has a number for each class."""
        spec, names = self.spec, self.class_names or ()
        return spec is not None and spec.dtype.kind == "f" and spec.shape == (len(names),)


_Kind = TypeVar("_Kind", Meaning, BoundFeature)
Meanings = dict[object, Meaning]
"""Those of x or of y, by their keys, or by their places where they have none."""


def meaning_of(
    name: str, feature: Feature, spec: Spec | None = None, scale: tuple[Any] | None = None
) -> Meaning:
    """Return what a feature means."""
    palette = getattr(feature, "palette", None) or ()
    names = None if feature.class_names is None else tuple(feature.class_names)
    return Meaning(name, feature.columns, names, palette, spec, scale)


def meanings(view: SequenceView) -> dict[str, Meanings]:
    """Return what the inputs and the targets of a Sequence mean, by "x" and "y"."""
    reader, by_rows = view.loader.reader, not view.loader.transforms_batches

    def of(bound: BoundFeature) -> Meaning:
        feature, spec = bound.feature, reader.specs[next(iter(bound.arrays.values()))]
        known = feature.pixel_kind is not None and by_rows
        # else a function of the user's could change the range that `scale` tells
        known = known and (reader.transform is None or feature.read_spec(False).dtype is not None)
        scale = getattr(feature, "scale", None)
        return meaning_of(bound.name, feature, spec, (scale,) if known else None)

    return {
        what: {key: of(bound) for key, bound in features(view, what).items()} for what in ("x", "y")
    }


def features(view: SequenceView, what: str) -> dict[object, BoundFeature]:
    """Return the features of x or y by their keys, or by their places where they have none."""
    tree = getattr(view.layout, what)
    by_array = {next(iter(bound.arrays.values())): bound for bound in view.loader.reader.features}
    names = [] if tree is None else keras.tree.flatten(tree)
    found = {name: by_array[name] for name in names if name in by_array}
    if not isinstance(tree, Mapping):
        return dict(enumerate(found.values()))
    keys = {name: key for key, name in tree.items() if isinstance(name, str)}
    return {keys.get(name, one.name): one for name, one in found.items()}


def pairs(
    ours: Mapping[object, _Kind], theirs: Mapping[object, _Kind]
) -> list[tuple[_Kind, _Kind]]:
    """Return what stands for the same input or target: by keys or places, else by columns."""
    if len(ours) == len(theirs) == 1:
        return list(zip(ours.values(), theirs.values(), strict=True))
    if {*map(type, ours)} == {*map(type, theirs)}:
        return [(ours[key], theirs[key]) for key in ours if key in theirs]
    by_columns = {_columns(one): one for one in theirs.values()}
    found = ((one, by_columns.get(_columns(one))) for one in ours.values())
    return [(one, other) for one, other in found if other is not None]


def _columns(one: Meaning | BoundFeature) -> tuple[str, ...]:
    return one.columns if isinstance(one, Meaning) else one.feature.columns


class Difference(NamedTuple):
    """Another class number, order of columns or range of pixels than in training, in words."""

    kind: str
    text: str
    pair: tuple[Meaning, Meaning] | None = None


def differences(
    ours: Mapping[str, Meanings], theirs: Mapping[str, Meanings], where: str
) -> Iterator[Difference]:
    """Yield how inputs and targets elsewhere, theirs, mean something else than ours of training."""
    for what, others in theirs.items():
        found = pairs(ours[what], others)
        told = [Difference(CLASSES, _other_classes(*pair, where), pair) for pair in found]
        told.append(Difference(ORDER, _other_order(ours[what], others, what, where)))
        told += [Difference(SCALE, _other_scale(what, *pair, where), pair) for pair in found]
        yield from (one for one in told if one.text)


def _other_classes(ours: Meaning, theirs: Meaning, where: str) -> str:
    column = (theirs if ours.class_names is None else ours).columns[-1]
    trained, tested = _names(ours, theirs), _names(theirs, ours)
    if trained is None or tested is None:
        return _other_palette(ours, theirs, where)
    # a table of text has "1" for 1
    both = enumerate(zip(map(str, trained), map(str, tested), strict=False))
    other = next((number for number, (one, another) in both if one != another), None)
    if other is not None:
        return (
            f"number {other} is class {trained[other]!r} of {column!r} in training and "
            f"{tested[other]!r} in {where}: training numbers {listed(trained)}, {where} "
            f"{listed(tested)}"
        )
    if len(trained) != len(tested) and ours.is_one_hot and theirs.is_one_hot:
        return (
            f"{column!r} is an array of {len(trained)} classes in training, {listed(trained)}, and "
            f"of {len(tested)} in {where}, {listed(tested)}: a model has outputs for one of them"
        )
    return ""


def _names(one: Meaning, other: Meaning) -> tuple[object, ...] | None:
    """Return class names; of a column of numbers, where the other has numbered them, these."""
    names = other.class_names or ()
    if one.class_names is None and names and one.columns == other.columns:
        return tuple(range(len(names))) if all(type(name) is int for name in names) else None
    return one.class_names


def _other_palette(ours: Meaning, theirs: Meaning, where: str) -> str:
    tested = dict(theirs.palette)
    for colour, number in ours.palette:
        if tested.get(colour, number) != number:
            return (
                f"{colour} stands for class {number} of {ours.columns[0]!r} in training and for "
                f"{tested[colour]} in {where}: the palette of training is {dict(ours.palette)}, "
                f"that of {where} {tested}"
            )
    return ""


def _other_order(ours: Meanings, theirs: Meanings, what: str, where: str) -> str:
    """Return in words that columns stand in the places of each other; two inputs may on purpose."""
    found: list[Any] = [(one.columns, other.columns) for one, other in pairs(ours, theirs)]
    if what == "y" or len(found) == 1:
        found = [tuple(sum(side, ()) for side in zip(*found, strict=True))] if found else []
    for trained, tested in found:
        if trained != tested and sorted(trained) == sorted(tested):
            return (
                f"{what} is made of the columns {listed(trained)} in training, in {where} of "
                f"{listed(tested)}: the model would take each for another"
            )
    return ""


def _other_scale(what: str, ours: Meaning, theirs: Meaning, where: str) -> str:
    """Return in words that pixels have another range: a model would see black or white."""
    if ours.scale is None or theirs.scale is None or ours.spec is None or theirs.spec is None:
        return ""
    (trained,), (tested,) = ours.scale, theirs.scale
    channels = [spec.shape[-1] for spec in (ours.spec, theirs.spec)]
    if trained == tested or channels[0] != channels[1] or _alike(trained, tested, channels[0]):
        return ""
    shown = [f"{one.name} {shape_shown(one.spec)}" for one in (ours, theirs)]
    return (
        f"{what} of {where} has scale={tested!r}, {shown[1]}, that of training "
        f"scale={trained!r}, {shown[0]}: the model would see other numbers than it was trained "
        f"on. Give both Sequences the same, scale={trained!r}"
    )


def _alike(one: Any, other: Any, channels: int) -> bool:
    pixels = (np.arange(256 * channels) * 7 % 256).astype(np.uint8).reshape(16, 16, channels)
    made = [np.zeros(pixels.shape, np.float32) for _ in range(2)]
    rescale(pixels, one, made[0])
    rescale(pixels, other, made[1])
    return np.allclose(made[0], made[1], atol=1e-3, rtol=1e-3)


def shape_shown(spec: Any) -> str:
    """Return dtype and shape of a batch, for messages."""
    return f"{spec.dtype} {('batch', *spec.shape)}".replace("'", "").replace("None", "any")


_HERE = "this Sequence"
_SHOWN = 10
_ANEW = (
    "To train a model on other classes, make it anew, give it a new last layer, copy it with "
    "keras.models.clone_model, or put back the weights that it had before its first fit"
)
_SMALL = 4_096
"""Numbers in a weight, such as a bias, that is compared with what it was before the first fit."""


class _Trained(NamedTuple):
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
    elif call.purpose is not None:
        read = told if call.purpose == "evaluate" else {"x": told["x"]}
        check_as_before(call.model, read, call.purpose)


def check_as_before(model: Any, told: Mapping[str, Meanings], purpose: str) -> None:
    """Refuse inputs and targets that mean something else than those that a model was trained on."""
    known = _known(model)
    if known is None:
        return
    for one in differences(known.told, told, _HERE):
        advice = f". Give {purpose} the order of training" if one.kind == ORDER else ""
        raise ArgumentError(_numbered(one, purpose) + advice)


def _check_fit(model: Any, told: Mapping[str, Meanings]) -> None:
    """Refuse other numbers of the same classes in another `fit`; pixels of another range it learns.

    Classes of which the model knows none may be another task: they are trained on, with a warning.
    A model that has its first weights again, as in a loop of one model a class, knows nothing.
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
    """Return what is known of the weights of a model; None where layers were replaced since."""
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
