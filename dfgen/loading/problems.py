"""Rows that cannot be read: in which stage, why, since which epoch, and how many may be."""

import math
from collections.abc import Collection, Iterator, Mapping
from numbers import Integral
from typing import NamedTuple

from dfgen.errors import ProblemsError, warn, without_secrets
from dfgen.samples.reader import SampleReader

KNOWN, TIMEOUT, WORKER = "known", "timeout", "worker"
"""Stages of what no read of a file has found; others are those of `Stopwatch`."""

_SHOWN = 5  # problems that an error lists
_SHARE, _LEAST = 0.05, 10  # of limits.problems=None


class Failure(NamedTuple):
    """The report of a worker on a row that it could not make."""

    stage: str  # that failed: "read", "decode", ..., or "worker", whose process died of it
    reason: str


class Problem(NamedTuple):
    """A fault of a row."""

    stage: str
    reason: str
    epoch: int | None  # in which it was found; None: before training


class Problems(Mapping[int, Problem]):
    """Row -> what is wrong with it; those found in training are bounded.

    Args:
        reader: of the rows.
        known: row -> why it is not to be read at all.
        limit: `Limits.problems`.
    """

    def __init__(
        self, reader: SampleReader, known: Mapping[int, str], limit: int | float | None
    ) -> None:
        self._reader = reader
        self._found = {row: Problem(KNOWN, why, None) for row, why in known.items()}
        self._before = self._told = len(self._found)
        self._limit, self._most = limit, most_problems(limit, len(reader))

    def __getitem__(self, row: int) -> Problem:
        return self._found[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, faults: Mapping[int, Failure], epoch: int) -> None:
        """Note what was found in an epoch; of a row that is there already, nothing."""
        for row, fault in faults.items():
            self._found.setdefault(row, Problem(*fault, epoch))
        found = [*self._found][self._before :] if faults else []
        if len(found) > self._most:
            limit = "" if self._limit is None else f"={self._limit!r}"
            more = 0.5 if self._most < len(self._reader) // 2 else 1.0
            raise ProblemsError(
                f"{len(found):,} of {len(self._reader):,} rows turned out bad, more than "
                f"limits.problems{limit} allows ({self._most:,}):{self._lines(found)}\nMend or "
                f"leave out these rows, or allow more: limits=dfgen.Limits(problems={more})"
            )

    def tell(self) -> None:
        """Warn, as an epoch ends, of rows that turned out bad since the last one."""
        found, self._told = [*self._found][self._told :], len(self._found)
        if found:
            warn(
                f"{len(found):,} of {len(self._reader):,} rows turned out bad, and weigh 0; "
                f"`problems` lists them:{self._lines(found)}"
            )

    def check_batch(self, rows: Collection[int], blank: int) -> None:
        """Refuse several rows that are all blank: a model would be trained on nothing."""
        if blank == len(rows) > 1:
            raise ProblemsError(
                f"none of the {blank:,} rows of a batch can be read, and nothing is trained on "
                f"that:{self._lines(rows)}\nMend these rows, or leave them out"
            )

    def where(self, row: int) -> tuple[object, str | None]:
        """Return the id of a row and the path of its first file, as they may be shown."""
        id, path = self._reader.id(row), next((path for _, path in self._reader.paths(row)), None)
        id = without_secrets(id) if isinstance(id, str) else id  # where it is the path
        return id, None if path is None else without_secrets(path)

    def _lines(self, rows: Collection[int]) -> str:
        lines = [f"\n  {self._line(row)}" for row in [*map(int, rows)][:_SHOWN]]
        more = f"\n  ... and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        return "".join(lines) + more

    def _line(self, row: int) -> str:
        where = self._reader.where(row)  # which ends as the reason begins, where that names files
        paths = where.removeprefix(without_secrets(f"row id={self._reader.id(row)!r}, "))
        return f"{where}: {self[row].reason.removeprefix(f'{paths}: ')}"


def most_problems(limit: int | float | None, rows: int) -> int:
    """Return how many rows may turn out bad: a count as it is, a share of the rows rounded down.

    Example:
        >>> most_problems(None, 40), most_problems(None, 10_000), most_problems(0.5, 40)
        (10, 500, 20)
    """
    if limit is None:
        return max(_LEAST, math.floor(_SHARE * rows))
    return int(limit) if isinstance(limit, Integral) else math.floor(limit * rows)
