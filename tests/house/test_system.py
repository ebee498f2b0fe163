"""Files are written whole or not at all; and what is said of them, and of arguments, is true."""

import io
import os
import stat
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dfgen import locks, machine
from dfgen.checks import flag, one_of, whole
from dfgen.errors import ArgumentError, WriteError
from dfgen.files import check_writable, only_writer, write_whole
from dfgen.locks import FileLock
from dfgen.machine import free_memory, machine_memory
from dfgen.platform_calls import physical_memory


def test_a_folder_that_cannot_be_flushed_is_told_as_what_it_is(tmp_path, monkeypatch):
    path, flush = tmp_path / "a.bin", os.fsync
    path.write_bytes(b"old")

    def failing(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(5, "Input/output error")
        flush(handle)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(WriteError) as caught:
        write_whole(str(path), lambda file: file.write(b"new"))
    assert str(caught.value) == (
        f"{path} was written, but its folder could not be flushed to the disk: [Errno 5] "
        "Input/output error. After a loss of power it may be missing or old: write it "
        "again"
    )
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_what_interrupts_the_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def interrupted(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(str(path), interrupted)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_link_stays_and_what_it_points_to_is_replaced_whole(tmp_path):
    target, link = tmp_path / "disk" / "a.bin", tmp_path / "a.bin"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"of a link that points nowhere yet", b"new"):
        inode = target.exists() and target.stat().st_ino
        write_whole(str(link), lambda file, content=content: file.write(content))
        assert link.is_symlink()
        assert target.read_bytes() == content
        assert target.stat().st_ino != inode  # another file, not the old one written over
    assert os.listdir(target.parent) == ["a.bin"]
    link.unlink()
    link.symlink_to(tmp_path / "no" / "a.bin")
    with pytest.raises(WriteError) as error:
        check_writable(str(link))
    assert str(error.value) == (
        f"{link} cannot be written: its folder {tmp_path}/no does not exist. Create the folder "
        "first, or choose another place"
    )


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_file_that_is_replaced_keeps_its_mode_and_owner(tmp_path):
    path = tmp_path / "a.bin"
    write_whole(str(path), lambda file: file.write(b"first"))
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    owner = (1234, 5678) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    write_whole(str(path), lambda file: file.write(b"second"))
    found = path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, *owner)


@pytest.mark.skipif(os.name != "posix", reason="named pipes and terminals are of POSIX")
def test_a_pipe_and_a_terminal_are_written_to_and_stay(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_writable(str(pipe))
    write_whole(str(pipe), lambda file: file.write(b"through a pipe"))
    assert os.read(reader, 100) == b"through a pipe"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    ours, theirs = os.openpty()
    write_whole(os.ttyname(theirs), lambda file: file.write(b"to a terminal"))
    assert os.read(ours, 100) == b"to a terminal"
    os.close(ours)
    os.close(theirs)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="there is no /dev/fd")
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_an_open_descriptor_is_written_to_where_it_stands(tmp_path, kind):
    log = tmp_path / "log.txt"
    reader, writer = os.pipe()
    if kind == "file":
        os.close(writer)
        writer = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.write(writer, b"before ")
    write_whole(f"/dev/fd/{writer}", lambda file: file.write(b"between"))
    os.write(writer, b" after")
    os.close(writer)
    written = log.read_bytes() if kind == "file" else os.read(reader, 100)
    os.close(reader)
    assert written == b"before between after"


def test_a_table_goes_to_a_pipe_whole(tmp_path):
    """A Parquet file asks where it stands, which a pipe does not know."""
    reader, writer = os.pipe()
    table = pa.table({"id": [1, 2]})
    write_whole(f"/dev/fd/{writer}", lambda file: pq.write_table(table, file))
    os.close(writer)
    with open(reader, "rb") as file:
        assert pq.read_table(io.BytesIO(file.read())) == table


def test_a_name_as_long_as_names_may_be_is_written(tmp_path):
    path = tmp_path / ("ä" * 127)
    with only_writer(str(path)):
        write_whole(str(path), lambda file: file.write(b"long"))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int64(1), np.array(True)])
def test_a_flag_is_a_bool_of_python_or_numpy_or_one(value):
    assert flag("shuffle", value) is True
    assert flag("shuffle", type(value)(0) if not isinstance(value, np.ndarray) else ~value) is False


