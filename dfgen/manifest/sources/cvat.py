"""Source `cvat`: the XML file of CVAT for images 1.1, of a task or a project.

The smallest tree that shows it:

    annotations.xml
    images/a.jpg

    <annotations>
      <version>1.1</version>
      <image id="0" name="a.jpg" width="500" height="375">
        <polygon label="dog" points="48.00,24.00;195.00,24.00;195.00,371.00" z_order="0"/>
        <tag label="indoors"/>
      </image>
    </annotations>

Format: https://docs.cvat.ai/docs/manual/advanced/xml_format.
"""

import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pyarrow as pa
from defusedxml.ElementTree import iterparse

from dfgen.errors import ManifestError, count, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import parsing_xml, reading
from dfgen.manifest.path_roots import absolute_place
from dfgen.manifest.paths import check_stored_paths
from dfgen.manifest.schema import Label, repeated
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
from dfgen.manifest.sources.image_pairs import refuse_all_broken
from dfgen.manifest.sources.source import (
    ANNOTATED,
    IMAGES,
    MOST_PIXELS,
    TEXT,
    Argument,
    RowGroup,
    Source,
)
from dfgen.samples.pixels.geometry import Size
from dfgen.samples.stores.archives.archive_paths import member_of
from dfgen.samples.stores.archives.members import Archives
from dfgen.spec import Values

_ENDS = ("tl", "br")
_TYPES = {
    "labels": {"any", "bbox", "rectangle", "polygon", "mask", "ellipse"},
    "polyline_labels": {"polyline"},
    "keypoint_labels": {"points", "skeleton"},
    "tags": {"tag"},
}
"""Column -> the types of labels, as CVAT calls them, that are always among its classes."""


@dataclass
class _Document:
    """The content of a file: labels in their order, with types; images; elements left out."""

    file: str
    limits: Limits
    types: dict[str, str] = field(default_factory=dict)
    points: dict[str, list[str]] = field(default_factory=dict)  # skeleton -> its points, in order
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_cvat(file: str, images: str | None = None, limits: Limits = DEFAULT) -> Iterator[RowGroup]:
    """Yield the images of an XML file with their shapes, in one group.

    The columns are those of `drawn_shapes`; `tags`, those of the whole image; of a project `split`,
    its subsets. `images` is by default the folder `images` beside the file, else its own folder.
    """
    document = _read(file, limits)
    if images is None:
        folder = os.path.dirname(os.path.abspath(file))
        images = f"{folder}/images" if os.path.isdir(f"{folder}/images") else folder
    root = absolute_place(images)
    splits = {row["split"] for row in document.rows}
    if any(splits):
        _place_subsets(document.rows, root)
    table = pa.Table.from_pylist(
        document.rows, schema_of("tags", id=pa.string(), split=pa.string())
    )
    check_stored_paths(table, "the folder of the images", file)
    if len(twice := repeated(table["path"])):
        raise ManifestError(
            f"{file} has two images of the name {quote(twice[0]['values'].as_py())}: which of them "
            "do the shapes belong to? Give the folder above those of the subsets as images= "
            "(--images), or rename one of the images in CVAT"
        )
    table = without_empty(table.drop_columns(["id"]), "tags")
    if splits == {None}:
        table = table.drop_columns(["split"])
    labels: dict[str, Label] = {"boxes": {"box_format": "upright_xyxy"}}
    for name in _TYPES.keys() & {*table.column_names}:
        labels[name] = {"class_names": [*_class_names(document, name, table[name])]}
    left_out = sorted((+document.left_out).items())
    shown = ", ".join(count(number, tag) for tag, number in left_out)
    warning = f"Left out of {file}: {shown}. Only shapes with an area have attributes"
    warnings = (warning,) if left_out else ()
    yield RowGroup(table, labels=labels, folder=root, total=len(table), warnings=warnings)


