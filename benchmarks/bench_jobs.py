"""Jobs D and E: small batches of big sequential reads, and 3 TB through little memory.

Job E is simulated by its proportions. Opening, and memory: packs whose files are holes on the disk,
of 10^8 rows and of 3 TB. Reading: a pack of 4 GB whose pages are dropped from the system's cache
before each pass, in windows that are to it as a few GB are to 3 TB, beside a bare read of the same
files one after the other; then with a step that takes as long as 0.8 of that read allows.
"""

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from bench_packs import drained, made_pack
from measure import Findings, Rates, Verdict, alternate, finish, in_new_process
from sparse_packs import open_sparse, private, write_sparse

from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.row_draws import Ordering
from dfgen.loading.loader import Loader
from dfgen.samples.features.image import Image

JOB_D = 89_820, 128, 32  # rows, side, batch
SIDE, BATCH, SHARD, WINDOW = 224, 32, "32MB", "128MB"
COLD = 4 * 10**9  # bytes, or a quarter of what is free
TERABYTES = 12_000, 1_700  # shards, and rows of each: 3.07 TB
SLACK = 0.8  # of the device's rate is what the steps of a training take
DISK, AHEAD = "bare sequential read", "dfgen"
_PIECE = 1 << 23


def main() -> Findings:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        folder = Path(name)
        seconds = in_new_process(job_d, folder)
        print(f"\njob D: {JOB_D[0]:,} images of 128x128 in batches of 32: {seconds:.2f} s an epoch")
        opened = [
            holes(folder, *sizes)
            for sizes in ((10_000, 10_000, 18), (TERABYTES[0] // 100, TERABYTES[1], SIDE),
                          (*TERABYTES, SIDE))
        ]  # fmt: skip
        rates, waits, growth, remark = in_new_process(cold, folder)
    print(f"\nPacked pixels {SIDE}x{SIDE}, no page in the cache, windows of {WINDOW}", end="")
    rates.show("images", DISK)
    print(remark)
    print(f"steps at {SLACK} x the device's rate: {waits:.2%} of the time is waiting for a batch")
    ratio, more = rates.ratio(AHEAD, DISK), opened[2][1] - opened[1][1]
    return finish(
        [
            Verdict("job D from a pack, an epoch drained", seconds, 3, "s", True),
            Verdict("cold pages", ratio, 0.9, f"x {DISK}", limit=remark),
            Verdict("job E, steps that wait for a batch", waits, 0.01, "of time", True),
            Verdict("job E, 3 TB opened", opened[2][0], 2, "s", True),
            Verdict("job E, memory with 3 TB less with 30 GB", more, 20, "MB", True),
            Verdict("job E, growth of memory, cold passes", growth, 200, "MB", True),
            Verdict("pack of 10^8 rows, opened", opened[0][0], 2, "s", True),
            Verdict("pack of 10^8 rows, memory", opened[0][1], 1000, "MB", True),
        ],
        {"Packed pixels, cold, images/s": rates},
    )


def job_d(folder: Path) -> float:
    """Return the seconds of an epoch, the median of five after one that is thrown away."""
    rows, side, batch = JOB_D
    pack, seconds = made_pack(folder, rows, side), []
    bound = bind(pack, options=Options(label_mode=None))
    loader = Loader(bound.reader, batch_size=batch, drawing=bound.drawing)
    for epoch in range(6):
        start = time.perf_counter()
        assert sum(len(made.arrays["image"]) for made in loader.batches(epoch)) == rows
        seconds.append(time.perf_counter() - start)
    loader.close()
    shutil.rmtree(pack)
    return median(seconds[1:])


def holes(folder: Path, shards: int, rows: int, side: int) -> tuple[float, float]:
    """Open a pack of holes, and take 500 batches; return the seconds to open it, and its MB."""
    sparse = folder / "sparse"
    sparse.mkdir()
    size = write_sparse(sparse, shards, rows, side)
    opened, first, memory = in_new_process(open_sparse, str(sparse), 500)
    print(
        f"\n{shards * rows:,} rows of {side}x{side} in {shards:,} files, {size / 1e9:,.0f} GB: "
        f"opened in {opened:.2f} s, first batch {first:.2f} s later, {memory:.0f} MB of memory of "
        "its own at most in 500 batches"
    )
    shutil.rmtree(sparse)
    return opened, memory


def cold(folder: Path) -> tuple[Rates, float, float, str]:
    """Return rates, the share of waiting, the growth of private MB, and what the cache left."""
    nbytes = min(COLD, shutil.disk_usage(folder).free // 4)
    pack = made_pack(folder, nbytes // (SIDE * SIDE * 3), SIDE, shard_size=SHARD)
    files = sorted(pack.glob("shard-*.arrow"))
    left: list[float] = []

    def drop() -> None:
        gc.collect()  # what is mapped yet cannot be dropped
        left.append(dropped(files))

    rates = alternate(
        {
            DISK: partial(read_through, files),
            AHEAD: partial(drained, Image(), pack, BATCH, epochs=1, window=WINDOW),
            "dfgen, window of 1 GB": partial(drained, Image(), pack, BATCH, epochs=1),
        },
        rounds=3,
        before=drop,
    )
    drop()
    waits, growth = stepped(pack, BATCH / rates.median(DISK) / SLACK)
    warm = median(timed(partial(read_through, files)) for _ in range(2))
    size = sum(file.stat().st_size for file in files)
    remark = (
        f"{size / 1e9:.1f} GB read at {size * rates.median(DISK) / rows_of(files) / 1e9:.2f} GB/s, "
        f"{size / warm / 1e9:.2f} GB/s warm; {max(left):.1%} of the pages sampled were still "
        "cached after posix_fadvise. A cache behind the device, as of a virtual disk's host, "
        "cannot be dropped from here"
    )
    return rates, waits, growth, remark


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows_of(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files) // (SIDE * SIDE * 3)


def read_through(files: list[Path]) -> int:
    """Read files one after the other in large pieces, as fast as the device gives them."""
    piece = bytearray(_PIECE)
    for file in files:
        with open(file, "rb", 0) as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while opened.readinto(piece):
                pass
    return rows_of(files)


def dropped(files: list[Path]) -> float:
    """Drop the pages of files from the system's cache; return the share that is still there."""
    found = []
    for file in files:
        with open(file, "rb", 0) as opened:
            os.fsync(opened.fileno())  # pages that are not written yet stay
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            found += [cached(opened.fileno(), at) for at in range(0, file.stat().st_size, _PIECE)]
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return sum(found) / len(found)


def cached(descriptor: int, at: int) -> bool:
    try:
        return bool(os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT))
    except OSError:
        return False


def stepped(pack: Path, seconds: float) -> tuple[float, float]:
    """Take an epoch in steps of some seconds; return the share of waiting, and MB that it grew.

    The wait for the first batch, when nothing is there yet, is none of a step.
    """
    bound = bind(pack, x=Image(), options=Options(label_mode=None), order=Ordering(window=WINDOW))
    loader = Loader(bound.reader, batch_size=BATCH, drawing=bound.drawing)
    before, most, waited = private(), 0.0, 0.0
    stream, start = loader.stream(0), time.perf_counter()
    for step in range(len(loader)):
        asked = time.perf_counter()
        next(stream)
        if not step:
            start = asked = time.perf_counter()
        waited += time.perf_counter() - asked
        most = max(most, private())
        time.sleep(seconds)  # the accelerator works, and this process does not
    total = time.perf_counter() - start
    stream.close()
    loader.close()
    return waited / total, most - before


if __name__ == "__main__":
    main()
