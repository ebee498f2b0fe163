"""Names what limits a training, what would make samples sooner, and how much each fix would save.

Batches that would be made in fewer seconds are waited for less, until the model's own time is left,
or the CPUs have no more to give: each gain is what is bounded by all three.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf, prod
from typing import Any

import numpy as np

from dfgen.errors import DfgenError, count
from dfgen.limits import DEFAULT, Limits
from dfgen.loading.metrics import CPU, OF_FILES, STAGES
from dfgen.packs.packed_pixels import PackedSource
from dfgen.platform_calls import IS_WINDOWS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.cached_pixels import cache_steps
from dfgen.samples.sources.file_source import StoredRows
from dfgen.samples.stores.cache.cache_folder import SPARE_PART
from dfgen.system import free_memory

CLEAR = 0.03
"""The least gain that is worth a word, as a share of the time of the steps."""

CLEAR_SECONDS = 1.0
"""The least time of waiting: less tells nothing."""

_BUSY = 0.8  # share of the workers' time: who is less busy has waited for room in the queue
_LARGE = 0.3  # share of the workers' busy time
_ONE_CPU = 1.2  # CPUs that threads are on together where Python's lock lets one run at a time
_IN_USE = 0.9  # share of the CPUs' time
_SHOWN = 0.05  # share of the workers' busy time that a stage is shown from
_MOST = 4  # times as many workers as CPUs
_SPARE = 4  # times as many batches
_MEASURED = 8  # files whose sizes are read
_COPIED = 2e9  # bytes that a worker copies in a second
_LEAST = 0.1  # share of the images: a cache that holds less is hardly worth its folder


@dataclass(frozen=True)
class Waiting:
    """The steps of a training that count, and those who made its batches.

    The workers' `seconds` are as of `Metrics.seconds`.
    """

    waited: float  # seconds of the steps that went by before their batch was handed out
    steps: float  # seconds of the steps, waiting included
    seconds: Mapping[str, float]
    cpu: float = 0.0  # seconds that this process was on CPUs, all of its threads together
    batches: int = 1  # that the steps took
    workers: int = 1  # that made batches in the end; 0 = the calling thread
    processes: bool = False
    cpus: int = 1  # that this process may use
    depth: int = 10  # batches ready or in the making, as many as memory allows
    max_queue_size: int = 10  # the same, as many as were asked for
    start: float = 0.0  # seconds waited before the steps that count
    began: str = "step"  # what was waited for then, or "epoch"
    accelerated: bool = False  # whether the model has another device than the CPUs
    rows: int = 0  # that the workers made in that time
    resting: int = 0  # threads more, which made batches slower where that was tried

    def scaled(self, by: float) -> "Waiting":
        """Return these steps `by` times as often, without their start."""
        return replace(
            self,
            waited=by * self.waited,
            steps=by * self.steps,
            seconds={stage: by * spent for stage, spent in self.seconds.items()},
            cpu=by * self.cpu,
            batches=ceil(by * self.batches),
            rows=ceil(by * self.rows),
            start=0.0,
        )

    @property
    def share(self) -> float:
        """Waiting, as a share of the steps."""
        return self.waited / self.steps if self.steps else 0.0

    @property
    def model(self) -> float:
        """Seconds that the steps would take if no batch were waited for."""
        return self.steps - self.waited

    @property
    def busy(self) -> float:
        """Seconds that the workers were at work, all together."""
        return sum(self.seconds[stage] for stage in STAGES) or 1e-9

    @property
    def saturation(self) -> float:
        """The share of their time that the workers were at work; more is not to be had of them."""
        return self.busy / (max(1, self.workers) * self.steps)

    @property
    def blocked(self) -> float:
        """Seconds that threads at work waited for a CPU or Python's lock, other than in a read."""
        if self.processes or self.workers < 2:
            return 0.0
        return max(0.0, self.busy - self.seconds[CPU] - self.seconds["read"])

    @property
    def is_locked(self) -> bool:
        """Whether threads at work waited as if a transform let one of them run at a time."""
        one_cpu = self.seconds[CPU] <= _ONE_CPU * self.steps
        return one_cpu and min(self.blocked / self.busy, self.part("transform")) >= _LARGE

    @property
    def counts(self) -> bool:
        """Whether training waits so much and so long that it is worth a look at what would help."""
        return self.share >= CLEAR and self.waited >= CLEAR_SECONDS

    @property
    def is_idle(self) -> bool:
        """Whether the workers had to stop at a full queue."""
        return self.workers > 0 and self.saturation < _BUSY

    @property
    def is_late(self) -> bool:
        """Whether batches were not made yet when they were asked for, and not only handed over."""
        return self.seconds["consumer_wait"] >= self.waited / 2

    def part(self, stage: str) -> float:
        """Return a stage's share of the time that the workers were at work."""
        return self.seconds[stage] / self.busy

    def gain(self, made: float, saved: float = 0.0) -> float:
        """Return how many seconds sooner the steps would end, at most.

        Their batches would be made in `made` seconds, with `saved` seconds on CPUs not spent.
        """
        on_cpus = self.cpu + self.processes * self.seconds[CPU]
        least = max(self.model, made, (on_cpus - saved) / self.cpus)
        return max(0.0, self.steps - least)


