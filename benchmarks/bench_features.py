"""What do columns, masks, boxes, lists, random crops and flips cost beside decoding images?"""

import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import pandas as pd
import PIL.Image
from corpus import photographs
from measure import Findings, Rates, Verdict, alternate, finish

import dfgen
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.workers.chunks import Chunk, ChunkMaker
from dfgen.samples.pixels.upright import prepare_worker

SIZE, LOAD_SIZE = (224, 224), (256, 256)
FILES, CHUNKS, ROUNDS = 240, 3, 40  # short rounds: a few per cent are looked for
ITEMS = 8  # files of a list
PALETTE = {(64 * number, 0, 255): number for number in range(4)}

PLAIN = dfgen.Image(size=SIZE)
CENTRE = dfgen.Image(size=SIZE, load_size=LOAD_SIZE)
RANDOM = dfgen.Image(size=SIZE, load_size=LOAD_SIZE, crop="random", flip="horizontal")
BOXES = dfgen.Boxes(class_names=("a", "b"))
TAGS = tuple(f"tag {number}" for number in range(80))
COLUMNS = {
    "Category": dfgen.Category("kind", "categorical", TAGS),
    "Number": dfgen.Number(["width", "height"]),
    "MultiLabel": dfgen.MultiLabel("tags", TAGS),
    "Text": dfgen.Text("text"),
    "Column": dfgen.Column(["width", "height"], lambda width, height: width / height),
}


def main() -> Findings:
    prepare_worker()
    with tempfile.TemporaryDirectory() as folder:
        frame = make_frame(photographs()[:FILES], Path(folder))
        rates = alternate(
            {
                "image": filled(frame, PLAIN),
                "centre of load_size": filled(frame, CENTRE),
                "random crop and flip": filled(frame, RANDOM),
                "boxes": filled(frame, PLAIN, BOXES),
                "mask as an image": filled(frame, decoded("mask", "grayscale")),
                "mask": filled(frame, PLAIN, dfgen.Mask("mask")),
                "colours as an image": filled(frame, decoded("colours", "rgb")),
                "mask in colours": filled(frame, PLAIN, dfgen.Mask("colours", palette=PALETTE)),
                "lists of 8": filled(in_lists(frame), dfgen.Image("paths", size=SIZE), items=ITEMS),
                **{name: filled(frame, feature) for name, feature in COLUMNS.items()},
            },
            ROUNDS,
        )
    print("\nJPEG 500x375 -> 224 and its PNG mask, one thread", end="")
    rates.show("rows", "image")
    return finish(
        [
            cost("mask and image", rates, "mask", "mask as an image"),
            cost("mask in colours and image", rates, "mask in colours", "colours as an image"),
            share("random crop and flip", rates, "random crop and flip", "centre of load_size"),
            share("random crop and flip, beside no crop", rates, "random crop and flip", "image"),
            share("lists of 8 files a row, each file", rates, "lists of 8", "image"),
            *(alone(f"{name} alone", rates, name) for name in COLUMNS),
        ]
    )


def decoded(column: str, color_mode: str) -> dfgen.Image:
    return dfgen.Image(column, size=SIZE, color_mode=color_mode, interpolation="nearest")


def cost(what: str, rates: Rates, both: str, mask: str) -> Verdict:
    """Compare the time of both with that of the two decodes one after the other."""
    rounds = zip(*(rates.rounds[name] for name in (both, "image", mask)), strict=True)
    time = median(1 / one / (1 / image + 1 / other) for one, image, other in rounds)
    limit = "the rest is the resize of the mask, and the look-up of its colours"
    return Verdict(what, time, 1.1, "x time of two decodes", at_most=True, limit=limit)


def share(what: str, rates: Rates, candidate: str, baseline: str) -> Verdict:
    time = rates.ratio(baseline, candidate)
    return Verdict(what, time, 1.05, f"x time of {baseline}", at_most=True)


def alone(what: str, rates: Rates, column: str) -> Verdict:
    """Compare the time of a column by itself: beside an image it would drown in the noise."""
    return Verdict(what, rates.ratio("image", column), 0.02, "x time of image", at_most=True)


def in_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same files in the same order, several in each row."""
    paths = np.array(frame["path"]).reshape(-1, ITEMS).tolist()
    return pd.DataFrame({"id": range(len(paths)), "paths": paths})


def filled(frame: pd.DataFrame, x: object, y: object = None, items: int = 1) -> Callable[[], int]:
    """Make the next rows in this thread, into one buffer; all candidates go through the same.

    Rows of several items are as many fewer.
    """
    mode = None if y is None else "int"
    sequence = dfgen.Sequence(frame, x, y, label_mode=mode, workers=0)
    reader = sequence._loader.reader
    rows, specs = 16 // items, reader.padding.specs(slice(None), reader.specs)
    out = {name: np.empty((rows, *spec.shape), spec.dtype) for name, spec in specs.items()}
    maker, watch = ChunkMaker(reader, seed=0, skip=False), Stopwatch()
    batches = np.arange(len(frame)).reshape(-1, rows)
    chunks = cycle([Chunk(0, batch, np.zeros_like(batch)) for batch in batches])

    def run() -> int:
        for chunk in islice(chunks, CHUNKS):
            maker.fill(chunk, out, watch, lambda: False)
        return 16 * CHUNKS

    return run


def make_frame(files: list[Path], folder: Path) -> pd.DataFrame:
    """Return images with masks of four classes as smooth as drawn ones, and four boxes each."""
    rng = np.random.default_rng(0)
    rows = []
    for number, file in enumerate(files):
        with PIL.Image.open(file) as image:
            width, height = image.size
        coarse = rng.integers(0, 4, (6, 8), dtype=np.uint8)
        classes = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_NEAREST)
        classes = cv2.medianBlur(classes, 31)
        mask, colours = f"{folder}/{number}.png", f"{folder}/{number}_colours.png"
        cv2.imwrite(mask, classes)
        cv2.imwrite(colours, np.array(list(PALETTE), np.uint8)[classes][..., ::-1])
        boxes = [[10 * n, 10, 10 * n + 50, 90] for n in range(4)]
        rows.append((str(file), mask, colours, boxes, ["a", "b", "a", "b"], width, height))
    names = ["path", "mask", "colours", "boxes", "labels", "width", "height"]
    tags = [rng.choice(TAGS, number % 8).tolist() for number in range(len(rows))]
    columns = {"id": range(len(rows)), "kind": TAGS * 3, "tags": tags, "text": "A caption. " * 5}
    return pd.DataFrame(rows, columns=names).assign(**columns)


if __name__ == "__main__":
    main()
