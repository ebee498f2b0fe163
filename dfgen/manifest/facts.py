"""SCHEMA: what is known of a file before anything is trained on it. A new fact is one line."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa

from dfgen.samples.pixels.headers import Header
from dfgen.samples.storage.store import Head


@dataclass(frozen=True)
class Fact:
    """A column of facts: its type, and how it follows from what is known of a file."""

    type: pa.DataType
    of_head: Callable[[Head], Any] | None = None  # makes it of what the store says of a file, or
    of_header: Callable[[Header], Any] | None = None  # of what the file says of itself, or
    of_whole: Callable[[Any], Any] | None = None  # of its `Whole`, decoded to its end


SCHEMA = {
    "bytes": Fact(pa.int64(), of_head=attrgetter("size")),
    "mtime_ns": Fact(pa.int64(), of_head=attrgetter("mtime_ns")),
    "format": Fact(pa.string(), of_header=attrgetter("format")),
    "width": Fact(pa.int32(), of_header=attrgetter("width")),
    "height": Fact(pa.int32(), of_header=attrgetter("height")),
    "channels": Fact(pa.int16(), of_header=attrgetter("channels")),
    "orientation": Fact(pa.int8(), of_header=attrgetter("orientation")),
    "bits": Fact(pa.int16(), of_header=attrgetter("bits")),
    "frames": Fact(pa.int64(), of_header=attrgetter("frames")),
    "sample_rate": Fact(pa.int32(), of_header=attrgetter("sample_rate")),
    "digest": Fact(pa.string(), of_whole=attrgetter("digest")),
    "phash": Fact(pa.uint64(), of_whole=attrgetter("phash")),
    "problem": Fact(pa.string()),
}
"""Column -> its fact, in the order of a manifest."""

FACTS = SCHEMA.keys()

OF_WHOLE_FILES = ("digest", "phash")
"""Those that only a file decoded to its end tells."""


def has_whole_facts(schema: pa.Schema) -> bool:
    """Whether a table has the facts of whole files; a `digest` alone is a column of its owner's."""
    return all(name in schema.names for name in OF_WHOLE_FILES)
