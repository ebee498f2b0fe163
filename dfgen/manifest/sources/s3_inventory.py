"""S3 Inventory: a manifest.json and the compressed tables of keys that it names."""

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, MissingFileError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.reading import reading
from dfgen.manifest.tables import read_foreign_parquet

_NEEDED = ("sourceBucket", "fileFormat", "fileSchema", "files")
_KEPT = ("key", "size", "lastmodifieddate", "last_modified_date")


class _Table(msgspec.Struct):
    key: str | None = None


class _Inventory(msgspec.Struct):
    sourceBucket: str
    fileFormat: str
    fileSchema: str
    files: list[_Table]


def read_inventory(path: str, limits: Limits = DEFAULT) -> tuple[str, Iterator[pa.Table]]:
    """Return the bucket, and its keys with size and time, table by table.

    Older versions of a key and those that were deleted are left out.
    """
    bounded = reading(path, limits=limits, bound="header_bytes")
    with bounded, open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except json.JSONDecodeError as error:
            raise ManifestError(f"{path}, line {error.lineno}: broken JSON, {error.msg}") from None
    missing = [key for key in _NEEDED if not isinstance(content, dict) or key not in content]
    if missing:
        raise ManifestError(
            f"{path} is not the manifest.json of an S3 Inventory: it has no {', '.join(missing)}. "
            "A listing in JSON has one object a line, and is called .jsonl"
        )
    try:
        content = msgspec.to_builtins(msgspec.convert(content, _Inventory))
    except msgspec.ValidationError as error:
        raise ManifestError(f"{path} is not as S3 writes it: {error}") from None
    if content["fileFormat"] not in ("CSV", "Parquet"):
        raise ManifestError(f"{path}: {content['fileFormat']} is not read. Ask S3 for Parquet")
    keys = [entry.get("key") for entry in content["files"]]
    if not keys or None in keys:
        raise ManifestError(f"{path} names no tables of keys: files is empty, or has no key")
    tables = (_read(_near(path, key), content, limits) for key in keys)
    return content["sourceBucket"], tables


def _near(path: str, key: str) -> str:
    """Return where a table of the inventory lies on this disk."""
    folder = os.path.dirname(os.path.abspath(path))
    name = key.rpartition("/")[2]
    for near in (folder, f"{folder}/data", f"{os.path.dirname(folder)}/data"):
        place = os.path.join(near, name)
        if os.path.isfile(place):
            return place
    raise MissingFileError(
        f"{path} names {key}, which is neither beside it nor in data/ beside it or one folder up"
    )


def _read(path: str, content: dict[str, Any], limits: Limits) -> pa.Table:
    with reading(path, advice=". Fetch it again"):
        if content["fileFormat"] == "Parquet":
            table = read_foreign_parquet(path, limits)
            table = table.rename_columns([name.lower() for name in table.column_names])
        else:
            table = _read_csv(path, content["fileSchema"], limits)
    if "key" not in table.column_names:
        raise ManifestError(f"{path} has no Key. Columns: {', '.join(table.column_names)}")
    for name in table.column_names:
        plain = name.replace("_", "")
        if plain in ("islatest", "isdeletemarker"):
            said = pc.equal(pc.utf8_lower(table[name].cast(pa.string())), "true")
            table = table.filter(said if plain == "islatest" else pc.invert(said))
    return table.select([name for name in table.column_names if name in _KEPT])


class _Unpacked(gzip.GzipFile):
    """A packed table, that is refused once it has unfolded to more than the limits allow."""

    def __init__(self, path: str, limits: Limits) -> None:
        super().__init__(path)
        self._limits, self._unpacked = limits, 0

    def read1(self, size: int = -1) -> bytes:
        """Return some of what is unpacked."""
        data = super().read1(size)
        self._unpacked += len(data)
        if not self._limits.allows("decoded_bytes", self._unpacked):
            what = f"{self.name} unpacks to {self._unpacked:,} bytes and more"
            raise ManifestError(self._limits.refusal("decoded_bytes", 10 * self._unpacked, what))
        return data


def _read_csv(path: str, schema: str, limits: Limits) -> pa.Table:
    names = [name.strip().lower() for name in schema.split(",")]
    with _Unpacked(path, limits) as file:
        rows = list(csv.reader(io.TextIOWrapper(file, "utf-8", newline="")))
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ManifestError(
                f"{path}, row {number} has {len(row)} columns, expected {len(names)}: {schema}"
            )
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    if "key" in columns:  # S3 quotes keys in CSV alone
        columns["key"] = tuple(unquote_plus(key) for key in columns["key"])
    return pa.table({name: pa.array(columns.get(name, ()), pa.string()) for name in names})
