"""Feature specs: how columns of the manifest become arrays of the batch.

One feature a file, and `base.py`, which says what each of them answers.
"""

from dfgen.samples.features.array import Array as Array
from dfgen.samples.features.base import Feature as Feature
from dfgen.samples.features.base import Spec as Spec
from dfgen.samples.features.boxes import Boxes as Boxes
from dfgen.samples.features.bytes import Bytes as Bytes
from dfgen.samples.features.category import Category as Category
from dfgen.samples.features.column import Column as Column
from dfgen.samples.features.image import Image as Image
from dfgen.samples.features.mask import Mask as Mask
from dfgen.samples.features.multilabel import MultiLabel as MultiLabel
from dfgen.samples.features.number import Number as Number
from dfgen.samples.features.text import Text as Text
