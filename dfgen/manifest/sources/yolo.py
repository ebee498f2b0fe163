"""Source `yolo`: data sets of Ultralytics' YOLO, to detect, segment or find poses.

The smallest tree (to segment, a line is the class and x, y of each corner; for poses, whose
data.yaml has `kpt_shape: [17, 3]`, key points follow the box):

    data.yaml               train: images/train
                            names: [cat, dog]
    images/train/a.jpg
    labels/train/a.txt      1 0.5 0.5 0.25 0.75       class, x and y of the centre, width, height

Format: https://docs.ultralytics.com/datasets/detect and /segment, /pose.
"""

import math
import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import yaml

from dfgen.errors import ManifestError, MissingFileError, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.reading import lines_of, read_text, reading
from dfgen.manifest.schema import Label
from dfgen.manifest.sources.file_tree import Skipped, files_below, warn_of_skipped
from dfgen.manifest.sources.image_pairs import (
    Annotations,
    Pair,
    list_pairs,
    pair,
    table_of,
    without_suffix,
)
from dfgen.manifest.sources.source import BOXES, LABELS, Rows

_SPLITS = ("train", "val", "test")


class _AsWritten(yaml.SafeLoader):  # type: ignore[misc]
    """Reads values as text, so that `no` is not `False`, and each key once; `<<` merges."""

    yaml_implicit_resolvers: ClassVar = {
        start: [one for one in resolvers if one[0].endswith((":merge", ":null"))]
        for start, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: str | None) -> Any:
        node = super().compose_mapping_node(anchor)
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if again := [key for key, count in keys.items() if count > 1 and key != "<<"]:
            raise yaml.composer.ComposerError(problem=f"the key {again[0]!r} is there twice")
        return node


@dataclass(frozen=True)
class DataSet:
    """A data.yaml: its path, the folder where paths start, class names, places, key points."""

    file: str
    root: str
    class_names: list[str]
    places: dict[str, list[str]]  # split -> folders of images, or lists of their paths
    points: tuple[int, int] | None = None  # number of key points, and numbers of each


class Object(NamedTuple):
    """A line of labels: class, relative box, x and y of corners, x, y, visibility of key points."""

    name: str
    box: list[float]
    corners: list[float]
    points: list[float]


class _Item(NamedTuple):
    """An image and its text file, absolute; not `looked` at means that its boxes are unknown."""

    split: str
    looked: bool
    paths: Pair


def read_yolo(yolo: str, unmatched: str, limits: Limits = DEFAULT) -> Rows:
    """Return images with the boxes of their text files.

    Columns: `path`, `split`, `boxes` (relative xyxy) and `labels`; `polygons` (x, y of each corner,
    relative) with the boxes around them; `keypoints` (x, y, visibility, relative). An image without
    a text file has no boxes; null if test has no text files at all.
    """
    data, skipped, items = read_data(yolo, limits), Skipped(list), list[_Item]()
    for split, places in data.places.items():
        for place in places:
            items += _items(place, split, data, unmatched, skipped, limits)
    splits = dict[str, str]()
    for item in items:
        image = item.paths.image
        if image and splits.setdefault(image, item.split) != item.split:
            raise ManifestError(
                f"{yolo} has {quote(image)} in {splits[image]} and in {item.split}, expected one "
                "split of each image: leave one of the two keys out, or give each its own folder. "
                "To split at random, leave one out and give split= (--split)"
            )
    root = os.path.commonpath([data.root, *(path for item in items for path in item.paths if path)])
    schema = {"path": pa.string(), "split": pa.string(), "boxes": BOXES, "labels": LABELS}
    schema |= {"polygons": BOXES, "keypoints": BOXES, "problem": pa.string()}
    annotations = Annotations()
    row = partial(_row, root, data, annotations, limits)
    table = table_of(items, row, pa.schema(schema))
    annotations.check()
    for name in ("polygons", "keypoints"):
        if table[name].null_count == len(table):
            table = table.drop_columns([name])
    warn_of_skipped(skipped)
    labels: dict[str, Label] = {
        "split": {"kind": "category", "class_names": [*data.places]},
        "boxes": {"kind": "list", "box_format": "xyxy"},
        "labels": {"kind": "list", "class_names": [*data.class_names]},
    }
    return Rows(table, root, labels, relative=True)


