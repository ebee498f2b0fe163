"""SampleReader: reads one row of the manifest, with its features, into the arrays of one sample."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen import errors
from dfgen.errors import DecodeError, MissingFileError, ReadError, TransformError, located
from dfgen.samples.features.base import Feature, Reading, TableFeature, specs_of, value_of
from dfgen.samples.features.image import Image
from dfgen.samples.sources import FileSource, RowSource
from dfgen.samples.transforms import Sample, Transform, transformed, without_blanks
from dfgen.spec import IntArray, LazyArray, Present, Spec, Values, Watch, empty, unwatched
from dfgen.stores.stores import Stores, is_remote
from dfgen.table.arrow_types import MappedColumn, content_parts, content_shown

Sizes = npt.NDArray[np.int32]
"""(height, width) of the upright image of every row, shape (rows, 2)."""

RowLengths = npt.NDArray[np.int32]
"""Lengths of the first axes of an array in every row, shape (rows, axes)."""


@dataclass(frozen=True)
class BoundFeature:
    """A feature, its name in x or y, and `values`, the result of its `bind`.

    `like` is the name of the followed image; `present` tells which rows have the feature (None:
    all). The values of other rows are undefined.
    """

    name: str
    feature: Feature
    values: Any
    like: str | None = None
    present: Present | None = None

    @cached_property
    def arrays(self) -> dict[str, str]:
        """Key in the batch -> name of an array; the key of a single array is ""."""
        names = self.feature.arrays(self.name)
        return {"": names} if isinstance(names, str) else names

    def gather(self, rows: IntArray) -> Values:
        """Return the arrays of some rows of a TableFeature, blank where missing."""
        feature: Any = self.feature
        if self.present is None:
            return feature.gather(self.values, rows)  # type: ignore[no-any-return]
        spec, present = feature.spec, self.present[rows]
        arrays = np.full((len(rows), *spec.shape), spec.blank, spec.dtype)
        arrays[present] = feature.gather(self.values, rows[present])
        return arrays

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample."""
        specs = [*specs_of(self.feature)]
        if "padding_mask" in self.arrays:
            pixels = specs[0].pixels
            shape, blank = ((None, None, 1), False) if pixels else ((None,), True)
            specs.append(Spec(shape, np.dtype(np.bool_), blank, pixels=pixels))
        return dict(zip(self.arrays.values(), specs, strict=True))

    @property
    def variable_size(self) -> bool:
        """Whether it is an image with `size=None`."""
        return isinstance(self.feature, Image) and self.feature.size is None

    @cached_property
    def array_rows(self) -> pa.StructArray | None:
        """The structs of `path` and `index` of every row, if it reads rows of array files."""
        is_rows = self.feature.of_files and getattr(self.feature, "index", None) is not None
        return self.values if is_rows else None

    @cached_property
    def files(self) -> pa.Array | None:
        """The paths or bytes of all rows, or None if it reads no files."""
        if not self.feature.of_files:
            return None
        return self.values if len(self.feature.columns) == 1 else self.values.field(0)

    def path(self, row: int) -> str | None:
        """Return the path of a row's file, or None for bytes and missing files."""
        if self.files is None or not (self.present is None or self.present[row]):
            return None
        data, path = content_parts(value_of(self.files, row))
        return path if data is None else None


