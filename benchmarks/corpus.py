"""The files that the benchmarks read, made from the sample photographs of scikit-image and sklearn.

The same pixels each time. Each set is made once, in seconds, in a folder of `benchmarks/corpus/`;
it gets its name when it is complete.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import skimage
import sklearn

import dfgen
from dfgen.manifest.building.scan import read_facts

Pixels = npt.NDArray[np.uint8]

CORPUS = Path(__file__).parent / "corpus"
_SKIMAGE = Path(skimage.__file__).parent / "data"
_SKLEARN = Path(sklearn.__file__).parent / "datasets" / "images"
PHOTOGRAPHS = (
    _SKIMAGE / "astronaut.png",
    _SKIMAGE / "coffee.png",
    _SKIMAGE / "ihc.png",
    _SKIMAGE / "motorcycle_left.png",
    _SKIMAGE / "motorcycle_right.png",
    _SKLEARN / "china.jpg",
)
"""Those with as much detail as a camera gives: the others make small JPEGs."""

SIZES = ((500, 375), (500, 375), (375, 500), (500, 333))  # (width, height)
GRAIN = 7.0  # standard deviation that makes the crops 74 kB, as photographs of that size are
KINDS = 10


def photographs() -> list[Path]:
    """Return 1,500 JPEG files of 500x375 pixels and the like, 74 kB on average."""
    return _files("photographs", partial(_encoded, ".jpg", _crops(1500)))


def large_photographs() -> list[Path]:
    """Return 24 JPEG files of 3000x2000 pixels, 760 kB on average."""
    return _files("large", partial(_encoded, ".jpg", _enlarged(24)))


def shrunk_photographs() -> list[Path]:
    """Return 480 JPEG files of 256x256 pixels, as data sets are stored for training."""
    images = (cv2.resize(crop, (256, 256), interpolation=cv2.INTER_AREA) for crop in _crops(480))
    return _files("shrunk", partial(_encoded, ".jpg", images))


def small_images() -> list[Path]:
    """Return 20,000 PNG files of 32x32 pixels."""
    return _files("small", partial(_encoded, ".png", _thumbnails(20_000)))


def tree() -> Path:
    """Return a folder of 100,000 empty files, a hundred in each of a thousand folders."""
    return _made("tree", _write_tree)


def linked() -> Path:
    """Return a folder of 100,000 names of the small images, a thousand in each of its folders."""
    return _made("linked", partial(_write_links, small_images()))


def manifest(rows: int) -> Path:
    """Return a manifest of distinct readable paths, all of the 1,500 photographs.

    They are links to the folder of the photographs under as many names as are needed.
    """
    folder = _made(f"manifest_{rows}", partial(_write_manifest, photographs(), rows))
    return folder / "manifest.parquet"


def instances() -> Path:
    """Return a JSON file of COCO with 10^6 boxes and their outlines on 120,000 images."""
    return _made("instances", _write_instances) / "instances.json"


def voc_tree() -> Path:
    """Return a folder of 5,000 XML files of three boxes in xml/, and as many images."""
    return _made("voc", _write_voc)


def _files(name: str, write: Callable[[Path], None]) -> list[Path]:
    return sorted(_made(name, write).iterdir())


def _made(name: str, write: Callable[[Path], None]) -> Path:
    """Return a folder of the corpus, made by `write` if it is not there."""
    folder, unfinished = CORPUS / name, CORPUS / f"{name}.unfinished"
    if not folder.exists():
        print(f"making benchmarks/corpus/{name}", flush=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        unfinished.rename(folder)
    return folder


def _encoded(suffix: str, images: Iterator[Pixels], folder: Path) -> None:
    settings = [cv2.IMWRITE_JPEG_QUALITY, 90] if suffix == ".jpg" else []
    for number, image in enumerate(images):
        cv2.imwrite(str(folder / f"{number:05d}{suffix}"), image, settings)


def _photograph(number: int) -> Pixels:
    return _decoded(PHOTOGRAPHS[number % len(PHOTOGRAPHS)])


@cache
def _decoded(path: Path) -> Pixels:
    image = cv2.imread(str(path))
    if image is None:
        raise FileNotFoundError(f"{path} is no image: which version of its package is this?")
    return image


def _crop(number: int, size: tuple[int, int], least: float, random: np.random.Generator) -> Pixels:
    """Return a crop from anywhere in a photograph, `least` of it or more, half of them mirrored."""
    image = _photograph(number)
    scale = random.uniform(least, 1) * min(image.shape[1] / size[0], image.shape[0] / size[1])
    width, height = int(size[0] * scale), int(size[1] * scale)
    left = random.integers(image.shape[1] - width + 1)
    top = random.integers(image.shape[0] - height + 1)
    crop = image[top : top + height, left : left + width]
    if random.random() < 0.5:
        crop = crop[:, ::-1]
    return cv2.resize(crop, size, interpolation=cv2.INTER_CUBIC)


def _crops(count: int) -> Iterator[Pixels]:
    random = np.random.default_rng(0)
    grain = random.normal(0, GRAIN, (600, 600, 3)).astype(np.float32)
    for number in range(count):
        size = SIZES[number // len(PHOTOGRAPHS) % len(SIZES)]
        crop = _crop(number, size, 0.7, random)
        top, left = random.integers(100, size=2)
        crop = crop + grain[top : top + size[1], left : left + size[0]]
        yield np.clip(crop, 0, 255).astype(np.uint8)


def _enlarged(count: int) -> Iterator[Pixels]:
    random = np.random.default_rng(1)
    return (_crop(number, (3000, 2000), 0.95, random) for number in range(count))


def _thumbnails(count: int) -> Iterator[Pixels]:
    random = np.random.default_rng(2)
    for number in range(count):
        image = _photograph(number)
        top, left = (random.integers(side - 128) for side in image.shape[:2])
        part = image[top : top + 128, left : left + 128]
        yield cv2.resize(part, (32, 32), interpolation=cv2.INTER_AREA)


def _write_tree(folder: Path) -> None:
    for number in range(1000):
        below = folder / f"{number // 10:02d}" / f"{number % 10}"
        below.mkdir(parents=True)
        for file in range(100):
            (below / f"{file:02d}_{number:03d}.jpg").touch()


def _write_links(files: list[Path], folder: Path) -> None:
    for number in range(100_000):
        path = folder / f"{number // 1000:02d}" / f"{number:05d}.png"
        path.parent.mkdir(exist_ok=True)
        path.hardlink_to(files[number % len(files)])


def _write_manifest(files: list[Path], rows: int, folder: Path) -> None:
    shards = -(-rows // len(files))
    for shard in range(shards):
        (folder / f"{shard:03d}").symlink_to(Path("..", files[0].parent.name))
    number = np.arange(rows)
    place = number % len(files)
    names = np.array([f"/{file.name}" for file in files])[place]
    shard_names = np.array([f"{shard:03d}" for shard in range(shards)])[number // len(files)]
    facts = read_facts([str(file) for file in files])
    frame = facts.take(pa.array(place)).to_pandas()
    frame.insert(0, "id", number)
    frame.insert(1, "path", f"{folder}/" + pd.Series(shard_names) + pd.Series(names))
    kinds = [f"kind {kind}" for kind in range(KINDS)]
    frame.insert(2, "kind", pd.Categorical.from_codes(number % KINDS, kinds))
    dfgen.write_manifest(frame, folder / "manifest.parquet", root=folder)


def _write_instances(folder: Path) -> None:
    random = np.random.default_rng(0)
    images, boxes = 120_000, 1_000_000
    owners, kinds = random.integers(images, size=boxes), random.integers(80, size=boxes)
    places = random.integers(200, size=(boxes, 4)) + 1.25
    outline = [[round(number, 2) for number in random.random(20) * 400]]
    with open(folder / "instances.json", "w") as file:
        listed = [
            {"id": 7 * n, "file_name": f"{n:012d}.jpg", "width": 640, "height": 480, "license": 1}
            for n in range(images)
        ]
        classes = [{"id": 2 * n, "name": f"class {n}"} for n in range(80)]
        head = json.dumps({"images": listed, "categories": classes})
        file.write(head[:-1] + ', "annotations": [')
        for n, (owner, kind, place) in enumerate(
            zip(owners.tolist(), kinds.tolist(), places.tolist(), strict=True)
        ):
            box = {
                "id": n, "image_id": 7 * owner, "category_id": 2 * kind, "bbox": place,
                "area": 702.1, "iscrowd": 0, "segmentation": outline,
            }  # fmt: skip
            file.write((", " if n else "") + json.dumps(box))
        file.write("]}")


def _write_voc(folder: Path) -> None:
    item = (
        "<object><name>{}</name><pose>Left</pose><truncated>0</truncated><difficult>0</difficult>"
        "<bndbox><xmin>48</xmin><ymin>24</ymin><xmax>195</xmax><ymax>371</ymax></bndbox></object>"
    )
    text = (
        "<annotation><folder>VOC2012</folder><source><database>x</database></source><size>"
        "<width>500</width><height>375</height><depth>3</depth></size><segmented>0</segmented>"
        + "".join(map(item.format, ("dog", "cat", "person")))
        + "</annotation>"
    )
    for number in range(5000):
        below = f"{number // 100:02d}/{number:04d}"
        for kind, suffix, content in (("xml", ".xml", text), ("images", ".jpg", "")):
            path = folder / kind / f"{below}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
