"""Far files are read ahead of decoding: the same batches, within bounds, whatever a server does."""

import http.client
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from servers import http_server, s3_server

from dfgen.binding.bind import Options, bind
from dfgen.errors import DecodeError, MissingFileError, ReadError, ReadTimeoutError
from dfgen.limits import Limits
from dfgen.loading import remote_reads
from dfgen.loading.loader import Loader
from dfgen.loading.read_ahead import ReadAhead
from dfgen.loading.remote_reads import FarRead, FarReads, FileRead, ReadPace
from dfgen.loading.workers import retries
from dfgen.samples.stores.remote.objects import Objects
from dfgen.samples.stores.schemes import STORES
from dfgen.samples.stores.store import Head, Store

NONE = Limits(read_ahead=0)
ONCE = {"retry_config": {"max_retries": 0}}


@dataclass(frozen=True)
class Far(Store):
    """Files behind HTTP, as a store from outside reads them: one connection each, no retries."""

    @property
    def far(self):
        return True

    def read(self, path):
        return self.answer("GET", path)[0]

    def head(self, path):
        return Head(self.answer("HEAD", path)[1], None)

    def answer(self, method, path):
        host, _, name = path.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            connection.request(method, f"/{name}")
            answer = connection.getresponse()
            if answer.status == 404:
                raise MissingFileError("the file does not exist")
            if answer.status >= 500:
                raise ConnectionError(f"the server answers {answer.status}")
            return answer.read(), int(answer.headers["Content-Length"])
        finally:
            connection.close()


class Held(dict):
    """Contents of a server, which calls `before` with each path that it is asked for."""

    before = staticmethod(lambda path: None)

    def get(self, path):
        self.before(path)
        return super().get(path)


@pytest.fixture(scope="module")
def held(files):
    return {Path(path).name: Path(path).read_bytes() for path in files}


@pytest.fixture
def server(held, monkeypatch):
    monkeypatch.setitem(STORES, "http", Far)
    with http_server(Held(held)) as server:
        yield server


@pytest.fixture
def objects(server, monkeypatch):
    """The server, read through obstore, which is not to try again by itself."""
    pytest.importorskip("obstore")
    monkeypatch.setitem(STORES, "http", Objects)
    return server


@pytest.fixture
def soon(monkeypatch):
    """Further tries come soon."""
    for module in (retries, remote_reads):
        monkeypatch.setattr(module, "WAITS", (0.01, 0.02, 0.02, 0.02))


def frame(server, files, rows=60):
    paths = [f"{server.url}/{os.path.basename(path)}" for path in files[:rows]]
    return pd.DataFrame({"id": range(rows), "path": paths, "label": np.arange(rows) % 2})


def loader(frame, limits=None, **arguments):
    options = Options(image_size=(4, 4))
    on_error = arguments.get("on_error", "raise")
    bound = bind(
        frame, y="label", options=options, limits=limits, on_error=on_error, storage_options=ONCE
    )
    arguments = {"batch_size": 8, "seed": 3, "workers": 2, **arguments}
    return Loader(bound.reader, limits=limits, **arguments)


def seen(found, close=True):
    """The ids and arrays of an epoch."""
    batches = [
        (batch.ids, {name: array.tolist() for name, array in batch.arrays.items()})
        for batch in found.batches()
    ]
    if close:
        found.close()
    return batches


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [{"workers": 2}, {"workers": 0}, {"workers": 2, "use_multiprocessing": True}],
    ids=str,
)
def test_batches_are_the_same_with_and_without(server, files, arguments):
    table = frame(server, files)
    with_it, without = loader(table, **arguments), loader(table, NONE, **arguments)
    batches = seen(with_it)
    shown = [image[0][0][0] for _, arrays in batches for image in arrays["image"]]
    assert shown == [row for ids, _ in batches for row in ids]
    assert with_it.metrics.ahead["reads"] > 30 and without.metrics.ahead == {}
    assert server.asked.total() == 60 + with_it.metrics.ahead["hedges"]
    assert batches == seen(without)


def test_files_that_are_near_are_not_read_ahead(server, files, frame_of_both):
    assert loader(frame_of_both[::2])._maker.ahead is None
    found = loader(frame_of_both, shuffle=False)
    assert found.reader.remote_paths(0) == [] and len(found.reader.remote_paths(1)) == 1
    assert len(seen(found)) == 8
    assert found.metrics.ahead["reads"] <= 30 and len(server.asked) == 30


@pytest.fixture
def frame_of_both(server, files):
    table = frame(server, files)
    table.loc[::2, "path"] = files[:60:2]
    return table