@dataclass(frozen=True)
class Gain:
    """Something to do, and the seconds of the steps that it would gain at most."""

    what: str
    seconds: float


@dataclass(frozen=True)
class Remedy:
    """Something that makes batches sooner."""

    what: str  # to write, or to do
    left: Mapping[str, float]  # stage -> the share of its seconds that is left; the others stay
    costs: float = 0.0  # seconds of a worker for each row


def gains(waiting: Waiting, remedies: list[Remedy]) -> list[Gain]:
    """Return what would gain a clear amount, the most first; `remedies` make samples sooner."""
    found = _from_queue if waiting.is_idle else _from_workers
    clear = CLEAR * waiting.steps
    every = (gain for gain in found(waiting, remedies) if gain.seconds >= clear)
    return sorted(every, key=lambda gain: -gain.seconds)


def verdict(waiting: Waiting, remedies: list[Remedy], least: float = CLEAR_SECONDS) -> str:
    """Return what was measured in words, what would gain how much, or that nothing would.

    Waiting for less than `least` seconds tells nothing.
    """
    said = (
        f"training waited for its input {waiting.share:.1%} of the time "
        f"({waiting.waited:.1f} of {waiting.steps:.1f} s of steps)"
    )
    if waiting.start >= CLEAR_SECONDS:
        said += f", after {waiting.start:.1f} s in its first {waiting.began}"
    if waiting.share < CLEAR and waiting.steps:
        return f"{said}: nothing to gain."
    if waiting.waited < least or not waiting.steps:
        return f"{said}: too short to tell what would help."
    return f"{said}. {cause(waiting, remedies)}"


def cause(waiting: Waiting, remedies: list[Remedy]) -> str:
    """Return what the workers did while batches were waited for, and what would gain how much."""
    return f"{_work(waiting)} {_advice(waiting, remedies)}"


def _work(waiting: Waiting) -> str:
    them = count(waiting.workers, "process" if waiting.processes else "worker")
    them += " was" if waiting.workers == 1 else " were"
    if not waiting.workers:
        them = "The calling thread, as workers=0, was"
    busy = f"{them} busy {min(1.0, waiting.saturation):.0%} of it"
    parts = sorted(STAGES, key=waiting.part, reverse=True)
    shown = [f"{name} {waiting.part(name):.0%}" for name in parts if waiting.part(name) >= _SHOWN]
    return f"{busy}: {', '.join(shown)}." if shown else f"{busy}."


def _advice(waiting: Waiting, remedies: list[Remedy]) -> str:
    found = gains(waiting, remedies)
    if found:
        each = (f"{gain.what} (up to {gain.seconds:.1f} s)" for gain in found)
        return f"Possible savings: {'; '.join(each)}."
    if waiting.is_idle and not waiting.is_late:
        ready = "Their batches were ready: the wait is for the hand-over."
        return f"{ready} {larger_batches(waiting.waited, waiting.batches)}"
    if waiting.cpu >= _IN_USE * waiting.cpus * waiting.steps:
        every = f"All {waiting.cpus} CPUs are" if waiting.cpus > 1 else "The one CPU is"
        return f"{every} in use: no setting would gain {CLEAR:.0%}."
    return f"No setting would gain {CLEAR:.0%}."


def larger_batches(seconds: float, batches: int) -> str:
    """Return what shortens the hand-over of batches, which takes so long."""
    return f"Larger batches reduce this cost ({seconds / max(1, batches) * 1000:.1f} ms a batch)."


def _from_queue(waiting: Waiting, _: list[Remedy]) -> Iterator[Gain]:
    """Yield what helps where workers had to stop at a full queue, and batches ran out later."""
    if not waiting.is_late:
        return
    gain = waiting.gain(waiting.busy / waiting.workers)
    if waiting.depth < waiting.max_queue_size:
        yield Gain(
            f"limits=dfgen.Limits(memory=...) of more, which now allows {waiting.depth} of "
            f"max_queue_size={waiting.max_queue_size} batches",
            gain,
        )
    elif not waiting.processes:
        more = _SPARE * waiting.max_queue_size
        yield Gain(f"max_queue_size={more}, as batches come in bursts", gain)


def _from_workers(waiting: Waiting, remedies: list[Remedy]) -> Iterator[Gain]:
    """Yield what helps where the workers have no time left."""
    yield from _more_workers(waiting)
    yield from _less_work(waiting, remedies)
    if waiting.is_locked:
        gain = waiting.gain(waiting.steps * (1 - waiting.blocked / waiting.busy))
        yield Gain("use_multiprocessing=True if the transform holds Python's lock", gain)


