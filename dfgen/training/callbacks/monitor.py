"""Callbacks for `model.fit`."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import keras
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError
from dfgen.explain.speed import Waiting, verdict
from dfgen.loading.metrics import STAGES
from dfgen.loading.receipts import Receipt, of_all
from dfgen.system import check_writable, usable_cpus, write_whole
from dfgen.training.data_adapter import Passes, view_of
from dfgen.training.keras_calls import of_fit
from dfgen.training.keras_probe import refuse_if_plain

_TYPES = {"digest": pa.string(), "counted": pa.string(), "draws": pa.map_(pa.int64(), pa.int64())}
_COLUMNS = pa.schema(
    pa.field(each.name, _TYPES.get(each.name, pa.int64()), nullable=False)
    for each in fields(Receipt)
)


def read_receipts(path: str | os.PathLike[str]) -> pa.Table:
    """Return the table of receipts in a file, without rows where one could be written."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        check_writable(path)
        return _COLUMNS.empty_table()
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise ArgumentError(
            f"{path} is no Parquet file of receipts: {str(error).rstrip('.')}. InputMonitor "
            "adds to such a file: name a new file, or one that it wrote"
        ) from error
    if table.column_names != _COLUMNS.names:
        raise ArgumentError(
            f"{path} has the columns {', '.join(table.column_names)}; receipts have "
            f"{', '.join(_COLUMNS.names)}. Name another file"
        )
    return table.cast(_COLUMNS)


def add_receipts(path: str | os.PathLike[str], receipts: Iterable[Receipt]) -> None:
    """Add receipts to a file, in place of those of their epochs and of later ones."""
    table = read_receipts(path)
    for receipt in receipts:
        row = pa.Table.from_pylist([asdict(receipt)], _COLUMNS)
        table = pa.concat_tables([table.filter(pc.less(table["epoch"], receipt.epoch)), row])
    write_whole(os.path.abspath(path), lambda file: pq.write_table(table, file))


_MOST_HEADROOM = 1000.0


