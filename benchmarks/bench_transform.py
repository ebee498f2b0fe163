"""What do worker processes gain for a transform that holds the GIL?"""

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any

from in_memory import make_loader
from measure import Findings, Verdict, alternate, finish

MILLISECONDS = 2
ROWS, BATCH = 640, 16


def main() -> Findings:
    transform = busy()
    rates = alternate(
        {
            "1 process": drained(transform, processes=1),
            "2 processes": drained(transform, processes=2),
            "2 threads": drained(transform, threads=2),
        }
    )
    print(f"\na transform of {MILLISECONDS} ms of pure Python", end="")
    rates.show("images", "1 process")
    ratio = rates.ratio("2 processes", "1 process")
    return finish([Verdict("transform in Python, 2 processes", ratio, 1.6, "x 1 process", aim=1.9)])


@dataclass(frozen=True)
class Busy:
    """A transform that counts in a loop, so that it is work and not waiting."""

    turns: int

    def __call__(self, sample: dict[str, Any], rng: Any) -> dict[str, Any]:
        count(self.turns)
        return sample


def count(turns: int) -> None:
    for _ in range(turns):
        pass


def busy() -> Busy:
    """Return a transform that takes the milliseconds on this machine."""
    turns = 1_000_000
    start = thread_time()
    count(turns)
    return Busy(round(turns * MILLISECONDS / 1000 / (thread_time() - start)))


def drained(transform: Busy, **workers: int) -> Callable[[], int]:
    loader = make_loader(ROWS, BATCH, transform=transform, **workers)

    def drain() -> int:
        stream = loader.stream(epoch=0)
        images = sum(len(next(stream).rows) for _ in range(len(loader)))
        stream.close()  # or it would work ahead while others are timed
        return images

    return drain


if __name__ == "__main__":
    main()
