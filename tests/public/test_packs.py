"""Packs: what is in them, how they train, and what happens when one is damaged or killed."""

import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import DecodeError, DfgenError, ManifestError, WriteError
from public.leftovers import SIZE, assert_same, of_pass, passes, pictures, written
from public.leftovers import nothing_left as nothing_left

ROWS = 23
SMALL = {"image_size": SIZE, "shard_size": 9 * 7 * 3 * 5}  # five shards


@pytest.fixture(scope="module")
def imgs(tmp_path_factory):
    """Images of several sizes, every third a JPEG, with labels."""
    frame = written(tmp_path_factory.mktemp("packs") / "imgs", [b""] * ROWS)
    for row, path in enumerate(frame.path):
        pixels = pictures(1, (9 + row % 3, 7 + row % 4), row)[0][0]
        Path(path).write_bytes(cv2.imencode((".png", ".jpg")[row % 3 == 2], pixels)[1].tobytes())
    kinds = pd.Categorical([f"kind {row * 4 // ROWS}" for row in range(ROWS)])
    split = ["train" if row % 3 else "val" for row in range(ROWS)]
    return frame.assign(kind=kinds, age=np.arange(ROWS) / 4, split=split)


@pytest.fixture(scope="module")
def pack(imgs):
    out = Path(imgs.path[0]).parents[1] / "packed"
    assert dfgen.pack(imgs, out, **SMALL).empty
    return out


@pytest.fixture
def plain(tmp_path):
    return written(tmp_path / "imgs", pictures(ROWS)[1])


def shards(out):
    """Return all rows of a pack from its Arrow files, in order."""
    files = [pd.read_feather(path) for path in sorted(out.glob("shard-*.arrow"))]
    return pd.concat(files, ignore_index=True)


