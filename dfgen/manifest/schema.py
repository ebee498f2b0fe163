"""The format of a manifest: its columns, its metadata and their version.

A manifest is a table with one row a file. On disk it is a Parquet file with one extra key,
`dfgen`, in its schema metadata. The key holds JSON:

    {
        "format": 1,                       version of this layout
        "root": "../imgs",                 where relative paths start; null: every path is absolute
        "labels": {"kind": {"kind": "category", "class_names": ["cat", "dog"]},
                   "boxes": {"kind": "list", "box_format": "xyxy"},
                   "age": {"kind": "number"}},
        "recipe": {"source": "imgs", ...}, the arguments that built it; null: made by hand
        "created_by": "dfgen 0.1.0",
        "fingerprint": "9a0c...",          see fingerprint.py
        "leaks": {"rows": 2, ...}          of splits that share pictures; see duplicates.py
        "left_out": {"unmatched": "a.png"} files left out on purpose; see metadata_check.py
    }

manifests/README.md specifies it for other programs. Label columns of text, booleans and named
integers are categories.
"""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import EXAMPLES, ManifestError, column_list, did_you_mean, first, quote
from dfgen.packs.pack_index import PLACES
from dfgen.samples.pixels.headers import Header
from dfgen.samples.stores.store import Head
from dfgen.table.arrow_types import are_numbers, check_names, is_list, is_text
from dfgen.table.file_columns import are_files


@dataclass(frozen=True)
class Fact:
    """A column of facts: its type, and how it follows from what is known of a file."""

    type: pa.DataType
    of_head: Callable[[Head], Any] | None = None  # makes it of what the store says of a file, or
    of_header: Callable[[Header], Any] | None = None  # of what the file says of itself, or
    of_whole: Callable[[Any], Any] | None = None  # of its `Whole`, decoded to its end


SCHEMA = {
    "bytes": Fact(pa.int64(), of_head=attrgetter("size")),
    "mtime_ns": Fact(pa.int64(), of_head=attrgetter("mtime_ns")),
    "format": Fact(pa.string(), of_header=attrgetter("format")),
    "width": Fact(pa.int32(), of_header=attrgetter("width")),
    "height": Fact(pa.int32(), of_header=attrgetter("height")),
    "channels": Fact(pa.int16(), of_header=attrgetter("channels")),
    "orientation": Fact(pa.int8(), of_header=attrgetter("orientation")),
    "bits": Fact(pa.int16(), of_header=attrgetter("bits")),
    "frames": Fact(pa.int64(), of_header=attrgetter("frames")),
    "sample_rate": Fact(pa.int32(), of_header=attrgetter("sample_rate")),
    "digest": Fact(pa.string(), of_whole=attrgetter("digest")),
    "phash": Fact(pa.uint64(), of_whole=attrgetter("phash")),
    "problem": Fact(pa.string()),
}
"""Column -> its fact, in the order of a manifest."""

FACTS = SCHEMA.keys()

OF_WHOLE_FILES = ("digest", "phash")
"""Those that only a file decoded to its end tells."""


def has_whole_facts(schema: pa.Schema) -> bool:
    """Whether a table has the facts of whole files; a `digest` alone is a column of its owner's."""
    return all(name in schema.names for name in OF_WHOLE_FILES)


MANIFEST_FORMAT = 1
KEY = b"dfgen"
PARTS = ("split", "fold")
"""Columns that say which part of the rows is for what."""

"""The kind of the finding of rows without an id."""

_NEEDED = {
    "id": 'Every row needs a name of its own: df["id"] = range(len(df)), or rename the column that '
    "has it",
    "path": "It holds the file of each row",
}
"""Column that every manifest has -> what to say of a table that lacks it."""


class Label(TypedDict, total=False):
    """The metadata of one label column."""

    kind: str  # category, text, boolean, number, list or other
    class_names: list[str | int]  # of a category or lists of classes, in the order of their numbers
    ordered: bool  # of an ordered category: true
    box_format: str  # of lists of boxes: xyxy, in pixels of the upright image
    corrected: bool  # labels were corrected since they were built: true


class Metadata(TypedDict):
    """The JSON under the `dfgen` key."""

    format: int
    root: str | None
    labels: dict[str, Label]
    recipe: dict[str, Any] | None
    created_by: str
    fingerprint: str
    leaks: NotRequired[Mapping[str, Any]]
    left_out: NotRequired[Mapping[str, str]]


def label_columns(names: list[str]) -> list[str]:
    """Return the columns that are neither id, path, index, split, fold nor a fact.

    If a frame has both `shard` and `row`, they tell where rows lie in packs.
    """
    places = PLACES if {*PLACES} <= {*names} else ()
    return [name for name in names if name not in ("id", "path", "index", *PARTS, *FACTS, *places)]


def part_column(names: Container[str]) -> str | None:
    """Return which of these columns, or of those of a frame, says what part a row is in."""
    return next((name for name in PARTS if name in names), None)


