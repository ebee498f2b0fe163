"""Slots and the folder of a cache: kills, torn writes, bounds, and what a cache key covers."""

import os
import signal
import subprocess
import sys
from collections import namedtuple

import cv2
import numpy as np
import pytest
from public.leftovers import of_pass, pictures, sequence, written

import dfgen
from dfgen.spec import Spec
from dfgen.stores import slots as slots_module
from dfgen.stores.slots import Room, Slots, memory_slots, open_segments

SPEC = Spec((4, 4, 3), np.dtype(np.uint8))


def filled(number):
    return np.full(SPEC.shape, number, np.uint8)


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "a").mkdir()
    return f"{tmp_path}/a/x.slots", f"{tmp_path}/a/x.records"


@pytest.fixture
def slots(paths, tmp_path):
    return Slots(paths, 10, SPEC, Room(str(tmp_path)))


def test_slots_are_shared_and_salted(slots, paths, tmp_path):
    other = Slots(paths, 10, SPEC, Room(str(tmp_path)))
    assert slots.put(3, filled(7), salt=5, size=(8, 9))
    assert other.holds(3, 5) and not Slots(paths, 10, SPEC, Room("")).holds(3, 6)
    assert other.size(3) == (8, 9) and other.nbytes == 48
    out = np.zeros((3, *SPEC.shape), np.uint8)
    assert other.take(np.array([3, 4, 3]), np.array([5, 5, 5]), out).tolist() == [True, False, True]
    assert (out[[0, 2]] == 7).all() and not out[1].any()


def test_overwritten_and_torn_slots_are_missing(slots, paths):
    slots.put(3, filled(7))
    slots.put(3, filled(8), salt=2)  # the file changed
    assert slots.holds(3, 2) and slots.same(3)
    with open(paths[0], "r+b") as file:
        file.seek(3 * 48 + 5)
        file.write(b"x")
    assert not Slots(paths, 10, SPEC, Room("")).holds(3, 2)


KILLED = """
import os, sys, threading, numpy as np
from dfgen.spec import Spec
from dfgen.stores.slots import Room, Slots
slots = Slots((sys.argv[1], sys.argv[2]), 10, Spec((4, 4, 3), np.dtype("u1")), Room(""))
print("ready", flush=True)
while True:
    for number in range(256):
        slots.put(number % 10, np.full((4, 4, 3), number, np.uint8), salt=number)
"""


def test_kill_leaves_whole_slots_or_none(paths):
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, *paths]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            found = Slots(paths, 10, SPEC, Room(""))
            for number in range(2_000):
                out = np.empty((1, *SPEC.shape), np.uint8)
                salt = number % 256
                if found.take(np.array([salt % 10]), np.array([salt]), out)[0]:
                    assert len(np.unique(out)) == 1
            child.send_signal(signal.SIGKILL)
    found = Slots(paths, 10, SPEC, Room(""))
    for salt in range(256):
        if found.holds(salt % 10, salt):
            assert (found.arrays[salt % 10] == salt).all()
            found = Slots(paths, 10, SPEC, Room(""))


def test_cache_leaves_five_percent_of_disk_free(paths, tmp_path, monkeypatch):
    """The bound of a cache without a limit took 95 % of what earlier runs had left."""
    disk = namedtuple("disk", "f_blocks f_bavail f_frsize")
    used = [0]

    def statvfs(folder):
        return disk(1000, 1000 - 50 - used[0], 48)  # 950 - 50 spare slots

    monkeypatch.setattr(slots_module.os, "statvfs", statvfs)
    count, spec = 2_000, SPEC
    for _ in range(3):
        slots = Slots(paths, count, spec, Room(str(tmp_path)))
        for slot in range(count):
            if not slots.holds(slot, 0) and slots.put(slot, filled(1)):
                used[0] += 1
    assert used[0] == 900


def test_a_full_disk_ends_the_writing(slots, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "full")

    monkeypatch.setattr(slots_module.os, "pwrite", fail)
    assert not slots.put(1, filled(1)) and slots.error == 28


def test_segments_are_found_again(tmp_path):
    keys = np.array([2, 5, 9], np.uint64)
    [one] = open_segments(str(tmp_path), {"size": 4}, keys, SPEC, None)
    one.slots.put(1, filled(3), salt=1)
    more = np.array([2, 5, 9, 11], np.uint64)
    first, second = open_segments(str(tmp_path), {"size": 4}, more, SPEC, None)
    assert first.slots.holds(1, 1) and second.keys.tolist() == [11]
    [other] = open_segments(str(tmp_path), {"size": 5}, keys, SPEC, None)
    assert not other.slots.holds(1, 1)
    assert memory_slots(3, SPEC, 100).put(0, filled(1))


def test_cache_keys_depend_on_the_sequence_folder(tmp_path, monkeypatch):
    """Two folders with files of one name, size and time: a Sequence got the other's pixels."""
    x = dfgen.Image("path", size=(9, 7))
    frames = []
    for number, name in enumerate("ab"):
        pixels = np.full((9, 7, 3), 10 + 190 * number, np.uint8)
        (tmp_path / name).mkdir()
        cv2.imwrite(f"{tmp_path}/{name}/0.bmp", pixels)
        os.utime(tmp_path / name / "0.bmp", ns=(10**18, 10**18))
        frames.append(written(tmp_path / "other", pictures(1)[1]).assign(path="0.bmp"))
    options = {"cache": tmp_path / "cache", "batch_size": 1, "shuffle": False}
    monkeypatch.chdir(tmp_path / "a")
    first = sequence(frames[0], x, **options)
    monkeypatch.chdir(tmp_path / "b")
    with first, sequence(frames[1], x, **options) as second:
        assert (of_pass(first)[0] == 10).all() and (of_pass(second)[0] == 200).all()


def test_cached_images_of_three_lengths(tmp_path):
    frame = written(tmp_path / "imgs", pictures(6)[1])
    for rows in ([0, 1], [0, 1, 2, 3], [5, 2, 0]):
        part = frame.iloc[rows]
        for _ in range(2):
            with sequence(part, cache=tmp_path / "cache", shuffle=False) as seq:
                np.testing.assert_array_equal(of_pass(seq)[0], pictures(6)[0][rows])
