"""SlotFile: what is put is found by its key, whole, by whoever looks, and nothing else is."""

import errno
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfgen.locks import lock
from dfgen.samples.stores.cache.slot_file import NOWHERE, SlotFile, SlotsByKey
from dfgen.spec import Spec

SPEC = Spec((4, 5, 3), np.dtype(np.uint8))


def slot_file(folder, spec=SPEC, **options):
    return SlotFile(f"{folder}/index", f"{folder}/pixels", spec, **options)


def picture(number, spec=SPEC):
    return np.random.default_rng(number).integers(0, 255, spec.shape).astype(spec.dtype)


def key(number):
    return number * 7 + 1, number


def keys(*numbers):
    return np.array([key(number) for number in numbers], np.uint64).reshape(-1, 2)


def put(slots, *numbers):
    return [slots.put(key(n), (n, n + 1), picture(n, slots.spec)) for n in numbers]


def held(slots, numbers):
    """Which of these are found, each compared with what was put."""
    slots.refresh()
    found = []
    for number, slot in zip(numbers, slots.find(keys(*numbers)).tolist(), strict=True):
        if slot != NOWHERE and (array := slots.at(slot)) is not None:
            np.testing.assert_array_equal(array, picture(number, slots.spec))
            assert slots.facts(slot) == (number, number + 1)
            found.append(number)
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=60),
    st.sampled_from([(1, 1, 1), (4, 5, 3), (37, 41, 3)]),
    st.sampled_from(["uint8", "uint16"]),
)
def test_whoever_writes_what_how_often_all_find_it(tmp_path_factory, writes, shape, dtype):
    """Three at once, in any order, the same keys too, and one that comes later."""
    folder, spec = tmp_path_factory.mktemp("slots"), Spec(shape, np.dtype(dtype))
    writers = [slot_file(folder, spec) for _ in range(3)]
    for writer, number in writes:
        assert put(writers[writer], number) != [NOWHERE]
    written = {number for _, number in writes}
    for slots in (*writers, slot_file(folder, spec), pickle.loads(pickle.dumps(writers[0]))):
        assert held(slots, range(61)) == sorted(written)


def test_a_chunk_is_taken_at_once_and_says_what_is_missing(tmp_path):
    slots = slot_file(tmp_path)
    put(slots, *range(10))
    order = [7, 2, 2, 9, 0]
    for one in (slots, slot_file(tmp_path)):
        out = np.zeros((5, *SPEC.shape), np.uint8)
        assert one.take(one.find(keys(*order)), out) is None
        np.testing.assert_array_equal(out, [picture(number) for number in order])
        assert one.find(keys(3, 99)).tolist()[1] == NOWHERE


LARGE = Spec((64, 64, 3), np.dtype(np.uint8))  # three pages


def test_a_file_that_grows_while_others_look_is_not_taken_for_one_that_was_cut(tmp_path):
    slots = slot_file(tmp_path, LARGE)

    def fill(start):
        for number in range(start, 4000, 8):
            slots.refresh()
            slots.put(key(number), (number, 1), picture(0, LARGE))
            for slot in slots.find(keys(max(0, number - 8), number)).tolist():
                assert slot == NOWHERE or slots.at(slot) is not None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(8)))
    assert slots.failed is None


@contextmanager
def no_descriptor():
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)


def test_where_no_descriptor_is_free_slots_are_found_another_time(tmp_path):
    slots, other = slot_file(tmp_path), slot_file(tmp_path)
    put(other, 1)
    with no_descriptor():
        slots.refresh()
        assert slots.find(keys(1)).tolist() == [NOWHERE]
    slots.refresh()
    [slot] = slots.find(keys(1)).tolist()
    with no_descriptor():
        assert slots.at(slot) is None
    assert held(slots, [1]) == [1]


@pytest.mark.parametrize("name", ["pixels", "index"])
@pytest.mark.parametrize("left", [0, 100])
def test_fault_95_a_file_that_is_cut_short_in_use_is_no_hit_and_ends_nothing(tmp_path, name, left):
    slots = slot_file(tmp_path, LARGE)
    put(slots, *range(9))
    assert held(slots, range(9)) == [*range(9)]
    size = os.path.getsize(tmp_path / name)
    os.truncate(tmp_path / name, left)
    assert slots.take(np.arange(9), np.zeros((9, *LARGE.shape), np.uint8)).sum() == 0
    assert slots.at(3) is None
    assert slots.find(keys(*range(9))).tolist() == [NOWHERE] * 9
    assert put(slots, 10) == [NOWHERE]
    os.truncate(tmp_path / name, size)  # by a hole: no array of zeros is taken for a picture
    assert held(slots, range(9)) == [0] * (name == "index" and left == 100)


