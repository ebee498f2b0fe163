"""Limits: how much memory batches may take, and how long a read."""

import re
from dataclasses import dataclass
from numbers import Real

from dfgen.errors import ArgumentError


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_problems(value: object) -> None:
    is_count = isinstance(value, int) and _is_number(value) and value >= 0
    if not (is_count or (isinstance(value, float) and 0 <= value <= 1)):
        raise ArgumentError(
            "problems must be a number of rows, or a share of them from 0.0 to 1.0, got "
            f"{value!r}: write problems=100 or problems=0.05"
        )


_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Limits:
    """Bounds on what a Sequence takes.

    Args:
        memory: bytes of batches ready or in the making, as a number or a text such as `"2GB"`;
            None (default) leaves it to `max_queue_size`. A decoder's own memory for the images
            that are being decoded, one a worker, comes on top.
        read_timeout: seconds that reading and decoding one file may take, in a worker, a `decode=`
            of the user's included, its transform not; default 120, None waits for ever. A row that
            takes longer is an error, with `on_error="skip"` a problem. Another worker takes the
            place of the late one, which is left behind: at most 32 threads, then it is an error
            in any case; `seq.metrics.abandoned` counts them. What holds the GIL all the time is
            seen in processes alone. With `workers=0` nobody watches.
        problems: how many rows may turn out bad while training with `on_error="skip"`, beside those
            that the manifest knows: a count, or a share of all rows from 0.0 to 1.0; None (default)
            is 5 % of them or 10, whichever is more. One more, and training stops with a list. With
            `shard` each process counts its own.

    Raises:
        ArgumentError: neither a number nor a text of a size, or not above 0.

    Example:
        >>> Limits(memory="2GB", read_timeout=60).nbytes
        2000000000
    """

    memory: int | str | None = None
    read_timeout: float | None = 120.0
    problems: int | float | None = None

    def __post_init__(self) -> None:
        if self.problems is not None:
            _check_problems(self.problems)
        seconds = self.read_timeout
        if seconds is not None and not (_is_number(seconds) and seconds > 0):
            raise ArgumentError(
                f"read_timeout must be seconds above 0, got {seconds!r}: write read_timeout=60"
            )
        if self.nbytes is not None and self.nbytes < 1:
            raise ArgumentError(f"memory must be above 0, got {self.memory!r}")

    @property
    def nbytes(self) -> int | None:
        """The bound on memory in bytes, or None."""
        if self.memory is None or (isinstance(self.memory, int) and _is_number(self.memory)):
            return self.memory
        found = isinstance(self.memory, str | Real) and re.fullmatch(
            r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(self.memory)
        )
        if not found or found[2].upper() not in _UNITS or found[1].count(".") > 1:
            raise ArgumentError(
                f'memory must be bytes or a text such as "2GB" or "512MiB", got {self.memory!r}'
            )
        return int(float(found[1]) * _UNITS[found[2].upper()])

    def depth(self, batch: int, most: int) -> int:
        """Return how many batches of `batch` bytes may be ready or in the making, or refuse one."""
        if self.nbytes is None:
            return most
        if batch > self.nbytes:
            raise ArgumentError(
                f"one batch takes {batch:,} bytes, more than limits.memory={self.memory!r}: make "
                "the batches smaller, or the limit larger"
            )
        return min(most, self.nbytes // batch)
