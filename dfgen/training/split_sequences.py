"""sequences: a Sequence for each split of a manifest."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dfgen.binding.arguments import FEATURE_OPTIONS, SequenceArguments, chosen_features, open_table
from dfgen.binding.split_rows import split_rows, warn_of_split_leaks, where_split
from dfgen.errors import ArgumentError
from dfgen.packs.format import is_pack
from dfgen.samples.features.audio import Audio
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.spec import Tree, leaves, map_leaves
from dfgen.table.any_table import Table
from dfgen.training.checks.check import warn_of_unseen
from dfgen.training.keras_data import view_of
from dfgen.training.sequence import Sequence

_OF_TRAIN = ("balance", "sampling_weight", "bucket_by", "class_weight", "drop_remainder")
"""SequenceArguments that draw, weight or leave out rows of training."""
_MAY_DIFFER = (*_OF_TRAIN, "sample_weight", "batch_size", "transform", "on_error", "limits")
"""SequenceArguments that `train=` may give."""


def sequences(
    manifest: Table | str | os.PathLike[str] = None,
    x: Tree = "path",
    y: Tree = None,
    *,
    fold: int | None = None,
    train: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Sequence]:
    """Return name of a split -> its Sequence, shuffled for "train", in order for the others.

    All rows decide about x, y and class names, so every split has the same class indices. Only
    "train" has random crops and flips; other splits get the centre, no flip, and `resize="crop"`
    for `crop="random_resized"`.

    Args:
        manifest: as in Sequence, with a column `split` that has "train".
        x: as in Sequence.
        y: as in Sequence.
        fold: the fold for "val", if the manifest has a column `fold` (`dfgen.split(df, folds=5)`);
            all others are "train".
        train: arguments of Sequence for "train" only: `{"transform": augment}`.
        **arguments: of Sequence for all splits, except `shuffle`. `balance`, `sampling_weight`,
            `bucket_by`, `class_weight` and `drop_remainder` are used only for "train".

    Raises:
        ManifestError: there is no such column, or a row has no split; and as Sequence.
        ArgumentError: an argument cannot differ between splits; and as Sequence.

    Example:
        >>> seqs = dfgen.sequences(df, y="kind", train={"balance": "kind"})  # doctest: +SKIP
        >>> model.fit(seqs["train"], validation_data=seqs["val"], epochs=10)  # doctest: +SKIP
    """
    own, known = dict(train or {}), {one.name for one in fields(SequenceArguments)}
    wrong = [name for name in own if name in known and name not in _MAY_DIFFER]
    if wrong or "shuffle" in arguments:
        raise ArgumentError(
            f'{[*wrong, "shuffle"][0]}= must be the same for all splits, and only "train" is '
            "shuffled: create each Sequence yourself, with dfgen.Sequence"
        )
    shared = SequenceArguments(manifest, x, y, **{k: v for k, v in arguments.items() if k in known})
    if shared.pack is None and is_pack(manifest, shared.storage_options):
        arguments["pack"] = manifest
    columns = open_table(shared)
    x, y = chosen_features(columns, shared)
    parts = split_rows(columns, fold)
    warn_of_split_leaks(columns, parts, any("path" in feature.columns for feature in leaves(x)))
    options = {k: v for k, v in arguments.items() if k not in FEATURE_OPTIONS}
    options["label_mode"] = None if y is None else "int"  # then no column is chosen as the label
    still = {key: map_leaves(_without_chance, tree) for key, tree in (("x", x), ("y", y))}
    sequences = {}
    for name, mask in parts.items():
        if columns.stored and columns.file:
            options |= {"manifest": manifest, "where": where_split(shared.where, name, fold)}
        else:
            options |= {"manifest": columns.taking(np.flatnonzero(mask)), "where": None}
        if name == "train":
            sequences[name] = Sequence(**{**options, **own, "x": x, "y": y})
        else:
            kept = {k: v for k, v in options.items() if k not in _OF_TRAIN}
            sequences[name] = Sequence(**kept, **still, shuffle=False)
    for name in sequences.keys() - {"train"}:
        warn_of_unseen(view_of(sequences["train"]), view_of(sequences[name]), f"split {name!r}")
    return sequences


def _without_chance(feature: Feature) -> Feature:
    """Return a feature with central crops and no flips; users' own features are unchanged."""
    if not isinstance(feature, Image | Audio) or not feature.is_random:
        return feature
    if isinstance(feature, Audio):
        return replace(feature, start="center")
    if feature.crop == "random_resized":
        return replace(feature, resize="crop", crop=None, area=None, ratio=None, flip=None)
    return replace(feature, crop=feature.crop and "center", flip=None)
