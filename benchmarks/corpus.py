"""The files that the benchmarks read, made from photographs in scikit-image and scikit-learn.

Each set is made once, in seconds, in a folder of `benchmarks/corpus/`.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import skimage
import sklearn

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


def photographs() -> list[Path]:
    """Return 1,500 JPEG files of 500x375 pixels and the like, 74 kB on average."""
    return _files("photographs", partial(write_photographs, 1500))


def large_photographs() -> list[Path]:
    """Return 24 JPEG files of 3000x2000 pixels, 760 kB on average."""
    return _files("large", partial(_encoded, ".jpg", _enlarged(24)))


def small_images() -> list[Path]:
    """Return 20,000 PNG files of 32x32 pixels."""
    return _files("small", partial(write_small_images, 20_000))


def write_photographs(count: int, folder: Path) -> None:
    """Write JPEG files of 500x375 pixels and the like into a folder."""
    _encoded(".jpg", _crops(count), folder)


def write_small_images(count: int, folder: Path) -> None:
    """Write PNG files of 32x32 pixels into a folder."""
    _encoded(".png", _thumbnails(count), folder)


def _files(name: str, write: Callable[[Path], None]) -> list[Path]:
    """Return the files of a set, which `write` makes if it is not there."""
    folder, unfinished = CORPUS / name, CORPUS / f"{name}.unfinished"
    if not folder.exists():
        print(f"making benchmarks/corpus/{name}", file=sys.stderr)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        unfinished.rename(folder)
    return sorted(folder.iterdir())


def _encoded(suffix: str, images: Iterator[Pixels], folder: Path) -> None:
    settings = [cv2.IMWRITE_JPEG_QUALITY, 90] if suffix == ".jpg" else []
    for number, image in enumerate(images):
        cv2.imwrite(str(folder / f"{number:05d}{suffix}"), image, settings)


@cache
def _photograph(number: int) -> Pixels:
    image = cv2.imread(str(PHOTOGRAPHS[number]))
    if image is None:
        raise FileNotFoundError(f"{PHOTOGRAPHS[number]} is no image: update scikit-image")
    return image


def _crop(number: int, size: tuple[int, int], least: float, random: np.random.Generator) -> Pixels:
    """Return a crop from anywhere in a photograph, `least` of it or more, half of them mirrored."""
    image = _photograph(number % len(PHOTOGRAPHS))
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
        image = _photograph(number % len(PHOTOGRAPHS))
        top, left = (random.integers(side - 128) for side in image.shape[:2])
        part = image[top : top + 128, left : left + 128]
        yield cv2.resize(part, (32, 32), interpolation=cv2.INTER_AREA)