RANDOM = {"size": (5, 6), "load_size": (12, 11), "crop": "random", "flip": "horizontal"}
KINDS = {
    "crop": ({"resize": "crop", "interpolation": "nearest"}, {}),
    "pad": ({"resize": "pad", "antialias": False}, {}),
    "rgba": ({"color_mode": "rgba", "interpolation": "area"}, {}),
    "gray": ({"color_mode": "grayscale", "resize": "crop_or_pad"}, {"scale": "0..1"}),
    "random": ({"image_size": (12, 11)}, RANDOM),
    "original": ({"format": "original"}, {"size": (5, 6), "resize": "crop", "flip": "vertical"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_packed_pixels_are_those_of_files(imgs, tmp_path, kind):
    arguments, options = KINDS[kind]
    original = arguments.get("format") == "original"
    size = {"shard_size": 2000} if original else SMALL
    assert dfgen.pack(imgs, tmp_path / "packed", **{**size, **arguments}).empty
    options = {k: v for k, v in arguments.items() if k not in ("format", "image_size")} | options
    expected = passes(imgs, dfgen.Image("path", **{"size": SIZE, **options}), seed=5)
    x = dfgen.Image("path", **options)
    for processes in (False, True):
        found = passes(tmp_path / "packed", x, seed=5, use_multiprocessing=processes)
        assert_same(found, expected, ordered=False)
        assert found[0][1] != found[1][1]
    for _, row in shards(tmp_path / "packed").iterrows() if original else ():
        assert row.path_bytes == Path(imgs.path[row.number]).read_bytes()


def test_packs_open_elsewhere_with_all_columns(imgs, pack):
    table = shards(pack)
    assert sorted(len(pd.read_feather(path)) for path in pack.glob("shard-*")) == [4, 4, 5, 5, 5]
    assert sorted(table.id) == sorted(imgs.id) and not table.number.is_monotonic_increasing
    assert table.number.tolist() == pd.read_feather(pack / "manifest.arrow").number.tolist()
    for column in ("id", "kind", "age", "split"):
        assert table[column].tolist() == imgs[column][table.number].tolist()
    pixels = np.stack(table.path_pixels).reshape(-1, *SIZE, 3)
    assert_same([(pixels, table.number)], passes(imgs, epochs=1), ordered=False)
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    shard = polars.read_ipc(pack / "shard-00000.arrow")
    assert np.array(shard["path_pixels"][0]).size == 9 * 7 * 3
    ages = polars.read_ipc(pack / "manifest.arrow")  # noqa: F841 by DuckDB
    found = duckdb.sql("select kind, count(*), sum(age) from ages group by 1 order by 1").fetchall()
    assert found == [(k, len(a), sum(a)) for k, a in imgs.groupby("kind", observed=True).age]


def test_where_and_splits_select_rows_of_a_pack(imgs, pack):
    for where in ("split == 'train'", "age > 2 and kind in ['kind 1', 'kind 3']"):
        assert sorted(passes(pack, where=where)[1][1]) == sorted(imgs.query(where).number)
    for name, seq in dfgen.sequences(pack, y="number", batch_size=4).items():
        with seq:
            assert sorted(of_pass(seq)[1]) == sorted(imgs.number[imgs.split == name])
    with dfgen.Sequence(pack, y="kind", batch_size=4, shuffle=False) as seq:
        assert seq[0][0].shape == (4, 9, 7, 3) and seq.class_names == sorted(set(imgs.kind))
        kinds = imgs.set_index("id").kind.cat.codes[seq.ids(0)]
        assert seq[0][1].tolist() == kinds.tolist()


@pytest.mark.parametrize("column", [None, "id", "path", "pack"])
def test_frame_rows_are_found_in_pack_by_id(imgs, pack, column):
    part = dfgen.read_manifest(pack)[::2] if column == "pack" else imgs.sample(frac=0.6)
    if column is None:
        return assert_same(passes(part, pack=pack), passes(part))
    word = {"id": "r99", "path": part.id.iloc[5], "pack": "pack="}[column]
    if column != "pack":
        part.loc[part.index[5], column] = "r99" if column == "id" else part.path.iloc[4]
    with pytest.raises(DfgenError, match=word):
        passes(part, **{} if column == "pack" else {"pack": pack})


@pytest.mark.parametrize("format", ["pixels", "jpeg"])
def test_bad_files_are_problems_of_a_pack(plain, tmp_path, format):
    Path(plain.path[3]).write_bytes(b"no image")
    Path(plain.path[8]).unlink()
    with pytest.warns(UserWarning, match="2"):
        problems = dfgen.pack(plain, tmp_path / "packed", format=format)
    assert problems.id.tolist() == ["r3", "r8"] and problems.problem.notna().all()
    assert sorted(dfgen.verify(tmp_path / "packed").id) == ["r3", "r8"]
    with pytest.raises((ManifestError, DecodeError), match=r"r3|r8"):
        passes(tmp_path / "packed")
    for pixels, rows in passes(tmp_path / "packed", on_error="skip"):
        good = pixels.any((1, 2, 3))
        assert sorted(np.array(rows)[good]) == np.setdiff1d(range(ROWS), (3, 8)).tolist()
        assert len(rows) == ROWS and not np.array(rows)[~good].any()
        if format == "pixels":
            np.testing.assert_array_equal(pixels[good], pictures(ROWS)[0][np.array(rows)[good]])


def test_a_folder_of_something_else_is_left_alone(imgs, pack, tmp_path):
    (tmp_path / "mine").write_text("mine")
    for out, more in ((tmp_path, {}), (pack, {"seed": 3}), (pack, {"image_size": (5, 5)})):
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        with pytest.raises(DfgenError, match=rf"{out.name}.*{' '.join(more)}"):
            dfgen.pack(imgs, out, **{**SMALL, **more})
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def flipped(data):
    for place in {0, len(data) - 1, *range(5, len(data), len(data) // 9)}:
        yield data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


DAMAGE = {
    "flipped": flipped,
    "cut": lambda data: [b"", data[:40], data[:-2]],
    "longer": lambda data: [data + b"more"],
    "deleted": lambda data: [None],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_finds_damage_in_each_pack_file(pack, damage):
    for path in sorted(pack.iterdir()):
        whole = path.read_bytes()
        for data in DAMAGE[damage](whole):
            path.unlink() if data is None else path.write_bytes(data)
            try:
                found = dfgen.verify(pack).path.tolist()
            except DfgenError as error:
                found = [str(error)]
            if damage in ("cut", "deleted") and "shard" in path.name:
                with pytest.raises(DfgenError, match=path.name):
                    passes(pack)
            path.write_bytes(whole)
            assert any(path.name in one for one in found), (path.name, data)
    assert dfgen.verify(pack).empty


def test_full_disk_leaves_whole_files_and_packing_resumes(plain, tmp_path):
    arguments, limit = {"shard_size": 9 * 7 * 3 * 8}, resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for size in (800, 2300):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
        try:
            with pytest.raises(WriteError, match="packed"):
                dfgen.pack(plain, tmp_path / "packed", **arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert all(name.startswith("shard") for name in os.listdir(tmp_path / "packed"))
    signal.signal(signal.SIGXFSZ, handler)
    assert dfgen.pack(plain, tmp_path / "packed", **arguments).empty
    assert_same(passes(tmp_path / "packed"), passes(plain), ordered=False)


KILLING = """
import os, pathlib, signal, time
import dfgen, pandas as pd
frame, out = pd.read_csv("frame.csv"), pathlib.Path("packed")

def forked(shards=99):
    child = os.fork()
    if not child:
        dfgen.pack(frame, out, shard_size=9 * 7 * 3 * 2, workers=2)
        os._exit(0)
    while len([*out.glob("shard-*")]) < shards:
        time.sleep(0.001)
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
    os.kill(child, signal.SIGKILL)  # does nothing if it has ended
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

killed, first = 0, {}
for number in range(8):
    killed += forked(number + 1) == -9
    times = {path: path.stat().st_mtime_ns for path in out.glob("[!.]*")}
    assert first.items() <= times.items()  # whole files stay
    first = times
assert killed and first and forked() == 0
assert first.items() <= {path: path.stat().st_mtime_ns for path in out.iterdir()}.items()
"""


def test_a_pack_killed_many_times_goes_on(plain, tmp_path):
    plain.to_csv(tmp_path / "frame.csv", index=False)
    command = [sys.executable, "-W", "ignore", "-c", KILLING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    out, whole = tmp_path / "packed", tmp_path / "whole"
    dfgen.pack(plain, whole, shard_size=9 * 7 * 3 * 2)
    assert sorted(os.listdir(out)) == sorted(os.listdir(whole))
    assert dfgen.verify(out).empty and shards(out).equals(shards(whole))


def test_seeds_permute_the_order_and_workers_do_not(imgs, pack, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        for number, more in enumerate([{"workers": 1}, {"executor": executor}, {"seed": 2}]):
            dfgen.pack(imgs, tmp_path / str(number), **SMALL, **more)
            same = shards(tmp_path / str(number)).id.tolist() == shards(pack).id.tolist()
            assert same == ("seed" not in more)
            assert_same(passes(tmp_path / str(number)), passes(pack), ordered=same)
