"""Reads that fail for no fault of the file are tried again, then raised, and never skipped."""

import errno
import os
import subprocess
import sys
import threading
from contextlib import suppress
from types import SimpleNamespace

import cv2
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DecodeError, MissingFileError, ReadError, is_outside
from dfgen.loading.loader import Loader
from dfgen.loading.workers import retries
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.reader import SampleReader
from dfgen.stores.stores import Stores

OPTIONS = {"image_size": (4, 4), "label_mode": None}
ADVICE = "look after the disk or the network (dmesg tells more), then train on from the last backup"
NO_FAULT = '. That is no fault of the row, which on_error="skip" would skip: '

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
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader
from dfgen.loading.workers import retries
retries.WAITS = (0.01,) * 4
df = pd.DataFrame({"id": range(8), "path": [f"{sys.argv[1]}/{row}.png" for row in range(8)]})
bound = bind(SequenceArguments(df, image_size=(4, 4), label_mode=None, on_error="skip"))
loader = Loader(bound.reader, batch_size=4, shuffle=False, on_error="skip", workers=2)
"""


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """As many tries as ever, in little time."""
    monkeypatch.setattr(retries, "WAITS", (0.01, 0.02, 0.05, 0.1))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "imgs").mkdir()
    for row in range(8):
        cv2.imwrite(f"{tmp_path}/imgs/{row}.png", np.full((4, 4, 3), row, np.uint8))
    return tmp_path / "imgs"


def loader_of(folder, **options):
    df = pd.DataFrame({"id": range(8), "path": [f"{folder}/{row}.png" for row in range(8)]})
    bound = bind(SequenceArguments(df, **OPTIONS, on_error="skip"))
    options = {"batch_size": 4, "shuffle": False, "on_error": "skip", "workers": 2, **options}
    return Loader(bound.reader, **options)


def rows_of(batch):
    return batch.arrays["image"][:, 0, 0, 0].tolist()


@pytest.mark.parametrize(
    ("on_error", "processes"),
    [("skip", False), ("raise", False), pytest.param("skip", True, marks=pytest.mark.slow)],
)
def test_fault_23_a_folder_that_is_renamed_for_good_stops_training(folder, on_error, processes):
    loader = loader_of(folder, on_error=on_error, workers=1, use_multiprocessing=processes)
    assert rows_of(loader.batch(0, 0)) == [0, 1, 2, 3]
    folder.rename(folder.parent / "elsewhere")
    with pytest.raises(ReadError) as caught:
        loader.batch(0, 1)
    text = str(caught.value)
    begin = (
        f"row id=4, path='{folder}/4.png': the file does not exist, nor does its folder "
        f"'{folder}'; tried 5 times in "
    )
    end = (
        " seconds" + NO_FAULT + "mount or restore the folder, then train on from the last backup, "
        "or correct the paths"
    )
    assert text.startswith(begin) and end in text
    assert not loader.problems
    loader.close()


def test_fault_23_a_folder_that_comes_back_costs_no_row(folder, monkeypatch):
    away = folder.parent / "elsewhere"
    tried = threading.Event()

    def waited(seconds, cancelled):
        tried.set()
        return back.wait(20)

    back = threading.Event()
    monkeypatch.setattr(retries, "waited", waited)
    loader = loader_of(folder)
    folder.rename(away)
    pending = loader.start(0, 0)
    assert tried.wait(20)
    away.rename(folder)
    back.set()
    assert rows_of(loader.result(pending)) == [0, 1, 2, 3]
    assert rows_of(loader.batch(0, 1)) == [4, 5, 6, 7]
    assert not loader.problems
    loader.close()


def test_a_file_that_is_missing_alone_is_the_problem_of_its_row_at_once(folder, monkeypatch):
    monkeypatch.setattr(retries, "WAITS", (1000.0,))
    (folder / "1.png").unlink()
    loader = loader_of(folder)
    assert rows_of(loader.batch(0, 0)) == [0, 0, 2, 3]
    assert loader.problems == {1: ("read", "the file does not exist", 0)}
    loader.close()


@pytest.fixture
def folders(folder):
    """Return a folder that holds one of its own for each of eight files."""
    for row in range(8):
        (folder / str(row)).mkdir()
        (folder / f"{row}.png").rename(folder / str(row) / "0.png")
    return folder


def loader_of_folders(folders):
    df = pd.DataFrame({"id": range(8), "path": [f"{folders}/{row}/0.png" for row in range(8)]})
    bound = bind(SequenceArguments(df, **OPTIONS, on_error="skip"))
    return Loader(bound.reader, batch_size=4, shuffle=False, on_error="skip", workers=1)


def test_a_file_that_is_missing_with_a_folder_of_its_own_is_the_problem_of_its_row(
    folders, monkeypatch
):
    monkeypatch.setattr(retries, "WAITS", (1000.0,))
    (folders / "1" / "0.png").unlink()
    (folders / "2" / "0.png").unlink()
    (folders / "2").rmdir()
    loader = loader_of_folders(folders)
    assert rows_of(loader.batch(0, 0)) == [0, 0, 0, 3]
    assert loader.problems == dict.fromkeys((1, 2), ("read", "the file does not exist", 0))
    loader.close()


@pytest.fixture
def no_time(monkeypatch):
    """Two more tries, which take no time, however slow the machine."""
    monkeypatch.setattr(retries, "WAITS", (0.0, 0.0))
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=id))


@pytest.mark.parametrize("below", [True, False], ids=["of folders", "of files"])
def test_a_drive_that_is_mounted_no_more_stops_training(request, no_time, below):
    root = request.getfixturevalue("folders" if below else "folder")
    loader = loader_of_folders(root) if below else loader_of(root, workers=1)
    assert rows_of(loader.batch(0, 0)) == [0, 1, 2, 3]
    root.rename(root.parent / "elsewhere")
    root.mkdir()
    gone = f", nor does its folder '{root}/4'" if below else f", and its folder '{root}' is empty"
    with pytest.raises(ReadError) as caught:
        loader.batch(0, 1)
    assert str(caught.value).startswith(
        f"row id=4, path='{root}/4{'/0' if below else ''}.png': the file does not exist{gone}; "
        "tried 3 times in 0.0 seconds"
    )
    assert not loader.problems
    loader.close()


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
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=50
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc")
@pytest.mark.parametrize(("name", "times"), [("EIO", 5), ("ESTALE", 4)])
def test_fault_23_a_disk_that_fails_is_tried_again_then_raised(folder, shim, name, times):
    code = "print([loader.batch(0, s).arrays['image'][:, 0, 0, 0].tolist() for s in (0, 1)])"
    code += "\nassert not loader.problems"
    number = str(getattr(errno, name))
    given = {"LD_PRELOAD": str(shim), "FAULTY": "/imgs/2.png", "ERRNO": number}
    found = in_a_process(folder, code, TIMES=str(times), **given)
    if times == 4:
        assert found.stdout == "[[0, 1, 2, 3], [4, 5, 6, 7]]\n", found.stderr
        return
    said = f"{os.strerror(int(number))} ({name}); tried 5 times in "
    assert f"row id=2, path='{folder}/2.png': the file cannot be read: {said}" in found.stderr
    assert f" seconds{NO_FAULT}{ADVICE}" in found.stderr
    assert "dfgen.errors.ReadError" in found.stderr and found.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc")
def test_fault_53_a_stale_handle_of_a_network_drive_costs_no_row(folder, shim):
    """One that is opened anew is the file; one that stays stale is no fault of its row."""
    code = """
