"""Read and write manifests: Parquet files that say what they are."""

import json
import os
from typing import Any, Never

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen import __version__
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, did_you_mean
from dfgen.limits import DEFAULT, Limits, limits_given
from dfgen.manifest.building.categories import as_category
from dfgen.manifest.building.recipe import absolute_recipe, portable_recipe
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.foreign_arguments import refuse_foreign
from dfgen.manifest.from_pandas import to_frame
from dfgen.manifest.other_inputs import check_out, frame_of_file, path_of_manifest
from dfgen.manifest.paths import absolute_paths, check_stored_paths, portable_root, stored_paths
from dfgen.manifest.schema import (
    KEY,
    MANIFEST_FORMAT,
    Label,
    Metadata,
    decode_metadata,
    describe_labels,
    rows_where,
    validate,
    with_column,
)
from dfgen.manifest.tables import Table, arrow_table, read_parquet
from dfgen.samples.storage.embedded import are_files
from dfgen.system import write_whole

Path = str | os.PathLike[str]

_GROUP = 1 << 27  # bytes of a row group that holds files


def read_manifest(
    path: Path, root: Path | None = None, limits: Limits | None = None, **unknown: Never
) -> pd.DataFrame:
    """Read a manifest as an ordinary DataFrame with absolute paths.

    Filter, sort and join it with pandas, and give it to `dfgen.Sequence`. No file of the data set
    is touched.

    Args:
        path: the Parquet file.
        root: folder where the stored relative paths start, if not the one that the manifest names.
        limits: `dfgen.Limits`: what the file may ask for.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        One row a file; columns that hold files stay in Arrow memory. `df.attrs["dfgen"]` holds the
        root, what is known of the labels, and the recipe; filters and `concat` keep it, and
        `write_manifest` uses it.

    Raises:
        ArgumentError: it is no path.
        MissingFileError: there is no such file.
        ManifestError: it is not a manifest, of an unknown version, or its rows are at fault.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = read_manifest("manifests/pets.parquet")  # doctest: +SKIP
        >>> train = df[df.split == "train"]  # doctest: +SKIP
    """
    refuse_foreign(read_manifest, unknown)
    table, metadata = read_table(path, root, limits_given(limits))
    frame = to_frame(table)
    frame.attrs = {"dfgen": attributes(metadata["root"], metadata["labels"], metadata["recipe"])}
    return frame


def read_table(
    path: Path, root: Path | None = None, limits: Limits = DEFAULT
) -> tuple[pa.Table, Metadata]:
    """Read a manifest as an Arrow table with absolute paths, and its metadata.

    For what needs no pandas objects. The arguments and errors are those of `read_manifest`. The
    `root` of the metadata is absolute, or None where the paths were stored absolute; so are the
    paths of the recipe.
    """
    given = str(path)
    path = path_of_manifest(path)
    try:
        with pq.ParquetFile(path) as file:
            metadata = decode_metadata(file.schema_arrow.metadata, path)
            table = read_parquet(file, path, limits)
    except FileNotFoundError:
        raise MissingFileError(_no_manifest(given, path)) from None
    except (pa.ArrowInvalid, OSError) as error:
        advice = frame_of_file(given)
        if advice is not None:
            raise ManifestError(
                f"{path} is no manifest, which is a Parquet file of dfgen: {advice}"
            ) from None
        raise ManifestError(f"{path} cannot be read as a Parquet file: {error}") from error
    validate(table, path)
    if root is not None:
        metadata["root"] = os.path.abspath(root)
    elif metadata["root"] is not None:
        metadata["root"] = os.path.normpath(os.path.join(os.path.dirname(path), metadata["root"]))
    metadata["recipe"] = absolute_recipe(metadata["recipe"], os.path.dirname(path))
    for name, label in metadata["labels"].items():
        if label["kind"] == "category" and name in table.column_names:
            table = _restore_categories(table, name, label, path)
    return absolute_paths(table, metadata["root"], path), metadata


