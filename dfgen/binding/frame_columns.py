"""Columns of a manifest as Arrow arrays."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, did_you_mean
from dfgen.manifest.io import read_table
from dfgen.manifest.schema import Label
from dfgen.manifest.tables import TAKEN, arrow_table, described, is_table
from dfgen.samples.arrow_types import OR_IGNORE, is_binary, is_text, refuse_missing


@dataclass(frozen=True)
class Columns:
    """The columns of a manifest as Arrow arrays.

    Args:
        source: a DataFrame that nobody else changes, or an Arrow table.
        labels: what the manifest says of its label columns.
        root: where relative paths begin; None leaves them as they are.
    """

    source: pd.DataFrame | pa.Table
    labels: Mapping[str, Label] = field(default_factory=dict)
    root: str | None = None

    def __post_init__(self) -> None:
        odd = [name for name in self.names if not isinstance(name, str)]
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if odd or twice:
            fault = f"{odd[0]!r}, which is not text" if odd else f"{twice[0]!r} several times"
            raise ManifestError(f"the manifest has a column named {fault}: rename it")
        if not len(self.source):
            raise ManifestError(
                f"the manifest has no rows (columns: {', '.join(self.names)}): "
                "was it filtered by a value that does not occur?"
            )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        if isinstance(self.source, pa.Table):
            return list(self.source.column_names)
        return list(self.source.columns)

    def __getitem__(self, name: str) -> pa.Array:
        values = self.source[name]
        array = _to_arrow(values) if isinstance(values, pd.Series) else values
        if is_text(array.type):  # one array of them may pass 2 GB
            array = array.cast(pa.large_string())
        elif is_binary(array.type):
            array = array.cast(pa.large_binary())
        if isinstance(array, pa.ChunkedArray):
            chunks = array.chunks  # several are copied, which unifies dictionaries
            array = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
        return array

    def check(self, argument: str, name: object) -> str:
        """Return the name of a column that exists, or tell which ones do."""
        if isinstance(name, str) and name in self.names:
            return name
        hint = did_you_mean(name, self.names) if isinstance(name, str) else ""
        raise ManifestError(
            f"{argument}={_quoted(name)} is not a column of the manifest. "
            f"Columns: {', '.join(self.names)}.{hint}"
        )

    def paths(self, name: str) -> pa.Array:
        """Return a column of paths, none missing; relative ones start at `root`."""
        values = self[name]
        if not is_text(values.type):
            raise ManifestError(f"column {name!r} holds {values.type}, expected paths of files")
        advice = f"drop them, df = df[df[{name!r}].notna()], {OR_IGNORE}"
        refuse_missing(name, values, "path", advice)
        if self.root is None:
            return values
        absolute = pc.match_substring_regex(
            values, r"^[/\\]|^[A-Za-z]:[/\\]|^[A-Za-z][A-Za-z0-9+.-]+://"
        )
        start, slash = (pa.scalar(text, values.type) for text in (self.root, "/"))
        joined = pc.binary_join_element_wise(start, values, slash)
        return pc.if_else(absolute, values, joined)

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices, none missing."""
        values = self[self.check("index", name)]
        if not pa.types.is_integer(values.type) or values.null_count:
            raise ManifestError(
                f"column {name!r} holds {values.type}, {values.null_count:,} of them missing: "
                "expected whole numbers, which row of its file each row is"
            )
        return values.cast(pa.int64())


def _to_arrow(values: "pd.Series[Any]") -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        given = values.dropna()
        if all(isinstance(value, str | os.PathLike) for value in given):
            return pa.array(values.map(os.fspath, na_action="ignore"), pa.large_string())
        if all(isinstance(value, list | tuple | np.ndarray) for value in given):
            return _lists_to_arrow(values)
        kinds = sorted({type(value).__name__ for value in given})
        raise ManifestError(
            f"column {values.name!r} mixes {', '.join(kinds)}: give it one type, as with "
            f"df[{values.name!r}] = df[{values.name!r}].astype(str)"
        ) from None


def _lists_to_arrow(values: "pd.Series[Any]") -> pa.Array:
    """Return lists that Arrow does not take as they are, such as arrays of boxes."""
    try:
        return pa.array(values.map(list, na_action="ignore"), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(entry).__name__ for entry in _entries(values.dropna())})
        raise ManifestError(
            f"column {values.name!r} has lists that mix {', '.join(kinds)}: give all entries one "
            "type"
        ) from None


def _entries(lists: Iterable[Any]) -> Iterator[Any]:
    """Return what is in lists of lists."""
    for entry in lists:
        if isinstance(entry, list | tuple | np.ndarray):
            yield from _entries(entry)
        else:
            yield entry


def open_manifest(manifest: object, root: str | os.PathLike[str] | None) -> Columns:
    """Return the columns of a frame (copied), of another table, or of a manifest file."""
    if isinstance(manifest, pd.DataFrame):
        labels = manifest.attrs.get("dfgen", {}).get("labels", {})
        return Columns(manifest.copy(), labels, os.fspath(root) if root else None)
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(os.fspath(manifest), root)
        return Columns(table, metadata["labels"])
    if is_table(manifest):
        table = arrow_table(manifest, "the manifest")
        return Columns(table, root=os.fspath(root) if root else None)
    raise ManifestError(
        f"the manifest must be {TAKEN}, or the path of a manifest, got {described(manifest)}"
    )


def _quoted(name: object) -> str:
    return f'"{name}"' if isinstance(name, str) else repr(name)
