"""Rows that cannot be read: the stage, the reason and the epoch, and how many are allowed."""

import math
from collections.abc import Collection, Mapping
from numbers import Integral
from typing import NamedTuple

from dfgen import errors
from dfgen.errors import ProblemsError, without_secrets
from dfgen.samples.reader import SampleReader

KNOWN, TIMEOUT, WORKER = "known", "timeout", "worker"
"""Stages in addition to those of `Stopwatch`: before training, too late, and fatal to a process."""

_SHOWN = 5  # problems in a message
_SHARE, _LEAST = 0.05, 10  # of limits.problems=None


class Problem(NamedTuple):
    """Why a row is bad."""

    stage: str
    reason: str
    epoch: int | None = None  # None: before training


class Problems(dict[int, Problem]):
    """Row -> its problem; those of training are limited.

    Args:
        reader: of the rows.
        known: row -> why it is never read.
        limit: `Limits.problems`.
    """

    def __init__(
        self, reader: SampleReader, known: Mapping[int, str], limit: int | float | None
    ) -> None:
        super().__init__({row: Problem(KNOWN, why) for row, why in known.items()})
        self._reader, self._limit = reader, limit
        self._before = self._warned = len(self)
        if limit is None:
            limit = max(_LEAST, math.floor(_SHARE * len(reader)))
        is_share = not isinstance(limit, Integral)
        self._most = math.floor(limit * len(reader)) if is_share else int(limit)

    def add(self, problems: Mapping[int, Problem], epoch: int) -> None:
        """Add rows that failed in an epoch, and raise if there are too many."""
        for row, problem in problems.items():
            self.setdefault(row, problem._replace(epoch=epoch))
        bad = [*self][self._before :] if problems else []
        if len(bad) > self._most:
            limit = "" if self._limit is None else f"={self._limit!r}"
            more = 0.5 if self._most < len(self._reader) // 2 else 1.0
            raise ProblemsError(
                f"{self._count(bad)} turned out bad, more than limits.problems{limit} allows "
                f"({self._most:,}):{self._lines(bad)}\nFix or leave out these rows, or allow more: "
                f"limits=dfgen.Limits(problems={more})"
            )

    def warn(self) -> None:
        """Warn, at the end of an epoch, of its bad rows."""
        bad, self._warned = [*self][self._warned :], len(self)
        if bad:
            errors.warn(
                f"{self._count(bad)} turned out bad, and weigh 0; `problems` lists them:"
                f"{self._lines(bad)}"
            )

    def check_batch(self, rows: Collection[int], blank: int) -> None:
        """Raise if several rows are all blank: a model would be trained on nothing."""
        if blank == len(rows) > 1:
            raise ProblemsError(
                f"none of the {blank:,} rows of a batch can be read, so training stops:"
                f"{self._lines(rows)}\nFix these rows, or leave them out"
            )

    def where(self, row: int) -> tuple[object, str | None]:
        """Return the id of a row and the path of its first file, without secrets."""
        id, path = self._reader.id(row), next((path for _, path in self._reader.paths(row)), None)
        id = without_secrets(id) if isinstance(id, str) else id  # it may be the path
        return id, None if path is None else without_secrets(path)

    def _count(self, rows: Collection[int]) -> str:
        return f"{len(rows):,} of {len(self._reader):,} rows"

    def _lines(self, rows: Collection[int]) -> str:
        lines = [f"\n  {self._line(row)}" for row in [*map(int, rows)][:_SHOWN]]
        more = f"\n  ... and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        return "".join(lines) + more

    def _line(self, row: int) -> str:
        where = self._reader.where(row)  # ends with paths, with which a reason may begin
        paths = where.removeprefix(without_secrets(f"row id={self._reader.id(row)!r}, "))
        return f"{where}: {self[row].reason.removeprefix(f'{paths}: ')}"
