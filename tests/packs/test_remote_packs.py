"""Packs in a bucket: read as the same pack in a folder is, and what goes wrong there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packed import assert_same, packed, write_images
from servers import http_server, s3_server

pytest.importorskip("obstore")

from dfgen.binding.bind import bind
from dfgen.binding.row_draws import Ordering
from dfgen.errors import AccessError, ManifestError, MissingFileError
from dfgen.loading.loader import Loader
from dfgen.manifest.io import read_manifest
from dfgen.manifest.verify import verify
from dfgen.packs.pack_index import open_arrow, read_index
from dfgen.packs.pack_shards import ShardFile
from dfgen.packs.remote_shards import RemoteShards
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at

ROWS, SIZE, AT = 40, (6, 8), "s3://bucket/pack"


@pytest.fixture(scope="module")
def server():
    with s3_server({"bucket": {}}) as server:
        yield server


@pytest.fixture(autouse=True)
def healed(request):
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, server):
    """Return the folder of a pack whose copy is in the bucket."""
    top = tmp_path_factory.mktemp("near")
    packed(write_images(top / "imgs", ROWS, SIZE), top / "pack", shard_size=1500)
    copy(server, top / "pack", "pack")
    server.near = top / "pack"
    return server.near


def copy(server, folder, name):
    for path in folder.iterdir():
        if not path.name.startswith("."):
            server.put("bucket", f"{name}/{path.name}", path.read_bytes())


def batches(manifest, server=None, skip=0, loader=None, **more):
    """Return all that two epochs of a manifest hold, in windows."""
    options = {} if server is None else {"storage_options": server.options}
    bound = bind(manifest, y="kind", order=Ordering(window="3KB"), **options, **more)
    made = Loader(
        bound.reader, batch_size=8, drawing=bound.drawing, shuffle=True, seed=3, **(loader or {})
    )
    try:
        return [batch.arrays for epoch in range(2) for batch in made.batches(epoch)][skip:]
    finally:
        made.close()


def test_batches_are_those_of_the_folder_and_each_byte_is_read_about_once_an_epoch(folder, server):
    near = batches(folder)
    server.clear_counts()
    assert_same(batches(AT, server), near)
    read = sum(stop - start for start, stop in server.fetched())
    whole = sum(path.stat().st_size for path in folder.glob("shard-*"))
    assert read < 3 * whole


@pytest.mark.slow
@pytest.mark.parametrize("window", ["1MB", "1GB"])
def test_hosts_fetch_a_pack_about_once_together(server, tmp_path, window):
    """Four of them, of which each trains on its own rows; two epochs of 4 MB."""
    frame = write_images(tmp_path / "imgs", 240, (72, 80))
    packed(frame, tmp_path / "p", shard_size="1MB")
    copy(server, tmp_path / "p", f"hosts {window}")
    whole = sum(path.stat().st_size for path in tmp_path.glob("p/shard-*"))
    for hosts in (1, 4):
        fetched, rows = [], []
        for host in range(hosts):
            server.clear_counts()
            bound = bind(f"s3://bucket/hosts {window}", y="kind", order=Ordering(window=window),
                         batch_size=24, storage_options=server.options)  # fmt: skip
            loader = Loader(bound.reader, batch_size=24, drawing=bound.drawing, shard=(host, hosts))
            rows += [batch.rows for epoch in (0, 1) for batch in loader.batches(epoch)]
            loader.close()
            fetched += [stop - start for start, stop in server.fetched()]
        assert np.bincount(np.concatenate(rows)).tolist() == [2] * 240
        assert sum(fetched) <= 2 * 1.1 * whole


@pytest.mark.parametrize("format", ["original", "pixels"])
def test_files_of_own_sizes_are_read_too(folder, server, tmp_path, format):
    more = {"image_size": "own"} if format == "pixels" else {}
    packed(write_images(tmp_path / "imgs", ROWS, SIZE), tmp_path / "p", format=format,
           shard_size=1000, **more)  # fmt: skip
    copy(server, tmp_path / "p", format)
    assert_same(batches(f"s3://bucket/{format}/", server), batches(tmp_path / "p"))


def test_a_pack_behind_http_is_read_as_in_a_folder(folder):
    held = {f"pack/{path.name}": path.read_bytes() for path in folder.glob("[a-z_]*")}
    with http_server(held) as web:
        assert_same(batches(f"{web.url}/pack", web), batches(folder))
        assert verify(f"{web.url}/pack").empty


def test_a_frame_of_it_trains_as_one_of_the_folder(folder, server):
    far, near = read_manifest(AT, storage_options=server.options), read_manifest(folder)
    assert far["shard"][0].startswith("s3://bucket/pack/shard-")
    assert far.drop(columns=["path", "shard"]).equals(near.drop(columns=["path", "shard"]))
    assert_same(batches(far[far["id"] < 21], server), batches(near[near["id"] < 21]))
    both = [frame[frame["id"].mod(2) == n] for n, frame in enumerate([far, near])]
    assert len(batches(pd.concat(both, ignore_index=True), server)) == 10


def test_rows_in_no_window_are_asked_for_alone(folder, server):
    frame, more = read_manifest(AT, storage_options=server.options), {"order": Ordering("kind")}
    near = bind(read_manifest(folder), y="kind", **more)
    far = bind(frame, y="kind", storage_options=server.options, **more)
    loaders = [Loader(b.reader, batch_size=8, drawing=b.drawing, shuffle=True) for b in (far, near)]
    assert_same(*([batch.arrays for batch in one.batches()] for one in loaders))
    for one in loaders:
        one.close()


def test_verify_finds_a_flipped_byte_and_what_is_missing(folder, server):
    assert verify(AT, storage_options=server.options).empty
    copy(server, folder, "flipped")
    data = bytearray((folder / "shard-00001.arrow").read_bytes())
    data[len(data) // 2] ^= 1
    server.put("bucket", "flipped/shard-00001.arrow", bytes(data))
    server.delete("bucket", "flipped/shard-00002.arrow")
    found = verify("s3://bucket/flipped", storage_options=server.options)
    assert found.drop(columns="id").to_numpy().tolist() == [
        ["broken", "s3://bucket/flipped/shard-00001.arrow",
         "its bytes are not those that were written, by their checksum: rows 10 to 19 of the pack "
         "are in it"],
        ["missing", "s3://bucket/flipped/shard-00002.arrow",
         "the file does not exist: rows 20 to 29 of the pack are in it"],
    ]  # fmt: skip


def test_processes_make_the_same_batches(folder, server):
    near = batches(folder)
    more = {"workers": 2, "use_multiprocessing": True}
    assert_same(batches(AT, server, loader=more), near)


def test_a_training_goes_on_in_the_bucket_where_one_on_the_folder_was_left(folder, server):
    bound = bind(AT, y="kind", order=Ordering(window="3KB"), storage_options=server.options)
    loader = Loader(bound.reader, batch_size=8, drawing=bound.drawing, shuffle=True, seed=3)
    stream = loader.stream(0, 3)
    assert_same([next(stream).arrays for _ in range(7)], batches(folder)[3:])
    stream.close()
    loader.close()


SHARD = "s3://bucket/{}/shard-00001.arrow, which has the rows 10 to 19"


@pytest.fixture
def copied(folder, server, request):
    name = f"c{abs(hash(request.node.name)):x}"
    copy(server, folder, name)
    server.clear()
    return name


def refused(kind, name, server, **more):
    with pytest.raises(kind) as caught:
        batches(f"s3://bucket/{name}", server, **more)
    return str(caught.value)


def test_a_pack_that_is_broken_off_or_not_there_is_told(copied, server):
    server.delete("bucket", f"{copied}/_manifest.json")
    assert refused(MissingFileError, copied, server) == (
        f"there is no pack in s3://bucket/{copied}: _manifest.json, which is written last, is "
        "missing. If packing was interrupted, run the same command again"
    )
    assert refused(MissingFileError, "nothing", server) == (
        "there is no manifest s3://bucket/nothing"
    )


def test_a_shard_that_is_missing_or_of_another_length_is_named_before_training(copied, server):
    whole = server.get("bucket", f"{copied}/shard-00001.arrow")
    for other in (whole[:-5], whole + b"\0"):
        server.put("bucket", f"{copied}/shard-00001.arrow", other)
        with pytest.raises(ManifestError) as caught:
            bind(f"s3://bucket/{copied}", y="kind", storage_options=server.options)
        assert str(caught.value) == (
            f"{SHARD.format(copied)}, has {len(other):,} bytes, and {len(whole):,} were written: "
            "take another copy of it, or pack again"
        )
    server.delete("bucket", f"{copied}/shard-00001.arrow")
    assert refused(MissingFileError, copied, server) == (
        f"{SHARD.format(copied)}, is missing: take another copy of it, or pack again"
    )


def test_a_table_of_another_length_is_refused_before_it_is_read(copied, server):
    whole = server.get("bucket", f"{copied}/manifest.arrow")
    server.put("bucket", f"{copied}/manifest.arrow", whole + bytes(8))
    assert refused(ManifestError, copied, server) == (
        f"s3://bucket/{copied}/manifest.arrow is not the one that was written with s3://bucket/"
        f"{copied}/_manifest.json: it is damaged, or of another pack. Take another copy of the "
        "folder, or pack again"
    )


def test_the_table_of_many_files_in_a_remote_shard_is_fetched_too(tmp_path):
    frame = pd.concat([write_images(tmp_path / "imgs", 40, (4, 5))] * 50, ignore_index=True)
    packed(frame.assign(id=range(2_000)), tmp_path / "pack", format="original")
    held = {f"pack/{path.name}": path.read_bytes() for path in tmp_path.glob("pack/[a-z_]*")}
    with http_server(held) as web:
        shards = shards_of(f"{web.url}/pack", web)
        near = bind(tmp_path / "pack").reader
        for place in (0, 999, 1_000, 1_999):
            found = shards.of(0, place).at(place).tobytes()
            assert found == Path(frame["path"].iloc[near.id(place)]).read_bytes()


def trained(name, server, change):
    """Return what a training raises before which a shard was changed."""
    bound = bind(
        f"s3://bucket/{name}",
        y="kind",
        order=Ordering(window="3KB"),
        storage_options=server.options,
    )
    loader = Loader(bound.reader, batch_size=8, drawing=bound.drawing, shuffle=True, workers=0)
    key = f"{name}/shard-00001.arrow"
    change(key, server.get("bucket", key))
    try:
        with pytest.raises(Exception) as caught:
            [*loader.batches()]
        return caught.value
    finally:
        loader.close()


def test_a_shard_that_goes_or_becomes_another_meanwhile_is_told(copied, server):
    error = trained(copied, server, lambda key, data: server.delete("bucket", key))
    assert isinstance(error, MissingFileError)
    assert str(error) == (
        f"{SHARD.format(copied)}, is missing: take another copy of it, or pack again"
    )
    copy(server, server.near, copied)
    error = trained(copied, server, lambda key, data: server.put("bucket", key, bytes(len(data))))
    assert isinstance(error, ManifestError)
    assert str(error).startswith(f"{SHARD.format(copied)}, cannot be read: ")


def test_a_server_that_refuses_or_fails_is_told_with_the_shard(copied, server):
    def forbid(key, data):
        server.faults.only, server.faults.status = "shard-00001", 403

    error = trained(copied, server, forbid)
    assert isinstance(error, AccessError)
    assert str(error).startswith(
        f"{SHARD.format(copied)}: the file cannot be read: s3://bucket refuses it (403 Forbidden)"
    )
    assert server.options["secret_access_key"] not in str(error)


def test_what_passes_is_tried_again_and_batches_stay_the_same(copied, folder, server):
    near, once = batches(folder), {"retry_config": {"max_retries": 0}}
    for fault in ({"status": 503}, {"reset": True}, {"short": 100}):
        server.faults.clear()

        def fail(key, data, fault=fault):
            server.faults.only, server.faults.times = "shard-00001", 2
            vars(server.faults).update(fault)

        options = {**server.options, **once}
        bound = bind(AT, y="kind", order=Ordering(window="3KB"), storage_options=options)
        loader = Loader(bound.reader, batch_size=8, drawing=bound.drawing, shuffle=True, seed=3)
        fail(None, None)
        assert_same([batch.arrays for e in range(2) for batch in loader.batches(e)], near)
        loader.close()


def shards_of(pack, server, held=10**9):
    options = StorageOptions(server.options)
    index = read_index(pack, options)
    files = [
        ShardFile(index.path(shard), start, shard.rows, shard.bytes, index.plan)
        for start, shard in zip(index.starts.tolist(), index.shards, strict=False)
    ]
    return RemoteShards(files, "path", store_at(files[0].path, options=options), held)


def test_a_shard_that_is_written_anew_while_it_is_read_is_refused(copied, server):
    shards, key = shards_of(f"s3://bucket/{copied}", server), f"{copied}/shard-00001.arrow"
    data = bytearray(server.get("bucket", key))
    assert shards.of(1, 0).at(0).shape == (*SIZE, 3)
    server.put("bucket", key, bytes(data))
    assert shards.of(1, 2).at(2).any()
    data[len(data) // 2] ^= 1
    server.put("bucket", key, bytes(data))
    with pytest.raises(ManifestError) as caught:
        shards.of(1, 7)
    assert str(caught.value) == (
        f"{SHARD.format(copied)}, was written anew since this pack was opened: make the Sequence "
        "anew"
    )


def test_memory_holds_what_it_may_and_rows_in_order_are_read_in_large_pieces(
    copied, server, monkeypatch
):
    shards = shards_of(f"s3://bucket/{copied}", server, held=1)
    for shard in range(4):
        [*shards.ahead(np.full(10, shard), np.arange(10))]
        assert [*shards._far] == [shard]
    monkeypatch.setattr("dfgen.samples.stores.remote.ranges.PIECE", 300)
    server.clear_counts()
    [*shards.ahead(np.full(10, 0), np.arange(10))]
    assert max(stop - start for start, stop in server.fetched()) <= 300
    monkeypatch.undo()
    shards = shards_of(f"s3://bucket/{copied}", server)
    shards.of(0, 0)
    server.clear_counts()
    assert [int(shards.of(0, place).at(place)[0, 0, 0]) for place in range(10)] == [
        int(pixels[0, 0, 0]) for pixels in table_pixels(server.near, 0)
    ]
    assert len(server.fetched()) == 1


@pytest.fixture
def web(tmp_path):
    """A pack behind HTTP; `near` is its folder."""
    packed(write_images(tmp_path / "imgs", ROWS, SIZE), tmp_path / "pack", shard_size=1500)
    held = {f"pack/{path.name}": path.read_bytes() for path in tmp_path.glob("pack/[a-z_]*")}
    with http_server(held) as web:
        web.near = tmp_path / "pack"
        yield web


def test_each_byte_that_is_fetched_counts_into_what_memory_may_hold(web):
    shards = shards_of(f"{web.url}/pack", web)
    shards.of(0, 9)
    for place in (5, 2):  # not one after another: a request each
        before = shards._far[0].taken
        shards.of(0, place)
        assert shards._far[0].taken == before + 6 * 8 * 3


def test_rows_whose_read_failed_are_fetched_again_and_never_blank(web):
    shards, pixels = shards_of(f"{web.url}/pack", web), table_pixels(web.near, 1)
    np.testing.assert_array_equal(shards.of(1, 0).at(0), pixels[0])
    web.faults.status = 404
    for _ in range(2):
        with pytest.raises(MissingFileError):
            shards.of(1, 7)
    web.faults.clear()
    np.testing.assert_array_equal(shards.of(1, 7).at(7), pixels[7])


def test_shards_of_several_pieces_have_one_checksum(web, monkeypatch):
    monkeypatch.setattr("dfgen.samples.stores.remote.ranges.PIECE", 300)
    assert verify(f"{web.url}/pack").empty


def table_pixels(folder, shard):
    with open_arrow(str(folder / f"shard-{shard:05}.arrow")) as file:
        return file.read_all()["path_pixels"].combine_chunks().to_numpy_ndarray()
