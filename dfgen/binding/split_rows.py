"""The rows of each split of a manifest, or of training and validation by one fold."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, column_list, listed, warn, whole
from dfgen.explain.labels import warn_of_lookalikes
from dfgen.manifest.duplicates import leak_message, shared_paths
from dfgen.table.arrow_types import TEXT, refuse_empty_keys, value_type

Masks = dict[str, npt.NDArray[np.bool_]]
"""Name of a split -> whether each row is in it."""


def split_rows(columns: Columns, fold: int | None = None) -> Masks:
    """Return the rows of each split, "train" among them; by `fold`, those of "train" and "val"."""
    column = "split" if fold is None else "fold"
    how = 'df = dfgen.split(df, {"train": 0.8, "val": 0.2})' if fold is None else "folds=5"
    if column not in columns.names:
        raise ManifestError(
            f'the manifest has no column "{column}", which dfgen.split makes, {how}. Columns: '
            f"{column_list(columns.names)}"
        )
    values = columns[column]
    refuse_empty_keys(column, values, column)
    warn_of_lookalikes(column, values, columns.source)
    return _by_split(values) if fold is None else _by_fold(columns, values, whole("fold", fold))


def _by_split(values: pa.Array) -> Masks:
    kind = value_type(values.type)
    names = values.unique().to_pylist()
    if pa.types.is_dictionary(values.type):
        names = [name for name in values.dictionary.to_pylist() if name in names]
    if kind not in TEXT or "train" not in names:
        near = next((name for name in names if str(name).casefold().startswith("train")), None)
        advice = "rename the one to train on"
        if near is not None:
            advice = f'write df["split"] = df["split"].astype(str).replace({near!r}, "train")'
        raise ManifestError(
            f'the column "split" has {kind} such as {listed(names)}, expected names, "train" among '
            f"them: {advice}"
        )
    text = values.cast(kind)
    return {name: np.asarray(pc.equal(text, pa.scalar(name, kind))) for name in names}


def _by_fold(columns: Columns, values: pa.Array, fold: int) -> Masks:
    if "split" in columns.names:
        raise ManifestError(
            f'fold={fold}, but the manifest also has a column "split", whose test rows would be '
            'trained on: drop them, df = df[df["split"] == "train"].drop(columns="split")'
        )
    folds = sorted(values.unique().to_pylist())
    if fold not in folds or isinstance(folds[0], bool):
        raise ArgumentError(f"fold={fold} is not a fold of the manifest: {listed(folds)}")
    if len(folds) == 1:
        raise ManifestError(f"every row is in fold {fold}: none is left to train on")
    chosen = np.asarray(pc.equal(values, pa.scalar(fold, values.type)))
    return {"train": ~chosen, "val": chosen}


def where_split(where: Any, name: str, fold: int | None) -> Any:
    """Return the condition for `where=` of the rows of a split that also meet another condition."""
    text = f"split == {name!r}"
    if fold is not None:
        text = f"fold {'!=' if name == 'train' else '=='} {fold}"
    if where is None or isinstance(where, str):
        return f"({where}) and {text}" if where else text
    rows = pc.field("split") == name if fold is None else pc.field("fold") == fold
    return where & (~rows if fold is not None and name == "train" else rows)


def warn_of_split_leaks(columns: Columns, parts: Masks, of_files: bool) -> None:
    """Warn about files in several splits, else about equal perceptual hashes.

    Rows of array files share a path, and hashes that differ in some bits are not compared, because
    that takes 10 s for a million rows.
    """
    if of_files and "path" in columns.names and "index" not in columns.names:
        is_arrow = isinstance(columns.source, pa.Table)
        paths = columns.source["path"] if is_arrow else columns["path"]
        message = shared_paths(paths, np.argmax([*parts.values()], axis=0))
        pa.default_memory_pool().release_unused()
        if message is not None:
            warn(message)
            return
    hashes = columns["phash"] if "phash" in columns.names else None
    if hashes is None or hashes.type != pa.uint64():
        return
    train = parts["train"]
    trained = hashes.filter(pa.array(train))
    shared = pc.is_in(hashes, value_set=trained.drop_null()).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(shared & ~train)
    if not len(rows):
        return
    copy = np.flatnonzero(train)[pc.index(trained, hashes[rows[0]]).as_py()]
    places = [int(rows[0]), int(copy)]
    ids = columns["id"].take(pa.array(places)).to_pylist() if "id" in columns.names else places
    part = next(name for name, mask in parts.items() if mask[rows[0]])
    warn(leak_message(len(rows), ids[0], part, ids[1], "train"))
