"""Headroom: what a perfect loader would gain, by replaying batches that are kept in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import dfgen
from dfgen.bench.stages import fit_rate, replay, steps_of

_KEPT = 16  # batches that are replayed


@dataclass(frozen=True)
class Headroom:
    """`fit` fed by dfgen, and by a loader that has every batch ready: images per second a round."""

    model: str
    steps: int
    fed: tuple[float, ...]
    perfect: tuple[float, ...]
    input_wait: float


def headroom(
    name: str, model: Any, make_sequence: Callable[[], dfgen.Sequence], rounds: int
) -> Headroom:
    """Train a compiled model on a Sequence and on replayed batches of it, in turn.

    Each round makes its own Sequence: one that stays would work ahead of its turn.
    """
    with make_sequence() as sequence:
        perfect = replay(sequence, _KEPT)
    steps = steps_of(fit_rate(model, perfect, steps=2)[0], perfect.batch_size)
    fed, replayed = [], []
    for _ in range(rounds):
        with make_sequence() as sequence:
            fed.append(fit_rate(model, sequence.repeat(), steps))
        replayed.append(fit_rate(model, perfect, steps)[0])
    rates, waits = zip(*fed, strict=True)
    return Headroom(name, steps, rates, tuple(replayed), median(one.share for one in waits))
