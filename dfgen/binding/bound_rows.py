"""The rows of a manifest: their ids, and the values of each feature."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, column_list
from dfgen.explain.labels import warn_of_infinite
from dfgen.manifest.schema import refuse_repeated
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundRows
from dfgen.spec import Present
from dfgen.table.arrow_types import in_one, is_text, nulls, refuse_empty_keys, value_type
from dfgen.table.file_columns import paths_of
from dfgen.table.mapped_column import MappedColumn


def bound_rows(
    columns: Columns,
    named: Mapping[str, Feature],
    inputs: set[str],
    id: str | None,
    problems: list[int],
) -> BoundRows:
    """Return ids, and all features with the values of their columns.

    Args:
        columns: of the manifest.
        named: name -> feature.
        inputs: the names of x.
        id: the column of ids; None for `id`, or else the paths.
        problems: rows that cannot be read.
    """
    features = []
    try:
        for name, feature in named.items():
            like = None if feature.like is None else _followed_image(named, name)
            present = None
            if feature.missing == "ignore":
                if name in inputs:
                    raise ArgumentError(
                        f'{feature!r} is in x, but missing="ignore" is for targets, which then '
                        "weigh 0 in the loss: leave it out, and drop or fill missing values"
                    )
                present = _present_rows(columns, feature)
            elif problems and like is not None and not feature.of_files:
                present = _annotated_rows(columns, feature, problems)
            if like is not None:
                feature = replace(feature, like=named[like])  # type: ignore[type-var]
            values = feature.bind(columns if present is None else _filled(columns, present))
            features.append(BoundFeature(name, feature, values, like, present))
            if name not in inputs and feature.kind == "number":
                warn_of_infinite(features[-1])
    except ManifestError as error:
        name = "id" if id is None else id
        if error.row is not None and name in columns.names:
            error.add_note(f"row {error.row} has {name}={columns[name][error.row]}")
        raise
    files = (one for one in features if one.files is not None)
    whole = (one for one in files if one.present is None and one.like is None)
    return BoundRows(_ids_of(columns, id, next(whole, None)), tuple(features))


def _followed_image(named: Mapping[str, Feature], name: str) -> str:
    """Return the name of the image that a feature of x or y follows."""
    feature = named[name]
    like, what = feature.like, f"{type(feature).__name__}({feature.columns[0]!r})"
    leaders = {
        key: image
        for key, image in named.items()
        if isinstance(image, Image) and image.like is None
    }
    names = [
        key for key, image in leaders.items() if like == "" or like in (key, image.column, image)
    ]
    if len(names) != 1:
        write = f"like={next(iter(leaders))!r}" if leaders else "x=dfgen.Image(...) as well"
        raise ArgumentError(
            f"{what} has like={like!r}, expected the name of one image that follows no other, of "
            f"{', '.join(leaders) or 'none'} in x and y: write {write}"
        )
    if leaders[names[0]].missing == "ignore":
        raise ArgumentError(
            f"{what} follows the image {names[0]!r}, which rows may lack: leave out "
            'missing="ignore" there'
        )
    return names[0]


def _present_rows(columns: Columns, feature: Feature) -> Present:
    """Return which rows have all columns of a feature with `missing="ignore"`."""
    missing = [nulls(columns[name]) for name in feature.columns]
    present: Present = ~np.logical_or.reduce(missing)
    for name in feature.columns:
        if not present.any() and pa.types.is_null(columns[name].type):
            raise ManifestError(
                f"column {name!r} is missing in all {len(columns):,} rows and has no type: leave "
                f"{type(feature).__name__} out of y, or give the column a type"
            )
    return present


def _annotated_rows(columns: Columns, feature: Feature, problems: list[int]) -> Present | None:
    """Return which rows have annotations; rows with problems are skipped and may lack them.

    Returns None if each row must have them.
    """
    present = np.ones(len(columns), np.bool_)
    for name in feature.columns:
        present[problems] &= ~nulls(columns[name])[problems]
    return None if present.all() or not present.any() else present


def _filled(columns: Columns, present: Present) -> Columns:
    """Return columns in which the first present row replaces missing ones.

    Row numbers do not change. Without any present row, the columns are empty.
    """
    rows = np.where(present, np.arange(len(present)), present.argmax())
    return columns.taking(rows if present.any() else rows[:0])


def _ids_of(columns: Columns, id: str | None, bound: BoundFeature | None) -> Any:
    """Return the ids of the rows, NumPy integers or Arrow text, each id once.

    They are in the column `id`, or the paths of `bound` if there is no such column.
    """
    is_own = id is None or (isinstance(id, str) and id == "id")
    if is_own and "id" in columns.stored and columns.rows is None:
        return columns.stored["id"]
    if id is None and "id" not in columns.names:
        files = None if bound is None or isinstance(bound.files, MappedColumn) else bound.files
        paths = None if files is None else paths_of(files)
        if bound is None or paths is None or pc.count_distinct(paths).as_py() < len(paths):
            raise ManifestError(
                f"the manifest has no column 'id' (columns: {column_list(columns.names)}), and "
                'paths that repeat or are missing are no ids. Name another column, id="object_id", '
                'or number the rows, df["id"] = range(len(df))'
            )
        paths = in_one(paths_of(columns[bound.feature.columns[0]]))  # without a root
        return paths.cast(value_type(paths.type))
    name = columns.check("id", "id" if id is None else id)
    ids = columns[name]
    if not (pa.types.is_integer(ids.type) or is_text(ids.type)):
        raise ManifestError(
            f'column "{name}" of ids has {ids.type}, expected whole numbers or text: df["{name}"] '
            f'= df["{name}"].astype("int64"), or .astype(str), after dropping rows without an id'
        )
    refuse_empty_keys(name, ids, "id")
    try:
        refuse_repeated(pa.chunked_array([ids]), "the manifest")
    except ManifestError as error:
        raise ManifestError(str(error).replace('df["id"]', f'df["{name}"]')) from None
    return ids.to_numpy() if pa.types.is_integer(ids.type) else ids
