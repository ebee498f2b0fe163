"""Packs that are broken off: by SIGKILL at every point of writing, or by a disk that is full.

python tests/broken_packs.py kill FOLDER EVERY [FORMAT]
python tests/broken_packs.py full FOLDER

Each pack is made by a child that forks from a process that has imported all and no threads.
"""

import os
import shutil
import signal
import subprocess
import sys
import warnings
from functools import partial
from itertools import count
from pathlib import Path

import packed

from dfgen.errors import DfgenError
from dfgen.table.parquet import Summed

ROWS, SHARDS = 24, 2
ARGUMENTS = {
    "original": {"format": "original", "shard_size": 100_000 // SHARDS},
    "pixels": {"image_size": (16, 16), "shard_size": 16 * 16 * 3 * ROWS // SHARDS},
}
BIG = 500  # bytes of a write in whose place the process is killed, half of it written


class Points:
    """Kills the process at one point: before and after each fsync and rename, in each large write.

    Without a number they are only counted.
    """

    def __init__(self, number=None):
        self.number, self.passed = number, count()
        self.total = 0

    def passes(self):
        self.total += 1
        if next(self.passed) == self.number:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self):
        for name in ("fsync", "replace"):
            setattr(os, name, self.around(getattr(os, name)))
        write = Summed.write

        def halved(sink, data):
            if len(data) > BIG:
                file = getattr(sink._file, "_file", sink._file)
                file.write(bytes(data)[: len(data) // 2])
                file.flush()
                self.passes()
                file.seek(-(len(data) // 2), os.SEEK_CUR)
            return write(sink, data)

        Summed.write = halved

    def around(self, function):
        def watched(*arguments):
            self.passes()
            function(*arguments)
            self.passes()

        return watched


def forked(work):
    """Run in a child; return its exit status, negative of a signal."""
    child = os.fork()
    if not child:
        status = 70
        try:
            status = work() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def make(frame, out, number=None, format="original"):
    points = Points(number)
    points.watch()
    packed.packed(frame, out, **ARGUMENTS[format])
    return points.total


def contents(out):
    return {path.name: path.read_bytes() for path in out.iterdir()}


def kill(folder, every, format="original"):
    frame = images(folder)
    if format == "pixels":  # of which one shard is put together anew
        frame = packed.write_images(folder / "imgs", ROWS)
        Path(frame["path"][ROWS // 2]).write_bytes(b"no image")
        warnings.simplefilter("ignore")
    made = partial(make, format=format)
    points = forked(lambda: made(frame, folder / "whole"))
    expected = contents(folder / "whole")
    for number in range(0, points, int(every)):
        kill_once(made, frame, folder / "killed", number, expected)
    print(points, len(expected))


def kill_once(made, frame, out, number, expected):
    """Kill at a point, and again soon after it went on, then let it end."""
    for point in (number, 1):
        status = forked(partial(made, frame, out, point))
        assert status == -signal.SIGKILL or point == 1, (number, status)
        whole = {name: data for name, data in contents(out).items() if name[0] != "."}
        assert whole.items() <= expected.items(), number
    assert forked(lambda: made(frame, out) and 0) == 0, number
    assert contents(out) == expected, number
    shutil.rmtree(out)


def full(folder):
    """Pack into a disk of 300 kB on which less and less is free."""
    frame = images(folder)
    disk = folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(disk)]
    if subprocess.run(command).returncode:
        sys.exit("mount")
    for free in range(4, 160, 18):
        (disk / "fill").write_bytes(bytes((300 - free) * 1024))
        status = forked(lambda: refused(frame, disk / "out"))
        left = sorted(os.listdir(disk / "out"))
        assert status in (0, 3), (free, status)
        assert all(name.endswith((".arrow", ".json")) for name in left), left
        print(free, status, len(left))
        (disk / "fill").unlink()
        assert forked(lambda: refused(frame, disk / "out")) == 0
        shutil.rmtree(disk / "out")


def refused(frame, out):
    """Return 3 where a pack is refused for want of space; the estimate is not asked."""
    shutil.disk_usage = lambda path: shutil._ntuple_diskusage(10**9, 0, 10**9)
    try:
        packed.packed(frame, out, **ARGUMENTS["original"])
    except DfgenError as error:
        print(error)
        sys.stdout.flush()
        return 3
    return 0


def images(folder):
    """Write files that do not pack well, about 100 kB together."""
    frame = packed.write_images(folder / "imgs", ROWS)
    for row, path in enumerate(frame["path"]):
        Path(path).write_bytes(bytes([row]) * (4000 + row))
    return frame


if __name__ == "__main__":
    warnings.simplefilter("error")
    {"kill": kill, "full": full}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
