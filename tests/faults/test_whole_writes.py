"""What is written is there whole or as it was, whoever dies, and one process at a time writes it.

A manifest of three rows, a recipe of one argument, a backup of two arrays: each holds a word.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

import dfgen
from dfgen.errors import WriteError
from dfgen.files import only_writer
from dfgen.training.callbacks.backup_files import Generations

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no flock, no signals, no forks")

BACKUPS = """
import os, signal, sys
import numpy as np
import dfgen
from dfgen.training.callbacks.backup_files import Generations
"""
WRITERS = f"""{BACKUPS}
import pandas as pd
from dfgen.files import only_writer, write_whole
"""
WRITERS += """
def manifest(folder, word):
    frame = pd.DataFrame({"id": range(3), "path": ["a.png", "b.png", "c.png"], "word": word})
    dfgen.write_manifest(frame, f"{folder}/m.parquet", root=folder)

def recipe(folder, word):
    write_whole(f"{folder}/r.toml", lambda file: file.write(40 * word.encode()))

def backup(folder, word):
    arrays = {"a": np.full(9, ord(word[0])), "b": np.zeros((2, 2))}
    Generations(f"{folder}/backup").save({"word": word}, arrays)

def word_of(kind, folder):
    if kind == "manifest":
        return dfgen.read_manifest(f"{folder}/m.parquet")["word"].unique().tolist()[0]
    if kind == "recipe":
        return open(f"{folder}/r.toml").read()[:3]
    return Generations(f"{folder}/backup").load()[1]["word"]

def names():
    return sorted(name for _, _, names in os.walk(folder) for name in names)

KINDS = {"manifest": manifest, "recipe": recipe, "backup": backup}
FILES = {"manifest": "m.parquet", "recipe": "r.toml", "backup": "backup/b"}
folder = sys.argv[1]
"""


def python(code, *arguments, of=WRITERS, under=()):
    command = [*under, sys.executable, "-c", of + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50)


def started(code, *arguments, of=WRITERS):
    """A process that has said a line, and waits for one."""
    command = [sys.executable, "-c", of + code, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process, by=None):
    if by is not None:
        process.send_signal(by)
    process.communicate(timeout=50)
    return process.returncode


def names_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# -- a disk that is full -------------------------------------------------------------------------

LIMITED = """
import resource
for kind, write in KINDS.items():
    write(folder, "old")
whole = {"manifest": "m.parquet", "recipe": "r.toml", "backup": "backup/backup-00000000.npz"}
for kind, write in KINDS.items():
    nbytes = os.path.getsize(f"{folder}/{whole[kind]}")
    for size in sorted({0, 1, 10, nbytes // 2, nbytes - 1}):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            write(folder, "new")
            print("written")
        except dfgen.DfgenError as error:
            print(kind, size, type(error).__name__, error)
    print(kind, word_of(kind, folder))
print(*names())
"""


@pytest.mark.slow
def test_file_size_limit_leaves_only_the_old_file(tmp_path):
    run = python(LIMITED, tmp_path)
    assert run.returncode == 0, run.stderr
    *lines, left = run.stdout.splitlines()
    assert left == "backup-00000000.npz m.parquet r.toml"
    assert [line for line in lines if line.endswith("old")] == [
        "manifest old", "recipe old", "backup old"
    ]  # fmt: skip
    refused = [line for line in lines if not line.endswith("old")]
    assert len(refused) == 15
    for line in refused:
        assert f" WriteError {tmp_path}/" in line
        assert line.endswith("cannot be written: [Errno 27] File too large. Nothing was changed")


FULL = """
import subprocess
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]).returncode:
    sys.exit("mount")
for kind, write in KINDS.items():
    write(folder, "old")
with open(f"{folder}/fill", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
for kind, write in KINDS.items():
    try:
        write(folder, "new")
    except dfgen.DfgenError as error:
        print(kind, word_of(kind, folder), type(error).__name__, error)
print(*names())
os.unlink(f"{folder}/fill")
for kind, write in KINDS.items():
    write(folder, "new")
    print(kind, word_of(kind, folder))
"""


@pytest.mark.slow
def test_full_disk_leaves_only_the_old_files(tmp_path):
    """A disk of 64 kB, where a user may mount one."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare")
    run = python(FULL, tmp_path, under=["unshare", "-rm"])
    if "mount" in run.stderr or "unshare" in run.stderr:
        pytest.skip(f"no disk can be mounted: {run.stderr}")
    assert run.returncode == 0, run.stderr
    *refused, left = run.stdout.splitlines()[:4]
    for line, kind in zip(refused, ["manifest", "recipe", "backup"], strict=True):
        assert line.startswith(f"{kind} old WriteError {tmp_path}/")
        assert line.endswith(
            "cannot be written: [Errno 28] No space left on device. Nothing was changed"
        )
    assert left == "backup-00000000.npz fill m.parquet r.toml"
    assert run.stdout.splitlines()[4:] == ["manifest new", "recipe new", "backup new"]


