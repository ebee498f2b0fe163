"""Jobs D and E from packs: small batches of big sequential reads, and 3 TB through little memory.

Without Keras: batches come from a Loader. The array file of job D, and trainings, are in
test_jobs.py.
"""

import subprocess
import sys
import threading
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

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is in memory")


def loader_of(manifest, window, **options):
    bound = bind(SequenceArguments(manifest, label_mode=None, window=window))
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


@pytest.mark.slow
def test_shards_are_shuffled_in_windows_and_small_batches(tmp_path):
    """A thirtieth of 89,820 samples; training and validation have producers of their own."""
    count, before = 2_994, set(threading.enumerate())
    numbered(tmp_path, count, image_size=(8, 8), shard_size=40_000)
    frame = dfgen.read_manifest(tmp_path / "pack")
    train, val = frame["id"] % 5 > 0, frame["id"] % 5 == 0
    loaders = [
        loader_of(frame[part], "160KB", batch_size=32, shuffle=shuffle, max_queue_size=2, workers=2)
        for part, shuffle in ((train, True), (val, False))
    ]
    for loader, part in zip(loaders, (train, val), strict=True):
        of_rows = frame["id"][part].tolist()
        epochs = [[*epoch_of(loader, epoch)] for epoch in range(2)]
        for batches in epochs:
            assert [max(len(rows) for rows, _ in batches), len(batches[0][0])] == [32, 32]
            assert [n for _, numbers in batches for n in numbers] == [
                of_rows[row] for rows, _ in batches for row in rows
            ]
            seen = [row for rows, _ in batches for row in rows]
            assert sorted(seen) == [*range(len(of_rows))]
            assert (seen == sorted(seen)) == (loader is loaders[1])
        assert (epochs[0] == epochs[1]) == (loader is loaders[1])
    shards = frame["shard"].to_numpy()[train.to_numpy()]
    of_batches = [len({*shards[rows]}) for rows, _ in epoch_of(loaders[0], 0)]
    assert len({*shards}) == 15
    assert max(of_batches) <= 8  # of two windows at most
    assert np.mean(of_batches) > 3
    stream = loaders[0].stream(0)
    next(stream)
    stream.close()
    for loader in loaders:
        loader.close()
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in left if thread.name.startswith("dfgen-")]


PASSES = """
import sys
sys.path.insert(0, sys.argv[1])
from sparse_packs import private
from test_more_than_memory import epoch_of, loader_of

loader = loader_of(sys.argv[2], "8MB", batch_size=4, workers=2, max_queue_size=4)
numbers = [int(number) for number in sys.argv[3].split()]
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


SPARSE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from sparse_packs import private, write_sparse
from test_more_than_memory import loader_of

folder, shards, rows = Path(sys.argv[2]), 24_000, 850
assert write_sparse(folder, shards, rows, 224) > 3e12
before = private()
loader = loader_of(folder, "256MB", batch_size=32, workers=2, max_queue_size=4)
assert len(loader) == shards * rows / 32
for epoch, step in ((0, 0), (1, 600_000)):  # at once, wherever a training goes on
    stream, seen = loader.stream(epoch, step), set()
    for _ in range(20):
        made = next(stream)
        assert made.arrays["image"].shape == (32, 224, 224, 3)
        assert not made.arrays["image"].any()
        seen.update(made.rows.tolist())
    assert len(seen) == 20 * 32
    assert len({row // rows for row in seen}) <= 2 * 2
    stream.close()
print(private() - before)
"""


@pytest.mark.slow
@ON_LINUX
def test_three_terabytes_train_in_little_memory(tmp_path):
    """The files are holes: opening, order and memory are those of 20,400,000 rows."""
    assert growth(SPARSE, tmp_path) < 250


def growth(code, *arguments):
    """Return the MB of its own memory that Python says a piece of code has grown by."""
    here = [str(Path(__file__).parents[at]) for at in (0, 1)]
    code = f"import sys; sys.path[:0] = {here!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(BENCHMARKS), *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(done.stdout)
