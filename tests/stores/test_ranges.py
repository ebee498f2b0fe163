"""Parts of a file are asked for as few times as can be, and joined in their places."""

import io
from zlib import crc32

import numpy as np
import pytest

from dfgen.samples.stores.remote import ranges
from dfgen.samples.stores.remote.ranges import checksum_of, fetch, remote_file, whole_file
from dfgen.samples.stores.store import Store

DATA = np.random.default_rng(0).bytes(2**20)
MORE = 2**17  # bytes of a further request, at least


class Asked(Store):
    """One file, which notes what is asked for."""

    def __init__(self, data=DATA):
        vars(self).update(data=data, asked=[])

    def range(self, path, start, stop):
        self.asked.append((start, stop))
        return self.data[start:stop]


def test_a_large_file_comes_in_pieces_and_so_does_its_checksum(monkeypatch):
    monkeypatch.setattr(ranges, "PIECE", 10)
    data = next(b for b in (b"%025d" % n for n in range(1000)) if crc32(b) < 1 << 24)
    pieces = [(0, 10), (10, 20), (20, 25)]
    store = Asked(data)
    assert whole_file(store, "a", 25).tobytes() == data
    assert sorted(store.asked) == pieces
    store = Asked(data)
    assert checksum_of(store, "a", 25) == f"{crc32(data):08x}"
    assert store.asked == pieces
    store, into = Asked(data), np.zeros(25, np.uint8)
    fetch(store, "a", [(3, 7), (8, 19)], into)
    assert sorted(store.asked) == [(3, 7), (8, 18), (18, 19)]
    assert into.tobytes() == bytes(3) + data[3:7] + bytes(1) + data[8:19] + bytes(6)
    fetch(store, "a", [], into)
    assert len(store.asked) == 3
    monkeypatch.setattr(ranges, "request_each", None)
    fetch(store, "a", [(0, 5)], into)  # one alone needs no threads
    assert into[:5].tobytes() == data[:5]


def test_each_further_request_for_a_header_asks_for_twice_as_much():
    store = Asked()
    file = remote_file(len(DATA), lambda *extent: store.range("a", *extent), DATA[:100])
    assert file.read(100) == DATA[:100] and store.asked == []
    assert file.read(5) == DATA[100:105] and store.asked == [(100, 100 + MORE)]
    assert (file.seek(50), file.read(MORE)) == (50, DATA[50 : 50 + MORE])
    assert len(store.asked) == 1
    assert file.read(300) == DATA[50 + MORE :][:300]
    assert store.asked[1:] == [(100 + MORE, 100 + 3 * MORE)]
    assert (file.seek(900_000), file.read(3)) == (900_000, DATA[900_000:900_003])
    assert store.asked[2:] == [(900_000, 900_000 + MORE)]
    assert (file.seek(-5, io.SEEK_END), file.read(9)) == (len(DATA) - 5, DATA[-5:])
    assert store.asked[3:] == [(len(DATA) - 5, len(DATA))]
    assert (file.seek(0), file.read()) == (0, DATA)
    assert [start for start, _ in store.asked[4:]] == [0, MORE, 3 * MORE, 7 * MORE]
    large = Asked()
    file = remote_file(len(DATA), lambda *extent: large.range("a", *extent))
    assert file.raw.readinto(bytearray(500_000)) == 500_000
    assert large.asked == [(0, 500_000)]


def test_a_file_of_ranges_is_sought_in_as_any_other():
    file, same = remote_file(10, lambda start, stop: DATA[start:stop]), io.BytesIO(DATA[:10])
    for place in ((3,), (4, io.SEEK_CUR), (-2, io.SEEK_CUR), (-4, io.SEEK_END), (12,), (0,)):
        assert file.seek(*place) == same.seek(*place)
        assert file.tell() == same.tell() and file.read(3) == same.read(3)
    assert file.readable() and file.seekable()
    assert file.raw.seek(-20, io.SEEK_CUR) == 0  # as a damaged header may have it


def test_a_request_that_fails_is_raised_at_once():
    def request(number):
        if number == 2:
            raise ValueError("2")

    ranges.request_each(request, [0, 1, 3], 2)
    with pytest.raises(ValueError, match=r"^2$"):
        ranges.request_each(request, range(5), 2)
