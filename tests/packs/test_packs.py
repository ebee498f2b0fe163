"""Packs: remote copies, identity, annotations on packed images, and wrong arguments."""

import json
import shutil

import cv2
import numpy as np
import pandas as pd
import pytest
from public.leftovers import assert_same, passes, pictures, written
from public.leftovers import nothing_left as nothing_left
from servers import http_server

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError, MissingFileError, WriteError

ROWS = 40
SMALL = {"shard_size": 9 * 7 * 3 * 10}
ALLOWED = {"storage_options": {"client_options": {"allow_http": True}}}


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    return written(tmp_path_factory.mktemp("packs") / "imgs", pictures(ROWS)[1])


@pytest.fixture
def pack(frame, tmp_path):
    dfgen.pack(frame, tmp_path / "packed", **SMALL)
    return tmp_path / "packed"


def served(pack):
    return http_server({f"packed/{path.name}": path.read_bytes() for path in pack.iterdir()})


def fetched(server, name="shard-"):
    return sum(count for (method, path), count in server.asked.items()
               if method == "GET" and name in path)  # fmt: skip


def test_processes_and_later_runs_share_one_copy(pack, tmp_path):
    near = passes(pack)
    with served(pack) as server:
        url, options = f"{server.url}/packed", {**ALLOWED, "cache": tmp_path / "cache"}
        assert_same(passes(url, use_multiprocessing=True, **options), near)
        assert fetched(server) == 4
        server.clear_counts()
        assert_same(passes(url, **options), near)
        assert fetched(server) == 0
        for path in (tmp_path / "cache").rglob("*.slots"):
            path.write_bytes(path.read_bytes()[:-9] + b"damaged!!")
        assert_same(passes(url, **options), near)


def test_frames_and_files_of_a_remote_pack(frame, pack, tmp_path):
    dfgen.pack(frame, tmp_path / "files", format="original", shard_size=5000)
    part = frame[::3]
    for folder in (pack, tmp_path / "files"):
        with served(folder) as server:
            url = f"{server.url}/packed"
            assert_same(passes(part, pack=url, **ALLOWED), passes(part))


def test_a_small_cache_uses_a_temporary_folder(pack, tmp_path):
    with served(pack) as server:
        options = {**ALLOWED, "cache": tmp_path / "cache", "limits": dfgen.Limits(cache=1000)}
        assert_same(passes(f"{server.url}/packed", **options), passes(pack))
    assert not [*(tmp_path / "cache").rglob("*.slots")]


def test_shards_of_another_pack_are_refused(frame, pack, tmp_path):
    dfgen.pack(frame, tmp_path / "other", **SMALL)
    shutil.copy(tmp_path / "other" / "shard-00001.arrow", pack)
    with pytest.raises(ManifestError, match="shard-00001"):
        passes(pack)
    with served(pack) as server, pytest.raises(DfgenError, match="shard-00001"):
        passes(f"{server.url}/packed", **ALLOWED)


@pytest.mark.parametrize("name", ["shard-00002.arrow", "manifest.arrow", "_manifest.json"])
def test_missing_files_are_named(frame, pack, name):
    (pack / name).unlink()
    with pytest.raises(MissingFileError, match=name):
        passes(pack)
    with served(pack) as server, pytest.raises(MissingFileError, match=name) as error:
        passes(frame, pack=f"{server.url}/packed", **ALLOWED)
    assert f"{server.url}/packed" in str(error.value)


def test_a_shortened_remote_shard_is_named(pack):
    path = pack / "shard-00002.arrow"
    path.write_bytes(path.read_bytes()[:-9])
    with served(pack) as server, pytest.raises(ManifestError, match=f"packed/{path.name}"):
        passes(f"{server.url}/packed", **ALLOWED)


def test_a_changed_table_of_a_pack_is_refused(pack):
    path = pack / "manifest.arrow"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"r17", b"r71"))
    with pytest.raises(ManifestError, match=r"manifest.arrow.*checksum"):
        passes(pack)
    with served(pack) as server, pytest.raises(ManifestError, match="checksum"):
        passes(f"{server.url}/packed", **ALLOWED)


def test_an_edited_index_is_refused(pack):
    path = pack / "_manifest.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "created_by": "me"}, indent=1))
    with pytest.raises(ManifestError, match="checksum"):
        passes(pack)
    path.write_text(json.dumps({**content, "format": 1}, indent=1))
    with pytest.raises(ManifestError, match="format 1"):
        passes(pack)


@pytest.mark.parametrize("shape", [[9, 7, 0], [9, 70, 3]])
@pytest.mark.parametrize("offset", [-1, 2**40])
def test_values_outside_of_a_shard_are_refused(pack, shape, offset):
    path = pack / "_manifest.json"
    content = json.loads(path.read_text())
    shard = {**content["shards"][0], "offsets": [offset]}
    for change in ({"shape": shape}, {"shards": [shard, *content["shards"][1:]]}):
        path.write_text(json.dumps({**content, **change}))
        with pytest.raises(ManifestError, match="outside"):
            passes(pack)


