"""A training killed by SIGKILL in a process of its own, and run again, ends as if nothing was."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from killing import train

pytestmark = pytest.mark.backend

FEW = [
    ("step", 0, 1),
    ("half written", 0, 7),
    ("written", 1, 0),
    ("step", 1, 12),
    ("epoch end", 2, 12),
]
MANY = [
    ("step", 0, 1),  # the first
    ("half written", 0, 2),
    ("written", 0, 3),
    ("saved", 0, 4),
    ("step", 0, 9),  # the third and fourth time in one epoch
    ("step", 0, 12),  # the last
    ("validation", 0, 1),
    ("epoch end", 0, 12),
    ("half written", 1, 0),
    ("written", 1, 0),
    ("saved", 1, 0),
    ("epoch begin", 1, 0),
    ("step", 1, 1),
    ("step", 1, 2),
    ("half written", 1, 11),
    ("step", 1, 12),
    ("epoch end", 1, 12),
    ("step", 2, 6),
    ("step", 2, 12),
    ("train end", 3, 0),
]


def run(folder, place):
    child = str(Path(__file__).parents[1] / "killing.py")
    command = [sys.executable, "-W", "error::UserWarning", child, str(folder), json.dumps(place)]
    return subprocess.run(command, capture_output=True, text=True, timeout=150)


@pytest.mark.slow
@pytest.mark.parametrize("places", [FEW, MANY], ids=["few", "many"])
@pytest.mark.timeout(900)
def test_fault_58_killed_and_run_again_it_ends_with_the_same_weights_and_receipts(tmp_path, places):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    model, _ = train(tmp_path / "whole")
    for place in places:
        killed = run(tmp_path / "killed", place)
        assert killed.returncode == -signal.SIGKILL, (place, killed.stdout, killed.stderr)
    ended = run(tmp_path / "killed", None)
    assert ended.returncode == 0, ended.stderr
    with np.load(tmp_path / "killed" / "weights.npz") as weights:
        for expected, found in zip(model.get_weights(), weights.values(), strict=True):
            np.testing.assert_array_equal(found, expected)
    receipts = [
        pd.read_parquet(tmp_path / name / "receipts.parquet") for name in ("whole", "killed")
    ]
    pd.testing.assert_frame_equal(*receipts)
    assert receipts[0].epoch.tolist() == [0, 1, 2]
    assert set(receipts[0].counted) == {"taken"}
    assert not (tmp_path / "killed" / "backup").exists()
