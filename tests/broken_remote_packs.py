"""Packs in a bucket that are broken off by SIGKILL before and after each object that is written.

python tests/broken_remote_packs.py FOLDER OPTIONS EVERY prints how many points there are.

Each pack is made by a child that forks from a process that has imported all and no threads.
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import packed
from broken_packs import forked

from dfgen.samples.stores.remote.objects import Objects
from dfgen.samples.stores.remote.store_options import StorageOptions

ROWS, ARGUMENTS = 24, {"shard_size": 1200}


def make(frame, name, options, number=None):
    """Pack; kill the process at a point. Return how many there are."""
    write, passed = Objects.write, [0]

    def passes():
        if passed[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        passed[0] += 1

    def watched(self, *arguments):
        passes()
        write(self, *arguments)
        passes()

    Objects.write = watched
    packed.packed(frame, f"s3://bucket/{name}", storage_options=options, **ARGUMENTS)
    return passed[0]


def contents(name, options):
    """Return the bytes of all objects but the one that says how far the pack has come."""
    store = Objects(options=StorageOptions(options))
    paths = [path for path, _ in store.list(f"s3://bucket/{name}") if "_packing" not in path]
    return {path.rpartition("/")[2]: store.read(path) for path in paths}


def kill_once(frame, name, options, number):
    """Kill at a point, and let it end then."""
    whole = f"{name.partition('/')[0]}/whole"

    def is_part():
        return contents(name, options).items() <= contents(whole, options).items()

    assert forked(lambda: make(frame, name, options, number)) == -signal.SIGKILL, number
    assert forked(is_part) == 1, number
    assert forked(lambda: make(frame, name, options) and 0) == 0, number
    assert forked(lambda: contents(name, options) == contents(whole, options)) == 1, number


def main(folder, options, every):
    frame = packed.write_images(Path(folder), ROWS)
    points = forked(lambda: make(frame, f"{every}/whole", options))
    for number in range(0, points, every):
        kill_once(frame, f"{every}/killed-{number}", options, number)
    print(points)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
