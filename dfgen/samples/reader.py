"""SampleReader: one row of the manifest to the arrays of one sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import DecodeError, MissingFileError, TransformError
from dfgen.samples.bound_feature import Part, labels_of
from dfgen.samples.features import Column, ColumnFeature, FileFeature, RowFeature
from dfgen.samples.features.base import Spec, Values, Watch, unwatched
from dfgen.samples.features.boxes import Boxes, BoxRows
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.padding import Padding, padding_of
from dfgen.samples.pixels.geometry import Draw
from dfgen.samples.storage.files import Files
from dfgen.samples.transforms import Sample, Transform, transformed


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
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample, of every array of the batch."""
        return {name: spec for part in self.parts for name, spec in part.specs.items()}

    @cached_property
    def padding(self) -> Padding:
        """The arrays whose shape depends on the images of the batch."""
        return padding_of(self.parts)

    @cached_property
    def reads_rows(self) -> bool:
        """Whether there is anything to do row by row: files to read, or functions to run."""
        return bool(self._made) or self.transform is not None

    @cached_property
    def is_random(self) -> bool:
        """Whether samples need a random generator."""
        return bool(self._random) or self.transform is not None

    @property
    def functions(self) -> dict[str, object]:
        """The user's own functions by what they are called."""
        columns = (part.feature for part in self.parts if isinstance(part.feature, Column))
        return {
            "transform": self.transform,
            **{f"fn of Column({c.names!r})": c.fn for c in columns},
        }

    @cached_property
    def _random(self) -> dict[str, Image]:
        return {
            part.name: part.feature
            for part in self.parts
            if isinstance(part.feature, Image) and part.feature.is_random
        }

    @cached_property
    def _made(self) -> list[tuple[str, RowFeature, pa.Array, Spec | None]]:
        """What is made row by row: name, feature, values, and the spec of what comes in between.

        None: pixels go straight into the batch, where they are neither transformed nor scaled.
        """
        return [
            (part.name, feature, part.values, self._between(feature))
            for part in self.parts
            if isinstance(feature := part.feature, RowFeature)
        ]

    @cached_property
    def _masks(self) -> list[tuple[str, Mask, pa.Array, Spec | None, str | None]]:
        """What follows an image: as of files, and the image's name."""
        return [
            (part.name, feature, part.values, self._between(feature), part.like)
            for part in self.parts
            if isinstance(feature := part.feature, Mask)
        ]

    @cached_property
    def _boxes(self) -> list[tuple[Part, Boxes, BoxRows, str | None]]:
        return [
            (part, feature, part.values, part.like)
            for part in self.parts
            if isinstance(feature := part.feature, Boxes)
        ]

    @cached_property
    def _is_straight(self) -> bool:
        """Whether a row is done when its files are read and its functions have run."""
        return not (self.transform or self._scaled or self._masks or self._boxes)

    def _between(self, feature: RowFeature | Mask) -> Spec | None:
        if self.transform is not None:
            return feature.sample_spec
        return None if feature.made_spec == feature.spec else feature.made_spec

    @cached_property
    def _changed(self) -> dict[str, Spec]:
        """What a transform may give back of another shape than it got."""
        changed = {
            part.name: part.feature.made_spec
            for part in self.parts
            if isinstance(part.feature, RowFeature | Mask)
            and part.feature.made_spec != part.feature.sample_spec
        }
        for part, boxes, _, _ in self._boxes:
            changed |= zip((part.name, labels_of(part.name)), boxes.sample_specs, strict=True)
        return changed

    @cached_property
    def _columns(self) -> list[tuple[str, ColumnFeature, Any]]:
        """What the table alone knows: name, feature, encoded values."""
        return [
            (part.name, feature, part.values)
            for part in self.parts
            if isinstance(feature := part.feature, ColumnFeature)
        ]

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill what the table alone knows, for all rows of a batch at once."""
        for name, feature, values in self._columns:
            out[name][...] = feature.gather(values, rows)
        self.padding.gather(rows, out)

    def read(
        self,
        row: int,
        out: Mapping[str, Values],
        rng: np.random.Generator | None,
        watch: Watch = unwatched,
    ) -> None:
        """Fill what a row's files hold and its functions return, then transform the sample.

        Args:
            row: which row.
            out: name -> the sample's slice of the batch; column features are there already.
            rng: the sample's random generator, where `is_random`: for random crops and flips, in
                the order of the parts, then for the transform.
            watch: is told each stage as it begins.

        Raises:
            DfgenError: of the kind that fits, naming the row's id and path.
        """
        draws = self._draw(rng) if self._random else {}
        out = self.padding.own(row, out) if self.padding.sizes else out
        sample: Any = out if self._is_straight else dict(out)
        try:
            geometries = {}
            for name, feature, values, spec in self._made:
                if spec is not None:
                    sample[name] = _between(spec, out[name])
                geometries[name] = feature.read(
                    values[row].as_py(), sample[name], self.store, watch, *draws.get(name, ())
                )
            if not self._is_straight:
                self._follow(row, sample, out, geometries, watch)
        except (DecodeError, MissingFileError) as error:
            raise type(error)(f"{self.where(row)}: {error}") from error
        except Exception as error:  # of nothing that a file or a function of the user's may raise
            error.add_note(f"while reading {self.where(row)}")
            raise
        if self._is_straight:
            return
        if self.transform is not None:
            watch("transform")
            sample = self._transformed(row, sample, rng)
            for name, _, _ in self._columns:
                out[name][...] = sample[name]
        self._finish(sample, out)

    def _draw(self, rng: Any) -> dict[str, tuple[Draw]]:
        return {name: (image.draw(rng),) for name, image in self._random.items()}

    def _follow(
        self, row: int, sample: Sample, out: Mapping[str, Values], geometries: Any, watch: Watch
    ) -> None:
        """Make what lies on the images."""
        for name, mask, values, spec, like in self._masks:
            if spec is not None:
                sample[name] = _between(spec, out[name])
            mask.read(values[row].as_py(), sample[name], self.store, geometries[like], watch)
        for part, boxes, rows, like in self._boxes:
            sample[part.name], sample[labels_of(part.name)] = boxes.sample(
                rows, row, geometries[like]
            )

    @cached_property
    def _scaled(self) -> list[tuple[str, RowFeature | Mask]]:
        """What does not go straight into the batch."""
        made = [(name, feature) for name, feature, _, spec in self._made if spec is not None]
        masks = [(name, mask) for name, mask, _, spec, _ in self._masks if spec is not None]
        return [*made, *masks]

    def _finish(self, sample: Sample, out: Mapping[str, Values]) -> None:
        """Bring the sample into the form that the batch has."""
        for name, feature in self._scaled:
            feature.finish(sample[name], out[name])
        for part, boxes, _, _ in self._boxes:
            names = part.name, labels_of(part.name)
            boxes.finish(sample[names[0]], sample[names[1]], (out[names[0]], out[names[1]]))

    def _transformed(self, row: int, sample: Sample, rng: Any) -> Sample:
        try:
            found = transformed(self.transform, sample, rng, self._changed)  # type: ignore[arg-type]
            for part, boxes, _, _ in self._boxes:
                boxes.check_transformed(found[part.name], found[labels_of(part.name)])
        except TransformError as error:
            raise TransformError(f"{self.where(row)}: {error}") from error
        return found

    def where(self, row: int) -> str:
        """Return the id and paths of a row, for messages."""
        paths = dict.fromkeys(
            f"{part.feature.column}={part.values[row].as_py()!r}"
            for kind in (FileFeature, Mask)
            for part in self.parts
            if isinstance(part.feature, kind) and part.paths is not None
        )
        return ", ".join([f"row id={self.id(row)!r}", *paths])


def _between(spec: Spec, out: Values) -> Values:
    """Return an array for what comes before `out`; a size that is None is that of `out`."""
    return np.empty(out.shape if None in spec.shape else spec.shape, spec.dtype)
