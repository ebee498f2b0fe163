"""A manifest in parts: a folder of Parquet files, and `_manifest.json`, which is written last.

    pets.manifest/
        part-00000.parquet ...   about 10^6 rows each, in the order of the manifest; a file never
                                 changes, and no later one has its name
        _manifest.json           rows, schema and class names, the `dfgen` key, and of each part its
                                 rows, bytes, CRC-32, rows of each split, least and greatest id

Parts hold plain values: what is a category says `schema`, and its names stand in the `dfgen` key,
of columns that are no labels in `categories`. So a new class changes no part. Nothing is listed and
no footer is read to open it. manifests/README.md specifies it for other programs.
"""

import base64
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from dfgen import __version__
from dfgen.errors import (
    DfgenError,
    ManifestError,
    MissingFileError,
    ReadError,
    brief,
    quote,
    reason,
)
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.metadata_check import metadata_of_pack
from dfgen.manifest.row_filter import EVERYTHING, Selection
from dfgen.manifest.schema import Metadata, as_category, part_column
from dfgen.packs.pack_index import (
    INDEX,
    PackFile,
    folder_of,
    in_pack,
    is_remote,
    refuse_lacking,
    seal_of,
    sealed,
)
from dfgen.samples.stores.remote.ranges import checksum_of
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at
from dfgen.system import threads, usable_cpus
from dfgen.table.arrow_types import value_type
from dfgen.table.parquet import read_parquet

PARTS_FORMAT = 1
MEND = "Take another copy of the folder, or build it again"

_NEEDED = {
    "rows": int,
    "schema": str,
    "categories": dict,
    "dfgen": dict,
    "next": int,
    "parts": list,
}
_ROOTLESS = pa.fs.LocalFileSystem()  # of fragments of which nothing is read
_AT_ONCE = 4  # parts that are read, each by Arrow's threads


@dataclass(frozen=True)
class Part(PackFile):
    """One file of a manifest in parts.

    Args:
        splits: split, or fold as text -> its rows.
        least: of its ids; None: it has no rows.
        greatest: of its ids.
    """

    splits: Mapping[str, int]
    least: int | str | None
    greatest: int | str | None


@dataclass(frozen=True)
class PartsIndex:
    """A manifest in parts as `_manifest.json` describes it.

    Args:
        folder: its absolute path, or its URL.
        parts: the files, in the order of their rows.
        schema: of all rows, with pandas' own metadata, and with the types of categories.
        categories: column that is no label -> its names, in order.
        dfgen: the `dfgen` key, as a manifest of one file in the folder around it has it.
        next: the number of the next new part.
        checksum: the CRC-32 of what stands here, 8 hexadecimal digits; "" of one not yet written.
    """

    folder: str
    parts: tuple[Part, ...]
    schema: pa.Schema
    categories: Mapping[str, list[str | int]]
    dfgen: Metadata
    next: int
    checksum: str = ""

    @property
    def rows(self) -> int:
        """The rows of all parts together."""
        return sum(part.rows for part in self.parts)

    @property
    def file_schema(self) -> pa.Schema:
        """The names and types of a part: categories are plain values there."""
        return pa.schema([field.with_type(value_type(field.type)) for field in self.schema])

    def path(self, part: Part) -> str:
        """Return the absolute path of a part."""
        return in_pack(self.folder, part.file)

    def names_of(self, column: str) -> pa.Array | None:
        """Return the names of a category; None: the column is none."""
        kind = self.schema.field(column).type
        if not pa.types.is_dictionary(kind):
            return None
        label = self.dfgen["labels"].get(column, {})
        names = self.categories.get(column, label.get("class_names", []))
        try:
            return pa.array(names, kind.value_type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ManifestError(
                f"{in_pack(self.folder, INDEX)}: column {column!r} has type {kind}, which cannot "
                f"hold its class names {brief(names)}: {reason(error)}. {MEND}"
            ) from None

    def to_json(self) -> bytes:
        """Return the bytes of `_manifest.json`: its last entry is the CRC-32 of those before it."""
        content = {
            "format": PARTS_FORMAT,
            "kind": "manifest",
            "created_by": f"dfgen {__version__}",
            "rows": self.rows,
            "next": self.next,
            "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "categories": self.categories,
            "dfgen": self.dfgen,
            "parts": [vars(part) for part in self.parts],
        }
        return sealed(content)


def read_parts_index(folder: str, options: StorageOptions | None = None) -> PartsIndex:
    """Read what `_manifest.json` of a manifest in parts says; `options` open a remote one.

    Raises:
        MissingFileError: there is none.
        ManifestError: it is cut short, changed, or of a newer format.
        ReadError: it is remote, and cannot be read.
    """
    path = in_pack(folder_of(folder), INDEX)
    try:
        data = store_at(path, options=options).read(path)
        content = json.loads(data)
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    except FileNotFoundError:
        said = f"there is no manifest {folder}, or it is" if is_remote(path) else f"{folder} is"
        raise MissingFileError(
            f"{said} not finished: {INDEX}, which is written last, is missing. If a build was "
            "broken off, run the same command again"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(
            f"{path} is cut short or damaged: {reason(error).rstrip('.')}. {MEND}"
        ) from None
    if not isinstance(content, dict) or content.get("kind") != "manifest":
        raise ManifestError(f'{path} is not that of a manifest, which has "kind": "manifest"')
    if content.get("format") != PARTS_FORMAT:
        raise ManifestError(
            f"{path} has format {brief(content.get('format'))} of manifests in parts; this dfgen "
            f"reads format {PARTS_FORMAT}. Upgrade dfgen, or build it again with this version"
        )
    return _index(os.path.dirname(path), path, content, seal_of(data, path, MEND))


def _index(folder: str, path: str, content: dict[str, Any], checksum: str) -> PartsIndex:
    try:
        refuse_lacking(content, _NEEDED)
        parts = tuple(Part(**part) for part in content["parts"])
        if sum(part.rows for part in parts) != content["rows"] or not parts:
            raise ValueError("the rows of its parts are not those of the manifest")
        if any(os.path.basename(part.file) != part.file for part in parts):
            raise ValueError("a part of it is not in its folder")
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["schema"])))
    except (TypeError, ValueError, pa.ArrowException, OSError) as error:
        raise ManifestError(f"{path} is damaged: {reason(error).rstrip('.')}. {MEND}") from None
    metadata = metadata_of_pack(content["dfgen"], folder, MEND)
    kept = content["categories"], metadata, content["next"], checksum
    return PartsIndex(folder, parts, schema, *kept)


