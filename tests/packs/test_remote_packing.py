"""Packs that are written into a bucket: whole, gone on with, and refused."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packed import packed, write_images
from servers import SECRET, s3_server

pytest.importorskip("obstore")

from dfgen.binding.bind import bind
from dfgen.errors import ManifestError, WriteError
from dfgen.manifest.building.build import build_manifest
from dfgen.manifest.io import read_manifest
from dfgen.manifest.verify import verify

ROWS = 40
ONCE = {"max_retries": 0}
SCRIPT = str(Path(__file__).parents[1] / "broken_remote_packs.py")


@pytest.fixture(scope="module")
def server():
    with s3_server({"bucket": {}}) as server:
        yield server


@pytest.fixture(autouse=True)
def healed(server):
    yield
    server.clear()


@pytest.fixture
def at(request):
    return f"s3://bucket/{abs(hash(request.node.name)):x}"


@pytest.fixture
def frame(tmp_path):
    return write_images(tmp_path / "imgs", ROWS)


def pixels_of(manifest, options=None):
    """Return row -> pixels of all rows."""
    bound = bind(manifest, y="kind", storage_options=options)
    reader = bound.reader
    out = {name: np.empty(spec.shape, spec.dtype) for name, spec in reader.specs.items()}
    found = {}
    for row in range(len(reader)):
        reader.read(row, out, None)
        found[reader.id(row)] = out[bound.x].copy()
    return found


def assert_whole(at, options):
    found = pixels_of(at, options)
    assert sorted(found) == list(range(ROWS))
    assert all((pixels[..., 0] == row).all() for row, pixels in found.items())
    assert verify(at, storage_options=options).empty


def test_a_pack_in_a_bucket_holds_what_one_in_a_folder_does(frame, at, server, tmp_path):
    done = packed(frame, at + "/", shard_size=1500, storage_options=server.options)
    near = packed(frame, tmp_path / "pack", shard_size=1500)
    assert done.index.folder == at
    assert done.index.shards == near.index.shards
    key = at.removeprefix("s3://bucket/")
    for path in (tmp_path / "pack").glob("shard-*"):
        assert server.get("bucket", f"{key}/{path.name}") == path.read_bytes()
    assert_whole(at, server.options)
    read = read_manifest(at, root=tmp_path / "imgs", storage_options=server.options)
    assert sorted(read["path"]) == sorted(frame["path"])
    server.clear_counts()
    again = packed(frame, at, shard_size=1500, storage_options=server.options)
    assert again.index == done.index
    assert not [path for method, path in server.asked if method == "PUT"]


def test_a_pack_of_files_in_a_bucket_goes_into_one(frame, at, server, tmp_path):
    for path in (tmp_path / "imgs").iterdir():
        server.put("bucket", f"imgs/{path.name}", path.read_bytes())
    given = {"storage_options": server.options}
    far = build_manifest("s3://bucket/imgs", pattern="{id:int}.png", facts="none", **given)
    far["kind"] = pd.Categorical(["one", "two"] * (ROWS // 2))
    for format in ("pixels", "original", "jpeg"):
        packed(far, f"{at}/{format}", format=format, **given)
        if format != "jpeg":
            assert_whole(f"{at}/{format}", server.options)


def test_any_store_that_is_written_to_holds_packs(frame, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    packed(frame, "memory://packs/one", shard_size=1500, executor=ThreadPoolExecutor(2))
    assert_whole("memory://packs/one", None)
    fsspec.filesystem("memory").rm("/packs", recursive=True)


def test_large_files_go_up_in_parts(frame, at, server):
    packed(frame, at, image_size=(400, 400), storage_options=server.options)
    found = pixels_of(at, server.options)
    assert (found[7][..., 0] == 7).all()
    assert [one for one in server.asked if one[0] == "POST"]


@pytest.mark.slow
def test_killed_before_and_after_an_object_and_run_again_a_pack_is_the_same(tmp_path, server):
    command = [sys.executable, SCRIPT, str(tmp_path / "imgs"), json.dumps(server.options), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    points = int(done.stdout)
    assert points == 2 * (1 + 2 * 3 + 2)
    for name in ("killed-16", "killed-17"):
        puts = {n: server.asked["PUT", f"/bucket/1/{name}/shard-0000{n}.arrow"] for n in range(3)}
        assert puts == {0: 1, 1: 1, 2: 1}


def test_a_prefix_of_another_pack_is_refused_from_its_first_object_on(frame, at, server):
    given = {"storage_options": server.options}
    key = at.removeprefix("s3://bucket/")
    packed(frame, at, shard_size=1500, **given)
    with pytest.raises(ManifestError) as caught:
        packed(frame, at, shard_size=1500, seed=1, **given)
    expected = str(caught.value)
    for name in ("_manifest.json", "manifest.arrow", "shard-00000.arrow", "shard-00001.arrow"):
        server.delete("bucket", f"{key}/{name}")
        with pytest.raises(ManifestError) as caught:
            packed(frame, at, shard_size=1500, seed=1, **given)
        assert str(caught.value) == expected
    assert expected == (
        f"{at} holds another pack, whole or in part: seed was 0, and is 1. Pack into another "
        "folder, or delete this one"
    )


def test_shards_of_another_length_are_made_again(frame, at, server):
    given, key = {"storage_options": server.options}, at.removeprefix("s3://bucket/")
    packed(frame, at, shard_size=1500, **given)
    server.delete("bucket", f"{key}/_manifest.json")
    server.put("bucket", f"{key}/shard-00001.arrow", b"short")
    packed(frame, at, shard_size=1500, **given)
    assert_whole(at, server.options)


def refused(frame, out, **more):
    with pytest.raises(WriteError) as caught:
        packed(frame, out, **more)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_packed_into_is_told(frame, at, server):
    named = "Name a folder, or the URL of one in a bucket, as s3://bucket/packed"
    assert refused(frame, "https://host/pack") == (
        f"https://host/pack cannot be packed into: nothing is written in https://. {named}"
    )
    assert refused(frame, "zip://pack::a.zip") == (
        f"zip://pack::a.zip cannot be packed into: nothing is written in zip://. {named}"
    )
    assert refused(frame, "gopher://host") == (
        f"gopher://host cannot be packed into: nothing has a store gopher://. {named}"
    )
    given = {"storage_options": {**server.options, "retry_config": ONCE}}
    assert refused(frame, "s3://nowhere/pack", **given) == (
        "s3://nowhere/pack cannot be packed into: there is no bucket 'nowhere' (404 Not Found, "
        "NoSuchBucket)"
    )
    server.put("bucket", f"{at.removeprefix('s3://bucket/')}/own.txt", b"mine")
    assert refused(frame, at, storage_options=server.options) == (
        f"{at} is not empty: it holds 'own.txt'. A pack has a folder of its own: name one that is "
        "not there yet"
    )


def test_a_server_that_refuses_a_file_is_told_and_the_next_run_goes_on(frame, at, server):
    server.faults.only, server.faults.status = "shard-00001", 403
    given = {"shard_size": 1500, "storage_options": {**server.options, "retry_config": ONCE}}
    assert refused(frame, at, **given).startswith(
        f"{at}/shard-00001.arrow cannot be written: s3://bucket refuses it (403 Forbidden). "
    )
    server.clear()
    packed(frame, at, **given)
    key = at.removeprefix("s3:/")
    assert server.asked["PUT", f"{key}/shard-00000.arrow"] == 0
    assert_whole(at, server.options)


def test_rows_without_a_good_file_stay_and_are_known_again_by_the_next_run(frame, at, server):
    Path(frame["path"][7]).write_bytes(Path(frame["path"][7]).read_bytes()[:60])
    given, key = {"storage_options": server.options}, at.removeprefix("s3://bucket/")
    done = packed(frame, at, image_size=(6, 8), shard_size=1500, **given)
    assert done.problems["id"].tolist() == [7]
    whole = server.get("bucket", f"{key}/manifest.arrow")
    for name in ("_manifest.json", "manifest.arrow"):
        server.delete("bucket", f"{key}/{name}")
    server.clear_counts()
    again = packed(frame, at, image_size=(6, 8), shard_size=1500, **given)
    assert again.problems.equals(done.problems)
    assert not [path for method, path in server.asked if method == "PUT" and "shard" in path]
    assert server.get("bucket", f"{key}/manifest.arrow") == whole
    found = verify(at, **given)
    assert found[["change", "id"]].to_numpy().tolist() == [["broken", 7]]
