"""A pack of any number of rows whose files are holes on the disk: what opening it costs."""

import io
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.packs.pack_index import INDEX, PACK_FORMAT, TABLE, sealed
from dfgen.samples.stores.local_files import Files
from dfgen.samples.stores.remote.ranges import checksum_of

_HOLE = 1 << 16  # bytes that are not written where all are zeros


class _WithHoles(io.RawIOBase):
    """Writes a file, and leaves holes for zeros."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if len(view) > _HOLE and not np.frombuffer(view, np.uint8)[:: 1 << 12].any():
            self._file.seek(len(view), os.SEEK_CUR)
        else:
            self._file.write(view)
        return len(view)

    def close(self) -> None:
        if not self._file.closed:
            self._file.truncate()
            self._file.close()
        super().close()


def write_sparse(folder: Path, shards: int, rows: int, side: int) -> int:
    """Write a pack of so many shards of so many rows; return the bytes that it seems to have."""
    kind = pa.fixed_shape_tensor(pa.uint8(), (side, side, 3))
    pixels = _zeros(rows * side * side * 3)
    values = pa.Array.from_buffers(pa.uint8(), rows * side * side * 3, [None, pixels])
    storage = pa.Array.from_buffers(kind.storage_type, rows, [None], children=[values])
    columns = {**_columns(rows), "path_pixels": pa.ExtensionArray.from_storage(kind, storage)}
    first = folder / "shard-00000.arrow"
    _write(first, columns)
    for shard in range(1, shards):
        os.link(first, folder / f"shard-{shard:05}.arrow")
    _write(folder / TABLE, _columns(rows * shards))
    size = first.stat().st_size
    named = [
        {"file": f"shard-{n:05}.arrow", "rows": rows, "bytes": size, "checksum": "0" * 8}
        for n in range(shards)
    ]
    how = {
        "format": "pixels", "image_size": [side, side], "color_mode": "rgb", "resize": "stretch",
        "interpolation": "bilinear", "antialias": True, "max_side": None, "quality": None,
    }  # fmt: skip
    whole = (folder / TABLE).stat().st_size
    whole_sum = checksum_of(Files(), str(folder / TABLE), whole)
    table = {"file": TABLE, "rows": rows * shards, "bytes": whole, "checksum": whole_sum}
    key = {
        "format": 1, "root": None, "labels": {}, "recipe": None, "created_by": "a benchmark",
        "fingerprint": "0" * 32,
    }  # fmt: skip
    index = {
        "format": PACK_FORMAT, "kind": "pack", "rows": rows * shards, "shards": named,
        "packed": {"path": how}, "order": "kept", "table": table, "ids": "0" * 32, "dfgen": key,
        "created_by": "a benchmark", "plan": {},
    }  # fmt: skip
    (folder / INDEX).write_bytes(sealed(index))
    return size * shards + whole


def open_sparse(folder: str, batches: int) -> tuple[float, float, float]:
    """Return the seconds that a Sequence of a pack took, of its first batch, and private MB.

    These are the most that it had beyond what was there before, in so many batches.
    """
    import dfgen

    dfgen.Sequence  # noqa: B018 - loads Keras, which is not in question
    before, start = private(), time.perf_counter()
    with dfgen.Sequence(folder, label_mode=None) as sequence:
        made, steps = time.perf_counter(), iter(sequence)
        next(steps)
        first = time.perf_counter()
        most = max(private() for _ in zip(range(batches), steps, strict=False))
        return made - start, first - made, most - before


def private() -> float:
    """Return the MB of memory that are of this process alone, and of no file."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1e3


def _columns(rows: int) -> dict[str, pa.Array]:
    path = pa.Array.from_buffers(
        pa.large_string(), rows, [None, _zeros(8 * rows + 8), pa.py_buffer(b"")]
    )
    ids = pa.Array.from_buffers(pa.int64(), rows, [None, _zeros(8 * rows)])
    return {"id": ids, "path": path, "problem": pa.nulls(rows, pa.string())}


def _zeros(nbytes: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros(nbytes, np.uint8))  # pages that nobody touches


def _write(path: Path, columns: dict[str, pa.Array]) -> None:
    batch = pa.RecordBatch.from_arrays([*columns.values()], [*columns])
    sink = _WithHoles(path)
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    sink.close()
