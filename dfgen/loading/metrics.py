"""Measurements: what each worker does now, and the seconds it has spent on each stage."""

import time
from collections import Counter
from dataclasses import dataclass

STAGES = ("read", "decode", "resize", "transform", "scale", "batch_transform", "table")
"""The stages of a worker with a row, or a batch.

`table` is work without files: columns, and the random generators of the rows.
"""

OF_FILES = ("read", "decode", "resize")
"""The stages with a file, which its timeout covers."""

IDLE = "idle"
CPU = "cpu"


class Stopwatch:
    """The stage of one worker. Called with the name of each stage as it begins.

    Its own worker alone writes it, and others may read it at any time. A stage costs 0.2
    microseconds.
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
        """Begin a stage; `nbytes`: bytes that the stage before has read."""
        now = time.perf_counter()
        self.seconds[self.stage] += now - self.since
        if stage == "read":
            self._file = self.row, now
        self.stage, self.since = stage, now
        if nbytes:
            self.counts["bytes"] += nbytes

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when; else None."""
        stage, file = self.stage, self._file  # in this order: `_file` is never older than `stage`
        return file if stage in OF_FILES else None

    def begin(self, stage: str) -> None:
        """Begin a stage and measure the time on a CPU until `rest`, which takes 5 microseconds."""
        self(stage)
        self._cpu = time.thread_time()

    def rest(self) -> None:
        """End the last stage."""
        if self._cpu is not None:
            self.seconds[CPU] += time.thread_time() - self._cpu
            self._cpu = None
        self(IDLE)

    def add(self, seconds: dict[str, float], counts: Counter[str]) -> None:
        """Add the measurements of another stopwatch."""
        for stage, spent in seconds.items():
            self.seconds[stage] += spent
        self.counts.update(counts)


@dataclass(frozen=True)
class Metrics:
    """Totals since the Sequence was made.

    `seconds` of all workers: of each stage; `idle`, when the queue was full; `cpu`, on a CPU while
    rows were read one by one; and `consumer_wait`, spent waiting for batches.
    """

    seconds: dict[str, float]
    samples: int  # made
    batches: int  # handed out
    bytes: int  # read from files
    abandoned: int = 0  # workers whose file took longer than `limits.read_timeout`
    cache_hits: int = 0  # images in the cache of pixels, or blocks of packs in a store
    cache_misses: int = 0  # images that were decoded, or blocks that were fetched
    cache_bytes: int = 0  # in the cache, including those of other Sequences
    workers: int = 0
    """Workers that make batches now; by default, the fastest number."""
    use_multiprocessing: bool = False
    """Whether they are processes."""