@pytest.mark.parametrize("name", ["pixels", "index"])
def test_files_that_were_cut_short_are_filled_again_by_the_next_run(tmp_path, name):
    put(slot_file(tmp_path, LARGE), *range(9))
    os.truncate(tmp_path / name, 30_000)
    slots = slot_file(tmp_path, LARGE)
    there = held(slots, range(9))
    assert there == [*range(2 if name == "pixels" else 9)]
    put(slots, *{*range(9)}.difference(there))
    assert held(slots, range(9)) == held(slot_file(tmp_path, LARGE), range(9)) == [*range(9)]


def flipped(data, place):
    data[place] ^= 4


def lost_page(data, place):
    start = place // 4096 * 4096
    data[start : start + 4096] = bytes(4096)


def swapped_pages(data, place):
    start = place // 12288 * 12288
    data[start : start + 8192] = data[start + 4096 : start + 8192] + data[start : start + 4096]


def swapped_words(data, place):
    """Swap the first two words of the picture row that the byte is in."""
    row = place // 192 * 192  # 64 pixels of 3 bytes
    data[row : row + 16] = data[row + 8 : row + 16] + data[row : row + 8]


@pytest.mark.parametrize("damage", [flipped, lost_page, swapped_pages, swapped_words])
@pytest.mark.parametrize("place", [0, 12287, 12288 * 3 + 5000])
def test_a_damaged_slot_is_no_hit_and_is_written_anew(tmp_path, place, damage):
    put(slot_file(tmp_path, LARGE), *range(5))
    data = bytearray((tmp_path / "pixels").read_bytes())
    damage(data, place)
    (tmp_path / "pixels").write_bytes(data)
    broken, fresh = place // 12288, slot_file(tmp_path, LARGE)
    out = np.zeros((5, *LARGE.shape), np.uint8)
    assert fresh.take(fresh.find(keys(*range(5))), out).tolist() == [n != broken for n in range(5)]
    assert held(slot_file(tmp_path, LARGE), range(5)) == [n for n in range(5) if n != broken]
    put(fresh, broken)
    assert held(slot_file(tmp_path, LARGE), range(5)) == [0, 1, 2, 3, 4]


def test_an_array_is_compared_once_and_of_a_broken_one_the_record_is_blanked(tmp_path):
    writer = slot_file(tmp_path)
    put(writer, 0, 1)
    slots = slot_file(tmp_path)
    assert slots.at(0) is not None  # from now on it is trusted
    pixels = np.memmap(tmp_path / "pixels", np.uint8, "r+")
    pixels[[0, 60]] ^= 1
    assert [slots.at(0)[0, 0, 0], writer.at(1)[0, 0, 0]] == [pixels[0], pixels[60]]
    assert slots.at(1) is None
    for one in (slots, slot_file(tmp_path)):
        assert one.find(keys(0, 1)).tolist() == [0, NOWHERE]


def test_of_pixels_that_are_cut_off_nothing_is_taken(tmp_path):
    put(slot_file(tmp_path), *range(5))
    os.truncate(tmp_path / "pixels", 60 * 4)
    slots = slot_file(tmp_path)
    assert slots.find(keys(*range(5))).tolist() == [0, 1, 2, 3, NOWHERE]
    for wanted in ([0, 4], [4]):
        there = slots.take(np.array(wanted), np.zeros((len(wanted), *SPEC.shape), "uint8"))
        assert (there.tolist(), there.dtype) == ([False] * len(wanted), np.bool_)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(4)), st.booleans())
def test_records_that_lie_in_another_order_serve_nothing_else(tmp_path_factory, order, both):
    """With their pixels each is found as before."""
    folder = tmp_path_factory.mktemp("slots")
    put(slot_file(folder), *range(4))
    for name, begin, size in [("index", 64, 32), ("pixels", 0, 60)][: 1 + both]:
        data = np.fromfile(folder / name, np.uint8)
        slots = data[begin : begin + 4 * size].reshape(4, -1)
        slots[:] = slots[order]
        data.tofile(folder / name)
    kept = [n for n in range(4) if both or order[n] == n]
    assert held(slot_file(folder), range(4)) == kept