def test_many_reads_are_under_way_at_once_for_one_who_decodes(server, files):
    arrived, enough = count(1), threading.Event()

    def before(path):
        if next(arrived) == 40:
            enough.set()
        assert enough.wait(60)

    server.held.before = before
    found = loader(frame(server, files, 80), workers=1)
    assert len(seen(found)) == 10
    assert found.metrics.ahead["readers"] >= 40


def test_what_is_read_ahead_is_bounded(server, files):
    limits = Limits(read_ahead="1KB")  # one file of unknown size is allowed at any time
    found = loader(frame(server, files), limits, workers=1)
    reads, running, held = found._maker.ahead._reads, [], []
    server.held.before = lambda path: running.append(reads.running)
    for _ in found.batches():
        held.append(reads._held)
    found.close()
    least = min(map(len, server.held.values()))
    assert 0 < max(running) <= 1_000 // least and max(held) <= 1_000


def test_what_nobody_wants_any_more_is_dropped(server, files):
    found = loader(frame(server, files, 120), max_queue_size=6)
    batches = found.batches()
    next(batches)
    reads = found._maker.ahead._reads
    batches.close()  # the pass is left
    found.close()
    assert (reads._held, len(reads._queue)) == (0, 0)
    assert not any(thread.is_alive() for thread in reads.threads)
    assert server.asked.total() < 120


def test_a_missing_file_is_told_as_without(server, files):
    del server.held["7.png"]
    told = []
    for limits in (None, NONE):
        with pytest.raises(MissingFileError) as caught:
            seen(loader(frame(server, files), limits))
        told.append(str(caught.value))
        skipping = loader(frame(server, files), limits, on_error="skip")
        seen(skipping)
        assert [(row, problem.stage) for row, problem in skipping.problems.items()] == [(7, "read")]
    assert told[0] == told[1]
    assert told[0].startswith(f"row id=7, path='{server.url}/7.png': the file does not exist")


def test_a_file_that_has_changed_is_refused_as_without(server, files):
    table = frame(server, files)
    table["bytes"] = [len(server.held[f"{row}.png"]) for row in range(60)]
    table.loc[7, "bytes"] += 1
    told = []
    for limits in (None, NONE):
        with pytest.raises(DecodeError, match="the file has changed") as caught:
            seen(loader(table, limits))
        told.append(str(caught.value))
    assert told[0] == told[1]


@pytest.mark.parametrize("fault", [{"status": 503}, {"reset": True}, {"short": 20}], ids=str)
def test_what_passes_is_tried_again(objects, files, soon, fault):
    table = frame(objects, files)
    right = seen(loader(table))
    for name, value in {**fault, "times": 20}.items():
        setattr(objects.faults, name, value)
    found = loader(table)
    assert seen(found) == right
    ahead = found.metrics.ahead
    assert ahead["retries"] > 0 and ahead["in_flight"] == 0


def test_a_server_that_only_fails_ends_the_pass_and_names_the_row(objects, files, soon):
    objects.faults.status = 503
    with pytest.raises(ReadError) as caught:
        seen(loader(frame(objects, files), shuffle=False))
    assert str(caught.value).startswith(
        f"row id=0, path='{objects.url}/0.png': the file cannot be read: the server answers 503 "
        "Service Unavailable; tried 5 times in 0."
    )


def test_a_read_far_slower_than_its_fellows_is_hedged(objects, files):
    table = frame(objects, files, 120)
    right = seen(loader(table, shuffle=False))
    objects.asked.clear()
    objects.faults.hang, objects.faults.only, objects.faults.times = True, "/100.png", 1
    found = loader(table, shuffle=False)
    assert seen(found, close=False) == right
    assert objects.asked["GET", "/100.png"] == 2 and found.metrics.ahead["hedges"] >= 1
    objects.faults.clear()  # the first answer comes, and counts for nothing
    found.close()
    assert found.metrics.ahead["in_flight"] == 0


def test_a_file_of_several_rows_is_read_once_and_given_to_each(server, held):
    ahead, path = ReadAhead(Far(), 1 << 20), f"{server.url}/7.png"
    expected = ahead.expect([path, f"{server.url}/8.png", path], lambda: False)
    found = [expected.take(path, lambda: False, patient=True) for _ in range(2)]
    assert [one.data for one in found] == [held["7.png"]] * 2
    assert server.asked["GET", "/7.png"] == 1
    ahead.close()


def reads_of(count, most=1 << 40, size=4, readers=1):
    """Reads of so many files, of which no thread does any, and these files."""
    reads = FarReads(Far(), most, threads=[threading.current_thread()] * readers)
    reads._pace.size = size
    wanted = [FarRead(str(number), lambda: False) for number in range(count)]
    reads.expect(wanted)
    return reads, wanted


