"""Does what validates speak of the same classes and numbers as what trains?

Keras looks at validation data after the first epoch only; here it is told before the first step.
What only measures something else, another size, another crop, other weights, is left alone.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError, listed
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.pixels.scaling import rescale
from dfgen.training.keras_private import Call
from dfgen.training.layout import Layout

_ALIKE = (
    "Number them once for both: dfgen.sequences(df, ...), or df[{0!r}] = "
    'df[{0!r}].astype("category") before splitting, or class_names=[...]'
)


@dataclass(frozen=True)
class Side:
    """What trains, or what validates.

    Args:
        loader: makes its batches.
        layout: how they are nested.
        endless: whether it is a `repeat()`.
    """

    loader: Loader
    layout: Layout
    endless: bool


def validation_of(call: Call, sequence: type) -> Any:
    """Return the Sequence that validates, of a class; None where Keras is given something else.

    Raises:
        ArgumentError: something stands beside it, or stands for it, that Keras cannot take.
    """
    given = call.validation
    x, *others = given if isinstance(given, list | tuple) and given else (given,)
    held = x.values() if isinstance(x, Mapping) else others
    if isinstance(x, sequence) and all(other is None for other in others):
        return x
    if isinstance(x, sequence) or any(isinstance(one, sequence) for one in held):
        raise ArgumentError(
            f"validation_data is a {type(given).__name__} of {_types(given)}, expected one "
            "dfgen.Sequence, which has its own y and weights: validation_data=sequence"
        )
    if isinstance(given, type | str | os.PathLike) or _has_text(given):
        what = "a DataFrame" if isinstance(given, pd.DataFrame) else repr(given)
        raise ArgumentError(
            f"validation_data is {what}, which Keras cannot take: expected a dfgen.Sequence of the "
            "rows that validate, made as that of training: "
            "validation_data=dfgen.Sequence(df, ..., shuffle=False)"
        )
    return None


def check_validation(call: Call, train: Side, validation: Side, x: Any) -> None:
    """Refuse validation data that mean something else than what the model is trained on.

    Args:
        call: of Keras.
        train: what it trains on.
        validation: what validates.
        x: its inputs, as its `element_spec` has them.

    Raises:
        ArgumentError: classes are numbered otherwise, arrays are nested otherwise, have other axes
            or another range, or `fit` gives what does not reach them.
    """
    _check_arguments(call, validation)
    if isinstance(call.model, keras.Sequential):
        _check_nesting(train, validation)
    for what in ("y", "x"):
        for ours, theirs in _pairs(what, train, validation):
            _check_classes(ours, theirs)
            if type(call.model).test_step is keras.Model.test_step:
                _check_axes(what, ours, theirs, train.loader, validation.loader)
            if _settles_scale(ours, train.loader) and _settles_scale(theirs, validation.loader):
                _check_scale(what, ours, theirs)
    if type(call.model).test_step is keras.Model.test_step:
        _check_sizes(call.model, x)


def _check_arguments(call: Call, validation: Side) -> None:
    """Refuse what Keras would tell after the first epoch, in other words, or never."""
    if call.of_validation.get("validation_batch_size") is not None:
        raise ArgumentError(
            "fit(validation_batch_size=...) does not reach a dfgen.Sequence, Keras would drop it. "
            "Give the Sequence of validation its own batch_size="
        )
    if validation.endless and call.of_validation.get("validation_steps") is None:
        raise ArgumentError(
            "validation_data=sequence.repeat() would never end: give fit validation_steps=, or the "
            "Sequence itself"
        )


def _check_nesting(train: Side, validation: Side) -> None:
    for what in ("x", "y"):
        ours, theirs = (getattr(side.layout, what) for side in (train, validation))
        if ours is not None and theirs is None:
            raise ArgumentError(
                "training has targets, y, and validation has none: nothing could be compared with "
                "what the model predicts. Give the Sequence of validation the same y="
            )
        if ours is not None and _form(ours) != _form(theirs):
            raise ArgumentError(
                f"{what} of validation is {_form(theirs)}, that of training {_form(ours)}, and the "
                f"model takes one of them. Give both Sequences the same {what}="
            )


def _check_sizes(model: Any, x: Any) -> None:
    """Refuse arrays that a functional model, which insists on the sizes of its inputs, refuses."""
    inputs = getattr(model, "inputs", None) or []
    if isinstance(model, keras.Sequential) or isinstance(model.input if inputs else None, Mapping):
        return
    given = [x.get(i.name) for i in inputs] if isinstance(x, Mapping) else keras.tree.flatten(x)
    if len(given) != len(inputs):
        return
    for spec, expected in zip(given, inputs, strict=True):
        if spec is None or len(spec.shape) != len(expected.shape):
            continue
        sizes = zip(spec.shape[1:], expected.shape[1:], strict=True)
        if any(None not in pair and pair[0] != pair[1] for pair in sizes):
            raise ArgumentError(
                f"x of validation has {_shape(spec)}, but the input {expected.name!r} of the model "
                f"takes {_shape(expected)}. Give the Sequence of validation the image_size of "
                "training, or the model an Input of any size, (None, None, 3)"
            )


def _check_classes(ours: BoundFeature, theirs: BoundFeature) -> None:
    """Refuse classes whose numbers mean another class in validation."""
    trained, tested = ours.feature.class_names, theirs.feature.class_names
    column = ours.feature.label_column
    if trained is None or tested is None or column is None:
        return
    other = [i for i, (a, b) in enumerate(zip(trained, tested, strict=False)) if a != b]
    if other:
        raise ArgumentError(
            f"number {other[0]} is class {trained[other[0]]!r} of {column!r} in training and "
            f"{tested[other[0]]!r} in validation: training numbers {listed(trained)}, validation "
            f"{listed(tested)}. {_ALIKE.format(column)}"
        )
    if len(trained) != len(tested) and _is_one_hot(ours) and _is_one_hot(theirs):
        raise ArgumentError(
            f"{column!r} is an array of {len(trained)} classes in training, {listed(trained)}, and "
            f"of {len(tested)} in validation, {listed(tested)}: a model has outputs for one of "
            f"them. {_ALIKE.format(column)}"
        )


def _check_axes(
    what: str, ours: BoundFeature, theirs: BoundFeature, train: Loader, validation: Loader
) -> None:
    """Refuse arrays of other axes, such as classes as numbers here and one-hot there."""
    for key in ours.arrays.keys() & theirs.arrays.keys():
        trained = train.specs[ours.arrays[key]]
        tested = validation.specs[theirs.arrays[key]]
        few = len(trained.shape) == len(tested.shape) == 1 and ours.feature.class_names is not None
        channels = bool(ours.channel_arrays and theirs.channel_arrays)
        last = (few and trained.dtype.kind == "f") or channels
        if len(trained.shape) != len(tested.shape) or (
            last and trained.shape[-1] != tested.shape[-1]
        ):
            raise ArgumentError(
                f"{what} of validation has another shape than that of training: "
                f"{theirs.name} {_shown(tested)}, made by {theirs.feature!r}; in training "
                f"{ours.name} {_shown(trained)}, made by {ours.feature!r}. Give both Sequences the "
                "same label_mode, color_mode or feature"
            )


def _check_scale(what: str, ours: BoundFeature, theirs: BoundFeature) -> None:
    """Refuse pixels of another range: the model would not fail, but see black or white."""
    trained, tested = ours.feature.scale, theirs.feature.scale
    channels = [next(iter(bound.specs.values())).shape[-1] for bound in (ours, theirs)]
    if trained == tested or channels[0] != channels[1] or _alike(trained, tested, channels[0]):
        return
    raise ArgumentError(
        f"{what} of validation has scale={tested!r}, {_range(theirs)}, that of training "
        f"scale={trained!r}, {_range(ours)}: the model would see other numbers than it was trained "
        f"on. Give both Sequences the same, scale={trained!r}"
    )


def _is_one_hot(bound: BoundFeature) -> bool:
    """Whether its array has a number for each class."""
    spec = next(iter(bound.specs.values()))
    return spec.dtype.kind == "f" and spec.shape == (len(bound.feature.class_names),)


def _settles_scale(bound: BoundFeature, loader: Loader) -> bool:
    """Whether `scale` alone tells the range of an image: no function of the user's can."""
    if not bound.feature.has_channels or loader.transforms_batches:
        return False
    return loader.reader.transform is None or bound.feature.made_spec.dtype is not None