def _more_workers(waiting: Waiting) -> Iterator[Gain]:
    workers, cpus = waiting.workers, waiting.cpus
    if not workers:
        yield Gain(f"workers={cpus}, as many as CPUs", waiting.gain(waiting.busy / cpus))
        return
    reading = min(waiting.seconds["read"], max(0.0, waiting.busy - waiting.seconds[CPU]))
    off = reading / waiting.busy
    if off >= _LARGE:
        needed = ceil(workers * waiting.steps / max(waiting.model, 1e-9))
        more = min(needed, _MOST * cpus, ceil(cpus / max(1 - off, 1e-9)))
        if more > max(workers, cpus):
            gain = waiting.gain(waiting.steps * workers / more)
            yield Gain(f"workers={more}, as reading needs no CPU", gain)
        yield Gain("faster storage", waiting.gain(waiting.steps * (1 - off)))
    elif workers < cpus and waiting.blocked < _LARGE * waiting.busy:
        gain = waiting.gain(waiting.steps * workers / cpus)
        processes = "use_multiprocessing=True, as more threads are slower"
        yield Gain(processes if waiting.resting else f"workers={cpus}, as many as CPUs", gain)


def _less_work(waiting: Waiting, remedies: list[Remedy]) -> Iterator[Gain]:
    for remedy in remedies:
        spent = sum(waiting.seconds[stage] * (1 - left) for stage, left in remedy.left.items())
        spent -= remedy.costs * waiting.rows
        made = waiting.steps * (1 - spent / waiting.busy)
        yield Gain(remedy.what, waiting.gain(made, spent))
    for stage in ("transform", "batch_transform") if waiting.accelerated else ():
        left = 1 - waiting.part(stage)
        if stage == "transform" and waiting.is_locked:  # which made the other stages wait too
            left *= 1 - waiting.blocked / waiting.busy
        gain = waiting.gain(waiting.steps * left, waiting.part(stage) * waiting.seconds[CPU])
        yield Gain(f"Keras layers in the model for the {stage}", gain)


def remedies(reader: SampleReader) -> list[Remedy]:
    """Return what would make the samples of a reader sooner, beside functions of the user's.

    Headers of a few files are read, no pixels. A file that cannot be read is passed over.
    """
    found: dict[str, Mapping[str, float]] = {}
    for bound in reader.features:
        if bound.image is not None:
            found = bound.image.speedups(_surplus(bound, reader)) | found
    return [Remedy(what, left) for what, left in found.items()]


def _surplus(bound: BoundFeature, reader: SampleReader) -> float:
    """Return how many times as many pixels the files have as are used, of some the least."""
    found = []
    decoded = isinstance(reader.source(bound), PackedSource | StoredRows)
    rows = np.unique(np.linspace(0, len(reader) - 1, _MEASURED).astype(int)).tolist()
    for row in () if decoded else rows:
        if bound.has(row):
            try:
                value = bound.feature.at(bound.values, row)
                found.append(bound.image.oversampling(value, reader.store))
            except DfgenError:
                continue
    return min(found, default=1.0)


def stored_remedies(
    reader: SampleReader,
    limits: Limits = DEFAULT,
    rows: int | None = None,
    pack: Callable[[Any], str] | None = None,
) -> list[Remedy]:
    """Return what keeping the pixels of a reader's images would leave of its stages.

    None where no image has pixels that may be kept, where they are kept already, or where there is
    no room for a tenth of them. There are so many `rows` in the manifest, by default those of the
    reader. `pack` returns the command that packs what an Image makes of a file; it is named where
    all have room on the disk.
    """
    transforms = reader.transform is not None
    files = [bound for bound in reader.features if bound.files is not None]
    loose = [bound for bound in files if reader.source(bound).files.packed is None]
    steps = [cache_steps(one, reader.source(one), transforms, reader.store) for one in loose]
    kept = [found[0] for found in steps if not isinstance(found, str)]
    rows = len(reader) if rows is None else rows
    if not kept or reader.cached or IS_WINDOWS:
        return []
    nbytes = sum(prod(image.spec.shape) * image.spec.dtype.itemsize for image in kept)
    needed = rows * nbytes
    disk = shutil.disk_usage(os.curdir)
    room = disk.free - disk.free // SPARE_PART if limits.cache_bytes is None else limits.cache_bytes
    share = min(1.0, max(0, min(room, disk.free)) / needed) if needed else 0.0
    if share < _LEAST:
        return []
    what = f'cache="cache", {amount(share * needed)} of disk'
    if share < 1:
        what += f", which is room for {share:.0%} of the images"
    if share * needed > _free_memory():
        what += ", more than the memory that is free, so the disk must read as fast"
    found = [_remedy(f"{what}, from the second epoch on", share, nbytes)]
    if pack is not None and len(kept) == len(files) == 1 and needed < disk.free:
        found.append(_remedy(f"{pack(kept[0])}, {amount(needed)} of disk", 1.0, nbytes))
    return found


def amount(nbytes: float) -> str:
    """Return bytes for people to read.

    Example:
        >>> amount(12_345_678), amount(3e12), amount(1_000)
        ('12.3 MB', '3,000.0 GB', '0.0 MB')
    """
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def _free_memory() -> float:
    try:
        return free_memory()
    except OSError:  # there is no /proc
        return inf


def _remedy(what: str, share: float, nbytes: int) -> Remedy:
    return Remedy(what, dict.fromkeys(OF_FILES, 1 - share), share * nbytes / _COPIED)