def test_jpegs_are_made_smaller_and_boxes_follow(tmp_path):
    paths = []
    for row in range(3):
        pixels = np.zeros((80, 40, 3), np.uint8)
        pixels[20:40, 10:30] = 255
        paths.append(f"{tmp_path}/{row}.jpg")
        cv2.imwrite(paths[-1], pixels)
    frame = dfgen.build_manifest(
        labels=pd.DataFrame(
            {
                "id": range(3),
                "path": paths,
                "boxes": [[[10.0, 20, 30, 40]]] * 3,
                "labels": [[0]] * 3,
            }
        ),
        path_column="path",
    )
    dfgen.pack(frame, tmp_path / "jpeg", format="jpeg", max_side=40)
    dfgen.pack(frame, tmp_path / "pixels", image_size=(40, 40))
    y = dfgen.Boxes("boxes", max_items=1)
    for name, size in (("jpeg", (40, 20)), ("pixels", (40, 40))):
        x = dfgen.Image(size=size)
        options = {"shuffle": False, "batch_size": 3}
        with (
            dfgen.Sequence(frame, x, y, pack=tmp_path / name, **options) as packed,
            dfgen.Sequence(frame, x, y, **options) as loose,
        ):
            boxes, others = packed[0][1], loose[0][1]
            assert boxes.keys() == others.keys()
            for key in others:
                np.testing.assert_allclose(boxes[key], others[key])


def test_images_of_several_sizes(tmp_path):
    contents = [pictures(1, (8 + row, 6), row)[1][0] for row in range(4)]
    frame = written(tmp_path / "imgs", contents)
    with pytest.raises(ArgumentError, match="image_size"):
        dfgen.pack(frame, tmp_path / "pixels")
    dfgen.pack(frame, tmp_path / "files", format="original")
    x, options = dfgen.Image(size=None), {"batch_size": 1, "shuffle": False, "y": "number"}
    with (
        dfgen.Sequence(frame, x, pack=tmp_path / "files", **options) as packed,
        dfgen.Sequence(frame, x, **options) as loose,
    ):
        for step in range(4):
            np.testing.assert_array_equal(packed[step][0], loose[step][0])


PACKED = {
    "rgb": {},
    "rgba": {"color_mode": "rgba"},
    "gray": {"color_mode": "grayscale"},
    "16-bit files": {"format": "original"},
    "files of several sizes": {"format": "original"},
    "smaller JPEGs": {"format": "jpeg", "max_side": 8},
}


@pytest.mark.parametrize("kind", PACKED)
def test_packed_values_open_in_other_programs(tmp_path, kind):
    sizes = [(9 + row, 7) if "several" in kind else (9, 7) for row in range(4)]
    contents = [pictures(1, size, row)[1][0] for row, size in enumerate(sizes)]
    if kind == "16-bit files":
        deep = np.random.default_rng(0).integers(0, 2**16, (4, 9, 7), np.uint16)
        contents = [cv2.imencode(".png", each)[1].tobytes() for each in deep]
    frame = written(tmp_path / "imgs", contents)
    dfgen.pack(frame, tmp_path / "packed", **PACKED[kind])
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    path, name = tmp_path / "packed" / "shard-00000.arrow", "path_pixels"
    name = "path_bytes" if "format" in PACKED[kind] else name
    found = pd.read_feather(path)
    values = dict(zip(found.id, found[name], strict=True))
    assert sorted(values) == frame.id.tolist()
    if PACKED[kind] == {"format": "original"}:
        assert [values[id] for id in frame.id] == contents
    elif name == "path_bytes":
        shapes = {cv2.imdecode(np.frombuffer(data, np.uint8), -1).shape for data in values.values()}
        assert shapes == {(8, 6, 3)}
    else:
        channels = {"rgb": 3, "rgba": 4, "gray": 1}[kind]
        x = dfgen.Image(color_mode=PACKED[kind].get("color_mode", "rgb"), size=(9, 7))
        for pixels, rows in passes(frame, x, epochs=1):
            for image, row in zip(pixels, rows, strict=True):
                assert image.shape == (9, 7, channels)
                np.testing.assert_array_equal(np.reshape(values[f"r{row}"], image.shape), image)
    shard = polars.read_ipc(path)
    relation = duckdb.sql("select * from shard").df()
    for other in (shard.to_dict(as_series=False), relation.to_dict("list")):
        assert other["id"] == found.id.tolist()
        for mine, theirs in zip(found[name], other[name], strict=True):
            if isinstance(mine, bytes):
                assert bytes(theirs) == mine
            else:
                assert np.ravel(theirs).tolist() == np.ravel(mine).tolist()


def test_wrong_arguments_are_named(frame, pack, tmp_path):
    for options, word in (
        ({"format": "jpeg", "color_mode": "rgba"}, "rgba"),
        ({"max_side": 5}, "max_side"),
        ({"workers": 0}, "workers"),
    ):
        with pytest.raises(ArgumentError, match=word):
            dfgen.pack(frame, tmp_path / "new", **options)
    with pytest.raises(ArgumentError, match="copy"):
        dfgen.pack(frame, "s3://bucket/packed")
    with pytest.raises(ManifestError, match="is a pack"):
        dfgen.pack(pack, tmp_path / "new")
    with pytest.raises(ManifestError, match="no rows"):
        dfgen.pack(frame[:0], tmp_path / "new")
    (tmp_path / "file").write_text("x")
    with pytest.raises(WriteError, match="file"):
        dfgen.pack(frame, tmp_path / "file")
    with pytest.raises(ManifestError, match="ids"):
        passes(frame.assign(id=range(ROWS)), pack=pack)
