"""Drawings of LabelMe and CVAT for tests: regions, their masks, and manifests of one image."""

import base64
import io

import annotated
import numpy as np
from PIL import Image
from pycocotools import mask as coco_masks

import dfgen

SIZE = (30, 40)  # height, width
STAR = [(20, 1), (8, 28), (38, 10), (2, 10), (32, 28)]  # its edges cross
SQUARE = [(4, 3), (16, 3), (16, 15), (4, 15)]
BLOB = np.zeros((6, 9), np.uint8)
BLOB[1:5, 2:8] = 1
BLOB[2, 4] = 0
IN_PLACE = np.zeros(SIZE, np.uint8)
IN_PLACE[5:11, 20:29] = BLOB


def flat(points):
    return [float(number) for point in points for number in point]


def by_pycocotools(*polygons):
    regions = coco_masks.frPyObjects([flat(one) for one in polygons], *SIZE)
    return coco_masks.decode(coco_masks.merge(regions))


def png_text(mask):
    file = io.BytesIO()
    Image.fromarray(mask * 255).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def rle_of(mask):
    """Return the run lengths of CVAT: along the rows, of zeros first."""
    values = [0, *mask.ravel().tolist()]
    edges = [n for n in range(1, len(values)) if values[n] != values[n - 1]] + [len(values)]
    return ", ".join(map(str, np.diff([1, *edges]).tolist()))


def labelme(*shapes, **options):
    """Return the manifest of one image with these shapes."""
    annotated.image("pets/a.png")
    annotated.labelme("pets/a.json", *shapes, **options)
    return dfgen.build_manifest(labelme="pets")


def cvat(*shapes, labels=None):
    annotated.image("images/a.png")
    annotated.cvat("annotations.xml", {"a.png": shapes}, labels)
    return dfgen.build_manifest(cvat="annotations.xml")
