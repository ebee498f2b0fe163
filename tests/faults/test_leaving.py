"""Exits, interrupts, and deaths of workers that start: bounded, named, without their tracebacks."""

import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module

import numpy as np
import psutil
import pyarrow as pa
import pytest
from loaders import batches_of

from dfgen.errors import DecodeError, TransformError, WorkerError
from dfgen.loading.loader import Loader
from dfgen.samples.features.arrays import Array, Column
from dfgen.samples.features.classes import Number
from dfgen.samples.reader import BoundFeature, SampleReader

WORKERS = {
    "caller": {"workers": 0},
    "threads": {"workers": 2},
    "processes": {"workers": 1, "use_multiprocessing": True},
}
ways = pytest.mark.parametrize("way", list(WORKERS))


def loader(way, parts=(), transform=None, **options):
    numbers = BoundFeature("number", Number("number"), np.arange(24, dtype=np.int32))
    reader = SampleReader(np.arange(24), (numbers, *parts), transform)
    return Loader(reader, batch_size=4, **WORKERS[way], **options)


def numbers_of(made):
    return [int(number) for batch in batches_of(made) for number in batch.arrays["number"]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_worker_error_names_its_row_or_batch(error):
    def stop(*_):
        raise error("stop")

    def stop_one(batch, rng):
        return stop() if batch["number"][0] == 4 else batch  # the first is tried by the caller

    column = BoundFeature("x", Column("n", stop), pa.array(range(24)))
    for options in ({"parts": (column,)}, {"batch_transform": stop_one}):
        made = loader("threads", **options)
        with pytest.raises((DecodeError, TransformError), match=f"raised {error.__name__}: stop"):
            made.batch(0, 1)
        made.close()


def test_keyboard_interrupt_in_the_caller_is_preserved():
    made = loader("caller", transform=lambda sample, rng: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        made.batch(0, 1)
    made.close()


@ways
def test_exit_in_decoder_names_or_skips_its_row(tmp_path, way):
    def decode(data):
        return sys.exit(123) if data == b"leave" else np.frombuffer(data, np.uint8)

    paths = [str(tmp_path / f"{row}.bin") for row in range(24)]
    for row, path in enumerate(paths):
        with open(path, "wb") as file:
            file.write(b"leave" if row == 13 else b"stays")
    parts = (BoundFeature("x", Array("path", (5,), "uint8", decode=decode), pa.array(paths)),)
    told = f"row id=13, path={paths[13]!r}: "
    made = loader(way, parts)
    with pytest.raises(DecodeError) as caught:
        numbers_of(made)
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("decode raised SystemExit: 123")
    made.close()
    made = loader(way, parts, on_error="skip")
    assert numbers_of(made) == [0 if row == 13 else row for row in range(24)]
    assert list(made.problems) == [13]
    made.close()


def transform_of(folder, monkeypatch, name, code):
    """A transform of a module that becomes `code` before workers import it."""
    module = folder / f"{name}.py"
    module.write_text("def same(sample, rng): return sample\n")
    monkeypatch.syspath_prepend(folder)
    transform = import_module(name).same
    module.write_text(f"{code}\ndef same(sample, rng): return sample\n")
    return transform


@pytest.mark.slow
def test_process_ending_in_import_reports_exit_code(tmp_path, monkeypatch):
    code = "import sys\nsys.exit(7)"
    transform = transform_of(tmp_path, monkeypatch, "helper_that_ends", code)
    made = loader("processes", transform=transform)
    with pytest.raises(WorkerError) as caught:
        made.batch(0, 0)
    assert str(caught.value) == (
        "a worker process cannot start (exit code 7): see what it printed. It was to make row id=0 "
        "and 1 more"
    )
    made.close()


def test_process_killed_during_import_is_replaced(tmp_path, monkeypatch):
    flag = tmp_path / "died"
    code = f"import os, signal\nif not os.path.exists({str(flag)!r}):\n"
    code += f"    open({str(flag)!r}, 'w').close()\n    os.kill(os.getpid(), signal.SIGKILL)"
    transform = transform_of(tmp_path, monkeypatch, "helper_that_dies", code)
    made = loader("processes", transform=transform)
    assert numbers_of(made) == [*range(24)]
    assert flag.exists()
    made.close()


# -- signals, as a terminal sends them -----------------------------------------------------------

TRAINING = """
import signal
import sys
import cloudpickle
import numpy as np
from dfgen.loading.loader import Loader
from dfgen.samples.reader import BoundFeature
from dfgen.samples.features.classes import Number
from dfgen.samples.reader import SampleReader

def same(sample, rng):
    return sample

signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as one under nohup does
print("ready", flush=True)
numbers = BoundFeature("number", Number("number"), np.arange(24, dtype=np.int32))
reader = SampleReader(np.arange(24), (numbers,), same)
loader = Loader(reader, batch_size=4, workers=2, use_multiprocessing=True)
for epoch in range(1_000_000):
    list((loader.batch(epoch, step) for step in range(len(loader))))
"""


@pytest.fixture
def training():
    """A training in a process group of its own, as a shell starts one."""
    command = [sys.executable, "-c", TRAINING]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, process_group=0, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def workers_of(process, count=2):
    """Its workers, once there are so many."""
    parent = psutil.Process(process.pid)
    while len(found := parent.children()) < count:
        assert process.poll() is None
    return found


def spent(processes):
    """Seconds of CPU time."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


MOMENTS = [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6]
few = [pytest.param(each, marks=() if each == 0.2 else pytest.mark.slow) for each in MOMENTS]


@pytest.mark.parametrize("moment", few)
def test_group_interrupt_raises_one_keyboard_interrupt(training, moment):
    """After so many seconds of CPU time of its workers, which are about to start, or at work."""
    workers = workers_of(training, 0 if not moment else 1)
    while moment and spent(workers) < moment:
        workers = workers_of(training, 1)
    os.killpg(training.pid, signal.SIGINT)
    told = training.communicate(timeout=50)[1]
    assert training.returncode == -signal.SIGINT
    assert told.count("Traceback") == 1, told
    assert told.endswith("\nKeyboardInterrupt\n"), told
    assert "dfgen.loading.workers.process" not in told
    assert psutil.wait_procs(workers, timeout=30)[1] == []


@pytest.mark.parametrize(
    "end", [pytest.param(signal.SIGHUP, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_workers_stop_and_end_with_their_parent(training, end):
    """Ctrl-Z, `fg`, and a terminal that is closed."""
    parent, workers = psutil.Process(training.pid), workers_of(training)
    while {os.getpgid(worker.pid) for worker in workers} != {worker.pid for worker in workers}:
        pass  # each leaves the group of its parent as it starts; if not, the alarm tells
    os.killpg(training.pid, signal.SIGTSTP)
    while parent.status() != psutil.STATUS_STOPPED:
        pass
    while {worker.status() for worker in workers} != {psutil.STATUS_SLEEPING}:
        pass  # they have nothing more to do
    os.killpg(training.pid, signal.SIGCONT)
    before = spent([parent])
    while spent([parent]) <= before:
        assert training.poll() is None
    os.killpg(training.pid, end)
    assert training.communicate(timeout=50)[1] == ""
    assert training.returncode == -end
    assert psutil.wait_procs(workers, timeout=30)[1] == []


# -- descriptors and memory that are not there ---------------------------------------------------


@pytest.mark.slow
def test_missing_descriptors_in_processes_are_explained():
    code = (
        TRAINING.partition("print(")[0]
        + """
import os, resource
from dfgen.errors import WorkerError
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
numbers = BoundFeature("number", Number("number"), np.arange(24, dtype=np.int32))
loader = Loader(SampleReader(np.arange(24), (numbers,), same), batch_size=4, workers=1,
                use_multiprocessing=True)
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for _ in range(4):
    os.close(held.pop())
try:
    loader.batch(0, 0)
except WorkerError as error:
    print(error)
while held:
    os.close(held.pop())
print([int(n) for step in range(6) for n in loader.batch(0, step).arrays["number"]] == [*range(24)])
loader.close()
"""
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert run.stdout == (
        "a worker process cannot start: [Errno 24] Too many open files. Each takes three open "
        "files, and more while it starts: raise their limit before Python starts, as by ulimit "
        "-n 4096, or give fewer workers=\nTrue\n"
    ), run.stderr


def refuse_no_mounts():
    """Skip a test that mounts a disk of its own, where no process may."""
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    asked = shutil.which("unshare") and subprocess.run(mount, capture_output=True, timeout=50)
    if not asked or asked.returncode:
        pytest.skip(f"no memory can be mounted: {asked and asked.stderr.decode()}")


SMALL = """
import os, subprocess, sys
os.mkdir(f"{sys.argv[1]}/tmp")
for folder in ("/dev/shm", f"{sys.argv[1]}/tmp"):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]).returncode:
        sys.exit("mount")
