"""`make fuzz SECONDS=60`: damaged files of all kinds, from where the last run ended.

python tests/fuzz.py SECONDS

Reads the corpus of `tests/data/fuzz` first, then cases by number in chunks, each in a process of
its own. What crashes it, hangs, prints, takes much memory or raises what is not dfgen's is told,
its input saved in the corpus as KIND-NUMBER, and the exit code is 1. How far it came is kept in
`build/fuzz`.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from damage import KINDS, MORE, case
from fuzzing import ALARM

HERE = Path(__file__).parent
CORPUS, PLACE = HERE / "data/fuzz", HERE.parent / "build/fuzz/next"
ALL, CHUNK = (*KINDS, *MORE), 200


def read(first: int, last: int) -> tuple[int, list[tuple[str, int, str]]]:
    """Read cases; return where the next ones begin, and (kind, number, what) of each finding."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        command = [sys.executable, HERE / "fuzzing.py", log, str(first), str(last), "more"]
        limit = 2 * ALARM + (last - first)
        done = subprocess.run(command, timeout=limit, stdin=subprocess.DEVNULL, capture_output=True)
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        found = [(kind, number, what) for key, kind, number, what, *_ in
                 (line for line in lines if line[0] == "found")]  # fmt: skip
        if lines and lines[-1][0] == "done":
            return last, found
        if not lines:
            raise RuntimeError(done.stderr.decode())
        at = next(line[1] for line in reversed(lines) if line[0] == "begin")
        printed = Path(f"{log}.printed").read_text(errors="replace")[-2000:]
        return at + 1, [*found, (ALL[at % len(ALL)], at // len(ALL), f"ended it: {printed}")]


def replayed() -> list[str]:
    """Return what is wrong with the files of the corpus."""
    wrong = []
    for path in sorted(CORPUS.iterdir()) if CORPUS.is_dir() else []:
        command = [sys.executable, HERE / "fuzzing.py", path.name.partition("-")[0], path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5 * ALARM)
        if done.returncode:
            wrong.append(f"{path.name}: {done.stderr[-2000:]}")
    return wrong


def main(seconds: float) -> int:
    """Return 1 if anything was found."""
    end, wrong = time.monotonic() + seconds, replayed()
    first = begun = int(PLACE.read_text()) if PLACE.exists() else 0
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    while time.monotonic() < end:
        first, found = read(first, first + CHUNK)
        for kind, number, what in found:
            CORPUS.mkdir(exist_ok=True)
            (CORPUS / f"{kind}-{number}").write_bytes(case(kind, number))
            wrong.append(f"{kind}-{number}: {what}")
        PLACE.write_text(str(first))
    print(*wrong, f"cases {begun} to {first - 1}: {len(wrong)} found", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
