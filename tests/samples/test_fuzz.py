"""A damaged file gives an array, a manifest or an error of dfgen that names it.

`damage.py` makes the files, `fuzzing.py` reads them in a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import KINDS, case
from fuzzing import ALARM

import dfgen
from dfgen.errors import ManifestError

TESTS = Path(__file__).parents[1]
AGAIN = "python tests/fuzzing.py"
FEW, STEP, ALL = 2_000, 1_000, 100_000
LEFT = {"threads": 0, "bytes": 64 * 2**20}
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
    findings = []
    while first < last:
        first, found, done = read(folder / "log", first, last)
        findings += found
    assert findings == [], "\n\n".join(findings)
    counts, (before, after) = done
    assert {kind: count[0] for kind, count in counts.items()}.keys() == {*KINDS}
    assert after["descriptors"] == before["descriptors"]
    grown = {name: after[name] - before[name] for name in LEFT}
    assert all(grown[name] <= most for name, most in LEFT.items()), (before, after)
    return counts


def test_case_is_independent_of_earlier_cases():
    numbers = [(kind, number) for number in range(3) for kind in KINDS]
    first = {each: case(*each) for each in numbers}
    assert {each: case(*each) for each in reversed(numbers)} == first
    assert len({*first.values()}) > 2 * len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, FEW, STEP))
def test_damaged_files_give_arrays_or_named_errors(tmp_path, first):
    check(tmp_path, first, first + STEP)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(FEW, ALL, 10 * STEP - FEW // 10))
def test_a_hundred_thousand_damaged_files_do(tmp_path, first):
    check(tmp_path, first, min(ALL, first + 10 * STEP - FEW // 10))


# -- what was found ------------------------------------------------------------------------------

FOOTER = """
import sys
from pathlib import Path
from dfgen.errors import DfgenError
from dfgen.manifest.building.build import build_manifest
path, broken = Path(sys.argv[1]), Path(sys.argv[2])
data, refused = path.read_bytes(), 0
for at in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data) - 8):
    broken.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    try:
        build_manifest(labels=str(broken), path_column="path", facts="none")
    except DfgenError as error:
        refused += broken.name in str(error)
print(refused)
"""


@pytest.mark.slow
def test_damaged_list_table_footer_never_ends_the_process(tmp_path):
    """PyArrow's description of a column throws where nobody catches."""
    boxes = pa.array([[[1.0, 2, 3, 4]], [], None])
    pq.write_table(pa.table({"path": ["0", "1", "2"], "boxes": boxes}), tmp_path / "whole.parquet")
    places = tmp_path / "whole.parquet", tmp_path / "broken.parquet"
    command = [sys.executable, "-W", "ignore", "-c", FOOTER, *places]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 20


def test_non_utf8_text_in_parquet_is_rejected(tmp_path):
    path = tmp_path / "labels.parquet"
    table = pa.table({"path": ["Katze.jpg", "b.jpg"], "kind": ["cat", "dog"]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"Katze", b"K\xe4tze"))
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(labels=path, path_column="path", facts="none")
    assert str(caught.value).startswith(f"{path} cannot be read as .parquet: ")
    assert "Invalid UTF8 sequence" in str(caught.value)
