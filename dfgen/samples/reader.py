"""SampleReader: one row of the manifest to the arrays of one sample."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen import errors
from dfgen.errors import DecodeError, MissingFileError, ReadError, TransformError, located
from dfgen.samples.bound_feature import BoundFeature, Padding, Sizes, padding_of
from dfgen.samples.features.base import Feature, Reading, specs_of, value_of
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.samples.transforms import Sample, Transform, transformed, without_blanks
from dfgen.spec import IntArray, LazyArray, Present, Spec, Values, Watch, empty, unwatched
from dfgen.stores.store import Store
from dfgen.stores.stores import Stores, is_remote
from dfgen.table.file_columns import content_shown
from dfgen.table.mapped_column import MappedColumn


@dataclass(frozen=True)
class BoundRows:
    """The rows of a manifest, named in messages by id and paths, and the features bound to them."""

    ids: Values | pa.Array | MappedColumn
    features: tuple[BoundFeature, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def id(self, row: int) -> object:
        """Return the id of a row as a plain int or str."""
        value = self.ids[row]
        if isinstance(value, pa.Scalar):
            return value.as_py()
        return value.item() if isinstance(value, np.generic) else value

    @property
    def in_order(self) -> list[BoundFeature]:
        """The features, images before those that follow them."""
        return sorted(self.features, key=lambda bound: bound.like is not None)

    def where(self, row: int) -> str:
        """Return the id and paths of a row, for messages."""
        paths = dict.fromkeys(
            f"{bound.feature.columns[0]}={content_shown(value_of(files, row))}"
            for bound in self.in_order
            if (files := bound.array_rows or bound.files) is not None and bound.has(row)
        )
        return errors.without_secrets(", ".join([f"row id={self.id(row)!r}", *paths]))


class RowStep(NamedTuple):
    """How the arrays of one feature are made, one row after the other."""

    bound: BoundFeature
    source: RowSource
    of: Callable[[Mapping[str, Values]], Any]  # returns its array, or the tuple of several
    between: dict[str, Spec]  # of arrays that are not made straight in the batch


@dataclass(frozen=True)
class SampleReader(BoundRows):
    """Makes samples from rows: a pure function of the row and of one random generator.

    Args:
        ids, features: as of `BoundRows`.
        transform: `transform(sample, rng) -> sample`, after resize and before scale, or None.
        store: where the bytes are.
        sources: name of a feature -> where its arrays come from; others read their files.
        sizes: name of an image that keeps its size -> (height, width) of every row.
    """

    transform: Transform | None = None
    store: Stores = field(default_factory=Stores)
    sources: Mapping[str, RowSource] = field(default_factory=dict)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)

    def source(self, bound: BoundFeature) -> RowSource:
        """Return where the arrays of a feature come from."""
        return self.sources.get(bound.name) or FileSource(bound.feature, bound.values)

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample, of every array of the batch."""
        return {name: spec for bound in self.features for name, spec in bound.specs.items()}

    @cached_property
    def present(self) -> dict[str, Present]:
        """Name of an array that rows may lack -> which rows have it."""
        return {name: bound.present for bound in self._lacking for name in bound.specs}  # type: ignore[misc]

    @cached_property
    def padding(self) -> Padding:
        """The arrays whose shape depends on the images of the batch."""
        return padding_of(self.features, self.sizes)

    @cached_property
    def reads_rows(self) -> bool:
        """Whether there is anything to do row by row: files to read, or functions to run."""
        return bool(self.steps) or self.transform is not None

    @cached_property
    def taken(self) -> dict[str, RowSource]:
        """Array -> source whose pixels go into the batch as they are, and that nothing follows."""
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
        """The steps that make the arrays that are not `taken`."""
        return [step for step in self.steps if step.bound.name not in self.taken]

    @cached_property
    def cached(self) -> list[Any]:
        """The caches of pixels, and of remote packs."""
        found = (source.cache for source in self.sources.values())
        return [*dict.fromkeys(cache for cache in found if cache is not None)]

    @cached_property
    def is_random(self) -> bool:
        """Whether samples need a random generator."""
        return bool(self._random) or self.transform is not None

    @cached_property
    def _random(self) -> dict[str, Feature]:
        return {bound.name: bound.feature for bound in self.features if bound.feature.is_random}

    @property
    def functions(self) -> dict[str, object]:
        """The functions of the user by what they are called."""
        given = {
            f"{name} of {type(bound.feature).__name__}({bound.feature.columns[0]!r})": value
            for bound in self.features
            for name, value in vars(bound.feature).items()
            if callable(value) and not isinstance(value, Feature)
        }
        return {"transform": self.transform, **given}

    @cached_property
    def _lacking(self) -> list[BoundFeature]:
        return [bound for bound in self.features if bound.present is not None]

    @cached_property
    def _of_table(self) -> list[BoundFeature]:
        return [bound for bound in self.features if bound.is_of_table]

    @cached_property
    def steps(self) -> list[RowStep]:
        """The steps that are made row by row: images before what lies on them."""
        return [
            RowStep(bound, self.source(bound), itemgetter(*bound.read_names), self._between(bound))
            for bound in self.in_order
            if not bound.is_of_table
        ]

    def _between(self, bound: BoundFeature) -> dict[str, Spec]:
        """Return name -> Spec of what comes between a row and the batch, if anything does."""
        specs = specs_of(bound.feature)
        seen = [spec.stage(self.transform is not None) for spec in specs]
        if self.transform is None and seen == [*specs]:
            return {}
        return dict(zip(bound.read_names, seen, strict=True))

    @property
    def _seen(self) -> dict[str, Spec]:
        return {name: spec for step in self.steps for name, spec in step.between.items()}

    @cached_property
    def _is_straight(self) -> bool:
        """Whether a row is done when its files are read and its functions have run."""
        return self.transform is None and not self._seen

    @cached_property
    def _changed(self) -> dict[str, tuple[Any, ...]]:
        """The arrays that a transform may return in another shape than it got."""
        changed = {}
        for name, seen in self._seen.items():
            after = seen if seen.own_length else self.specs[name].stage(False)
            if after != seen or after.shape != self.specs[name].shape:
                changed[name] = after.shape
        return changed

    @cached_property
    def _of_any_length(self) -> dict[str, Any]:
        """Name of an array whose length each row has for itself -> its blank."""
        own = {name: spec for name, spec in self._seen.items() if spec.own_length}
        return {name: own[name].blank for name in own.keys() - self.padding.sizes.keys()}

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill what the table alone holds, for all rows of a batch at once."""
        for bound in self._of_table:
            out[bound.name][...] = bound.gather(rows)
        self.padding.gather(rows, out)

    def take(self, rows: IntArray, out: Mapping[str, Values]) -> Present:
        """Fill what is stored just as the batch wants it; return for which rows it was there."""
        taken = np.ones(len(rows), np.bool_)
        for name, pixels in self.taken.items():
            there = pixels.take(rows, out[name])
            if there is not None:
                taken &= there
        return taken

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have what is stored of some rows read, file by file."""
        for source in self.sources.values():
            yield from source.ahead(rows)

    def read(
        self,
        row: int,
        out: Mapping[str, Values],
        rng: Any,
        watch: Watch = unwatched,
        taken: bool = False,
        store: Store | None = None,
    ) -> None:
        """Fill what a row's files hold and its functions return, then transform the sample.

        Errors name the row's id and path.

        Args:
            row: which row.
            out: name -> the sample's slice of the batch; arrays of the table are there already.
            rng: for random features in order, then the transform; None: no chance.
            watch: callback for timing, as each stage begins.
            taken: whether `take` has filled what it can.
            store: reads the files in place of its own.
        """
        store = store or self.store
        geometries: dict[str | None, Any] = {}
        drawn = {} if rng is None else {name: one.draw(rng) for name, one in self._random.items()}
        out = self.padding.own(row, out) if self.padding.sizes else out
        sample: Any = out if self._is_straight else dict(out)
        try:
            for step in self.others if taken else self.steps:
                name = step.bound.name
                for array, spec in step.between.items():
                    sample[array] = empty(spec, out[array].shape)
                geometry = geometries.get(step.bound.like)
                reading = Reading(store, watch, drawn.get(name), geometry)
                present = step.bound.present
                if present is None or present[row]:
                    geometries[name] = step.source.read(row, step.of(sample), reading)
                for array in step.between:
                    lazy = sample[array]
                    if isinstance(lazy, LazyArray):
                        sample[array] = lazy.of(np.uint8) if lazy.array is None else lazy.array
        except (DecodeError, MissingFileError, ReadError) as error:
            raise located(error, self.where(row)) from error
        except Exception as error:  # which no file and no function of the user raises
            error.add_note(f"while reading {self.where(row)}")
            raise
        if self._lacking:
            self._blank(row, sample)
        if self._is_straight:
            return
        try:
            self._finish(sample, out, rng, watch)
        except TransformError as error:
            raise located(error, self.where(row)) from error.__cause__
        if self._lacking:
            self._blank(row, out)

    def _blank(self, row: int, arrays: Mapping[str, Values]) -> None:
        for bound in self._lacking:
            if not bound.has(row):
                for name in arrays.keys() & bound.specs:
                    arrays[name][...] = bound.specs[name].blank

    def _finish(self, sample: Sample, out: Mapping[str, Values], rng: Any, watch: Watch) -> None:
        if self.transform is not None:
            watch("transform")
            for name, blank in self._of_any_length.items():
                sample[name] = without_blanks(sample[name], blank)
            sample = transformed(self.transform, sample, rng, self._changed)
            for bound in self._of_table:
                out[bound.name][...] = sample[bound.name]
        watch("scale")
        for step in self.steps:
            if step.between:
                step.bound.feature.finish(step.of(sample), step.of(out))

    def paths(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield column and path of every file that a row is read from, none for bytes and packs."""
        for bound in self.in_order:
            packed = self.source(bound).files.packed
            if not packed and (path := bound.path(row)) is not None:
                yield bound.feature.columns[0], path

    def remote_paths(self, row: int) -> list[str]:
        """Return the paths of a row's files that are far, and read as a whole, as they are read."""
        whole = (bound for bound in self.in_order if len(bound.feature.columns) == 1)
        found = (bound.path(row) for bound in whole if not self.source(bound).has(row))
        return [path for path in found if path is not None and is_remote(path)]
