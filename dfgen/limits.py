"""Limits: how much memory batches may take, how long a read, and what one file may ask for."""

import io
import math
import re
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import IO

from dfgen.errors import ArgumentError, DecodeError, brief


def _is_number(value: object, kind: type = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_problems(value: object) -> None:
    is_number = _is_number(value) and value >= 0  # type: ignore[operator]
    if not (is_number and (isinstance(value, Integral) or value <= 1)):  # type: ignore[operator]
        raise ArgumentError(
            "problems must be a number of rows, or a share of them from 0.0 to 1.0, got "
            f"{value!r}: write problems=100 or problems=0.05"
        )


_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_BYTES = ("file_bytes", "decoded_bytes")
FIXED = {
    "header_bytes": 2**24,
    "chunk_bytes": 2**26,
    "scans": 100,
    "aliases": 10,
    "nesting": 100,
}
"""Bounds that no honest file passes, and nobody can set.

`header_bytes`: what stands before the pixels of a JPEG or PNG, of which each piece counts for 1 KiB
more, and each strip or tile of a TIFF for 64 bytes: many small ones take time; a .npy header, an
annotation of one image, data.yaml, a recipe. `chunk_bytes`: what is read at once: a chunk of a PNG,
a line of a .jsonl table. `scans`: of a progressive JPEG, each of which takes as long as a decode;
encoders make about 10. `aliases`, of which a few unfold to billions of values, and `nesting` of
YAML; of JSON and TOML Python's own bound of about 1,000 holds.
"""

Amount = int | str | None
"""Bytes as a number or a text such as "2GB"; None: any number of them."""


def bytes_given(name: str, given: object) -> int:
    """Return the bytes that an argument asks for, as a number or a text such as "2GB".

    Example:
        >>> bytes_given("window", "64MiB")
        67108864
    """
    if _is_number(given) and abs(given) < math.inf:  # type: ignore[arg-type]
        return int(given)  # type: ignore[call-overload,no-any-return]
    found = isinstance(given, str) and re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", given)
    if not found or found[2].upper() not in _UNITS:
        raise ArgumentError(
            f'{name} must be bytes or a text such as "2GB" or "512MiB", got {given!r}'
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


@dataclass(frozen=True)
class Limits:
    """Bounds on what a Sequence takes, and on what one file may ask for.

    A file of 84 bytes can ask a decoder for 4 GB. `file_bytes` and `decoded_bytes` are compared
    with what a file says of itself before anything of that size is made; beyond one of them the
    file cannot be decoded, and its error names the field. Each may be None: no bound. Decoders of
    several workers work at the same time, so the worst case is `workers` times that of one.

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
        file_bytes: of a file that is read as a whole: an image, a .npy file, a sound in memory, a
            table of labels, annotations. Default `"2GB"`: a sparse file of any size costs nothing
            to make. Files read by rows or in part (HDF5, .npy with `index=`, WAV) have no bound.
        decoded_bytes: of the pixels of an image, width x height x channels x depth; of one row of
            an array file, and of the chunk of HDF5 that holds it; of a sound that keeps its own
            length; of a table that was packed (gzip; Parquet of over 100 times its size).
            Default `"512MiB"`: RGB of 178.9 million pixels, where Pillow too refuses. A JPEG that
            is decoded at 1/2, 1/4 or 1/8 counts as that, a progressive one with two bytes for each
            value of all its pixels, which libjpeg holds. Decoders take a few times as much.
        cache: bytes of pixels, and of packs in a store, in the folder, or the memory, of `cache=`.
            None (default): in a folder all but 5 % of its disk, in memory half of what is free.
            Kept pixels stay: images that do not fit any more are decoded each time.

    Raises:
        ArgumentError: neither a number nor a text of a size, or not above 0.

    Example:
        >>> Limits(memory="2GB", read_timeout=60).nbytes
        2000000000
    """

    memory: Amount = None
    read_timeout: float | None = 120.0
    problems: int | float | None = None
    file_bytes: Amount = "2GB"
    decoded_bytes: Amount = "512MiB"
    cache: Amount = None

    def __post_init__(self) -> None:
        if self.problems is not None:
            _check_problems(self.problems)
        seconds = self.read_timeout
        if seconds is not None and not (_is_number(seconds) and seconds > 0):
            raise ArgumentError(
                f"read_timeout must be seconds above 0, got {seconds!r}: write read_timeout=60"
            )
        for name in ("memory", "cache", *_BYTES):
            nbytes = self._bytes(name)
            if nbytes is not None and nbytes < 1:
                raise ArgumentError(f"{name} must be above 0, got {getattr(self, name)!r}")

    @property
    def nbytes(self) -> int | None:
        """The bound on memory in bytes, or None."""
        return self._bytes("memory")

    @property
    def cache_bytes(self) -> int | None:
        """The bound on a cache in bytes, or None."""
        return self._bytes("cache")

    def _bytes(self, name: str) -> int | None:
        given = getattr(self, name)
        return None if given is None else bytes_given(name, given)

    @cached_property
    def most(self) -> dict[str, float]:
        """Bound -> the most of it that a file may ask for; kept, as every decode asks."""
        found = {name: self._bytes(name) for name in _BYTES} | FIXED
        return {name: math.inf if most is None else most for name, most in found.items()}

    def allows(self, name: str, asked: int) -> bool:
        """Whether a file may ask for so much: of a field of these limits, or of `FIXED`."""
        return asked <= self.most[name]

    def refusal(self, name: str, asked: int, what: str) -> str:
        """Return what to tell where `what`, a sentence, asks for more than is allowed."""
        if name in FIXED:
            return (
                f"{what}, more than the {FIXED[name]:,} that dfgen takes: the file is damaged, or "
                "made to take memory and time. Save it again, or leave it out"
            )
        return (
            f"{what}, more than limits.{name}={getattr(self, name)!r}: if you trust it, give "
            f"limits=dfgen.Limits({name}={asked})"
        )

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


DEFAULT = Limits()
"""The default limits."""


def limits_given(given: Limits | None) -> Limits:
    """Return the limits given, those by default for None, or refuse something else."""
    if given is None or isinstance(given, Limits):
        return given or DEFAULT
    size = f"{given:.0f}" if isinstance(given, int | float) else '"2GB"'
    raise ArgumentError(
        f'limits must be dfgen.Limits(memory="2GB", ...), got {brief(given)}: write '
        f"limits=dfgen.Limits(memory={size})"
    )


def refuse_bytes(nbytes: int, limits: Limits) -> None:
    """Refuse a file of more than `limits.file_bytes`."""
    if not limits.allows("file_bytes", nbytes):
        what = f"the file has {nbytes:,} bytes"
        raise DecodeError(limits.refusal("file_bytes", nbytes, what))


def refuse_file(file: IO[bytes], limits: Limits) -> None:
    """Refuse an open file of more than `limits.file_bytes`; it then stands at its end."""
    refuse_bytes(file.seek(0, io.SEEK_END), limits)


def read_file(file: IO[bytes], limits: Limits) -> bytes:
    """Return all bytes of an open file, if they are no more than `limits.file_bytes`."""
    refuse_file(file, limits)
    file.seek(0)
    return file.read()