@settings(max_examples=40, deadline=None)
@given(st.integers(64, 64 + 32 * 5 - 1), st.integers(1, 255))
def test_a_changed_byte_of_the_index_serves_nothing_else(tmp_path_factory, place, change):
    folder = tmp_path_factory.mktemp("slots")
    put(slot_file(folder), *range(5))
    with open(folder / "index", "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ change]))
    assert set(held(slot_file(folder), range(5))) >= set(range(5)) - {(place - 64) // 32}


@pytest.mark.parametrize("name", ["index", "pixels"])
@settings(max_examples=15, deadline=None)
@given(share=st.floats(0, 1))
def test_a_file_cut_short_serves_what_is_left(tmp_path_factory, name, share):
    folder = tmp_path_factory.mktemp("slots")
    put(slot_file(folder), *range(5))
    length = os.path.getsize(folder / name)
    os.truncate(folder / name, int(share * length))
    slots = slot_file(folder)
    put(slots, *set(range(5)) - set(held(slots, range(5))))
    assert held(slot_file(folder), range(5)) == [0, 1, 2, 3, 4]


def test_what_does_not_fit_is_not_kept_and_what_is_there_stays(tmp_path):
    slots = slot_file(tmp_path, most=60 * 7 + 59)
    assert [slot == NOWHERE for slot in put(slots, *range(10))] == [False] * 7 + [True] * 3
    assert slots.is_full
    assert slots.failed is None
    assert held(slots, range(10)) == [0, 1, 2, 3, 4, 5, 6]
    assert put(slot_file(tmp_path, most=60 * 7), 8) == [NOWHERE]
    assert os.path.getsize(tmp_path / "pixels") == 60 * 7


def test_while_another_takes_slots_nothing_is_kept_and_afterwards_it_is(tmp_path):
    slots = slot_file(tmp_path)
    with open(tmp_path / "index", "rb") as other:
        assert lock(other.fileno())
        assert put(slots, 1) == [NOWHERE]
        assert os.path.getsize(tmp_path / "pixels") == 0
    assert (slots.failed, slots.is_full) == (None, False)
    assert put(slots, 2, 3) == [0, 1]


def test_its_files_are_everybodys_as_far_as_the_user_lets_them(tmp_path):
    before = os.umask(0)
    try:
        slot_file(tmp_path)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o666, 0o666]


def test_of_what_a_disk_takes_piece_by_piece_all_is_written(tmp_path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: pwrite(file, data[:7], place))
    put(slot_file(tmp_path), 0, 1)
    assert held(slot_file(tmp_path), range(2)) == [0, 1]


def test_small_slots_are_taken_256_at_a_time_and_large_ones_alone(tmp_path):
    slots = slot_file(tmp_path)
    for count in (1, 256, 257, 513):
        put(slots, *range(len(slots), count))
        claimed = 256 * -(-count // 256)
        assert os.path.getsize(tmp_path / "pixels") == claimed * 60
        assert os.path.getsize(tmp_path / "index") == 64 + claimed * 32
        assert slots.facts(count - 1) == (count - 1, count)
    (tmp_path / "large").mkdir()
    slots = slot_file(tmp_path / "large", Spec((1200, 1200, 3), np.dtype(np.uint8)))
    for slot in (0, 1):
        assert put(slots, slot) == [slot]
        assert os.path.getsize(tmp_path / "large/pixels") == (slot + 1) * 1200 * 1200 * 3


def test_an_index_has_no_holes_and_without_fallocate_files_grow_too(tmp_path, monkeypatch):
    put(slot_file(tmp_path), 0)
    index = os.stat(tmp_path / "index")
    assert index.st_blocks * 512 >= index.st_size == 64 + 256 * 32
    (tmp_path / "other").mkdir()
    tmp_path = tmp_path / "other"
    monkeypatch.delattr(os, "posix_fallocate")
    put(slot_file(tmp_path), *range(5))
    assert held(slot_file(tmp_path), range(5)) == [*range(5)]


def test_a_damaged_slot_is_no_hit_where_its_record_cannot_be_blanked(tmp_path, monkeypatch):
    put(slot_file(tmp_path), 0, 1)
    data = bytearray((tmp_path / "pixels").read_bytes())
    data[3] ^= 1
    (tmp_path / "pixels").write_bytes(data)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    slots = slot_file(tmp_path)
    assert held(slots, range(2)) == held(slots, range(2)) == [1]


def test_slots_sent_to_a_process_after_their_files_are_gone_keep_nothing(tmp_path):
    (tmp_path / "cache").mkdir()
    slots = slot_file(tmp_path / "cache")
    put(slots, 0)
    sent = pickle.dumps(slots)
    shutil.rmtree(tmp_path / "cache")
    lost = pickle.loads(sent)
    assert os.strerror(lost.failed) == "No such file or directory"
    assert (held(lost, [0]), put(lost, 1), len(lost)) == ([], [NOWHERE], 0)


def test_of_a_cache_that_is_removed_and_made_anew_the_new_one_is_left_alone(tmp_path):
    slots = slot_file(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    put(slot_file(tmp_path), 0, 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert put(slots, 2) == [NOWHERE]
    assert os.strerror(slots.failed) == "No such file or directory"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert held(slot_file(tmp_path), range(3)) == [0, 1]


@pytest.mark.parametrize(("free", "slot"), [(1000 + 256 * 60, 0), (999 + 256 * 60, NOWHERE)])
def test_of_a_disk_so_much_stays_free(tmp_path, monkeypatch, free, slot):
    disk = SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    assert put(slot_file(tmp_path, spare=1000), 1) == [slot]


def test_files_of_something_else_are_refused(tmp_path):
    slot_file(tmp_path)
    with pytest.raises(OSError, match="is no index of slots of 27 bytes"):
        slot_file(tmp_path, Spec((3, 3, 3), np.dtype(np.uint8)))


def test_a_forked_child_writes_to_slots_of_its_own(tmp_path):
    slots = slot_file(tmp_path)
    put(slots, 0)
    if (child := os.fork()) == 0:
        put(slots, 1, 2)
        os._exit(0)
    put(slots, 3, 4)
    assert os.waitpid(child, 0)[1] == 0
    assert held(slots, range(5)) == [0, 1, 2, 3, 4]


def dying(folder, calls, half):
    """Put three arrays and be killed at the n-th write, or once half of it is done."""
    left = [calls]

    def watched(call):
        def one(file, *arguments):
            left[0] -= 1
            if left[0] == 0:
                if half and call is pwrite:
                    data, place = arguments
                    call(file, data[: len(data) // 2], place)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(file, *arguments)

        return one

    pwrite = os.pwrite
    for name in ("pwrite", "ftruncate", "posix_fallocate"):
        setattr(os, name, watched(getattr(os, name)))
    put(slot_file(folder), 0, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("calls", range(1, 11))
def test_killed_at_any_write_it_leaves_what_was_whole(tmp_path, calls, half):
    """The header; two files grow; then pixels and record of three arrays. The tenth never comes."""
    if (child := os.fork()) == 0:
        dying(tmp_path, calls, half)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == (0 if calls > 9 else signal.SIGKILL)
    whole = max(0, (calls - 4) // 2)
    slots = slot_file(tmp_path)
    assert held(slots, range(3)) == [*range(whole)]
    put(slots, *range(3))
    assert held(slot_file(tmp_path), range(3)) == [0, 1, 2]


FULL_DISK = """
import os, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", sys.argv[1]], check=True)
from test_slot_file import put, slot_file
slots = slot_file(sys.argv[1])
with open(sys.argv[1] + "/other", "wb", buffering=0) as other:
    try:
        while other.write(bytes(4096)):
            pass
    except OSError:
        other.truncate(other.tell() - 4096)
print(put(slots, 0, 1), os.strerror(slots.failed), len(slot_file(sys.argv[1])))
"""


def test_a_disk_in_memory_that_is_full_takes_no_more_and_ends_no_process(tmp_path):
    """Where to read a hole that is mapped takes memory too, and ends a process if there is none."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare")
    command = ["unshare", "-rm", sys.executable, "-c", FULL_DISK, str(tmp_path)]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=paths)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no disk can be mounted: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[-1, -1] No space left on device 0\n"


def test_the_latest_slot_of_a_key_counts_however_many_keys_there_are():
    keys = np.random.default_rng(0).integers(0, 2**64, 150_000, np.uint64)
    keys[[9, 10, 999, 1000]] = np.array([5, 6, 7, 8], np.uint64) + np.uint64(2**63)  # no floats
    found, expected = SlotsByKey(), np.full(len(keys), NOWHERE)
    for start, stop in ((0, 100), (50, 90_000), (80_000, 80_010), (70_000, 149_000)):
        slots = np.arange(start, stop) + 7 * stop
        found.add(keys[start:stop], slots)
        expected[start:stop] = slots
        assert np.array_equal(found.slots(keys), expected)
    for row, slot in ((3, 5), (149_500, 6), (4, NOWHERE)):
        found.put(int(keys[row]), slot)
        expected[row] = slot
    assert np.array_equal(found.slots(keys), expected)
    assert found.slots(np.full(1, 2**64 - 1, np.uint64)).tolist() == [NOWHERE]
    at_once = SlotsByKey()
    at_once.add(keys, np.arange(len(keys)))
    assert at_once.slots(keys).dtype == found.slots(keys).dtype == np.int64


def test_keys_that_begin_alike_are_told_apart(tmp_path):
    for slots in (slot_file(tmp_path), slot_file(tmp_path)):
        slots.put((7, 1), (1, 2), picture(1))
        assert slots.find(np.array([(7, 1), (7, 2)], np.uint64)).tolist()[1] == NOWHERE
        slots.put((7, 2), (2, 3), picture(2))
        found = slots.find(np.array([(7, 1), (7, 2)], np.uint64)).tolist()
        assert found[0] == NOWHERE
        np.testing.assert_array_equal(slots.at(found[1]), picture(2))
