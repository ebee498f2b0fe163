"""Keypoints: named points of an object, and whether each is seen."""

from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError, DecodeError, ManifestError, TransformError
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.samples.features.boxes import NO_OBJECTS, PADDING
from dfgen.samples.features.image import Image
from dfgen.samples.features.one_row import ColumnSource
from dfgen.samples.pixels.geometry import Geometry
from dfgen.spec import IntArray, Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.system import whole
from dfgen.table import arrow_types as arrow


class PointRows(NamedTuple):
    """The objects of every row: those of row i stand at `offsets[i]` to `offsets[i + 1]`."""

    offsets: IntArray
    points: Values  # (objects, K, 3)


@dataclass(frozen=True, repr=False)
class Keypoints(Feature):
    """Points of the objects on an image as (x, y, visibility), from a column of annotations.

    Use it for the column `keypoints` of COCO and of YOLO's poses, to train a model that finds
    joints or landmarks. The points follow the resizing, crop and flip of their image. One that lies
    outside of it afterwards has visibility 0 and x and y of 0, as has one that was not annotated;
    an object whose points are all outside keeps its place. One whose points all lie outside of the
    file's image before is a damaged row: they are of another size of the image, or of another one.

    With `max_items` it is float32 (batch, max_items, count, 3), and -1 where there is no object;
    without, of one object in each row, (batch, count, 3).

    Args:
        column: the column of points: a list for each object, x, y and visibility of each point in
            turn; [] of an object without points. Visibility is COCO's: 0 not annotated, 1 hidden, 2
            seen. Without `max_items` the list of one object may stand by itself.
        like: which image they belong to, where there are several: the name of its array, or of its
            column. By hand, on one row: the `Image`.
        count: how many points an object has; 17 (default) as COCO's persons.
        max_items: how many objects the batch has room for; a row of more is an error. None
            (default): each row has one.
        flip_pairs: which points are each other's mirror image, ((1, 2), (3, 4), ...): the left and
            the right eye, the ears. They change places where the image is mirrored by its own
            `flip`; a transform that mirrors it leaves them.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row whose points are null holds
            -1, and weighs 0 in their loss.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = dfgen.Image(size=(256, 256), flip="horizontal")  # doctest: +SKIP
        >>> points = dfgen.Keypoints(max_items=5, flip_pairs=[(1, 2), (3, 4)])
        >>> dfgen.Sequence(df, x=image, y=points)
    """

    column: str = "keypoints"
    like: str | Image | None = None
    count: int = 17
    max_items: int | None = None
    flip_pairs: Any = ()
    missing: str = "raise"
    kind: ClassVar[str] = "keypoints"
    follows = True

    def __post_init__(self) -> None:
        check_column(self)
        object.__setattr__(self, "count", whole("count", self.count, least=1))
        if self.max_items is not None:
            object.__setattr__(self, "max_items", whole("max_items", self.max_items, least=1))
        try:
            pairs = tuple((index(one), index(other)) for one, other in self.flip_pairs)
        except (TypeError, ValueError):
            pairs = ((-1, -1),)
        numbers = [number for pair in pairs for number in pair]
        if len({*numbers}) < len(numbers) or not {*numbers} <= {*range(self.count)}:
            raise ArgumentError(
                "flip_pairs must be pairs of different points, numbered 0 to "
                f"{self.count - 1}, as ((1, 2), (3, 4)), got {self.flip_pairs!r}"
            )
        object.__setattr__(self, "flip_pairs", pairs)

    def read_spec(self, transform: bool) -> Spec:
        """Return the array that `read` fills."""
        several = () if self.max_items is None else (self.max_items,)
        return Spec((*several, self.count, 3), np.dtype(np.float32), PADDING)

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return self.read_spec(False)

    def bind(self, columns: ColumnSource) -> PointRows:
        """Return the points of every row; refuse lists of another number of points."""
        values = columns[self.column]
        where = arrow.offsets(self.column, values, NO_OBJECTS)
        objects = arrow.flattened(values)
        alone = self.max_items is None and arrow.are_numbers(objects.type)
        if alone:  # a row is an object
            objects, where = values, np.arange(len(values) + 1)
        self._check_counts(where)
        if not len(objects) or pa.types.is_null(objects.type):
            return PointRows(where, np.zeros((len(objects), self.count, 3), np.float32))
        numbers = arrow.flattened(objects)
        if not arrow.is_list(objects.type) or not (
            arrow.are_numbers(numbers.type) or pa.types.is_null(numbers.type)
        ):
            raise ManifestError(
                f"column {self.column!r} holds lists of {objects.type}, expected lists of objects, "
                "[[x, y, visibility, x, y, visibility, ...], ...]"
            )
        lengths = arrow.lengths_of(objects)
        wrong = np.flatnonzero((lengths != 3 * self.count) & (lengths != 0))
        if len(wrong):
            row, place = arrow.place_of(where, int(wrong[0]))
            held = int(lengths[wrong[0]])
            advice = "x, y and visibility of each point are three numbers"
            if not held % 3:
                advice = f"write dfgen.Keypoints({self.column!r}, count={held // 3}), or correct it"
            raise ManifestError(
                f"object {place} of row {row} in column {self.column!r} has {held} numbers, "
                f"expected {3 * self.count}, of count={self.count} points ({len(wrong):,} such "
                f"objects): {advice}"
            )
        points = np.zeros((len(objects), self.count, 3), np.float32)
        flat = numbers.to_numpy(zero_copy_only=False).astype(np.float32)
        points[lengths > 0] = flat.reshape(-1, self.count, 3)
        self._check_numbers(where, points)
        return PointRows(where, points)

    def _check_numbers(self, where: IntArray, points: Values) -> None:
        seen = points[..., 2]
        odd = ~np.isin(seen, (0, 1, 2))
        wrong = np.flatnonzero((odd | ~np.isfinite(points).all(-1)).any(-1))
        if len(wrong):
            row, place = arrow.place_of(where, int(wrong[0]))
            fault = "an x or y that is missing or infinite"
            if odd[wrong[0]].any():
                fault = f"the visibility {seen[wrong[0]][odd[wrong[0]]][0]:g}, expected 0, 1 or 2"
            raise ManifestError(
                f"object {place} of row {row} in column {self.column!r} has {fault} "
                f"({len(wrong):,} such objects): write 0, 0, 0 for a point that is not annotated"
            )

    def _check_counts(self, where: IntArray) -> None:
        counts, most = np.diff(where), self.max_items
        wrong = np.flatnonzero(counts != 1 if most is None else counts > most)
        if len(wrong):
            advice = f"write dfgen.Keypoints({self.column!r}, max_items={counts.max(initial=1)})"
            expected = "one in each row" if most is None else f"at most max_items={most}"
            raise ManifestError(
                f"row {wrong[0]} has {counts[wrong[0]]:,} objects in column {self.column!r}, "
                f"expected {expected} ({len(wrong):,} such rows): {advice}"
            )

    def at(self, values: PointRows, row: int) -> Values:
        """Return the points of the objects of one row."""
        return values.points[values.offsets[row] : values.offsets[row + 1]]

    def read(self, value: Values, out: Values, store: Store, watch: Watch, given: Geometry) -> None:
        """Fill `out` with the points of one row, by the geometry of its image."""
        self._check_inside(value, given.image)
        made = _moved(value, given)
        if given.flip != given.flip_vertical:  # turned by half a circle left stays left
            for one, other in self.flip_pairs:
                made[:, [one, other]] = made[:, [other, one]]
        forget_outside(made, given.size)
        if self.max_items is None:
            out[...] = made[0]
        else:
            out[: len(made)], out[len(made) :] = made, PADDING

    def _check_inside(self, points: Values, image: tuple[int, int]) -> None:
        """Refuse an object of which every point that is annotated lies outside of the image."""
        annotated = points[..., 2] > 0
        lost = annotated.any(1) & ~(annotated & ~_are_outside(points, image)).any(1)
        if lost.any():
            place = int(lost.argmax())
            x, y = points[place][annotated[place]][0, :2]
            raise DecodeError(
                f"all {annotated[place].sum()} points of object {place} of column {self.column!r} "
                f"lie outside of the image, which is {image[1]} x {image[0]} pixels (width x "
                f"height, upright), the first at ({x:g}, {y:g}): they are of another image, or of "
                "this one in another size"
            )

    def finish(self, sample: Values, out: Values) -> None:
        """Fill the array of the batch with a sample's points."""
        if sample.shape != out.shape:
            raise TransformError(
                f"the transform returned points of shape {sample.shape}, expected {out.shape}"
            )
        out[...] = sample
        if self.image.size is not None:
            forget_outside(out, self.image.size)


def _moved(points: Values, geometry: Geometry) -> Values:
    """Return points of the upright image as they are in the array."""
    if geometry.steps is not None:
        first, geometry = geometry.steps
        points = _moved(points, first)
        forget_outside(points, first.size)
    source, target, (height, width) = geometry.source, geometry.target, geometry.size
    across, down = target.width / source.width, target.height / source.height
    left, top = target.left - source.left * across, target.top - source.top * down
    if geometry.flip:
        across, left = -across, width - left
    if geometry.flip_vertical:
        down, top = -down, height - top
    moved = points * np.array((across, down, 1), np.float32)
    moved += np.array((left, top, 0), np.float32)
    return moved


def forget_outside(points: Values, size: tuple[int, ...]) -> None:
    """Set points to zeros that lie outside of an image of a size, or are not annotated."""
    seen = points[..., 2]
    points[(_are_outside(points, size) | (seen == 0)) & (seen >= 0)] = 0


def _are_outside(points: Values, size: tuple[int, ...]) -> Values:
    x, y = points[..., 0], points[..., 1]
    outside: Values = (x < 0) | (y < 0) | (x > size[1]) | (y > size[0])
    return outside
