"""Batches made ahead, those that are still made, and their measures: each part by itself."""

import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from cases import each

from dfgen.errors import ArgumentError
from dfgen.loading import metrics
from dfgen.loading.lookahead import LookAhead, Parked
from dfgen.loading.metrics import Metrics, Stopwatch, total
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, PendingBatch, batch_weights
from dfgen.loading.problems import Failure
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.threads import Worker

PLAN = Plan(rows=10, batch_size=3)  # four batches


class Source:
    """Makes batches that are their positions, `depth` of them ahead."""

    def __init__(self, depth=3, workers=1):
        self.depth, self.workers, self.made, self.broken = depth, workers, [], ()

    def depth_for(self, at_once):
        return self.depth

    def start(self, epoch, step, plan, spread):
        given = {"position": (epoch, step), "spread": spread, "cancelled": False}
        self.made.append(SimpleNamespace(**given))
        return self.made[-1]

    def result(self, pending):
        if pending.position in self.broken:
            raise KeyError("broken")
        return pending.position

    @property
    def positions(self):
        return [one.position for one in self.made]


def taken(ahead, count):
    return [next(ahead) for _ in range(count)]


def test_so_many_batches_are_made_ahead_of_each_that_is_taken_over_the_end_of_an_epoch():
    source = Source()
    ahead = LookAhead(source, (0, 2), PLAN)
    assert taken(ahead, 3) == [(0, 2), (0, 3), (1, 0)] and ahead.position == (1, 1)
    assert source.positions == [(0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert [one.spread for one in source.made] == [True] + [False] * 5


def test_none_is_made_ahead_of_the_end_and_the_same_epoch_comes_again_if_it_is_to():
    source = Source(9)
    assert taken(LookAhead(source, (5, 1), PLAN, one_epoch=True), 3)[-1] == (5, 3)
    assert source.positions == [(5, 1), (5, 2), (5, 3)]
    again = LookAhead(Source(), (5, 2), PLAN)
    assert taken(again, 1) == [(5, 2)]
    again.repeat_epoch = True  # batches of the next epoch are made already
    assert taken(again, 3) == [(5, 3), (5, 0), (5, 1)]
    alone = Source(1, workers=0)
    assert taken(LookAhead(alone, (0, 0), PLAN), 2) == alone.positions == [(0, 0), (0, 1)]


def test_batches_of_a_wrong_guess_are_cancelled():
    source = Source()
    ahead = LookAhead(source, (0, 0), PLAN)
    taken(ahead, 1)
    ahead.position = (7, 1)
    assert taken(ahead, 1) == [(7, 1)] and [one.cancelled for one in source.made[1:4]] == [True] * 3
    assert source.made[4].spread


def test_a_batch_that_fails_is_made_again_and_what_is_closed_says_so():
    source = Source()
    ahead = LookAhead(source, (0, 0), PLAN)
    source.broken = [(0, 1)]
    assert taken(ahead, 1)
    with pytest.raises(KeyError, match="broken"):
        next(ahead)
    assert all(one.cancelled for one in source.made[1:]) and ahead.position == (0, 1)
    source.broken = ()
    assert taken(ahead, 1) == [(0, 1)] and source.positions.count((0, 1)) == 2
    ahead.close()
    assert all(one.cancelled for one in source.made[2:] if one.position > (0, 1))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"^these batches were closed: make a new pass"):
            next(ahead)


def test_a_batch_that_fails_after_its_stream_was_closed_says_that_it_was_closed():
    class Closing(Source):
        def result(self, pending):
            ahead.close()
            if pending.position == (0, 0):
                return pending.position
            raise KeyError("broken")

    for first in ((0, 0), (0, 1)):
        ahead = LookAhead(Closing(), first, PLAN)
        with pytest.raises(ArgumentError, match="closed"):
            next(ahead)


def test_the_batches_that_are_parked_are_taken_by_whoever_goes_on_just_there():
    def parked_at(position, plan=PLAN, at_once=1):
        parked, ahead = Parked(), LookAhead(Source(), (0, 2), PLAN)
        parked.keep(ahead)
        found = parked.take(other := Source(), position, plan, at_once)
        assert found.source is other and (found.position, found.plan) == (position, plan)
        assert found.at_once == at_once and found.end is None
        assert ahead._closed == (found is not ahead)
        return found is ahead

    assert parked_at((0, 2))
    for other in ({"position": (0, 1)}, {"plan": Plan(10, 2)}, {"at_once": 2}):
        assert not parked_at(**{"position": (0, 2), **other})
    parked, ones = Parked(), [LookAhead(Source(), (0, 0), PLAN) for _ in range(2)]
    for one in (*ones, None):
        parked.keep(one)
    assert [one._closed for one in ones] == [True, True]
    new = parked.take(Source(), (0, 0), PLAN, 1)
    assert new not in ones and not new._closed


# A batch that is still made


class Filling(Worker):
    """Fills a chunk with its rows, but for those that are blank or raise."""

    def __init__(self, blanks=(), error=None):
        super().__init__()
        self.blanks, self.error, self.seen = dict(blanks), error, []

    def fill(self, chunk, arrays, cancelled):
        self.seen.append((chunk.rows.tolist(), cancelled()))
        if self.error is not None:
            raise self.error
        arrays["x"][...] = chunk.rows
        return self.blanks


def pending_of(chunks=2, **options):
    """A batch of the rows 10 to 15 in so many chunks, and these."""
    rows = np.arange(10, 16)
    made = PendingBatch(
        lambda: {"x": np.full(6, -1)}, rows, (3, 0), Plan(rows=6, batch_size=6), chunks, **options
    )
    size = 6 // chunks
    parts = [slice(at, at + size) for at in range(0, 6, size)]
    return made, [(Chunk(3, rows[part], rows[part] * 0), part) for part in parts]


def test_a_batch_is_done_with_its_last_chunk_and_knows_its_blanks_by_their_places():
    pending, ((one, first), (other, last)) = pending_of()
    why, worker = Failure("read", "gone"), Filling({1: Failure("read", "gone"), 2: None})
    pending.run(other, last, worker)
    assert not pending.wait(0) and worker.busy_with is None
    pending.run(one, first, Filling())
    assert pending.wait(0) and worker.seen == [([13, 14, 15], False)]
    batch, problems = pending.result()
    assert batch.arrays["x"].tolist() == [10, 11, 12, 13, 14, 15]
    assert (batch.skipped, problems) == ((4, 5), {14: why})
    assert batch.weights.tolist() == [1.5] * 4 + [0, 0] and batch.rows.tolist() == [*range(10, 16)]


def test_the_error_of_the_first_rows_is_raised_whoever_was_first_and_once():
    pending, chunks = pending_of(3)
    for at in (2, 1, 0):
        pending.run(*chunks[at], Filling(error=None if at == 0 else KeyError(at)))
    with pytest.raises(KeyError, match="1"):
        pending.result()
    assert pending.result()[0].rows.tolist() == [*range(10, 16)]


def test_an_exit_where_a_batch_is_made_is_raised_to_whoever_waits_for_it():
    for error, transform in ((SystemExit(3), None), (None, lambda arrays: sys.exit(3))):
        pending, [chunk] = pending_of(1, transform=transform)
        pending.run(*chunk, Filling(error=error))
        with pytest.raises(SystemExit) as left:
            pending.result()
        assert left.value.code == 3


def test_a_batch_that_nobody_wants_is_not_made_and_one_of_an_abandoned_worker_is_given_up():
    pending, chunks = pending_of(transform=lambda arrays: 1 / 0)
    pending.cancelled, worker = True, Filling()
    for chunk in chunks:
        pending.run(*chunk, worker)
    assert worker.seen == [] and pending.wait(0) and not pending.late
    pending, chunks = pending_of()
    worker.abandon()
    pending.run(*chunks[0], worker)
    assert pending.late == {None} and pending.cancelled
    pending, chunks = pending_of()
    pending.give_up(12)
    assert pending.late == {12} and pending.cancelled


def test_the_transform_of_a_batch_runs_once_after_all_chunks_and_not_after_an_error():
    calls = []

    def double(arrays):
        calls.append(arrays["x"].tolist())
        return {"x": arrays["x"] * 2}

    for error in (None, KeyError()):
        pending, chunks = pending_of(transform=double)
        worker = Filling()
        pending.run(*chunks[0], Filling(error=error))
        pending.run(*chunks[1], worker)
    assert calls == [[*range(10, 16)]] and worker.stopwatch.stage == "idle"
    pending, chunks = pending_of(1, transform=double)
    pending.run(*chunks[0], worker)
    assert pending.result()[0].arrays["x"].tolist() == [*range(20, 32, 2)]
    assert worker.stopwatch.seconds["batch_transform"] > 0 < worker.stopwatch.seconds["cpu"]
    pending, chunks = pending_of(1, transform=lambda arrays: 1 / 0)
    pending.run(*chunks[0], worker)
    assert worker.stopwatch.stage == "idle" and pending.wait(0)
    with pytest.raises(ZeroDivisionError):
        pending.result()


@each(
    ("plan", "step", "given", "lost", "weights"),
    [
        (Plan(10, 4), 2, None, (), [1, 1]),
        (Plan(10, 4), 0, [1, 2, 3, 4], (), [1, 2, 3, 4]),
        (Plan(10, 4), 0, [1, 2, 3, 4], [0, 3], [0, 4, 6, 0]),
        (Plan(10, 4), 2, None, [0, 1], [0, 0]),
        (Plan(10, 4, tail="pad"), 0, None, (), [1.2] * 4),
        (Plan(10, 4, tail="pad"), 2, None, (), [1.2, 1.2, 0, 0]),
        (Plan(10, 4, tail="pad"), 2, None, [1, 3], [2.4, 0, 0, 0]),
        (Plan(10, 4, (1, 2), tail="pad"), 2, None, (), [0, 0]),
    ],
)
def test_rows_weigh_as_their_mean_over_all_batches_needs_it(plan, step, given, lost, weights):
    given = None if given is None else np.array(given, np.float32)
    found = batch_weights(plan, step, given, lost)
    assert found.dtype == np.float32 and found.tolist() == pytest.approx(weights)


def test_a_row_that_lacks_an_array_weighs_nothing_in_its_loss():
    own = {"a": np.array([True, False, True]), "b": np.array([0.5, 1, 2], np.float32)}
    batch = Batch({}, np.array([2, 1]), lambda: np.array([3, 5], np.float32), own)
    assert [batch.weights_of(name).tolist() for name in "abc"] == [[3, 0], [6, 5], [3, 5]]


# Measures


def test_measures_of_all_workers_add_up():
    ones = [Stopwatch(), Stopwatch()]
    for number, one in enumerate(ones, 1):
        one.seconds = dict.fromkeys(one.seconds, 1.0 * number)
        names = ("samples", "bytes", "cache_hits", "cache_misses")
        one.counts = Counter({name: number * 10**at for at, name in enumerate(names)})
    found = total(iter(ones), 7.0, 4, 5, 6)
    seconds = {**dict.fromkeys(ones[0].seconds, 3.0), "consumer_wait": 7.0}
    assert found == Metrics(seconds, 3, 4, 30, 5, 300, 3000, 6)
    assert total([], 0.0, 0) == Metrics({**dict.fromkeys(seconds, 0.0)}, 0, 0, 0)


def test_a_stopwatch_knows_the_stage_since_when_and_the_file_in_hand(monkeypatch):
    clocks = {"perf_counter": iter(range(6)).__next__, "thread_time": iter([10, 13]).__next__}
    monkeypatch.setattr(metrics, "time", SimpleNamespace(**clocks))
    watch = Stopwatch()
    assert (watch.stage, watch.row, watch.file()) == ("idle", -1, None)
    watch.row = 4
    watch.begin("read")
    assert watch.file() == (4, 1)
    watch("decode", 100)
    assert (watch.file(), watch.since) == ((4, 1), 2)
    watch("transform")
    assert watch.file() is None
    for _ in range(2):
        watch.rest()
    assert watch.stage == "idle" and watch.counts == {"bytes": 100}
    spent = {"idle": 2, "read": 1, "decode": 1, "transform": 1, "cpu": 3}
    assert {name: seconds for name, seconds in watch.seconds.items() if seconds} == spent
