"""A folder of images for builds over executors, and a Dask scheduler that can be killed."""

import asyncio
from contextlib import contextmanager
from multiprocessing import get_context

from PIL import Image

import dfgen
from dfgen.manifest.io import read_table

SPLIT = {"train": 0.5, "val": 0.5}
FILES = 60


def write_images(folder):
    """Write images of two kinds, some of which are twice there or damaged."""
    for row in range(FILES):
        path = folder / "imgs" / ("cat", "dog")[row % 2] / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4 + row % 7, 3 + row // 2 % 5), row // 2).save(path)
    (folder / "imgs/cat/010.png").write_text("no image")
    (folder / "imgs/dog/011.png").write_bytes((folder / "imgs/dog/001.png").read_bytes()[:40])


def build(data, name="m.parquet", **options):
    """Build a manifest of them; return its table."""
    how = {"pattern": "{kind}/{id}.png", "split": SPLIT, "group_duplicates": False, **options}
    dfgen.build_manifest(data / "imgs", out=data / name, **how)
    assert not (data / f"{name}.building").exists()
    return read_table(data / name)[0]


@contextmanager
def dask_scheduler():
    """Yield the process of a scheduler with one worker, and its address on a loopback port."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    scheduler = context.Process(target=_schedule, args=(theirs,))
    scheduler.start()
    address = ours.recv()
    worker = context.Process(target=_work, args=(address,))
    worker.start()
    try:
        yield scheduler, address
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.join()


def _schedule(pipe):
    from distributed import Scheduler

    async def serve():
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    asyncio.run(serve())


def _work(address):
    from distributed import Worker

    async def serve():
        async with Worker(address, nthreads=1) as worker:
            await worker.finished()

    asyncio.run(serve())
