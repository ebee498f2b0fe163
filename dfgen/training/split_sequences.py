"""sequences: a Sequence for each split of a manifest."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dfgen.binding.default_features import Options, chosen_features
from dfgen.binding.mapped_columns import open_mapped
from dfgen.binding.nested import Tree, leaves, map_leaves
from dfgen.binding.split_rows import (
    split_rows,
    warn_of_same_hashes,
    warn_of_shared_paths,
)
from dfgen.errors import ArgumentError
from dfgen.limits import DEFAULT
from dfgen.packs.format import is_pack
from dfgen.samples.features.chance import without_chance
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import Table
from dfgen.training.sequence import Sequence

_OF_TRAIN = ("balance", "sampling_weight", "bucket_by", "class_weight", "drop_remainder")
"""Arguments that choose, weigh or leave out rows of training."""

_OF_ALL = ("id", "image_size", "color_mode", "label_mode", "class_names", "scale", "root",
           "storage_options", "cache", "pack", "where", "shuffle")  # fmt: skip
"""Arguments that cannot differ between splits."""


def sequences(
    manifest: Table | str | os.PathLike[str] = None,
    x: Tree = "path",
    y: Tree = None,
    *,
    fold: int | None = None,
    train: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Sequence]:
    """Return a Sequence for each split, by its name: shuffled for "train", in order for the others.

    x, y and class names are chosen from all rows, so that every split has the same class indices.
    Random crops and flips are for "train"; the others get the `still` form of features: the centre,
    no flip, `resize="crop"` for `crop="random_resized"`.

    Args:
        manifest: as of Sequence, with a column `split` that has "train".
        x: as of Sequence.
        y: as of Sequence.
        fold: of a manifest with a column `fold` (`dfgen.split(df, folds=5)`): this fold is "val",
            all others are "train".
        train: arguments of Sequence for "train" alone: `{"transform": augment}`.
        **arguments: of Sequence for all splits, except `shuffle`. `balance`, `sampling_weight`,
            `bucket_by`, `class_weight` and `drop_remainder` are for "train" alone.

    Raises:
        ManifestError: there is no such column, a row has no split, or what Sequence raises.
        ArgumentError: an argument cannot differ between splits, or what Sequence raises.

    Example:
        >>> seqs = dfgen.sequences(df, y="kind", train={"balance": "kind"})  # doctest: +SKIP
        >>> model.fit(seqs["train"], validation_data=seqs["val"], epochs=10)  # doctest: +SKIP
    """
    own = dict(train or {})
    if wrong := [name for name in own if name in _OF_ALL] + ["shuffle"] * ("shuffle" in arguments):
        raise ArgumentError(
            f'{wrong[0]}= cannot differ between the splits of sequences, of which only "train" is '
            "shuffled: make these Sequences yourself, with dfgen.Sequence"
        )
    options = {f.name: arguments.pop(f.name) for f in fields(Options) if f.name in arguments}
    limits, where = arguments.get("limits") or DEFAULT, arguments.pop("where", None)
    storage = StorageOptions(arguments.get("storage_options"))
    if arguments.get("pack") is None and is_pack(manifest, storage):
        arguments["pack"] = manifest
    source = open_mapped(manifest, arguments.get("root"), limits, storage, where)
    columns = replace(source, whole=True)
    taken = {arguments.get("id"), *leaves(arguments.get("sample_weight"))} - {None}
    x, y = chosen_features(columns, x, y, Options(**options), taken)
    arguments["label_mode"] = None if y is None else "int"  # then no column is chosen as the label
    parts = split_rows(columns, fold)
    reads_files = any("path" in feature.columns for feature in leaves(x))
    if not (reads_files and warn_of_shared_paths(columns, parts)):
        warn_of_same_hashes(columns, parts)
    splits = {}
    for name, rows in parts.items():
        part = columns.of_split(name, rows, fold)
        if name == "train":
            splits[name] = Sequence(part, x, y, **{**arguments, **own})
        else:
            kept = {key: value for key, value in arguments.items() if key not in _OF_TRAIN}
            still = (map_leaves(without_chance, tree) for tree in (x, y))
            splits[name] = Sequence(part, *still, shuffle=False, **kept)
    return splits