def _place_subsets(rows: list[dict[str, Any]], root: str) -> None:
    """Put the folder of its subset before a path: CVAT exports the images of a project so."""
    member, packed, below = member_of(root), frozenset[str](), ""
    if member is not None:
        with reading(member.archive):
            packed = frozenset(Archives().contents(member).names)
        below = f"{member.name}/" if member.name else ""
    for row in rows:
        path = f"{row['split']}/{row['path']}"
        is_there = below + path in packed if member else os.path.isfile(f"{root}/{path}")
        if row["split"] and is_there:
            row["path"] = path


def _class_names(document: _Document, column: str, values: pa.ChunkedArray) -> list[str]:
    """Return the classes of a column in the order of the project's labels, then unknown ones."""
    held = set(values.combine_chunks().flatten().to_pylist())
    types = document.types.items()
    known = [name for name, kind in types if name in held or kind in _TYPES[column]]
    return known + sorted(held - set(known))


def _read(file: str, limits: Limits) -> _Document:
    """Read a file image by image, so that its text never is in memory as a whole."""
    document = _Document(file, limits)
    with reading(file, limits=limits, bound="file_bytes"), parsing_xml(file):
        if zipfile.is_zipfile(file):
            raise ManifestError(
                f"{file} is an archive, as CVAT exports it. Unpack it, and give its annotations.xml"
            )
        root: Element | None = None
        for event, element in iterparse(file, events=("start", "end")):
            if root is None:
                root = element
                if root.tag != "annotations":
                    raise ManifestError(
                        f"{file} is not of CVAT for images: its root is <{root.tag}>, expected "
                        "<annotations>"
                    )
            if event == "start":
                continue
            if element.tag == "track":
                raise ManifestError(
                    f"{file} has tracks, as CVAT for video has them: export the same task as "
                    '"CVAT for images 1.1"'
                )
            if element.tag == "label" and element.find("name") is not None:
                _add_label(document, element)
            elif element.tag == "image":
                document.rows.append(_row(document, element))
                root.clear()
    refuse_all_broken(document.problems, len(document.rows), "images")
    return document


def _add_label(document: _Document, element: Element) -> None:
    name, kind = element.findtext("name", ""), element.findtext("type") or "any"
    if parent := element.findtext("parent"):
        document.points.setdefault(parent, []).append(name)
    else:
        document.types[name] = kind


def _row(document: _Document, image: Element) -> dict[str, Any]:
    """Return the row of an image; add what is wrong with its shapes to the problems."""
    name = image.get("name") or ""
    where = f"{document.file}, image {quote(name)}"
    if not name:
        raise ManifestError(f"{document.file} has an image without a name: {image.attrib}")
    row: dict[str, Any] = {"id": image.get("id"), "path": name, "split": image.get("subset")}
    try:
        width, height = (int(_number(image, side, where)) for side in ("width", "height"))
        check_size(width, height, document.limits, where)
        shapes = list(_shapes(document, image, (height, width), where))
        row |= shape_columns(shapes, (height, width), where)
    except ManifestError as error:
        document.problems.append(str(error))
        return row | {"problem": str(error)}
    row["tags"] = [tag.get("label") for tag in image.iter("tag")]
    bare = [
        element for element in image if element.tag in ("tag", "polyline", "points", "skeleton")
    ]
    document.left_out["attribute"] += sum(len([*one.iter("attribute")]) for one in bare)
    return row | dict(zip(ANNOTATED, (width, height), strict=True))


