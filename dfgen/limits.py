"""Limits: memory of batches, seconds of a read, bad rows, and what one file may ask for."""

import io
import math
import re
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import IO

from dfgen.errors import ArgumentError, DecodeError, DfgenError, brief

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
FIXED = {
    "file_bytes": 2**32,
    "header_bytes": 2**24,
    "chunk_bytes": 2**26,
    "aliases": 10,
}
"""Upper bounds that no intact file exceeds. Nobody can set them.

`file_bytes`: a file that is read as a whole; a sparse file of any size costs nothing to make.
`header_bytes`: the header of an image or a .npy file, and YAML or TOML files. Each piece of a JPEG
or PNG before its pixels counts 1 KiB more, each strip or tile of a TIFF 64 bytes. `chunk_bytes`:
a chunk of a PNG, a line of a .jsonl table. `aliases`: of YAML.
"""

Amount = int | str | None
"""Bytes as a number or a text such as "2GB". None is no bound."""


def bytes_given(name: str, given: object) -> int:
    """Return the bytes of an argument that is a number or a text such as "2GB".

    Example:
        >>> bytes_given("memory", "64MiB")
        67108864
    """
    if _is_number(given) and abs(given) < math.inf:  # type: ignore[arg-type]
        return int(given)  # type: ignore[call-overload,no-any-return]
    match = isinstance(given, str) and re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", given)
    if not match or match[2].upper() not in _UNITS:
        raise ArgumentError(
            f'{name} must be bytes or a text such as "2GB" or "512MiB", got {given!r}'
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class Limits:
    """Bounds on what a Sequence uses, and on what one file may ask for.

    Args:
        memory: bytes of all batches in the queue, as a number or a text such as `"2GB"`; None
            (default) leaves it to `max_queue_size`. The memory of decoders is not counted.
        read_timeout: seconds to read and decode one file in a worker, `decode=` included; default
            120, None waits for ever. A row that takes longer is an error, or a problem with
            `on_error="skip"`. Its thread is abandoned and replaced, at most 32 times;
            `seq.metrics.abandoned` counts them. Code that keeps the GIL is noticed in processes
            only. Needs workers.
        problems: how many rows may fail in training with `on_error="skip"`, beyond those that are
            marked in the manifest: a count, or a share of all rows from 0.0 to 1.0; None (default)
            is 5 % or 10, whichever is more. One more stops training with a list. With `shard` each
            process counts its own.
        decoded_bytes: bytes that one file may decode to; default `"512MiB"`, None is no bound. For
            an image width x height x channels x depth; for an array file one row and its HDF5
            chunk; for a sound all samples; for a packed table all of it. A file of 84 bytes can
            ask for 4 GB. A JPEG that is decoded at 1/2, 1/4 or 1/8 counts as that, a progressive
            one with two bytes for each value. Every worker decodes one file at a time.
        cache: bytes of the pixels in `cache=`. None (default): in a folder all but 5 % of its disk,
            in memory half of what is free. Images that do not fit are decoded each time.

    Raises:
        ArgumentError: a value is no number, no text of a size, or not above 0.

    Example:
        >>> Limits(cache="2GB", read_timeout=60).cache_bytes
        2000000000
    """

    memory: Amount = None
    read_timeout: float | None = 120.0
    problems: int | float | None = None
    decoded_bytes: Amount = "512MiB"
    cache: Amount = None

    def __post_init__(self) -> None:
        number, seconds = self.problems, self.read_timeout
        if number is not None and not (
            _is_number(number) and number >= 0 and (isinstance(number, Integral) or number <= 1)
        ):
            raise ArgumentError(
                "problems must be a number of rows, or a share of them from 0.0 to 1.0, got "
                f"{number!r}: write problems=100 or problems=0.05"
            )
        if seconds is not None and not (_is_number(seconds) and seconds > 0):
            raise ArgumentError(
                f"read_timeout must be seconds above 0, got {seconds!r}: write read_timeout=60"
            )
        for name in ("memory", "decoded_bytes", "cache"):
            amount = getattr(self, name)
            if amount is not None and bytes_given(name, amount) < 1:
                raise ArgumentError(f"{name} must be above 0, got {amount!r}")

    @property
    def cache_bytes(self) -> int | None:
        """The bound on a cache in bytes, or None."""
        return None if self.cache is None else bytes_given("cache", self.cache)

    @cached_property
    def most(self) -> dict[str, float]:
        """Each bound by its name; computed once, because every decode asks."""
        amount = self.decoded_bytes
        most = math.inf if amount is None else bytes_given("decoded_bytes", amount)
        return {**FIXED, "decoded_bytes": most}

    def check(
        self, name: str, amount: int, what: str, error: type[DfgenError] = DecodeError
    ) -> None:
        """Raise an error if a file asks for more than a bound. `what` is a clause on the amount."""
        if amount <= self.most[name]:
            return
        if name in FIXED:
            raise error(
                f"{what}, more than the {FIXED[name]:,} that dfgen reads: the file is damaged, or "
                "made to take memory and time. Save it again, or leave it out"
            )
        raise error(
            f"{what}, more than limits.{name}={getattr(self, name)!r}: if you trust it, give "
            f"limits=dfgen.Limits({name}={amount})"
        )

    def depth(self, batch: int, most: int) -> int:
        """Return how many batches of `batch` bytes may be in the queue, at most `most`."""
        if self.memory is None:
            return most
        nbytes = bytes_given("memory", self.memory)
        if batch > nbytes:
            raise ArgumentError(
                f"one batch takes {batch:,} bytes, more than limits.memory={self.memory!r}: make "
                "the batches smaller, or the limit larger"
            )
        return min(most, nbytes // batch)


DEFAULT = Limits()
"""The default limits."""


def limits_given(given: Limits | None) -> Limits:
    """Return the limits of an argument, or the default for None."""
    if given is None or isinstance(given, Limits):
        return given or DEFAULT
    raise ArgumentError(f'limits must be dfgen.Limits(memory="2GB", ...), got {brief(given)}')


def refuse_bytes(nbytes: int, limits: Limits) -> None:
    """Raise a DecodeError if a file is too large to be read as a whole."""
    limits.check("file_bytes", nbytes, f"the file has {nbytes:,} bytes")


def read_file(file: IO[bytes], limits: Limits) -> bytes:
    """Return all bytes of an open file, unless it is too large."""
    refuse_bytes(file.seek(0, io.SEEK_END), limits)
    file.seek(0)
    return file.read()
