"""Packs of more data than memory: windows of shards, small batches, bounded memory."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from loaders import batches_of

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is in memory")


def loader_of(manifest, window, pack=None, **options):
    bound = bind(SequenceArguments(manifest, label_mode=None, window=window, pack=pack))
    return Loader(bound.reader, order=bound.order, **options)


def epoch_of(loader, epoch):
    """Yield the rows of each batch, and the numbers that their pixels encode."""
    for made in batches_of(loader, epoch):
        pixels = made.arrays["image"].astype(np.int64)
        assert (pixels == pixels[:, :1, :1]).all()
        yield made.rows.tolist(), (pixels[:, 0, 0] @ [256**2, 256, 1]).tolist()


def numbered(folder, rows, **arguments):
    """Pack images whose colour is their number; return these as they come in the pack."""
    (folder / "imgs").mkdir()
    paths = [f"{folder}/imgs/{row}.png" for row in range(rows)]
    for row, path in enumerate(paths):
        colour = np.full((1, 1, 3), [row % 256, row // 256 % 256, row // 256**2], np.uint8)
        cv2.imwrite(path, colour)
    dfgen.pack(pd.DataFrame({"id": range(rows), "path": paths}), folder / "pack", **arguments)
    return pd.read_feather(folder / "pack" / "manifest.arrow")["id"].tolist()


@pytest.mark.parametrize("opened", ["whole", "some rows"])
def test_shards_are_shuffled_in_windows(tmp_path, opened):
    ids = numbered(tmp_path, 600, image_size=(8, 8), shard_size=12_000)
    shards = {id: place // 60 for place, id in enumerate(ids)}  # 10 shards
    if opened == "whole":
        loader, own = loader_of(tmp_path / "pack", 40_000, batch_size=32, workers=2), ids
    else:
        frame = dfgen.read_manifest(tmp_path / "pack")
        frame = frame[frame["id"] % 5 > 0].sample(frac=1, random_state=0)
        own = frame["id"].tolist()
        loader = loader_of(frame, 40_000, tmp_path / "pack", batch_size=32, workers=2)
    epochs = [[*epoch_of(loader, epoch)] for epoch in range(2)]
    loader.close()
    for batches in epochs:
        assert sorted(row for rows, _ in batches for row in rows) == [*range(len(own))]
        assert all(numbers == [own[row] for row in rows] for rows, numbers in batches)
        of_batches = [{shards[number] for number in numbers} for _, numbers in batches]
        assert min(map(len, of_batches)) >= 2 and max(map(len, of_batches)) <= 8  # of two windows
    assert epochs[0] != epochs[1]


PASSES = """
from test_more_than_memory import epoch_of, loader_of

def private():  # without mapped files, whose pages the system frees when it needs memory
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1000 for line in file if line.startswith("RssAnon"))

loader = loader_of(sys.argv[1], 8_000_000, batch_size=4, workers=2, max_queue_size=4)
numbers = [int(number) for number in sys.argv[2].split()]
stream = loader.stream(0)
for _ in range(10):
    next(stream)
stream.close()
before, most = private(), 0
for epoch in range(2):
    seen = []
    for rows, found in epoch_of(loader, epoch):
        assert found == [numbers[row] for row in rows]
        seen += found
        most = max(most, private())
    assert sorted(seen) == list(range(len(numbers)))
print(most - before)
"""


@pytest.mark.slow
@ON_LINUX
def test_own_memory_does_not_grow_with_data_read(tmp_path):
    """Twice 60 MB in windows of 8 MB."""
    ids = numbered(tmp_path, 500, image_size=(200, 200), shard_size="2MB")
    assert growth(PASSES, tmp_path / "pack", " ".join(map(str, ids))) < 20


def growth(code, *arguments):
    """Return the MB of its own memory that Python says a piece of code has grown by."""
    here = [str(Path(__file__).parents[at]) for at in (0, 1)]
    code = f"import sys; sys.path[:0] = {here!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(done.stdout)
