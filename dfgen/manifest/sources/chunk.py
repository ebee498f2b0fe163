"""What a source yields."""

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source, and what it left out on the way to them.

    Args:
        rows: The rows; the same columns in every chunk.
        skipped: Reason -> the paths that were left out for it.
    """

    rows: pa.Table
    skipped: dict[str, list[str]] = field(default_factory=dict)
