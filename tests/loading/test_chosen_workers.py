"""How many threads are used where nobody says it: by the rate of batches, which stay the same."""

from dataclasses import replace
from itertools import cycle
from threading import Event

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from processes_of import children

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.loading.order.draws import proportions_of
from dfgen.loading.order.row_order import Drawing
from dfgen.loading.workers import worker_tuning
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.pool import Pool
from dfgen.loading.workers.threads import Threads, Worker
from dfgen.loading.workers.worker_tuning import (
    Chooser,
    EitherWorker,
    Switch,
    may_be_processes,
    thread_counts,
)
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.reader import SampleReader
from dfgen.stores.stores import Stores

ROWS = 64


class Machine:
    """Hands out batches to a consumer by a clock of its own, and counts what each choice has made.

    Args:
        choice: told what it does.
        rates: choice -> rows a second.
        consumer: seconds of its own that the consumer takes for each batch.

    Each of the first `waking` batches of a choice takes 20 ms longer.
    """

    def __init__(self, choice, rates, consumer=0.0):
        self.choice, self.rates, self.consumer = choice, rates, consumer
        self.now, self.made, self.noise = 0.0, dict.fromkeys(rates, 0), cycle([1.0])
        self.last, self.since, self.waking = None, 0, {}

    def run(self, seconds):
        """Run for so long; return the rows a second."""
        begin, rows = self.now, 0
        while self.now < begin + seconds:
            used = self.choice.used
            self.last, self.since = used, self.since + 1 if used == self.last else 0
            made = ROWS / self.rates[used] * next(self.noise)
            if self.since < self.waking.get(used, 0):
                made += 0.02
            waited = max(0.0, made - self.consumer)
            self.now += self.consumer + waited
            rows += ROWS
            self.made[used] += ROWS
            self.choice.note(ROWS, waited, self.now)
        return rows / (self.now - begin)


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ({2: 9_000, 1: 15_500}, 1), ({2: 59_000, 1: 36_000}, 2), ({2: 20_000, 1: 21_000}, 2),
        ({16: 11_000, 4: 40_000, 1: 30_000}, 4), ({16: 90_000, 4: 80_000, 1: 30_000}, 16),
    ],
)  # fmt: skip
def test_what_is_faster_is_used_and_trying_costs_less_than_a_tenth(rates, best):
    choice = Chooser(tuple(rates))
    machine = Machine(choice, rates)
    rate = machine.run(30)
    assert choice.chosen == best
    assert rate > 0.9 * max(rates.values())


def test_a_noisy_machine_does_not_make_it_choose_what_is_slower():
    rates = {2: 20_000, 1: 18_000}
    choice = Chooser(tuple(rates))
    machine = Machine(choice, rates)
    machine.noise = cycle(np.random.default_rng(0).lognormal(0, 0.3, 997).tolist())
    rate = machine.run(600)
    assert choice.chosen == 2
    assert rate > 0.93 * 20_000  # the noise itself takes 4 %


@pytest.mark.parametrize(
    ("rates", "consumer"),
    [({8: 4_000, 2: 20_000, 1: 20_000}, 0.0), ({8: 20_000, 2: 40_000, 1: 40_000}, 0.0034)],
    ids=["rows of over 200 microseconds", "a model that is slower"],
)
def test_nothing_is_tried_where_it_would_not_help(rates, consumer):
    machine = Machine(Chooser(tuple(rates)), rates, consumer)
    machine.run(60)
    assert machine.made[1] == machine.made[2] == 0


def test_readers_of_a_slow_disk_stay_and_a_hopeless_choice_is_measured_once():
    rates = {16: 16_000, 4: 4_000, 1: 1_000}
    choice = Chooser(tuple(rates))
    machine = Machine(choice, rates)
    machine.run(5)
    assert choice.chosen == 16
    assert machine.made[1] <= 4 * ROWS
    assert machine.made[4] <= 7 * ROWS


def test_a_choice_is_taken_back_when_files_are_no_longer_in_memory():
    choice = Chooser((4, 1))
    machine = Machine(choice, {4: 15_000, 1: 30_000})
    machine.run(5)
    assert choice.chosen == 1
    machine.rates = {4: 8_000, 1: 2_000}
    machine.run(0.5)
    assert choice.chosen == 4


