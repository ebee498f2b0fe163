"""Whatever a program, its functions and its tools do to the process, the batches stay the same."""

import contextlib
import gc
import io
import os
import pdb
import sys
import threading

import keras  # noqa: F401  # in no time of a case
import numpy as np
import pytest
from processes_of import children

import dfgen
from dfgen.errors import TransformError

ROWS = 24
WAYS = {
    "caller": {"workers": 0},
    "threads": {"workers": 2},
    "processes": {"workers": 1, "use_multiprocessing": True},
}
ways = pytest.mark.parametrize("way", list(WAYS))


def sequence(df, way="threads", **options):
    image = dfgen.Image(size=(4, 4), flip="horizontal")
    options = {"x": image, "y": "label", "batch_size": 4, "seed": 1, **options}
    return dfgen.Sequence(df, **WAYS[way] | options)


def made(df, way="threads", epochs=1, **options):
    """The bytes of all batches."""
    with sequence(df, way, **options) as seq:
        return [x.tobytes() + y.tobytes() for _ in range(epochs) for x, y in seq]


@pytest.fixture
def df(frame):
    return frame(ROWS)


def noise(sample, rng):
    sample["image"] = sample["image"] + rng.integers(9, size=sample["image"].shape, dtype="uint8")
    return sample


@pytest.mark.parametrize("way", ["threads", "processes"])
def test_garbage_collection_at_any_moment_changes_nothing(df, way):
    def collecting(sample, rng):
        circle = []
        circle.append(circle)
        gc.collect(0)
        return noise(sample, rng)

    expected, found = made(df, "caller", transform=noise), []
    before = gc.get_threshold()
    gc.collect()  # of earlier tests: TensorFlow's iterators may take a minute to end, in any thread
    gc.set_threshold(1)
    try:
        with sequence(df, way, transform=collecting) as seq:
            for x, y in seq:
                found.append(x.tobytes() + y.tobytes())
                left = sequence(df)
                circle = [left, iter(left)]
                next(circle[1])
                circle.append(circle)  # its threads and batches are garbage from here on
                del left, circle
    finally:
        gc.set_threshold(*before)
    assert found == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("way", ["threads", "processes"])
def test_transform_may_fork_and_children_always_end(df, way):
    def forking(sample, rng):
        if not (pid := os.fork()):
            row = int(sample["image"][0, 0, 0])
            if row % 4 == 0:
                os._exit(0)
            if row % 4 == 1:
                sys.exit()
            if row % 4 == 2:
                raise ValueError
            return sample
        os.waitpid(pid, 0)
        return noise(sample, rng)

    assert made(df[:8], way, transform=forking) == made(df[:8], "caller", transform=noise)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("way", ["threads", "processes"])
def test_forked_children_neither_make_nor_write_rows(df, way, tmp_path):
    """Nobody waits for it before the last row of the chunk, and the end of the batch."""
    pids, is_forked, calls = [], [], tmp_path / "calls"

    def wait():
        while pids:
            os.waitpid(pids.pop(), 0)

    def forking(given, rng):
        if is_forked:
            calls.touch()
        if not (pid := os.fork()):
            pids.clear()
            is_forked.append(True)
            return {name: array + 99 for name, array in given.items()}
        pids.append(pid)
        is_batch = given["label"].ndim
        if is_batch or given["image"][0, 0, 0] == 7:
            wait()
        return given if is_batch else noise(given, rng)

    options = {"batch_size": 8, "shuffle": False, "workers": 1}
    expected = made(df[:8], "caller", transform=noise, batch_size=8, shuffle=False)
    assert made(df[:8], way, transform=forking, batch_transform=forking, **options) == expected
    wait()  # for those of the next epoch, already begun
    assert not calls.exists()


@pytest.mark.parametrize("way", ["threads", "processes"])
def test_transform_closing_standard_streams_changes_nothing(df, way, monkeypatch):
    in_process = way == "processes"

    def closing(sample, rng):
        for file in (sys.stdin, sys.stdout, sys.stderr):
            file.close()
        with contextlib.suppress(OSError):  # once is enough
            for number in range(3 * in_process):
                os.close(number)
        return noise(sample, rng)

    expected = made(df, "caller", transform=noise)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    assert made(df, way, transform=closing) == expected