@dataclass(frozen=True, eq=False)
class Padding:
    """The padded arrays of a batch; empty if all rows have one shape."""

    sizes: dict[str, RowLengths] = field(default_factory=dict)  # array name -> lengths
    fills: dict[str, float] = field(default_factory=dict)  # array name -> padding value
    masks: dict[str, RowLengths] = field(default_factory=dict)  # name of a padding mask -> lengths

    def specs(self, rows: Any, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """Return the Specs of a batch of rows, with the largest lengths among them."""
        padded = dict(specs)
        for name, sizes in (self.sizes | self.masks).items():
            largest = sizes[rows].max(axis=0, initial=1).tolist()
            shape = (*largest, *specs[name].shape[len(largest) :])
            padded[name] = replace(specs[name], shape=shape)
        return padded

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill the padding masks of a batch."""
        for name, sizes in self.masks.items():
            out[name][...] = True
            for axis, lengths in enumerate(sizes[rows].T, start=1):
                along = np.moveaxis(out[name], axis, 1)
                along[np.arange(along.shape[1]) >= lengths[:, None]] = False

    def own(self, row: int, out: Mapping[str, Values]) -> dict[str, Values]:
        """Return a row's arrays cut to their own lengths, and fill their padding."""
        arrays = {name: array for name, array in out.items() if name not in self.masks}
        for name, sizes in self.sizes.items():
            for axis, length in enumerate(sizes[row].tolist()):
                array, before = arrays[name], (slice(None),) * axis
                if length < array.shape[axis]:
                    array[(*before, slice(length, None))] = self.fills[name]
                    arrays[name] = array[(*before, slice(length))]
        return arrays


@dataclass(frozen=True)
class BoundRows:
    """The rows of a manifest, and the features bound to them: images before their followers."""

    ids: Values | pa.Array | MappedColumn
    features: tuple[BoundFeature, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def id(self, row: int) -> object:
        """Return the id of a row as a plain int or str."""
        value = value_of(self.ids, row)
        return value.item() if isinstance(value, np.generic) else value

    def where(self, row: int) -> str:
        """Return the id and paths of a row, for messages."""
        paths = dict.fromkeys(
            f"{bound.feature.columns[0]}={content_shown(value_of(files, row))}"
            for bound in self.features
            if (files := bound.array_rows or bound.files) is not None
            and (bound.present is None or bound.present[row])
        )
        return errors.without_secrets(", ".join([f"row id={self.id(row)!r}", *paths]))


class RowStep(NamedTuple):
    """A feature whose arrays are filled row by row."""

    bound: BoundFeature
    source: RowSource
    of: Callable[[Mapping[str, Values]], Any]  # sample -> its array, or the tuple of its arrays
    between: dict[str, Spec]  # arrays that are not filled directly in the batch


@dataclass(frozen=True)
class SampleReader(BoundRows):
    """Makes samples from rows: a pure function of the row and of one random generator."""

    transform: Transform | None = None  # called after resize and before scale
    store: Stores = field(default_factory=Stores)
    sources: Mapping[str, RowSource] = field(default_factory=dict)  # by feature; default: files
    sizes: Mapping[str, Sizes] = field(default_factory=dict)  # by image with size=None

    def source(self, bound: BoundFeature) -> RowSource:
        """Return the source of a feature's arrays."""
        return self.sources.get(bound.name) or FileSource(bound.feature, bound.values)

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample, for every array of the batch."""
        return {name: spec for bound in self.features for name, spec in bound.specs.items()}

    @cached_property
    def by_array(self) -> dict[str, BoundFeature]:
        """Name of an array of the batch -> the feature that gives it."""
        return {name: bound for bound in self.features for name in bound.specs}

    @cached_property
    def present(self) -> dict[str, Present]:
        """Name of an array that may be missing -> which rows have it."""
        return {
            name: bound.present
            for bound in self.features
            if bound.present is not None
            for name in bound.specs
        }

    @cached_property
    def padding(self) -> Padding:
        """The arrays whose shape depends on the rows of the batch."""
        padding = Padding()
        for bound in self.features:
            sizes = self.sizes.get(bound.name, self.sizes.get(bound.like or ""))
            spec = specs_of(bound.feature)[0]
            if sizes is None or not (spec.pixels or spec.own_length):
                continue
            padding.sizes[bound.name], padding.fills[bound.name] = sizes, spec.blank
            if "padding_mask" in bound.arrays:
                padding.masks[bound.arrays["padding_mask"]] = sizes
        return padding

    @cached_property
    def steps(self) -> list[RowStep]:
        """The features that are read row by row, images before the features that follow them."""
        steps, transforms = [], self.transform is not None
        for bound in self.features:
            if isinstance(bound.feature, TableFeature):
                continue
            specs = specs_of(bound.feature)
            stages = [spec.stage(transforms) for spec in specs]
            direct = not transforms and stages == [*specs]
            names = [name for key, name in bound.arrays.items() if key != "padding_mask"]
            between = {} if direct else dict(zip(names, stages, strict=True))
            steps.append(RowStep(bound, self.source(bound), itemgetter(*names), between))
        return steps

    @cached_property
    def taken(self) -> dict[str, RowSource]:
        """Array -> source that copies many rows at once, of arrays that nothing else depends on."""
        if self.transform is not None:
            return {}
        followed = {bound.like for bound in self.features}
        return {
            step.bound.name: step.source
            for step in self.steps
            if step.bound.present is None and step.bound.name not in followed
            if not step.between and step.source.is_as_wanted
        }

    @cached_property
    def others(self) -> list[RowStep]:
        """The steps whose arrays are not `taken`."""
        return [step for step in self.steps if step.bound.name not in self.taken]

    @cached_property
    def cached(self) -> list[Any]:
        """The caches of pixels and of remote packs."""
        caches = (source.cache for source in self.sources.values())
        return [*dict.fromkeys(cache for cache in caches if cache is not None)]

    @property
    def is_random(self) -> bool:
        """Whether samples need a random generator."""
        return bool(self._random) or self.transform is not None

    @property
    def functions(self) -> dict[str, object]:
        """The user's functions by a name for messages."""
        of_features = {
            f"{name} of {type(bound.feature).__name__}({bound.feature.columns[0]!r})": value
            for bound in self.features
            for name, value in vars(bound.feature).items()
            if callable(value) and not isinstance(value, Feature)
        }
        return {"transform": self.transform, **of_features}

    @cached_property
    def _random(self) -> dict[str, Feature]:
        return {bound.name: bound.feature for bound in self.features if bound.feature.is_random}

    @cached_property
    def _of_table(self) -> list[BoundFeature]:
        return [bound for bound in self.features if isinstance(bound.feature, TableFeature)]

    @cached_property
    def _between(self) -> dict[str, Spec]:
        return {name: spec for step in self.steps for name, spec in step.between.items()}

    @cached_property
    def _changed(self) -> dict[str, tuple[Any, ...]]:
        """Name -> shape after the transform, of arrays whose shape it may change."""
        changed = {}
        for name, seen in self._between.items():
            after = seen if seen.own_length else self.specs[name].stage(False)
            if after != seen or after.shape != self.specs[name].shape:
                changed[name] = after.shape
        return changed

    def gather(self, rows: IntArray, out: Mapping[str, Values]) -> None:
        """Fill the arrays of table features and the padding masks of a batch."""
        for bound in self._of_table:
            out[bound.name][...] = bound.gather(rows)
        self.padding.gather(rows, out)

    def take(self, rows: IntArray, out: Mapping[str, Values]) -> Present:
        """Fill the `taken` arrays; return for which rows all of them were there."""
        taken = np.ones(len(rows), np.bool_)
        for name, source in self.taken.items():
            present = source.take(rows, out[name])
            if present is not None:
                taken &= present
        return taken

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Prefetch rows, file by file."""
        for source in self.sources.values():
            yield from source.ahead(rows)

    def read(
        self,
        row: int,
        out: Mapping[str, Values],
        rng: Any,
        watch: Watch = unwatched,
        taken: bool = False,
    ) -> None:
        """Read a row's files, run its functions and the transform. Errors name id and path.

        Args:
            row: row number.
            out: name -> the sample's slice of the batch, with table features already filled.
            rng: for random features in order, then for the transform; None disables randomness.
            watch: callback for timing, called when a stage begins.
            taken: whether `take` has filled its arrays.
        """
        geometries: dict[str | None, Any] = {}
        drawn = {} if rng is None else {name: one.draw(rng) for name, one in self._random.items()}
        out = self.padding.own(row, out) if self.padding.sizes else out
        straight = self.transform is None and not self._between
        sample: Any = out if straight else dict(out)
        try:
            for step in self.others if taken else self.steps:
                name = step.bound.name
                for array, spec in step.between.items():
                    sample[array] = empty(spec, out[array].shape)
                geometry = geometries.get(step.bound.like)
                reading = Reading(self.store, watch, drawn.get(name), geometry)
                present = step.bound.present
                if present is None or present[row]:
                    geometries[name] = step.source.read(row, step.of(sample), reading)
                for array in step.between:
                    lazy = sample[array]
                    if isinstance(lazy, LazyArray):
                        sample[array] = lazy.of(np.uint8) if lazy.array is None else lazy.array
        except (DecodeError, MissingFileError, ReadError) as error:
            raise located(error, self.where(row)) from error
        except Exception as error:  # a bug in a feature
            error.add_note(f"while reading {self.where(row)}")
            raise
        if self.present:
            self._blank(row, sample)
        if straight:
            return
        try:
            self._finish(sample, out, rng, watch)
        except TransformError as error:
            raise located(error, self.where(row)) from error.__cause__
        self._blank(row, out)

    def _blank(self, row: int, arrays: Mapping[str, Values]) -> None:
        for name, present in self.present.items():
            if not present[row] and name in arrays:
                arrays[name][...] = self.specs[name].blank

    def _finish(self, sample: Sample, out: Mapping[str, Values], rng: Any, watch: Watch) -> None:
        if self.transform is not None:
            watch("transform")
            for name, spec in self._between.items():
                if spec.own_length and name not in self.padding.sizes:
                    sample[name] = without_blanks(sample[name], spec.blank)
            sample = transformed(self.transform, sample, rng, self._changed)
            for bound in self._of_table:
                out[bound.name][...] = sample[bound.name]
        watch("scale")
        for step in self.steps:
            if step.between:
                step.bound.feature.finish(step.of(sample), step.of(out))

    def paths(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield column and path of a row's files, except files in packs."""
        for bound in self.features:
            path, source = bound.path(row), self.sources.get(bound.name)
            if path is not None and not (source and source.packed):
                yield bound.feature.columns[0], path

    def remote_paths(self, row: int) -> list[str]:
        """Return the paths of a row's remote files that are read whole, in reading order."""
        whole = [bound for bound in self.features if len(bound.feature.columns) == 1]
        paths = [bound.path(row) for bound in whole if not self.source(bound).has(row)]
        return [path for path in paths if path is not None and is_remote(path)]
