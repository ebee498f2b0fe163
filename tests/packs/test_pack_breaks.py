"""A pack that is broken off at any point goes on, and loses and doubles no row."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import files_of_at_most
from packed import packed, table_of, write_images

import dfgen
from dfgen.errors import WriteError

SCRIPT = str(Path(__file__).parents[1] / "broken_packs.py")


def run(kind, folder, *more, under=()):
    command = [*under, sys.executable, SCRIPT, kind, str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=150)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["original", "pixels"])
def test_killed_at_any_point_of_writing_and_run_again_a_pack_is_the_same(tmp_path, format):
    done = run("kill", tmp_path, "1", format)
    assert done.returncode == 0, done.stderr
    points, files = map(int, done.stdout.split())
    assert files == 4
    assert points >= 4 * 6 + 2  # fsync, rename and fsync of the folder, before and after


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_whole_files_alone_and_a_pack_goes_on(tmp_path):
    """A disk of 300 kB, where a user may mount one."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare")
    done = run("full", tmp_path, under=["unshare", "-rm"])
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted: {done.stderr}")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line[0] == "/"]
    for line in said:
        assert re.fullmatch(
            rf"{tmp_path}/disk/out/[\w.-]+ cannot be (written|made): (\[Errno 28\] )?No space left "
            r"on device(\. Nothing was changed)?",
            line,
        )
    files = [int(line.split()[2]) for line in done.stdout.splitlines() if line[0] != "/"]
    # shards are written side by side: which of them still fits where both do not, time decides
    assert files[0] == 0 and files[-1] == max(files) and len({*files}) > 3


def test_a_file_that_may_not_grow_leaves_nothing_beside(tmp_path):
    frame = write_images(tmp_path / "imgs", 40)
    said = rf"{tmp_path}/out/shard-0000[01]\.arrow cannot be written: \[Errno 27\] File too large"
    for size in (0, 100, 2000, 2500):
        with files_of_at_most(size), pytest.raises(WriteError, match=rf"^{said}\. Nothing was"):
            packed(frame, tmp_path / "out", shard_size=1500)
    assert os.listdir(tmp_path / "out") == []
    packed(frame, tmp_path / "out", shard_size=1500)
    assert sorted(table_of(tmp_path / "out")["id"].to_pylist()) == list(range(40))


def test_a_disk_without_the_space_is_refused_before_anything_is_decoded(tmp_path):
    frame = write_images(tmp_path / "imgs", 40)
    free = shutil.disk_usage(tmp_path).free
    side = int((free / 40 / 3) ** 0.5 * 1.3)
    with pytest.raises(dfgen.DfgenError) as caught:
        packed(frame, tmp_path / "out", image_size=(side, side), shard_size="100MB")
    assert isinstance(caught.value, OSError)
    assert re.fullmatch(
        rf"{tmp_path}/out needs about [\d,.]+ GB more, and its disk has [\d,.]+ GB free: make "
        "space, choose another place, or a smaller image_size or max_side",
        str(caught.value),
    )
    assert os.listdir(tmp_path / "out") == []
