"""Each of the fifty-two cases of faults that dfgen survives has a test here."""

import re
from pathlib import Path

NARROWED = {
    33: "where no tmpfs may be mounted, it is skipped",
    35: "there are no remote stores yet: their addresses are refused by name",
}
"""What a case is about and cannot apply yet, or not everywhere; each has a test of the rest."""


def test_each_case_has_a_test():
    found = {
        int(number)
        for path in Path(__file__).parent.glob("test_*.py")
        for number in re.findall(r"^def test_fault_(\d\d)_", path.read_text("utf-8"), re.M)
    }
    assert found == {*range(1, 53)}
    assert found >= NARROWED.keys()
