"""A training killed in a process of its own and run again ends as if nothing had happened."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from public.training_script import train
from public.watching import BACKEND

pytestmark = pytest.mark.backend

TESTS = Path(__file__).parents[1]
SCRIPT = """
import sys
if sys.argv[1] != "tensorflow":
    sys.modules["tensorflow"] = None  # Keras imports it on any backend
from public.training_script import main
main(*sys.argv[2:])
"""


def test_killed_training_ends_with_the_same_weights(tmp_path):
    """Killed in mid-epoch, ended by SIGTERM in the next epoch, and run a third time."""
    model, sequence, _ = train(tmp_path / "whole")
    command = [sys.executable, "-W", "error::UserWarning", "-c", SCRIPT, BACKEND, tmp_path]
    options = {"cwd": TESTS, "capture_output": True, "text": True, "timeout": 150}
    for name, after, code in (("SIGKILL", "4", -9), ("SIGTERM", "5", 143), ("SIGKILL", "0", 0)):
        assert not (tmp_path / "weights.npz").exists()
        ended = subprocess.run([*command, name, after], **options)
        assert ended.returncode == code, ended.stdout + ended.stderr
    with np.load(tmp_path / "weights.npz") as weights:
        for expected, actual in zip(model.get_weights(), weights.values(), strict=True):
            np.testing.assert_array_equal(actual, expected)
    assert (tmp_path / "receipt").read_text() == repr(sequence.receipt)
    steps = len((tmp_path / "steps").read_text().split())
    assert steps in (15, 16)  # the backup of its step came before SIGKILL or did not
