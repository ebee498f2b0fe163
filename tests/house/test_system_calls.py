"""Each call of the system does what it is for, and what stands in for it does the same."""

import contextlib
import ctypes
import os
import signal
import sys
from threading import Lock

import pytest

from dfgen import machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="most are calls of Linux alone")
MIB = 1 << 20


def is_open(handle):
    with contextlib.suppress(OSError):
        return bool(os.fstat(handle))
    return False


@pytest.fixture
def file(tmp_path):
    handle = os.open(tmp_path / "a.bin", os.O_RDWR | os.O_CREAT)
    os.write(handle, b"0123456789")
    yield handle
    os.close(handle)


@pytest.fixture
def calls(monkeypatch):
    """Record the calls of a function of a module, in order, instead of making them."""
    made = []

    def record(module, *names):
        for name in names:
            monkeypatch.setattr(module, name, lambda *given, of=name: made.append((of, *given)))
        return made

    return record


def test_read_ahead_is_requested_in_short_steps(tmp_path, monkeypatch, calls):
    made = calls(os, "posix_fadvise")
    path = tmp_path / "a.bin"
    path.write_bytes(b"0123456789")
    machine.read_ahead(str(path), [(2, 3), (MIB, 131073)])
    found = [(start, length) for _, _, start, length, _ in made]
    assert found == [(2, 3), (MIB, 131072), (MIB + 131072, 1)]
    monkeypatch.setattr(machine, "CAN_READ_AHEAD", False)
    machine.read_ahead(str(path), [(2, 3)])
    assert len(made) == 3


def test_reserved_file_is_allocated_or_sparse(file, monkeypatch):
    machine.reserve(file, MIB, MIB)
    found = os.fstat(file)
    assert found.st_size == 2 * MIB and found.st_blocks * 512 >= MIB
    monkeypatch.delattr(os, "posix_fallocate")
    machine.reserve(file, 2 * MIB, 5)
    assert os.fstat(file).st_size == 2 * MIB + 5


def test_positioned_read_keeps_the_file_position(file, monkeypatch):
    assert machine.read_at(file, 3, 2, Lock()) == b"234"
    assert os.lseek(file, 0, os.SEEK_CUR) == 10
    monkeypatch.delattr(os, "pread")
    assert machine.read_at(file, 3, 2, Lock()) == b"234"


def test_cpus_and_memory_default_to_the_machine(monkeypatch):
    monkeypatch.setattr(machine, "_GROUPS", "none")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 8}.difference([process]))
    assert machine.usable_cpus() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.usable_cpus() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cpus() == 1
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 6, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert machine.machine_memory.__wrapped__() == 6 * 4096
    monkeypatch.delattr(os, "sysconf")
    assert machine.machine_memory.__wrapped__() == sys.maxsize


@pytest.mark.parametrize("closed", [0, 2])
def test_inherited_descriptor_is_never_a_standard_stream(file, closed):
    assert machine.inherited(file) == file
    before = os.dup(closed)
    os.dup2(file, closed)
    try:
        found = machine.inherited(closed)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)
        assert found > 2 and os.path.samestat(os.fstat(found), os.fstat(file))
        assert not os.get_inheritable(found)
        os.close(found)
    finally:
        os.dup2(before, closed)
        os.close(before)


def test_folder_is_flushed_to_disk_and_closed(tmp_path, monkeypatch):
    flushed = {}

    def fsync(handle):
        flushed[handle] = os.readlink(f"/proc/self/fd/{handle}")

    monkeypatch.setattr(os, "fsync", fsync)
    machine.flush_folder(str(tmp_path))
    assert [*flushed.values()] == [str(tmp_path)] and not any(map(is_open, flushed))
    monkeypatch.setattr(os, "name", "nt")
    machine.flush_folder("none")


def test_linux_kills_this_process_with_its_parent(monkeypatch):
    libc, told = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(2, ctypes.byref(told))
    before = told.value
    try:
        machine.end_with_parent()
        libc.prctl(2, ctypes.byref(told))
    finally:
        libc.prctl(1, before)
    assert told.value == signal.SIGKILL
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(ctypes, "CDLL")
    machine.end_with_parent()


def test_interrupts_are_blocked_and_then_restored(monkeypatch):
    def blocked():
        return signal.pthread_sigmask(signal.SIG_BLOCK, [])

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with machine.interrupts_blocked():
            assert blocked() >= {signal.SIGINT, signal.SIGUSR1}
        assert blocked() == {*before, signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    monkeypatch.delattr(signal, "pthread_sigmask")
    with machine.interrupts_blocked():
        pass
