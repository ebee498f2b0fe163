"""Each fault that docs/about/faults.md lists has a test of its number, and each such test a row."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/about/faults.md"
NARROWED = {
    33: "where no tmpfs may be mounted, it is skipped",
    57: "where no group of processes may be made, as without root and cgroup 1, it is skipped",
    59: "where no tmpfs may be mounted, it is skipped",
}
"""Which case cannot be tried everywhere; each has a test of the rest."""


def test_each_fault_of_the_page_has_a_test_and_each_test_its_fault():
    tried = {
        int(number)
        for path in TESTS.rglob("test_*.py")
        for number in re.findall(r"^ *def test_fault_(\d\d\d?)_", path.read_text("utf-8"), re.M)
    }
    listed = [*map(int, re.findall(r"^\| (\d\d\d?) \|", PAGE.read_text("utf-8"), re.M))]
    assert listed == sorted(tried)
    assert tried >= {*range(1, 53)}
    assert tried >= NARROWED.keys()
