"""Ids of rows."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns
from dfgen.errors import ManifestError, column_list
from dfgen.manifest.schema import refuse_repeated
from dfgen.samples.bound_feature import BoundFeature
from dfgen.table.arrow_types import in_one, is_text, refuse_empty_keys, value_type
from dfgen.table.file_columns import paths_of
from dfgen.table.mapped_column import MappedColumn


def ids_of(columns: Columns, id: str | None, bound: BoundFeature | None) -> Any:
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