def rows_of_parts(
    index: PartsIndex,
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
    chosen: Selection = EVERYTHING,
    root: str | None = None,
) -> pa.Table:
    """Return the rows of a manifest in parts, as stored, each part compared with its checksum.

    Args:
        index: what is read.
        limits: what a part may ask for.
        options: open a remote one.
        chosen: which rows and columns; parts that have none of them are not opened.
        root: where stored paths begin, for a condition on paths.

    Raises:
        MissingFileError: a part is missing.
        ManifestError: one is not the one that was written.
        ReadError: one is remote, and cannot be read.
    """
    parts = index.parts if chosen.where is None else _parts_asked(index, chosen)
    with threads(min(_AT_ONCE, usable_cpus())) as pool:
        tables = list(
            pool.map(lambda part: read_part(index, part, limits, options, chosen, root), parts)
        )
    if not tables:
        tables = [as_indexed(_of_columns(index.file_schema, chosen).empty_table(), index)]
    return pa.concat_tables(tables).replace_schema_metadata(index.schema.metadata)


def _of_columns(schema: pa.Schema, chosen: Selection) -> pa.Schema:
    names = schema.names if chosen.columns is None else chosen.columns
    return pa.schema([schema.field(name) for name in names])


def _parts_asked(index: PartsIndex, chosen: Selection) -> list[Part]:
    """Return the parts that may have chosen rows, by their ids and splits."""
    split = part_column(index.schema.names)
    files = ds.ParquetFileFormat()
    fragments = []
    for part in index.parts:
        known = pc.field("id") >= pc.scalar(part.least)
        known &= pc.field("id") <= pc.scalar(part.greatest)
        if split == "split" and len(part.splits) == 1 and "None" not in part.splits:  # missing ones
            known &= pc.field("split") == next(iter(part.splits))
        fragments.append(files.make_fragment(part.file, _ROOTLESS, known))
    asked = ds.FileSystemDataset(fragments, index.file_schema, files)
    names = {fragment.path for fragment in asked.get_fragments(chosen.where)}
    return [part for part in index.parts if part.file in names]


def read_part(
    index: PartsIndex,
    part: Part,
    limits: Limits = DEFAULT,
    options: StorageOptions | None = None,
    chosen: Selection = EVERYTHING,
    root: str | None = None,
    is_known: bool = False,
) -> pa.Table:
    """Return rows of one part, with the categories of the manifest; see `rows_of_parts`.

    One that `is_known` to be the one that was written is not read to its end to compare it.
    """
    with opened_part(index, part, options, is_known) as handle:
        if chosen.where is not None:
            return as_indexed(chosen.of_file(handle, index.schema, root), index)
        text = [field.name for field in index.schema if _is_text_category(field.type)]
        with pq.ParquetFile(handle, read_dictionary=text) as file:
            table = read_parquet(file, index.path(part), limits, part.bytes, chosen.columns)
    return as_indexed(table, index)


