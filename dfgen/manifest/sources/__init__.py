"""Where rows come from: one source a file.

A source is a generator of `Chunk`s. A chunk holds rows as an Arrow table, all chunks of one run
have the same columns, and what a source leaves out is counted under a name that says why.
To add one: write its file, add its line to `SOURCES`, and let its test inherit `SourceContract`.
"""

from collections.abc import Callable, Iterator

from dfgen.manifest.sources.array_rows import read_arrays
from dfgen.manifest.sources.chunk import Chunk
from dfgen.manifest.sources.coco import read_coco
from dfgen.manifest.sources.folder import read_files
from dfgen.manifest.sources.listing import read_listing
from dfgen.manifest.sources.metadata import read_metadata
from dfgen.manifest.sources.table import read_rows
from dfgen.manifest.sources.voc import read_voc
from dfgen.manifest.sources.yolo import read_yolo

SOURCES: dict[str, Callable[..., Iterator[Chunk]]] = {
    "files": read_files,
    "table": read_rows,
    "voc": read_voc,
    "coco": read_coco,
    "yolo": read_yolo,
    "metadata": read_metadata,
    "listing": read_listing,
    "arrays": read_arrays,
}
