"""Rows that are given by hand, whose files may be bytes or arrays."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.one_row import OneRow, is_several
from dfgen.samples.storage.embedded import FILE


@dataclass(frozen=True)
class GivenRows:
    """The columns of several rows, each a mapping."""

    rows: list[dict[str, Any]]

    def _each(self, name: str) -> Iterator[OneRow]:
        for place, row in enumerate(self.rows):
            if name not in row:
                raise ManifestError(
                    f"row {place} has no {name!r}, of which x is made. It has: "
                    f"{', '.join(map(str, row))}"
                )
            yield OneRow(row)

    def __getitem__(self, name: str) -> pa.Array:
        values = [row[name][0].as_py() for row in self._each(name)]
        return pa.array(values, from_pandas=True)

    def files(self, name: str) -> pa.Array:
        """Return the paths of the rows; structs of `bytes` and `path` where some have bytes.

        Or lists of either, where rows have several.
        """
        values = [row.row[name] for row in self._each(name)]
        if not any(map(is_several, values)):
            return _files(values, name)
        lists = [value if is_several(value) else [value] for value in values]
        ends = np.cumsum([0, *map(len, lists)])
        return pa.LargeListArray.from_arrays(ends, _files(chain.from_iterable(lists), name))

    def whole_numbers(self, name: str) -> pa.Array:
        """Return the indices of the rows."""
        return pa.concat_arrays([row.whole_numbers(name) for row in self._each(name)])


def _files(values: Iterable[Any], column: str) -> pa.Array:
    """Return files as paths, or structs of `bytes` and `path` where some are bytes."""
    files = pa.array([_content(value, column) for value in values], FILE)
    paths = files.field("path")
    return files if paths.null_count else paths


def _content(value: Any, column: str) -> dict[str, Any]:
    """Return what a row holds for a file as bytes and path, of which one is None."""
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        data, path = value["bytes"], value["path"]
        return {"bytes": data, "path": path if data is None else None}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value), "path": None}
    if isinstance(value, str | os.PathLike):
        return {"bytes": None, "path": os.fspath(value)}
    raise ArgumentError(f"{column}={value!r}: expected a path, bytes or an array")


def with_files_of_arrays(
    rows: Iterable[Mapping[str, Any]], features: Iterable[Feature]
) -> list[dict[str, Any]]:
    """Return rows with the bytes of files for the arrays that stand where features read files."""
    given = [dict(row) for row in rows]
    for feature in features:
        column = feature.columns[0]
        for row in given if feature.of_files else ():
            if column in row:
                row[column] = _without_arrays(row[column], feature)
    return given


def _without_arrays(value: Any, feature: Feature) -> Any:
    if is_several(value):
        return [_without_arrays(one, feature) for one in value]
    return feature.file_of(value) if isinstance(value, np.ndarray) else value
