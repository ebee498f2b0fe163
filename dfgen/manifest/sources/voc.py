"""Source `voc`: Pascal VOC and ImageNet DET, a tree of XML files beside a tree of images.

The smallest tree that shows it:

    Annotations/2007/a.xml
    JPEGImages/2007/a.jpg

    <annotation>
      <size><width>500</width><height>375</height></size>
      <object>
        <name>dog</name>
        <bndbox><xmin>48</xmin><ymin>24</ymin><xmax>195</xmax><ymax>371</ymax></bndbox>
      </object>
    </annotation>

Beside the annotations of a year lie masks, and lists of splits:

    VOC2012/Annotations/a.xml
    VOC2012/JPEGImages/a.jpg
    VOC2012/SegmentationClass/a.png       the class of each pixel; 255: a border, or no class
    VOC2012/SegmentationObject/a.png      the number of the object
    VOC2012/ImageSets/Main/train.txt      a, one a line

Format: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/devkit_doc.pdf, sections 2 and 3.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Never
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, MissingFileError, count, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import read_bytes, reading
from dfgen.manifest.path_roots import absolute_place
from dfgen.manifest.schema import Label
from dfgen.manifest.sources.file_tree import check_folder, list_files
from dfgen.manifest.sources.image_pairs import (
    VANISHED,
    Pair,
    in_groups,
    list_pairs,
    pair,
    schema_with,
    without_suffix,
)
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.source import (
    ANNOTATED,
    BOXES,
    IMAGES,
    LABELS,
    MOST_PIXELS,
    TEXT,
    Argument,
    RowGroup,
    Source,
)
from dfgen.manifest.sources.yolo import SPLITS
from dfgen.stores.archives import archive_at

BACKGROUND = "background"
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
MASKS = {"class_mask": "SegmentationClass", "object_mask": "SegmentationObject"}
_PRESENCE = re.compile(r"\s+(?:-1|0|1)\Z")


def read_voc(
    annotations: str,
    images: str | None = None,
    image_sets: str | None = None,
    pattern: Pattern | None = None,
    unmatched: str = "error",
    limits: Limits = DEFAULT,
) -> Iterator[RowGroup]:
    """Yield images with the boxes of their XML files, some thousand at a time.

    An image `a/b.jpg` is annotated in `a/b.xml`, whatever the XML says. Row groups have `path`,
    `label` (the class of the largest box, or `background`), `boxes` (xyxy in pixels, as the XML has
    them), `labels` (their classes) and the annotated size. The folder of a year, VOC2012, also
    gives the paths of masks, as `voc_folder` says.
    """
    check_folder(annotations, "Give the folder of the XML files.")
    annotations, images, masks = voc_folder(annotations, images)
    images = absolute_place(images) if archive_at(images) else os.path.normpath(images)
    annotations = os.path.normpath(annotations)
    schema = schema_with(_schema(masks, image_sets), pattern, "voc")
    paths, found, skipped, fields = list_pairs(images, annotations, ".xml", pattern)
    pairs, notes, dropped = pair(paths, found, (images, annotations), unmatched)
    root, names, background = absolute_place(images), set[str](), False
    beside, warnings, labels = beside_images(masks, image_sets, (paths, found), unmatched, limits)
    for image, values in beside.items():
        fields.setdefault(image, {}).update(values)
    rows_of = partial(_rows, annotations, limits, fields)
    start = schema.empty_table()
    yield RowGroup(
        start, skipped, notes, labels, root, len(pairs), dropped=dropped, warnings=warnings
    )
    for table in in_groups(pairs, rows_of, schema, len(found)):
        names |= {*table["labels"].combine_chunks().flatten().unique().to_pylist()}
        background |= bool(pc.any(pc.equal(table["label"], BACKGROUND)).as_py())
        yield RowGroup(table, total=len(pairs))
    yield RowGroup(schema.empty_table(), labels=_labels(names, background))


def _rows(
    folder: str,
    limits: Limits,
    fields: Mapping[str, dict[str, str]],
    both: Pair,
    problems: list[str],
) -> list[dict[str, Any]]:
    """Return the row of an image; add what is wrong with its annotation."""
    image, path = both
    if path is None:
        return [{"path": image, **fields.get(without_suffix(image or ""), {})}]
    place = image or without_suffix(path)
    lost = None if image else f"no image for this annotation: {folder}/{path}"
    row: dict[str, Any] = {"path": place, "problem": lost}
    row |= fields.get(without_suffix(path), {})
    try:
        size, names, boxes = read_annotation(f"{folder}/{path}", limits)
    except (ManifestError, MissingFileError) as error:
        problems.append(str(error))
        return [row | {"problem": lost or problems[-1]}]
    largest = max(range(len(names)), key=lambda n: _area(boxes[n]), default=None)
    label = BACKGROUND if largest is None else names[largest]
    row |= dict(zip(ANNOTATED, size, strict=True))
    return [row | {"boxes": boxes, "labels": names, "label": label}]


def _area(box: list[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _schema(masks: Iterable[str], image_sets: str | None) -> pa.Schema:
    return pa.schema(
        {
            "path": pa.string(),
            "label": pa.string(),
            "boxes": BOXES,
            "labels": LABELS,
            **dict.fromkeys([*masks, *["split"] * (image_sets is not None)], pa.string()),
            **dict.fromkeys(ANNOTATED, pa.int64()),
            "problem": pa.string(),
        }
    )


def _labels(names: set[str], background: bool) -> dict[str, Label]:
    """Return the class names, sorted; `background` is number 0 of a label."""
    of_boxes = sorted(names - {BACKGROUND})
    if BACKGROUND in names:
        of_boxes = [BACKGROUND, *of_boxes]
    whole = background and BACKGROUND not in of_boxes
    return {
        "label": {"class_names": [BACKGROUND, *of_boxes] if whole else [*of_boxes]},
        "boxes": {"box_format": "xyxy"},
        "labels": {"class_names": [*of_boxes]},
    }


def read_annotation(
    path: str, limits: Limits = DEFAULT
) -> tuple[list[int | None], list[str], list[list[float]]]:
    """Return the size of the image of an XML file, and class and corners of each box."""
    root = _annotation(path, limits)
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


def _annotation(path: str, limits: Limits) -> Element:
    """Return the root of an XML file, which is an annotation."""
    bounded = reading(path, missing=VANISHED.format(path), limits=limits, bound="header_bytes")
    with bounded as nbytes:
        root = _parsed(read_bytes(path, nbytes), path)
    if root.tag != "annotation":
        raise ManifestError(
            f"{path} is not a Pascal VOC annotation: its root is <{root.tag}>, expected "
            "<annotation>"
        )
    return root


def _parsed(data: bytes, path: str) -> Element:
    """Return the root of XML. Entities are refused: they can grow without end, or name files."""

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
        reason = expat.ErrorString(error.code)
        raise ManifestError(
            f"{path}, line {error.lineno}, column {error.offset + 1}: broken XML, {reason}. Mend "
            "or remove it"
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


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise unless there is a folder of images."""
    place, images = arguments["voc"], arguments["images"]
    bare = os.path.isdir(place) and not os.path.isdir(f"{place}/Annotations")
    if not isinstance(images, str | None) or (images is None and bare):
        raise ArgumentError(
            "voc= (--voc) needs images= (--images): the folder of the images, whose paths are "
            "those of the XML files but for the extension. Or give the folder above Annotations "
            "and JPEGImages as voc="
        )