def _row(
    root: str, data: DataSet, annotations: Annotations, limits: Limits, item: _Item
) -> dict[str, Any]:
    (image, text), problem = item.paths, None
    objects: list[Object] | None = [] if item.looked else None
    if text is not None:
        objects, problem = annotations.read(partial(read_objects, text, data, limits))
    path = os.path.relpath(image or without_suffix(text or ""), root).replace(os.sep, "/")
    row: dict[str, Any] = {"path": path, "split": item.split, "problem": problem}
    if image is None:
        row["problem"] = f"no image for these labels: {text}"
    if objects is not None:
        row |= {"boxes": [each.box for each in objects], "labels": [each.name for each in objects]}
        if any(each.corners for each in objects):
            row["polygons"] = [each.corners for each in objects]
        if data.points is not None:
            row["keypoints"] = [each.points for each in objects]
    return row


def read_objects(path: str, data: DataSet, limits: Limits = DEFAULT) -> list[Object]:
    """Return the labels of one image."""
    lines = lines_of(read_text(path, limits=limits))
    return [_object(line.split(), f"{path}, line {number}", data) for number, line in lines]


def _object(parts: list[str], where: str, data: DataSet) -> Object:
    try:
        number, *values = (float(part) for part in parts)
    except ValueError:
        number, values = math.nan, []
    expected = (
        "a class, x and y of the centre, width and height; or a class, and x and y of three "
        "corners or more"
    )
    fits = len(values) == 4 or (len(values) >= 6 and len(values) % 2 == 0)
    if data.points is not None:
        wanted, each = 4 + math.prod(data.points), data.points[1]
        fits = len(values) == wanted
        expected = (
            f"{1 + wanted} numbers: a class, a box, and {data.points[0]} key points of {each} "
            f"numbers, by kpt_shape of {data.file}"
        )
    if not fits or not all(math.isfinite(value) for value in (number, *values)):
        raise ManifestError(f"{where} is {quote(' '.join(parts))}, expected {expected}")
    corners = [] if data.points or len(values) == 4 else values
    names = data.class_names
    if number not in range(len(names)):
        raise ManifestError(
            f"{where}: class {number:g} is out of range. {data.file} has {len(names)} names: "
            f"0 to {len(names) - 1}"
        )
    name = names[int(number)]
    if corners:
        xs, ys = corners[::2], corners[1::2]
        return Object(name, [min(xs), min(ys), max(xs), max(ys)], corners, [])
    x, y, width, height, *points = values
    box = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    if data.points and data.points[1] == 2:  # without visibility: 2, seen, but 0 at 0, 0
        pairs = zip(points[::2], points[1::2], strict=True)
        points = [number for x, y in pairs for number in (x, y, 2.0 if x or y else 0.0)]
    return Object(name, box, [], points)


def read_data(file: str, limits: Limits = DEFAULT) -> DataSet:
    """Return a data.yaml with the places of its images."""
    with reading(file, " as YAML"):
        text = read_text(file, limits=limits)
        aliases = sum(isinstance(one, yaml.AliasEvent) for one in yaml.parse(text))
        what = f"{file} refers to parts of itself {aliases:,} times"  # they can grow without end
        limits.check("aliases", aliases, what, ManifestError)
        content = yaml.load(text, _AsWritten)
    if not isinstance(content, dict) or not content.get("names"):
        raise ManifestError(f"{file} has no names: expected the classes in their order")
    shape = content.get("kpt_shape")
    points = re.fullmatch(r"\['([1-9][0-9]{0,4})', '([23])'\]", str(shape))
    if shape and points is None:
        raise ManifestError(
            f"{file}: kpt_shape is {shape}, expected [key points, numbers of each], as [17, 3]"
        )
    folder = os.path.dirname(os.path.abspath(file))
    root = os.path.normpath(os.path.join(folder, str(content.get("path") or "")))
    root = root if os.path.isdir(root) else folder  # Ultralytics looks in a folder of its settings
    places = {
        split: [_place(root, str(place), file) for place in _listed(content[split])]
        for split in _SPLITS
        if content.get(split)
    }
    if not places:
        raise ManifestError(f"{file} names no images: expected {', '.join(_SPLITS)}")
    names = _class_names(content["names"], content.get("nc"), file)
    return DataSet(file, root, names, places, points and (int(points[1]), int(points[2])))


