"""Items: several files in one row, such as views, frames of a video, or the images of a bag."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from dfgen.errors import (
    ArgumentError,
    DecodeError,
    ManifestError,
    MissingFileError,
    ReadError,
    TransformError,
)
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Feature
from dfgen.samples.features.one_row import files_among
from dfgen.samples.reader import BoundRows
from dfgen.spec import OwnDtype, Values, Watch, alone, each
from dfgen.stores.store import Store
from dfgen.table.arrow_types import is_list, lengths_of
from dfgen.table.file_columns import content_shown

_AS_ITS_ITEM = ("kind", "column", "follows", "like", "is_random")


@dataclass(frozen=True, repr=False)
class Items(Feature):
    """A feature for each of the files in a list: its arrays, one after the other, are one array.

    Chance decides once for all files of a row. `count` is how many each row has; None: they differ.
    """

    item: Feature
    count: int | None
    of_files = True
    pixel_kind = "map"

    def __post_init__(self) -> None:
        for name in _AS_ITS_ITEM:
            object.__setattr__(self, name, getattr(self.item, name))
        for name in ("max_items", "scale"):  # of images alone
            object.__setattr__(self, name, getattr(self.item, name, None))

    def arrays(self, name: str) -> Any:
        """Return the names of its arrays: with `max_items` there is one that tells padding."""
        return self.item.arrays(name)

    @property
    def spec(self) -> Any:
        """The array that the model gets."""
        return self._several(self.item.spec)

    def read_spec(self, transform: bool) -> Any:
        """Return the array that `read` fills: all items of a row in one."""
        return self._several(self.item.read_spec(transform))

    def _several(self, spec: Any) -> Any:
        found = [replace(one, shape=(self.count, *one.shape)) for one in each(spec)]
        return alone(tuple(found))

    def frozen(self, values: Any) -> Any:
        """Return what each file becomes, which finds by itself what a row by hand holds."""
        return self.item

    def draw(self, rng: np.random.Generator) -> Any:
        """Return what chance decides for one sample, for all of its items alike."""
        return self.item.draw(rng)

    def read(self, value: list[Any], out: Any, store: Store, watch: Watch, given: Any) -> list[Any]:
        """Fill its array with what the files of one row hold, one after the other."""
        told = []
        for place, path in enumerate(value):
            one = given[place] if self.follows else given
            part = _Part(out, place) if isinstance(out, OwnDtype) else out[place]
            try:
                told.append(self.item.read(path, part, store, watch, one))
            except (DecodeError, MissingFileError, ReadError) as error:
                what = f"{content_shown(path)}, item {place} of its list"
                raise type(error)(f"{what}: {error}") from error
        return told

    def finish(self, sample: Any, out: Any) -> None:
        """Bring a sample, after its transform, into the form that the batch has."""
        if len(sample) != len(out):
            raise TransformError(
                f"the transform returned {len(sample)} items of {self.column!r}, expected "
                f"{len(out)}"
            )
        for one, into in zip(sample, out, strict=True):
            self.item.finish(one, into)

    def __repr__(self) -> str:
        return repr(self.item)


class _Part(OwnDtype):
    def __init__(self, whole: OwnDtype, place: int) -> None:
        super().__init__(whole.shape[1:])
        self._whole, self._place = whole, place

    def of(self, dtype: Any) -> Values:
        """Return the item's part of the array, made when it is first asked for."""
        part: Values = self._whole.of(dtype)[self._place]
        return part


def in_lists(feature: Any, values: Any, followed: Any = None) -> Feature:
    """Return a feature that knows the image it follows, or its Items if its column holds lists.

    Args:
        feature: as x or y have it.
        values: what its `bind` has returned.
        followed: the image that it follows, if any.
    """
    if followed is not None:
        feature = replace(feature, like=followed)
    what = f"{type(feature).__name__}({feature.column!r})"
    files, most = files_among(feature, values), getattr(feature, "max_items", None)
    if files is None or not is_list(files.type):
        if most is None or not feature.of_files:
            return feature  # type: ignore[no-any-return]
        raise ArgumentError(
            f"{what} has max_items={most}, which is for a list of files in each row, "
            f"but the column holds {'none' if files is None else files.type}: leave it out"
        )
    if feature.pixel_kind is None:
        raise ArgumentError(
            f"{what} takes one file in each row, but the column holds a list of files: lists are "
            f"for dfgen.Image and dfgen.Mask. Give each file a row, df.explode({feature.column!r})"
        )
    image = feature.image if feature.follows else feature
    if getattr(image, "variable_size", False):
        raise ArgumentError(
            f"{what} is of images that keep their own sizes, size=None, but the column holds a "
            "list of files, whose images make one array: give a size"
        )
    differ = getattr(image, "max_items", None) is not None
    return Items(feature, None if differ else len(files[0]))


def check_lists(reader: BoundRows) -> None:
    """Refuse lists of paths that are empty, incomplete, or not as long as they should be."""
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
