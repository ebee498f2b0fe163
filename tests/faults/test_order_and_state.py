"""State and determinism: the same bytes whatever makes them, and training goes on where it was."""

import os
import subprocess
import sys

import pytest
from watching import order, trained_watcher

import dfgen


def sequence(frame, rows=46, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, **options}
    return dfgen.Sequence(frame(rows), y="label", **options)


@pytest.mark.backend
def test_keras_trial_calls_before_training_change_nothing(frame):
    with sequence(frame, 48) as seq:
        state = seq.state_dict()
        seq[0], seq[1]
        seq.on_epoch_end()
        assert seq.state_dict() == state
        model = trained_watcher()
        model.fit(seq, epochs=1, verbose=0)
        assert model.seen() == order(48, 0)


MEMORY = """
import sys
import numpy as np, psutil
from dfgen.loading.loader import Loader
from dfgen.samples.reader import BoundFeature
from dfgen.samples.features.classes import Number
from dfgen.samples.reader import SampleReader

rows, epochs = 100_000, int(sys.argv[1])
numbers = BoundFeature("number", Number("number"), np.arange(rows) / rows)
loader = Loader(SampleReader(np.arange(rows), (numbers,)), batch_size=5_000, workers=2)
sizes = []
for epoch in range(epochs):
    seen = sum(len(loader.batch(epoch, step).rows) for step in range(len(loader)))
    assert seen == rows, seen
    if epoch >= epochs // 5:
        sizes.append(psutil.Process().memory_info().rss / 1e6)
print(np.polyfit(np.arange(len(sizes)), sizes, 1)[0] * epochs)
"""


@pytest.mark.alarm(150)
@pytest.mark.parametrize("epochs", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_memory_stays_flat_over_many_large_epochs(epochs):
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(epochs)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert float(run.stdout) < 8  # MB over all of them; one epoch's arrays are 0.8


def test_addresses_of_no_store_are_refused_by_name(frame):
    df = frame(4).assign(path=[f"gopher://bucket/{row}.png" for row in range(4)])
    with pytest.raises(dfgen.DfgenError) as refused:
        dfgen.Sequence(df, y="label", image_size=(4, 4))[0]
    assert "gopher://bucket/0.png" in str(refused.value)
