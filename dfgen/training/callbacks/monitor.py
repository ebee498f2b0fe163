"""Callbacks for `model.fit`."""

import os
import time
from typing import Any

import keras

from dfgen.errors import ArgumentError
from dfgen.loading.metrics import STAGES, Metrics
from dfgen.training.callbacks.receipt_file import add_receipts, read_receipts
from dfgen.training.keras_private import input_of_fit
from dfgen.training.keras_probe import refuse_if_plain
from dfgen.training.passes import Passes

_NEGLIGIBLE = 0.02  # of the time of an epoch

_ADVICE = {
    "read": "faster storage or more workers",
    "decode": "more workers, or files no larger than the model needs",
    "resize": "more workers, or Image(antialias=False)",
    "transform": "use_multiprocessing=True if it holds the GIL, else more workers, or Keras layers",
    "scale": "uint8 to the model and a keras.layers.Rescaling in it, or more workers",
    "batch_transform": "less of it in Python, which holds the GIL, or Keras layers",
}


class InputMonitor(keras.callbacks.Callback):
    """Tells how long training waits for its input, and what limits it.

    Adds `input_wait` and `images_per_second` to the logs of every epoch; put it before callbacks
    that write logs, such as CSVLogger. At the end it prints one sentence, unless `fit` was given
    `verbose=0`.

    `input_wait` is the share of the epoch's steps spent waiting. Step k begins when step k - 1 has
    ended; its wait is the time from there until its batch was handed out, if that came later. So
    it means the same on TensorFlow, JAX and torch, whether Keras takes the batch inside of the
    step or before. Of several steps in one execution the first batch counts.

    It also tells the Sequence which batches the model has taken, so that `seq.receipt` and
    `seq.state_dict()` count those.

    Args:
        receipts: a Parquet file that gets the receipt of every epoch of the Sequence, one row each:
            `dfgen.loading.receipts.Receipt`. A training that goes on adds to it; one that begins
            anew begins it anew. On several hosts, one file for each.

    Raises:
        ArgumentError: `fit` was not given a dfgen.Sequence, or `receipts` names another file.
        WriteError: the file of receipts cannot be written.

    Example:
        >>> monitor = dfgen.InputMonitor(receipts="receipts.parquet")  # doctest: +SKIP
        >>> model.fit(seq, callbacks=[monitor])  # doctest: +SKIP
    """

    def __init__(self, receipts: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._receipts = receipts

    def on_train_begin(self, logs: Any = None) -> None:
        """Find the Sequence that `fit` was given."""
        refuse_if_plain("InputMonitor")
        found = input_of_fit()
        if not isinstance(found, Passes):
            raise ArgumentError(
                f"InputMonitor watches a dfgen.Sequence, fit was given {type(found).__name__}"
            )
        self._input = found
        found.progress.count_taken()
        if self._receipts is not None:
            read_receipts(self._receipts)
        self._before = found.metrics
        self._waited = self._lasted = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin the epoch's first step."""
        self._step_began = time.perf_counter()
        self._epoch_waited = self._epoch_lasted = 0.0
        self._images = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step, or several of one execution."""
        now = time.perf_counter()
        taken = self._input.progress.taken(batch)
        if taken:
            self._epoch_waited += max(0.0, taken[0].when - self._step_began)
            self._images += sum(len(handed.rows) for handed in taken)
        self._epoch_lasted += now - self._step_began
        self._write_receipts()
        self._step_began = now

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the figures of the epoch to its logs."""
        self._write_receipts()
        lasted = self._epoch_lasted or 1e-9
        self._waited += self._epoch_waited
        self._lasted += self._epoch_lasted
        if logs is not None:
            logs["input_wait"] = self._epoch_waited / lasted
            logs["images_per_second"] = self._images / lasted

    def on_train_end(self, logs: Any = None) -> None:
        """Say what limits training."""
        self._write_receipts()
        if self.params.get("verbose") != 0:
            print(verdict(self._waited, self._lasted, self._before, self._input.metrics))

    def _write_receipts(self) -> None:
        receipts = self._input.progress.receipts
        if receipts and self._receipts is not None:
            add_receipts(self._receipts, receipts)
            receipts.clear()


def verdict(waited: float, lasted: float, before: Metrics, after: Metrics) -> str:
    """Return one sentence: what limits training, and what would help.

    Of the seconds that all steps lasted so many were waiting for input; before and after is what
    the workers had done.
    """
    share = waited / (lasted or 1e-9)
    start = f"dfgen: training waited for its input {share:.1%} of the time"
    if share < _NEGLIGIBLE:
        return f"{start}: the model is the limit, a faster input would gain nothing more."
    spent = {stage: after.seconds[stage] - before.seconds[stage] for stage in STAGES}
    stage = max(spent, key=spent.__getitem__)
    part = spent[stage] / (sum(spent.values()) or 1e-9)
    return (
        f"{start}; {stage} is {part:.0%} of the workers' time: {_ADVICE[stage]} would help. "
        f"Without waiting, {lasted:.1f} s of steps would take {lasted - waited:.1f} s."
    )
