"""NextWindow: the files of the next window are read ahead while batches come from this one."""

import contextlib
from collections import deque
from functools import partial

from dfgen.loading.order.windows import Windows
from dfgen.loading.workers.threads import Threads, Worker
from dfgen.samples.reader import SampleReader

_PASSES = 4  # that may go on at the same time without asking for their windows again


class NextWindow:
    """Has the files of the next window read when a batch of a window begins, and first of its own.

    Remote files are read into memory, but not if processes read the rows (`far=False`).
    A thread asks for it, so that no batch waits. What the system does not do, as where it lacks the
    memory, costs time later and nothing else.
    """

    def __init__(self, reader: SampleReader, windows: Windows, seed: int, far: bool = True) -> None:
        self._reader, self._windows, self._seed, self._far = reader, windows, seed, far
        self._begun: deque[tuple[int, int]] = deque(maxlen=_PASSES)
        self._threads = Threads(1, Worker)

    def __reduce__(self) -> tuple[object, ...]:
        return NextWindow, (self._reader, self._windows, self._seed, self._far)

    def begin(self, epoch: int, position: int) -> None:
        """Note that a batch begins at a position of an epoch."""
        window = self._windows.window(position, seed=self._seed, epoch=epoch)
        if (epoch, window) not in self._begun:
            numbers = [window + 1] if self._begun else [window, window + 1]
            self._begun.append((epoch, window))
            for number in numbers:
                self._threads.submit(partial(self._ask, epoch, number))

    def close(self) -> None:
        """End the thread."""
        self._threads.close()

    def _ask(self, epoch: int, window: int, worker: Worker) -> None:
        blocks = self._windows.blocks_of(window, seed=self._seed, epoch=epoch)
        if not len(blocks):
            blocks = self._windows.blocks_of(0, seed=self._seed, epoch=epoch + 1)
        for block in blocks.tolist():
            if worker.abandoned:
                return
            with contextlib.suppress(Exception):  # whoever reads the rows says what is wrong
                self._reader.ahead(self._windows.block_rows(block), self._far)
