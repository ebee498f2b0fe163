"""What do whole files cost beside a bare decode, and which copies of photographs are found?"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
from corpus import PHOTOGRAPHS, large_photographs, photographs, small_images
from measure import THREADS, Findings, Verdict, alternate, finish

from dfgen.manifest.building.file_facts import Access, perceptual_hash
from dfgen.manifest.building.scan import read_facts
from dfgen.manifest.duplicates import duplicates, leaks
from dfgen.manifest.file_copies import bits_between
from dfgen.samples.pixels.upright import prepare_worker

ROWS = 1_000_000
WITHIN = 8
_OTHERS = ("camera.png", "chelsea.png", "coins.png", "moon.png", "retina.jpg", "rocket.jpg")
SOURCES = (*PHOTOGRAPHS, *(PHOTOGRAPHS[0].parent / name for name in _OTHERS))


def main() -> Findings:
    prepare_worker()
    verdicts = [
        whole_files("JPEG 500x375", photographs()),
        whole_files("JPEG 3000x2000", large_photographs()),
        whole_files("PNG 32x32", small_images()[:6000]),
        *among_photographs(),
        *among_a_million(),
    ]
    return finish(verdicts)


def whole_files(kind: str, files: list[Path]) -> Verdict:
    paths = [str(file) for file in files]
    rates = alternate(
        {
            "bare decode": lambda: bare_decode(paths),
            "dfgen full facts": lambda: len(read_facts(paths, Access(THREADS), decode=True)),
        }
    )
    print(f"\nwhole files, {len(paths):,} {kind}, {THREADS} threads", end="")
    rates.show("files", "bare decode")
    ratio = rates.ratio("dfgen full facts", "bare decode")
    what = "a header, a digest, a hash and facts are 40 us of Python beside 40 us of decoding"
    limit = what if ratio < 0.8 and kind.startswith("PNG") else ""
    return Verdict(f"full facts, {kind}", ratio, 0.8, "x bare decode", limit=limit)


def bare_decode(paths: list[str]) -> int:
    parts = [paths[start : start + 32] for start in range(0, len(paths), 32)]
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(_decode_all, parts))


def _decode_all(paths: list[str]) -> int:
    for path in paths:
        cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
    return len(paths)


def among_photographs() -> list[Verdict]:
    """Compare parts of photographs with each other and with copies of themselves."""
    parts = list(_parts())
    hashes = [_hash(part) for part in parts]
    parts, known = zip(*((p, h) for p, h in zip(parts, hashes, strict=True) if h), strict=True)
    hashes = np.array(known, np.uint64)
    one, other = np.triu_indices(len(hashes), 1)
    alike = int((bits_between(hashes[one], hashes[other]) <= WITHIN).sum())
    print(f"\n{len(hashes):,} parts of photographs: {alike} of {len(one):,} pairs alike")
    verdicts = [
        Verdict("pairs of unlike parts of photographs", alike, 5, "taken for copies", at_most=True)
    ]
    for name, copy in COPIES.items():
        copies = [_hash(copy(part)) for part in parts]
        bits = bits_between(hashes, np.array([each or 0 for each in copies], np.uint64))
        bits[[each is None for each in copies]] = 64
        shares = ", ".join(f"{np.mean(bits <= most):.3f} in {most}" for most in range(2, 13, 2))
        print(f"  {name:<28} {shares}")
        found = float(np.mean(bits <= WITHIN))
        verdicts.append(Verdict(f"copies found, {name}", found, 0.97, f"within {WITHIN} bits"))
    return verdicts


def _parts() -> list[np.ndarray]:
    """Return parts of photographs of which no two share the half."""
    random, found = np.random.default_rng(0), []
    for path in SOURCES:
        image = cv2.imread(str(path))
        boxes: list[np.ndarray] = []
        for _ in range(2000):
            size = (np.array(image.shape[:2]) * random.uniform(0.2, 0.7, 2)).astype(int)
            start = random.integers(0, np.array(image.shape[:2]) - size)
            box = np.concatenate([start, start + size])
            if size.min() >= 96 and all(_shared(box, each) < 0.45 for each in boxes):
                boxes.append(box)
        found += [image[box[0] : box[2], box[1] : box[3]] for box in boxes[:60]]
    return found


def _shared(one: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    both = np.prod(np.maximum(sides, 0))
    return float(both / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - both))


def _hash(pixels: np.ndarray) -> int | None:
    return perceptual_hash(pixels[..., ::-1], pixels.shape[:2])


def _saved(pixels: np.ndarray, suffix: str, *options: int) -> np.ndarray:
    return cv2.imdecode(cv2.imencode(suffix, pixels, options)[1], cv2.IMREAD_COLOR)


def _cropped(pixels: np.ndarray, *edges: float) -> np.ndarray:
    """Return pixels without shares at the top, the left, the bottom and the right."""
    height, width = pixels.shape[:2]
    top, left, bottom, right = np.rint(np.array(edges) * [height, width, height, width]).astype(int)
    return pixels[top : height - bottom, left : width - right]


COPIES = {
    "JPEG of quality 75": lambda p: _saved(p, ".jpg", cv2.IMWRITE_JPEG_QUALITY, 75),
    "JPEG of quality 40": lambda p: _saved(p, ".jpg", cv2.IMWRITE_JPEG_QUALITY, 40),
    "WebP of quality 60": lambda p: _saved(p, ".webp", cv2.IMWRITE_WEBP_QUALITY, 60),
    "half as large": lambda p: cv2.resize(p, None, fx=0.5, fy=0.5),
    "twice as large": lambda p: cv2.resize(p, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC),
    "a square of 224": lambda p: cv2.resize(p, (224, 224)),
    "cropped by 1 % at each edge": lambda p: _cropped(p, 0.01, 0.01, 0.01, 0.01),
    "cropped by 2 % at the left": lambda p: _cropped(p, 0, 0.02, 0, 0),
    "cropped by 2 % at two edges": lambda p: _cropped(p, 0.02, 0.02, 0, 0),
    "cropped by 2 % at each edge": lambda p: _cropped(p, 0.02, 0.02, 0.02, 0.02),
}


def among_a_million() -> list[Verdict]:
    random = np.random.default_rng(0)
    hashes = random.integers(0, 2**64, ROWS, dtype=np.uint64)
    digests = [f"{number:032x}" for number in range(ROWS)]
    again = random.permutation(ROWS)[: ROWS // 25].reshape(2, -1)
    bits = random.integers(0, 64, again.shape[1]).astype(np.uint64)
    hashes[again[0]] = hashes[again[1]] ^ (np.uint64(1) << bits)
    frame = pd.DataFrame({"id": np.arange(ROWS), "path": digests, "digest": digests})
    frame["phash"] = pd.array(hashes, "UInt64")
    frame["split"] = pd.Categorical(np.where(random.random(ROWS) < 0.8, "train", "val"))
    verdicts = []
    for find in (duplicates, leaks):
        start = time.perf_counter()
        rows = len(find(frame))
        seconds = time.perf_counter() - start
        print(f"\n{find.__name__} of {ROWS:,} rows: {rows:,} in {seconds:.1f} s")
        what = f"{find.__name__} among a million hashes"
        verdicts.append(Verdict(what, seconds, 60, "s", at_most=True))
    return verdicts


if __name__ == "__main__":
    main()