def _alike(one: Any, other: Any, channels: int) -> bool:
    """Whether two scales make the same of pixels."""
    pixels = (np.arange(256 * channels) * 7 % 256).astype(np.uint8).reshape(16, 16, channels)
    made = [np.zeros(pixels.shape, np.float32) for _ in range(2)]
    rescale(pixels, one, made[0])
    rescale(pixels, other, made[1])
    return np.allclose(made[0], made[1], atol=1e-3, rtol=1e-3)


def _pairs(what: str, train: Side, validation: Side) -> Iterator[tuple[BoundFeature, BoundFeature]]:
    """Return those features of x or y that stand for the same input or target."""
    ours, theirs = (_features(side, what) for side in (train, validation))
    if ours.keys() == theirs.keys():
        for key in ours:
            yield ours[key], theirs[key]


def _features(side: Side, what: str) -> dict[object, BoundFeature]:
    """Return the features of x or y by their keys, or by their places where they have none."""
    tree = getattr(side.layout, what)
    names = [] if tree is None else keras.tree.flatten(tree)
    found = [b for b in side.loader.reader.features if next(iter(b.arrays.values())) in names]
    if not isinstance(tree, Mapping) or len(found) == 1:
        return dict(enumerate(found))
    keys = {name: key for key, one in tree.items() for name in keras.tree.flatten(one)}
    return {keys[next(iter(bound.arrays.values()))]: bound for bound in found}


def _form(tree: Any) -> str:
    if isinstance(tree, Mapping):
        return f"a dict with {listed(sorted(tree))}"
    if isinstance(tree, tuple):
        return f"a list of {len(tree)}"
    return "one array"


def _range(bound: BoundFeature) -> str:
    return f"{bound.name} {_shown(next(iter(bound.specs.values())))}"


def _shown(spec: Any) -> str:
    return f"{spec.dtype} {('batch', *spec.shape)}".replace("'", "").replace("None", "any")


def _shape(tensor: Any) -> str:
    return str(("batch", *tensor.shape[1:])).replace("'", "").replace("None", "any")


def _types(given: Any) -> str:
    held = given.values() if isinstance(given, Mapping) else given
    return ", ".join(type(one).__name__ for one in held)


def _has_text(given: Any) -> bool:
    """Whether it is a DataFrame that holds something else than numbers."""
    if not isinstance(given, pd.DataFrame):
        return False
    return not all(pd.api.types.is_numeric_dtype(dtype) for dtype in given.dtypes)
