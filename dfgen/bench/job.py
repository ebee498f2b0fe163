"""Job: what every candidate does. The same files, in a shuffled order, to uint8 batches."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import DfgenError, ManifestError
from dfgen.manifest.table_reading import read_table
from dfgen.samples.features.image import Image
from dfgen.samples.stores.local_files import Files

SECONDS = 1.0  # of one measurement, about: longer than the machine's hiccups, and than a start-up
_FIRST = 64  # rows, to see how long one takes
_MOST_BYTES = 2**30  # of files held in memory


@dataclass(frozen=True)
class Job:
    """Paths of the images of one pass, each as often as it is read, and what becomes of them."""

    paths: tuple[str, ...]
    image: Image
    batch_size: int
    workers: int

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the images of a batch."""
        height, width, _ = self.image.spec.shape
        return height, width


@dataclass(frozen=True)
class InMemory(Files):
    """Files whose bytes were read before."""

    data: Mapping[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """Return the bytes of one file."""
        return self.data[path]


@dataclass(frozen=True)
class ChosenRows:
    """Rows of a manifest that were found to be good, and their bytes."""

    usable: int  # rows of the manifest without a problem
    known_problems: int  # rows left out for the problem that the manifest has of them
    left_out: tuple[str, ...]  # of those looked at, what is wrong with each that cannot be decoded
    paths: tuple[str, ...]  # of the images of one pass
    data: Mapping[str, bytes]
    first_read: float  # files per second when they were read for the first time

    @property
    def mean_bytes(self) -> float:
        """Bytes of a file."""
        return sum(map(len, self.data.values())) / len(self.data)


def in_threads(paths: Sequence[str], workers: int, run: Callable[[str, int], None]) -> int:
    """Run `run(path, number)` for every path, on as many threads as a Loader would have."""
    lanes = max(1, workers)

    def lane(first: int) -> None:
        for number in range(first, len(paths), lanes):
            run(paths[number], number)

    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(lane, range(lanes)))
    return len(paths)


def choose(
    manifest: str, rows: int | None, image: Image, batch_size: int, workers: int
) -> ChosenRows:
    """Choose rows of a manifest at random, and read them.

    Without a number of rows it takes as many as make `SECONDS` of decoding, two batches at least.
    Fewer than that, as in a small manifest, are read several times in a pass.
    """
    table = read_table(manifest)[0]
    usable = _usable(table)
    if not len(usable):
        what = "no rows" if not len(table) else f"{len(table):,} rows, each with a problem"
        raise ManifestError(
            f"{manifest} has {what}: expected rows of images to measure. Build it again, or give "
            "another one"
        )
    order = usable.take(pa.array(np.random.default_rng(0).permutation(len(usable))))
    data, bad = dict[str, bytes](), dict[str, str]()
    first = order.slice(0, min(rows or _FIRST, _FIRST))
    reading, decoding = _try(first, image, workers, data, bad)
    count, size = len(data) or 1, sum(map(len, data.values())) or 1
    enough = min(int(SECONDS * count / decoding), _MOST_BYTES * count // size)
    images = max(enough, 2 * batch_size)
    rest = order.slice(len(first), max(0, (rows or images) - len(first)))
    reading += _try(rest, image, workers, data, bad)[0]
    left_out = tuple(bad.values())
    if not data:
        raise ManifestError(
            f"{manifest}: none of {len(left_out):,} rows chosen at random is an image that can be "
            f"decoded. The first: {left_out[0]}"
        )
    paths = tuple(islice(cycle(data), max(images, len(data))))
    first_read = (len(first) + len(rest)) / reading
    return ChosenRows(len(usable), len(table) - len(usable), left_out, paths, data, first_read)


def _usable(table: pa.Table) -> pa.Table:
    columns = table.select(["id", "path"])
    if "problem" not in table.column_names:
        return columns
    problems = table["problem"]
    good = columns.filter(pc.is_null(problems))
    if len(table) and not len(good):
        raise ManifestError(
            f"all {len(table):,} rows have a problem, by the facts of the manifest. The first: "
            f"row id={columns['id'][0].as_py()!r}, path={columns['path'][0].as_py()!r}: "
            f"{problems[0].as_py()}"
        )
    return good


def _try(
    table: pa.Table, image: Image, workers: int, data: dict[str, bytes], bad: dict[str, str]
) -> tuple[float, float]:
    """Read and decode rows once; add their bytes, or what is wrong; return the seconds of each."""
    ids = dict(zip(table["path"].to_pylist(), table["id"].to_pylist(), strict=True))
    paths = list(ids)

    def read(path: str, _: int) -> None:
        data[path] = Files().read(path)

    def decode(path: str, _: int) -> None:
        if path in data:
            image.read(path, np.empty(image.spec.shape, np.uint8), InMemory(data))

    def seconds(step: Callable[[str, int], None]) -> float:
        def run(path: str, number: int) -> None:
            try:
                step(path, number)
            except DfgenError as error:
                data.pop(path, None)
                bad[path] = f"row id={ids[path]!r}, path={path!r}: {error}"

        began = time.perf_counter()
        in_threads(paths, workers, run)
        return time.perf_counter() - began

    return seconds(read), seconds(decode)
