"""A table as it stands in the file of a manifest, or in a pack: relative paths, and what it is."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dfgen import __version__
from dfgen.errors import ManifestError
from dfgen.manifest.building.recipe import portable_recipe
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.metadata_check import check_metadata
from dfgen.manifest.paths import check_stored_paths, portable_root, refuse_signatures, stored_paths
from dfgen.manifest.schema import KEY, MANIFEST_FORMAT, Metadata, describe_labels, validate
from dfgen.table.file_columns import are_files

_GROUP = 1 << 27  # bytes of a row group that holds files


def as_written(
    table: pa.Table,
    known: Mapping[str, Any],
    folder: str,
    root: os.PathLike[str] | str | None = None,
) -> tuple[pa.Table, Metadata]:
    """Return a table as it stands in a manifest file of a folder, with its metadata in the schema.

    `known` is its `df.attrs["dfgen"]`, or what a manifest file says of itself; `root` is as of
    `write_manifest`.
    """
    validate(table, "the frame")
    _refuse_odd_categories(table)
    refuse_signatures(table)
    given = None if root is None else str(root)
    table, absolute_root = stored_paths(table, given, known.get("root"))
    check_stored_paths(table, absolute_root, "the frame")
    metadata: Metadata = {
        "format": MANIFEST_FORMAT,
        "root": portable_root(absolute_root, folder),
        "labels": describe_labels(table, known.get("labels")),
        "recipe": portable_recipe(known.get("recipe"), folder),
        "created_by": f"dfgen {__version__}",
        "fingerprint": fingerprint(table),
    }
    if known.get("leaks"):
        metadata["leaks"] = known["leaks"]
    check_metadata(metadata, 'df.attrs["dfgen"] of the frame')
    text = json.dumps(metadata, ensure_ascii=False).encode()
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: text})
    return table, metadata


def _refuse_odd_categories(table: pa.Table) -> None:
    """Refuse categories that Parquet lacks, also in columns that are no label."""
    for field in table.schema:
        if isinstance(getattr(field.type, "value_type", None), pa.BaseExtensionType):
            raise ManifestError(
                f'column "{field.name}" of the frame has {field.type.value_type} as categories, '
                f'expected text or whole numbers: df["{field.name}"] = df["{field.name}"]'
                ".cat.rename_categories(str)"
            )


def rows_of_group(table: pa.Table) -> int | None:
    """Return the rows of a row group where a table holds files, else None: Arrow's default."""
    if not any(map(are_files, table.schema.types)) or not len(table):
        return None
    return max(1, _GROUP * len(table) // max(1, int(table.nbytes)))
