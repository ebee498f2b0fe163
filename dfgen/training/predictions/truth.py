"""What rows of a target hold, as a person would write it."""

from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.category import Category
from dfgen.samples.features.number import Number
from dfgen.samples.features.ragged import Ragged
from dfgen.spec import Present
from dfgen.table.arrow_types import is_text, lists_of, with_ends


def truth(bound: BoundFeature, rows: slice, lacking: Present) -> Any:
    """Return names, numbers or paths of some rows, null for those that lack the target.

    Returns:
        An Arrow array, of boxes a tuple of two; None where only arrays could say it.
    """
    feature, values = bound.feature, bound.values
    names = pa.array(feature.class_names or ())
    if isinstance(feature, Category):
        return pa.DictionaryArray.from_arrays(pa.array(values[rows], mask=lacking), names)
    if isinstance(feature, Number):
        found = values[rows]
        return pa.array(found, mask=lacking) if found.ndim == 1 else lists_of(found, lacking)
    if isinstance(values, Ragged) and feature.kind in ("label", "boxes"):
        ends = values.offsets[rows.start : rows.stop + 1]
        *boxes, numbers = (array[ends[0] : ends[-1]] for array in values.arrays)
        labels: Any = pa.array(numbers)
        labels = names.take(labels) if feature.class_names else labels
        whole = [lists_of(one, np.zeros(len(one), np.bool_)) for one in boxes]
        found = [with_ends(one, ends - ends[0], lacking) for one in (*whole, labels)]
        return tuple(found) if boxes else found[0]
    files = bound.files
    if not isinstance(files, pa.Array) or not is_text(files.type):
        return None
    # not if_else, which in pyarrow 15 damages text that begins in the middle of an array
    return files.take(pa.array(np.arange(len(files))[rows], mask=lacking))