class VocFolder(NamedTuple):
    """The folders of annotations and images; column -> image without extension -> its mask."""

    annotations: str
    images: str
    masks: dict[str, dict[str, str]]


def voc_folder(place: str, images: str | None) -> VocFolder:
    """Return the folders of a year of Pascal VOC, or of a folder of XML files."""
    if not os.path.isdir(f"{place}/Annotations"):
        return VocFolder(place, images or place, {})
    masks = {}
    for column, name in MASKS.items():
        folder = os.path.abspath(os.path.join(place, name))
        if os.path.isdir(folder):
            found, _ = list_files(folder, ".png")
            masks[column] = {without_suffix(path): f"{folder}/{path}" for path in found}
    return VocFolder(f"{place}/Annotations", images or f"{place}/JPEGImages", masks)


def beside_images(
    masks: Mapping[str, Mapping[str, str]],
    image_sets: str | None,
    listed: tuple[Sequence[str], Sequence[str]],
    unmatched: str,
    limits: Limits,
) -> tuple[dict[str, dict[str, str]], tuple[str, ...], dict[str, Label]]:
    """Return image without extension -> its masks and split; warnings; and what columns are.

    `listed` are the paths of images and of annotations. Lists of others are refused, or with an
    `unmatched` beside "error" left out with a warning.
    """
    images, annotations = listed
    known, warnings = {without_suffix(path) for path in images}, list[str]()
    found: dict[str, dict[str, str]] = {}
    for column, paths in masks.items():
        for image in paths.keys() & known:
            found.setdefault(image, {})[column] = paths[image]
        if lonely := sorted(paths.keys() - known):
            warnings.append(
                f"Left out {count(len(lonely), 'mask')} without image, as {paths[lonely[0]]}"
            )
    labels: dict[str, Label] = {column: {"kind": "text"} for column in masks}  # paths, no classes
    if image_sets is None:
        return found, tuple(warnings), labels
    splits, strangers = _read_image_sets(image_sets, [*images, *annotations], limits)
    if strangers and unmatched == "error":
        raise ManifestError(
            f"{strangers[0]}. Remove the line, or give the folder of its images as images= "
            "(--images)"
        )
    if strangers:
        warnings.append(f"Left out {count(len(strangers), 'line')} of lists, as {strangers[0]}")
    for image, split in splits.items():
        found.setdefault(image, {})["split"] = split
    if unlisted := len(known - splits.keys()):
        warnings.append(
            f"{unlisted:,} of {count(len(known), 'image')} are in no list of {image_sets}, and "
            "their split is missing. To leave them out: df[df.split.notna()]"
        )
    labels["split"] = {"class_names": [*dict.fromkeys(splits.values())]}
    return found, tuple(warnings), labels