def test_processes_start_with_closed_standard_streams(df):
    expected = made(df, "caller", transform=noise)
    kept = [os.dup(number) for number in range(3)]
    for number in range(3):
        os.close(number)
    try:
        found = made(df, "processes", transform=noise)
    finally:
        for number, handle in enumerate(kept):
            os.dup2(handle, number)
            os.close(handle)
    assert found == expected


@pytest.mark.parametrize("way", ["threads", "processes"])
def test_relative_paths_survive_a_changed_working_folder(df, way, monkeypatch):
    monkeypatch.chdir(os.path.dirname(df["path"][0]))
    relative = df.assign(path=[os.path.basename(path) for path in df["path"]])

    def moving(sample, rng):
        os.chdir("/")
        return noise(sample, rng)

    expected = made(df, "caller", transform=noise)
    assert made(relative, way, transform=moving) == expected


@ways
def test_numpy_settings_change_nothing_and_are_kept(df, way):
    df = df.assign(small=1e-42)
    x = {
        "even": dfgen.Image(size=(4, 4), scale="standardize"),
        "resized": dfgen.Image(size=(3, 5), scale="0..1"),
        "small": dfgen.Number("small"),
    }

    def rude(sample, rng):
        np.random.seed(3)
        np.random.random(5)
        np.seterr(all="raise")
        np.set_printoptions(threshold=1, precision=1)
        return sample

    def arrays(seq):
        return [batch[0][name].tobytes() for batch in seq for name in sorted(x)]

    before, options = np.geterr(), np.get_printoptions()
    state = np.random.get_state()[1].tolist()
    with sequence(df, way, x=x) as seq:
        expected = arrays(seq)
    assert np.random.get_state()[1].tolist() == state
    try:
        with np.errstate(all="raise"), sequence(df, way, x=x, transform=rude) as seq:
            found = arrays(seq)
    finally:
        np.seterr(**before)
        np.set_printoptions(**options)
    assert found == expected


ODD = {
    "HOME": "/nowhere", "LANG": "odd", "OMP_NUM_THREADS": "many", "PATH": "",
    "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "ascii", "PYTHONOPTIMIZE": "2",
    "PYTHONPATH": "", "PYTHONWARNINGS": "error", "TMPDIR": "/nowhere",
}  # fmt: skip


@pytest.mark.slow
def test_changing_environment_changes_nothing(df, monkeypatch):
    found = []
    with sequence(df, "processes", transform=noise, max_queue_size=1) as seq:
        for step, (x, y) in enumerate(seq):
            found.append(x.tobytes() + y.tobytes())
            if step == 1:
                monkeypatch.setitem(os.environb, b"ODD\xff", b"\xff\xfe=\x01\n")
                for name, value in ODD.items():
                    monkeypatch.setenv(name, value)
                for child in children():  # others begin with it
                    child.kill()
    monkeypatch.undo()
    assert found == made(df, "caller", transform=noise)


@pytest.mark.parametrize(("way", "hook"), [("caller", "settrace"), ("threads", "setprofile")])
def test_tracers_and_profilers_see_functions_and_change_nothing(df, way, hook):
    seen, expected = set(), made(df, "caller", transform=noise)

    def trace(frame, event, argument):
        seen.add(frame.f_code.co_name)
        return trace

    asked = {"settrace": sys.gettrace, "setprofile": sys.getprofile}[hook]
    before = asked()
    getattr(threading, hook)(trace)
    getattr(sys, hook)(trace)
    try:
        found = made(df, way, transform=noise)
        left = asked()
    finally:
        getattr(sys, hook)(before)
        getattr(threading, hook)(before)
    assert (found, left) == (expected, trace)
    assert "noise" in seen


@pytest.mark.parametrize("closed", [False, True], ids=["none", "closed"])
def test_everything_works_without_standard_streams(df, tmp_path, monkeypatch, closed):
    stream = io.StringIO() if closed else None
    if closed:
        stream.close()
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    manifest = str(tmp_path / "m.parquet")
    dfgen.build_manifest(os.path.dirname(df["path"][0]), facts="full", out=manifest)
    dfgen.verify(manifest)
    dfgen.pack(manifest, tmp_path / "packed", image_size=(4, 4))
    found = made(df, "threads", transform=noise)
    monkeypatch.undo()
    assert found == made(df, "caller", transform=noise)


def test_debugger_without_a_terminal_names_its_row(df):
    def debugging(sample, rng):
        pdb.set_trace()
        return sample

    with pytest.raises(TransformError, match=r"^row id=\d+, path=.* raised BdbQuit: "):
        made(df, "processes", transform=debugging)