def test_a_choice_stays_where_others_take_half_of_the_machine():
    choice = Chooser((2, 1), "processes")
    rates = {2: 33_000, 1: 24_000, "processes": 40_000}
    machine = Machine(choice, rates)
    machine.run(20)
    assert choice.chosen == "processes"
    machine.rates = {used: rate / 2 for used, rate in rates.items()}
    machine.run(2)
    assert choice.chosen == "processes"
    machine.rates = rates
    assert machine.run(10) > 0.95 * rates["processes"]


def test_all_is_measured_again_after_seconds_and_then_ever_more_seldom():
    choice = Chooser((2, 1))
    machine = Machine(choice, {2: 30_000, 1: 20_000})
    machine.run(50)
    assert choice.chosen == 2
    machine.rates = {2: 10_000, 1: 20_000}
    machine.run(5)
    assert choice.chosen == 2
    machine.run(20)
    assert choice.chosen == 1


@pytest.mark.parametrize(("late", "batches"), [(1, 2), ("processes", 2), ("processes", 40)])
def test_a_choice_is_not_measured_while_it_starts(late, batches):
    choice = Chooser((2, 1), late="processes")
    machine = Machine(choice, {2: 30_000, 1: 20_000, "processes": 20_000, late: 36_000})
    machine.waking = {late: batches}
    if batches > 2:  # the first time alone
        note = choice.note

        def noted(*given):
            machine.waking = {late: 0 if machine.made[late] > batches * ROWS else batches}
            return note(*given)

        choice.note = noted
    machine.run(25)
    assert choice.chosen == late


def test_time_between_epochs_counts_for_no_choice():
    choice = Chooser((2, 1))
    machine = Machine(choice, {2: 30_000, 1: 20_000})
    for _ in range(60):
        machine.run(0.05)
        machine.now += 5.0
    assert choice.chosen == 2


def test_a_consumer_that_is_away_while_one_choice_is_measured_speaks_for_no_other():
    choice = Chooser((2, 1))
    machine = Machine(choice, {2: 30_000, 1: 20_000})
    for _ in range(300):
        machine.run(0.08)
        machine.now += 5.0 * (choice.used == 2)
        assert choice.chosen == 2


def test_threads_to_try_are_all_a_quarter_and_so_on_down_to_one():
    assert thread_counts(1) == (1,)
    assert thread_counts(3) == (3, 1)
    assert thread_counts(48) == (48, 12, 3, 1)


@pytest.fixture
def restless(monkeypatch):
    """Have each choice measured by every batch, on a machine of eight CPUs."""
    monkeypatch.setattr("dfgen.loading.loader.usable_cpus", lambda: 8)
    for name, value in {"_WINDOW": 0, "_BATCHES": 1, "_SETTLING": 0, "_AGAIN": 0}.items():
        monkeypatch.setattr(worker_tuning, name, value)
    for name, value in {"_BOUND": -1, "_SMALL": 10.0, "_AWAY": 1e9, "_HOPELESS": 0}.items():
        monkeypatch.setattr(worker_tuning, name, value)


def image_loader(folder, count=96, **options):
    """A loader of PNG files of 8x8 pixels that hold their number, in random crops and flips."""
    paths = [str(folder / f"{number}.png") for number in range(count)]
    for number, path in enumerate(paths):
        pixels = np.random.default_rng(number).integers(256, size=(8, 8, 3), dtype=np.uint8)
        pixels[..., 0] = number
        cv2.imwrite(path, pixels)
    image = Image("path", size=(6, 6), load_size=(8, 8), crop="random", flip="horizontal")
    parts = (BoundFeature("image", image, pa.array(paths)),)
    return Loader(SampleReader(np.arange(count), parts), batch_size=8, seed=3, **options)


@pytest.mark.slow
def test_no_batch_differs_while_threads_go_to_rest_and_wake(tmp_path, restless, monkeypatch):
    counts, use = [], Threads.use
    monkeypatch.setattr(
        Threads, "use", lambda threads, count: (counts.append(count), use(threads, count))
    )
    with_choice, alone = image_loader(tmp_path), image_loader(tmp_path, workers=0)
    for epoch in range(3):
        for found, expected in zip(with_choice.batches(epoch), alone.batches(epoch), strict=True):
            assert found.ids == expected.ids
            assert (found.arrays["image"] == expected.arrays["image"]).all()
    assert {8, 2, 1} == set(counts)
    assert len(counts) > 10
    assert with_choice.metrics.workers in (8, 2, 1)
    with_choice.close()
    assert not children()


@pytest.mark.parametrize("options", [{"workers": 3}, {"workers": 0}])
def test_workers_that_are_asked_for_are_used(tmp_path, restless, options, monkeypatch):
    monkeypatch.setattr(Threads, "use", None)
    with_workers = image_loader(tmp_path, **options)
    for epoch in range(2):
        assert len(list(with_workers.batches(epoch))) == 12
    assert with_workers.metrics.workers == options["workers"]
    with_workers.close()


