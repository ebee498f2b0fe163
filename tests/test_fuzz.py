"""A damaged file gives an array, a manifest or an error of dfgen that names it, and nothing else.

`damage.py` makes the files, `fuzzing.py` reads them in a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from damage import KINDS, case
from fuzzing import ALARM

TESTS = Path(__file__).parent
AGAIN = "python tests/fuzzing.py"
FEW, STEP, ALL = 2_000, 1_000, 100_000
LEFT = {"descriptors": 0, "threads": 0, "bytes": 64 * 2**20}
"""What the later cases of a process may leave behind, for good."""

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="/proc tells of a process")


def read(log, first, last):
    """Read cases in a process; return where the next one has to begin, and what was found."""
    command = [sys.executable, TESTS / "fuzzing.py", log, str(first), str(last)]
    net = ALARM + (last - first) / 10
    done = subprocess.run(command, timeout=net, stdin=subprocess.DEVNULL, capture_output=True)
    told = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = [
        f"{AGAIN} {kind} {number}: {what}" for key, kind, number, what, *_ in
        (line for line in told if line[0] == "found")
    ]  # fmt: skip
    if told and told[-1][0] == "done":
        return last, found, told[-1][1:]
    assert told, done.stderr.decode()
    at = next(line[1] for line in reversed(told) if line[0] == "begin")
    number, kind = divmod(at, len(KINDS))
    printed = Path(f"{log}.printed").read_text(errors="replace")[-3000:]
    found.append(f"{AGAIN} {KINDS[kind]} {number}: ends by {done.returncode}: {printed}")
    log.unlink()
    return at + 1, found, None


def check(folder, first, last):
    findings, left = [], None
    while first < last:
        first, found, done = read(folder / "log", first, last)
        findings += found
    assert findings == [], "\n\n".join(findings)
    counts, (before, after) = done
    assert {kind: count[0] for kind, count in counts.items()}.keys() == {*KINDS}
    grown = {name: after[name] - before[name] for name in LEFT}
    assert all(grown[name] <= most for name, most in LEFT.items()), (before, after)
    return counts


def test_a_case_is_the_same_whatever_was_made_before():
    numbers = [(kind, number) for number in range(3) for kind in KINDS]
    first = {each: case(*each) for each in numbers}
    assert {each: case(*each) for each in reversed(numbers)} == first
    assert len({*first.values()}) > 2 * len(KINDS)


@pytest.mark.parametrize("first", range(0, FEW, STEP))
def test_two_thousand_damaged_files_give_arrays_or_errors_that_name_them(tmp_path, first):
    check(tmp_path, first, first + STEP)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(FEW, ALL, 10 * STEP - FEW // 10))
def test_a_hundred_thousand_damaged_files_do(tmp_path, first):
    check(tmp_path, first, min(ALL, first + 10 * STEP - FEW // 10))
