"""Columns of a manifest as Arrow arrays."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, brief, column_list, listed
from dfgen.explain.missing import not_a_column
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.paths import absolute_place, is_address, whole_paths
from dfgen.manifest.schema import Label
from dfgen.manifest.table_reading import read_table
from dfgen.samples.bound_feature import BoundFeature
from dfgen.stores.archives import archive_at
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import TAKEN, arrow_column, arrow_table, frame_of, is_table, to_frame
from dfgen.table.arrow_types import (
    OR_IGNORE,
    check_names,
    flattened,
    in_one,
    is_binary,
    is_list,
    is_text,
    lengths_of,
    refuse_missing,
    value_type,
)
from dfgen.table.file_columns import are_files, is_file_struct, large_bytes, paths_of, with_paths


@dataclass(frozen=True)
class Columns:
    """The columns of a manifest as Arrow arrays.

    Args:
        source: a DataFrame that nobody else changes, or an Arrow table.
        labels: what the manifest says of its label columns.
        root: where relative paths begin; None leaves them as they are.
        whole: whether these are all the rows there are, so that their classes are all of them.
        kept: columns of bytes that have become Arrow already.
        read_by: what gave the paths of a manifest their root, and that root.
        file: the manifest that was opened, if it was not a frame in hand.
    """

    source: pd.DataFrame | pa.Table
    labels: Mapping[str, Label] = field(default_factory=dict)
    root: str | None = None
    whole: bool = False
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    read_by: tuple[str, str | None] = ("", None)
    file: str | None = None

    def __post_init__(self) -> None:
        check_names(self.names, "the manifest")
        if not len(self.source):
            raise ManifestError(
                f"the manifest has no rows (columns: {column_list(self.names)}): "
                "was it filtered by a value that does not occur?" + self._values_known()
            )

    def __len__(self) -> int:
        return len(self.source)

    def _values_known(self) -> str:
        """Return the categories of rows that are none, which filters leave."""
        known: dict[Any, Any]
        if isinstance(self.source, pd.DataFrame):
            dtypes = self.source.dtypes.items()
            known = {n: k.categories for n, k in dtypes if isinstance(k, pd.CategoricalDtype)}
        else:
            known = {n: Label(**v).get("class_names") for n, v in self.labels.items()}
        known = {name: names for name, names in known.items() if names is not None}
        return ".".join(f" Those of {name!r} are {listed(names)}" for name, names in known.items())

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        if isinstance(self.source, pd.DataFrame):
            return list(self.source.columns)
        return list(self.source.column_names)

    @property
    def of_facts(self) -> str | None:
        """The column of the files whose facts there may be: `path`, else the first of bytes."""
        found = (name for name in self.names if are_files(self[name].type))
        return "path" if "path" in self.names else next(found, None)

    def __getitem__(self, name: str) -> pa.Array:
        if name in self.kept:
            return self.kept[name]
        values = self.source[name]
        array = arrow_column(values) if isinstance(values, pd.Series) else values
        if are_files(array.type):  # gigabytes: made once, and left in chunks
            array = self.kept[name] = large_bytes(array)
            return array
        if is_text(array.type):  # one array of them may pass 2 GB
            array = array.cast(pa.large_string())
        return in_one(array)  # which unifies dictionaries

    def first(self, name: str) -> pa.Array:
        """Return the first row of a column; of a million paths, Arrow takes long to make all."""
        return self.head()[name]

    def head(self) -> "Columns":
        """Return the columns of the first row alone."""
        rows = self.source.iloc if isinstance(self.source, pd.DataFrame) else self.source
        return Columns(rows[:1], root=self.root)

    def mapped_ids(self) -> Any:
        """Return the ids where they are mapped from a file that vouches for them, else None."""
        return None

    def ids_digest(self) -> str | None:
        """Return the digest of those ids, as `loading.state` makes it."""
        return None

    def loose_files(self, bound: BoundFeature) -> list[Any]:
        """Return as Arrow arrays what a feature reads from files that lie in no pack."""
        return [] if bound.files is None else [bound.files]

    def known_paths(self, bound: BoundFeature) -> Any:
        """Return the paths of a feature's files, None where they are not read before training."""
        return paths_of(bound.files)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame of the caller's own."""
        if isinstance(self.source, pd.DataFrame):
            return self.source.copy()
        return to_frame(arrow_table(self.source))

    def part(self, rows: npt.NDArray[np.bool_]) -> pd.DataFrame | pa.Table:
        """Return some of the rows of the source."""
        if isinstance(self.source, pd.DataFrame):
            return self.source[rows]
        return self.source.filter(pa.array(rows))

    def of_split(self, name: str, rows: npt.NDArray[np.bool_], fold: int | None) -> Any:
        """Return the rows of a split, or of one side of a fold, as a Sequence takes them."""
        return self.part(rows)

    def check(self, argument: str, name: object) -> str:
        """Return the name of a column that exists, or tell which ones do."""
        if isinstance(name, str) and name in self.names:
            return name
        raise ManifestError(not_a_column(argument, name, self.names, self.source))

    def files(self, name: str) -> Any:
        """Return a column of files, none missing: bytes, or paths; relative ones at `root`.

        Or lists of them: whether each has what it should is left to `check_lists`.
        """
        values = self[name]
        if pa.types.is_dictionary(values.type):
            values = values.cast(value_type(values.type))
        if is_list(values.type):
            return self._lists(name, values)
        if is_file_struct(values.type):
            self._check_structs(name, values)
        elif is_text(values.type) or is_binary(values.type):
            drop = f"drop them, df = df[df[{name!r}].notna()], {OR_IGNORE}"
            refuse_missing(name, values, "path" if is_text(values.type) else "bytes", drop)
        else:
            ids = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            whole = f"df[{name!r}]" + ".astype(int)" * pa.types.is_floating(values.type)
            raise ManifestError(
                f"column {name!r} holds {values.type}, expected paths of files"
                + ids * f': where files are named by it, df["path"] = {whole}.astype(str) + ".jpg"'
            )
        return self._at_root(values)

    def _check_structs(self, name: str, values: Any) -> None:
        """Refuse structs of `bytes` and `path` that have neither."""
        if values.null_count:
            row = pc.indices_nonzero(pc.is_null(values))[0].as_py()
            known = f" (id {self['id'][row]})" if "id" in self.names else ""
            raise ManifestError(
                f"column {name!r} has neither bytes nor a path in {values.null_count:,} rows, the "
                f"first is row {row}{known}: drop them, {OR_IGNORE}"
            )

    def _lists(self, name: str, values: pa.Array) -> pa.Array:
        """Return lists of files, of which some may be missing; empty ones where there is none."""
        given = self.source[name]
        if isinstance(given, pd.Series) and {set, frozenset} & {*map(type, given)}:
            raise ManifestError(f"column {name!r} holds sets, which have no order: make them lists")
        files = flattened(values)
        if not (is_text(files.type) or are_files(files.type)):
            raise ManifestError(f"column {name!r} holds {values.type}, expected paths of files")
        files = files.cast(pa.large_string()) if is_text(files.type) else large_bytes(files)
        ends = np.append(0, np.cumsum(lengths_of(values), dtype=np.int64))
        return pa.LargeListArray.from_arrays(ends, self._at_root(files))

    def _at_root(self, values: Any) -> Any:
        """Return files whose relative paths begin at `root`."""
        if self.root is None or is_binary(values.type):
            return values
        if is_file_struct(values.type):
            return with_paths(values, self._at_root(paths_of(values)))
        return whole_paths(values, self.root)

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices, none missing."""
        values = self[self.check("index", name)]
        if not pa.types.is_integer(values.type) or values.null_count:
            raise ManifestError(
                f"column {name!r} holds {values.type}, {values.null_count:,} of them missing: "
                "expected whole numbers, which row of its file each row is"
            )
        return values.cast(pa.int64())


def open_manifest(
    manifest: object,
    root: str | os.PathLike[str] | None,
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
    where: Any = None,
) -> Columns:
    """Return the columns of a frame (copied), of another table, or of rows of a manifest file."""
    start = os.fspath(root) if root else None
    if start and (archive_at(start) or is_address(start)):
        start = absolute_place(start)
    if where is not None and not isinstance(manifest, str | os.PathLike):
        raise ArgumentError(
            f"where={brief(where)} filters the files of a manifest, expected its path, got a "
            f"{type(manifest).__name__}: filter that, df.query(...), or give the path"
        )
    if isinstance(manifest, pd.DataFrame):
        known = manifest.attrs.get("dfgen", {})
        read_by = ("dfgen.read_manifest", known.get("root"))
        return Columns(manifest.copy(), known.get("labels", {}), start, read_by=read_by)
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(
            os.fspath(manifest), root, limits=limits, options=options, where=where
        )
        read_by, file = ("Sequence", metadata.root), os.fspath(manifest)
        return Columns(table, metadata.labels, start, read_by=read_by, file=file)
    if is_table(manifest):
        return Columns(arrow_table(manifest, "the manifest"), root=start)
    raise ManifestError(
        f"the manifest must be {TAKEN}, or the path of a manifest, got {frame_of(manifest)}"
    )
