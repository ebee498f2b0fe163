"""Source `labelme`: the JSON files of LabelMe, each beside its image.

The smallest tree that shows it:

    pets/a.jpg
    pets/a.json

    {"version": "5.5.0", "flags": {"indoors": true}, "imagePath": "a.jpg", "imageData": null,
     "imageHeight": 375, "imageWidth": 500,
     "shapes": [{"label": "dog", "shape_type": "polygon", "group_id": null, "flags": {},
                 "points": [[48, 24], [195, 24], [195, 371]]}]}

Format: https://github.com/wkentaro/labelme, examples.
"""

import base64
import binascii
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError, ManifestError, MissingFileError, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import read_json
from dfgen.manifest.path_roots import absolute_place, posix
from dfgen.manifest.schema import Label
from dfgen.manifest.sources.drawn_shapes import (
    LINE,
    POINTS,
    Shape,
    check_one_folder,
    check_size,
    ellipse,
    rectangle,
    schema_of,
    seen,
    shape_columns,
    without_empty,
)
from dfgen.manifest.sources.file_tree import check_folder
from dfgen.manifest.sources.image_pairs import (
    Pair,
    in_groups,
    list_pairs,
    pair,
    schema_with,
    without_suffix,
)
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.source import ANNOTATED, IMAGES, TEXT, Argument, RowGroup, Side, Source
from dfgen.manifest.sources.voc import CLASS_NAMES, check_class_names, refuse_other_class
from dfgen.samples.pixels.geometry import Size
from dfgen.samples.pixels.upright import decode_values
from dfgen.samples.stores.archives.archive_paths import archive_at

_FORMAT = 'LabelMe has it, {"imagePath": ..., "shapes": [{"label": ..., "points": ...}, ...]}'
_SCHEMA = schema_of("flags")
_WANTED = {
    "polygon": (3, None, "three points or more"),
    "rectangle": (2, 2, "two opposite corners"),
    "oriented_rectangle": (4, 4, "four corners"),
    "circle": (2, 2, "the centre and a point of the edge"),
    "mask": (2, 2, "two opposite corners"),
    "line": (2, 2, "two points"),
    "linestrip": (2, None, "two points or more"),
    "point": (1, 1, "one point"),
    "points": (1, None, "one point or more"),
}
"""Type of a shape -> the least and the largest number of its points, and how they are called."""


class LabelmeShape(msgspec.Struct, gc=False):
    """A shape as the JSON has it."""

    label: Annotated[str, msgspec.Meta(min_length=1)]
    points: list[tuple[float, float]]
    shape_type: str | None = None
    group_id: int | str | None = None
    flags: dict[str, bool] | None = None
    description: str | None = None
    mask: str | None = None


class LabelmeFile(msgspec.Struct, rename="camel", gc=False):
    """A whole file; the image in it, `imageData`, is passed over unread."""

    shapes: list[LabelmeShape]
    image_path: str | None = None
    image_height: Side | None = None
    image_width: Side | None = None
    flags: dict[str, bool] | None = None


def read_labelme(
    folder: str,
    images: str | None = None,
    class_names: Sequence[str] = (),
    pattern: Pattern | None = None,
    unmatched: str = "error",
    limits: Limits = DEFAULT,
) -> Iterator[RowGroup]:
    """Yield images with the shapes of their JSON files, in one group.

    An image `a/b.jpg` is annotated in `a/b.json`. The columns are those of `drawn_shapes`, and
    `flags`, the flags of the whole image that are set.
    """
    check_folder(folder, "Give the folder of LabelMe's JSON files.")
    images = folder if images is None else images
    images = absolute_place(images) if archive_at(images) else os.path.normpath(images)
    folder = os.path.normpath(folder)
    schema = schema_with(_SCHEMA, pattern, "labelme")
    paths, found, skipped, fields = list_pairs(images, folder, ".json", pattern)
    pairs, notes, dropped = pair(paths, found, (images, folder), unmatched)
    flags = dict[str, None]()
    root = absolute_place(images)
    rows_of = partial(_rows, folder, (root, frozenset(paths)), class_names, limits, flags, fields)
    table = pa.concat_tables([schema.empty_table(), *in_groups(pairs, rows_of, schema, len(found))])
    names = {
        name: list(class_names) or sorted(set(table[name].combine_chunks().flatten().to_pylist()))
        for name in ("labels", "polyline_labels", "keypoint_labels")
    }
    labels: dict[str, Label] = {name: {"class_names": [*known]} for name, known in names.items()}
    labels |= {"boxes": {"box_format": "upright_xyxy"}, "flags": {"class_names": [*flags]}}
    table = without_empty(table, "flags")
    yield RowGroup(table, skipped, notes, labels, root, len(table), dropped=dropped)