os.environ["TMPDIR"] = f"{sys.argv[1]}/tmp"
import numpy as np
from dfgen.errors import WorkerError
from dfgen.loading.loader import Loader
from dfgen.samples.reader import BoundFeature
from dfgen.samples.features.arrays import Array
from dfgen.samples.reader import SampleReader
import pyarrow as pa

paths = [f"{sys.argv[1]}/{row}.npy" for row in range(8)]
part = BoundFeature("x", Array("path", (1 << 17,), "float64"), pa.array(paths))
loader = Loader(SampleReader(np.arange(8), (part,)), batch_size=8, workers=1,
                use_multiprocessing=True)
[batch] = (loader.batch(0, step) for step in range(len(loader)))
loader.close()
print((batch.arrays["x"] == np.arange(8.0)[:, None]).all(), os.listdir("/dev/shm"))
from dfgen.loading.workers import process_main as memories
memories.HAS_MEMORY_FILES, shared_memory = False, memories.shared_memory  # as on macOS
try:
    shared_memory(4 << 20)
except OSError as error:
    print(error)
file, memory = shared_memory(1 << 19)
memory[:] = b"x" * (1 << 19)
print("written")
"""


@pytest.mark.slow
def test_shared_memory_does_not_need_dev_shm(tmp_path):
    """/dev/shm and the temporary folder have 1 MiB each, where a user may mount that."""
    refuse_no_mounts()
    for row in range(8):
        np.save(tmp_path / f"{row}.npy", np.full(1 << 17, row, np.float64))
    command = ["unshare", "-rm", sys.executable, "-c", SMALL, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "True []",
        "[Errno 28] No space left on device",
        "written",
    ]


def test_dead_run_leaves_no_shared_memory(training):
    """It has none: its memory is known by descriptors alone, and is gone with the last of them."""
    workers = workers_of(training)
    for pid in (training.pid, workers[0].pid):
        mapped = ""
        while "/memfd:dfgen (deleted)" not in mapped:  # so the kernel calls what has no name
            with open(f"/proc/{pid}/maps") as maps:
                mapped = maps.read()
        assert "/dev/shm" not in mapped
    for process in (psutil.Process(training.pid), *workers):
        process.kill()
    assert psutil.wait_procs(workers, timeout=30)[1] == []