def test_a_twentieth_of_all_reads_is_hedged_at_most():
    reads, _ = reads_of(60)
    reads._pace.late = 0.0
    while reads.counts["reads"] < 60:
        assert reads.next()
    assert reads.counts["hedges"] == 3


def test_both_answers_of_a_hedged_read_take_room_once():
    reads, (one,) = reads_of(1)
    reads._pace.late = 0.0
    assert reads.next() is one and reads.next() is one
    for data in (b"first", b"again"):
        reads.end(one, FileRead(data, 5, None), 0.1)
    assert reads._held == 5
    assert reads.take(one, lambda: False).data == b"first" and reads._held == 0


def test_reads_are_begun_in_order_as_long_as_there_is_room_for_them():
    reads, wanted = reads_of(5, most=10)
    assert [reads.next(), reads.next(), reads._first()] == [*wanted[:2], None]
    assert not reads.end(wanted[1], FileRead(b"1234", 4, None), 0.1)
    assert reads._first() is None  # 4 bytes are there, and another file is being read
    assert reads.take(wanted[1], lambda: False).data == b"1234" and reads.next() is wanted[2]
    wanted[3].wanted = 0  # nobody wants it any more: it is passed over
    reads.drop(wanted[:1])
    assert not reads.end(wanted[0], FileRead(b"1234", 4, None), 0.1)
    assert reads.next() is wanted[4] and reads.counts["reads"] == 4
    alone, [one] = reads_of(1, most=1)
    assert alone.next() is one  # one is read at any time, whatever its size


def test_a_dropped_read_gives_back_its_room_and_is_not_tried_again():
    reads, (one, other) = reads_of(2, most=10)
    assert reads.next() is one and reads.next() is other
    reads.end(one, FileRead(b"123456", 6, None), 0.1)
    assert (reads._held, reads.running) == (6, 1)
    reads.drop([one, other])
    assert (reads._held, one.found) == (0, None)
    assert not reads.end(other, None, 0.1) and not reads.again(other, 0.0)
    assert (reads.running, other.running, reads.counts["retries"]) == (0, 0, 0)


def test_a_read_that_failed_is_tried_again_while_no_other_try_is_under_way():
    reads, (one,) = reads_of(1)
    reads._pace.late = 0.0
    assert reads.next() is one and reads.next() is one  # hedged
    assert not reads.end(one, None, 0.1) and reads.end(one, None, 0.1)
    assert reads.again(one, 0.0) and one.running == reads.running == 1
    assert not reads.end(one, FileRead(b"1", 1, None), 0.1) and reads.counts["retries"] == 1
    reads.close()
    assert not reads.again(one, 1000.0) and reads.next() is None


def test_a_worker_takes_a_read_or_waits_for_it_or_reads_by_itself():
    reads, (one, other, third) = reads_of(3)
    one.wanted = 2
    assert reads.take(third, lambda: False) is None  # it is not begun
    assert reads.next() is one
    with pytest.raises(ReadError, match="nobody wants this row any more"):
        reads.take(one, lambda: True)
    with pytest.raises(ReadError, match="nobody wants this row any more"):
        reads.take(other, lambda: True, patient=True)
    reads.end(one, FileRead(b"123", 3, 7), 0.1)
    assert [reads.take(one, lambda: False) for _ in range(2)] == [FileRead(b"123", 3, 7)] * 2
    assert (one.found, reads._held, one.wanted) == (None, 0, 0)
    assert reads.next() is other
    assert reads.end(other, None, 0.1) and reads.take(other, lambda: False, patient=True) is None
    reads.close()
    fourth = FarRead("4", lambda: False)
    assert reads.take(fourth, lambda: True, patient=True) is None


@pytest.mark.parametrize(
    ("readers", "idle", "waits", "begun"),
    [(32, 0, 1, 16), (33, 0, 1, 16), (96, 0, 1, 32), (128, 0, 1, 0), (32, 1, 1, 0), (32, 0, 0, 0)],
)
def test_there_are_half_as_many_readers_more_while_who_decodes_waits(
    monkeypatch, readers, idle, waits, begun
):
    counts = []
    monkeypatch.setattr(FarReads, "_start", lambda reads, count: counts.append(count))
    reads, wanted = reads_of(1 + waits, readers=readers)
    assert reads.next() is wanted[0]
    reads._idle, reads._grown = idle, remote_reads.perf_counter() - 2
    assert reads.take(FarRead("other", lambda: False), lambda: False) is None
    assert sum(counts) == begun
    reads._grown = remote_reads.perf_counter() + 1000  # those started last have not read yet
    reads.take(FarRead("other", lambda: False), lambda: False)
    assert sum(counts) == begun