def _read_image_sets(
    folder: str, paths: Sequence[str], limits: Limits
) -> tuple[dict[str, str], list[str]]:
    """Return path without extension -> split, of train.txt, val.txt and test.txt, and bad lines.

    A line is an image without extension, or with it. After a blank may stand whether it shows a
    class: -1, 0 or 1.
    """
    check_folder(folder, "Give the folder of train.txt and val.txt.")
    known = {name: without_suffix(path) for path in paths for name in (path, without_suffix(path))}
    splits, strangers = dict[str, str](), list[str]()
    files = {split: f"{folder}/{split}.txt" for split in SPLITS}
    files = {split: file for split, file in files.items() if os.path.exists(file)}
    if not files:
        raise MissingFileError(
            f"{quote(folder)} has neither train.txt, val.txt nor test.txt: give the folder of the "
            "lists, as ImageSets/Main (--image-sets)"
        )
    for split, file in files.items():
        bounded = reading(file, " as a list of images", limits=limits, bound="file_bytes")
        with bounded, open(file, encoding="utf-8-sig") as text:
            lines = [line.strip() for line in text]
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            image = known.get(line) or known.get(_PRESENCE.sub("", line))
            if image is None:
                strangers.append(f"{file}, line {number}: there is no image {quote(line)}")
                continue
            earlier = splits.setdefault(image, split)
            if earlier != split:
                raise ManifestError(
                    f"{file}, line {number}: {quote(line)} is in {earlier}.txt too, and an image "
                    "has one split. Remove it from one of them"
                )
    return splits, strangers


VOC = Source(
    read_voc,
    Argument(
        TEXT, "Folder of Pascal VOC's XML files, or VOC2012 itself.", "ANNOTATIONS", is_path=True
    ),
    {
        "images": IMAGES,
        "image_sets": Argument(
            TEXT,
            "Folder of train.txt, val.txt, as ImageSets/Main: lists of images become the split.",
            "FOLDER",
            is_path=True,
        ),
    },
    shared=("pattern", "unmatched", "limits"),
    check=_check_arguments,
    folder="images",
)
