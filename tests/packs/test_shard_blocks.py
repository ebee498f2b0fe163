"""cache= of packs in a store: blocks are fetched once, and batches are those of the folder."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from full_disk import files_of_at_most
from packed import packed, write_images
from servers import http_server

pytest.importorskip("obstore")

from dfgen.binding.bind import bind
from dfgen.binding.row_draws import Ordering
from dfgen.errors import ManifestError
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.packs.pack_index import sealed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="cache= is not for Windows")
ROWS, BATCH, BLOCK = 96, 8, 4096
LOOKED_INTO = 4 * BLOCK  # bytes: one shard, for the shape of its pixels, before anything is kept
OPTIONS = {"shuffle": True, "seed": 3, "batch_size": BATCH}


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """Return the folder of a pack: 1.7 MB in 5 shards."""
    return packed_images(tmp_path_factory.mktemp("near"))


def packed_images(top, first=0, **arguments):
    frame = write_images(top / "imgs", ROWS, (72, 80), first=first)
    packed(frame, top / "pack", **{"shard_size": "400KB", **arguments})
    return top / "pack"


def contents(folder):
    return {f"pack/{path.name}": path.read_bytes() for path in folder.glob("[a-z_]*")}


@pytest.fixture
def web(pack):
    with http_server(contents(pack)) as server:
        server.whole = sum(path.stat().st_size for path in pack.glob("shard-*"))
        yield server


def batches(manifest, cache=None, epochs=(0, 1), window="800KB", limits=None, **more):
    """Return the arrays and rows of some epochs, and the metrics."""
    order = Ordering(window=window)
    bound = bind(str(manifest), y="kind", order=order, batch_size=BATCH, cache=cache, limits=limits)
    loader = Loader(bound.reader, drawing=bound.drawing, limits=limits, **{**OPTIONS, **more})
    try:
        made = [(batch.arrays, batch.rows) for n in epochs for batch in loader.batches(n)]
        return made, loader.metrics
    finally:
        loader.close()


def assert_same(one, other):
    assert len(one) == len(other) > 0
    for (first, rows), (second, others) in zip(one, other, strict=True):
        assert np.array_equal(rows, others)
        for name in first:
            assert np.array_equal(first[name], second[name])


def fetched(server):
    """Return the bytes of shards that were asked for since this was asked last."""
    extents = server.fetched()
    server.clear_counts()
    return sum(stop - start for start, stop in extents)


def kept(cache):
    """Return the two files of the blocks."""
    [index] = Path(cache).glob("*/index")
    return index, index.parent / "pixels"


@pytest.mark.parametrize(
    "arguments", [{}, {"image_size": "own"}, {"format": "original"}, {"format": "jpeg"}]
)
def test_later_runs_fetch_nothing_of_what_the_first_epoch_has_kept(tmp_path, arguments):
    folder = packed_images(tmp_path, **arguments)
    near, _ = batches(folder)
    with http_server(contents(folder)) as server:
        first, metrics = batches(f"{server.url}/pack", tmp_path / "cache")
        assert_same(first, near)
        whole = sum(path.stat().st_size for path in folder.glob("shard-*"))
        assert 0.9 * whole < fetched(server) <= whole + LOOKED_INTO
        assert metrics.cache_misses * BLOCK >= whole
        assert metrics.cache_bytes == metrics.cache_misses * BLOCK
        later, metrics = batches(f"{server.url}/pack", tmp_path / "cache")
        assert_same(later, near)
        assert fetched(server) <= LOOKED_INTO
        assert metrics.cache_misses == 0
        assert metrics.cache_hits * BLOCK >= whole


def test_what_memory_does_not_hold_any_more_comes_from_the_disk(pack, web, tmp_path):
    """Windows of two shards of five, of which six at most are held."""
    order = Ordering(window="1KB")
    bound = bind(
        f"{web.url}/pack", y="kind", order=order, batch_size=BATCH, cache=tmp_path / "cache"
    )
    [(_, shards)] = bound.reader.sources["image"].far_packs
    shards.most = 1
    loader = Loader(bound.reader, drawing=bound.drawing, workers=0, **OPTIONS)
    first = [batch.arrays for batch in loader.batches(0)]
    assert fetched(web) <= 1.05 * web.whole
    made = [*first, *(batch.arrays for batch in loader.batches(1))]
    assert fetched(web) == 0
    loader.close()
    near, _ = batches(pack, window="1KB")
    for arrays, (others, _) in zip(made, near, strict=True):
        assert np.array_equal(arrays["image"], others["image"])


@pytest.mark.slow
@pytest.mark.parametrize(("window", "own"), [("1KB", False), ("1GB", True)])
def test_hosts_fetch_a_pack_about_once_and_in_later_runs_hardly_anything(tmp_path, window, own):
    """Four of them, on one node or each on its own; 5 MB."""
    rows, hosts = 2_400, 4
    frame = pd.concat([write_images(tmp_path / "imgs", 240, (24, 30))] * 10, ignore_index=True)
    packed(frame.assign(id=range(rows)), tmp_path / "pack", shard_size="1MB")
    whole = sum(path.stat().st_size for path in tmp_path.glob("pack/shard-*"))
    with http_server(contents(tmp_path / "pack")) as server:
        for epoch, most in ((0, 1.1), (1, 0.15 if own else 0.02)):
            taken = []
            for host in range(hosts):
                cache = tmp_path / f"cache{host * own}"
                made, _ = batches(
                    f"{server.url}/pack", cache, (epoch,), window, shard=(host, hosts)
                )
                taken += [numbers for _, numbers in made]
            assert np.bincount(np.concatenate(taken)).tolist() == [1] * rows
            assert fetched(server) <= most * whole


@pytest.fixture
def trained(pack, web, tmp_path):
    """Return a function that trains on the pack in a store; it returns what is told, and misses."""

    def train(**more):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made, metrics = batches(f"{web.url}/pack", tmp_path / "cache", **more)
        assert_same(made, batches(pack)[0])
        return [str(one.message) for one in told], metrics.cache_misses

    return train


OTHER = """
import sys
import test_shard_blocks as tests
print("ready", flush=True)
made, _ = tests.batches(sys.argv[1], sys.argv[2])
tests.assert_same(made, tests.batches(sys.argv[3])[0])
"""


@pytest.mark.slow
def test_processes_share_a_folder_at_the_same_time(pack, web, tmp_path, trained):
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    given = [f"{web.url}/pack", str(tmp_path / "cache"), str(pack)]
    command = [sys.executable, "-W", "error::UserWarning", "-c", OTHER, *given]
    env = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        assert trained()[0] == []
    assert other.returncode == 0
    fetched(web)
    assert trained() == ([], 0)
    assert fetched(web) <= LOOKED_INTO


@pytest.mark.parametrize("damage", ["flipped", "cut short", "no pixels", "index cut short"])
def test_blocks_that_are_damaged_are_fetched_again(pack, web, tmp_path, damage):
    cache = tmp_path / "cache"
    near, _ = batches(f"{web.url}/pack", cache)
    index, pixels = kept(cache)
    data = bytearray(pixels.read_bytes())
    if damage == "flipped":
        for at in range(100, 10 * BLOCK, BLOCK):
            data[at] ^= 1
        pixels.write_bytes(data)
    elif damage == "index cut short":
        index.write_bytes(index.read_bytes()[: 64 + 32 * 7 + 5])
    else:
        pixels.write_bytes(data[: 3 * BLOCK + 5 if damage == "cut short" else 0])
    fetched(web)
    for least in (10 * BLOCK, 0):  # the second time all is there
        again, _ = batches(f"{web.url}/pack", cache)
        assert_same(again, near)
        assert least <= fetched(web) <= LOOKED_INTO + (web.whole if least else 0)


def test_a_limit_holds_and_what_does_not_fit_is_fetched_row_by_row(pack, web, tmp_path):
    limits, near = Limits(cache=100 * BLOCK), batches(pack)[0]
    for first in (True, False):
        made, metrics = batches(f"{web.url}/pack", tmp_path / "cache", (0,), limits=limits)
        assert_same(made, near[:12])
        assert kept(tmp_path / "cache")[1].stat().st_size == metrics.cache_bytes == 100 * BLOCK
        part = web.whole - (0 if first else 100 * BLOCK)
        assert fetched(web) < 1.1 * part + 800_000  # a window of the next epoch is read ahead


@pytest.mark.parametrize("processes", [False, True])
def test_a_full_disk_is_told_once_and_training_goes_on(trained, processes):
    with files_of_at_most(100 * BLOCK):
        told, _ = trained(workers=2, use_multiprocessing=processes)
    assert told == [
        "the cache takes no more pixels: File too large. Training goes on with the pixels in it"
    ]


def test_a_pack_in_the_place_of_another_is_never_made_of_its_blocks(pack, web, tmp_path):
    """The other one has the same names and plan, but other pixels."""
    cache, url = tmp_path / "cache", f"{web.url}/pack"
    before, _ = batches(url, cache)
    (tmp_path / "other").mkdir()
    other = packed_images(tmp_path / "other", first=100)
    plans = [json.loads((one / "_manifest.json").read_bytes())["plan"] for one in (pack, other)]
    assert plans[0].keys() == plans[1].keys()
    [(_, shards)] = bind(url, y="kind", cache=cache).reader.sources["image"].far_packs
    assert shards.of(1, 0).at(0).any()
    web.held.update(contents(other))
    after, _ = batches(url, cache)
    assert_same(after, batches(other)[0])
    assert not np.array_equal(before[0][0]["image"], after[0][0]["image"])
    with pytest.raises(ManifestError, match="was written anew since this pack was opened"):
        shards.of(1, 7)  # whose block is there


@pytest.mark.parametrize("known", ["version", "mtime_ns", "neither"])
def test_what_a_store_says_or_else_the_pack_tells_contents_apart(web, tmp_path, monkeypatch, known):
    from dfgen.samples.stores.remote.objects import Objects

    head, url = Objects.head, f"{web.url}/pack"
    changed = {"version": None, "mtime_ns": None}
    monkeypatch.setattr(Objects, "head", lambda self, path: head(self, path)._replace(**changed))
    batches(url, tmp_path / "cache")
    if known == "neither":
        index = json.loads(web.held["pack/_manifest.json"])
        del index["checksum"]
        for shard in index["shards"]:
            shard["checksum"] = shard["checksum"][::-1]
        web.held["pack/_manifest.json"] = sealed(index)
    else:
        changed[known] = "other" if known == "version" else 5
    fetched(web)
    batches(url, tmp_path / "cache")
    assert fetched(web) > 0.9 * web.whole


def test_blocks_are_kept_in_memory_too_and_beside_images(pack, web, tmp_path):
    near, _ = batches(pack)
    made, metrics = batches(f"{web.url}/pack", "memory")
    assert_same(made, near)
    assert metrics.cache_bytes >= web.whole


def test_a_folder_that_cannot_be_used_warns_and_a_pack_on_this_machine_needs_none(
    pack, web, tmp_path
):
    (tmp_path / "file").write_text("")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made, _ = batches(f"{web.url}/pack", tmp_path / "file")
    assert [str(one.message) for one in told] == [
        f"cache={str(tmp_path / 'file')!r} cannot be used: Not a directory. Training goes on "
        "without it"
    ]
    assert_same(made, batches(pack)[0])
