"""The meaning of the figures, in words. Nothing is claimed that the figures do not bear out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median

from dfgen.bench.headroom import Headroom
from dfgen.bench.rates import Rates, shown
from dfgen.bench.stages import BACKEND, DECODE, HAND_OVER, NUMPY, ONE, OURS, READ, RESIZE
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
        saved -= costs
        return 1 / max(sum(self.seconds.values()) - saved, self.floor)


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
    model: Headroom | None,
    *,
    rows: int,
    workers: int,
    cpus: int,
    remedies: list[Remedy],
) -> list[str]:
    """Return what the figures say, one sentence or two a point.

    `remedies` are those of the files.
    """
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
        points += _stored_points(found, made, rows, workers, model, remedies)
        if ONE in rates.rounds and rates.faster(ONE, NUMPY):
            points.append(
                f"One worker is faster than {workers} on these files, "
                f"{rates.ratio(ONE, NUMPY):.2f} x: workers=1. Not tried: use_multiprocessing=True."
            )
        points += _first_read_points(first_read, made, model)
    peers = (n for n in rates.rounds if n not in OURS and rates.faster(n, NUMPY))
    points += [
        f"{name} is faster on these files: {rates.ratio(name, NUMPY):.2f} x dfgen."
        for name in peers
    ]
    return [*points, *_noise_points(rates)]


def _model_point(model: Headroom, rows: int) -> str:
    fed, perfect = median(model.fed), median(model.perfect)
    wait = f"{model.model} waits for its input {model.input_wait:.1%} of the time"
    pace = f"it trains on {shown(fed)} images/s, and on {shown(perfect)} with batches from memory"
    gain = (
        f"A perfect loader would shorten an epoch of {rows:,} images from {rows / fed:,.1f} s to "
        f"{rows / perfect:,.1f} s."
    )
    if not model.is_shown:
        gain = "The rounds of this run overlap: it shows no gain from a perfect loader."
    if model.input_wait < CLEAR:
        if not model.is_shown or model.gain < CLEAR:
            return f"{wait}: the model is the limit, {pace}. No gain from a faster input shows."
        return f"{wait}, yet making images slows its steps, as on shared CPUs: {pace}. {gain}"
    return f"{wait}: {pace}. {gain}"


def _limit_point(
    found: Limit, made: float, workers: int, cpus: int, scale: float | None, remedies: list[Remedy]
) -> str:
    point = f"{_NAMES[found.stage]} takes the largest part, {found.share:.0%} of the time"
    if found.without > made * (1 + CLEAR):
        point += f"; without it there would be {shown(found.without)} images/s at most"
    if found.stage == "hand-over":
        return f"{point}. Larger batches could shorten it."
    if found.stage == "own work":
        return (
            f"{point}. Larger batches could shorten it, or use_multiprocessing=True: Python "
            "runs one thread at a time."
        )
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
    found: Limit,
    made: float,
    rows: int,
    workers: int,
    model: Headroom | None,
    remedies: list[Remedy],
) -> Iterator[str]:
    """Yield what it would gain to keep pixels, where making them is what limits."""
    if "hand-over" in found.seconds:
        return
    most = inf if model is None else median(model.perfect)
    now = made if model is None else min(made, median(model.fed))
    for remedy in (one for one in remedies if one.is_stored):
        rate = min(most, found.left(remedy.left, remedy.costs / max(1, workers)))
        if rate > now * (1 + CLEAR) and rows / now - rows / rate >= CLEAR_SECONDS:
            yield (
                f"{remedy.what}: up to {shown(rate)} images/s, an epoch of {rows:,} images in "
                f"{rows / rate:,.1f} s instead of {rows / now:,.1f} s."
            )


def _first_read_points(first_read: float, made: float, model: Headroom | None) -> Iterator[str]:
    needed = made if model is None else min(made, median(model.perfect))
    if first_read < needed:
        yield (
            f"Read for the first time, the files came at {shown(first_read)} a second, slower than "
            f"the {shown(needed)} that are used up: if they do not all fit in the memory that the "
            "system has for files, storage is the limit."
        )


def _noise_points(rates: Rates) -> Iterator[str]:
    spread = max(max(rates.rounds[name]) / min(rates.rounds[name]) for name in OURS[:-1])
    if spread > _NOISY:
        yield (
            f"The rounds of one measurement differ by up to {spread:.1f} x: the machine had other "
            "work. Run this again on an idle one for figures to rely on."
        )