def _shapes(document: _Document, image: Element, size: Size, where: str) -> Iterator[Shape]:
    """Yield the shapes of an image, those on top last."""
    for element in image:
        if not element.get("label"):
            raise ManifestError(f"{where} has a {element.tag} without a label: export it again")
    drawn = [element for element in image if element.tag != "tag"]
    for element in sorted(drawn, key=lambda one: int(_number(one, "z_order", where, "0"))):
        label, group = element.get("label", ""), element.get("group_id")
        told = f"{where}, {element.tag} {quote(label)}"
        attributes = {
            item.get("name", ""): (item.text or "").strip() for item in element.iter("attribute")
        }
        more: dict[str, Any] = {"group": None if group in ("", "0") else group}
        more["attributes"] = attributes
        turn = _number(element, "rotation", told, "0")
        if element.tag == "box":
            xs, ys = ([_number(element, axis + end, told) for end in _ENDS] for axis in "xy")
            yield Shape(label, rectangle((xs[0], ys[0], xs[1], ys[1]), turn), **more)
        elif element.tag == "polygon":
            yield Shape(label, _points(element, told, 3), **more)
        elif element.tag == "ellipse":
            x, y, *radii = (_number(element, name, told) for name in ("cx", "cy", "rx", "ry"))
            yield ellipse(label, (x, y), (radii[0], radii[1]), size, turn, **more)
        elif element.tag == "mask":
            corner = [_number(element, side, told) for side in ("left", "top")]
            yield Shape(label, corner, mask=_mask(element, size, told), **more)
        elif element.tag == "polyline":
            yield Shape(label, _points(element, told, 2), LINE)
        elif element.tag == "points":
            yield Shape(label, seen(_points(element, told, 1)), POINTS)
        elif element.tag == "skeleton":
            yield Shape(label, _joints(element, document.points, told), POINTS)
        else:
            document.left_out[element.tag] += 1


def _joints(skeleton: Element, points: dict[str, list[str]], where: str) -> list[float]:
    """Return the points of a skeleton in the order of the project; 0, 0, 0 for one not there.

    Without the labels of the project they are in the order of the first such skeleton.
    """
    labels = [point.get("label") or "" for point in skeleton.iter("points")]
    names = points.setdefault(skeleton.get("label", ""), labels)
    for strange in Counter(labels) - Counter({*names}):
        raise ManifestError(
            f"{where} has the point {quote(strange)}, expected each of {', '.join(names)} at most "
            "once"
        )
    found: dict[str, list[float]] = {}
    for point in skeleton.iter("points"):
        is_hidden = point.get("occluded") == "1"
        place = seen(_points(point, where, 1), 1.0 if is_hidden else 2.0)
        found[point.get("label") or ""] = [0.0] * 3 if point.get("outside") == "1" else place
    return [number for name in names for number in found.get(name, [0.0] * 3)]


def _points(element: Element, where: str, least: int) -> list[float]:
    text = element.get("points") or ""
    try:
        pairs = [[float(number) for number in pair.split(",")] for pair in text.split(";")]
        [xs, _] = zip(*pairs, strict=True)
    except ValueError:
        raise ManifestError(f"{where} has the points {quote(text)}, expected x,y;x,y;...") from None
    if len(xs) < least:
        raise ManifestError(
            f"{where} has {count(len(xs), 'point')}, expected {least} or more: draw it anew, or "
            "remove it"
        )
    return [number for pair in pairs for number in pair]


def _mask(element: Element, size: Size, where: str) -> Values:
    """Return the mask that CVAT's run lengths describe: zeros and ones in turn, along the rows."""
    width, height = (int(_number(element, side, where)) for side in ("width", "height"))
    try:
        counts = [int(part) for part in (element.get("rle") or "").split(",")]
        runs = np.array(counts, np.int64)
    except (ValueError, OverflowError):
        runs = np.array([-1])
    if runs.min() < 0:
        raise ManifestError(
            f"{where} has run lengths (rle) that are no counts of pixels. Export it again"
        )
    total = sum(counts)
    if min(width, height) < 1 or width > size[1] or height > size[0] or total != width * height:
        raise ManifestError(
            f"{where} has run lengths (rle) of {total:,} pixels, expected those of its width and "
            f"height, {width} x {height}, in an image of {size[1]} x {size[0]}. Export it again"
        )
    return np.repeat(np.arange(len(runs)) % 2 > 0, runs).reshape(height, width)


def _number(element: Element, name: str, where: str, default: str | None = None) -> float:
    text = element.get(name, default)
    try:
        number = float(text or "")
    except ValueError:
        number = np.nan
    if not abs(number) < MOST_PIXELS:
        raise ManifestError(f"{where} has {name}={quote(text or '')}, expected a number of pixels")
    return number


CVAT = Source(
    read_cvat,
    Argument(TEXT, "XML file of CVAT for images.", "FILE.xml", is_path=True),
    {"images": IMAGES},
    shared=("limits",),
    check=check_one_folder,
)
