"""Thumbnails: a few rows of a frame as small pictures, through the decoder that training uses."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, DecodeError, DfgenError, brief, reason
from dfgen.explore.sketches import row_sketches, shown_column, sketched_kind
from dfgen.explore.visible_pixels import SIDE, Thumbnail, crossed, visible
from dfgen.limits import Limits
from dfgen.progress_bars import progress
from dfgen.samples.features.array import Array
from dfgen.samples.features.audio import Audio
from dfgen.samples.features.base import Feature
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.features.one_row import is_several
from dfgen.samples.features.text import Text
from dfgen.samples.pixels.geometry import Geometry
from dfgen.samples.reader import RowStep, SampleReader
from dfgen.samples.sources.file_source import FileSource
from dfgen.spec import OwnDtype, unwatched
from dfgen.system import threads, usable_cpus, whole

_MANY_BOXES = 1_000_000  # a picture has room for all
_USED = ("index", "shard", "row", "width", "height", "orientation")
"""Columns that say where the pixels of a row lie, or how large its file is."""


Readable = tuple[SampleReader | None, int, str]
"""The reader of a row, which row of its it is, and why it cannot be read, or not all of it."""


def thumbnails(
    rows: pd.DataFrame,
    image: str | Feature | None = None,
    *,
    side: int = SIDE,
    boxes: str | Boxes | None = None,
    masks: str | Mask | None = None,
    root: str | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> list[Thumbnail]:
    """Return a small picture of each of these rows; take few, as `df.iloc[:16]`: each is decoded.

    Files are read and decoded as a `dfgen.Sequence` does it, several at a time. Alpha is laid on a
    chequered ground, more than 8 bits are stretched to what can be seen. A file that is missing,
    damaged or beyond `limits` is a tile that tells why, never an exception. A list of files shows
    its first. Sounds are a waveform above a spectrogram; arrays are images, or curves if they have
    one axis; text is `Thumbnail.text`.

    Args:
        rows: of a manifest, in any order.
        image: the column of the pictures, sounds, arrays, lists of numbers or text; or an `Image`,
            `Audio`, `Array` or `Text`, as for rows of an HDF5 file that has several arrays, and for
            files that `Array(decode=)` reads. None: `path`, else the first column that holds files,
            numbers or text.
        side: most pixels that height and width of a thumbnail may have.
        boxes: the column of boxes (xyxy in pixels, with classes in `labels`), or a `Boxes`; None:
            no boxes.
        masks: the column of mask files, or a `Mask`; None: no masks.
        root: folder where relative paths begin; None: the working folder.
        limits: `dfgen.Limits`: what one file may ask for.
        storage_options: what opens URLs; see `Sequence`.
        workers: threads; None: as many as this process may use CPUs.

    Raises:
        ArgumentError: a value that cannot be.
        ManifestError: a column that is not there.

    Example:
        >>> [one.problem for one in thumbnails(df.iloc[:2])]  # doctest: +SKIP
        [None, 'the file does not exist']
    """
    whole("side", side, least=1)
    if workers is not None:
        whole("workers", workers)
    if not len(rows):
        return []
    image = shown_column(rows) if image is None else image
    _check_shown(rows, image)
    if kind := sketched_kind(rows, image):
        return row_sketches(
            rows, image, kind, side, workers or usable_cpus(), root, limits, storage_options
        )
    features = _features(rows, image, side, boxes, masks)
    rows = _few_columns(rows, features)
    reader = partial(_reader, root=root, limits=limits, storage_options=storage_options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about training
        jobs = _jobs(reader, rows, features)
    found = list[Thumbnail]()
    with (
        threads(workers or usable_cpus()) as pool,
        progress(len(rows), "Reading pictures", " files") as bar,
    ):
        for one in pool.map(partial(_thumbnail, side), *zip(*jobs, strict=True)):
            found.append(one)
            bar.update()
    return found


def _check_shown(rows: pd.DataFrame, image: Any) -> None:
    """Refuse a column that is not there, and a feature that has no picture."""
    if isinstance(image, Feature) and not isinstance(image, Image | Audio | Array | Text):
        raise ArgumentError(
            f"image={brief(image)}: expected a column, dfgen.Image, Audio, Array or Text"
        )
    for name in image.columns if isinstance(image, Feature) else (image,):
        Columns(rows).check("image", name)


def _features(
    rows: pd.DataFrame, image: Any, side: int, boxes: Any, masks: Any
) -> dict[str, Feature]:
    own = image if isinstance(image, Image) else Image(image, index=_index(rows, image))
    plain = Image(own.column, index=own.index, dataset=own.dataset, size=(side, side))
    found: dict[str, Feature] = {"image": replace(plain, resize="pad", dtype="float32")}
    if masks is not None:
        mask = masks if isinstance(masks, Mask) else Mask(masks, dtype="int32")
        found["mask"] = replace(mask, like="image")
    if boxes is not None:
        given = boxes if isinstance(boxes, Boxes) else Boxes(boxes)
        found["boxes"] = replace(given, like="image", format="xyxy", max_boxes=_MANY_BOXES)
    for argument, feature in found.items():
        for name in feature.columns:
            Columns(rows).check("masks" if argument == "mask" else argument, name)
    return found


def _index(rows: pd.DataFrame, image: str) -> str | None:
    in_arrays = image == "path" and "index" in rows and image in rows
    first = str(rows[image].iloc[0]) if in_arrays else ""
    return "index" if first.endswith((".npy", ".h5", ".hdf5")) else None


def _few_columns(rows: pd.DataFrame, features: Mapping[str, Feature]) -> pd.DataFrame:
    """Return the columns that tell pixels: what the manifest says of problems is looked at anew."""
    names = dict.fromkeys(name for one in features.values() for name in one.columns)
    names |= dict.fromkeys(name for name in _USED if name in rows)
    few = rows[[*names]].reset_index(drop=True)
    few["id"] = range(len(few))
    for name in {one.column for one in features.values() if one.of_files}:
        lists = few[name].map(is_several)
        if lists.any():
            few[name] = few[name].map(lambda value: value[0] if is_several(value) else value)
    return few


def _reader(rows: pd.DataFrame, features: Mapping[str, Feature], **how: Any) -> SampleReader:
    """Return what reads the rows, in the colours that there are: of packs those that they keep."""
    for mode in ("rgba", "rgb", "grayscale"):
        image: Any = features["image"]
        x = {**features, "image": replace(image, color_mode=mode)}
        try:
            return bind(rows, x, on_error="skip", options=Options(label_mode=None), **how).reader
        except ArgumentError as error:
            refused = error
    raise refused


def _jobs(
    reader: Callable[..., SampleReader], rows: pd.DataFrame, features: Mapping[str, Feature]
) -> list[Readable]:
    """Return what reads each row, and which it is there; of one at fault what can be, and why."""
    try:
        found = reader(rows, features)
        return [(found, place, "") for place in range(len(rows))]
    except DfgenError as error:
        if len(rows) > 1:
            half = len(rows) // 2
            parts = rows.iloc[:half], rows.iloc[half:]
            return [job for part in parts for job in _jobs(reader, part, features)]
        if pd.isna(rows[features["image"].column].iloc[0]):
            return [(None, 0, "the row has no path")]
        if len(features) == 1:
            return [(None, 0, str(error))]
        [(found_alone, _, _)] = _jobs(reader, rows, {"image": features["image"]})
        return [(found_alone, 0, str(error))]


def _thumbnail(side: int, reader: SampleReader | None, row: int, note: str) -> Thumbnail:
    if reader is None:
        return Thumbnail(crossed(side), note)
    image, *others = reader.steps
    try:
        pixels, placed = _read(reader, image, row, (side, side))
        if max(placed.image) < side:  # which would have been enlarged
            pixels, placed = _read(reader, image, row, placed.image)
    except Exception as error:  # whatever a damaged file, or its store, may raise
        return Thumbnail(crossed(side), reason(error))
    found: dict[str, Any] = {"note": note}
    for step in others:
        try:
            found |= _DRAWN[step.bound.name](reader, step, row, placed)
        except Exception as error:
            found["note"] = f"{step.bound.name}: {reason(error)}"
    return _trimmed(pixels, placed, found)


def _read(
    reader: SampleReader, step: RowStep, row: int, size: tuple[int, int]
) -> tuple[npt.NDArray[Any], Geometry]:
    """Return the pixels of a row as deep as its file has them, and where they lie."""
    image: Any = step.bound.feature
    made: dict[str, Any] = {step.bound.name: OwnDtype((*size, image.spec.shape[2]))}
    try:
        placed = step.read(row, made, reader.store, unwatched, None)
    except DecodeError as error:  # as of deep JPEG 2000, whose decoder gives the first 8 bits alone
        if not isinstance(step.source, FileSource):
            raise
        step = step._replace(source=replace(step.source, feature=replace(image, dtype="uint8")))
        try:
            placed = step.read(row, made, reader.store, unwatched, None)
        except DecodeError:
            raise error from None
    return made[step.bound.name], placed


def _mask(reader: SampleReader, step: RowStep, row: int, placed: Geometry) -> dict[str, Any]:
    made = {step.bound.name: np.empty((*placed.size, 1), step.bound.feature.spec.dtype)}
    step.read(row, made, reader.store, unwatched, placed)
    return {"mask": made[step.bound.name][..., 0]}


def _boxes(reader: SampleReader, step: RowStep, row: int, placed: Geometry) -> dict[str, Any]:
    count = len(step.bound.feature.at(step.bound.values, row)[0])
    made = dict(
        zip(step.bound.read_names, (np.empty((count, 4), "f4"), np.empty(count, "i4")), strict=True)
    )
    step.read(row, made, reader.store, unwatched, placed)
    boxes, labels = step.of(made)
    names = step.bound.feature.class_names
    words = (str(label if names is None else names[label]) for label in labels.tolist())
    return {"boxes": boxes, "labels": tuple(words)}


_DRAWN = {"mask": _mask, "boxes": _boxes}
"""Name of what lies on an image -> its reader."""


def _trimmed(pixels: npt.NDArray[Any], placed: Geometry, found: dict[str, Any]) -> Thumbnail:
    top, left, height, width = placed.target
    part = slice(top, top + height), slice(left, left + width)
    shown, note = visible(pixels[part])
    found["note"] = "; ".join(filter(None, (note, found["note"])))
    if "mask" in found:
        found["mask"] = found["mask"][part]
    if "boxes" in found:
        found["boxes"] = found["boxes"] - np.array([left, top, left, top], np.float32)
    return Thumbnail(shown, size=placed.image, **found)