def pool_at_rest(workers=3):
    """A pool of which one thread alone is awake, and all have started."""
    pool = Pool(ChunkMaker(SampleReader(np.arange(1), ()), 0, False), workers, False, {}, 1)
    pool.run(lambda worker: None)
    pool._threads.use(1)
    return pool


def test_one_thread_does_all_while_others_rest_and_they_wake_at_once():
    pool, seen, done = pool_at_rest(), [], Event()
    for _ in range(50):
        pool.run(seen.append)
    pool.run(lambda worker: done.set())
    done.wait()
    counts = [seen.count(worker) for worker in pool.workers[1:]]
    assert max(counts) <= 1  # what was waiting for a task takes that
    pool._threads.use(3)
    assert not any(worker.resting for worker in pool.workers)
    pool.close()


def test_closing_does_not_wait_for_threads_at_rest():
    pool = pool_at_rest()
    threads = list(pool._threads._threads)
    pool.close()
    assert not any(thread.is_alive() for thread in threads)


def test_threads_at_rest_end_when_nobody_holds_their_pool():
    pool = pool_at_rest()
    threads = list(pool._threads._threads)
    del pool
    for thread in threads:
        thread.join(5)
    assert not any(thread.is_alive() for thread in threads)


def test_another_wakes_for_a_thread_that_is_given_up():
    threads = Threads(3, Worker)
    threads.submit(lambda worker: None)
    threads.use(1)
    threads.replace(threads.workers[0])
    assert [worker.resting for worker in threads.workers] == [False, False, True, True]
    threads.close()


def test_what_is_dear_to_start_is_tried_late_and_left_for_good_unless_it_is_chosen():
    rates = {2: 30_000, 1: 20_000, "processes": 31_000}
    choice = Chooser((2, 1), late="processes")
    machine = Machine(choice, rates)
    machine.run(9)
    assert machine.made["processes"] == 0
    machine.run(10)
    assert machine.made["processes"] > 0 and choice.late == "processes"
    machine.run(20)
    assert choice.late is None
    made = machine.made["processes"]
    assert made < 400 * ROWS  # it is waited for once, though each try has five turns
    machine.run(600)
    assert machine.made["processes"] == made and choice.chosen == 2

    machine = Machine(choice := Chooser((2, 1), late="processes"), {**rates, "processes": 36_000})
    assert machine.run(60) > 0.9 * 36_000 * 48 / 60 + 0.9 * 30_000 * 12 / 60
    assert choice.chosen == choice.late == "processes"


def switched(folder, monkeypatch, **options):
    """A loader that would choose, and its switch, which is set by hand alone."""
    monkeypatch.setattr("dfgen.loading.loader.usable_cpus", lambda: 2)
    made = image_loader(folder, **options)
    pool = made._maker.pool
    pool._chooser.note = lambda rows, waited, now: pool._chooser.used
    return made, pool._switch


