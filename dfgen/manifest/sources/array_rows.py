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

from dfgen.errors import DecodeError, ManifestError, count
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import reading
from dfgen.manifest.sources.source import ONE_OR_MORE, Argument, RowGroup, Source
from dfgen.samples.stores.array_files import HDF5, open_hdf5, open_rows, read_texts


class _ArrayFile(NamedTuple):
    """A file of arrays: its rows, its label arrays, and shape and dtype of a row of each other."""

    path: str
    rows: int
    labels: dict[str, pa.Array]
    kinds: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]  # by name, "" in .npy

    def __str__(self) -> str:
        arrays = (f"{name} {dtype} {shape}" for name, (shape, dtype) in self.kinds.items())
        return f"{self.path} has {count(self.rows, 'row')} of {', '.join(map(str.strip, arrays))}"

    @property
    def shown(self) -> str:
        types = (f"{name} ({column.type})" for name, column in self.labels.items())
        return ", ".join(types) or "none"


def read_arrays(files: str | Sequence[str], limits: Limits = DEFAULT) -> Iterator[RowGroup]:
    """Yield the rows of .npy or HDF5 files, a group a file; of arrays headers alone are read.

    A group has `id` (the index, or the name of the file and `#index` of several), `path`, `index`,
    and the arrays of HDF5 that have one axis: numbers, booleans or text.
    """
    files = [files] if isinstance(files, str) else files
    if not files:
        raise ManifestError("arrays= (--arrays) names no file")
    paths, first = [os.path.abspath(path) for path in files], None
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    for path, given in zip(paths, files, strict=True):
        file = _described(given, limits)
        first = first or file
        _refuse_unlike(first, file)
        if file.shown != first.shown:
            raise ManifestError(
                f"{given} has the label arrays {file.shown}, {paths[0]} has {first.shown}. Build "
                "files that differ on their own, and pandas.concat them"
            )
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        index = pa.array(np.arange(file.rows))
        ids = index if len(paths) == 1 else pa.array([f"{name}#{row}" for row in range(file.rows)])
        columns = {"id": ids, "path": pa.repeat(name, file.rows), "index": index}
        yield RowGroup(pa.table({**columns, **file.labels}), folder=folder)


def _refuse_unlike(first: _ArrayFile, other: _ArrayFile) -> None:
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


def _described(path: str, limits: Limits) -> _ArrayFile:
    zipped = path.endswith(".npz")
    advice = ". Save each array of an .npz file with numpy.save" if zipped else ""
    with reading(path, advice=advice) as nbytes:
        with open(path, "rb") as file:
            is_hdf5 = file.read(8) == HDF5
        if is_hdf5:
            return _described_hdf5(path, nbytes)
        array = open_rows(path, limits=limits)
        _refuse_unwritten(len(array), nbytes)
        return _ArrayFile(path, len(array), {}, {"": (array.shape[1:], array.dtype)})


def _described_hdf5(path: str, nbytes: int) -> _ArrayFile:
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
    for name in flat.keys() & {"path", "index"}:
        raise ManifestError(f"{path} has a label array {name!r}, which dfgen fills. Rename it")
    texts = [name for name, array in flat.items() if array.dtype.hasobject]
    known = read_texts(path, texts) if texts else {}
    labels = {
        name: _texts(name, known[name]) if name in known else _label(array)
        for name, array in flat.items()
    }
    kinds = {name: (a.shape[1:], a.dtype) for name, a in arrays.items() if a.ndim > 1}
    return _ArrayFile(path, rows.pop(), labels, kinds)


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
