"""Says how long training waited for its input, what the workers did, and what to change."""

from collections.abc import Mapping
from dataclasses import dataclass

from dfgen.errors import count

_LEAST = 1.0  # seconds of waiting, below which nothing can be said

_ADVICE = {
    "read": "more workers than CPUs, a pack, or a faster disk",
    "decode": 'cache="folder", or a pack of smaller images',
    "resize": 'cache="folder", or a pack of smaller images',
    "transform": "use_multiprocessing=True, or layers in the model",
    "scale": "scale=None and keras.layers.Rescaling in the model",
    "batch_transform": "layers in the model",
    "table": "larger batches",
}
"""Stage of a worker -> what helps if it takes most of the time."""


@dataclass(frozen=True)
class Waiting:
    """Time of the steps of a training, and of the workers that made its batches."""

    waited: float  # seconds that training waited for batches, until they were handed out
    steps: float  # seconds of the steps, waiting included
    seconds: Mapping[str, float]  # of all workers together, by stage; see `Metrics.seconds`
    batches: int = 1  # that the steps took
    workers: int = 1  # that made batches; 0 = the calling thread
    processes: bool = False  # the workers are processes
    cpus: int = 1  # that this process may use
    depth: int = 10  # batches ready or in the making, as many as memory allows
    max_queue_size: int = 10  # the same, as many as the Sequence asked for
    start: float = 0.0  # seconds waited before these steps, in one of:
    began: str = "step"  # or "epoch"

    @property
    def busy(self) -> float:
        """Seconds that the workers were busy, all together."""
        return sum(self.seconds[stage] for stage in _ADVICE) or 1e-9

    @property
    def saturation(self) -> float:
        """Share of their time that the workers were busy, 0..1."""
        return min(1.0, self.busy / max(max(1, self.workers) * self.steps, 1e-9))


def verdict(waiting: Waiting) -> str:
    """Return how long training waited, what the workers did meanwhile, and what to try."""
    share = waiting.waited / waiting.steps if waiting.steps else 0.0
    message = (
        f"training waited for its input {share:.1%} of the time "
        f"({waiting.waited:.1f} of {waiting.steps:.1f} s)"
    )
    if waiting.start >= _LEAST:
        message += f", after {waiting.start:.1f} s in its first {waiting.began}"
    if share < 0.03 and waiting.steps:
        return f"{message}: nothing to gain."
    if waiting.waited < _LEAST:
        return f"{message}: too short for advice."
    workers = count(waiting.workers, "process" if waiting.processes else "worker")
    subject = f"{workers} {'was' if waiting.workers == 1 else 'were'}"
    if not waiting.workers:
        subject = "The calling thread (workers=0) was"
    shares = {stage: waiting.seconds[stage] / waiting.busy for stage in _ADVICE}
    stages = sorted(shares, key=shares.__getitem__, reverse=True)
    shown = ", ".join(f"{name} {shares[name]:.0%}" for name in stages if shares[name] >= 0.05)
    return (
        f"{message}. {subject} busy {waiting.saturation:.0%} of it: {shown}. "
        f"Try {_advice(waiting, stages[0])}."
    )


def _advice(waiting: Waiting, largest: str) -> str:
    if waiting.workers and waiting.saturation < 0.8:  # else the queue was full
        if waiting.seconds["consumer_wait"] < waiting.waited / 2:
            milliseconds = 1000 * waiting.waited / max(1, waiting.batches)
            return f"larger batches: the hand-over took {milliseconds:.1f} ms a batch"
        if waiting.depth < waiting.max_queue_size:
            return f"limits=dfgen.Limits(memory=...): now it allows {waiting.depth} batches"
        return f"max_queue_size={4 * waiting.max_queue_size}: batches come in bursts"
    if waiting.workers < waiting.cpus:
        more = "" if waiting.processes or not waiting.workers else " or use_multiprocessing=True"
        return f"workers={waiting.cpus} (the number of CPUs){more}"
    if largest == "transform" and waiting.processes:
        return "layers in the model"
    return _ADVICE[largest]
