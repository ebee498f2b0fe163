"""Source `metadata`: the table beside the images that Hugging Face's imagefolder reads.

The smallest tree that shows it; with splits, one such folder each:

    pets/a.jpg
    pets/metadata.csv       file_name,kind
                            a.jpg,cat

Format: https://huggingface.co/docs/datasets/image_dataset#imagefolder.
"""

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, MissingFileError, did_you_mean
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.paths import check_stored_paths
from dfgen.manifest.schema import Label, with_column
from dfgen.manifest.sources.label_table import read_rows
from dfgen.manifest.sources.source import LABELS, TEXT, Argument, RowGroup, Source, nest_boxes
from dfgen.manifest.sources.table_format import TableFormat

_BOXES = pa.list_(pa.list_(pa.float64()))
TABLE_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


def read_metadata(
    place: str,
    limits: Limits = DEFAULT,
    written: TableFormat = TableFormat(),  # noqa: B008 - frozen
) -> Iterator[RowGroup]:
    """Yield the rows of metadata tables: the files that they name, with the other columns.

    Files that no table names are not looked for. Folders with a table each are splits. `objects`
    with `bbox` (xywh) and `categories` becomes `boxes` (xyxy) and `labels`.
    """
    tables = _tables(place)
    root = os.path.dirname(os.path.abspath(place)) if os.path.isfile(place) else place
    parts, boxed = [], False
    for split, path in tables.items():
        rows = _read(path, limits, written)
        if "objects" in rows.column_names and pa.types.is_struct(rows["objects"].type):
            rows, boxed = _with_boxes(rows, path), True
        if split:
            names = pc.binary_join_element_wise(split, rows["path"].cast(pa.string()), "/")
            rows = with_column(rows, "path", names)
            rows = rows.append_column("split", pa.repeat(split, len(rows)))
        parts.append(rows)
    try:
        table = pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ManifestError(f"the tables {', '.join(tables.values())} differ: {error}") from None
    labels: dict[str, Label] = {"boxes": {"box_format": "xyxy"}} if boxed else {}
    yield RowGroup(table, labels=labels, folder=os.path.abspath(root), total=len(table))


def _tables(place: str) -> dict[str, str]:
    """Return split -> its table; "" stands for no split."""
    if os.path.isfile(place):
        return {"": place}
    if not os.path.isdir(place):
        raise MissingFileError(f"there is no file or folder {place}. Looked in {os.getcwd()}")
    below = sorted(entry.name for entry in os.scandir(place) if entry.is_dir())
    found = {}
    for folder in ("", *below):
        paths = [os.path.join(place, folder, name) for name in TABLE_NAMES]
        if there := [path for path in paths if os.path.isfile(path)]:
            found[folder] = there
    for folder, paths in found.items():
        if len(paths) > 1 or ("" in found and folder):
            both = sorted({*paths, *found.get("", [])})
            raise ManifestError(f"{place} has {' and '.join(both)}: name the one that you mean")
    if not found:
        raise MissingFileError(
            f"{place} has no {', '.join(TABLE_NAMES)}, neither in itself nor in a folder a split"
        )
    return {folder: paths[0] for folder, paths in found.items()}


def _read(path: str, limits: Limits, written: TableFormat) -> pa.Table:
    [group] = read_rows(path, ["file_name", "id"], limits, written)
    table = group.rows
    if "file_name" not in table.column_names:
        raise ManifestError(
            f"{path} has no column file_name.{did_you_mean('file_name', table.column_names)} "
            f"Columns: {', '.join(table.column_names)}"
        )
    if "path" in table.column_names:
        raise ManifestError(f'{path} has a column "path" beside file_name. Rename it')
    table = table.rename_columns(
        ["path" if name == "file_name" else name for name in table.column_names]
    )
    missing = table["path"].null_count
    if missing:
        raise ManifestError(f"{path} has {missing} rows without file_name. Fill them in")
    numbered = pa.table({"id": pa.array(range(len(table))), "path": table["path"]})
    check_stored_paths(numbered, "its folder", path)
    return table


def _with_boxes(table: pa.Table, path: str) -> pa.Table:
    """Make boxes and labels of the column `objects`."""
    lists, labels = _objects(table["objects"].combine_chunks(), path)
    taken = {"boxes", "labels"} & {*table.column_names}
    if taken:
        raise ManifestError(f"{path} has a column {taken.pop()!r} beside objects. Rename it")
    shapes, lengths = lists.flatten(), pc.list_value_length(lists)
    odd = pc.not_equal(pc.list_value_length(shapes).fill_null(0), 4)
    if pc.any(odd).as_py():
        row = pc.list_parent_indices(lists).filter(odd)[0]
        raise ManifestError(f"{path}: a bbox of row {row} is not x, y, width, height")
    boxes = shapes.flatten().to_numpy(zero_copy_only=False).reshape(-1, 4).copy()
    boxes[:, 2:] += boxes[:, :2]
    missing = lengths.is_null().to_numpy(zero_copy_only=False)
    column = nest_boxes(boxes, lengths.fill_null(0).to_numpy(), missing)
    table = table.drop_columns(["objects"]).append_column("boxes", column)
    return table.append_column("labels", labels)


def _objects(objects: pa.Array, path: str) -> tuple[pa.Array, pa.Array]:
    """Return bbox and categories of each row, as many of one as of the other."""
    fields = [field.name for field in objects.type]
    name = next((name for name in ("categories", "category") if name in fields), None)
    if "bbox" not in fields or name is None:
        raise ManifestError(f"{path}: objects have {', '.join(fields)}, expected bbox, categories")
    labels = pc.struct_field(objects, name)
    try:
        lists = pc.struct_field(objects, "bbox").cast(_BOXES)
        if labels.type in (pa.null(), pa.list_(pa.null())):  # no row has any
            labels = labels.cast(LABELS)
        lengths, counts = (pc.list_value_length(each).fill_null(0) for each in (lists, labels))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ManifestError(f"{path}: objects are not lists of bbox and {name}: {error}") from None
    row = pc.equal(lengths, counts).index(False).as_py()
    if row >= 0:
        raise ManifestError(
            f"{path}: the objects of row {row} have {lengths[row]} bbox and {counts[row]} {name}"
        )
    return lists, labels


METADATA = Source(
    read_metadata,
    Argument(TEXT, "Hugging Face's metadata file, or its folder.", is_path=True),
    shared=("limits", "written"),
)
