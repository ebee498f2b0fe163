"""Source `voc`: Pascal VOC and ImageNet DET, a tree of XML files beside a tree of images.

The smallest tree:

    Annotations/2007/a.xml
    JPEGImages/2007/a.jpg

    <annotation>
      <size><width>500</width><height>375</height></size>
      <object>
        <name>dog</name>
        <bndbox><xmin>48</xmin><ymin>24</ymin><xmax>195</xmax><ymax>371</ymax></bndbox>
      </object>
    </annotation>

The folder of a year also has masks, SegmentationClass/a.png and SegmentationObject/a.png, and lists
of splits, ImageSets/Main/train.txt, with an image a line.

Format: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/devkit_doc.pdf, sections 2 and 3.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Never
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, MissingFileError, count, quote, warn
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.paths import absolute_place
from dfgen.manifest.reading import lines_of, read_bytes, read_text, reading
from dfgen.manifest.schema import Label
from dfgen.manifest.sources.file_tree import (
    Pattern,
    Skipped,
    check_folder,
    list_files,
    warn_of_skipped,
)
from dfgen.manifest.sources.image_pairs import (
    Annotations,
    Pair,
    list_pairs,
    pair,
    table_of,
    without_suffix,
)
from dfgen.manifest.sources.source import ANNOTATED, BOXES, LABELS, MOST_PIXELS, Rows

BACKGROUND = "background"
MASKS = {"class_mask": "SegmentationClass", "object_mask": "SegmentationObject"}
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_PRESENCE = re.compile(r"\s+(?:-1|0|1)\Z")


def read_voc(
    voc: str,
    images: str | None,
    image_sets: str | None,
    pattern: Pattern | None,
    unmatched: str,
    limits: Limits = DEFAULT,
) -> Rows:
    """Return images with the boxes of their XML files.

    The annotation of `a/b.jpg` is `a/b.xml`; the name in the XML is ignored. Columns: `label`, the
    class of the largest box or `background`; `boxes`, xyxy in pixels as in the XML; `labels`, their
    classes; the annotated size; for the folder of a year also the paths of masks.
    """
    check_folder(voc, "Give the folder of the XML files")
    year = os.path.isdir(f"{voc}/Annotations")
    if not isinstance(images, str | None) or (images is None and not year):
        raise ArgumentError(
            "voc= (--voc) needs images= (--images), the folder of the images, whose paths are the "
            "paths of the XML files except for the extension. Or give the folder above Annotations "
            "and JPEGImages as voc="
        )
    annotations = f"{voc}/Annotations" if year else voc
    images = images or f"{voc}/JPEGImages"
    skipped = Skipped(list)
    listing = list_pairs(images, annotations, ".xml", skipped, pattern)
    pairs = pair(listing, (images, annotations), ".xml", unmatched)
    more = listing.fields
    masks = _masks(voc, {without_suffix(path) for path in listing.images}) if year else {}
    for column, paths in masks.items():
        for image, path in paths.items():
            more.setdefault(image, {})[column] = path
    labels: dict[str, Label] = {column: {"kind": "text"} for column in masks}
    columns = ["path", "label", *masks, *["split"] * (image_sets is not None)]
    if image_sets is not None:
        splits = _splits(image_sets, listing.images, listing.annotations, unmatched, limits)
        for image, split in splits.items():
            more.setdefault(image, {})["split"] = split
        labels["split"] = {"kind": "category", "class_names": [*dict.fromkeys(splits.values())]}
    for name in pattern.fields if pattern else ():
        if name in (*columns, "boxes", "labels"):
            raise ArgumentError(
                f"pattern= has the field {{{name}}}, and voc= makes a column of that name: rename "
                "the field"
            )
    schema = pa.schema(
        dict.fromkeys([*columns, *(pattern.fields if pattern else ()), "problem"], pa.string())
        | {"boxes": BOXES, "labels": LABELS, **dict.fromkeys(ANNOTATED, pa.int64())}
    )
    read = Annotations()
    table = table_of(pairs, partial(_row, annotations, read, more, limits), schema)
    read.check()
    warn_of_skipped(skipped, pattern)
    return Rows(table, absolute_place(images), labels | _labels(table))


def _row(
    folder: str,
    annotations: Annotations,
    more: Mapping[str, dict[str, str]],
    limits: Limits,
    paths: Pair,
) -> dict[str, Any]:
    image, annotation = paths
    key = without_suffix(image or annotation or "")
    row: dict[str, Any] = {"path": image or key, **more.get(key, {})}
    if annotation is None:
        return row
    path = f"{folder}/{annotation}"
    content, problem = annotations.read(lambda: read_annotation(path, limits))
    row["problem"] = problem if image else f"no image for this annotation: {path}"
    if content is not None:
        size, names, boxes = content
        areas = [(right - left) * (bottom - top) for left, top, right, bottom in boxes]
        row |= dict(zip(ANNOTATED, size, strict=True), boxes=boxes, labels=names)
        row["label"] = names[areas.index(max(areas))] if boxes else BACKGROUND
    return row


def _labels(table: pa.Table) -> dict[str, Label]:
    """Return the class names, sorted; `background` has index 0 in `label`."""
    names = {*table["labels"].combine_chunks().flatten().unique().to_pylist()}
    of_boxes: list[str | int] = [BACKGROUND] * (BACKGROUND in names)
    of_boxes += sorted(names - {BACKGROUND})
    background = pc.any(pc.equal(table["label"], BACKGROUND)).as_py() and BACKGROUND not in names
    return {
        "label": {"kind": "category", "class_names": [*[BACKGROUND] * background, *of_boxes]},
        "boxes": {"kind": "list", "box_format": "xyxy"},
        "labels": {"kind": "list", "class_names": [*of_boxes]},
    }


def read_annotation(
    path: str, limits: Limits = DEFAULT
) -> tuple[list[int | None], list[str], list[list[float]]]:
    """Return the size of the image of an XML file, and class and corners of each box."""
    with reading(path, limits=limits, bound="header_bytes") as nbytes:
        root = _parsed(read_bytes(path, nbytes), path)
    if root.tag != "annotation":
        raise ManifestError(
            f"{path} is not a Pascal VOC annotation: its root is <{root.tag}>, expected "
            "<annotation>"
        )
    size = [
        None if root.find(name) is None else round(_number(root, name, path))
        for name in ("size/width", "size/height")
    ]
    names, boxes = list[str](), list[list[float]]()
    for number, item in enumerate(root.findall("object"), 1):
        where = f"{path}, object {number}"
        names.append(_text(item, "name", where))
        boxes.append([_number(item, f"bndbox/{corner}", where) for corner in _CORNERS])
    return size, names, boxes


def _parsed(data: bytes, path: str) -> Element:
    """Return the root of XML. Entities raise: they can grow without end, or name files."""

    def refuse(name: str, *_: object) -> Never:
        raise ManifestError(
            f"{path} declares the entity {quote(name)}, which dfgen does not read: write its text "
            "in full"
        )

    tree, parser = TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = tree.data, refuse
    parser.buffer_text = True
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ManifestError(
            f"{path}, line {error.lineno}, column {error.offset + 1}: broken XML, "
            f"{expat.ErrorString(error.code)}. Write the file again, or remove it"
        ) from None
    return tree.close()


def _number(element: Element, name: str, where: str) -> float:
    text = _text(element, name, where)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) < MOST_PIXELS:  # NaN too
        raise ManifestError(f"{where}: <{name}> is {quote(text)}, expected a number of pixels")
    return number


def _text(element: Element, name: str, where: str) -> str:
    text = (element.findtext(name) or "").strip()
    if not text:
        raise ManifestError(f"{where} has no <{name}>, or an empty one")
    return text


def _masks(year: str, images: set[str]) -> dict[str, dict[str, str]]:
    """Return column -> image without extension -> path of its mask."""
    masks = {}
    for column, name in MASKS.items():
        folder = os.path.abspath(os.path.join(year, name))
        if not os.path.isdir(folder):
            continue
        files = list_files(folder, (".png",), Skipped(list)).to_pylist()
        paths = {without_suffix(path): f"{folder}/{path}" for path in files}
        masks[column] = {image: path for image, path in paths.items() if image in images}
        if lonely := sorted(paths.keys() - images):
            warn(f"Left out {count(len(lonely), 'mask')} without image, as {paths[lonely[0]]}")
    return masks


def _splits(
    folder: str, images: Sequence[str], annotations: Sequence[str], unmatched: str, limits: Limits
) -> dict[str, str]:
    """Return image without extension -> split, of train.txt, val.txt and test.txt.

    A line is an image with or without extension, then possibly -1, 0 or 1 (whether it shows a
    class).
    """
    check_folder(folder, "Give the folder of train.txt and val.txt")
    paths = [*images, *annotations]
    known = {name: without_suffix(path) for path in paths for name in (path, without_suffix(path))}
    splits, strangers = dict[str, str](), list[str]()
    files = {split: f"{folder}/{split}.txt" for split in ("train", "val", "test")}
    files = {split: file for split, file in files.items() if os.path.exists(file)}
    for split, file in files.items():
        for number, line in lines_of(read_text(file, " as a list of images", limits, "file_bytes")):
            image = known.get(line) or known.get(_PRESENCE.sub("", line))
            if image is None:
                strangers.append(f"{file}, line {number}: there is no image {quote(line)}")
            elif splits.setdefault(image, split) != split:
                raise ManifestError(
                    f"{file}, line {number}: {quote(line)} is in {splits[image]}.txt too, but an "
                    "image has one split. Remove it from one of them"
                )
    if not files:
        raise MissingFileError(
            f"{quote(folder)} has neither train.txt, val.txt nor test.txt: give the folder of the "
            "lists, such as ImageSets/Main (--image-sets)"
        )
    if strangers and unmatched == "error":
        raise ManifestError(
            f"{strangers[0]}. Remove the line, or give the folder of its images as images= "
            "(--images)"
        )
    if strangers:
        warn(f"Left out {count(len(strangers), 'line')} of lists, as {strangers[0]}")
    if lonely := len({without_suffix(path) for path in images} - splits.keys()):
        warn(
            f"{lonely:,} of {count(len(images), 'image')} are in no list of {folder}, and have no "
            "split. To leave them out: df[df.split.notna()]"
        )
    return splits
