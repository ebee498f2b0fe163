"""Moves code with Keras's `ImageDataGenerator` to dfgen: one call, and batches stay equal."""

import io
import threading
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError
from dfgen.samples.features.arrays import Column
from dfgen.samples.features.classes import Category, MultiLabel, Number
from dfgen.samples.features.image import Image
from dfgen.training import keras
from dfgen.training.sequence import Sequence

__all__ = ["from_keras"]

_LABEL_MODES = {"sparse": "int", "categorical": "categorical", "binary": "binary"}
_RANDOM = threading.Lock()  # ImageDataGenerator draws from NumPy's global generator


def from_keras(flow: Any, **options: Any) -> Sequence:
    """Return a Sequence with the rows, pixels, labels and weights of a flow of ImageDataGenerator.

    Use it to move code with `flow_from_dataframe` or `flow_from_directory` to dfgen without any
    change in its batches. Files are loaded by `keras.utils.load_img`, then transformed and
    standardized by the generator itself, so `preprocessing_function`, `fit` and methods of
    subclasses have their effect. Random transforms depend only on the seed, the epoch and the row;
    so does a `preprocessing_function` that draws from `numpy.random`.

    Binary labels have the shape (batch, 1) instead of (batch,). Integer labels are int32 instead
    of float32. The order of shuffled rows is dfgen's.

    Args:
        flow: the return value of `ImageDataGenerator(...).flow_from_dataframe(...)` or of
            `.flow_from_directory(...)`, from `tensorflow.keras` or Keras's legacy module.
        **options: further arguments of `dfgen.Sequence`, such as `workers=8` or
            `on_error="skip"`, except for `x`, `y`, `image_size`, `label_mode` and `transform`.
            `batch_size`, `shuffle` and `seed` default to the values of the flow.

    Raises:
        ArgumentError: `flow` is something else, has images with channels first or of another
            dtype, or an option belongs to the flow.

    Example:
        >>> flow = ImageDataGenerator(horizontal_flip=True).flow_from_dataframe(df, "imgs")
        ...     # doctest: +SKIP
        >>> model.fit(dfgen.migrate.from_keras(flow), epochs=10)  # doctest: +SKIP
    """
    if not (hasattr(flow, "filepaths") and hasattr(flow, "image_data_generator")):
        raise ArgumentError(
            f"from_keras takes the return value of flow_from_dataframe or flow_from_directory of "
            f"an ImageDataGenerator, got {type(flow).__name__}. For arrays use model.fit(x, y)"
        )
    if fixed := sorted({"x", "y", "image_size", "label_mode", "transform"} & options.keys()):
        raise ArgumentError(
            f"from_keras got {fixed}, which the flow sets: leave them out, or write a "
            "dfgen.Sequence yourself"
        )
    if flow.dtype not in ("float32", "float16") or flow.data_format != "channels_last":
        raise ArgumentError(
            'from_keras needs ImageDataGenerator(dtype="float32", data_format="channels_last"), '
            f"this flow has {flow.dtype!r} and {flow.data_format!r}. For channels first, begin the "
            "model with keras.layers.Permute((3, 1, 2))"
        )
    generator = flow.image_data_generator
    rows = pd.DataFrame({"path": pd.Series(flow.filepaths, dtype="str")})
    if len(set(flow.filenames)) == len(rows):
        rows["id"] = [str(name) for name in flow.filenames]
    else:
        rows["id"] = range(len(rows))
    defaults = {"batch_size": flow.batch_size, "shuffle": flow.shuffle, "seed": flow.seed}
    if flow.sample_weight is not None:
        rows["sample_weight"] = np.asarray(flow.sample_weight)
        defaults["sample_weight"] = "sample_weight"
    load = partial(
        _load, color_mode=flow.color_mode, target_size=flow.target_size,
        interpolation=flow.interpolation, keep_aspect_ratio=flow.keep_aspect_ratio,
    )  # fmt: skip
    image = Image(
        "path", flow.target_size, color_mode=flow.color_mode, dtype=flow.dtype, decode=load
    )
    targets = image if flow.class_mode == "input" else _targets(flow, rows)
    return Sequence(
        rows, image, targets, label_mode=None if targets is None else "int",
        transform=partial(_transformed, generator), **{**defaults, **options},
    )  # fmt: skip


def _targets(flow: Any, rows: pd.DataFrame) -> Any:
    """Add the columns of the targets to the rows, and return y."""
    if flow.class_mode in ("raw", "multi_output"):
        columns = [flow.labels] if flow.class_mode == "raw" else flow.labels
        for number, values in enumerate(columns):
            rows[f"y_{number}"] = [*values]
        targets = [_numbers(f"y_{number}", values) for number, values in enumerate(columns)]
        return targets[0] if flow.class_mode == "raw" else targets
    if flow.class_mode is None:
        return None
    names = [*flow.class_indices]
    if any(isinstance(labels, list) for labels in flow.classes):
        lists = [labels if isinstance(labels, list) else [labels] for labels in flow.classes]
        rows["label"] = [[names[number] for number in labels] for labels in lists]
        return MultiLabel("label", class_names=tuple(names))
    rows["label"] = [names[number] for number in flow.classes]
    return Category("label", label_mode=_LABEL_MODES[flow.class_mode], class_names=tuple(names))


def _numbers(name: str, values: Any) -> Number | Column:
    """Return the feature of the numbers of one output."""
    values = np.asarray(values)
    if values.dtype.kind == "f" and values.ndim == 1:
        return Number(name)
    shape = np.shape(values[0]) if values.dtype == object else values.shape[1:]
    is_whole = values.dtype.kind in "iub"
    return Column(name, np.asarray, shape, "int64" if is_whole else "float32")


def _load(data: bytes, **options: Any) -> Any:
    return keras.utils.img_to_array(keras.utils.load_img(io.BytesIO(data), **options))


def _transformed(
    generator: Any, sample: dict[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    """Transform and standardize the image; with `class_mode="input"`, it is also the target."""
    names = [name for name in sample if name.startswith("image")]
    image, seed = sample[names[0]], int(rng.integers(2**31))
    with _RANDOM:
        state = np.random.get_state()
        drawn = generator.get_random_transform(image.shape, seed)
        if _has_own_code(generator):  # it can draw from numpy.random
            image = generator.standardize(generator.apply_transform(image, drawn))
        np.random.set_state(state)
    if not _has_own_code(generator):
        image = generator.standardize(generator.apply_transform(image, drawn))
    return {**sample, **dict.fromkeys(names, image.astype(sample[names[0]].dtype, copy=False))}


def _has_own_code(generator: Any) -> bool:
    """Tell whether the user's code runs in `standardize` or `apply_transform`."""
    return (
        generator.preprocessing_function is not None
        or type(generator).__module__ != "keras.src.legacy.preprocessing.image"
    )
