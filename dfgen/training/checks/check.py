"""The checks of `fit`, `evaluate` and `predict` before their first step."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import keras
import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError, listed, warn
from dfgen.loading.loader import Loader
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.scaling import rescale
from dfgen.samples.reader import BoundFeature
from dfgen.spec import leaves
from dfgen.training.checks.losses import check_losses
from dfgen.training.passes import SequenceView

_IGNORED = "y", "sample_weight", "class_weight", "batch_size", "validation_batch_size"
"""Arguments that Keras drops without a warning."""
_KEEP_RANGE = (
    "Input", "Reshape", "Flatten", "Dropout", "ZeroPadding", "MaxPooling", "AveragePooling",
    "GlobalAverage", "GlobalMax", "Resizing", "Random", "CenterCrop", "Functional", "Sequential",
)  # fmt: skip
"""Layers that keep 0..255, by the beginning of their names; the layers of a model follow it."""
_WEIGH = "Conv2D", "SeparableConv2D", "DepthwiseConv2D", "Conv2DTranspose", "Dense"

_TRAINED = WeakKeyDictionary[Any, dict[object, list[str]]]()  # model -> class names in fit
_warn_once = cache(warn)


def check(call: Any, view: SequenceView, validation: SequenceView | None, padded: bool) -> None:
    """Raise or warn if a call of Keras and its model do not suit a Sequence.

    Args:
        call: its purpose, "fit", "evaluate" or "predict", its model and its arguments.
        view: the Sequence, nested for the model.
        validation: the Sequence that `fit` validates on, nested for `evaluate`.
        padded: whether rows of weight 0 fill up the last batch.
    """
    if isinstance(call.validation, pd.DataFrame):
        raise ArgumentError("validation_data is a DataFrame: make a dfgen.Sequence of it")
    _check_arguments(call, view, validation)
    if call.purpose == "predict":
        return
    check_losses(call.model, view, call.purpose)
    _warn_of_metrics(call.model, view, padded)
    if validation is not None:
        check_losses(call.model, validation, "evaluate", "validation_data: ")
        _check_validation(call, view, validation)
    for fault in scaled_twice(call.model, view) if call.purpose == "fit" else ():
        warn(fault)
    check_trained(call.model, view, call.purpose)


def _check_arguments(call: Any, view: SequenceView, validation: SequenceView | None) -> None:
    purpose, loader = call.purpose, view.loader
    arguments = {**call.arguments, **(call.of_validation if validation is not None else {})}
    ignored = [name for name in _IGNORED if arguments.get(name) is not None]
    if purpose == "fit" and loader.shuffle and arguments.get("shuffle") is False:
        ignored.append("shuffle")
    if ignored:
        raise ArgumentError(
            f"Keras ignores {ignored[0]}= in {purpose} with a dfgen.Sequence: give the Sequence "
            f"its own {ignored[0].removeprefix('validation_')}="
        )
    if view.endless and call.steps is None:
        steps = "steps_per_epoch" if purpose == "fit" else "steps"
        raise ArgumentError(f"{purpose} on repeat() would never end: give {purpose} {steps}=")
    if purpose == "predict" and (loader.shuffle or loader.given.left_out):
        raise ArgumentError(
            "predictions of a Sequence that shuffles or leaves rows out do not match its rows: "
            "make one with shuffle=False and without drop_remainder"
        )


def _warn_of_metrics(model: Any, view: SequenceView, padded: bool) -> None:
    """Warn of metrics that count rows of weight 0."""
    metrics = getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)
    if not metrics or view.layout.y is None:
        return
    names = {*metrics} if isinstance(metrics, Mapping) else {*leaves(view.layout.y)}
    rows = [
        f"{np.count_nonzero(~present):,} without a label in {name!r}"
        for name, present in view.loader.reader.present.items()
        if name in names and not present.all()
    ]
    rows += [f"{len(view.loader.problems):,} that cannot be read"] * bool(view.loader.problems)
    rows += ["those that fill up the last batch"] * padded
    if rows:
        warn(
            f"metrics= of Keras ignore weights and count rows of weight 0: {', '.join(rows)}. "
            "Compile the model with weighted_metrics= instead"
        )


def _check_validation(call: Any, train: SequenceView, val: SequenceView) -> None:
    """Raise if validation data have other class indices or another scale; warn of equal rows."""
    if val.endless and call.of_validation.get("validation_steps") is None:
        raise ArgumentError("validation_data=sequence.repeat() never ends: give validation_steps=")
    if moved := moved_class(target_classes(train), target_classes(val)):
        raise ArgumentError(f"validation_data: {moved}")
    warn_of_unseen(train, val, "validation_data")
    if type(call.model).test_step is not keras.Model.test_step:
        return
    for what in ("x", "y"):
        ours, theirs = features(train, what), features(val, what)
        for key in ours.keys() & theirs.keys():
            shape, wrong = (
                f"(batch, {str(next(iter(side[key].specs.values())).shape)[1:]}"
                for side in (ours, theirs)
            )
            if _is_image(ours[key]) and shape.split()[-1] != wrong.split()[-1]:
                raise ArgumentError(
                    f"{what} of validation_data has the shape {wrong}, but {what} of training has "
                    f"{shape}: give both Sequences the same color_mode="
                )
            scale, other = (getattr(side[key].feature, "scale", None) for side in (ours, theirs))
            pixels, others = _scaled(train, ours[key]), _scaled(val, theirs[key])
            if np.shape(pixels) == np.shape(others) and not np.allclose(pixels, others, atol=1e-3):
                raise ArgumentError(
                    f"{what} of validation_data has scale={other!r}, but {what} of training has "
                    f"scale={scale!r}: give both Sequences the same scale="
                )
    if _has_same_rows(train.loader, val.loader):
        warn(
            f"validation_data has the {len(train.loader.reader):,} rows of training, so val_loss "
            "does not show how the model does on other rows: keep rows back with dfgen.split"
        )


def _scaled(view: SequenceView, bound: BoundFeature) -> Any:
    """Return pixels as an image scales them, or 0 if a function of the user can scale them too."""
    image, transform = bound.feature, view.loader.reader.transform
    if not isinstance(image, Image) or view.loader.batch_transform is not None:
        return 0
    if transform is not None and image.spec.stage(False).dtype is None:
        return 0
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(image.spec.shape[-1], axis=-1)
    scaled = np.zeros(pixels.shape, np.float32)
    rescale(pixels, image.scale, scaled)
    return scaled


def _has_same_rows(ours: Loader, theirs: Loader) -> bool:
    """Whether the same rows validate, in any order; compares 64 ids and the paths of these rows."""
    count = len(ours.reader)
    if count != len(theirs.reader) or not (ours.counted.all() and theirs.counted.all()):
        return False
    rows = np.unique(np.linspace(0, count - 1, 64).astype(int))
    ids = getattr(ours.reader.ids, "array", ours.reader.ids)  # of a pack
    matches = pd.Index(np.asarray(ids)).get_indexer(pd.Index(theirs.ids_at(rows)))
    return -1 not in matches and all(
        ours.reader.where(int(match)) == theirs.reader.where(int(row))
        for match, row in zip(matches, rows, strict=True)
    )


def range_faults(model: Any, view: SequenceView) -> Iterator[str]:
    """Yield faults in the range of pixels: scaled twice, or not at all, which suits some models."""
    yield from scaled_twice(model, view)
    for layer in _layers(model) if None in _scales(view) else ():
        if type(layer).__name__ in _WEIGH:
            yield (
                f"pixels of 0 to 255 reach the layer {layer.name!r} of the model: give the "
                'Sequence scale="0..1", or begin the model with keras.layers.Rescaling(1 / 255)'
            )
        if not type(layer).__name__.startswith(_KEEP_RANGE):
            return


def scaled_twice(model: Any, view: SequenceView) -> Iterator[str]:
    """Yield a fault if images of about 1 are divided by 255 again: all would look alike."""
    scales, layers = _scales(view), list(_layers(model))
    enlarges = any(type(layer).__name__ in ("Lambda", "Multiply") for layer in layers)
    rescaling = [layer for layer in layers if type(layer) is keras.layers.Rescaling]
    enlarges |= any(np.max(layer.scale) > 1 for layer in rescaling)
    if enlarges or not scales or any(scale in (None, "caffe") for scale in scales):
        return
    for layer in rescaling:
        if np.max(layer.scale) < 1 / 100:
            yield (
                f"scale={scales[0]!r} divides pixels by 255, and so does the layer {layer.name!r} "
                "of the model: leave out scale= or the layer"
            )


def _scales(view: SequenceView) -> list[Any]:
    if view.loader.batch_transform is not None:
        return []  # a function of the user can scale them
    inputs = [bound for bound in features(view, "x").values() if _is_image(bound)]
    return [getattr(bound.feature, "scale", None) for bound in inputs]


def _is_image(bound: BoundFeature) -> bool:
    return next(iter(bound.specs.values())).pixels


def _layers(model: Any) -> Iterator[Any]:
    for layer in getattr(model, "operations", getattr(model, "layers", [])):
        yield layer
        if isinstance(layer, keras.Model):
            yield from _layers(layer)


def features(view: SequenceView, what: str) -> dict[object, BoundFeature]:
    """Return the features of x or y by key or place."""
    tree = getattr(view.layout, what) or ()
    items = tree.items() if isinstance(tree, Mapping) else enumerate(leaves(tree))
    return {key: view.loader.reader.by_array[next(leaves(arrays))] for key, arrays in items}


def target_classes(view: SequenceView) -> dict[object, list[str]]:
    """Return the class names of the targets by key or place."""
    targets = features(view, "y").items()
    return {key: [*map(str, bound.feature.class_names or ())] for key, bound in targets}


def moved_class(ours: Mapping[object, list[str]], theirs: Mapping[object, list[str]]) -> str:
    """Return a sentence about the first class with another index in theirs, or ""."""
    for key in ours.keys() & theirs.keys():
        indices = {name: index for index, name in enumerate(ours[key])}
        for index, name in enumerate(theirs[key]):
            if indices.get(name, index) != index:
                return (
                    f"class {name!r} has the index {index} in {listed(theirs[key])}, but "
                    f"{indices[name]} in {listed(ours[key])} of training: give both class_names="
                )
    return ""


def warn_of_unseen(train: SequenceView, val: SequenceView, what: str) -> None:
    """Warn once about classes that rows of validation have, but no row of training."""
    ours, theirs = features(train, "y"), features(val, "y")
    for key in ours.keys() & theirs.keys():
        if unseen := [*(_occurring(theirs[key]) - _occurring(ours[key]))]:
            column = theirs[key].feature.columns[0]
            _warn_once(
                f"{what} has the class {listed(sorted(unseen))} in column {column!r}, but no "
                "training row has it, so the model cannot learn it: move rows of it to training, "
                "or split with stratify="
            )


def _occurring(bound: BoundFeature) -> set[str]:
    """Return the names of the classes that rows of a target have."""
    names, values = bound.feature.class_names or (), bound.values
    if isinstance(values, np.ndarray) and bound.present is not None:
        values = values[bound.present]
    for codes in getattr(values, "arrays", (values,)):
        if isinstance(codes, np.ndarray) and codes.ndim == 1 and codes.dtype.kind == "i":
            counts = np.bincount(codes, minlength=len(names))
            return {str(name) for name, number in zip(names, counts, strict=False) if number}
    return set()


def check_trained(model: Any, view: SequenceView, purpose: str) -> None:
    """Warn if classes have other indices than those that the model was trained on."""
    if moved := moved_class(_TRAINED.get(model, {}), target_classes(view)):
        warn(f"{purpose}: {moved}")


def note_trained(model: Any, view: SequenceView) -> None:
    """Note what the model was trained on for an epoch."""
    _TRAINED[model] = target_classes(view)