class InputMonitor(keras.callbacks.Callback):
    """Tells how long training waits for its input, and what limits it.

    At the end it prints what was measured, and one thing to try if training waited 3 % of the time
    and a second at least, unless `fit` was given `verbose=0`. Of several epochs the
    first does not count for that, of one its first step. In `evaluate` and `predict` it does
    nothing.

    It adds these floats to the logs of every epoch, and so to `history`; put it before callbacks
    that write logs, such as CSVLogger:

    - `input_wait`: the share of the epoch's steps spent waiting, 0..1: from the end of the step
      before until the batch was handed out, the same on every backend. Of several steps in one
      execution the first batch counts.
    - `images_per_second`: rows that the steps took in each second that they lasted.
    - `input_headroom`: rows a second that the workers could make, always at work, divided by those
      that the model could take without waiting: below 1 the workers are the limit. At most 1000.
    - `input_read`, `input_decode`, `input_resize`, `input_transform`, `input_scale`,
      `input_batch_transform`: what share of their time the workers spent on it while steps ran,
      0..1; what is left of 1 they had nothing to do. Only what there is to do, by the first epoch.

    It also tells the Sequence which batches the model has taken, so that `seq.receipt` and
    `seq.state_dict()` count those.

    Args:
        receipts: a Parquet file that gets the receipt of every epoch of the Sequence, one row each:
            `dfgen.loading.receipts.Receipt`. A training that goes on adds to it; one that begins
            anew begins it anew. Of processes that train together the first one writes it, and a
            receipt is that of all of them.

    Raises:
        ArgumentError: `fit` was not given a dfgen.Sequence, or `receipts` names another file.
        WriteError: the file of receipts cannot be written.

    Example:
        >>> monitor = dfgen.InputMonitor(receipts="receipts.parquet")  # doctest: +SKIP
        >>> model.fit(seq, callbacks=[monitor])  # doctest: +SKIP
    """

    def __init__(self, receipts: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        if not isinstance(receipts, str | os.PathLike | None):
            raise ArgumentError(
                f"receipts={receipts!r} is not the path of a file: name one to be written, as "
                'receipts="receipts.parquet". The Sequence is found by itself: give it to fit alone'
            )
        self._receipts = receipts
        self._input: Any = None
        self._loader: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Find the Sequence that `fit` was given."""
        refuse_if_plain("InputMonitor")
        found = of_fit("x")
        if not isinstance(found, Passes):
            raise ArgumentError(
                f"InputMonitor watches a dfgen.Sequence, fit was given {type(found).__name__}: "
                "give fit the Sequence itself, or leave the callback out"
            )
        self._input = found
        found.progress.count_taken()
        if self._receipts is not None:
            read_receipts(self._receipts)
        self._loader = view_of(found).loader
        self._epochs: list[dict[str, float]] = []
        self._first: dict[str, float] = {}
        self._stages: list[str] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin the epoch's first step."""
        self._spent = dict.fromkeys(("waited", "steps", "images", "batches"), 0.0)
        self._since = self._measured()
        self._step_began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step, or several of one execution."""
        now = time.perf_counter()
        taken = self._input.progress.taken(batch)
        if taken:
            self._spent["waited"] += max(0.0, taken[0].when - self._step_began)
            self._spent["images"] += sum(len(handed.rows) for handed in taken)
            self._spent["batches"] += len(taken)
        self._spent["steps"] += now - self._step_began
        self._write_receipts()
        if not self._first:
            self._first = self._spent | _minus(self._measured(), self._since)
        self._step_began = now

    def on_test_begin(self, logs: Any = None) -> None:
        """End the epoch's steps: what the workers do during validation is not done during them."""
        if self._input is not None:  # elsewhere evaluate has callbacks that fit is yet to get
            self._end_steps()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the figures of the epoch to its logs."""
        self._write_receipts()
        self._end_steps()
        self._epochs.append(self._spent)
        if not self._stages:  # which stay: CSVLogger goes by the first epoch
            done = self._input.metrics.seconds
            self._stages = [stage for stage in STAGES if done[stage] and stage != "table"]
        if logs is not None:
            logs.update(self._figures(self._spent))

    def on_train_end(self, logs: Any = None) -> None:
        """Say what limits training."""
        self._write_receipts()
        if self.params.get("verbose") != 0 and self._epochs:
            print(f"dfgen: {verdict(self._waiting())}")
        self._input = self._loader = None  # which may be large

    def _measured(self) -> dict[str, float]:
        metrics = self._input.metrics
        return metrics.seconds | {"samples": metrics.samples}  # type: ignore[no-any-return]

    def _end_steps(self) -> None:
        """Note what was done while the steps of an epoch ran, once."""
        if "samples" not in self._spent:
            self._spent |= _minus(self._measured(), self._since)

    def _figures(self, spent: Mapping[str, float]) -> dict[str, float]:
        steps, workers = spent["steps"] or 1e-9, max(1, self._loader.metrics.workers)
        model = steps - spent["waited"]
        made, busy = spent["samples"], sum(spent[stage] for stage in STAGES)
        if not (made and busy):  # all was made ahead
            metrics = self._input.metrics
            made, busy = metrics.samples, sum(metrics.seconds[stage] for stage in STAGES)
        headroom = workers * made * model / max(busy * spent["images"], 1e-9)
        all_time = max(workers * steps, sum(spent[stage] for stage in STAGES))
        return {
            "input_wait": spent["waited"] / steps,
            "images_per_second": spent["images"] / steps,
            "input_headroom": min(headroom, _MOST_HEADROOM),
            **{f"input_{name}": spent[name] / all_time for name in self._stages},
        }

    def _waiting(self) -> Waiting:
        once, *rest = self._epochs
        counted = {name: sum(epoch[name] for epoch in rest) for name in once}
        if not rest:
            counted, once = _minus(once, self._first or once), self._first or once
        loader = self._loader
        metrics = loader.metrics
        return Waiting(
            counted["waited"], counted["steps"], counted, int(counted["batches"]),
            metrics.workers, metrics.use_multiprocessing, usable_cpus(), loader.depth,
            loader.max_queue_size, once["waited"], "epoch" if rest else "step",
        )  # fmt: skip

    def _write_receipts(self) -> None:
        progress = self._input.progress
        if not progress.receipts or (self._receipts is None and progress.ranks is None):
            return
        receipts, ranks = [*progress.receipts], progress.ranks
        if ranks is not None:
            receipts = of_all(ranks.gather("receipts of InputMonitor", [*map(asdict, receipts)]))
        if self._receipts is not None and (ranks is None or ranks.index == 0):
            add_receipts(self._receipts, receipts)
        progress.receipts.clear()


def _minus(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: value - before[name] for name, value in after.items()}