# -- kills at every point of a write -------------------------------------------------------------

KILLED = """
def killed_at(point, write):
    left = point
    rooms = ("files", "machine", "training.callbacks.backup_files")
    watched = {"zipfile", *(f"dfgen.{room}" for room in rooms)}

    def count(frame, event, function):
        nonlocal left
        if event == "c_call" and frame.f_globals.get("__name__") in watched:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        sys.setprofile(count)
        write(folder, "new")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

above = folder
for kind, write in KINDS.items():
    status, point = -signal.SIGKILL, 1
    while status == -signal.SIGKILL:
        folder = f"{above}/{kind}{point}"
        os.mkdir(folder)
        write(folder, "old")
        status = killed_at(point, write)
        found = word_of(kind, folder)
        with only_writer(f"{folder}/{FILES[kind]}"):
            write(folder, "newer")
        print(kind, status, found, *names())
        point += 1
"""


@pytest.mark.slow
def test_killed_write_leaves_old_or_new_file(tmp_path):
    """Before each call that the writing makes; the next write removes what a killed one began."""
    run = python(KILLED, tmp_path)
    assert run.returncode == 0, run.stderr
    for kind in ("manifest", "recipe", "backup"):
        lines = [line.split() for line in run.stdout.splitlines() if line.startswith(kind)]
        points = [(status, word) for _, status, word, *_ in lines]
        assert len(points) >= 10
        assert [status for status, _ in points] == ["-9"] * (len(points) - 1) + ["0"]
        words = [word for _, word in points]
        assert {*words} == {"old", "new"}
        assert words == sorted(words, reverse=True)  # once it is the new one it stays so
        assert not [name for _, _, _, *names in lines for name in names if name[0] == "."]


ENDED = """
import resource, stat
fsync = os.fsync

def ended(write, of_folder, end):
    def synced(file):
        if stat.S_ISDIR(os.fstat(file).st_mode) == of_folder:
            end()
        fsync(file)

    if not (child := os.fork()):
        os.fsync = synced
        write(folder, "new")
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def terminated():
    os.kill(os.getpid(), signal.SIGTERM)

above = folder
for kind, write in KINDS.items():
    for of_folder in (False, True):
        folder = f"{above}/{kind}{of_folder}"
        os.mkdir(folder)
        write(folder, "old")
        status = ended(write, of_folder, lambda: os._exit(9))
        print("cut", kind, of_folder, status, word_of(kind, folder))
    folder = f"{above}/{kind}"
    os.mkdir(folder)
    write(folder, "old")
    status = ended(write, False, terminated)
    left = sum(name.endswith(".tmp") for name in names())
    with only_writer(f"{folder}/m.parquet"):
        write(folder, "newer")
    print("term", kind, status, left, sum(name.endswith(".tmp") for name in names()))

folder = above + "/full"
os.mkdir(folder)
backup(folder, "old")
path = f"{folder}/backup/backup-00000000.npz"
writes, size = [], os.path.getsize(path)
for limit in range(0, size, 128):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        backup(folder, "new")
    except dfgen.errors.WriteError:
        writes.append((word_of("backup", folder), *names()))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
backup(folder, "new")
print("full", len(writes) == -(-size // 128), *{*writes}, word_of("backup", folder))
"""


@pytest.fixture(scope="module")
def ended_writes(tmp_path_factory):
    """Lines of what a process saw whose writes were ended in several ways, by their first word."""
    run = python(ENDED, tmp_path_factory.mktemp("ended"))
    assert run.returncode == 0, run.stderr
    return [line.split(" ", 1) for line in run.stdout.splitlines()]


@pytest.mark.slow
def test_kill_between_rename_and_flush_leaves_whole_file(ended_writes):
    assert [line for word, line in ended_writes if word == "cut"] == [
        f"{kind} {flushed} 9 {word}"
        for kind in ("manifest", "recipe", "backup")
        for flushed, word in ((False, "old"), (True, "new"))
    ]