def describe_labels(table: pa.Table, known: Mapping[str, Label] | None = None) -> dict[str, Label]:
    """Return what the metadata says of the label columns of `table`.

    Class names and box format of a list are not in its type: they come from what is `known`, as
    does that labels were corrected.
    """
    labels, known = {}, known or {}
    for name in label_columns(table.column_names):
        labels[name] = _describe(name, table[name])
        if labels[name]["kind"] == "list" and name in known:
            _check_classes(table, name, known[name].get("class_names"))
            labels[name] = {**known[name], **labels[name]}
        if known.get(name, {}).get("corrected"):
            labels[name]["corrected"] = True
    return labels


def _check_classes(table: pa.Table, name: str, class_names: list[str | int] | None) -> None:
    """Raise if a list holds something that is not among its class names."""
    values = pc.list_flatten(table[name])
    if class_names is None or pa.types.is_null(values.type):
        return
    known = pa.array(class_names, None if class_names else values.type)
    strangers = rows_where(pc.invert(pc.is_in(values, value_set=known)))
    if len(strangers):
        row = pc.list_parent_indices(table[name].combine_chunks())[strangers[0].as_py()].as_py()
        raise ManifestError(
            f'column "{name}" holds {quote(values[strangers[0].as_py()].as_py())} in row {row} '
            f"(id {quote(table['id'][row].as_py())}), not among its class names {class_names}. "
            f'Mend the value, or the names: df.attrs["dfgen"]["labels"]["{name}"]["class_names"]'
        )


def _describe(name: str, column: pa.ChunkedArray) -> Label:
    kind = column.type
    if pa.types.is_dictionary(kind):
        class_names = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
        if not all(type(value) in (str, int) for value in class_names):
            raise ManifestError(
                f'column "{name}" has categories of type {kind.value_type}. Class names are text '
                f'or whole numbers: convert them with df["{name}"].astype(str).astype("category")'
            )
        label: Label = {"kind": "category", "class_names": class_names}
        return {**label, "ordered": True} if kind.ordered else label
    if are_numbers(kind):
        return {"kind": "number"}
    if is_text(kind) or pa.types.is_boolean(kind):
        return {"kind": "text" if is_text(kind) else "boolean"}
    return {"kind": "list" if is_list(kind) else "other"}


def files_column(schema: pa.Schema) -> str | None:
    """Return the column of files: `path`, or the first column that holds files themselves."""
    if "path" in schema.names:
        return "path"
    return next((field.name for field in schema if are_files(field.type)), None)


def validate(table: pa.Table, where: str = "the manifest") -> None:
    """Check that a table has unique ids and paths of the right types and without nulls."""
    names = table.column_names
    check_names(names, where)
    held = files_column(table.schema)
    for name, advice in _NEEDED.items():
        if name not in names and not (name == "path" and held):
            raise ManifestError(
                f'{where} has no column "{name}". Columns: {column_list(names)}.'
                f"{did_you_mean(name, names)} {advice}"
            )
    _check_types(table, where)
    for name in ("path", "id"):  # ids may be made of paths
        if name in names:
            _check_filled(table, name, where)
    _check_repeated(table["id"], where)


def _check_types(table: pa.Table, where: str) -> None:
    kind = table["id"].type
    if len(table) and not (pa.types.is_integer(kind) or is_text(kind)):
        cast = "str"
        ids = table["id"].to_pylist() if pa.types.is_floating(kind) else [0.5]
        if all(one is None or float(one).is_integer() for one in ids):
            cast = '"int64"'
        raise ManifestError(
            f'column "id" of {where} has type {kind}. An id is a whole number or text: '
            + 'drop rows without one, df = df[df["id"].notna()], then '
            * bool(table["id"].null_count)
            + f'df["id"] = df["id"].astype({cast})'
        )
    if not len(table):
        return
    if "path" in table.column_names and not is_text(kind := table["path"].type):
        raise ManifestError(f'column "path" of {where} has type {kind}. A path is text')
    facts = [name for name in FACTS if name in table.column_names and are_files(table[name].type)]
    if facts:
        raise ManifestError(
            f'column "{facts[0]}" of {where} holds files, but in a manifest that is a fact of a '
            f'file. Rename it: df = df.rename(columns={{"{facts[0]}": "image"}})'
        )


def _check_filled(table: pa.Table, name: str, where: str) -> None:
    column = table[name]
    empty = pc.is_null(column)
    if is_text(column.type):
        empty = pc.or_(empty, pc.fill_null(pc.equal(column, ""), False))
    rows = rows_where(empty)
    if not len(rows):
        return
    other = "path" if name == "id" else "id"
    has_other = other in table.column_names
    examples = [
        f"{row} ({other} {quote(table[other][row].as_py())})" if has_other else f"{row}"
        for row in first(rows)
    ]
    raise ManifestError(
        f"{len(rows)} of {len(table)} rows of {where} have no {name}: row {', '.join(examples)}. "
        f'Fill them, or drop them: df = df[df["{name}"].notna()]'
    )


