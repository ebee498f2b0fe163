"""Source `arrays`: large .npy and HDF5 files, each row of the first axis a row of the manifest.

The smallest one that shows it:

    numpy.save("x.npy", numpy.zeros((89_820, 128, 128), "float32"))

`path` names the file and `index` the row: `dfgen.Array("path", shape=(128, 128), index="index")`
reads it. In HDF5, arrays of one axis beside it become label columns.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError, ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import reading
from dfgen.manifest.schema import count
from dfgen.manifest.sources.source import ONE_OR_MORE, Argument, RowGroup, Source
from dfgen.samples.stores.arrays.array_files import HDF5, open_hdf5, open_rows
from dfgen.samples.stores.arrays.hdf5_texts import read_texts

Kind = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype of a row."""
Kinds = dict[str, Kind]
"""Name of an array, "" in .npy -> what its rows are."""


def read_arrays(files: str | Sequence[str], limits: Limits = DEFAULT) -> Iterator[RowGroup]:
    """Yield the rows of a .npy or HDF5 file, or of several; of the arrays, headers alone are read.

    Args:
        files: their paths.
        limits: what one row may ask for.

    Yields:
        A row group a file with `id` (the index, or the name of the file and `#index` of several),
        `path`, `index`, and the arrays of HDF5 that have one axis: numbers, booleans or text.
    """
    files = [files] if isinstance(files, str) else files
    if not files:
        raise ManifestError("arrays= (--arrays) names no file")
    paths = [os.path.abspath(path) for path in files]
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    schema, first = None, None
    for path, given in zip(paths, files, strict=True):
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        rows, labels, kinds = _describe(given, limits)
        first = first or _Shard(given, rows, kinds)
        _refuse_unlike(first, _Shard(given, rows, kinds))
        index = pa.array(np.arange(rows))
        ids = index if len(paths) == 1 else pa.array([f"{name}#{row}" for row in range(rows)])
        names = pa.repeat(name, rows)
        table = pa.table({"id": ids, "path": names, "index": index, **labels})
        schema = schema or table.schema
        if table.schema != schema:
            raise ManifestError(
                f"{given} has the label arrays {_shown(table.schema)}, {paths[0]} has "
                f"{_shown(schema)}. Build files that differ on their own, and pandas.concat them"
            )
        yield RowGroup(table, folder=folder)


class _Shard(NamedTuple):
    """One of several files: how many rows it has, and shape and dtype of a row of each array."""

    path: str
    rows: int
    kinds: Kinds

    def __str__(self) -> str:
        arrays = (f"{name} {dtype} {shape}" for name, (shape, dtype) in self.kinds.items())
        return f"{self.path} has {count(self.rows, 'row')} of {', '.join(map(str.strip, arrays))}"


def _refuse_unlike(first: _Shard, other: _Shard) -> None:
    """Raise if the arrays of two files cannot be one, some of its rows after the others."""
    if first.kinds.keys() != other.kinds.keys():
        return  # one of them has other label arrays, or another name for its array
    exact = first.rows == other.rows  # as many of another dtype are of another array
    pairs = [(first.kinds[name], kind) for name, kind in other.kinds.items()]
    if all(
        shape == like and (dtype == of if exact else dtype.kind == of.kind)
        for (shape, dtype), (like, of) in pairs
    ):
        return
    [(shape, _), *_] = other.kinds.values()
    add = f'df["y"] = numpy.load({other.path!r})'
    if shape or not other.path.endswith(".npy"):
        add = (
            f'df["y_path"] = os.path.abspath({other.path!r}), which is read by '
            f'dfgen.Array("y_path", shape={shape}, index="index")'
        )
    raise ManifestError(
        f"{first}, {other}: rows of several files follow each other, and these are not alike. "
        f"If they are x and y of the same rows, build from the first and add the other: "
        f"df = dfgen.build_manifest(arrays={first.path!r}), then {add}"
    )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in list(schema)[3:]) or "none"


def _describe(path: str, limits: Limits) -> tuple[int, dict[str, pa.Array], Kinds]:
    """Return how many rows a file has, its label arrays, and what its other rows are."""
    zipped = path.endswith(".npz")
    advice = ". Save each array of an .npz file with numpy.save" if zipped else ""
    with reading(path, advice=advice) as nbytes:
        with open(path, "rb") as file:
            is_hdf5 = file.read(8) == HDF5
        if is_hdf5:
            return _describe_hdf5(path, nbytes)
        array = open_rows(path, limits=limits)
        _refuse_unwritten(len(array), nbytes)
        return len(array), {}, {"": (array.shape[1:], array.dtype)}


def _describe_hdf5(path: str, nbytes: int) -> tuple[int, dict[str, pa.Array], Kinds]:
    arrays = open_hdf5(path)
    rows = {len(array) for array in arrays.values()}
    if len(rows) != 1:
        shown = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ManifestError(
            f"{path} holds {shown or 'no array'}: expected arrays of one length. Write what "
            "belongs together into a file of its own"
        )
    _refuse_unwritten(max(rows), nbytes)
    flat = {name: array for name, array in arrays.items() if array.ndim == 1}
    texts = [name for name, array in flat.items() if array.dtype.hasobject]
    known = read_texts(path, texts) if texts else {}
    labels = {
        name: _texts(name, known[name]) if name in known else _label(array)
        for name, array in flat.items()
    }
    for name in labels.keys() & {"path", "index"}:
        raise ManifestError(f"{path} has a label array {name!r}, which dfgen fills. Rename it")
    kinds = {name: (a.shape[1:], a.dtype) for name, a in arrays.items() if a.ndim > 1}
    return rows.pop(), labels, kinds


def _refuse_unwritten(rows: int, nbytes: int) -> None:
    """Refuse more rows than a file can hold: a manifest has each of them.

    Deflate makes 1,032 bytes one at most, https://zlib.net/zlib_tech.html.
    """
    if rows > 2**20 and rows > 1032 * nbytes:
        raise ValueError(
            f"it promises {rows:,} rows, and has {nbytes:,} bytes: they were never written"
        )


def _label(array: Any) -> pa.Array:
    """Return a label array; HDF5 holds text as bytes."""
    values = array[:]
    if values.dtype.kind == "S":
        return pa.array([value.decode() for value in values.tolist()], pa.string())
    return pa.array(values.astype(values.dtype.newbyteorder("=")))


def _texts(name: str, texts: list[str] | None) -> pa.Array:
    if texts is None:
        raise DecodeError(f"the array {name} holds neither numbers nor text")
    return pa.array(texts, pa.string())


ARRAYS = Source(
    read_arrays,
    Argument(ONE_OR_MORE, "File of arrays, .npy or HDF5. Repeatable.", is_path=True),
    shared=("limits",),
)
