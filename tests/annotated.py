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
