"""Rows made as in training: a Sequence by what was saved beside a model, and that one is such."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import keras
import numpy as np

from dfgen.binding.nested import leaves, map_leaves
from dfgen.binding.preprocessing import Preprocessing, load_preprocessing
from dfgen.errors import ArgumentError, brief, listed
from dfgen.samples.features.base import Feature
from dfgen.samples.transforms import Sample, Transform
from dfgen.table.any_table import Table
from dfgen.training.checks.meanings import Meanings, meaning_of, meanings, pairs
from dfgen.training.data_adapter import view_of
from dfgen.training.sequence import Sequence

Saved: TypeAlias = Preprocessing | str | os.PathLike[str] | None
"""The preprocessing saved beside a model, or the path of its file."""


def opened(saved: Saved) -> Preprocessing | None:
    """Return what was saved beside a model."""
    if isinstance(saved, str | os.PathLike):
        return load_preprocessing(saved)
    if not isinstance(saved, Preprocessing | None):
        raise ArgumentError(
            "preprocessing must be a dfgen.Preprocessing or the path of its file, got "
            f"{brief(saved)}"
        )
    return saved


def sequence_as_trained(
    saved: Preprocessing, manifest: Table | str, chance: bool = False, **options: Any
) -> Sequence:
    """Return a Sequence that makes x of a manifest as training did, and y where it has it."""
    inputs = {name: one if chance else one.still for name, one in saved.inputs.items()}
    x = map_leaves(inputs.__getitem__, saved.x)
    transform = None if saved.transform is None else _of_x(saved.transform, frozenset(inputs))
    options = {"shuffle": False, "transform": transform, **options}
    bare = Sequence(manifest, x, label_mode=None, **options)
    known = [saved.targets.get(name) for name in leaves(saved.y)]
    columns = {name for one in known if one is not None for name in one.columns}
    if None in known or not columns or not columns <= {*view_of(bare).binding.columns.names}:
        return bare
    bare.close()
    return Sequence(manifest, x, map_leaves(saved.targets.__getitem__, saved.y), **options)


def check_as_trained(saved: Preprocessing, sequence: Sequence) -> None:
    """Refuse a Sequence that makes other inputs than training did, or numbers classes otherwise."""
    if saved.data_format != keras.config.image_data_format():
        raise ArgumentError(
            f"the model was trained on {saved.data_format}, but keras.config.image_data_format() "
            f"is {keras.config.image_data_format()}: keras.config.set_image_data_format("
            f'"{saved.data_format}")'
        )
    made = sequence.preprocessing()
    for name, one in saved.inputs.items():
        found = made.inputs.get(name)
        if found is None or _in_column(found.still, one) != one.still:
            raise ArgumentError(
                f"x of the Sequence has {name!r} as {found!r}, but the model was trained on "
                f"{one!r}: make it alike, or give the model that goes with it"
            )
    keyed = isinstance(saved.y, Mapping)
    known: Meanings = {
        name if keyed else place: meaning_of(name, target)
        for place, (name, target) in enumerate(saved.targets.items())
        if target is not None
    }
    for trained, given in pairs(known, meanings(view_of(sequence))["y"]):
        names, others = trained.class_names or (), given.class_names
        if others is not None and others != names:
            raise ArgumentError(
                f"the model numbers the classes of {trained.name!r} as {listed(names)}, but the "
                f"Sequence as {listed(others)}: give it class_names={[*names]}"
            )


def targets_as_trained(saved: Preprocessing) -> tuple[Any, dict[str, tuple[Any, None]]]:
    """Return the names of the arrays that a model was trained on, nested, and their features."""
    arrays = {
        name: name if feature is None else feature.arrays(name)
        for name, feature in saved.targets.items()
    }
    features = {
        array: (saved.targets[name], None)
        for name, tree in arrays.items()
        for array in leaves(tree)
    }
    return map_leaves(arrays.__getitem__, saved.y), features


def _in_column(feature: Feature, like: Feature) -> Feature:
    """Return a feature as it would be of the column of another, but not of columns rearranged."""
    if sorted(feature.columns) == sorted(like.columns):
        return feature
    return replace(feature, column=like.column)  # type: ignore[type-var]


def _of_x(transform: Transform, names: frozenset[str]) -> Transform:
    """Return a transform of the inputs, without chance, as one of all arrays of a sample."""

    def of_sample(sample: Sample, rng: np.random.Generator) -> Sample:
        inputs = {name: one for name, one in sample.items() if name in names}
        return {**sample, **transform(inputs, None)}  # type: ignore[arg-type]

    return of_sample
