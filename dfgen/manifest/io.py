"""Read and write manifests: Parquet files with a key in their schema metadata."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Never

import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError, reason
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.files import only_writer
from dfgen.limits import Limits, limits_given
from dfgen.manifest.table_reading import Path as Path
from dfgen.manifest.table_reading import read_table
from dfgen.manifest.writing import check_out, path_of_manifest, write_rows
from dfgen.packs.format import folder_of, is_pack
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of
from dfgen.table.any_table import Table, arrow_table, data_frame, to_frame


def read_manifest(
    path: Path,
    root: Path | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    where: Any = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Return a manifest as an ordinary DataFrame with absolute paths.

    Filter, sort and join it with pandas, and pass it to `dfgen.Sequence`. The files of the data set
    are not opened.

    Args:
        path: the Parquet file, `"pets.parquet"` or `"s3://bucket/pets.parquet"`; or the folder of a
            pack, which `Sequence(df, pack=...)` then needs.
        root: folder or URL where the stored relative paths start, instead of the one in the
            manifest; absolute paths must be below it.
        limits: `dfgen.Limits`: what the file may ask for.
        storage_options: what opens `path` if it is a URL; see `Sequence`.
        columns: names of the columns to read, in this order; None: all. A Sequence needs `id` and
            `path`.
        where: which rows to read: a `pyarrow.compute` expression, or a text for `DataFrame.eval`,
            as `"split == 'train' and width > 200"`. A text may hold columns (`with blanks` in
            backticks), numbers, texts, comparisons, `in [...]`, `and`, `or`, `not`, `.isna()`,
            `.notna()`, `.isin([...])`, `.between(a, b)`, and methods of `.str`. Paths are absolute
            in it. None: all rows.
        **unknown: none: arguments of other libraries are reported with their names here.

    Returns:
        One row a file; columns that hold files stay in Arrow memory. `df.attrs["dfgen"]` holds the
        root, the metadata of the labels, and the recipe; filters and `concat` keep it, and
        `write_manifest` uses it.

    Raises:
        ArgumentError: it is no path, or `where` is no condition on its columns.
        MissingFileError: there is no such file.
        ManifestError: it is not a manifest, of an unknown version, or its rows are invalid.

    Example:
        >>> df = read_manifest("manifests/pets.parquet")  # doctest: +SKIP
        >>> train = df[df.split == "train"]  # doctest: +SKIP
        >>> large = read_manifest("manifests/pets.parquet", where="width > 200")  # doctest: +SKIP
    """
    refuse_unknown(read_manifest, unknown)
    options = StorageOptions(storage_options)
    table, metadata = read_table(path, root, limits_given(limits), options, columns, where)
    try:
        frame = to_frame(table)
    except Exception as error:  # of pandas' own key, which may be anything
        raise ManifestError(f"{path} cannot be made a frame: {reason(error)}") from error
    frame.attrs = {"dfgen": metadata.attributes}
    if is_pack(path, options):
        frame.attrs["dfgen"]["pack"] = folder_of(path)
    return frame


def frame_of_manifest(manifest: Path | Table) -> pd.DataFrame:
    """Return the rows of a manifest as a frame."""
    if isinstance(manifest, str | os.PathLike):
        return read_manifest(manifest)
    return data_frame(manifest)


def write_manifest(
    df: Table,
    path: Path,
    root: Path | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> None:
    """Write a frame as a manifest that any Parquet reader opens.

    The file is written whole or not at all: under a temporary name, then renamed.

    Args:
        df: one row a file, with the columns `id` and `path`: a DataFrame, or any table with
            `__arrow_c_stream__`. Without `path`, a column holds the files: bytes, or structs of
            `bytes` and `path`. Relative paths start at the root, else at the current folder. The
            index is not kept. Or an iterator of such tables, or a `pyarrow.RecordBatchReader`, of
            which one row group is in memory at a time; its paths need `root`.
        path: the Parquet file, or its URL; an older manifest is replaced.
        root: folder or URL that all files are below. None: the root of the manifest that `df` came
            from if all files are below it, else the deepest common folder, which URLs do not have.
            Paths are stored relative to it.
        storage_options: what opens `path` if it is a URL; see `Sequence`.
        **unknown: none: arguments of other libraries are reported with their names here.

    Raises:
        ArgumentError: `path` is no path, or batches have no root.
        ManifestError: the frame is not a manifest; the message names the rows.
        WriteError: the file cannot be written, has the suffix of another kind, or exists and is no
            manifest.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "label": ["cat", "dog"]})
        >>> write_manifest(df, "pets.parquet")  # doctest: +SKIP
    """
    refuse_unknown(write_manifest, unknown)
    known = getattr(df, "attrs", {}).get("dfgen", {})
    write_frame(df, path, known, root, StorageOptions(storage_options))


def write_frame(
    df: Table,
    path: Path,
    known: Mapping[str, Any],
    root: Path | None = None,
    options: StorageOptions | None = None,
) -> None:
    """Write a frame as `write_manifest` does; `known` is its `df.attrs["dfgen"]`."""
    place = path_of_manifest(path)
    check_out(place, options)
    begin = None if root is None else os.fspath(root)
    if isinstance(df, pa.RecordBatchReader | Iterator):
        tables = (arrow_table(batch, "a batch") for batch in df)
        write_rows(tables, place, known, begin, options, is_stream=True)
    else:
        write_rows([arrow_table(df)], place, known, begin, options)


def is_plain(path: Path) -> bool:
    """Whether a manifest is a file of this machine, not a URL."""
    return not has_store(scheme_of(os.fspath(path)))


def only_writer_of(path: Path) -> AbstractContextManager[object]:
    """Raise if another process writes a manifest; not for URLs, which have no lock."""
    far = has_store(scheme_of(os.fspath(path)))
    return nullcontext() if far else only_writer(os.path.abspath(path))
