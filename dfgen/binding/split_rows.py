"""The rows of each split of a manifest, or of training and validation by one fold."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.checks import whole
from dfgen.errors import ArgumentError, ManifestError, column_list, warn
from dfgen.manifest.duplicates import shared_paths, told
from dfgen.table.arrow_types import is_text, value_type

Masks = dict[str, npt.NDArray[np.bool_]]
"""Name of a split -> which rows are in it."""


def split_rows(columns: Columns, fold: int | None = None) -> Masks:
    """Return the rows of each split that has any, "train" among them.

    Args:
        columns: of a manifest with a column `split`, or with `fold`.
        fold: the fold that is "val", so that the others are "train"; None: the splits.
    """
    if fold is not None:
        return _rows_by_fold(columns, whole("fold", fold))
    if "split" not in columns.names:
        raise ManifestError(
            'the manifest has no column "split". Make one: df = dfgen.split(df, {"train": 0.8, '
            '"val": 0.2}), or with folds=5 and then sequences(df, fold=0). '
            f"Columns: {column_list(columns.names)}"
        )
    values = columns["split"]
    kind = value_type(values.type)
    if not is_text(kind):
        raise ManifestError(
            f'the column "split" holds {kind}, expected names, as "train" and "val"'
            + pa.types.is_boolean(kind)
            * ': of rows that validate write df["split"] = np.where(df["split"], "val", "train")'
        )
    _refuse_null("split", columns, values)
    names = [*_in_order(values)]
    if "train" not in names:
        raise ManifestError(
            f'the column "split" holds {", ".join(map(repr, names))}: expected one called "train", '
            'which is shuffled. Rename it: df["split"].replace("training", "train")'
        )
    text = values.cast(kind)
    return {name: _mask(pc.equal(text, pa.scalar(name, kind))) for name in names}


def _rows_by_fold(columns: Columns, fold: int) -> Masks:
    if "fold" not in columns.names:
        raise ManifestError(
            f'fold={fold}, but the manifest has no column "fold". Make one: df = dfgen.split(df, '
            f"folds=5). Columns: {column_list(columns.names)}"
        )
    if "split" in columns.names:
        raise ManifestError(
            f'fold={fold}, but the manifest has a column "split" too, whose test rows would be '
            'trained on. Take the rows to train on: df[df.split == "train"].drop(columns="split")'
        )
    values = columns["fold"]
    _refuse_null("fold", columns, values)
    known = sorted(values.unique().to_pylist())
    if fold not in known:
        raise ArgumentError(
            f"fold={fold} is none of the folds of the manifest: {', '.join(map(repr, known))}"
        )
    if len(known) == 1:
        raise ManifestError(f"every row is in fold {fold}: none is left to train on")
    chosen = _mask(pc.equal(values, pa.scalar(fold, values.type)))
    return {"train": ~chosen, "val": chosen}


def _in_order(values: pa.Array) -> list[str]:
    """Return the names that occur: categories in their order, others as they come."""
    found: list[str] = values.unique().to_pylist()
    if not pa.types.is_dictionary(values.type):
        return found
    return [name for name in values.dictionary.to_pylist() if name in found]


def _mask(found: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return mask


def _refuse_null(name: str, columns: Columns, values: pa.Array) -> None:
    if not values.null_count:
        return
    row: Any = pc.indices_nonzero(values.is_null())[0].as_py()
    where = f" (id {columns['id'][row].as_py()!r})" if "id" in columns.names else ""
    raise ManifestError(
        f"{values.null_count:,} rows have no {name}, the first is row {row}{where}. Give them one, "
        f"or drop them: df = df[df[{name!r}].notna()]"
    )


def warn_of_shared_paths(columns: Columns, parts: Masks) -> bool:
    """Warn of files in several splits, but of array files, whose rows share them by `index`."""
    if "path" not in columns.names or "index" in columns.names:
        return False
    source = columns.source
    paths = source["path"] if isinstance(source, pa.Table) else columns["path"]
    told = shared_paths(paths, np.argmax([*parts.values()], axis=0))
    pa.default_memory_pool().release_unused()
    if told is not None:
        warn(told)
    return told is not None


def warn_of_same_hashes(columns: Columns, parts: Masks) -> None:
    """Warn of rows that have the perceptual hash of one of "train", as of splits made by hand.

    A million rows take 25 ms; copies that differ in some bits would take 10 s.
    """
    hashes = columns["phash"] if "phash" in columns.names else None
    if hashes is None or hashes.type != pa.uint64():
        return
    train = parts["train"]
    mine, others = (hashes.filter(pa.array(mask)) for mask in (train, ~train))
    if not pc.any(pc.is_in(mine, value_set=others.drop_null())).as_py():
        return
    same = pc.is_in(hashes, value_set=mine.drop_null()).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(same & ~train)
    places = [int(rows[0]), int(np.flatnonzero(train)[pc.index(mine, hashes[rows[0]]).as_py()])]
    ids = columns["id"].take(places).to_pylist() if "id" in columns.names else places
    part = next(name for name, mask in parts.items() if mask[rows[0]])
    warn(told(len(rows), ids[0], part, ids[1], "train"))