@pytest.mark.parametrize("value", ["yes", None, 2, 1.0, np.float64(1), np.array([True])])
def test_what_is_neither_true_nor_false_is_no_flag(value):
    with pytest.raises(ArgumentError) as error:
        flag("shuffle", value)
    assert str(error.value) == (
        f"shuffle must be True or False, got {value!r}: write shuffle=True or shuffle=False"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (32.0, "32.0 is not a whole number of 1 or more: write n=32"),
        ("8", "'8' is not a whole number of 1 or more: write n=8"),
        (np.float32(2), "np.float32(2.0) is not a whole number of 1 or more: write n=2"),
        (0.0, "0.0 is not a whole number of 1 or more: ask for more"),
        (float("inf"), "inf is not a whole number of 1 or more: ask for more"),
        (True, "True is not a whole number of 1 or more: ask for more"),
    ],
)
def test_what_is_meant_by_a_number_that_is_not_whole_is_told(value, said):
    with pytest.raises(ArgumentError) as error:
        whole("n", value, least=1, advice="ask for more")
    assert str(error.value).replace("n=2.0 ", "n=np.float32(2.0) ") == f"n={said}"


def test_a_number_that_is_too_high_is_told_both_limits():
    with pytest.raises(ArgumentError, match=r"^n=11 is not a whole number from 1 to 10$"):
        whole("n", 11, least=1, most=10)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_what_a_killed_writer_has_left_goes_with_the_next_one(tmp_path):
    path = str(tmp_path / "a.bin")
    if not (pid := os.fork()):
        write_whole(path, lambda file: os._exit(0))
    os.waitpid(pid, 0)
    assert len(os.listdir(tmp_path)) == 1
    write_whole(path, lambda file: file.write(b"new"))
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_value_that_nothing_is_known_of_is_told_what_is_allowed():
    with pytest.raises(ArgumentError) as caught:
        one_of("anything", "x", ("min",))
    assert str(caught.value) == "anything must be one of ('min',), got 'x'"


def test_the_memory_of_a_cgroup_counts_where_it_is_less(tmp_path, monkeypatch):
    """Page cache counted as used, and limits of outer groups were not seen."""
    inner = tmp_path / "pod" / "container"
    inner.mkdir(parents=True)
    (tmp_path / "groups").write_text("1:cpu:/other\n0::/pod/container\n")

    def group(folder, most, used, cache):
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")

    measure = partial(machine._cgroup_memory, str(tmp_path / "groups"), str(tmp_path))
    monkeypatch.setattr(machine, "_cgroup_memory", measure)
    group(inner, "max", 400, 0)
    assert machine_memory() == physical_memory() >= free_memory() > 1 << 20
    group(inner, 1000, 900, 500)
    assert (machine_memory(), free_memory()) == (1_000, 600)
    group(tmp_path / "pod", 800, 700, 100)
    assert (machine_memory(), free_memory()) == (800, 200)
    group(tmp_path / "pod", 500, 700, 100)
    assert free_memory() == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_device_that_is_full_is_told_with_the_bytes_that_it_has_taken(tmp_path):
    with pytest.raises(WriteError) as caught:
        write_whole("/dev/full", lambda file: file.write(bytes(1 << 16)))
    assert str(caught.value).endswith("No space left on device. The bytes written so far are there")
    path = str(tmp_path / "a.bin")
    with pytest.raises(WriteError) as caught, open("/dev/full", "wb", 0) as full:
        write_whole(path, lambda file: full.write(b"1"))
    assert str(caught.value) == (
        f"{path} cannot be written: [Errno 28] No space left on device. Nothing was changed"
    )


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="there is no /dev/fd")
def test_a_lock_file_that_is_deleted_as_it_is_taken_is_made_again_and_closed(tmp_path, monkeypatch):
    path, take, opened = tmp_path / "lock", locks.lock, len(os.listdir("/dev/fd"))

    def deleted(file):  # by who held it until now
        monkeypatch.undo()
        path.unlink()
        return take(file)

    monkeypatch.setattr(locks, "lock", deleted)
    with FileLock(str(path), "x is in use", "wait"):
        assert path.exists() and len(os.listdir("/dev/fd")) == opened + 1
    assert not path.exists() and len(os.listdir("/dev/fd")) == opened


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="there is no /dev/fd")
def test_a_lock_whose_file_cannot_be_deleted_is_let_go(tmp_path):
    path, opened = tmp_path / "lock", len(os.listdir("/dev/fd"))
    with FileLock(str(path), "x is in use", "wait"):
        path.unlink()
        path.mkdir()
    assert path.is_dir() and len(os.listdir("/dev/fd")) == opened


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_that_is_forked_does_not_hold_the_lock_of_its_parent(tmp_path):
    first, second = (FileLock(str(tmp_path / "lock"), "x is in use", "wait") for _ in range(2))
    first.acquire()
    (says, told), (ends, open_) = os.pipe(), os.pipe()
    if not (pid := os.fork()):
        os.close(open_)
        os.write(told, b"forked")
        os.read(ends, 1)
        os._exit(0)
    os.read(says, 6)
    with pytest.raises(WriteError, match="x is in use"):
        second.acquire()
    first.let_go()
    second.acquire()
    second.release()
    for end in (says, told, ends, open_):
        os.close(end)
    os.waitpid(pid, 0)
