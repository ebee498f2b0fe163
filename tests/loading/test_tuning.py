"""Workers that nobody has asked for: chosen by the rate of batches, which stay the same."""

from dataclasses import replace
from itertools import cycle

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from processes_of import children

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader
from dfgen.loading.workers import workers
from dfgen.loading.workers.workers import Chooser, may_be_processes
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundFeature, SampleReader

ROWS = 64


class Machine:
    """Takes batches by a clock of its own, and counts the rows of each choice."""

    def __init__(self, choice, rates, consumer=0.0):
        self.choice, self.rates, self.consumer = choice, rates, consumer
        self.now, self.made, self.noise = 0.0, dict.fromkeys(rates, 0), cycle([1.0])

    def run(self, seconds):
        """Run for some seconds; return the rows a second."""
        begin, rows = self.now, 0
        while self.now < begin + seconds:
            used = self.choice.used
            made = ROWS / self.rates[used] * next(self.noise)
            waited = max(0.0, made - self.consumer)
            self.now += self.consumer + waited
            rows += ROWS
            self.made[used] += ROWS
            self.choice.note(ROWS, waited, self.now)
        return rows / (self.now - begin)


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ({2: 9_000, 1: 15_500}, 1), ({2: 59_000, 1: 36_000}, 2), ({2: 20_000, 1: 20_500}, 2),
        ({16: 11_000, 4: 40_000, 1: 30_000}, 4), ({16: 90_000, 4: 80_000, 1: 30_000}, 16),
        ({2: 15_000, 1: 17_000, "processes": 27_000}, "processes"),
    ],
)  # fmt: skip
def test_the_fastest_is_chosen_once_at_little_cost(rates, best):
    slow = "processes" if "processes" in rates else None
    choice = Chooser(tuple(rate for rate in rates if rate != slow), slow)
    rate = Machine(choice, rates).run(60)
    assert (choice.used, choice.done) == (best, True)
    assert rate > 0.9 * max(rates.values())


def test_noise_does_not_choose_what_is_slower():
    choice = Chooser((2, 1))
    machine = Machine(choice, {2: 20_000, 1: 18_000})
    machine.noise = cycle(np.random.default_rng(0).lognormal(0, 0.3, 997).tolist())
    machine.run(60)
    assert choice.used == 2


@pytest.mark.parametrize(
    ("rates", "consumer"),
    [({8: 4_000, 2: 20_000, 1: 20_000}, 0.0), ({8: 20_000, 2: 40_000, 1: 40_000}, 0.0034)],
    ids=["slow rows", "a slow model"],
)
def test_nothing_is_tried_where_it_would_not_help(rates, consumer):
    machine = Machine(Chooser(tuple(rates)), rates, consumer)
    machine.run(60)
    assert machine.made[1] == machine.made[2] == 0


def test_a_hopeless_choice_is_measured_once():
    choice = Chooser((16, 4, 1))
    machine = Machine(choice, {16: 16_000, 4: 4_000, 1: 1_000})
    machine.run(5)
    assert choice.used == 16
    assert machine.made[1] <= 4 * ROWS and machine.made[4] <= 7 * ROWS


@pytest.fixture
def loader(tmp_path, monkeypatch):
    """Return what makes Loaders of PNG files of random crops, which measure every batch."""
    monkeypatch.setattr("dfgen.loading.loader.usable_cpus", lambda: 2)
    values = {"_WINDOW": 0, "_BATCHES": 1, "_SETTLING": 0, "_STARTING": 0, "_TURNS": 3, "_LATER": 0}
    values |= {"_BOUND": -1, "_SMALL": 1e9, "_AWAY": 1e9, "_HOPELESS": 0}
    for name, value in values.items():
        monkeypatch.setattr(workers, name, value)
    paths = [str(tmp_path / f"{number}.png") for number in range(96)]
    for number, path in enumerate(paths):
        pixels = np.random.default_rng(number).integers(256, size=(8, 8, 3), dtype=np.uint8)
        cv2.imwrite(path, pixels)
    image = Image("path", size=(6, 6), load_size=(8, 8), crop="random", flip="horizontal")

    def make(**options):
        parts = (BoundFeature("image", image, pa.array(paths)),)
        return Loader(SampleReader(np.arange(96), parts), batch_size=8, seed=3, **options)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True], ids=["processes", "no process can start"])
def test_no_batch_differs_while_workers_are_measured(loader, monkeypatch, broken):
    if broken:
        command = "dfgen.loading.workers.processes.python_command"
        monkeypatch.setattr(command, lambda *given: (["/no/such/python"], {}))
    tuned, alone, used = loader(), loader(workers=0), set()
    for epoch in range(3):
        stream = tuned.stream(epoch)
        for step in range(12):
            batch = next(stream)
            np.testing.assert_array_equal(
                batch.arrays["image"], alone.batch(epoch, step).arrays["image"]
            )
            used.add((tuned.metrics.workers, tuned.metrics.use_multiprocessing))
    assert used == {(2, False), (1, False), (2, True)}
    assert tuned._workers.chooser.done
    tuned.close()
    assert not children()


def test_processes_are_tried_only_for_plain_local_files(tmp_path, loader):
    reader = loader().reader
    assert may_be_processes(reader)
    assert not may_be_processes(replace(reader, transform=lambda sample, rng: sample))
    assert not may_be_processes(SampleReader(np.arange(200), ()))
    frame = pd.DataFrame({"id": range(96), "path": reader.features[0].files.to_pylist()})
    given = {"label_mode": None, "x": Image("path", size=(6, 6))}
    assert may_be_processes(bind(SequenceArguments(frame, **given)).reader)
    assert not may_be_processes(bind(SequenceArguments(frame, cache="memory", **given)).reader)
    dfgen.pack(frame, tmp_path / "packed", image_size=(6, 6))
    assert not may_be_processes(bind(SequenceArguments(tmp_path / "packed", **given)).reader)
