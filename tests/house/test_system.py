"""Files are written whole or not at all; and what is said of them, and of arguments, is true."""

import errno
import fcntl
import os
import stat

import numpy as np
import pytest

from dfgen import machine
from dfgen.errors import ArgumentError, WriteError, flag, one_of, whole
from dfgen.files import FileLock, check_writable, only_writer, write_whole
from dfgen.machine import free_memory, machine_memory, usable_cpus


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


def test_link_stays_and_its_target_is_replaced(tmp_path):
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
        f"{link} cannot be written: there is no folder {tmp_path}/no. Create it first"
    )


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "a.bin"
    write_whole(str(path), lambda file: file.write(b"first"))
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    write_whole(str(path), lambda file: file.write(b"second"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_longest_allowed_name_is_written(tmp_path):
    path = tmp_path / ("ä" * 127)
    with only_writer(str(path)):
        write_whole(str(path), lambda file: file.write(b"long"))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int64(1), np.array(True)])
def test_flags_accept_python_and_numpy_truth_values(value):
    assert flag("shuffle", value) is True
    assert flag("shuffle", type(value)(0) if not isinstance(value, np.ndarray) else ~value) is False


@pytest.mark.parametrize("value", ["yes", None, 2, 1.0, np.float64(1), np.array([True])])
def test_other_values_are_no_flags(value):
    with pytest.raises(ArgumentError) as error:
        flag("shuffle", value)
    assert str(error.value) == (
        f"shuffle must be True or False, got {value!r}: write shuffle=True or shuffle=False"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (32.0, "32.0 is not a whole number of 1 or more: ask for more"),
        ("8", "'8' is not a whole number of 1 or more: ask for more"),
        (0.0, "0.0 is not a whole number of 1 or more: ask for more"),
        (float("inf"), "inf is not a whole number of 1 or more: ask for more"),
        (True, "True is not a whole number of 1 or more: ask for more"),
    ],
)
def test_non_whole_number_is_an_error_with_advice(value, said):
    with pytest.raises(ArgumentError) as error:
        whole("n", value, least=1, advice="ask for more")
    assert str(error.value) == f"n={said}"


def test_too_high_number_error_names_both_limits():
    with pytest.raises(ArgumentError, match=r"^n=11 is not a whole number from 1 to 10$"):
        whole("n", 11, least=1, most=10)


def test_invalid_choice_error_lists_allowed_values():
    with pytest.raises(ArgumentError) as caught:
        one_of("anything", "x", ("min",))
    assert str(caught.value) == "anything must be one of ('min',), got 'x'"


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="there is no /dev/fd")
def test_undeletable_lock_file_is_released(tmp_path):
    path, opened = tmp_path / "lock", len(os.listdir("/dev/fd"))
    with FileLock(str(path), "x is in use", "wait"):
        path.unlink()
        path.mkdir()
    assert path.is_dir() and len(os.listdir("/dev/fd")) == opened


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_child_does_not_hold_the_parent_lock(tmp_path):
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
    first.release()
    second.acquire()
    second.release()
    for end in (says, told, ends, open_):
        os.close(end)
    os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_next_writer_removes_files_of_killed_writer(tmp_path):
    path = str(tmp_path / "a.bin")
    if not (pid := os.fork()):
        write_whole(path, lambda file: os._exit(0))
    os.waitpid(pid, 0)
    (tmp_path / ".a.bin.backup.tmp").write_bytes(b"of the user")
    assert len(os.listdir(tmp_path)) == 2
    with only_writer(path):
        write_whole(path, lambda file: file.write(b"new"))
    assert sorted(os.listdir(tmp_path)) == [".a.bin.backup.tmp", "a.bin"]


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="there is no /dev/null")
def test_devices_and_folders_are_never_replaced(tmp_path):
    for path, kind in (("/dev/null", "device or pipe"), (str(tmp_path), "folder")):
        for write in (check_writable, lambda path: write_whole(path, lambda file: None)):
            with pytest.raises(WriteError, match=f"{path} is a {kind}"):
                write(path)
    assert os.listdir(tmp_path) == []


def test_drive_without_locks_is_written_with_warning(tmp_path, monkeypatch):
    def failing(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", failing)
    lock = FileLock(str(tmp_path / "lock"), "x is in use", "wait")
    number = errno.ENOLCK
    with pytest.warns(UserWarning, match="cannot be locked: No locks available"), lock:
        pass
    number = errno.EIO
    with pytest.raises(WriteError, match="cannot be locked: Input/output error"):
        lock.acquire()


@pytest.fixture
def cgroups(tmp_path, monkeypatch):
    """A function that writes files of cgroups; this process is in /pod/container."""
    monkeypatch.setattr(machine, "_ROOT", str(tmp_path))
    monkeypatch.setattr(machine, "_GROUPS", str(tmp_path / "groups"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8))

    def write(groups, files):
        (tmp_path / "groups").write_text(groups)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_text(f"{text}\n")

    return write


def memory(folder, limit, used, cache):
    facts = {"max": limit, "current": used, "stat": f"anon 5\ninactive_file {cache}"}
    return {f"{folder}/memory.{name}": value for name, value in facts.items()}


NESTED = "1:cpu:/other\n0::/pod/container\n"


def test_memory_of_nested_cgroups_counts_without_page_cache(cgroups):
    cgroups(NESTED, memory("pod/container", "max", 400, 0))
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine_memory.__wrapped__() == physical >= free_memory() > 1 << 20
    cgroups(NESTED, memory("pod/container", 1000, 900, 500))
    assert (machine_memory.__wrapped__(), free_memory()) == (1_000, 600)
    cgroups(NESTED, memory("pod", 800, 700, 100))
    assert (machine_memory.__wrapped__(), free_memory()) == (800, 200)
    cgroups(NESTED, memory("pod", 500, 700, 100))
    assert free_memory() == 0


def test_memory_of_cgroups_of_version_1_counts(cgroups):
    facts = {"limit_in_bytes": 1000, "usage_in_bytes": 900, "stat": "total_inactive_file 500"}
    cgroups("4:memory:/a\n", {f"memory/a/memory.{name}": value for name, value in facts.items()})
    assert (machine_memory.__wrapped__(), free_memory()) == (1_000, 600)


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        ("0::/\n", {"cpu.max": "350000 100000"}, 4),
        ("0::/\n", {"cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "100 100000"}, 1),
        (NESTED, {"pod/cpu.max": "200000 100000", "pod/container/cpu.max": "max 100000"}, 2),
        ("3:cpu,cpuacct:/a\n",
         {"cpu/a/cpu.cfs_quota_us": 150_000, "cpu/a/cpu.cfs_period_us": 50_000}, 3),
        ("3:cpu,cpuacct:/a\n",
         {"cpu/a/cpu.cfs_quota_us": -1, "cpu/a/cpu.cfs_period_us": 50_000}, 8),
        ("", {}, 8),
    ],
)  # fmt: skip
def test_quotas_of_cgroups_limit_the_cpus(cgroups, groups, files, cpus):
    cgroups(groups, files)
    assert usable_cpus() == cpus
