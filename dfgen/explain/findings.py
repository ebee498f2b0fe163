"""A fault of a table, of files or of their join: builds raise or warn of it, `check` lists it."""

from collections.abc import Iterable
from dataclasses import dataclass

from dfgen.errors import ManifestError, legible

_LONGEST = 700  # characters of one of several faults in one error


@dataclass(frozen=True)
class Finding:
    """A fault, in words and in numbers.

    Args:
        kind: a few words that stay the same whatever the table holds, as `repeated ids`.
        rows: how many rows or files it concerns.
        told: what was found, with the first rows at fault.
        fix: what to write or to do.
        examples: the first values, ids or paths at fault, for scripts.
        stops: whether no manifest can be built before it is mended.
        mark: what stands between `told` and `fix` in a message.

    Example:
        >>> str(Finding("repeated ids", 2, '"a" stands on 2 rows', "Keep one of them"))
        '"a" stands on 2 rows. Keep one of them'
    """

    kind: str
    rows: int
    told: str
    fix: str
    examples: tuple[str, ...] = ()
    stops: bool = False
    mark: str = ". "

    def __str__(self) -> str:
        return f"{self.told}{self.mark}{self.fix}"


def refuse(findings: Iterable[Finding], more: str = "") -> None:
    """Raise one error of all findings that stop a build; `more` is the last line of it."""
    stopping = [str(finding) for finding in findings if finding.stops]
    if len(stopping) > 1:
        told = (f"{place}. {legible(text, _LONGEST)}" for place, text in enumerate(stopping, 1))
        stopping = ["\n".join([f"{len(stopping)} faults stop the build:", *told])]
    if stopping:
        raise ManifestError("\n".join([*stopping, *([more] if more else [])]))