def _is_text_category(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and not pa.types.is_integer(kind.value_type)


def as_indexed(table: pa.Table, index: PartsIndex) -> pa.Table:
    """Return rows of a part with the categories that the index tells of."""
    columns = [
        column if (names := index.names_of(name)) is None else
        renamed_category(column, names, index.schema.field(name).type.ordered)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]  # fmt: skip
    return pa.table(columns, table.column_names)


def renamed_category(column: pa.ChunkedArray, names: pa.Array, ordered: bool) -> pa.ChunkedArray:
    """Return plain or categorical values as a category of some names, null where none is it."""
    if not pa.types.is_dictionary(column.type):
        return as_category(pc.index_in(column.cast(names.type), value_set=names), names, ordered)
    codes = [
        pc.index_in(chunk.dictionary.cast(names.type), value_set=names).take(chunk.indices)
        for chunk in column.chunks
    ]
    return as_category(pa.chunked_array(codes, pa.int32()), names, ordered)


@contextlib.contextmanager
def opened_part(
    index: PartsIndex, part: Part, options: StorageOptions | None = None, is_known: bool = False
) -> Iterator[pa.NativeFile]:
    """Yield a part opened, once its bytes are known to be those that were written."""
    path = index.path(part)
    try:
        if is_known:
            nbytes, found = part.bytes, part.checksum
            handle = pa.PythonFile(store_at(path, options=options).open(path), mode="r")
        elif is_remote(path):
            data = store_at(path, options=options).read(path)
            nbytes, found = len(data), f"{crc32(data):08x}"
            handle = pa.BufferReader(data)
        else:
            nbytes, handle = os.path.getsize(path), pa.OSFile(path)
            found = checksum_of(store_at(path), path, nbytes)
    except FileNotFoundError:
        advice = MEND
        with contextlib.suppress(DfgenError):
            if read_parts_index(index.folder, options).checksum != index.checksum:
                advice = "The manifest was written anew since it was opened: open it again"
        raise MissingFileError(
            f"{path} is missing, which holds {part.rows:,} rows of {index.folder}. {advice}"
        ) from None
    except ReadError as error:
        raise type(error)(f"{path}: {error}") from None
    with handle:
        if (nbytes, found) != (part.bytes, part.checksum):
            raise ManifestError(_difference(index, part, handle, nbytes, found))
        try:
            yield handle
        except DfgenError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ManifestError(
                f"{path} cannot be read as a Parquet file: {reason(error).rstrip('.')}. {MEND}"
            ) from error


def _difference(
    index: PartsIndex, part: Part, handle: pa.NativeFile, nbytes: int, checksum: str
) -> str:
    """Return what to say of a part that is not the one that was written."""
    path = index.path(part)
    other = next((one.file for one in index.parts if one.checksum == checksum), None)
    if other is not None:
        return f"{path} holds what {other} should hold: the two were exchanged. Rename them back"
    if nbytes < part.bytes:
        return f"{path} is cut short: it has {nbytes:,} bytes, expected {part.bytes:,}. {MEND}"
    with contextlib.suppress(pa.ArrowException, OSError, ValueError):
        schema = pq.read_schema(handle)
        expected = index.file_schema
        strange = [field for field in schema if field not in expected]
        lacking = [field for field in expected if field not in schema]
        if strange or lacking:
            told = ", ".join(f"{quote(field.name)} ({field.type})" for field in strange or lacking)
            return (
                f"{path} has another schema than the manifest around it: it "
                f"{'has' if strange else 'lacks'} {told}. {MEND}"
            )
    return (
        f"{path} is damaged, or a part of another manifest: its bytes are not those that were "
        f"written with {in_pack(index.folder, INDEX)}, by their checksum. {MEND}"
    )


def described_part(table: pa.Table, file: str, nbytes: int, checksum: str) -> Part:
    """Return what `_manifest.json` says of a part of these rows."""
    ids = pc.min_max(table["id"]).as_py()
    name = part_column(table.column_names)
    splits = {}
    if name is not None:
        counts = pc.value_counts(table[name])
        splits = {str(one["values"]): one["counts"] for one in counts.to_pylist()}
    ends = cast("int | str | None", ids["min"]), cast("int | str | None", ids["max"])
    return Part(file, len(table), nbytes, checksum, dict(sorted(splits.items())), *ends)