def _class_names(names: Any, number: Any, file: str) -> list[str]:
    if not isinstance(names, list | dict):
        raise ManifestError(
            f"{file}: names is {quote(names)}, expected a list as [cat, dog], or a mapping with a "
            "blank after each colon, as {0: cat, 1: dog}"
        )
    numbered = dict(enumerate(names)) if isinstance(names, list) else dict[int, Any]()
    if isinstance(names, dict):
        numbered = {int(key) if str(key).isdecimal() else key: name for key, name in names.items()}
    if {*numbered} != {*range(len(names))}:
        raise ManifestError(
            f"{file}: names have the keys {[*numbered]}, expected {[*range(len(names))]}"
        )
    classes = [numbered[index] for index in range(len(names))]
    odd = next((name for name in classes if not isinstance(name, str) or not name), None)
    if odd is not None:
        raise ManifestError(f"{file}: names has {odd!r} in {classes}, expected the name of a class")
    if len({*classes}) < len(classes):
        raise ManifestError(f"{file}: two classes have the same name: {classes}")
    if number not in (None, str(len(classes))):
        raise ManifestError(f"{file}: nc is {number}, but there are {len(classes)} names")
    return classes


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _place(root: str, place: str, file: str) -> str:
    # Roboflow writes ../ before paths beside data.yaml, and other programs ignore it
    places = [
        os.path.normpath(os.path.join(root, each)) for each in (place, place.removeprefix("../"))
    ]
    for candidate in places:
        if os.path.exists(candidate):
            return candidate
    raise MissingFileError(f"{file} names images in {place}: there is no {places[0]}")


def _items(
    place: str, split: str, data: DataSet, unmatched: str, skipped: Skipped, limits: Limits
) -> list[_Item]:
    """Return the images of a folder or of a list of images."""
    if not os.path.isdir(place):
        return [_Item(split, True, each) for each in _listed_images(place, data, limits)]
    images, texts = _folders(place)
    if os.path.isdir(texts):
        listing = list_pairs(images, texts, ".txt", skipped)
        labels = [path for path in listing.annotations if path != "classes.txt"]
        listing = listing._replace(annotations=labels)
        pairs = pair(listing, (images, texts), ".txt", unmatched, bare=True)
        return [
            _Item(split, True, Pair(a and f"{images}/{a}", b and f"{texts}/{b}")) for a, b in pairs
        ]
    if split == "test":
        paths = files_below(images, None, skipped)["path"].to_pylist()
        return [_Item(split, False, Pair(f"{images}/{path}", None)) for path in paths]
    raise MissingFileError(
        f"there is no folder {quote(texts)} of labels for the images in {quote(images)}. Leave the "
        "folder out if it has no boxes; only test may have none"
    )


def _folders(place: str) -> tuple[str, str]:
    """Return the folders of images and labels: the last `images` of the path becomes `labels`."""
    if os.path.isdir(f"{place}/images"):
        return f"{place}/images", f"{place}/labels"
    head, mark, tail = f"{place}/".replace(os.sep, "/").rpartition("/images/")
    return place, f"{head}/labels/{tail}".rstrip("/") if mark else place


def _listed_images(file: str, data: DataSet, limits: Limits) -> list[Pair]:
    """Return the images that a text file lists, with their labels if there are any."""
    advice = f". {data.file} names folders of images, or such lists"
    text = read_text(file, " as a list of images, a path a line", limits, "file_bytes", advice)
    pairs: list[Pair] = []
    for number, path in lines_of(text):
        if ".." in path.split("/") or "\0" in path:
            raise ManifestError(
                f'{file}, line {number}: {quote(path)} leaves the folder of the data set by ".."'
            )
        start = os.path.dirname(file) if path.startswith("./") else data.root
        image = os.path.normpath(os.path.join(start, path))
        folder, name = os.path.split(image)
        labels = f"{_folders(folder)[1]}/{without_suffix(name)}.txt"
        pairs.append(Pair(image, labels if os.path.exists(labels) else None))
    return pairs
