"""The `dfgen` key in the schema metadata of a manifest, as JSON, and its fingerprint.

The key may come from another program, so it is checked when it is read. Unknown entries are
ignored.

The fingerprint is the same for the same rows, wherever the files are: a BLAKE2b-128 of the ids in
row order, the stored paths, the labels, and the digests of the files if there are any. Splits and
other facts do not count, so a copied data set keeps its fingerprint. docs/reference/manifests.md
specifies the bytes for other programs.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen import __version__
from dfgen.errors import ManifestError
from dfgen.manifest.schema import Label, label_columns
from dfgen.packs.format import Versioned
from dfgen.table.arrow_types import BYTES, LISTS

KEY: bytes = b"dfgen"
MANIFEST_FORMAT = 1
KEY_LIMIT = 1 << 24
"""Bytes of a key; Parquet readers reject a file with 100 MB of them."""


class Metadata(msgspec.Struct, kw_only=True):
    """The entries of the key."""

    format: int = MANIFEST_FORMAT
    root: str | None  # where relative paths start; None: every path is absolute
    labels: dict[str, Label]
    recipe: dict[str, Any] | None  # the arguments that built the manifest; None: made by hand
    created_by: str = f"dfgen {__version__}"
    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]

    def __post_init__(self) -> None:
        for name, label in self.labels.items():
            if "kind" not in label:
                raise ValueError(f"the label {name!r} has no kind")

    @property
    def attributes(self) -> dict[str, Any]:
        """What `df.attrs["dfgen"]` holds: plain JSON types, because pandas compares attrs."""
        return {"root": self.root, "labels": self.labels, "recipe": self.recipe}


def decode_metadata(schema_metadata: Mapping[bytes, bytes] | None, path: str) -> Metadata:
    """Return the checked key of a Parquet file."""
    text = (schema_metadata or {}).get(KEY)
    if text is None:
        raise ManifestError(
            f'{path} is a Parquet file but not a manifest: its schema metadata has no "dfgen" key. '
            "Read it with pandas.read_parquet and save it with dfgen.write_manifest, root= the "
            "folder where its paths start"
        )
    try:
        version = msgspec.json.decode(text, type=Versioned).format
        if version == MANIFEST_FORMAT:
            return msgspec.json.decode(text, type=Metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(
            f'{path}: the "dfgen" key of its schema metadata is damaged: {error}. Take another '
            "copy of the file, or build it again"
        ) from None
    raise ManifestError(
        f"{path} has manifest format {version}; this dfgen reads format {MANIFEST_FORMAT}. "
        "Upgrade dfgen, or build the manifest again with this version"
    )


def metadata_of(content: object, where: str) -> Metadata:
    """Return checked metadata of plain values, such as those in the index of a pack."""
    try:
        return msgspec.convert(content, Metadata)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where} is not valid: {error}") from None


def encode_metadata(metadata: Metadata, path: str) -> bytes:
    """Return the key as JSON."""
    text = msgspec.json.encode(metadata)
    if len(text) > KEY_LIMIT:
        names = {name: label.get("class_names", ()) for name, label in metadata.labels.items()}
        most = max(names, key=lambda name: len(names[name]), default="")
        raise ManifestError(
            f'the "dfgen" key of {path} would have {len(text):,} bytes, expected at most '
            f"{KEY_LIMIT:,}. Column {most!r} has {len(names.get(most, ())):,} class names: "
            f'write it as text, df["{most}"] = df["{most}"].astype(object)'
        )
    return text


def fingerprint(table: pa.Table) -> str:
    """Return the fingerprint of a table with the columns `id`, `path` (as stored) and labels."""
    return columns_digest(table, hashed_columns(table.column_names))


def hashed_columns(names: list[str]) -> list[str]:
    """Return the columns that count for the fingerprint, in order."""
    labels = label_columns(names) + [name for name in names if name in ("index", "digest")]
    return ["id", *(name for name in names if name == "path"), *sorted(labels)]


def columns_digest(table: pa.Table, names: list[str]) -> str:
    """Return the BLAKE2b-128 of some columns, in this order, as 32 hexadecimal digits."""
    digest = RunningDigest(table.schema, names)
    digest.update(table)
    return digest.hexdigest()


class RunningDigest:
    """The digest of columns whose rows arrive in batches; the batch sizes do not matter."""

    def __init__(self, schema: pa.Schema, names: list[str]) -> None:
        self.rows, self._names = 0, names
        self._columns = {
            field.name: _Values(field.name, field.type)
            for field in self._flat(schema.empty_table()).schema
        }

    def _flat(self, table: pa.Table) -> pa.Table:
        """Return the columns; structs of `bytes` and `path` become two."""
        return table.select(self._names).flatten()

    def update(self, table: pa.Table) -> None:
        """Add rows."""
        self.rows += len(table)
        table = self._flat(table)
        for name, values in self._columns.items():
            for chunk in table[name].chunks:
                values.update(chunk)

    def hexdigest(self) -> str:
        """Return the digest of all rows."""
        digest = blake2b(digest_size=16)
        for name, values in self._columns.items():
            header = json.dumps(
                [name, values.kind, self.rows], ensure_ascii=False, separators=(",", ":")
            )
            digest.update(header.encode() + b"\n" + values.digest())
        return digest.hexdigest()


class _Values:
    """The running digests of a column: validity, values or lengths, and contents."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self._name = name
        plain = _plain_type(kind)
        self._digests = [blake2b(digest_size=16), blake2b(digest_size=16)]
        self._items: _Values | None = None
        self.kind = {"double": "float64", "large_string": "text", "large_binary": "bytes"}.get(
            str(plain), str(plain)
        )
        if isinstance(plain, LISTS):
            self._items = _Values(name, plain.value_type)
            self.kind = f"list<{self._items.kind}>"
        elif self.kind in ("text", "bytes"):
            self._digests.append(blake2b(digest_size=16))

    def digest(self) -> bytes:
        """Return the digests one after the other."""
        own = b"".join(digest.digest() for digest in self._digests)
        return own + (self._items.digest() if self._items else b"")

    def update(self, column: pa.Array) -> None:
        """Add values of any type that has this kind."""
        values = self._plain(column)
        valid, fixed, *contents = self._digests
        valid.update(_bytes(values.is_valid().cast(pa.uint8())))
        if self._items is not None:
            fixed.update(_bytes(pc.list_value_length(values).fill_null(0).cast(pa.int64())))
            self._items.update(values.flatten())
        elif contents:
            values = values.fill_null("" if self.kind == "text" else b"")
            fixed.update(_bytes(pc.binary_length(values).cast(pa.int64())))
            contents[0].update(_contents(values))
        else:
            fixed.update(_bytes(values.fill_null(0)))

    def _plain(self, column: pa.Array) -> pa.Array:
        """Reduce the many Arrow types to five: int64, float64, text, bytes and lists of them."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary.cast(pa.large_string()).take(column.indices)
        elif pa.types.is_boolean(kind):
            column = pc.if_else(column, "True", "False")
        elif pa.types.is_timestamp(kind) and kind.unit == "s":  # Parquet has no seconds
            column = column.cast(pa.timestamp("ms", kind.tz))
        elif pa.types.is_time32(kind):
            column = column.cast(pa.time32("ms"))
        try:
            column = column.cast(_plain_type(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise ManifestError(
                f'column "{self._name}" has type {kind}, which a manifest cannot hold. Labels are '
                "text, categories, booleans, numbers, times, bytes, or lists of those"
            ) from None
        return pc.if_else(pc.is_nan(column), None, column) if self.kind == "float64" else column


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if kind in BYTES:
        return pa.large_binary()
    if isinstance(kind, LISTS):
        return pa.large_list(kind.value_type)
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else pa.large_string()


def _contents(values: pa.Array) -> memoryview:
    """Return the bytes of large text or bytes without nulls."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, "<i8", len(values) + 1, values.offset * 8) if len(values) else [0]
    return memoryview(data or b"")[int(ends[0]) : int(ends[-1])]


def _bytes(values: pa.Array) -> bytes:
    """Return the values of a fixed-width array without nulls as little-endian bytes."""
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
