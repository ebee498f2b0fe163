"""Pictures as text of a bounded length, for pages that hold them."""

import base64
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.system import usable_cpus

_QUALITIES = (80, 50, 20)
_SMALL = 48  # pixels; no larger pictures are shown pixel by pixel, and cost little as they are
_LOSSLESS = 101  # any quality above 100, of OpenCV's WebP


def as_webp(pictures: list[npt.NDArray[np.uint8]], longest: int) -> list[str]:
    """Return each picture, RGB (height, width, 3), as WebP in base64 of at most `longest` letters.

    Pictures that do not fit are compressed more, then made smaller.
    """
    with ThreadPoolExecutor(usable_cpus()) as pool:
        return list(pool.map(partial(_encoded, longest=longest), pictures))


def _encoded(pixels: npt.NDArray[np.uint8], longest: int) -> str:
    while True:
        small = max(pixels.shape[:2]) <= _SMALL
        for quality in (_LOSSLESS,) * small + _QUALITIES:
            bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
            _, encoded = cv2.imencode(".webp", bgr, (cv2.IMWRITE_WEBP_QUALITY, quality))
            text = base64.b64encode(encoded).decode()
            if len(text) <= longest or max(pixels.shape) <= 3:
                return text
        height, width = (max(1, side // 2) for side in pixels.shape[:2])
        pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
