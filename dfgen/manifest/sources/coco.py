"""Source `coco`: a JSON file of COCO, of instances, captions or key points, or one of each split.

The smallest tree:

    val/a.jpg
    instances_val.json

    {"images": [{"id": 7, "file_name": "a.jpg", "width": 500, "height": 375}],
     "categories": [{"id": 18, "name": "dog"}],
     "annotations": [{"image_id": 7, "category_id": 18, "bbox": [48, 24, 147, 347]}]}

`bbox` is x, y, width, height. Format: https://cocodataset.org/#format-data.
"""

import os
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, count, quote, warn
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.paths import absolute_place, check_stored_paths, joined, tidy
from dfgen.manifest.reading import read_json
from dfgen.manifest.schema import Label, repeated, with_column
from dfgen.manifest.sources.source import ANNOTATED, MOST_PIXELS, ListLengths, Rows, Side, nest
from dfgen.stores.archives import member_of

_WholeFloat = Annotated[float, msgspec.Meta(multiple_of=1, gt=-(2.0**53), lt=2.0**53)]
"""A whole number as pandas exports it, 5.0."""
_Id = int | str | _WholeFloat
_FloatSize = Annotated[float, msgspec.Meta(multiple_of=1, ge=0.0, lt=MOST_PIXELS)]
_FORMAT = 'as COCO has it, {"images": [...], "annotations": [...], "categories": [...]}'
_Number = Annotated[float, msgspec.Meta(gt=-MOST_PIXELS, lt=MOST_PIXELS)]


class CocoImage(msgspec.Struct, gc=False):
    """An image; other keys are not read."""

    id: _Id
    file_name: str
    width: Side | _FloatSize | None = None
    height: Side | _FloatSize | None = None


class CocoCategory(msgspec.Struct, gc=False):
    """A class."""

    id: _Id
    name: str


class CocoAnnotation(msgspec.Struct, gc=False):
    """A box, a caption or a person with key points."""

    image_id: _Id
    category_id: _Id | None = None
    bbox: list[float] | None = None
    iscrowd: int | bool | _WholeFloat | None = 0
    caption: str | None = None
    keypoints: list[_Number] | None = None
    segmentation: msgspec.Raw = msgspec.Raw()


class CocoFile(msgspec.Struct, gc=False):
    """A whole file."""

    images: list[CocoImage]
    annotations: list[CocoAnnotation] = []
    categories: list[CocoCategory] = []


def read_coco(coco: Any, images: Any, limits: Limits = DEFAULT) -> Rows:
    """Return the images of COCO's JSON files.

    Columns: `path`; `id`, unless two splits use the same; `split` if there are splits; `boxes`
    (xyxy in pixels), `labels` and `iscrowd`; `captions`; `keypoints` (x, y, visibility of each
    point, of the middle of its pixel, half a pixel beyond COCO's number); `segmentation`, the JSON
    of each object's polygons or run lengths; the annotated size. Columns without values are absent.
    """
    splits: dict[str, str] = dict(coco) if isinstance(coco, Mapping) else {"": coco}
    if isinstance(images, Mapping) and images.keys() != splits.keys():
        raise ArgumentError(
            f"images= (--images) has the splits {', '.join(images) or 'none'}, and coco= (--coco) "
            f"has {', '.join(filter(None, splits)) or 'none'}: name the same"
        )
    of_images = images if isinstance(images, Mapping) else dict.fromkeys(splits, images)
    folders = {
        split: absolute_place(of_images[split] or os.path.dirname(path))
        for split, path in splits.items()
    }
    packed = any(map(member_of, folders.values()))  # in archives, whose members have whole paths
    root = os.getcwd() if packed else os.path.commonpath(list(folders.values()))
    parts, class_names = [], dict[str, None]()
    for split, path in splits.items():
        rows, names = _read_file(path, limits)
        class_names |= names
        folder = folders[split] if packed else os.path.relpath(folders[split], root)
        if folder != ".":
            rows = with_column(rows, "path", joined(folder, rows["path"]))
        if split:
            rows = rows.append_column("split", pa.repeat(split, len(rows)))
        parts.append(rows)
    table = pa.concat_tables(parts, promote_options="default")
    if pc.count_distinct(table["id"]).as_py() < len(table):
        table = table.drop_columns(["id"])  # each file has its own numbers
    labels: dict[str, Label] = {}
    if [*splits] != [""]:
        labels["split"] = {"kind": "category", "class_names": [*splits]}
    if "boxes" in table.column_names:
        labels["boxes"] = {"kind": "list", "box_format": "xyxy"}
        labels["labels"] = {"kind": "list", "class_names": [*class_names]}
    else:
        table = table.drop_columns(list(ANNOTATED))
    return Rows(table, root, labels)


def _read_file(path: str, limits: Limits) -> tuple[pa.Table, dict[str, None]]:
    """Return the rows of a file, and its class names."""
    document = read_json(path, CocoFile, _FORMAT, limits)
    classes = _classes(document.categories, path)
    rows = _images(document.images, path)
    ids = rows["id"].combine_chunks()
    for name, column in _columns(document.annotations, ids, classes, path).items():
        rows = rows.append_column(name, column)
    return rows, dict.fromkeys(classes.values())


