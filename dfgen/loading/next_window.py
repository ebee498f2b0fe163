"""NextWindow: the files of the next window are read ahead while batches come from this one."""

import contextlib
from collections import deque
from functools import partial

from dfgen.loading.order.windows import Windows
from dfgen.loading.workers.threads import Threads, Worker
from dfgen.samples.reader import SampleReader

_PASSES = 4  # that may go on at the same time without asking for their windows again


class NextWindow:
    """Has the system read the files of the next window when a batch of a window begins.

    A thread asks for it, so that no batch waits. What the system does not do, as where it lacks the
    memory, costs time later and nothing else.
    """

    def __init__(self, reader: SampleReader, windows: Windows, seed: int) -> None:
        self._reader, self._windows, self._seed = reader, windows, seed
        self._begun: deque[tuple[int, int]] = deque(maxlen=_PASSES)
        self._threads = Threads(1, Worker)

    def __reduce__(self) -> tuple[object, ...]:
        return NextWindow, (self._reader, self._windows, self._seed)

    def begin(self, epoch: int, position: int) -> None:
        """Note that a batch begins at a position of an epoch."""
        window = self._windows.window(position, seed=self._seed, epoch=epoch)
        if (epoch, window) not in self._begun:
            self._begun.append((epoch, window))
            reader, windows, seed = self._reader, self._windows, self._seed
            self._threads.submit(partial(_ask, reader, windows, seed, epoch, window + 1))

    def close(self) -> None:
        """End the thread."""
        self._threads.close()


def _ask(
    reader: SampleReader, windows: Windows, seed: int, epoch: int, window: int, worker: Worker
) -> None:
    blocks = windows.blocks_of(window, seed=seed, epoch=epoch)
    if not len(blocks):
        blocks = windows.blocks_of(0, seed=seed, epoch=epoch + 1)
    for block in blocks.tolist():
        if worker.abandoned:
            return
        with contextlib.suppress(Exception):  # whoever reads the rows says what is wrong
            reader.ahead(windows.block_rows(block))
