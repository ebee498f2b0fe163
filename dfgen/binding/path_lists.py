"""Columns that hold a list of paths in each row: whether every row has what it should."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import BoundRows
from dfgen.table.arrow_types import lengths_of


def check_lists(reader: BoundRows) -> None:
    """Refuse lists of paths that are empty, incomplete, too long, or not as long as they should be.

    Raises:
        ManifestError: there are such; with the id of the first row.
    """
    named = {bound.name: bound for bound in reader.features}
    for bound in reader.features:
        column, followed = bound.feature.column, named.get(bound.like or "")
        if followed is not None and followed.has_lists != bound.has_lists:
            several = followed if followed.has_lists else bound
            raise ManifestError(
                f"column {column!r} goes with {followed.feature.column!r}, but only "
                f"{several.feature.column!r} holds a list of files in each row: give both a list, "
                "or both one file"
            )
        for wrong, fault, advice in _faults(bound, followed) if bound.has_lists else ():
            wrong = wrong if bound.present is None else wrong & bound.present
            if wrong.any():
                row = int(wrong.argmax())
                held = bound.values[row].as_py()
                raise ManifestError(
                    f"column {column!r} of row id={reader.id(row)!r} {fault.format(n=len(held))} "
                    f"({wrong.sum():,} such rows): {advice}"
                )


Fault = tuple[npt.NDArray[np.bool_], str, str]
"""Which rows have it, what it is, and what to do."""


def _faults(bound: BoundFeature, followed: BoundFeature | None) -> Iterator[Fault]:
    column, lengths = bound.feature.column, lengths_of(bound.values)
    drop = f"drop them, df = df[df[{column!r}].str.len() > 0]"
    yield lengths == 0, "has no paths", drop
    where = np.append(0, np.cumsum(lengths))
    missing = pc.indices_nonzero(pc.is_null(bound.files)).to_numpy()
    without = np.zeros(len(lengths), np.bool_)
    without[np.searchsorted(where, missing, side="right") - 1] = True
    yield without, "has a list of {n} paths, some of them missing", "leave these out"
    if followed is not None:
        others = lengths_of(followed.values)
        row = int((lengths != others).argmax())
        other = f"column {followed.feature.column!r} one of {others[row]}"
        yield lengths != others, f"has a list of {{n}} paths, {other}", "give both as many"
    elif (most := getattr(bound.feature, "max_items", None)) is not None:
        advice = f"write dfgen.Image({column!r}, max_items={lengths.max()})"
        yield lengths > most, f"has a list of {{n}} paths, more than max_items={most}", advice
    else:
        advice = f"for lists of different lengths write dfgen.Image({column!r}, max_items="
        first = "has a list of {n} paths, the first row one of " + str(lengths[0])
        yield lengths != lengths[0], first, f"{advice}{lengths.max()})"