def _rows(
    folder: str,
    known: tuple[str, frozenset[str]],
    class_names: Sequence[str],
    limits: Limits,
    flags: dict[str, None],
    fields: Mapping[str, dict[str, str]],
    both: Pair,
    problems: list[str],
) -> list[dict[str, Any]]:
    """Return the row of an image; add its flags, and what is wrong with its annotation."""
    image, path = both
    if path is None:
        return [{"path": image, **fields.get(without_suffix(image or ""), {})}]
    place = f"{folder}/{path}"
    lost = None if image else f"no image for this annotation: {place}"
    row: dict[str, Any] = {"path": image or without_suffix(path), "problem": lost}
    row |= fields.get(without_suffix(path), {})
    try:
        document = read_json(place, LabelmeFile, _FORMAT, limits, "file_bytes")
        _refuse_other_image(document.image_path, image, place, known)
        height, width = document.image_height, document.image_width
        size = (height, width) if height and width else None
        check_size(width or 0, height or 0, limits, place)
        shapes = [
            _shape(item, f"{place}, shapes[{number}] ({item.label})", size, limits)
            for number, item in enumerate(document.shapes)
        ]
        row |= shape_columns(shapes, size, place)
    except (ManifestError, MissingFileError) as error:
        problems.append(str(error))
        return [row | {"problem": lost or problems[-1]}]
    for shape in shapes:
        refuse_other_class(shape.label, class_names, f"{place} has a shape")
    flags |= dict.fromkeys(document.flags or {})
    row["flags"] = [name for name, is_set in (document.flags or {}).items() if is_set]
    return [row | dict(zip(ANNOTATED, (width, height), strict=True))]


def _refuse_other_image(
    named: str | None, image: str | None, place: str, known: tuple[str, frozenset[str]]
) -> None:
    """Raise if a file is of another image than of the one beside it, as after a copy.

    `known` are the folder of the images, and their paths below it.
    """
    if not named or not image:
        return
    named, (root, images) = named.replace("\\", "/"), known
    stems = [without_suffix(os.path.basename(name)) for name in (named, image)]
    one, other = (unicodedata.normalize("NFC", stem) for stem in stems)
    whole = posix(os.path.abspath(os.path.join(os.path.dirname(place), named)))
    below = whole.removeprefix(posix(root).rstrip("/") + "/")
    if (one and one != other) or (below in images and below != image):
        raise ManifestError(
            f"{place} is of the image {quote(named)} by its imagePath, and lies beside "
            f"{quote(image)}. Rename the file as its image, or correct imagePath"
        )


def _shape(item: LabelmeShape, where: str, size: Size | None, limits: Limits) -> Shape:
    kind, points = item.shape_type or "polygon", item.points
    if (kind, len(points)) == ("rectangle", 4):  # as tools beside LabelMe write it
        kind = "oriented_rectangle"
    if kind not in _WANTED:
        raise ManifestError(
            f"{where} is of the type {quote(kind)}, expected one of {', '.join(_WANTED)}"
        )
    least, most, told = _WANTED[kind]
    if len(points) < least or (most is not None and len(points) > most):
        raise ManifestError(
            f"{where} is a {kind} of {len(points)} points, expected {told}: draw it anew, or "
            "remove it"
        )
    flat = [number for point in points for number in point]
    told_of = {"description": item.description} if item.description else {}
    group = None if item.group_id == "" else item.group_id
    more: dict[str, Any] = {"group": group, "attributes": {**(item.flags or {}), **told_of}}
    if kind in ("line", "linestrip"):
        return Shape(item.label, flat, LINE)
    if kind in ("point", "points"):
        return Shape(item.label, seen(flat), POINTS)
    if kind == "circle":
        (x, y), edge = points
        radius = float(np.hypot(edge[0] - x, edge[1] - y))
        return ellipse(item.label, (x, y), (radius, radius), size, **more)
    xs, ys = zip(*points, strict=True)
    if kind == "mask":
        (left, right), (top, bottom) = (np.rint([min(axis), max(axis)]) for axis in (xs, ys))
        mask = _mask(item.mask, where, limits)
        wanted = (bottom - top + 1, right - left + 1)
        if mask.shape != wanted:
            raise ManifestError(
                f"{where} has a mask of {mask.shape[1]} x {mask.shape[0]} pixels (width x height), "
                f"and its two corners are those of {wanted[1]:.0f} x {wanted[0]:.0f}: draw it anew"
            )
        return Shape(item.label, [float(left), float(top)], mask=mask, **more)
    if kind == "rectangle":
        flat = rectangle((min(xs), min(ys), max(xs), max(ys)))
    return Shape(item.label, flat, **more)


def _mask(text: str | None, where: str, limits: Limits) -> Any:
    """Return the mask that a PNG in base64 holds."""
    try:
        return decode_values(base64.b64decode(text or "", validate=True), limits=limits)[..., 0] > 0
    except (binascii.Error, DecodeError) as error:
        raise ManifestError(
            f"{where} has a mask that cannot be read, {error}: expected a PNG in base64"
        ) from None


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    check_one_folder(arguments)
    check_class_names(arguments)


LABELME = Source(
    read_labelme,
    Argument(TEXT, "Folder of LabelMe's JSON files.", "FOLDER", is_path=True),
    {"images": IMAGES, "class_names": CLASS_NAMES},
    shared=("pattern", "unmatched", "limits"),
    check=_check_arguments,
    folder="images",
)