def write_manifest(df: Table, path: Path, root: Path | None = None, **unknown: Never) -> None:
    """Write a frame as a manifest that any Parquet reader opens.

    The file appears whole or not at all: it is written beside its place, then renamed.

    Args:
        df: one row a file, with the columns `id` and `path`: a DataFrame, or whatever has
            `__arrow_c_stream__`. Without `path` a column holds the files: bytes, or structs of
            `bytes` and `path`. Relative paths start at the root, else at the current folder. The
            index is not kept.
        path: the Parquet file; an older one is replaced.
        root: folder that holds all the files. None: the root of the manifest that `df` came from
            if it still holds all, else the deepest common folder. Paths are stored relative to it.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Raises:
        ArgumentError: `path` is none.
        ManifestError: the frame is not a manifest; the message names the rows.
        WriteError: the file cannot be written, or is called by the extension of another kind.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "label": ["cat", "dog"]})
        >>> write_manifest(df, "pets.parquet")  # doctest: +SKIP
    """
    refuse_foreign(write_manifest, unknown)
    if isinstance(df, str | os.PathLike) and not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"write_manifest was given the path {os.fspath(df)!r} first, expected the frame and "
            "then the path: dfgen.write_manifest(df, path)"
        )
    path = path_of_manifest(path)
    check_out(path)
    table = arrow_table(df)
    validate(table, "the frame")
    _refuse_odd_categories(table)
    known = getattr(df, "attrs", {}).get("dfgen", {})
    table, absolute_root = stored_paths(
        table, None if root is None else str(root), known.get("root")
    )
    check_stored_paths(table, absolute_root, "the frame")
    metadata: Metadata = {
        "format": MANIFEST_FORMAT,
        "root": portable_root(absolute_root, os.path.dirname(path)),
        "labels": describe_labels(table, known.get("labels")),
        "recipe": portable_recipe(known.get("recipe"), os.path.dirname(path)),
        "created_by": f"dfgen {__version__}",
        "fingerprint": fingerprint(table),
    }
    text = json.dumps(metadata, ensure_ascii=False).encode()
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: text})
    rows = _rows_of_group(table)
    write_whole(path, lambda file: pq.write_table(table, file, row_group_size=rows))


def _refuse_odd_categories(table: pa.Table) -> None:
    """Refuse categories that Parquet lacks, also in columns that are no label."""
    for field in table.schema:
        if isinstance(getattr(field.type, "value_type", None), pa.BaseExtensionType):
            raise ManifestError(
                f'column "{field.name}" of the frame has {field.type.value_type} as categories, '
                f'expected text or whole numbers: df["{field.name}"] = df["{field.name}"]'
                ".cat.rename_categories(str)"
            )


def attributes(
    root: str | None, labels: dict[str, Label], recipe: dict[str, Any] | None
) -> dict[str, Any]:
    """Return `df.attrs["dfgen"]`: plain JSON types alone, because pandas compares attrs."""
    return {"root": root, "labels": labels, "recipe": absolute_recipe(recipe, os.getcwd())}


def _rows_of_group(table: pa.Table) -> int | None:
    """Return the rows of a row group where a table holds files, so that readers need not hold all.

    None: the default of Arrow, 2^20.
    """
    if not any(map(are_files, table.schema.types)) or not len(table):
        return None
    return max(1, _GROUP * len(table) // max(1, int(table.nbytes)))


def _restore_categories(table: pa.Table, name: str, label: Label, path: str) -> pa.Table:
    """Give a column exactly the class names of the metadata: Parquet keeps them only for text."""
    column = table[name]
    if pa.types.is_dictionary(column.type):
        names = pa.array(label["class_names"], column.type.value_type)
        if all(chunk.dictionary.equals(names) for chunk in column.chunks):
            return table
        column = column.cast(names.type)
    names = pa.array(label["class_names"], column.type)
    indices = pc.index_in(column, names)
    strangers = pc.and_(pc.is_valid(column), pc.is_null(indices))
    if pc.any(strangers).as_py():
        row = rows_where(strangers)[0].as_py()
        raise ManifestError(
            f"{path}: row {row} (id {table['id'][row]}) has {name}={column[row].as_py()!r}, which "
            f"is not among its class names {label['class_names']}. Build the manifest again"
        )
    restored = as_category(indices, names, label.get("ordered", False))
    return with_column(table, name, restored)


def _no_manifest(given: str, path: str) -> str:
    folder, name = os.path.split(path)
    fault = f"there is no manifest {path}"
    if given.startswith("~"):
        return f'{fault}: "~" is not expanded, write os.path.expanduser({given!r})'
    if "://" in given:
        return f"{fault}: it is an address. Read it with pandas, or copy it to a disk"
    if "*" in given:
        return f"{fault}: {frame_of_file(given)}"
    if not os.path.isdir(folder):
        return f"{fault}: the folder {folder} does not exist"
    hint = did_you_mean(name, os.listdir(folder))
    advice = frame_of_file(given)
    ends = [f"{fault}{hint and '.' + hint}", *([f"Of such a file {advice}"] if advice else [])]
    return (" " if hint else ". ").join(ends)
