"""InputMonitor: how long training waits for its input, and what limits it."""

import time
from collections.abc import Mapping
from typing import Any

import keras

from dfgen.errors import ArgumentError
from dfgen.explain.speed import Waiting, verdict
from dfgen.loading.metrics import STAGES
from dfgen.machine import usable_cpus
from dfgen.training.keras_data import KerasData, view_of
from dfgen.training.keras_loop import running_fit

_MOST_HEADROOM = 1000.0


class InputMonitor(keras.callbacks.Callback):
    """Measures how long training waits for its input, and says what to change.

    Use it to find out whether the input or the model limits the speed. At the end of `fit` it
    prints how long training waited, what the workers did meanwhile, and, if training waited 3 % of
    the time and a second at least, one thing to try. `fit(verbose=0)` prints nothing. The first
    epoch does not count, of a single epoch the first step. In `evaluate` and `predict` it does
    nothing.

    It adds three floats to the logs of each epoch, and so to `history`; put it before callbacks
    that write logs, such as CSVLogger:

    - `input_wait`: the share of the time of the steps spent waiting for batches, 0..1. TensorFlow
      may wait for the next one during a step, which counts as well.
    - `images_per_second`: rows per second that the steps took.
    - `input_headroom`: rows per second that busy workers make, divided by those that the model
      takes without waiting. Below 1 the workers are the limit. At most 1000.

    Raises:
        ArgumentError: `fit` was not given a `dfgen.Sequence`.

    Example:
        >>> model.fit(seq, callbacks=[dfgen.InputMonitor()])  # doctest: +SKIP
    """

    def __init__(self) -> None:
        super().__init__()
        self._input: Any = None
        self._loader: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Start to count the steps of `fit`."""
        data = getattr(running_fit(), "data", None)
        if not isinstance(data, KerasData):
            raise ArgumentError(
                f"InputMonitor expects fit on a dfgen.Sequence, got {type(data).__name__}: pass "
                "the Sequence to fit, or leave the callback out"
            )
        self._input, self._loader = data, view_of(data).loader
        self._epochs: list[dict[str, float]] = []
        self._first: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin the epoch's first step."""
        self._spent = dict.fromkeys(("waited", "steps", "images", "batches"), 0.0)
        self._since = self._measured()
        self._step_began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a step, or several of one execution."""
        now = time.perf_counter()
        taken = self._input.progress.latest
        self._spent["waited"] += sum(handed.seconds for handed in taken)
        self._spent["images"] += sum(len(handed.rows) for handed in taken)
        self._spent["batches"] += len(taken)
        self._spent["steps"] += now - self._step_began
        if not self._first:
            self._first = self._so_far()
        self._step_began = now

    def on_test_begin(self, logs: Any = None) -> None:
        """End the epoch's steps: what the workers do during validation is not done during them."""
        if self._input is not None:  # elsewhere evaluate has callbacks that fit is yet to get
            self._end_steps()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the figures of the epoch to its logs."""
        self._end_steps()
        self._epochs.append(self._spent)
        if logs is not None:
            logs.update(self._figures(self._spent))

    def on_train_end(self, logs: Any = None) -> None:
        """Say what limits training."""
        if self.params.get("verbose") != 0 and self._epochs:
            print(f"dfgen: {verdict(self._waiting())}")
        self._input = self._loader = None  # which may be large

    def _measured(self) -> dict[str, float]:
        metrics = self._input.metrics
        return metrics.seconds | {"samples": metrics.samples}  # type: ignore[no-any-return]

    def _end_steps(self) -> None:
        """Note what was done while the steps of an epoch ran, once."""
        if "samples" not in self._spent:
            self._spent = self._so_far()

    def _so_far(self) -> dict[str, float]:
        """Return what was done in this epoch; a batch may have been requested before it."""
        spent = self._spent | _minus(self._measured(), self._since)
        return spent | {"waited": min(spent["waited"], spent["steps"])}

    def _figures(self, spent: Mapping[str, float]) -> dict[str, float]:
        steps, workers = spent["steps"] or 1e-9, max(1, self._loader.metrics.workers)
        model = steps - spent["waited"]
        made, busy = spent["samples"], sum(spent[stage] for stage in STAGES)
        if not (made and busy):  # all was made ahead
            metrics = self._input.metrics
            made, busy = metrics.samples, sum(metrics.seconds[stage] for stage in STAGES)
        headroom = workers * made * model / max(busy * spent["images"], 1e-9)
        return {
            "input_wait": spent["waited"] / steps,
            "images_per_second": spent["images"] / steps,
            "input_headroom": min(headroom, _MOST_HEADROOM),
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


def _minus(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: value - before[name] for name, value in after.items()}
