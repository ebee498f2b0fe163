"""Data sets with annotations, as other tools write them: real images, XML, JSON and text."""

import json
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

WIDTH, HEIGHT = 40, 30


def image(path, width=WIDTH, height=HEIGHT, orientation=None):
    """Write an image; JPEG with an EXIF orientation if one is given."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if orientation is None:
        assert cv2.imwrite(str(path), np.zeros((height, width, 3), np.uint8))
        return
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (width, height)).save(path, "JPEG", exif=exif)


def xml(path, *objects, size=(WIDTH, HEIGHT)):
    """Write an annotation of objects (name, xmin, ymin, xmax, ymax)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    dimensions = "<size><width>{}</width><height>{}</height><depth>3</depth></size>"
    boxes = "".join(
        f"<object><name>{name}</name><pose>Left</pose><bndbox><xmin>{a}</xmin><ymin>{b}</ymin>"
        f"<xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>\n"
        for name, a, b, c, d in objects
    )
    known = dimensions.format(*size) if size else ""
    path.write_text(f"<annotation><folder>x</folder>{known}\n{boxes}</annotation>")


def coco(path, images, annotations=(), categories=(), size=(WIDTH, HEIGHT)):
    """Write a JSON file of images {id: file name}, categories {id: name} and annotations."""
    document = {
        "info": {"year": 2017},
        "images": [
            {"id": key, "file_name": name, "width": size[0], "height": size[1]}
            for key, name in dict(images).items()
        ],
        "categories": [{"id": key, "name": name} for key, name in dict(categories).items()],
        "annotations": list(annotations),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document, indent=1))
    return str(path)


def box(image_id, category_id, *bbox, **more):
    """Return an annotation as COCO has it; a box is x, y, width, height."""
    return {
        "id": 1, "image_id": image_id, "category_id": category_id, "bbox": bbox, "area": 1.5,
        "segmentation": [[1, 2, 3, 4, 5, 6]], "iscrowd": 0, **more,
    }  # fmt: skip


def labelme(path, *shapes, name=None, size=(WIDTH, HEIGHT), flags=None, **more):
    """Write a JSON file as LabelMe 5.5 saves it, of shapes as `drawn` makes them."""
    document = {
        "version": "5.5.0", "flags": flags or {}, "shapes": list(shapes),
        "imagePath": name or Path(path).with_suffix(".png").name, "imageData": None,
        "imageHeight": size[1], "imageWidth": size[0], **more,
    }  # fmt: skip
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document, ensure_ascii=False, indent=2), "utf-8")


def drawn(label, kind, *points, **more):
    """Return a shape of LabelMe; points are x, y."""
    return {
        "label": label, "points": [list(point) for point in points], "group_id": None,
        "description": "", "shape_type": kind, "flags": {}, "mask": None, **more,
    }  # fmt: skip


CVAT_IMAGE = '  <image id="{id}" name="{name}"{of_project} width="{width}" height="{height}">\n'
CVAT_LABEL = (
    "        <label>\n          <name>{}</name>\n          <color>#24b353</color>\n"
    "          <type>{}</type>\n          <attributes>\n          </attributes>\n{}"
    "        </label>\n"
)


def cvat(path, images, labels=None, size=(WIDTH, HEIGHT)):
    """Write an XML file as CVAT for images 1.1 has it.

    Images are {name: [shapes as `cvat_shape` makes them]}, or {(subset, name): ...} of a project;
    labels {name: type}, or {name: (type, parent)} of the points of a skeleton.
    """
    known = ""
    for name, told in (labels or {}).items():
        kind, parent = (told, None) if isinstance(told, str) else told
        of = f"          <parent>{parent}</parent>\n" if parent else ""
        known += CVAT_LABEL.format(name, kind, of)
    text = (
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n'
        "  <meta>\n    <task>\n      <id>7</id>\n      <name>pets</name>\n      <size>2</size>\n"
        "      <mode>annotation</mode>\n"
        f"      <labels>\n{known}      </labels>\n    </task>\n"
        "    <dumped>2025-03-01 10:00:00.000000+00:00</dumped>\n  </meta>\n"
    )
    for number, (name, shapes) in enumerate(images.items()):
        subset, name = name if isinstance(name, tuple) else (None, name)
        of_project = f' subset="{subset}" task_id="4"' if subset else ""
        text += CVAT_IMAGE.format(
            id=number, name=name, of_project=of_project, width=size[0], height=size[1]
        )
        text += "".join(shapes) + "  </image>\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text + "</annotations>\n", "utf-8")
    return str(path)


def cvat_shape(tag, label, attributes=None, inside="", **values):
    """Return an element of a shape: numbers as CVAT rounds them, points as [(x, y), ...]."""
    told = {"label": label, "source": "manual"} | {
        name: ";".join(f"{x:.2f},{y:.2f}" for x, y in value) if name == "points" else value
        for name, value in values.items()
    }
    written = "".join(
        f' {name}="{f"{value:.2f}" if isinstance(value, float) else value}"'
        for name, value in told.items()
    )
    items = "".join(
        f'      <attribute name="{name}">{value}</attribute>\n'
        for name, value in (attributes or {}).items()
    )
    return f"    <{tag}{written}>\n{items}{inside}    </{tag}>\n"