def _classes(categories: list[CocoCategory], path: str) -> dict[_Id, str]:
    """Return category id -> name, in the order of the ids, which may have gaps."""
    for key in ("id", "name"):
        values = [getattr(category, key) for category in categories]
        twice = next((value for value, times in Counter(values).items() if times > 1), None)
        if twice is not None:
            raise ManifestError(
                f"{path} has two categories with the {key} {quote(twice)}. A class has one id and "
                "one name: correct the file"
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
        if len(twice := repeated(values)):
            raise ManifestError(
                f"{path} has two images with the {key} {quote(twice[0]['values'].as_py())}, so it "
                "is not clear which annotations belong to which: correct the file"
            )
    return table


def _ids(values: list[_Id], what: str) -> pa.Array:
    """Return ids, all of the type of the first."""
    is_text = len(values) > 0 and isinstance(values[0], str)
    try:
        return pa.array(values, pa.string() if is_text else pa.int64())
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ManifestError(f"{what}: {error}. Write all as text, or all as numbers") from None


def _columns(
    annotations: list[CocoAnnotation], ids: pa.Array, classes: Mapping[_Id, str], path: str
) -> dict[str, pa.Array]:
    """Return the columns of the annotations: lists in the order of the file."""
    owners = [annotation.image_id for annotation in annotations]
    keys = _ids(owners, f"annotations[].image_id of {path}")
    places = pc.index_in(keys, value_set=ids) if keys.type == ids.type else pa.nulls(len(keys))
    if places.null_count:
        number = places.is_null().index(True).as_py()
        raise ManifestError(
            f"{path}: annotations[{number}] has image_id {quote(owners[number])}, which no image "
            f"has. {places.null_count} of {len(owners)} annotations have no image: correct the file"
        )
    rows = places.to_numpy().astype(np.int64)
    boxed = [n for n, annotation in enumerate(annotations) if annotation.bbox]
    captioned = [n for n, annotation in enumerate(annotations) if annotation.caption is not None]
    has_boxes = any(annotation.bbox is not None for annotation in annotations)
    if empty := len(annotations) - len({*boxed, *captioned}):
        if not (has_boxes or captioned):
            raise ManifestError(f"{path}: no annotation has a bbox or a caption")
        warn(f"Left out {empty:,} of {count(len(annotations), 'annotation')} of {path}: no bbox.")
    columns: dict[str, pa.Array] = {}
    if has_boxes:
        order, lengths = _by_image(rows[boxed], len(ids))
        items = {boxed[place]: annotations[boxed[place]] for place in order.to_pylist()}
        columns |= _boxes(items, lengths, classes, path)
    if captioned:
        order, lengths = _by_image(rows[captioned], len(ids))
        captions = pa.array([annotations[n].caption for n in captioned], pa.string())
        columns["captions"] = nest(captions.take(order), lengths)
    return columns


def _by_image(rows: npt.NDArray[np.int64], images: int) -> tuple[pa.Array, ListLengths]:
    """Return the order that puts annotations by image, and their number for each image."""
    return pa.array(np.argsort(rows, kind="stable")), np.bincount(rows, minlength=images)


def _boxes(
    items: Mapping[int, CocoAnnotation],
    lengths: ListLengths,
    classes: Mapping[_Id, str],
    path: str,
) -> dict[str, pa.Array]:
    for number, item in items.items():
        where = f"{path}: annotations[{number}]"
        if len(item.bbox or ()) != 4:
            raise ManifestError(f"{where} has the bbox {item.bbox}, expected 4 numbers")
        if len(item.keypoints or ()) % 3:
            raise ManifestError(f"{where} has key points that are not x, y, visibility each")
        if item.category_id not in classes:
            raise ManifestError(
                f"{where} has category_id {quote(item.category_id)}, which is not in its "
                f"categories: {', '.join(map(str, classes))}"
            )
    boxed = [*items.values()]
    boxes = np.reshape([item.bbox for item in boxed], (-1, 4)).astype(np.float64)
    boxes[:, 2:] += boxes[:, :2]
    with np.errstate(over="ignore"):  # infinite, which is outside of every image
        corners = pa.array(boxes.astype(np.float32).ravel())
    names = [classes[item.category_id] for item in boxed if item.category_id is not None]
    crowds = [bool(item.iscrowd) for item in boxed]
    columns = {
        "boxes": nest(nest(corners, np.full(len(boxes), 4)), lengths),
        "labels": nest(pa.array(names, pa.string()), lengths),
        "iscrowd": nest(pa.array(crowds, pa.bool_()), lengths),
    }
    regions = pa.array([_json(item) for item in boxed], pa.string())
    if regions.null_count < len(regions):
        columns["segmentation"] = nest(regions, lengths)
    if any(item.keypoints for item in boxed):
        sizes = np.array([len(item.keypoints or ()) for item in boxed])
        flat = np.fromiter(chain(*(item.keypoints or () for item in boxed)), np.float32)
        flat.reshape(-1, 3)[:, :2] += 0.5 * (flat.reshape(-1, 3)[:, 2:] > 0)
        columns["keypoints"] = nest(nest(pa.array(flat), sizes), lengths)
    return columns


def _json(annotation: CocoAnnotation) -> str | None:
    """Return the JSON of a segmentation; None if it is empty."""
    raw = bytes(annotation.segmentation)
    text = msgspec.json.format(raw, indent=-1).decode() if raw else ""
    return text if text.strip("[]") not in ("", "null") else None
