"""Sources of rows, one a file.

A source is a function that returns `Rows`. The argument of `build_manifest` that selects it is its
first parameter; the others are `pattern` (parsed), `limits`, `options` and other arguments.
"""

from collections.abc import Callable

from dfgen.manifest.sources.coco import read_coco
from dfgen.manifest.sources.file_tree import read_tree
from dfgen.manifest.sources.source import Rows
from dfgen.manifest.sources.voc import read_voc
from dfgen.manifest.sources.yolo import read_yolo

SOURCES: dict[str, Callable[..., Rows]] = {
    "source": read_tree,
    "voc": read_voc,
    "coco": read_coco,
    "yolo": read_yolo,
}