print(loader.batch(0, 0).arrays["image"][:, 0, 0, 0].tolist())
try:
    loader.batch(0, 1)
except dfgen.errors.ReadError as error:
    print(error)
assert not loader.problems
"""
    stale = {"UNOPENED": "/imgs/2.png", "OPENS": "4", "FAULTY": "/imgs/6.png", "TIMES": "99"}
    given = {"LD_PRELOAD": str(shim), "ERRNO": str(errno.ESTALE), **stale}
    found = in_a_process(folder, f"import dfgen.errors{code}", **given)
    rows, said = found.stdout.splitlines()
    assert rows == "[0, 1, 2, 3]", found.stderr
    begin = (
        f"row id=6, path='{folder}/6.png': the file cannot be read: Stale file handle (ESTALE); "
    )
    assert said.startswith(f"{begin}tried 5 times in ")
    assert said.endswith(f" seconds{NO_FAULT}{ADVICE}")


def test_fault_32_without_descriptors_no_row_is_skipped(folder):
    """Every row was booked as a broken file."""
    code = """
import os, resource
from dfgen.errors import ReadError
loader.batch(0, 0)  # all that is imported late
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    loader.batch(0, 1)
except ReadError as error:
    print(error)
assert not loader.problems
os.close(held.pop()); os.close(held.pop())
print(loader.batch(0, 1).arrays["image"][:, 0, 0, 0].tolist())
"""
    found = in_a_process(folder, code)
    said, rows = found.stdout.splitlines()
    begin = (
        f"row id=4, path='{folder}/4.png': the file cannot be read: Too many open files (EMFILE); "
        "tried 5 times in "
    )
    end = f" seconds{NO_FAULT}have more files open, ulimit -n 65536, or fewer workers"
    assert said.startswith(begin) and said.endswith(end), found.stderr
    assert rows == "[4, 5, 6, 7]"


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
loader.batch(0, 0)
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**22, -1))
try:
    loader.batch(0, 1)
except ReadError as error:
    print(error)
assert not loader.problems
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert loader.batch(0, 1).arrays["image"][1:, 0, 0, 0].tolist() == [5, 6, 7]
"""
    found = in_a_process(folder, code, MALLOC_ARENA_MAX="1")
    said = found.stdout.strip()
    end = "give the process more memory, or make workers, max_queue_size or batch_size smaller"
    assert said.startswith(f"row id=4, path='{folder}/4.png': out of memory: "), found.stderr
    assert said.endswith(f" seconds{NO_FAULT}{end}")


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


