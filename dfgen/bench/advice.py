"""The meaning of the figures, in words. Nothing is claimed that the figures do not bear out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median

from dfgen.bench.model_wait import ModelWait
from dfgen.bench.stages import BACKEND, DECODE, HAND_OVER, NUMPY, ONE, READ, RESIZE, Rates
from dfgen.explain.remedies import Remedy
from dfgen.explain.speed import CLEAR, CLEAR_SECONDS

_NOISY = 1.5  # fastest round / slowest
_SCALES = 0.6  # of the workers' number: from here on more of them are worth a try
_NAMES = {
    "read": "Reading the files",
    "decode": "Decoding",
    "resize": "Resizing",
    "hand-over": "The hand-over to the backend",
    "own work": "dfgen's own work for each image and batch",
}
_LARGER_BATCHES = {
    "hand-over": "Larger batches could shorten it.",
    "own work": "Larger batches could shorten it, or use_multiprocessing=True: Python runs one "
    "thread at a time.",
}


def shown(rate: float) -> str:
    """Return a rate with as many digits as are of use."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"


@dataclass(frozen=True)
class Limit:
    """The stage of an image that takes longest: a key of `_NAMES`, and its share of the time.

    `allowed` are the images per second that the stages allow. `seconds` are those of an image in
    each stage, and `floor` of what goes on at the same time. `own work` is what the whole takes
    longer than its stages.
    """

    stage: str
    share: float
    allowed: float
    seconds: Mapping[str, float]
    floor: float

    @property
    def without(self) -> float:
        """The images per second, at most, if this stage took no time."""
        return self.left({self.stage: 0.0})

    def left(self, shares: Mapping[str, float], costs: float = 0.0) -> float:
        """Return the images per second, at most, if such a share of some stages were left.

        `costs` are seconds that an image takes then.
        """
        saved = sum(self.seconds.get(stage, 0.0) * (1 - left) for stage, left in shares.items())
        return 1 / max(sum(self.seconds.values()) - saved + costs, self.floor)


def limit(
    read: float, decode: float, decode_and_resize: float, hand_over: float, whole: float
) -> Limit:
    """Return what takes longest, of the images per second of each stage alone and of the whole.

    The workers read, decode and resize one after the other, while one thread hands over what they
    made before. So the hand-over counts if it takes longer than all three, else they do.
    """
    seconds = {
        "read": 1 / read,
        "decode": 1 / decode,
        "resize": max(0.0, 1 / decode_and_resize - 1 / decode),
    }
    working = sum(seconds.values())
    slower = max(working, 1 / hand_over)
    if 1 / hand_over > working:
        seconds = {"hand-over": 1 / hand_over}
    seconds["own work"] = max(0.0, 1 / whole - slower)
    stage = max(seconds, key=seconds.__getitem__)
    lasts = sum(seconds.values())
    floor = working if stage == "hand-over" else 1 / hand_over
    return Limit(stage, seconds[stage] / lasts, 1 / slower, seconds, floor)


def advise(
    rates: Rates,
    first_read: float,
    model: ModelWait | None,
    *,
    rows: int,
    workers: int,
    cpus: int,
    remedies: list[Remedy],
) -> list[str]:
    """Return what the figures say, one sentence or two a point; `remedies` are of the files."""
    alone = [rates.median(name) for name in (READ, DECODE, RESIZE, HAND_OVER)]
    # Other programs only make it slower: they must not pass for dfgen's own work.
    found = limit(*[*alone, max(rates.rounds[BACKEND])])
    made = rates.median(BACKEND)
    points = [
        f"dfgen makes {shown(made)} images/s and hands them to the backend: "
        f"{made / found.allowed:.0%} of the {shown(found.allowed)} that its stages alone allow."
    ]
    if model is not None:
        points.append(_model_point(model, rows))
    if model is None or model.input_wait >= CLEAR:
        of_files = [remedy for remedy in remedies if not remedy.is_stored]
        scale = rates.ratio(NUMPY, ONE) if ONE in rates.rounds else None
        points.append(_limit_point(found, made, workers, cpus, scale, of_files))
        most, now = inf, made
        if model is not None:
            most, now = model.without_wait, min(made, median(model.rates))
        stored = [remedy for remedy in remedies if remedy.is_stored]
        points += _stored_points(found, most, now, rows, workers, stored)
        if ONE in rates.rounds and rates.faster(ONE, NUMPY):
            points.append(
                f"One worker is faster than {workers} on these files, "
                f"{rates.ratio(ONE, NUMPY):.2f} x: workers=1. Not tried: use_multiprocessing=True."
            )
        if first_read < (needed := min(made, most)):
            points.append(
                f"Read for the first time, the files came at {shown(first_read)} a second, slower "
                f"than the {shown(needed)} that are used up: if they do not all fit in the memory "
                "that the system has for files, storage is the limit."
            )
    spread = max(max(rounds) / min(rounds) for name, rounds in rates.rounds.items() if name != ONE)
    if spread > _NOISY:
        points.append(
            f"The rounds of one measurement differ by up to {spread:.1f} x: the machine had other "
            "work. Run this again on an idle one for figures to rely on."
        )
    return points


def _model_point(model: ModelWait, rows: int) -> str:
    fed, most = median(model.rates), model.without_wait
    wait = f"{model.model} waits for its input {model.input_wait:.1%} of the time"
    pace = f"it trains on {shown(fed)} images/s"
    if model.input_wait < CLEAR:
        return f"{wait}: the model is the limit, {pace}. No gain from a faster input shows."
    return (
        f"{wait}: {pace}. Without any wait an epoch of {rows:,} images would take at least "
        f"{rows / most:,.1f} s instead of {rows / fed:,.1f} s."
    )


def _limit_point(
    found: Limit, made: float, workers: int, cpus: int, scale: float | None, remedies: list[Remedy]
) -> str:
    point = f"{_NAMES[found.stage]} takes the largest part, {found.share:.0%} of the time"
    if found.without > made * (1 + CLEAR):
        point += f"; without it there would be {shown(found.without)} images/s at most"
    if found.stage in _LARGER_BATCHES:
        return f"{point}. {_LARGER_BATCHES[found.stage]}"
    helps = ["faster storage"] if found.stage == "read" else []
    for remedy in remedies:
        rate = found.left(remedy.left)
        if rate > made * (1 + CLEAR):
            helps.append(f"{remedy.what}: {shown(rate)} images/s at most")
    if scale is None or scale > _SCALES * workers:
        more = f"more workers, of {cpus} CPUs" if workers < cpus else f"more than {cpus} CPUs"
        helps.append(
            more + (f": {workers} workers make {scale:.2f} x what one makes" if scale else "")
        )
    return f"{point}. What could help: {'; '.join(helps)}." if helps else f"{point}."


def _stored_points(
    found: Limit, most: float, now: float, rows: int, workers: int, remedies: list[Remedy]
) -> Iterator[str]:
    """Yield what it would gain to keep pixels, where making them is what limits.

    `now` are the images per second that come, `most` those that the model can take.
    """
    if "hand-over" in found.seconds:
        return
    for remedy in remedies:
        rate = min(most, found.left(remedy.left, remedy.costs / max(1, workers)))
        if rate > now * (1 + CLEAR) and rows / now - rows / rate >= CLEAR_SECONDS:
            yield (
                f"{remedy.what}: up to {shown(rate)} images/s, an epoch of {rows:,} images in "
                f"{rows / rate:,.1f} s instead of {rows / now:,.1f} s."
            )
