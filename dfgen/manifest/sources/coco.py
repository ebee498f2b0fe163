"""Source `coco`: the JSON files of COCO, instances, captions and key points.

The smallest tree that shows it:

    val/a.jpg
    instances_val.json

    {"images": [{"id": 7, "file_name": "a.jpg", "width": 500, "height": 375}],
     "categories": [{"id": 18, "name": "dog"}],
     "annotations": [{"image_id": 7, "category_id": 18, "bbox": [48, 24, 147, 347]}]}

`bbox` is x, y, width, height. Format: https://cocodataset.org/#format-data.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import read_json
from dfgen.manifest.path_roots import absolute_place, joined
from dfgen.manifest.paths import check_stored_paths, tidy
from dfgen.manifest.schema import Label, repeated, with_column
from dfgen.manifest.sources.source import (
    ANNOTATED,
    IMAGES,
    MOST_PIXELS,
    OF_SPLITS,
    Argument,
    ListLengths,
    Paths,
    RowGroup,
    Side,
    Source,
    nest,
    nest_boxes,
)
from dfgen.stores.archives import member_of

_WholeFloat = Annotated[float, msgspec.Meta(multiple_of=1, gt=-(2.0**53), lt=2.0**53)]
"""A whole number as pandas exports it, 5.0."""
Id = int | str | _WholeFloat
_FloatSize = Annotated[float, msgspec.Meta(multiple_of=1, ge=0.0, lt=MOST_PIXELS)]
_FORMAT = 'COCO has it, {"images": [...], "annotations": [...], "categories": [...]}'
_Number = Annotated[float, msgspec.Meta(gt=-MOST_PIXELS, lt=MOST_PIXELS)]


class CocoImage(msgspec.Struct, gc=False):
    """An image as the JSON has it; what else it has is passed over unread."""

    id: Id
    file_name: str
    width: Side | _FloatSize | None = None
    height: Side | _FloatSize | None = None


class CocoCategory(msgspec.Struct, gc=False):
    """A class as the JSON has it."""

    id: Id
    name: str


class CocoAnnotation(msgspec.Struct, gc=False):
    """A box, a caption or a person with key points."""

    image_id: Id
    category_id: Id | None = None
    bbox: tuple[float, float, float, float] | None = None
    iscrowd: int | bool | _WholeFloat | None = 0
    caption: str | None = None
    keypoints: list[_Number] | None = None
    segmentation: msgspec.Raw = msgspec.Raw()


class CocoFile(msgspec.Struct, gc=False):
    """A whole file."""

    images: list[CocoImage]
    annotations: list[CocoAnnotation] = []
    categories: list[CocoCategory] = []


def read_coco(
    files: Paths, images: str | Mapping[str, str] | None = None, limits: Limits = DEFAULT
) -> Iterator[RowGroup]:
    """Yield the images of COCO's JSON files, in one group.

    It has `path`; `id`, COCO's where it differs for all images; `split` if there are splits;
    `boxes` (xyxy in pixels), `labels` and `iscrowd`; `captions`; `keypoints` (x, y, visibility of
    each point); `segmentation`, the JSON of each object's polygons or run lengths as it is written;
    and the annotated size. Columns for which there is nothing in any file are absent.
    """
    by_split = files if isinstance(files, Mapping) else {"": files}
    splits = {
        split: [given] if isinstance(given, str) else list(given)
        for split, given in by_split.items()
    }
    if not splits or not all(splits.values()):
        raise ArgumentError("coco= (--coco) names no file, or none of a split")
    folders = _folders(splits, images)
    packed = any(map(member_of, folders.values()))  # in archives, whose members have whole paths
    root = os.getcwd() if packed else os.path.commonpath(list(folders.values()))
    parts, class_names = [], dict[str, None]()
    for split, given in splits.items():
        rows, names = _read_split(given, limits)
        class_names |= names
        folder = folders[split] if packed else os.path.relpath(folders[split], root)
        if folder != ".":
            rows = with_column(rows, "path", joined(folder, rows["path"]))
        if split:
            rows = rows.append_column("split", pa.repeat(split, len(rows)))
        parts.append(rows)
    table = pa.concat_tables(parts, promote_options="default")
    if pc.count_distinct(table["id"]).as_py() < len(table):
        table = table.drop_columns(["id"])  # files that were numbered each on its own
    if "boxes" not in table.column_names:  # nothing to place
        table = table.drop_columns(list(ANNOTATED))
    labels: dict[str, Label] = {"split": {"class_names": [*splits]}} if [*splits] != [""] else {}
    if "boxes" in table.column_names:
        labels |= {"boxes": {"box_format": "xyxy"}, "labels": {"class_names": [*class_names]}}
    yield RowGroup(table, labels=labels, folder=root, total=len(table))


def _folders(
    splits: Mapping[str, list[str]], images: str | Mapping[str, str] | None
) -> dict[str, str]:
    """Return split -> absolute folder of its images."""
    given = list(images.values()) if isinstance(images, Mapping) else [images]
    if any(not isinstance(folder, str | None) for folder in given):
        raise ArgumentError(
            "images= (--images) names several folders for the same images: give one, or "
            '{"train": ..., "val": ...} (--images train=FOLDER --images val=FOLDER)'
        )
    if isinstance(images, Mapping):
        if images.keys() != splits.keys():
            raise ArgumentError(
                f"images= (--images) has the splits {', '.join(images) or 'none'}, coco= (--coco) "
                f"has {', '.join(filter(None, splits)) or 'none'}: name the same"
            )
        return {split: absolute_place(folder) for split, folder in images.items()}
    return {
        split: absolute_place(os.path.dirname(paths[0]) if images is None else images)
        for split, paths in splits.items()
    }


def _read_split(files: list[str], limits: Limits) -> tuple[pa.Table, dict[str, None]]:
    """Read files of the same images, each adds its columns; return rows and class names."""
    table, names = pa.table({}), dict[str, None]()
    for path in files:
        document = read_json(path, CocoFile, _FORMAT, limits, "file_bytes")
        classes = _classes(document.categories, path)
        names |= dict.fromkeys(classes.values())
        rows = _images(document.images, path)
        columns = _columns(document.annotations, rows["id"].combine_chunks(), classes, path)
        if table.column_names and not rows.equals(table.select(rows.column_names)):
            raise ManifestError(
                f"{path} and {files[0]} do not list the same images in the same order. Those of "
                'different images are splits: coco={"train": ..., "val": ...} (--coco '
                "train=FILE.json --coco val=FILE.json)"
            )
        table = table if table.column_names else rows
        for name, column in columns.items():
            if name not in table.column_names:
                table = table.append_column(name, column)
            elif not table[name].combine_chunks().equals(column):
                raise ManifestError(
                    f"{path} and an earlier file of the same images differ in {name}: give one"
                )
    return table, names


def _classes(categories: list[CocoCategory], path: str) -> dict[Id, str]:
    """Return category id -> name, in the order of the ids, which may have gaps."""
    for key in ("id", "name"):
        values = [getattr(category, key) for category in categories]
        twice = next((value for value, times in Counter(values).items() if times > 1), None)
        if twice is not None:
            raise ManifestError(
                f"{path} has two categories of the {key} {quote(twice)}. A class has one id and "
                "one name: mend the file"
            )
    in_order = sorted(categories, key=lambda category: (isinstance(category.id, str), category.id))
    return {category.id: category.name for category in in_order}


def _images(images: list[CocoImage], path: str) -> pa.Table:
    table = pa.table(
        {
            "id": _ids([image.id for image in images], f"images[].id of {path}"),
            "path": pa.array([image.file_name for image in images], pa.string()),
            ANNOTATED[0]: pa.array([image.width for image in images], pa.int64()),
            ANNOTATED[1]: pa.array([image.height for image in images], pa.int64()),
        }
    )
    check_stored_paths(table, "the folder of the images", path)
    paths = pc.utf8_slice_codeunits(tidy(table["path"], ""), 1)  # ./a.png is a.png
    for key, values in (("id", table["id"]), ("file_name", paths)):
        twice = _repeated(values)
        if twice is not None:
            raise ManifestError(
                f"{path} has two images of the {key} {quote(twice)}: which of them do annotations "
                "belong to? Mend the file"
            )
    return table


def _ids(values: list[Id], what: str) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        if not all(isinstance(value, str) for value in values):
            raise ManifestError(f"{what} mixes text and numbers: write all as one of them")
        return pa.array(values, pa.string())
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        raise ManifestError(f"{what} has a number beyond 64 bits: write ids as text") from None


def _repeated(values: pa.Array | pa.ChunkedArray) -> object:
    twice = repeated(values)
    return twice[0]["values"].as_py() if len(twice) else None


def _columns(
    annotations: list[CocoAnnotation], ids: pa.Array, classes: Mapping[Id, str], path: str
) -> dict[str, pa.Array]:
    """Return what the annotations say of each image: lists in the order of the file."""
    owners = [annotation.image_id for annotation in annotations]
    keys = _ids(owners, f"annotations[].image_id of {path}")
    found = pc.index_in(keys, value_set=ids) if keys.type == ids.type else pa.nulls(len(keys))
    if found.null_count:
        number = found.is_null().index(True).as_py()
        raise ManifestError(
            f"{path}: annotations[{number}] is of image_id {quote(owners[number])}, which no image "
            f"has. {found.null_count} of {len(owners)} annotations have no image: mend the file"
        )
    rows = found.to_numpy().astype(np.int64)
    boxed = [n for n, annotation in enumerate(annotations) if annotation.bbox is not None]
    told = [n for n, annotation in enumerate(annotations) if annotation.caption is not None]
    if len({*boxed, *told}) < len(annotations):
        number = min(set(range(len(annotations))) - {*boxed, *told})
        raise ManifestError(f"{path}: annotations[{number}] has neither a bbox nor a caption")
    columns: dict[str, pa.Array] = {}
    if boxed:
        columns |= _boxes(annotations, np.array(boxed), rows, len(ids), classes, path)
    if told:
        order, lengths = _by_image(rows[told], len(ids))
        captions = pa.array([annotations[n].caption for n in told], pa.string())
        columns["captions"] = nest(captions.take(order), lengths)
    return columns


def _by_image(rows: npt.NDArray[np.int64], images: int) -> tuple[pa.Array, ListLengths]:
    """Return the order that puts annotations by image, and how many each image has."""
    return pa.array(np.argsort(rows, kind="stable")), np.bincount(rows, minlength=images)


def _boxes(
    annotations: list[CocoAnnotation],
    boxed: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    images: int,
    classes: Mapping[Id, str],
    path: str,
) -> dict[str, pa.Array]:
    order, lengths = _by_image(rows[boxed], images)
    ordered = [annotations[n] for n in boxed[order.to_numpy()]]
    boxes = np.array([annotation.bbox for annotation in ordered])
    boxes[:, 2:] += boxes[:, :2]
    labels = pa.array([classes.get(item.category_id) for item in ordered], pa.string())
    if labels.null_count:
        strange = ordered[labels.is_null().index(True).as_py()]
        number = next(n for n in boxed if annotations[n] is strange)
        raise ManifestError(
            f"{path}: annotations[{number}] is of category_id {quote(strange.category_id)}, which "
            f"is none of its categories: {', '.join(map(str, classes))}"
        )
    crowd = pa.array([bool(item.iscrowd) for item in ordered])
    columns = {
        "boxes": nest_boxes(boxes, lengths),
        "labels": nest(labels, lengths),
        "iscrowd": nest(crowd, lengths),
    }
    regions = pa.array([_written(item) for item in ordered], pa.string())
    if regions.null_count < len(regions):
        columns["segmentation"] = nest(regions, lengths)
    if any(item.keypoints for item in ordered):
        points = [item.keypoints or () for item in ordered]
        sizes = np.array([len(each) for each in points])
        if (sizes % 3).any():
            raise ManifestError(
                f"{path}: an annotation of image_id "
                f"{quote(ordered[int(np.argmax(sizes % 3 > 0))].image_id)} has key points that are "
                "not x, y, visibility of each"
            )
        flat = pa.array(np.fromiter(chain.from_iterable(points), np.float32, int(sizes.sum())))
        columns["keypoints"] = nest(nest(flat, sizes), lengths)
    return columns


def _written(annotation: CocoAnnotation) -> str | None:
    """Return the JSON of a segmentation; None of one that is empty."""
    raw = bytes(annotation.segmentation)
    text = msgspec.json.format(raw, indent=-1).decode() if raw else ""
    return text if text.strip("[]") not in ("", "null") else None


COCO = Source(
    read_coco,
    Argument(OF_SPLITS, "JSON file of COCO. Repeatable.", "[SPLIT=]FILE.json", is_path=True),
    {"images": IMAGES},
    shared=("limits",),
)
