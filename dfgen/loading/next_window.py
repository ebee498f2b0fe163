"""NextWindow: the files of the next window are read ahead while batches come from this one."""

from threading import Thread

from dfgen.loading.order.windows import Windows
from dfgen.samples.reader import SampleReader


class NextWindow:
    """Has the system read the files of the next window when a batch of a window begins.

    A thread asks for it, so that no batch waits. What the system does not do, as where it lacks the
    memory, costs time later and nothing else.
    """

    def __init__(self, reader: SampleReader, windows: Windows, seed: int) -> None:
        self._reader, self._windows, self._seed = reader, windows, seed
        self._begun: tuple[int, int] | None = None

    def begin(self, epoch: int, position: int) -> None:
        """Note that a batch begins at a position of an epoch."""
        window = self._windows.window(position, seed=self._seed, epoch=epoch)
        begun, self._begun = self._begun, (epoch, window)
        if begun == self._begun:
            return
        Thread(target=self._ask, args=self._begun, name="dfgen-next-window", daemon=True).start()

    def _ask(self, epoch: int, window: int) -> None:
        blocks = self._windows.blocks_of(window + 1, seed=self._seed, epoch=epoch)
        if not len(blocks):
            blocks = self._windows.blocks_of(0, seed=self._seed, epoch=epoch + 1)
        for block in blocks.tolist():
            self._reader.ahead(self._windows.block_rows(block))
