"""Worker processes make rows of packs in a store of what their parent has fetched."""

import errno
import os
import pickle
import signal
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from packed import assert_same, packed, write_images
from processes_of import children
from servers import http_server

pytest.importorskip("obstore")

from dfgen.binding.bind import bind
from dfgen.binding.row_draws import Ordering
from dfgen.errors import MissingFileError
from dfgen.loading import batch_maker
from dfgen.loading.loader import Loader
from dfgen.loading.workers import pool
from dfgen.samples.transforms import Sample

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is lent on Linux alone")
ROWS, BATCH = 120, 12
PROCESSES = {"workers": 2, "use_multiprocessing": True}


@pytest.fixture
def pixels(tmp_path):
    with served(tmp_path) as server:
        yield server


def served(top, **arguments):
    """A pack behind HTTP, 2 MB in 6 shards."""
    frame = write_images(top / "imgs", ROWS, (72, 80), suffix=".bmp")
    packed(frame, top / "pack", shard_size="400KB", **arguments)
    held = {f"pack/{path.name}": path.read_bytes() for path in top.glob("pack/[a-z_]*")}
    return http_server(held)


def opened(manifest, window="800KB", shuffle=True, transform=None, cache=None, **more):
    order = Ordering(window=window) if shuffle else None
    bound = bind(
        str(manifest), y="kind", order=order, batch_size=BATCH, transform=transform, cache=cache
    )
    options = {"shuffle": shuffle, "seed": 3, "batch_size": BATCH, **more}
    return Loader(bound.reader, drawing=bound.drawing, **options)


def made(manifest, epochs=2, **more):
    loader = opened(manifest, **more)
    try:
        return [batch.arrays for epoch in range(epochs) for batch in loader.batches(epoch)]
    finally:
        loader.close()


def turned(sample: Sample, rng) -> Sample:
    return {**sample, "image": sample["image"][::-1] + rng.integers(9, dtype=np.uint8)}


def test_a_lent_shard_is_mapped_by_its_address_and_not_fetched_again(pixels, tmp_path):
    near = bind(tmp_path / "pack").reader.sources["image"].stored.shards
    [(_, shards)] = bind(f"{pixels.url}/pack").reader.far_packs
    other = pickle.loads(pickle.dumps(shards))
    numbers, places = np.array([2, 0, -1, 0, 2]), np.array([0, 3, 0, 1, 5])

    def read(shards):
        held = shards.holding({0, 2}, numbers, places)
        pairs = [(0, 3), (0, 1), (2, 0), (2, 5)]
        return [held[shard].at(place).tolist() for shard, place in pairs]

    shards.lends = True
    lent = shards.lent(numbers, places)
    assert {*lent} == {0, 2}
    pixels.clear_counts()
    addresses = pickle.loads(pickle.dumps(lent))
    for _ in range(2):
        other.borrow(addresses)
        assert read(other) == read(near)
    mapped = other[2]
    other.borrow({2: addresses[2], 0: ("/proc/self/fd/none", 1)})
    assert other[2] is mapped and pixels.fetched() == []
    assert read(other) == read(near)  # the one whose memory has gone is fetched
    assert pixels.fetched() != []
    other.borrow({})
    assert other[2] is not mapped and other.lent(numbers, places) == {}


@pytest.mark.parametrize(
    ("format", "how"),
    [
        ("original", {"window": "1KB"}),
        ("pixels", {"window": "800KB"}),
        ("original", {"window": "1GB"}),
        ("pixels", {"shuffle": False, "transform": turned}),
    ],
)
def test_processes_fetch_a_pack_once_an_epoch_as_threads_do(tmp_path, format, how):
    with served(tmp_path, format=format) as web:
        assert_same(made(f"{web.url}/pack", **how, **PROCESSES), made(tmp_path / "pack", **how))
        whole = sum(path.stat().st_size for path in tmp_path.glob("pack/shard-*"))
        assert sum(stop - start for start, stop in web.fetched()) <= 2 * 1.1 * whole


def test_a_process_that_is_killed_is_replaced_by_one_that_borrows_anew(pixels, tmp_path):
    near, loader = made(tmp_path / "pack"), opened(f"{pixels.url}/pack", **PROCESSES)
    found = []
    for number, batch in enumerate(loader.batches(0)):
        found.append(batch.arrays)
        if number in (2, 5):
            for child in children():
                with suppress(ProcessLookupError):  # it was the one before, and is gone by now
                    os.kill(child.pid, signal.SIGKILL)
    loader.close()
    assert_same(found, near[: len(found)])


@pytest.mark.slow
def test_memory_of_a_shard_that_was_let_go_is_never_taken_for_that_of_another(pixels, tmp_path):
    """No shard stays here but the last one: each has new memory for nearly every chunk."""
    near = made(tmp_path / "pack", window="1GB")
    loader = opened(f"{pixels.url}/pack", "1GB", **PROCESSES)
    [(_, shards)] = loader.reader.far_packs
    shards.most = 1
    found = [batch.arrays for epoch in range(2) for batch in loader.batches(epoch)]
    handles = len([*Path("/proc/self/fd").iterdir()])
    loader.close()
    assert_same(found, near)
    assert handles < 100


def test_what_memory_cannot_be_lent_of_is_fetched_by_the_processes(pixels, tmp_path, monkeypatch):
    def full(name):
        raise OSError(errno.EMFILE, "Too many open files")

    near, loader = made(tmp_path / "pack"), opened(f"{pixels.url}/pack", **PROCESSES)
    create = os.memfd_create
    monkeypatch.setattr(os, "memfd_create", lambda n: full(n) if n == "dfgen-shard" else create(n))
    found = [batch.arrays for epoch in range(2) for batch in loader.batches(epoch)]
    loader.close()
    assert_same(found, near)


def test_nothing_is_fetched_by_a_parent_that_cannot_lend_it(pixels, tmp_path, monkeypatch):
    for module in (pool, batch_maker):  # as on macOS and Windows
        monkeypatch.setattr(module, "CAN_LEND", False)
    near, loader = made(tmp_path / "pack"), opened(f"{pixels.url}/pack", window="1KB", **PROCESSES)
    found = [batch.arrays for epoch in range(2) for batch in loader.batches(epoch)]
    taken = [far.taken for _, shards in loader.reader.far_packs for far in shards._far.values()]
    loader.close()
    assert_same(found, near)
    assert sum(taken) == 0, taken


def test_a_shard_that_goes_is_told_by_the_process_that_asks_for_it(pixels):
    loader = opened(f"{pixels.url}/pack", **PROCESSES)
    del pixels.held["pack/shard-00001.arrow"]
    with pytest.raises(MissingFileError, match=r"shard-00001.arrow, which has .*, is missing"):
        [*loader.batches()]
    loader.close()


def test_blocks_are_kept_by_the_parent_and_counted(pixels, tmp_path):
    for hits in (False, True):
        loader = opened(f"{pixels.url}/pack", cache=tmp_path / "cache", **PROCESSES)
        assert_same([one.arrays for one in loader.batches(0)], made(tmp_path / "pack", 1))
        metrics = loader.metrics
        loader.close()
        assert (metrics.cache_misses == 0) == hits
        assert (metrics.cache_hits > 400) == hits
