"""Measures where the time goes: what each worker does now, and how long it did each thing."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

STAGES = ("read", "decode", "resize", "transform", "scale", "batch_transform", "table")
"""The stages of a worker with a row, or a batch; a feature tells when a stage begins.

`table` is what needs no file: columns, and the random generators of the rows.
"""

OF_FILES = ("read", "decode", "resize")
"""Those that a file takes, and its time-out covers."""

IDLE = "idle"
CPU = "cpu"


class Stopwatch:
    """The stage that one worker is in. Called with the name of each stage as it begins.

    Written by its own worker only and read by others at any time: cheap enough to stay on, 0.2
    microseconds a stage.
    """

    def __init__(self) -> None:
        self.stage = IDLE
        self.since = time.perf_counter()
        self.row = -1
        self._file = (-1, self.since)
        self.seconds: dict[str, float] = dict.fromkeys((IDLE, *STAGES, CPU), 0.0)
        self.counts: Counter[str] = Counter()
        self._cpu: float | None = None

    def __call__(self, stage: str, nbytes: int = 0) -> None:
        """Begin a stage; `nbytes` is what the stage before has read."""
        now = time.perf_counter()
        self.seconds[self.stage] += now - self.since
        if stage == "read":
            self._file = self.row, now
        self.stage, self.since = stage, now
        if nbytes:
            self.counts["bytes"] += nbytes

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when; None: no file is."""
        stage, file = self.stage, self._file  # in this order: `_file` is never older than `stage`
        return file if stage in OF_FILES else None

    def begin(self, stage: str) -> None:
        """Begin a stage since which time on a CPU counts: 5 microseconds with `rest`."""
        self(stage)
        self._cpu = time.thread_time()

    def rest(self) -> None:
        """End the last stage, and note how long this thread was on a CPU since `begin`."""
        if self._cpu is not None:
            self.seconds[CPU] += time.thread_time() - self._cpu
            self._cpu = None
        self(IDLE)

    def add(self, seconds: dict[str, float], counts: Counter[str]) -> None:
        """Add what another process has measured."""
        for stage, spent in seconds.items():
            self.seconds[stage] += spent
        self.counts.update(counts)


@dataclass(frozen=True)
class Metrics:
    """Totals since the Sequence was made.

    `seconds` are of all workers together: those of each stage, `idle`, when the look-ahead was
    full, `cpu`, how long they were on a CPU where rows are read one by one, and
    `consumer_wait`, how long batches were waited for.
    """

    seconds: dict[str, float]
    samples: int  # made
    batches: int  # handed out
    bytes: int  # read from files
    abandoned: int = 0  # workers given up since a file took longer than `limits.read_timeout`
    cache_hits: int = 0  # images whose pixels were in the cache, or blocks of packs in a store
    cache_misses: int = 0  # those that were decoded, or fetched, and kept if there was room
    cache_bytes: int = 0  # in the cache, those of other Sequences of its settings included
    workers: int = 0
    """That make batches now: where none are asked for, as many as turned out to be fastest."""
    use_multiprocessing: bool = False
    """Whether they are processes."""


def total(
    stopwatches: Iterable[Stopwatch],
    consumer_wait: float,
    batches: int,
    abandoned: int = 0,
    cache_bytes: int = 0,
) -> Metrics:
    """Return the sum of what all workers measured."""
    sums = Stopwatch()
    for stopwatch in stopwatches:
        sums.add(stopwatch.seconds, stopwatch.counts)
    seconds = {**sums.seconds, "consumer_wait": consumer_wait}
    counts = sums.counts
    cache = counts["cache_hits"], counts["cache_misses"], cache_bytes
    return Metrics(seconds, counts["samples"], batches, counts["bytes"], abandoned, *cache)
