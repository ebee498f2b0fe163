"""benchmarks/gpu.py, in small: what it writes, and that its checks see a batch that is wrong."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GPU = str(BENCHMARKS / "gpu.py")
sys.path.append(str(BENCHMARKS))
gpu_turn = import_module("gpu_turn")
PARTS = ["prepare", "resume", *["correctness"] * 8, *["throughput"] * 5]


def numbers(*rows):
    return np.array(rows) * gpu_turn.CODE


def test_a_row_with_a_pixel_of_another_row_is_wrong():
    rows = np.array([7, 0, 4095])
    whole = numbers(7, 0, 4095)
    assert gpu_turn.wrong_rows(whole, whole, rows).tolist() == []
    assert gpu_turn.wrong_rows(np.roll(whole, 1), np.roll(whole, 1), rows).tolist() == [7, 0, 4095]
    assert gpu_turn.wrong_rows(numbers(7, 0, 3), whole, rows).tolist() == [4095]
    assert gpu_turn.wrong_rows(whole, numbers(8, 0, 4095), rows).tolist() == [7]


def test_rows_that_an_epoch_lacks_or_repeats_are_counted():
    assert gpu_turn.not_once(np.array([2, 0, 1, 1, 0, 2]), 3) == 0
    assert gpu_turn.not_once(np.array([2, 0, 1, 1, 1, 2]), 3) == 2
    assert gpu_turn.not_once(np.array([2, 0, 1, 0]), 3) == 0  # the second epoch has just begun


ARRIVE = """
import sys
from pathlib import Path
import numpy as np
from gpu_turn import SMALL, Turn, arrived, not_once, prepare, wrong_rows
import dfgen

def shifted(batch, rng):
    batch["image"][:] = np.roll(batch["image"], 1, axis=0)
    return batch

turn = Turn(Path(sys.argv[1]), SMALL, 0)
prepare(turn)
for transform in (None, shifted):
    seq = dfgen.Sequence(turn.coded(), y="row", image_size=(64, 64), batch_transform=transform)
    low, high, rows = arrived(seq, 8)
    print(len(rows), len(wrong_rows(low, high, rows)), not_once(rows, SMALL.rows))
"""


def run(command, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, *command]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_batches_that_are_shifted_on_their_way_are_found_out(tmp_path, backend):
    pytest.importorskip(backend)
    paths = os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent)])
    ran = run(["-c", ARRIVE, str(tmp_path)], KERAS_BACKEND=backend, PYTHONPATH=paths)
    assert ran.stdout.splitlines()[1:] == ["256 0 0", "256 256 0"], ran.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_one_command_writes_json_and_a_page_that_say_where_it_ran(tmp_path, backend):
    pytest.importorskip(backend)
    out = tmp_path / "out"
    ran = run([GPU, "--small", "--backend", backend, "--out", str(out)])
    assert ran.returncode == 0, ran.stdout
    found = json.loads((out / "gpu.json").read_text())
    assert [line["part"] for line in found["lines"]] == PARTS
    told = {line["part"]: line for line in found["lines"]}
    assert found["small"]
    assert {(line["backend"], line["device"]) for line in found["lines"][1:]} == {(backend, "CPU")}
    assert told["resume"]["arrays"] > 0 == told["resume"]["differ"]
    arrived = [line for line in found["lines"] if line["part"] == "correctness"]
    assert all(line["batches"] == 16 and not line["wrong"] + line["not_once"] for line in arrived)
    assert {(line["source"], line["processes"], line["workers"]) for line in arrived} == {
        (source, processes, workers)
        for source in ("PNG", "pack")
        for processes in (False, True)
        for workers in (1, 2)
    }
    fed = [line for line in found["lines"] if line["part"] == "throughput"]
    sources = ["synthetic", "loose JPEG", "pack", "cache", "synthetic"]
    assert [line["source"] for line in fed] == sources
    assert all(line["images_per_second"] > 0 and line["cpus"] >= 0 for line in fed)
    assert all(0 <= line["input_wait"] <= 1 for line in fed[1:-1])
    assert {line["gpu"] for line in fed} == {None}
    page = (out / "gpu.md").read_text()
    assert page.startswith(f"# dfgen: {backend} on CPU\n")
    assert "measures nothing" in page and f"| {backend} | CPU | MobileNet | 8 | pack |" in page
    assert "| all |  |  |  |  | 128 | 0 | 0 |" in page and "## Missing" not in page


def test_what_failed_stands_on_the_page_and_ends_with_1(tmp_path):
    (tmp_path / "jax.py").write_text("raise ImportError('no JAX today')")
    command = [GPU, "--small", "--backend", "jax", "--out", str(tmp_path)]
    ran = run(command, PYTHONPATH=str(tmp_path))
    assert ran.returncode == 1, ran.stdout
    page = (tmp_path / "gpu.md").read_text()
    assert page.startswith("# dfgen: nothing ran\n")
    assert "| jax | throughput | exit code 1: " in page and "no JAX today" in page
