"""Feature specs: how columns of the manifest become arrays of the batch.

Three sorts. A column feature (`Category`, `Number`) is known from the table alone: `encode` turns
the whole column into numbers once, and a batch is a gather. A file feature (`Image`, `Array`)
names files: `read` fills the array of one row. What lies on an image (`Mask`, `Boxes`) is made
after it, with its geometry.
"""

from dfgen.samples.arrays import Array as Array
from dfgen.samples.boxes import Boxes as Boxes
from dfgen.samples.images import Image as Image
from dfgen.samples.masks import Mask as Mask
from dfgen.samples.spec import Spec as Spec
from dfgen.samples.tabular import Category as Category
from dfgen.samples.tabular import Number as Number

ColumnFeature = Number | Category
FileFeature = Image | Array
ImageFollower = Mask | Boxes
Feature = ColumnFeature | FileFeature | ImageFollower
