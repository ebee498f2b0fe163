"""Source `yolo`: data sets of Ultralytics' YOLO, to detect, segment or find poses.

The smallest tree that shows it (to segment, a line is the class and x, y of each corner; of poses,
whose data.yaml has `kpt_shape: [17, 3]`, key points follow the box):

    data.yaml               train: images/train
                            names: [cat, dog]
    images/train/a.jpg
    labels/train/a.txt      1 0.5 0.5 0.25 0.75       class, x and y of the centre, width, height

Format: https://docs.ultralytics.com/datasets/detect and /segment, /pose.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import yaml

from dfgen.errors import ManifestError, MissingFileError, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import read_bytes, reading
from dfgen.manifest.schema import Label
from dfgen.manifest.sources.file_tree import Skipped
from dfgen.manifest.sources.image_pairs import (
    VANISHED,
    Pair,
    in_groups,
    list_pairs,
    pair,
    without_suffix,
)
from dfgen.manifest.sources.source import BOXES, LABELS, TEXT, Argument, RowGroup, Source

_OPENS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSES = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def load_yaml(text: str, path: str, limits: Limits) -> Any:
    """Return what YAML says, in plain types; refuse what may unfold without end, or is too deep."""
    aliases = depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, _OPENS) - isinstance(event, _CLOSES)
        for name, found, what in (
            ("aliases", aliases, "refers to parts of itself"),
            ("nesting", depth, "has lists or mappings in each other"),
        ):
            if not limits.allows(name, found):
                told = f"{path} {what} {found:,} times or more"
                raise ManifestError(limits.refusal(name, 10 * found, told))
    return yaml.safe_load(text)


class _AsWritten(yaml.SafeLoader):  # type: ignore[misc]
    """Reads each value as text, so that `no` is not `False`, and each key once; `<<` merges."""

    yaml_implicit_resolvers: ClassVar = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}

    def compose_mapping_node(self, anchor: str | None) -> Any:
        node = super().compose_mapping_node(anchor)
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if again := [key for key, count in keys.items() if count > 1 and key != "<<"]:
            raise yaml.composer.ComposerError(problem=f"the key {again[0]!r} stands twice")
        return node


@dataclass(frozen=True)
class DataSet:
    """A data.yaml: its path, the folder where paths start, class names, and places."""

    file: str
    root: str
    class_names: list[str]
    places: dict[str, list[str]]  # split -> folders of images, or lists of their paths
    points: tuple[int, int] | None = None  # of poses: how many key points, and numbers of each


@dataclass(frozen=True)
class Object:
    """A line of a text file: class, relative box, and x, y of the corners of a polygon, or none.

    Key points are x, y, visibility of each.
    """

    name: str
    box: tuple[float, float, float, float]
    corners: tuple[float, ...] = ()
    points: tuple[float, ...] = ()


def read_objects(path: str, data: DataSet, limits: Limits = DEFAULT) -> list[Object]:
    """Read the labels of one image; a line of something else is named with its number."""
    bounded = reading(path, missing=VANISHED.format(path), limits=limits, bound="header_bytes")
    with bounded as nbytes:
        lines = read_bytes(path, nbytes).decode("utf-8-sig").splitlines()
    return [
        _object(line.split(), f"{path}, line {number}", data)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _object(parts: list[str], where: str, data: DataSet) -> Object:
    try:
        number, *values = (float(part) for part in parts)
    except ValueError:
        number, values = math.nan, []
    finite = all(math.isfinite(value) for value in (number, *values))
    if data.points is not None:
        wanted = 4 + math.prod(data.points)
        if not finite or len(values) != wanted:
            raise ManifestError(
                f"{where} has {len(parts)} numbers, expected {1 + wanted}: a class, x and y of the "
                f"centre, width and height, and {data.points[0]} key points of {data.points[1]} "
                f"numbers, as kpt_shape of {data.file} says"
            )
    elif not finite or (len(values) != 4 and (len(values) < 6 or len(values) % 2)):
        raise ManifestError(
            f"{where} is {quote(' '.join(parts))}, expected a class, x and y of the centre, width "
            "and height; or a class, and x and y of three corners or more"
        )
    names = data.class_names
    if number not in range(len(names)):
        raise ManifestError(
            f"{where}: class {number:g} is out of range. {data.file} has {len(names)} names: "
            f"0 to {len(names) - 1}"
        )
    if len(values) == 4 or data.points is not None:
        x, y, width, height, *points = values
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        return Object(names[int(number)], box, points=_seen(points, data.points))
    xs, ys = values[::2], values[1::2]
    return Object(names[int(number)], (min(xs), min(ys), max(xs), max(ys)), tuple(values))


def _seen(points: list[float], shape: tuple[int, int] | None) -> tuple[float, ...]:
    """Return key points with a visibility each: 2, seen, but 0 for those at 0, 0."""
    if shape is None or shape[1] == 3:
        return tuple(points)
    pairs = zip(points[::2], points[1::2], strict=True)
    return tuple(number for x, y in pairs for number in (x, y, 2.0 if x or y else 0.0))


SPLITS = ("train", "val", "test")
_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "split": pa.string(),
        "boxes": BOXES,
        "labels": LABELS,
        "polygons": BOXES,
        "problem": pa.string(),
    }
)


def read_yolo(place: str, unmatched: str = "error", limits: Limits = DEFAULT) -> Iterator[RowGroup]:
    """Yield images with the boxes of their text files, some thousand at a time.

    Row groups have `path`, `split`, and `boxes` (rel_xyxy) and `labels`; polygons have `polygons`
    (x, y of each corner, relative) and the boxes around them; poses have `keypoints` (x, y,
    visibility of each, relative). An image without a text file has no boxes, null where test has
    no text files at all.
    """
    data = read_data(place, limits)
    labels: dict[str, Label] = {
        "split": {"class_names": [*data.places]},
        "boxes": {"box_format": "rel_xyxy"},
        "labels": {"class_names": [*data.class_names]},
    }
    pairs, notes, skipped = list[tuple[str, bool, Pair]](), tuple[str, ...](), Skipped(list)
    for split, places in data.places.items():
        for images in places:
            found, said = _found(images, data, unmatched, skipped, labelled=split != "test")
            looked = not os.path.isdir(images) or os.path.isdir(_folders(images)[1])
            pairs += [(split, looked, both) for both in found]
            notes += said
    root = os.path.commonpath([data.root, *(image or text or "" for _, _, (image, text) in pairs)])
    annotations = sum(text is not None for _, _, (_, text) in pairs)
    schema = _SCHEMA if data.points is None else _SCHEMA.append(pa.field("keypoints", BOXES))
    yield RowGroup(schema.empty_table(), skipped, notes, labels, root, len(pairs))
    for table in in_groups(pairs, partial(_rows, root, data, limits), schema, annotations):
        yield RowGroup(table, total=len(pairs))


def read_data(file: str, limits: Limits = DEFAULT) -> DataSet:
    """Read a data.yaml, and find its folders of images."""
    bounded = reading(file, " as YAML", limits=limits, bound="header_bytes")
    with bounded, open(file, encoding="utf-8") as opened:
        content = load_yaml(text := opened.read(), file, limits)
        written = yaml.load(text, _AsWritten)
    if not isinstance(content, dict) or not content.get("names"):
        raise ManifestError(f"{file} has no names: the classes in the order of their numbers")
    content["names"] = written["names"]
    shape = content.get("kpt_shape")
    if shape is not None and (
        not isinstance(shape, list)
        or [type(number) for number in shape] != [int, int]
        or shape[0] < 1
        or shape[1] not in (2, 3)
    ):
        raise ManifestError(
            f"{file}: kpt_shape is {shape!r}, expected [key points, numbers of each], as [17, 3]"
        )
    folder = os.path.dirname(os.path.abspath(file))
    root = os.path.normpath(os.path.join(folder, str(content.get("path") or "")))
    if not os.path.isdir(root):  # Ultralytics looks below a folder of its own settings then
        root = folder
    places = {
        split: [_place(root, str(place), file) for place in _listed(content[split])]
        for split in SPLITS
        if content.get(split)
    }
    if not places:
        raise ManifestError(f"{file} names no images: expected {', '.join(SPLITS)}")
    points = None if shape is None else (shape[0], shape[1])
    return DataSet(file, root, _class_names(content, file), places, points)


def _class_names(content: dict[str, Any], file: str) -> list[str]:
    names = content["names"]
    numbered = dict(enumerate(_listed(names)))
    if isinstance(names, dict):
        numbered = {int(key) if str(key).isdecimal() else key: name for key, name in names.items()}
    wanted = list(range(len(names)))
    if sorted(numbered, key=str) != sorted(wanted, key=str):
        raise ManifestError(f"{file}: names have the numbers {[*numbered]}, expected {wanted}")
    class_names = [str(numbered[number]) for number in wanted]
    if "" in class_names:
        raise ManifestError(f"{file}: class {class_names.index('')} has no name: {class_names}")
    if len(set(class_names)) < len(class_names):
        raise ManifestError(f"{file}: two classes have one name: {class_names}")
    if content.get("nc", len(class_names)) != len(class_names):
        raise ManifestError(
            f"{file}: nc is {content['nc']}, and there are {len(class_names)} names. Mend one"
        )
    return class_names


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _place(root: str, place: str, file: str) -> str:
    # Roboflow writes ../ before what lies beside data.yaml, as others read it
    places = (place, place.removeprefix("../"))
    candidates = [os.path.normpath(os.path.join(root, each)) for each in places]
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    raise MissingFileError(f"{file} names images in {place}: there is no {candidates[0]}")


def _found(
    place: str, data: DataSet, unmatched: str, skipped: Skipped, labelled: bool
) -> tuple[list[Pair], tuple[str, ...]]:
    """Return the absolute paths of images and of their text files, and notes; add to skipped."""
    if not os.path.isdir(place):
        return _listed_images(place, data), ()
    images, texts = _folders(place)
    if os.path.isdir(texts):
        paths, found, others, _ = list_pairs(images, texts, ".txt")
        found = [text for text in found if text != "classes.txt"]
        pairs, notes, _ = pair(paths, found, (images, texts), unmatched, bare=True)
    elif labelled:
        raise MissingFileError(
            f"there is no folder {quote(texts)} of labels for the images in {quote(images)}. "
            "Without boxes, leave the folder out; only test may have none"
        )
    else:
        paths, _, others, _ = list_pairs(images, images, ".txt")
        pairs, notes = [(path, None) for path in paths], ()
    for reason, strangers in others.items():
        skipped[reason] += [os.path.relpath(path, data.root) for path in strangers]
    whole = [(a and f"{images}/{a}", b and f"{texts}/{b}") for a, b in pairs]
    return whole, notes


def _folders(place: str) -> tuple[str, str]:
    """Return the folders of images and labels: the last `images` of the path becomes `labels`."""
    if os.path.isdir(f"{place}/images"):
        return f"{place}/images", f"{place}/labels"
    head, found, tail = f"{place}/".replace(os.sep, "/").rpartition("/images/")
    return place, f"{head}/labels/{tail}".rstrip("/") if found else place


def _listed_images(file: str, data: DataSet) -> list[Pair]:
    """Return the images that a text file lists, with their labels where there are any."""
    advice = f". {data.file} names folders of images, or such lists"
    form = " as a list of images, a path a line"
    with reading(file, form, advice=advice), open(file, encoding="utf-8") as text:
        lines = [line.strip() for line in text]
    pairs: list[Pair] = []
    for number, path in enumerate(lines, 1):
        if not path:
            continue
        if ".." in path.split("/") or "\0" in path:
            raise ManifestError(
                f'{file}, line {number}: {quote(path)} leaves the folder of the data set by ".."'
            )
        start = os.path.dirname(file) if path.startswith("./") else data.root
        image = os.path.normpath(os.path.join(start, path))
        folder, name = os.path.split(image)
        labels = f"{_folders(folder)[1]}/{without_suffix(name)}.txt"
        pairs.append((image, labels if os.path.exists(labels) else None))
    return pairs


def _rows(
    root: str, data: DataSet, limits: Limits, given: tuple[str, bool, Pair], problems: list[str]
) -> list[dict[str, Any]]:
    """Return the row of an image; add what is wrong with its labels to the problems."""
    split, looked, (image, text) = given
    objects, problem = list[Object](), None
    try:
        objects = [] if text is None else read_objects(text, data, limits)
    except (ManifestError, MissingFileError) as error:
        looked, problem = False, str(error)
        problems.append(problem)
    corners = [list(each.corners) for each in objects]
    row = {
        "path": os.path.relpath(image or without_suffix(text or ""), root).replace(os.sep, "/"),
        "split": split,
        "boxes": [list(each.box) for each in objects] if looked else None,
        "labels": [each.name for each in objects] if looked else None,
        "polygons": corners if any(corners) else None,
        "keypoints": [list(each.points) for each in objects] if looked else None,
        "problem": problem if image else f"no image for these labels: {text}",
    }
    return [row]


YOLO = Source(
    read_yolo,
    Argument(TEXT, "YOLO's data.yaml.", is_path=True),
    shared=("unmatched", "limits"),
)
