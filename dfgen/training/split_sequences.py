"""sequences: a Sequence for each split of a manifest."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypedDict, Unpack

from dfgen.binding.default_features import Options, chosen_features
from dfgen.binding.nested import Tree, leaves, map_leaves
from dfgen.binding.packed_rows import open_mapped
from dfgen.binding.pixel_cache import Cache
from dfgen.binding.row_draws import DrawnBy
from dfgen.binding.row_weights import ClassWeight, SampleWeight
from dfgen.binding.split_rows import (
    split_rows,
    warn_of_same_hashes,
    warn_of_shared_paths,
)
from dfgen.errors import ArgumentError
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import DEFAULT, Amount, Limits
from dfgen.loading.batch_transforms import BatchTransform
from dfgen.packs.format import is_pack
from dfgen.samples.features.chance import without_chance
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import Table
from dfgen.training.sequence import Sequence


class TrainArguments(TypedDict, total=False):
    """The arguments of `Sequence` that may differ from split to split."""

    sample_weight: SampleWeight
    class_weight: ClassWeight
    balance: DrawnBy
    rows_per_epoch: int | None
    bucket_by: str | None
    batch_size: int
    seed: int | None
    drop_remainder: bool
    transform: Transform | None
    batch_transform: BatchTransform | None
    on_error: str
    workers: int | None
    use_multiprocessing: bool
    max_queue_size: int
    limits: Limits | None
    shard: tuple[int, int] | str | None
    window: Amount


class SequenceArguments(TrainArguments, total=False):
    """Those and the ones that say what a row is, which are the same for all splits."""

    id: str | None
    image_size: tuple[int, int] | None
    color_mode: str
    label_mode: str | None
    class_names: list[Any] | tuple[Any, ...] | None
    scale: Scale
    root: str | os.PathLike[str] | None
    storage_options: Mapping[str, Any] | None
    cache: Cache
    pack: str | os.PathLike[str] | None
    where: Any


_OF_TRAIN = ("balance", "rows_per_epoch", "bucket_by", "class_weight", "drop_remainder")
"""Arguments that other splits do not get: they choose, weigh or leave out rows of training."""

_KNOWN = (*SequenceArguments.__annotations__, "shuffle")


def sequences(
    manifest: Table | str | os.PathLike[str] = None,
    x: Tree = "path",
    y: Tree = None,
    *,
    fold: int | None = None,
    train: TrainArguments | None = None,
    **arguments: Unpack[SequenceArguments],
) -> dict[str, Sequence]:
    """Return a Sequence for each split, by its name: shuffled for "train", in order for the others.

    Use it instead of a Sequence a split whose arguments repeat each other. x, y and class names are
    settled once, on all rows, so that every split numbers the classes alike: those of text are its
    sorted values. Random crops and flips are for "train"; the others get the features' `still`
    form: the centre, no flip, `resize="crop"` for `crop="random_resized"`.

    Args:
        manifest: as of Sequence, with a column `split`, in which one is called "train".
        x: as of Sequence.
        y: as of Sequence.
        fold: of a manifest with a column `fold` (`dfgen.split(df, folds=5)`): this one is "val",
            all others are "train".
        train: arguments of Sequence for "train" alone: `{"transform": augment}`.
        arguments: those of Sequence, for all splits, but for `shuffle`. `balance`,
            `rows_per_epoch`, `bucket_by`, `class_weight` and `drop_remainder` go to "train" alone.

    Raises:
        ManifestError: there is no such column, a row has no split, or what Sequence raises.
        ArgumentError: an argument that cannot be.

    Example:
        >>> seqs = dfgen.sequences(df, y="kind", train={"balance": "kind"})  # doctest: +SKIP
        >>> model.fit(seqs["train"], validation_data=seqs["val"], epochs=10)  # doctest: +SKIP
    """
    refuse_unknown(sequences, [name for name in arguments if name not in _KNOWN], _KNOWN)
    given: dict[str, Any] = {**arguments}
    own = _checked(given, train)
    asked = {f.name: given.pop(f.name) for f in fields(Options) if f.name in given}
    opened = StorageOptions(given.get("storage_options"))
    limits, where = given.get("limits") or DEFAULT, given.pop("where", None)
    if given.get("pack") is None and is_pack(manifest, opened):
        given["pack"] = manifest
    source = open_mapped(manifest, given.get("root"), limits, opened, where)
    columns = replace(source, whole=True)
    taken = {given.get("id"), *leaves(given.get("sample_weight"))} - {None}
    x, y = chosen_features(columns, x, y, Options(**asked), taken)
    given["label_mode"] = None if y is None else "int"  # so that no column is taken for the label
    parts = split_rows(columns, fold)
    reads = any("path" in feature.columns for feature in leaves(x))
    if not (reads and warn_of_shared_paths(columns, parts)):
        warn_of_same_hashes(columns, parts)
    found = _Splits()
    for name, rows in parts.items():
        part = columns.of_split(name, rows, fold)
        if name == "train":
            found[name] = Sequence(part, x, y, **{**given, **own})
        else:
            kept = {key: value for key, value in given.items() if key not in _OF_TRAIN}
            still = (map_leaves(without_chance, tree) for tree in (x, y))
            found[name] = Sequence(part, *still, shuffle=False, **kept)
    return found


class _Splits(dict[str, Sequence]):
    """Sequences by split, which tell the splits that there are."""

    def __missing__(self, name: object) -> Sequence:
        raise KeyError(f"there is no split {name!r}, expected one of {', '.join(map(repr, self))}")


def _checked(given: dict[str, Any], train: Any) -> dict[str, Any]:
    if "shuffle" in given:
        raise ArgumentError(
            f'shuffle={given["shuffle"]!r}: sequences shuffles the split "train" alone. Leave it '
            "out, or make that Sequence yourself"
        )
    own: dict[str, Any] = {} if train is None else train
    known = TrainArguments.__annotations__
    stray = [name for name in own if name not in known] if isinstance(own, dict) else [own]
    if stray:
        raise ArgumentError(
            f"train={train!r} has {stray[0]!r}: expected a dict of arguments that may differ from "
            f"split to split, {', '.join(known)}. Give others to sequences itself, for all splits"
        )
    return own
