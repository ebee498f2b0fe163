"""The text file of one image of YOLO: a line an object."""

import math
from dataclasses import dataclass

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.reading import read_bytes, reading
from dfgen.manifest.schema import quote
from dfgen.manifest.sources.image_pairs import VANISHED


@dataclass(frozen=True)
class DataSet:
    """A data.yaml: its path, the folder where paths start, class names, and places."""

    file: str
    root: str
    class_names: list[str]
    places: dict[str, list[str]]  # split -> folders of images, or lists of their paths


@dataclass(frozen=True)
class Object:
    """A line of a text file: class, relative box, and x, y of the corners of a polygon, or none."""

    name: str
    box: tuple[float, float, float, float]
    corners: tuple[float, ...] = ()


def read_objects(path: str, data: DataSet, limits: Limits = DEFAULT) -> list[Object]:
    """Read the labels of one image; a line of something else is named with its number."""
    bounded = reading(path, missing=VANISHED.format(path), limits=limits, bound="header_bytes")
    with bounded as nbytes:
        lines = read_bytes(path, nbytes).decode().splitlines()
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
    if not all(math.isfinite(value) for value in (number, *values)) or (
        len(values) != 4 and (len(values) < 6 or len(values) % 2)
    ):
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
    if len(values) == 4:
        x, y, width, height = values
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        return Object(names[int(number)], box)
    xs, ys = values[::2], values[1::2]
    return Object(names[int(number)], (min(xs), min(ys), max(xs), max(ys)), tuple(values))