def test_a_worker_that_waits_for_a_disk_ends_when_its_loader_does(folder, monkeypatch):
    monkeypatch.setattr(retries, "WAITS", (1000.0,))
    loader = loader_of(folder)
    folder.rename(folder.parent / "elsewhere")
    loader.start(0, 0)
    loader.close()


def test_a_read_of_the_system_that_fails_names_its_errno():
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


def test_fault_32_a_check_of_all_numbers_without_descriptors_does_not_call_a_file_broken(tmp_path):
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
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, last + 1))
        try:
            print(decode_whole(sys.argv[1], Stores()))
        except ReadError as error:
            print(error)
    """
    told = subprocess.run([sys.executable, "-c", code, tmp_path / "a.h5"], capture_output=True)
    assert (told.stderr, told.stdout.decode().endswith("(EMFILE)\n")) == (b"", True), told.stdout


@pytest.fixture
def again(folder, no_time):
    """Return a function: try a row again whose file stays as it is, until `error` is raised."""

    def try_again(error, row=0, read=None, cancelled=lambda: False, reader=None):
        def fail():
            tries.append(row)
            raise error

        tries, stages = [], []
        reader = loader_of(folder, workers=0).reader if reader is None else reader
        try:
            retries.read_again(read or fail, error, reader, row, stages.append, cancelled)
        except Exception as raised:
            return raised, len(tries), stages
        return None, len(tries), stages

    return try_again


def caused(error, *causes):
    for one, cause in zip((error, *causes), causes, strict=False):
        one.__cause__ = cause
    return error


@each(
    ("error", "advice"),
    [
        (ReadError("the disk"), ADVICE),
        (caused(ReadError("the disk"), OSError(errno.EIO, "bad")), ADVICE),
        (caused(ReadError("the disk"), OSError(errno.EMFILE, "many")), "have more files open, "),
        (caused(ReadError("the disk"), KeyError(), OSError(errno.ENFILE, "")), "have more files "),
        (caused(ReadError("the disk"), OSError(errno.ENOMEM, "")), "give the process more memory"),
        (MemoryError("of images"), "give the process more memory"),
    ],
)
def test_a_read_that_fails_for_good_tells_what_to_do(again, folder, error, advice):
    raised, tries, stages = again(error)
    told = "the disk"
    if isinstance(error, MemoryError):
        told = f"row id=0, path='{folder}/0.png': out of memory: of images"
    assert str(raised).startswith(f"{told}; tried 3 times in 0.0 seconds{NO_FAULT}{advice}")
    assert type(raised) is ReadError and raised.__cause__ is error
    assert (tries, stages) == (2, ["idle"] * 2)


def test_a_row_that_nobody_wants_any_more_is_not_tried_again(again, monkeypatch):
    monkeypatch.setattr(retries, "WAITS", (1000.0,))
    for wants in ([True], [False, True]):
        error = ReadError("the disk")
        assert again(error, cancelled=iter(wants).__next__)[:2] == (error, 0)


def test_a_missing_file_that_is_back_is_read_and_one_that_is_missing_alone_is_not(again, folder):
    missing = MissingFileError("the file does not exist")
    assert again(missing, read=lambda: None)[0] is None
    (folder / "0.png").unlink()
    assert again(missing, read=lambda: None)[:2] == (missing, 0)


@pytest.mark.parametrize("why", ["it comes back", "EMFILE"])
def test_a_folder_of_which_a_look_does_not_tell_that_it_is_gone_is_no_fault_of_a_file(
    folder, again, monkeypatch, why
):
    def scandir(path):
        if why == "EMFILE":
            raise OSError(errno.EMFILE, "many")
        with suppress(FileNotFoundError):  # it is back already
            away.rename(folder)
        return real(path)

    away, real = folder.rename(folder.with_name("away")), os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    assert again(MissingFileError("the file does not exist"), read=lambda: None)[0] is None


def test_relative_paths_are_looked_for_in_the_working_folder_that_they_are_read_in(
    folder, again, monkeypatch
):
    monkeypatch.chdir(folder)
    df = pd.DataFrame({"id": range(8), "path": [f"{row}.png" for row in range(8)]})
    reader = bind(SequenceArguments(df, **OPTIONS, on_error="skip")).reader
    monkeypatch.chdir(folder.parent)
    missing = MissingFileError("the file does not exist")
    assert again(missing, read=lambda: None, reader=reader)[0] is None
    (folder / "0.png").unlink()
    assert again(missing, reader=reader)[:2] == (missing, 0)


def test_a_folder_of_one_row_in_many_is_its_own_and_one_that_held_others_is_not(again, folder):
    def reader_of(paths):
        feature = BoundFeature("x", Image("path", size=(4, 4)), pa.array(paths))
        return SampleReader(np.arange(len(paths)), (feature,))

    there, missing = f"{folder}/0.png", MissingFileError("the file does not exist")
    for held in (96, 104, 0, 199):  # beside the row, or anywhere
        paths = [there] * 200
        paths[100] = f"{folder}/gone/a.png"
        for other in (there, f"{folder}/gone too/b.png"):
            paths[held] = other
            assert again(missing, row=100, reader=reader_of(paths))[:2] == (missing, 0)
        paths[held] = f"{folder}/gone/b.png"
        raised, tries, _ = again(missing, row=100, reader=reader_of(paths))
        assert f", nor does its folder '{folder}/gone'; tried 3 times" in str(raised) and tries == 2
