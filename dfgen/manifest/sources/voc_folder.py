"""Finds images, masks and lists of splits beside the annotations of Pascal VOC.

    VOC2012/Annotations/a.xml
    VOC2012/JPEGImages/a.jpg
    VOC2012/SegmentationClass/a.png       the class of each pixel; 255: a border, or no class
    VOC2012/SegmentationObject/a.png      the number of the object
    VOC2012/ImageSets/Main/train.txt      a, one a line

Format: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/devkit_doc.pdf, sections 2 and 3.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dfgen.errors import ManifestError, MissingFileError, count, quote
from dfgen.limits import Limits
from dfgen.manifest.file_errors import reading
from dfgen.manifest.schema import Label
from dfgen.manifest.sources.file_tree import check_folder, list_files
from dfgen.manifest.sources.image_pairs import without_suffix
from dfgen.manifest.sources.yolo import SPLITS

MASKS = {"class_mask": "SegmentationClass", "object_mask": "SegmentationObject"}
_PRESENCE = re.compile(r"\s+(?:-1|0|1)\Z")


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