def test_late_reads_are_begun_once_more_but_for_those_that_are_done_or_unwanted():
    reads, wanted = reads_of(4)
    for read in wanted:
        assert reads.next() is read
    reads._pace.late = 0.0
    wanted[0].cancelled = lambda: True
    reads.end(wanted[1], FileRead(b"1", 1, None), 0.1)
    reads.end(wanted[2], None, 0.1)
    assert reads._late() is wanted[3] and reads._late() is None
    assert reads.counts["hedges"] == 1


@pytest.mark.parametrize(
    "processes", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["threads", "processes"]
)
def test_a_file_that_never_comes_is_late_as_without(objects, files, processes):
    objects.faults.hang, objects.faults.only = True, "/7.png"
    limits = Limits(read_timeout=1.5 if processes else 0.5)
    table = frame(objects, files, 16)
    found = loader(table, limits, shuffle=False, use_multiprocessing=processes)
    with pytest.raises(ReadTimeoutError) as caught:
        seen(found, close=False)
    assert str(caught.value) == (
        f"row id=7, path='{objects.url}/7.png': to read and decode its file took longer than "
        f"limits.read_timeout={limits.read_timeout} seconds: raise the limit if it is to take so "
        "long"
    )
    skipping = loader(table, limits, on_error="skip", shuffle=False, use_multiprocessing=processes)
    assert len(seen(skipping, close=False)) == 2 and [*skipping.problems] == [7]
    objects.faults.clear()
    found.close(), skipping.close()


def test_a_server_killed_in_mid_epoch_ends_the_pass(objects, files, soon):
    script = str(Path(__file__).parents[1] / "servers.py")
    folder = os.path.dirname(files[0])
    with subprocess.Popen(
        [sys.executable, script, "http", folder], stdin=-1, stdout=-1, text=True
    ) as process:
        url = process.stdout.readline().strip()
        table = pd.DataFrame({"id": range(120), "path": [f"{url}/{n}.png" for n in range(120)]})
        bound = bind(table, options=Options(label_mode=None), storage_options=ONCE)
        found = Loader(bound.reader, batch_size=8, workers=2, max_queue_size=2)
        batches = found.batches()
        next(batches)
        process.kill()
        with pytest.raises(ReadError, match="the server cannot be reached, or closes connections"):
            list(batches)
        found.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_reads_ahead_by_readers_of_its_own(server, files):
    found = loader(frame(server, files))
    right = found.batch(0, 3).arrays["image"].tolist()
    child = os.fork()
    if not child:
        same = found.batch(0, 3).arrays["image"].tolist() == right
        os._exit(0 if same and found.metrics.ahead["readers"] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert found.batch(0, 3).arrays["image"].tolist() == right
    found.close()


def test_late_is_told_from_twenty_reads_on_by_the_slow_ones():
    pace = ReadPace()
    for _ in range(19):
        pace.note(0.1, 1_000)
    assert pace.late == np.inf and pace.size == 1_000
    pace.note(0.1, 1_000)
    assert pace.late == pytest.approx(0.2) and pace.usual == 0.1
    for _ in range(200):
        pace.note(0.001, 1_000)
    assert pace.late == 0.1, "no sooner, whatever the others take"


def test_the_bound_is_a_size():
    assert Limits(read_ahead="1MB").read_ahead_bytes == 1_000_000
    for wrong in (None, -1):
        with pytest.raises(ValueError) as caught:
            Limits(read_ahead=wrong)
        assert str(caught.value) == (
            f'read_ahead must be bytes or a text such as "256MB", 0 for none, got {wrong}'
        )


@pytest.mark.slow
def test_a_training_from_a_bucket_goes_on_as_one_from_local_files(held, files):
    pytest.importorskip("obstore")
    pytest.importorskip("moto.server")
    import keras

    import dfgen

    def sequence(paths, options=None):
        table = pd.DataFrame({"id": range(40), "path": paths, "label": np.arange(40) % 2})
        return dfgen.Sequence(
            table, y="label", image_size=(4, 4), batch_size=8, seed=3, storage_options=options
        )

    def fitted(first, second):
        """Fit an epoch, and go on with another Sequence from its state."""
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-6), "mse")
        with first:
            model.fit(first, epochs=1, verbose=0)
            state = first.state_dict()
        with second:
            second.load_state_dict(state)
            model.fit(second, initial_epoch=1, epochs=3, verbose=0)
            return model.get_weights(), second.receipt, second.metrics.ahead

    near = fitted(sequence(files[:40]), sequence(files[:40]))
    with s3_server({"bucket": held}) as server:
        paths = [f"s3://bucket/{os.path.basename(path)}" for path in files[:40]]
        far = fitted(sequence(paths, server.options), sequence(paths, server.options))
    for ours, theirs in zip(far[0], near[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert far[1] == near[1]
    assert far[2]["reads"] > 0 and near[2] == {}
