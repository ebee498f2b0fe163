"""Feature specs: how columns of the manifest become arrays of the batch.

Three sorts. A column feature (`Category`, `MultiLabel`, `Number`, `Text`) is known from the table
alone: `encode` turns the whole column into a compact form once, and a batch is a `gather`. A row
feature is made row by row: `read` fills the array of one, from a file (`Image`, `Array`, `Bytes`)
or by a function (`Column`). What lies on an image (`Mask`, `Boxes`) is made after it, with its
geometry.
"""

from dfgen.samples.features.array import Array as Array
from dfgen.samples.features.base import Spec as Spec
from dfgen.samples.features.boxes import Boxes as Boxes
from dfgen.samples.features.category import Category as Category
from dfgen.samples.features.category import Number as Number
from dfgen.samples.features.column import Column as Column
from dfgen.samples.features.image import Image as Image
from dfgen.samples.features.mask import Mask as Mask
from dfgen.samples.features.multilabel import MultiLabel as MultiLabel
from dfgen.samples.features.text import Bytes as Bytes
from dfgen.samples.features.text import Text as Text

ColumnFeature = Number | Category | MultiLabel | Text
FileFeature = Image | Array | Bytes
RowFeature = FileFeature | Column
ImageFollower = Mask | Boxes
Feature = ColumnFeature | RowFeature | ImageFollower