def _check_repeated(ids: pa.ChunkedArray, where: str) -> None:
    if pa.types.is_integer(ids.type):  # rows that were numbered are soon seen
        numbers = ids.to_numpy()
        if (numbers[1:] > numbers[:-1]).all():
            return
    if len(pc.unique(ids)) == len(ids):  # twice as fast as counting them
        return
    twice = repeated(ids.drop_null())
    examples = []
    for value in first(twice.field("values")):
        rows = rows_where(pc.fill_null(pc.equal(ids, pa.scalar(value, ids.type)), False))
        examples.append(f"{quote(value)} (rows {', '.join(map(str, first(rows)))})")
    if examples:  # else nulls alone stand on several
        raise ManifestError(
            f"{where} has ids that stand on several rows ({len(twice)}): {'; '.join(examples)}. "
            'An id is the name of one row. Find them with df[df["id"].duplicated(keep=False)]'
        )


def rows_where(mask: pa.ChunkedArray) -> pa.Array:
    """Return the numbers of the rows where `mask` is true."""
    # pyarrow 15 crashes on a column without chunks, which an empty frame has
    return pc.indices_nonzero(mask.combine_chunks())


def repeated(values: pa.Array | pa.ChunkedArray) -> pa.StructArray:
    """Return the `values` that stand more than once, with their `counts`."""
    counts = pc.value_counts(values)
    return counts.filter(pc.greater(counts.field("counts"), 1))


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    """Return `table` with another column in the place of the one of this name, or as the last."""
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def without(table: pa.Table, names: Collection[str]) -> pa.Table:
    """Return `table` without these columns, where it has them."""
    return table.drop_columns([name for name in table.column_names if name in names])


def to_categories(
    table: pa.Table, named: Collection[str] = (), known: Mapping[str, Label] | None = None
) -> pa.Table:
    """Make categories of the text and boolean label columns, and of the integers that are `named`.

    Class names are text: those that are `known`, else sorted for text, `False` and `True`, in
    numeric order for integers. Columns that are categories already stay as they are, and so do
    those that are known to be of the kind `text`.
    """
    for name in [*label_columns(table.column_names), "split"]:
        if name in table.column_names and (known or {}).get(name, {}).get("kind") != "text":
            column = table[name]
            plain = is_text(column.type) or pa.types.is_boolean(column.type)
            if plain or (pa.types.is_integer(column.type) and name in named):
                column = to_category(column, (known or {}).get(name, {}).get("class_names"))
            elif name in named and not pa.types.is_dictionary(column.type):
                raise ManifestError(
                    f'category="{name}": the column has type {column.type}. Text and booleans are '
                    "categories by themselves, whole numbers on request; others are not classes"
                )
            elif name == "split" and not pa.types.is_dictionary(column.type):
                raise ManifestError(
                    f'the column "split" has type {column.type}, expected the name of the split of '
                    'each row, such as "train": make text of it, or rename it'
                )
            table = with_column(table, name, column)
    return table


def to_category(
    column: pa.ChunkedArray, class_names: Sequence[str | int] | None = None
) -> pa.ChunkedArray:
    """Return text, booleans or whole numbers as a category with text names, sorted as values.

    `class_names` of text are all its values, in another order or with more.
    """
    if class_names is not None:
        values = pa.array(class_names, pa.string())
    elif pa.types.is_boolean(column.type):
        column, values = pc.if_else(column, "True", "False"), pa.array(["False", "True"])
    else:
        values = column.unique().drop_null()
        values = values.take(pc.sort_indices(values))
    return as_category(pc.index_in(column, value_set=values), values.cast(pa.string()))


def class_names(column: pa.ChunkedArray) -> pa.Array:
    """Return the class names of a category in their order, of others the sorted values."""
    if pa.types.is_dictionary(column.type):
        if column.num_chunks:
            return column.chunk(0).dictionary
        return pa.array([], column.type.value_type)
    return column.cast(pa.string()).unique().drop_null().sort()


def with_classes(column: pa.ChunkedArray, names: pa.Array, ordered: bool) -> pa.ChunkedArray:
    """Return a column as a category of these names; values that are not among them are missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return as_category(pc.index_in(column.cast(names.type), value_set=names), names, ordered)


def numbered_after(name: str, old: int, new: Sequence[object]) -> tuple[str, ...]:
    """Return what to say of new classes of a column, if there are any."""
    if not new:
        return ()
    shown = ", ".join(map(quote, new[:EXAMPLES]))
    return (f"{name} has new classes, numbered after the {old} old ones: {shown}.",)


def as_category(codes: pa.ChunkedArray, names: pa.Array, ordered: bool = False) -> pa.ChunkedArray:
    """Return the category of class numbers; one without rows has its names too."""
    chunks = codes.chunks or [pa.array([], codes.type)]
    parts = [pa.DictionaryArray.from_arrays(part, names, ordered=ordered) for part in chunks]
    return pa.chunked_array(parts, type=pa.dictionary(codes.type, names.type, ordered))
