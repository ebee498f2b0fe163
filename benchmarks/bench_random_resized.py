"""How fast are crops of RandomResizedCrop, beside tf.data's `decode_and_crop_jpeg` of the same?"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
from corpus import large_photographs, photographs
from measure import THREADS, Findings, Rates, Verdict, alternate, finish

import dfgen
from dfgen.samples.pixels.formats import read_header
from dfgen.samples.pixels.geometry import Draw
from dfgen.samples.pixels.upright import prepare_worker
from dfgen.samples.stores.local_files import Files

SIZE, BATCH, ROUNDS = (224, 224), 8, 40  # short rounds: a few per cent are looked for
FILTERED, ALIASED = "dfgen, antialias=True", "dfgen, antialias=False"
PEER, FILTERED_PEER = "tf.data, antialias=False", "tf.data, antialias=True"
ENTROPY = "OpenCV, at 1/8: little more than entropy decoding"
IMAGES = {
    name: dfgen.Image(size=SIZE, crop="random_resized", antialias=antialias)
    for name, antialias in ((FILTERED, True), (ALIASED, False))
}


def main() -> Findings:
    prepare_worker()
    questions = {
        "JPEG 500x375": (photographs()[:48], 1.0),
        "JPEG 3000x2000": (large_photographs()[:8], 2.0),
    }
    verdicts, charts = [], {}
    for what, (files, target) in questions.items():
        rates = charts[what] = measured(files)
        print(f"\n{what} -> {SIZE[0]}, {THREADS} threads", end="")
        rates.show("images", PEER)
        limit = (
            "libjpeg decodes the entropy of all that is above and beside a crop, and for OpenCV of "
            f"what is below too: nothing but that makes {rates.ratio(ENTROPY, PEER):.2f} x {PEER}"
        )
        for ours, peer in ((ALIASED, PEER), (FILTERED, FILTERED_PEER)):
            ratio = rates.ratio(ours, peer)
            verdicts.append(Verdict(f"{what}, {ours}", ratio, target, f"x {peer}", limit=limit))
    return finish(verdicts, charts)


def measured(files: list[Path]) -> Rates:
    """Read, decode, crop and resize the same parts of the same files."""
    paths, rng = [str(file) for file in files], np.random.default_rng(0)
    draws = [IMAGES[FILTERED].draw(rng) for _ in paths]
    sizes = [read_header(path, Files()).size for path in paths]
    boxes = [
        tuple(IMAGES[FILTERED].place(size, SIZE, draw).source)
        for size, draw in zip(sizes, draws, strict=True)
    ]
    candidates = {name: with_dfgen(image, paths, draws) for name, image in IMAGES.items()}
    candidates[PEER] = with_tf_data(paths, boxes, antialias=False)
    candidates[FILTERED_PEER] = with_tf_data(paths, boxes, antialias=True)
    candidates[ENTROPY] = at_an_eighth(paths)
    return alternate(candidates, ROUNDS)


def with_dfgen(image: dfgen.Image, paths: list[str], draws: list[Draw]) -> Callable[[], int]:
    buffers = np.empty((THREADS, BATCH, *SIZE, 3), np.uint8)

    def lane(first: int) -> None:
        for number in range(first, len(paths), THREADS):
            out = buffers[first, number // THREADS % BATCH]
            image.read(paths[number], out, Files(), given=draws[number])

    return in_lanes(lane, len(paths))


def at_an_eighth(paths: list[str]) -> Callable[[], int]:
    def lane(first: int) -> None:
        for path in paths[first::THREADS]:
            data = np.frombuffer(Files().read(path), np.uint8)
            cv2.imdecode(data, cv2.IMREAD_REDUCED_GRAYSCALE_8)

    return in_lanes(lane, len(paths))


def in_lanes(lane: Callable[[int], None], count: int) -> Callable[[], int]:
    def run() -> int:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lane, range(THREADS)))
        return count

    return run


def with_tf_data(
    paths: list[str], boxes: list[tuple[int, ...]], antialias: bool
) -> Callable[[], int]:
    import tensorflow as tf

    def load(path: object, box: object) -> object:
        data = tf.io.read_file(path)
        part = tf.io.decode_and_crop_jpeg(data, box, channels=3, dct_method="INTEGER_FAST")
        return tf.cast(tf.image.resize(part, SIZE, antialias=antialias), tf.uint8)

    settings = tf.data.Options()
    settings.deterministic = False
    data = tf.data.Dataset.from_tensor_slices((paths, np.array(boxes, np.int32)))
    data = data.map(load, num_parallel_calls=THREADS).batch(BATCH).prefetch(2)
    data = data.with_options(settings)
    return lambda: sum(len(images) for images in data)


if __name__ == "__main__":
    main()
