"""A fixture that finds what a test leaves behind; and image files with a Sequence of them."""

import contextlib
import gc
import os
import threading

import cv2
import numpy as np
import pandas as pd
import psutil
import pytest

import dfgen

SIZE = (9, 7)
OTHERS = ("process_request", "serve_forever", "tqdm_monitor")  # threads of servers and of bars


def children():
    return psutil.Process().children(recursive=True)


def resources():
    """Return the children, threads, open files and shared memory of this process."""
    files = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing itself
            files.add((number, os.readlink(f"/proc/self/fd/{number}")))
    threads = [one for one in threading.enumerate() if not any(n in one.name for n in OTHERS)]
    return {
        "children": {one.pid for one in children()},
        "threads": {(one.ident, one.name) for one in threads},
        "files": {one for one in files if "socket:" not in one[1] and "anon_inode" not in one[1]},
        "memory": {name for name in os.listdir("/dev/shm") if "dfgen" in name},
    }


@pytest.fixture(autouse=True)
def nothing_left():
    """Fail if a test leaves something behind; threads and processes may take a while to end."""
    before = resources()
    yield
    for attempt in range(400):
        left = {kind: new for kind, now in resources().items() if (new := now - before[kind])}
        if not left:
            return
        if attempt in (5, 300):
            gc.collect()  # 0.3 seconds of a process that has imported Keras
        threading.Event().wait(0.02)
    raise AssertionError(f"left behind: {left}")


def pictures(rows, size=SIZE, seed=0):
    """Return the pixels of random images, and the bytes of a PNG of each."""
    pixels = np.random.default_rng(seed).integers(0, 256, (rows, *size, 3), np.uint8)
    return pixels, [cv2.imencode(".png", each[..., ::-1])[1].tobytes() for each in pixels]


def written(folder, contents, suffix=".png"):
    """Write files and return their manifest: `id` is r0 ..., `number` the row."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = range(len(contents))
    for row in rows:
        (folder / f"{row}{suffix}").write_bytes(contents[row])
    paths = [f"{folder}/{row}{suffix}" for row in rows]
    return pd.DataFrame({"id": [f"r{row}" for row in rows], "path": paths, "number": rows})


def sequence(manifest, x="path", **options):
    """Return a Sequence whose targets are the numbers of the rows."""
    options = {"y": "number", "batch_size": 4, "workers": 2, **options}
    return dfgen.Sequence(manifest, x, **({"image_size": SIZE} if x == "path" else {}) | options)


def of_pass(seq):
    """Return the pixels and numbers of one pass."""
    x, y = zip(*((np.array(x), np.array(y)) for x, y, *_ in seq), strict=True)
    return np.concatenate(x), np.concatenate(y).tolist()


def passes(manifest, x="path", epochs=2, **options):
    """Return the pixels and numbers of each epoch."""
    with sequence(manifest, x, **options) as seq:
        return [of_pass(seq) for _ in range(epochs)]


def assert_same(found, expected, *, ordered=True):
    """Compare passes, with `ordered=False` by row."""
    for (pixels, rows), (others, same) in zip(found, expected, strict=True):
        one, other = (slice(None),) * 2 if ordered else (np.argsort(rows), np.argsort(same))
        np.testing.assert_array_equal(np.array(rows)[one], np.array(same)[other])
        np.testing.assert_array_equal(pixels[one], others[other])
