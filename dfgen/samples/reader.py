"""SampleReader: one row of the manifest to the arrays of one sample."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import DecodeError, MissingFileError, TransformError
from dfgen.samples.features import ColumnFeature, Feature, FileFeature, Spec, Watch, unwatched
from dfgen.samples.storage.files import Files

Values = npt.NDArray[Any]
Sample = dict[str, Values]
Transform = Callable[[Sample, np.random.Generator], Sample]


@dataclass(frozen=True)
class Part:
    """One array of the batch: its name, its feature, and what each row holds for it.

    `values` are the encoded numbers of a column feature, or the Arrow paths of a file feature; of
    rows of array files, structs of `path` and `index`.
    """

    name: str
    feature: Feature
    values: Values | pa.Array

    @property
    def paths(self) -> pa.Array:
        """The paths of a file feature."""
        if isinstance(self.values, pa.StructArray):
            return self.values.field("path")
        return self.values

    @property
    def spec(self) -> Spec:
        """Shape and dtype of one sample of this part."""
        if isinstance(self.feature, FileFeature):
            return self.feature.spec
        example = self.feature.gather(self.values[:1])
        return Spec(example.shape[1:], example.dtype)


@dataclass(frozen=True)
class SampleReader:
    """Makes samples from rows: a pure function of the row and of one random generator.

    Args:
        ids: the id of every row, NumPy or Arrow.
        parts: the arrays of a sample.
        transform: `transform(sample, rng) -> sample`, after resize and before scale, or None.
        store: where the bytes are.
    """

    ids: Values | pa.Array
    parts: tuple[Part, ...]
    transform: Transform | None = None
    store: Files = field(default_factory=Files)

    def __len__(self) -> int:
        return len(self.ids)

    def id(self, row: int) -> object:
        """Return the id of a row as a plain int or str."""
        value = self.ids[row]
        if isinstance(value, pa.Scalar):
            return value.as_py()
        return value.item() if isinstance(value, np.generic) else value

    @cached_property
    def reads_rows(self) -> bool:
        """Whether there is anything to do row by row: files to read, or a transform."""
        return bool(self._files) or self.transform is not None

    @cached_property
    def _files(self) -> list[tuple[str, FileFeature, pa.Array, Spec | None]]:
        """What files are read for: name, feature, paths, and the spec of what comes in between.

        None: pixels go straight into the batch, where they are neither transformed nor scaled.
        """
        return [
            (part.name, feature, part.values, self._between(feature))
            for part in self.parts
            if isinstance(feature := part.feature, FileFeature)
        ]

    def _between(self, feature: FileFeature) -> Spec | None:
        straight = self.transform is None and feature.sample_spec == feature.spec
        return None if straight else feature.sample_spec

    @cached_property
    def _columns(self) -> list[tuple[str, ColumnFeature, Values]]:
        """What the table alone knows: name, feature, encoded values."""
        return [
            (part.name, feature, part.values)
            for part in self.parts
            if isinstance(feature := part.feature, ColumnFeature)
        ]

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill what the table alone knows, for all rows of a batch at once."""
        for name, feature, values in self._columns:
            out[name][...] = feature.gather(values[rows])

    def read(
        self,
        row: int,
        out: Mapping[str, Values],
        rng: np.random.Generator | None,
        watch: Watch = unwatched,
    ) -> None:
        """Fill what a row's files hold, then transform the sample.

        Args:
            row: which row.
            out: name -> the sample's slice of the batch; column features are there already.
            rng: the sample's random generator; used by the transform only.
            watch: is told each stage as it begins.

        Raises:
            DfgenError: of the kind that fits, naming the row's id and path.
        """
        sample: Sample = dict(out)
        try:
            for name, feature, values, spec in self._files:
                if spec is not None:
                    sample[name] = np.empty(spec.shape, spec.dtype)
                feature.read(values[row].as_py(), sample[name], self.store, watch)
        except (DecodeError, MissingFileError) as error:
            raise type(error)(f"{self.where(row)}: {error}") from error
        except MemoryError:
            raise
        except Exception as error:  # a decoder that raises what it never should
            raise DecodeError(f"{self.where(row)}: {type(error).__name__}: {error}") from error
        if self.transform is not None:
            watch("transform")
            sample = self._transformed(row, sample, rng)
            for name, _, _ in self._columns:
                out[name][...] = sample[name]
        for name, feature, _, spec in self._files:
            if spec is not None:
                feature.finish(sample[name], out[name])

    def _transformed(self, row: int, sample: Sample, rng: np.random.Generator | None) -> Sample:
        """Run the user's transform, and check that it gives back what it was given."""
        expected = {name: (value.shape, value.dtype) for name, value in sample.items()}
        try:
            result = self.transform(dict(sample), rng)  # type: ignore[misc, arg-type]
        except Exception as error:
            raise TransformError(
                f"{self.where(row)}: the transform raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(result, dict) or result.keys() != expected.keys():
            got = list(result) if isinstance(result, dict) else type(result).__name__
            raise TransformError(
                f"{self.where(row)}: the transform returned {got}, expected a dict with the keys "
                f"{list(expected)}"
            )
        try:
            arrays = {name: np.asarray(value) for name, value in result.items()}
        except ValueError as error:
            raise TransformError(
                f"{self.where(row)}: the transform returned what is no array: {error}"
            ) from error
        for name, (shape, dtype) in expected.items():
            value = arrays[name]
            if value.shape != shape or value.dtype != dtype:
                raise TransformError(
                    f"{self.where(row)}: the transform returned {name!r} as {value.dtype} of shape "
                    f"{value.shape}, expected {dtype} of shape {shape}"
                )
        return arrays

    def where(self, row: int) -> str:
        """Return the id and paths of a row, for messages."""
        paths = [
            f"{feature.column}={values[row].as_py()!r}" for _, feature, values, _ in self._files
        ]
        return ", ".join([f"row id={self.id(row)!r}", *paths])
