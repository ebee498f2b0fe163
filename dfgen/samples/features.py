"""Feature specs: how columns of the manifest become arrays of the batch.

Three sorts. A column feature (`Category`, `MultiLabel`, `Number`, `Text`) is known from the table
alone: `encode` turns the whole column into a compact form once, and a batch is a `gather`. A row
feature is made row by row: `read` fills the array of one, from a file (`Image`, `Array`, `Bytes`)
or by a function (`Column`). What lies on an image (`Mask`, `Boxes`) is made after it, with its
geometry.
"""

from dfgen.samples.arrays import Array as Array
from dfgen.samples.boxes import Boxes as Boxes
from dfgen.samples.column import Column as Column
from dfgen.samples.images import Image as Image
from dfgen.samples.masks import Mask as Mask
from dfgen.samples.multilabel import MultiLabel as MultiLabel
from dfgen.samples.spec import Spec as Spec
from dfgen.samples.strings import Bytes as Bytes
from dfgen.samples.strings import Text as Text
from dfgen.samples.tabular import Category as Category
from dfgen.samples.tabular import Number as Number

ColumnFeature = Number | Category | MultiLabel | Text
FileFeature = Image | Array | Bytes
RowFeature = FileFeature | Column
ImageFollower = Mask | Boxes
Feature = ColumnFeature | RowFeature | ImageFollower
