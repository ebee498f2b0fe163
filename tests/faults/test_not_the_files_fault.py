"""Reads that fail for no fault of the file are tried again, then raised, and never skipped."""

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cv2
import h5py
import numpy as np
import pandas as pd
import pytest
from cases import each

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ProblemsError, ReadError, is_outside
from dfgen.loading.workers import chunks
from dfgen.stores.stores import Stores

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads of a file whose path ends in FAULTY fail with ERRNO, the first TIMES of them. */
static int times = -1;
ssize_t read(int fd, void *buffer, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "read");
    const char *faulty = getenv("FAULTY");
    if (faulty) {
        char link[64], path[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path);
        size_t wanted = strlen(faulty);
        if (times < 0) times = atoi(getenv("TIMES"));
        if (length >= (ssize_t)wanted && !strncmp(path + length - wanted, faulty, wanted)
            && times-- > 0) {
            errno = atoi(getenv("ERRNO"));
            return -1;
        }
        if (times < 0) times = 0;
    }
    return real(fd, buffer, size);
}

/* So do the first OPENS ways to open a file whose path ends in UNOPENED. */
#define OPENED(name) int name(const char *path, int flags, ...) { \
    static int (*real)(const char *, int, ...); \
    static int opens = -1; \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    const char *unopened = getenv("UNOPENED"); \
    if (opens < 0) opens = unopened ? atoi(getenv("OPENS")) : 0; \
    size_t length = strlen(path), wanted = unopened ? strlen(unopened) : 0; \
    if (wanted && length >= wanted && !strcmp(path + length - wanted, unopened) && opens > 0) { \
        opens--; \
        errno = atoi(getenv("ERRNO")); \
        return -1; \
    } \
    va_list more; \
    va_start(more, flags); \
    int mode = va_arg(more, int); \
    va_end(more); \
    return real(path, flags, mode); \
}
OPENED(open)
OPENED(open64)
"""

IN_A_PROCESS = """
import sys, pandas as pd
import dfgen
from dfgen.loading.workers import chunks
chunks.WAITS = (0.01,) * 4
df = pd.DataFrame({"id": range(8), "path": [f"{sys.argv[1]}/{row}.png" for row in range(8)]})
seq = dfgen.Sequence(df, image_size=(4, 4), label_mode=None, batch_size=4, shuffle=False,
                     on_error="skip", workers=2)
rows_of = lambda batch: batch[0][:, 0, 0, 0].tolist()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "imgs").mkdir()
    for row in range(8):
        cv2.imwrite(f"{tmp_path}/imgs/{row}.png", np.full((4, 4, 3), row, np.uint8))
    return tmp_path / "imgs"


def sequence(folder, x="path", **options):
    df = pd.DataFrame({"id": range(8), "path": [f"{folder}/{row}.png" for row in range(8)]})
    size = {"image_size": (4, 4)} if x == "path" else {}
    options = {"batch_size": 4, "shuffle": False, "on_error": "skip", "workers": 2} | options
    return dfgen.Sequence(df, x, label_mode=None, **size, **options)


def rows_of(batch):
    return batch[0][:, 0, 0, 0].tolist()


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_vanished_folder_stops_training(folder, processes):
    with sequence(folder, use_multiprocessing=processes) as seq:
        assert rows_of(seq[0]) == [0, 1, 2, 3]
        folder.rename(folder.parent / "elsewhere")
        with pytest.raises(ProblemsError, match=rf"none of the 4 rows[^$]*{folder}/4\.png"):
            seq[1]


def failing(started):
    def decode(data):
        started.set()
        raise OSError(errno.EIO, "a decoder that reads")

    return dfgen.Image("path", size=(4, 4), decode=decode)


def test_closing_ends_waits_for_a_disk(folder, monkeypatch):
    monkeypatch.setattr(chunks, "WAITS", (1000.0,))
    started = threading.Event()
    seq = sequence(folder, failing(started))
    with ThreadPoolExecutor() as pool:
        batch = pool.submit(seq.__getitem__, 0)
        assert started.wait(20)
        seq.close()
        with pytest.raises(ArgumentError, match="closed"):
            batch.result(20)


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    path = tmp_path_factory.mktemp("shim")
    (path / "shim.c").write_text(SHIM)
    made = path / "shim.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", made, path / "shim.c", "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no C compiler: reads that fail are made by a library that one compiles")
    return made


def in_a_process(folder, code, **environment):
    command = [sys.executable, "-c", IN_A_PROCESS + code, str(folder)]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=50)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc")
@pytest.mark.parametrize(("name", "times"), [("EIO", 5), ("ESTALE", 4)])
def test_failing_disk_is_retried_before_raising(folder, shim, name, times):
    code = "print([rows_of(batch) for batch in (seq[0], seq[1])])\nassert seq.problems.empty"
    number = str(getattr(errno, name))
    given = {"LD_PRELOAD": str(shim), "FAULTY": "/imgs/2.png", "ERRNO": number}
    found = in_a_process(folder, code, TIMES=str(times), **given)
    if times == 4:
        assert found.stdout == "[[0, 1, 2, 3], [4, 5, 6, 7]]\n", found.stderr
        return
    said = [line for line in found.stderr.splitlines() if "dfgen.errors.ReadError: " in line][-1]
    assert f"row id=2, path='{folder}/2.png'" in said and "tried 5 times" in said
    assert f"({name})" in said and "dmesg" in said and found.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc")
