"""Sources of rows, one a file.

A source yields `RowGroup`s and says in a `Source` which arguments it takes. The command's options,
the keys of recipes with their checks, and which of them are paths follow from that.
To add one: write its file, add its line to `SOURCES`, let its test inherit `SourceContract`, and
give its arguments to `build_manifest`, whose signature a test compares.
"""

from dfgen.manifest.sources.coco import COCO
from dfgen.manifest.sources.file_tree import FILES
from dfgen.manifest.sources.source import Source
from dfgen.manifest.sources.voc import VOC
from dfgen.manifest.sources.yolo import YOLO

SOURCES: dict[str, Source] = {
    "source": FILES,
    "voc": VOC,
    "coco": COCO,
    "yolo": YOLO,
}
