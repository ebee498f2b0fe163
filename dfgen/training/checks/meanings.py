"""Meanings of the numbers in an input or a target: which class, which range, which column.

Two Sequences that give a model other meanings make it no error and no sense: the shapes are alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np

from dfgen.errors import listed
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.features.spec import Spec
from dfgen.samples.pixels.scaling import rescale
from dfgen.training.layout import SequenceView

CLASSES, ORDER, SCALE = "classes", "order", "scale"


@dataclass(frozen=True)
class Meaning:
    """The meaning of the numbers of one input or target, without its rows and functions.

    Args:
        class_names: in the order of their numbers; None where classes are numbers already.
        palette: of a mask, what stands for which class.
        spec: of its first array.
        scale: of pixels, in a tuple of one; None where functions may change their range.
    """

    name: str
    columns: tuple[str, ...]
    label_column: str | None
    class_names: tuple[object, ...] | None
    palette: tuple[tuple[Any, int], ...]
    spec: Spec | None = None
    scale: tuple[Any] | None = None

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
    return Meaning(name, feature.columns, feature.label_column, names, palette, spec, scale)


def meanings(view: SequenceView) -> dict[str, Meanings]:
    """Return what the inputs and the targets of a Sequence mean, by "x" and "y"."""
    return {
        what: {key: _of(bound, view) for key, bound in features(view, what).items()}
        for what in ("x", "y")
    }


def _of(bound: BoundFeature, view: SequenceView) -> Meaning:
    feature, reader = bound.feature, view.loader.reader
    # pixels whose range `scale` alone tells: no function of the user's can change it
    settled = feature.has_channels and not view.loader.transforms_batches
    settled = settled and (reader.transform is None or feature.made_spec.dtype is not None)
    spec = reader.specs[next(iter(bound.arrays.values()))]
    return meaning_of(bound.name, feature, spec, (feature.scale,) if settled else None)


def features(view: SequenceView, what: str) -> dict[object, BoundFeature]:
    """Return the features of x or y by their keys, or by their places where they have none."""
    tree = getattr(view.layout, what)
    by_array = {next(iter(bound.arrays.values())): bound for bound in view.loader.reader.features}
    names = [] if tree is None else keras.tree.flatten(tree)
    found = [by_array[name] for name in names if name in by_array]
    if not isinstance(tree, Mapping):
        return dict(enumerate(found))
    keys = {name: key for key, name in tree.items() if isinstance(name, str)}
    return {keys.get(next(iter(b.arrays.values())), b.name): b for b in found}


def pairs(
    ours: Mapping[object, _Kind], theirs: Mapping[object, _Kind]
) -> list[tuple[_Kind, _Kind]]:
    """Return what stands for the same input or target: by keys or places, else by columns."""
    if len(ours) == len(theirs) == 1:
        return list(zip(ours.values(), theirs.values(), strict=True))
    if {*map(type, ours)} == {*map(type, theirs)}:
        return [(ours[key], theirs[key]) for key in ours if key in theirs]
    by_columns = {_columns(one): one for one in theirs.values()}
    known = (one for one in ours.values() if _columns(one) in by_columns)
    return [(one, by_columns[_columns(one)]) for one in known]


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
    """Yield how inputs and targets elsewhere, theirs, mean something else than in training, ours.

    They are of the kinds CLASSES, ORDER and SCALE, in this order for each of x and y.
    """
    for what, others in theirs.items():
        found = pairs(ours[what], others)
        told = [Difference(CLASSES, _other_classes(*pair, where), pair) for pair in found]
        told.append(Difference(ORDER, _other_order(ours[what], others, what, where)))
        told += [Difference(SCALE, _other_scale(what, *pair, where), pair) for pair in found]
        yield from (one for one in told if one.text)


def _other_classes(ours: Meaning, theirs: Meaning, where: str) -> str:
    column = ours.label_column or theirs.label_column
    trained, tested = _names(ours, theirs), _names(theirs, ours)
    if trained is None or tested is None or column is None:
        return _other_palette(ours, theirs, where)
    other = next(
        (i for i, pair in enumerate(zip(trained, tested, strict=False)) if _differ(*pair)), None
    )
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
    names = other.class_names
    as_it_is = one.class_names is None and names is not None and one.columns == other.columns
    if as_it_is and all(type(name) is int for name in names or ()):
        return tuple(range(len(names or ())))
    return one.class_names


def _differ(one: object, other: object) -> bool:
    return one != other and str(one) != str(other)  # a table of text has "1" for 1


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
    """Return in words that columns stand in the places of each other.

    Two inputs may change places on purpose, as the halves of a pair do.
    """
    found = [[one.columns, other.columns] for one, other in pairs(ours, theirs)]
    if what == "x" and len(found) > 1:
        found = [pair for pair in found if len(pair[0]) > 1]
        swapped = next((p for p in found if p[0] != p[1] and sorted(p[0]) == sorted(p[1])), None)
    else:
        trained, tested = ([name for pair in found for name in pair[i]] for i in (0, 1))
        is_other = trained != tested and sorted(trained) == sorted(tested)
        swapped = [tuple(trained), tuple(tested)] if is_other else None
    if swapped is None:
        return ""
    return (
        f"{what} is made of the columns {listed(swapped[0])} in training, in {where} of "
        f"{listed(swapped[1])}: the model would take each for another"
    )


def _other_scale(what: str, ours: Meaning, theirs: Meaning, where: str) -> str:
    """Return in words that pixels have another range: a model would see black or white."""
    if ours.scale is None or theirs.scale is None or ours.spec is None or theirs.spec is None:
        return ""
    (trained,), (tested,) = ours.scale, theirs.scale
    channels = [spec.shape[-1] for spec in (ours.spec, theirs.spec)]
    if trained == tested or channels[0] != channels[1] or _alike(trained, tested, channels[0]):
        return ""
    return (
        f"{what} of {where} has scale={tested!r}, {_range(theirs)}, that of training "
        f"scale={trained!r}, {_range(ours)}: the model would see other numbers than it was trained "
        f"on. Give both Sequences the same, scale={trained!r}"
    )


def _alike(one: Any, other: Any, channels: int) -> bool:
    pixels = (np.arange(256 * channels) * 7 % 256).astype(np.uint8).reshape(16, 16, channels)
    made = [np.zeros(pixels.shape, np.float32) for _ in range(2)]
    rescale(pixels, one, made[0])
    rescale(pixels, other, made[1])
    return np.allclose(made[0], made[1], atol=1e-3, rtol=1e-3)


def _range(one: Meaning) -> str:
    return f"{one.name} {shape_shown(one.spec)}"


def shape_shown(spec: Any) -> str:
    """Return dtype and shape of a batch, for messages."""
    return f"{spec.dtype} {('batch', *spec.shape)}".replace("'", "").replace("None", "any")
