"""The program of a worker process, and the memory that it shares with its parent.

It is `python -m dfgen.loading.workers.process_main`. Each process has memory for its chunks: a
header and their arrays. All of them share the arrays of the pickle that they receive at their
start, so that a column of gigabytes exists once.
"""

import mmap
import os
import pickle
import signal
import sys
import tempfile
import traceback
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import accumulate
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DfgenError, WorkerError
from dfgen.loading.metrics import IDLE, OF_FILES, Stopwatch
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.machine import (
    HAS_MEMORY_FILES,
    end_with_parent,
    inherited,
    memory_file,
    reserve,
)
from dfgen.samples.pixels.decoders import prepare_worker
from dfgen.samples.transforms import pickled_by_value
from dfgen.spec import Spec

HEADER = 64
"""Bytes: whether a file is being read, of which row, and since when, 8 bytes each."""

READING, ROW, SINCE = 0, 1, 2
"""Indices in the header of the shared memory: whether a file is read, its row, since when."""

NO_ROW, STARTING = -1, -2
"""In place of a row: the process works on no row, as a new Stopwatch says, or starts."""


class SharedPickle:
    """An object pickled once for several processes, its buffers in shared memory.

    Args:
        value: the object; functions of a notebook or script are pickled by value.
    """

    def __init__(self, value: object) -> None:
        buffers = list[pickle.PickleBuffer]()
        pickled = pickled_by_value(value, protocol=5, buffer_callback=buffers.append)
        raws = [buffer.raw() for buffer in buffers]
        starts = [0, *accumulate(_aligned(raw.nbytes) for raw in raws)]
        file, memory = shared_memory(starts[-1] or 1)
        self.close = weakref.finalize(self, file.close)
        """Release the memory; children keep theirs."""
        places = [slice(at, at + raw.nbytes) for at, raw in zip(starts, raws, strict=False)]
        with memory:
            for place, raw in zip(places, raws, strict=True):
                memory[place] = raw
        self.handle = file.fileno()
        """A descriptor that children inherit."""
        self.message = pickled, self.handle, places
        """The argument of `shared_object`."""


def shared_object(message: tuple[Any, ...]) -> Any:
    """Return the object of a SharedPickle in a child; its changes stay private to the child."""
    pickled, handle, places = message
    memory = memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_COPY))
    return pickle.loads(pickled, buffers=[memory[place] for place in places])


def shared_memory(size: int) -> tuple[IO[bytes], mmap.mmap]:
    """Return memory without a name that a child may inherit: a kill leaves nothing behind.

    It is reserved now, because memory that is missing later kills the process that writes to it.

    Raises:
        OSError: there is no room, or no descriptor is left.
    """
    if HAS_MEMORY_FILES:
        handle = memory_file("dfgen")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    shared: IO[bytes] = os.fdopen(inherited(handle), "r+b", buffering=0)
    try:
        if HAS_MEMORY_FILES:
            reserve(shared.fileno(), 0, size)
        while shared.seek(0, os.SEEK_END) < size:
            shared.write(bytes(min(size, 1 << 20)))
        return shared, mmap.mmap(shared.fileno(), size)
    except BaseException:
        shared.close()
        raise


def shared_arrays(memory: mmap.mmap, specs: Mapping[str, Spec]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a chunk in shared memory; arrays of objects are outside of it."""
    arrays, offset = dict[str, npt.NDArray[Any]](), HEADER
    for name, spec in specs.items():
        if spec.dtype.hasobject:
            arrays[name] = np.empty(spec.shape, spec.dtype)
            continue
        array = np.frombuffer(memory, spec.dtype, prod(spec.shape), offset)
        arrays[name] = array.reshape(spec.shape)
        offset += _aligned(array.nbytes)
    return arrays


def room(specs: Mapping[str, Spec], size: int) -> int:
    """Return the bytes of the arrays of so many rows."""
    return sum(_aligned(size * prod(s.shape) * s.dtype.itemsize) for s in specs.values())


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def serve() -> None:
    """Make chunks until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of a transform must not get between replies
    os.register_at_fork(after_in_child=partial(_close, os.getpid(), (requests, replies)))
    message, memory_size, parent = _received(requests)
    end_with_parent()
    if os.getppid() != parent:  # it has ended before
        sys.exit()
    memory = mmap.mmap(int(sys.argv[1]), memory_size)
    header = np.frombuffer(memory, np.float64, 3)
    maker: ChunkMaker = shared_object(message)
    store = maker.reader.store
    prefetch = Prefetch(store.another().read)
    if store.far:
        store.fetched = prefetch.take
    prepare_worker()
    while True:
        chunk, specs = _received(requests)
        blanks, error, objects = {}, None, {}
        stopwatch = _SharedStopwatch(header)
        prefetch.expect(chunk.paths)
        try:
            arrays = shared_arrays(memory, specs)
            blanks = maker.fill(chunk, arrays, stopwatch, lambda: False)
            objects = {name: array for name, array in arrays.items() if array.dtype.hasobject}
        except BaseException as raised:
            error = _portable(raised)
        prefetch.drop(chunk.paths)
        try:
            pickle.dump((blanks, stopwatch.seconds, stopwatch.counts, error, objects), replies)
            replies.flush()
        except BrokenPipeError:  # the parent has ended
            os._exit(0)


def _close(worker: int, pipes: tuple[IO[bytes], ...]) -> None:
    """Close the parent's pipes in a process that a transform has forked."""
    if os.getppid() == worker:
        for pipe in pipes:
            os.close(pipe.fileno())


def _received(requests: IO[bytes]) -> tuple[Any, ...]:
    """Return the next message of the parent; exit if the parent has ended."""
    with suppress(EOFError, pickle.UnpicklingError):
        return pickle.load(requests)  # type: ignore[no-any-return]
    sys.exit()


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled, with its traceback as a note if it has none."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
        if isinstance(error, DfgenError) and hasattr(error, "__notes__"):
            return error
    except Exception:
        error = WorkerError(f"{type(error).__name__}: {error}")
    error.add_note(f"In the worker process:\n{text}")
    return error


class _SharedStopwatch(Stopwatch):
    """A Stopwatch that the parent can read while the process is busy."""

    def __init__(self, header: npt.NDArray[np.float64]) -> None:
        super().__init__()
        self._header = header
        self(IDLE)

    def __call__(self, stage: str, nbytes: int = 0) -> None:
        super().__call__(stage, nbytes)
        self._header[READING] = 0
        self._header[ROW], self._header[SINCE] = self.row, self._file[1]
        self._header[READING] = stage in OF_FILES


if __name__ == "__main__":
    serve()