def test_stale_network_handle_skips_no_row(folder, shim):
    """A reopened file is read; one that stays stale is no fault of its row."""
    code = """
print(rows_of(seq[0]))
try:
    seq[1]
except dfgen.errors.ReadError as error:
    print(error)
assert seq.problems.empty
"""
    stale = {"UNOPENED": "/imgs/2.png", "OPENS": "4", "FAULTY": "/imgs/6.png", "TIMES": "99"}
    given = {"LD_PRELOAD": str(shim), "ERRNO": str(errno.ESTALE), **stale}
    found = in_a_process(folder, code, **given)
    rows, said = found.stdout.splitlines()
    assert rows == "[0, 1, 2, 3]", found.stderr
    assert f"row id=6, path='{folder}/6.png'" in said and "(ESTALE); tried 5 times" in said


def test_missing_descriptors_skip_no_row(folder):
    code = """
import os, resource
from dfgen.errors import ReadError
seq[0]  # all that is imported late
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    seq[1]
except ReadError as error:
    print(error)
assert seq.problems.empty
os.close(held.pop()); os.close(held.pop())
print(rows_of(seq[1]))
"""
    found = in_a_process(folder, code)
    said, rows = found.stdout.splitlines()
    assert f"row id=4, path='{folder}/4.png'" in said and "(EMFILE); tried 5 times" in said
    assert "ulimit -n" in said and rows == "[4, 5, 6, 7]"


@pytest.mark.parametrize("suffix", ["png", pytest.param("webp", marks=pytest.mark.slow)])
def test_without_memory_no_row_is_skipped(folder, suffix):
    """OpenCV does not say MemoryError, and of WebP it says nothing at all."""
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    image = cv2.resize(noise, (2600, 2600))
    options = [cv2.IMWRITE_WEBP_QUALITY, 10] if suffix == "webp" else []
    (folder / "4.png").write_bytes(cv2.imencode(f".{suffix}", image, options)[1].tobytes())
    code = """
import resource
from dfgen.errors import ReadError
seq[0]
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**22, -1))
try:
    seq[1]
except ReadError as error:
    print(error)
assert seq.problems.empty
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert rows_of(seq[1])[1:] == [5, 6, 7]
"""
    said = in_a_process(folder, code, MALLOC_ARENA_MAX="1").stdout
    assert said.startswith(f"row id=4, path='{folder}/4.png': out of memory: ")
    assert "give the process more memory" in said


def test_without_memory_no_file_is_booked_as_broken(folder, monkeypatch):
    def decode(*arguments):
        raise RuntimeError("Insufficient memory")  # as OpenCV says it

    monkeypatch.setattr("cv2.imdecode", decode)
    frame = pd.DataFrame({"id": [7], "path": [f"{folder}/4.png"]})
    with pytest.raises(ReadError) as caught:
        dfgen.verify(frame, decode=True)
    assert str(caught.value) == (
        f"{folder}/4.png cannot be read, and the file is not at fault: Insufficient memory"
    )


def test_failed_system_read_names_its_errno():
    """No process has a page at 0."""
    with pytest.raises(ReadError) as caught:
        Stores().read("/proc/self/mem")
    assert str(caught.value) == "the file cannot be read: Input/output error (EIO)"
    assert isinstance(caught.value, OSError)


@each(
    ("error", "outside"),
    [
        (ValueError("Insufficient memory (case 4)"), True),  # of libjpeg
        (RuntimeError("Pixel allocation failed: Out of memory"), True),  # of libavif
        (OSError(errno.ENOTCONN, "Transport endpoint is not connected"), True),
        (ConnectionResetError(), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (OSError("image file is truncated"), False),
        (FileNotFoundError(errno.ENOENT, "No such file"), False),
        (ReadError("the disk"), True),
        (DecodeError("the file says: out of memory"), False),
    ],
)
def test_what_is_no_fault_of_a_file(error, outside):
    assert is_outside(error) is outside


def test_full_check_without_descriptors_marks_no_file_broken(tmp_path):
    """Those of HDF5 are opened anew, by their path."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(4)
    code = """if True:
        import os, resource, sys, h5py
        from dfgen.errors import ReadError
        from dfgen.stores.stores import Stores
        from dfgen.manifest.building.file_facts import decode_whole
        assert decode_whole(sys.argv[1], Stores())[1] is None
        last = os.dup(0)
        os.close(last)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last, last))
        try:
            print(decode_whole(sys.argv[1], Stores()))
        except ReadError as error:
            print(error)
    """
    told = subprocess.run([sys.executable, "-c", code, tmp_path / "a.h5"], capture_output=True)
    assert (told.stderr, told.stdout.decode().endswith("(EMFILE)\n")) == (b"", True), told.stdout
