"""Rows that are given by hand, whose files may be bytes or arrays."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.one_row import OneRow

Rows = list[Mapping[str, Any]]


@dataclass(frozen=True)
class GivenRows:
    """The columns of several rows, each a mapping."""

    rows: Rows

    def _each(self, name: str) -> Iterable[OneRow]:
        for place, row in enumerate(self.rows):
            if name not in row:
                raise ManifestError(
                    f"row {place} has no {name!r}, of which x is made. It has: {', '.join(row)}"
                )
            yield OneRow(row)

    def __getitem__(self, name: str) -> pa.Array:
        values = [row[name][0].as_py() for row in self._each(name)]
        return pa.array(values, from_pandas=True)

    def paths(self, name: str) -> pa.Array:
        """Return the paths of the rows."""
        return pa.concat_arrays([row.paths(name) for row in self._each(name)])

    def whole_numbers(self, name: str) -> pa.Array:
        """Return the indices of the rows."""
        return pa.concat_arrays([row.whole_numbers(name) for row in self._each(name)])


def with_names_of_files(rows: Rows, features: Iterable[Feature]) -> tuple[Rows, dict[str, bytes]]:
    """Return rows with names for the files that are given as bytes or arrays, and these files."""
    named: list[Any] = [dict(row) for row in rows]
    files: dict[str, bytes] = {}
    for feature in features:
        column = feature.columns[0]
        for row in named if feature.of_files else ():
            if column in row:
                row[column] = _named(row[column], feature, files)
    return named, files


def _named(value: Any, feature: Feature, files: dict[str, bytes]) -> Any:
    """Return a path, or the name that a file is given."""
    if isinstance(value, list | tuple):
        return [_named(one, feature, files) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.ndarray):
        kind, data = "array", feature.file_of(value)
    elif isinstance(value, bytes | bytearray | memoryview):
        kind, data = "bytes", bytes(value)
    else:
        return value
    name = f"<{kind} {len(files)}>"
    files[name] = data
    return name
