"""What a source yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from dfgen.manifest.schema import Label


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source, and what it did on the way to them.

    Args:
        rows: The rows; the same columns in every chunk.
        skipped: Reason -> the paths that were left out for it, for people to read.
        notes: What was done with rows that did not match.
        labels: Column -> its class names or box format, where the source knows them.
        folder: Where relative paths start, if the source alone knows; absolute.
        total: How many rows there are in all chunks, if that is known already.
    """

    rows: pa.Table
    skipped: Mapping[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: Mapping[str, Label] = field(default_factory=dict)
    folder: str | None = None
    total: int | None = None