@pytest.mark.slow
def test_no_batch_differs_while_threads_and_processes_change_over(tmp_path, monkeypatch):
    made, switch = switched(tmp_path, monkeypatch)
    alone, seen = image_loader(tmp_path, workers=0), set()
    for epoch in range(3):
        for step in range(12):
            switch.in_processes = (step // 3) % 2 == 1
            found, expected = made.batch(epoch, step), alone.batch(epoch, step)
            assert found.ids == expected.ids
            assert (found.arrays["image"] == expected.arrays["image"]).all()
            seen.add(len(children()))
    assert max(seen) == 2 and made.metrics.samples >= 288
    made.close()
    assert not children()


def test_no_batch_with_bad_rows_and_draws_differs_while_they_change_over(tmp_path, monkeypatch):
    draws = proportions_of(1.0 + np.arange(96) % 3, 160)
    given = {"on_error": "skip", "drawing": Drawing(draws), "limits": Limits(problems=96)}
    made, switch = switched(tmp_path, monkeypatch, **given)
    alone = image_loader(tmp_path, workers=0, **given)
    for number in range(0, 96, 9):
        (tmp_path / f"{number}.png").write_bytes(b"no image")
    for step in range(20):
        switch.in_processes = step % 3 == 1
        found, expected = made.batch(1, step), alone.batch(1, step)
        assert (found.rows == expected.rows).all()
        assert sorted(found.skipped) == sorted(expected.skipped)
        assert (found.arrays["image"] == expected.arrays["image"]).all()
        assert (found.weights == expected.weights).all()
    assert made.problems == alone.problems and len(made.problems) > 5
    made.close()


def test_processes_that_are_left_for_good_end_those_of_resting_threads_too(tmp_path, monkeypatch):
    made, switch = switched(tmp_path, monkeypatch)
    pool, switch.in_processes = made._maker.pool, True
    for step in range(8):
        made.batch(0, step)
    assert len(children()) == 2
    pool._threads.use(1)
    pool._chooser.late, switch.in_processes = None, False
    for step in range(8, 12):
        made.batch(0, step)
        pool.note(8, 0.0, float(step))
    while children():  # the one at work ends with its next chunk
        made.batch(1, 0)
    assert pool.workers[1]._process is None
    made.close()


@pytest.mark.slow
def test_a_process_that_dies_is_replaced_where_nobody_asked_for_it(tmp_path, monkeypatch):
    made, switch = switched(tmp_path, monkeypatch)
    switch.in_processes = True
    for step in range(8):
        for child in children()[: step % 4 == 1]:
            child.kill()
        pixels = made.batch(0, step).arrays["image"]
        assert (pixels[:, 0, 0, 2] == made.rows(0, step)).all()
    made.close()


def test_threads_do_the_work_of_processes_that_cannot_start(tmp_path, monkeypatch):
    made, switch = switched(tmp_path, monkeypatch)
    switch.in_processes = True
    command = "dfgen.loading.workers.processes.python_command"
    monkeypatch.setattr(command, lambda *given: (["/no/such/python"], {}))
    assert (made.batch(0, 0).arrays["image"][:, 0, 0, 2] == made.rows(0, 0)).all()
    assert switch.is_over and not made.metrics.use_multiprocessing
    made.close()


def test_processes_are_not_tried_where_a_function_of_the_user_would_run_on_copies(tmp_path):
    reader = image_loader(tmp_path).reader
    own = replace(reader, transform=lambda sample, rng: sample)
    for one, late in (reader, (2, True)), (own, None):
        assert may_be_processes(one) == (late is not None)
        pool = Pool(ChunkMaker(one, 0, False), 2, False, one.specs, 1, chooses=True)
        assert pool._chooser.late == late
    assert not may_be_processes(SampleReader(np.arange(200), ()))  # there are no files


def test_processes_are_not_tried_where_each_would_hold_or_ask_for_the_same(tmp_path, monkeypatch):
    reader = image_loader(tmp_path).reader
    assert not may_be_processes(replace(reader, store=Stores(far=True)))
    frame = pd.DataFrame({"id": range(96), "path": reader.features[0].files.to_pylist()})
    given = {"options": Options(label_mode=None), "x": Image("path", size=(6, 6))}
    assert may_be_processes(bind(frame, **given).reader)
    assert not may_be_processes(bind(frame, cache="memory", **given).reader)
    dfgen.pack(frame, tmp_path / "packed", image_size=(6, 6))
    assert not may_be_processes(bind(tmp_path / "packed", **given).reader)
    size = reader.features[0].files.nbytes
    for most in (size, size - 1):
        monkeypatch.setattr(worker_tuning, "_MOST", most)
        assert may_be_processes(reader) == (most == size)
    monkeypatch.setattr(worker_tuning, "STARTS_PROCESSES_ALONE", False)
    assert not may_be_processes(reader)


def test_the_process_of_a_worker_is_seen_given_up_and_ended_with_it(tmp_path):
    class Process:
        in_hand, ends = None, ()

        def file(self):
            return self.in_hand

        def abandon(self):
            self.ends += ("abandoned",)

        def close(self):
            self.ends += ("closed",)

    reader = image_loader(tmp_path, 2).reader
    worker = EitherWorker(Switch(ChunkMaker(reader, 0, False), reader.specs, 2))
    worker.end_process()
    assert worker.file() is None
    worker.stopwatch.row = 1
    worker.stopwatch("read")
    worker._process = process = Process()
    assert worker.file()[0] == 1  # that of the thread
    process.in_hand = (0, 5.0)
    assert worker.file() == (0, 5.0)
    with worker._at_work:
        worker.end_process()
    assert process.ends == ()
    worker.abandon()
    assert worker.abandoned and process.ends == ("abandoned",)
    worker.end_process()
    worker.close()
    assert process.ends == ("abandoned", "closed") and worker._process is None
    assert worker._with_process().abandoned  # since the worker is
    worker.close()