def test_next_write_removes_leftovers_of_sigterm(ended_writes):
    assert [line for word, line in ended_writes if word == "term"] == [
        f"{kind} {-signal.SIGTERM} 1 {left}"
        for kind, left in (("manifest", 0), ("recipe", 1), ("backup", 0))
    ]


def test_full_disk_during_backup_costs_no_backup(ended_writes):
    assert [line for word, line in ended_writes if word == "full"] == [
        "True ('old', 'backup-00000000.npz') new"
    ]


# -- two at once ---------------------------------------------------------------------------------

BUILDING = """
from dfgen.manifest.building import build
def wait(*given):
    print("ready", flush=True)
    sys.stdin.readline()
build._with_facts = wait
dfgen.build_manifest(folder, facts="none", out=f"{folder}/m.parquet")
"""


@pytest.fixture
def images(tmp_path):
    (tmp_path / "0.png").write_bytes(b"")
    return tmp_path


@pytest.mark.slow
def test_second_build_is_rejected_during_the_first(images):
    first = started(BUILDING, images)
    out = images / "m.parquet"
    for _ in range(2):
        with pytest.raises(WriteError) as error:
            dfgen.build_manifest(images, facts="none", out=out)
        assert str(error.value) == (
            f"{out} is being written by process {first.pid} on {os.uname().nodename}: wait until "
            "that has ended, or choose another place"
        )
    assert ended(first, signal.SIGKILL) == -signal.SIGKILL
    assert not out.exists()
    dfgen.build_manifest(images, facts="none", out=out)
    assert names_below(images) == ["0.png", "m.parquet"]


def test_concurrent_thread_and_writing_check_are_rejected(images):
    out = images / "m.parquet"
    dfgen.build_manifest(images, facts="none", out=out)
    found = []

    def build():
        try:
            dfgen.build_manifest(images, facts="none", out=out)
        except WriteError as error:
            found.append(str(error))

    with only_writer(str(out)):
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
        with pytest.raises(WriteError, match="is being written by process"):
            dfgen.verify(out, write=True)
        dfgen.verify(out)
    assert found == [
        f"{out} is being written by process {os.getpid()} on {os.uname().nodename}: wait until "
        "that has ended, or choose another place"
    ]


HOLDING = """
backups = Generations(sys.argv[1])
backups.lock.acquire()
backups.save({"word": "old"}, {"a": np.full(9, ord("o"))})
if sys.argv[2:]:  # a child that lives on, as that of a DataLoader
    if not os.fork():
        print(os.getpid(), file=sys.stderr, flush=True)
        signal.pause()
print("ready", flush=True)
sys.stdin.readline()
"""


def refusal(folder, pid):
    return (
        f"{folder} is in use by process {pid} on {os.uname().nodename}: wait until that training "
        "has ended, or give another backup_dir"
    )


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, signal.SIGKILL])
def test_backup_folder_belongs_to_one_living_process(tmp_path, by):
    first = started(HOLDING, tmp_path, of=BACKUPS)
    backups = Generations(tmp_path)
    with pytest.raises(WriteError) as error:
        backups.lock.acquire()
    assert str(error.value) == refusal(tmp_path, first.pid)
    assert backups.load()[1]["word"] == "old"  # who only reads may
    assert ended(first, by) == (0 if by is None else -by)
    backups.lock.acquire()
    backups.delete()
    assert not tmp_path.exists()


@pytest.mark.slow
def test_forked_child_releases_folder_of_dead_parent(tmp_path):
    parent = started(HOLDING, tmp_path, "fork", of=BACKUPS)
    child = next(int(line) for line in parent.stderr if line.strip().isdigit())  # or TensorFlow's
    parent.kill()
    parent.wait(50)
    backups = Generations(tmp_path)
    try:
        os.kill(child, 0)  # it lives
        backups.lock.acquire()
    finally:
        os.kill(child, signal.SIGKILL)
        parent.communicate(timeout=50)
    backups.lock.release()


@pytest.mark.slow
def test_same_process_may_take_backup_folder_again(tmp_path):
    """Of a fit that failed nobody lets go: its callback lives on in a traceback."""
    failed, again = Generations(tmp_path), Generations(tmp_path)
    failed.lock.acquire()
    again.lock.acquire()
    again.lock.acquire()
    del failed
    code = "try: Generations(sys.argv[1]).lock.acquire()\nexcept dfgen.DfgenError as e: print(e)"
    assert python(code, tmp_path, of=BACKUPS).stdout == refusal(tmp_path, os.getpid()) + "\n"
    again.lock.release()
    assert names_below(tmp_path) == []
