"""The cases that are done to dfgen and its peers, on dfgen alone: benchmarks/survive.py."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
survive = pytest.importorskip("survive")
cases = sys.modules["survive_cases"]
loaders = sys.modules["survive_loaders"]


SLOW = pytest.mark.slow  # test_leaving.py and test_process_death.py do these without the benchmark


def done(case, loader, folder):
    paths = cases.write_files(folder / "files")
    make = loaders.LOADERS[loader][1]
    return cases.CASES[case].run(lambda **job: make(loaders.Job(paths, **job)), folder)


@pytest.mark.parametrize(
    ("case", "loader", "what"),
    [
        ("raises", "threads", "error names the file"),
        pytest.param("sys_exit", "processes", "error names the file", marks=SLOW),
        pytest.param("kill_one", "processes", "every row once", marks=SLOW),
        ("missing", "threads", "error names the file"), ("cut", "threads", "error names the file"),
        ("unpicklable", "processes", "error names the function"),
        ("resume", "threads", "the rest exactly"), ("draws", "threads", "the same"),
    ],
)  # fmt: skip
def test_dfgen_survives(case, loader, what, tmp_path):
    assert done(case, f"dfgen, {loader}", tmp_path) == survive.Outcome(True, what)


def test_a_loader_that_loses_and_doubles_rows_is_found_out():
    epoch = [(0, [row]) for row in range(cases.ROWS)]
    once = [*epoch, *((1, rows) for _, rows in epoch)]
    assert cases.came(iter(once)) == cases.EVERY_ROW
    assert cases.came(iter([*once[1:], once[-1]])).what == "1 rows lost, 1 doubled"


@pytest.mark.slow
@pytest.mark.alarm(150)
def test_a_program_that_is_killed_leaves_none_and_one_that_waits_for_ever_is_ended():
    assert survive.watch("parent", "dfgen, processes").good
    assert survive.watch("kill_one", "dfgen, processes", limit=0.1).what == "hangs"
