"""`make mutants ROOM=loading/order`: changes a room's code, and says which changes no test sees.

mutmut makes the mutants. Each is tried in a process of its own, in a copy of the checkout, by the
quick tests that run the function it is in, the fastest first. A run of all quick tests tells which
these are: the first time, and later for files of tests that have changed. `tests/mutants.toml` says
which mutants may live. mutmut leaves constants of a module and decorated functions as they are.

`SAMPLE=200` tries as many, always the same ones, and 201 others; `LIVING=1` those that lived last
time and may not.
"""

import ast
import gzip
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parents[1]
STAGE = HERE / "build/mutants"
KILLED = ("killed", "by time")
MOST = 200  # seconds that tests of one mutant took when they were measured
PATIENCE = 600  # seconds that they may take
CONFIG = """
[tool.mutmut]
source_paths = ["dfgen"]
only_mutate = {files}
do_not_mutate_patterns = ['^ *raise ', '^ *f"']  # the texts of errors, which tests hold in full
"""


@dataclass(frozen=True)
class Mutant:
    """A change of some lines of a function `name` or `Class.name`."""

    file: str  # below the root of the checkout
    function: str
    line: int
    was: tuple[str, ...]
    now: tuple[str, ...]

    @property
    def change(self):
        """What was, and what stands there now."""
        return " -> ".join(" ".join(map(str.strip, lines)) for lines in (self.was, self.now))

    def of(self, text):
        """The text of the file with this change."""
        lines = text.split("\n")
        assert lines[self.line - 1 :][: len(self.was)] == [*self.was], self
        return "\n".join(
            [*lines[: self.line - 1], *self.now, *lines[self.line - 1 + len(self.was) :]]
        )


# Which tests run a function


def pytest(arguments, folder, **options):
    """Run pytest on dfgen in a folder."""
    more = {"PYTHONPATH": str(folder), "COVERAGE_FILE": str(STAGE / "coverage")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    options |= {"env": {**os.environ, **more}, "encoding": "utf-8"}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, cwd=folder, **options)


def functions(path):
    """The first and last line of each function of a file, and its name."""
    for node in ast.parse(path.read_text("utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                yield each.lineno, each.end_lineno, owner + each.name


def measured():
    """Return "file::function" -> tests that run it, and test -> seconds, measured where unknown.

    All cases of a test count as one.
    """
    from coverage import CoverageData

    kept = STAGE / "tests.json.gz"
    known = json.loads(gzip.decompress(kept.read_bytes())) if kept.exists() else {}
    digests, tests, seconds = (known.get(one, {}) for one in ("digests", "tests", "seconds"))
    now = {
        str(path.relative_to(HERE)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(HERE.glob("tests/*/test_*.py"))
    }
    changed = {file for file in now if digests.get(file) != now[file]}
    if not changed:
        return tests, seconds
    print(f"measures which functions {len(changed)} files of tests run", flush=True)
    arguments = ["--cov=dfgen", "--cov-context=test", "--cov-report=", "--durations=0"]
    said = pytest(["-n", str(os.cpu_count()), *arguments, *sorted(changed)], HERE).stdout
    tests = {one: [t for t in by if t.split("::")[0] not in changed] for one, by in tests.items()}
    seconds = {one: took for one, took in seconds.items() if one.split("::")[0] not in changed}
    for took, test in re.findall(r"^ *([\d.]+)s (?:call|setup|teardown) +([^[\n]+)", said, re.M):
        seconds[test] = seconds.get(test, 0) + float(took)
    data = CoverageData(str(STAGE / "coverage"))
    data.read()
    for path in map(Path, data.measured_files()):
        by_line = data.contexts_by_lineno(str(path))
        for first, last, name in functions(path):
            found = {test for n in range(first, last + 1) for test in by_line.get(n, ())} - {""}
            of = f"{path.relative_to(HERE)}::{name}"
            tests[of] = sorted({*tests.get(of, ())} | {re.split(r"[|[]", one)[0] for one in found})
    known = {"digests": now, "tests": tests, "seconds": seconds}
    kept.write_bytes(gzip.compress(json.dumps(known).encode()))
    return tests, seconds


def tests_of(mutant, table, tests, seconds):
    """The tests that try a mutant, the fastest first: those of its function, or of its module."""
    here = f"{mutant.file}::"
    found = tests.get(here + mutant.function)
    found = found or {t for one, by in tests.items() if one.startswith(here) for t in by}
    if not found:  # of a module that other processes run
        return table.get(mutant.file.removeprefix("dfgen/").removesuffix(".py"), [])
    chosen, total = [], 0.0
    for test in sorted(found, key=lambda test: seconds.get(test, 0)):
        total += seconds.get(test, 0)
        if total < MOST or not chosen:
            chosen.append(test)
    return chosen


# The mutants


def mutants(room):
    """Have mutmut make all mutants of a room, in a copy of dfgen."""
    folder = STAGE / "made"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "dfgen", folder / "dfgen", ignore=shutil.ignore_patterns("__pycache__"))
    files = [*folder.glob(f"dfgen/{room}/*.py")] or [folder / f"dfgen/{room}.py"]
    config = CONFIG.format(files=json.dumps([str(file.relative_to(folder)) for file in files]))
    (folder / "pyproject.toml").write_text(config)
    os.chdir(folder)  # where mutmut looks for its settings as it is imported
    from mutmut import __main__ as mutmut
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    with redirect_stdout(io.StringIO()):  # a line for each file
        mutmut.copy_src_dir()
        mutmut.create_mutants(os.cpu_count())
    made, _ = mutmut.collect_source_file_mutation_data(mutant_names=())
    for data, name, _ in sorted(made, key=lambda one: one[1]):
        path = Path(data.path)
        lines = get_diff_for_mutant(name, path=path).splitlines()[3:]
        was, now = ([line[1:] for line in lines if line[0] == sign] for sign in "-+")
        function, owner = orig_function_and_class_names_from_key(name)
        function = f"{owner or ''}.{function}".lstrip(".")
        yield placed(str(path), path.read_text("utf-8").split("\n"), function, was, now)


def placed(file, text, function, was, now):
    """A mutant of the lines of a file, where mutmut shows its function without its indentation."""
    first, last = next(ends[:2] for ends in functions(Path(file)) if ends[2] == function)
    bare = [line.strip() for line in was]
    for line in range(first, last + 1):
        if [one.strip() for one in text[line - 1 :][: len(was)]] == bare:
            lines = text[line - 1 :][: len(was)]
            more = lines[0][: len(lines[0]) - len(was[0])]
            return Mutant(file, function, line, tuple(lines), tuple(more + one for one in now))
    raise LookupError(f"{file}: {function} has no lines {was}")


def tree(number):
    """A copy of what git knows of the checkout, in which a mutant is tried."""
    folder = STAGE / f"tree{number}"
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=HERE)
    for name in filter(None, listed.decode().split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(HERE / name, folder / name, follow_symlinks=False)
    return folder


def tried(mutant, folder, tests):
    """How a mutant ended: killed, survived, by time, or why it could not be tried."""
    if not tests:
        return "no test runs it"
    path = folder / mutant.file
    text = path.read_text("utf-8")
    path.write_text(mutant.of(text), "utf-8")
    try:
        code = pytest(["-x", "-n", "1", *tests], folder, timeout=PATIENCE).returncode
    except subprocess.TimeoutExpired:
        return "by time"
    finally:
        path.write_text(text, "utf-8")
    return {0: "survived", 4: "pytest finds not all its tests"}.get(code, "killed")


def main(room, sample=0, living=False):
    toml = tomllib.loads((HERE / "tests/mutants.toml").read_text("utf-8"))
    if not list((HERE / "dfgen").glob(f"{room}*")):
        sys.exit(f"ROOM={room} is neither a folder nor a module of dfgen")
    STAGE.mkdir(parents=True, exist_ok=True)
    tests, seconds = measured()
    allowed = {(f"dfgen/{a['file']}", c) for a in toml["accepted"] for c in a["changes"]}
    made, kept = [*mutants(room)], STAGE / f"{room.replace('/', '.')}.json"
    if living:
        lived = {tuple(one) for one in json.loads(kept.read_text())}
        made = [one for one in made if (one.file, one.function, one.change) in lived]
    elif sample and sample < len(made):
        made = random.Random(sample).sample(made, sample)
    trees = SimpleQueue()
    for number in range(os.cpu_count()):
        trees.put(tree(number))

    def end(mutant):
        folder = trees.get()
        try:
            return tried(mutant, folder, tests_of(mutant, toml["processes"], tests, seconds))
        finally:
            trees.put(folder)

    said, ends, may = [], [], set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, how in zip(made, pool.map(end, made), strict=True):
            ends.append(how)
            if how in KILLED:
                continue
            if (mutant.file, mutant.change) in allowed:
                may.add((mutant.file, mutant.change))
                continue
            said.append((mutant.file, mutant.function, mutant.change))
            shown = "" if how == "survived" else f"  [{how}]"
            print(f"{mutant.file}:{mutant.line}: {mutant.change}{shown}", flush=True)
    kept.write_text(json.dumps(said))
    if not sample and not living:
        gone = {one for one in allowed - may if one[0] in {mutant.file for mutant in made}}
        for file, change in sorted(gone):
            print(f"{file}: accepted, yet killed or not there: {change}")
    killed = sum(how in KILLED for how in ends)
    print(
        f"{room}: killed {killed} of {len(ends)} ({killed / max(1, len(ends)):.1%}), "
        f"{ends.count('by time')} by time, accepted {len(ends) - killed - len(said)}, "
        f"living {len(said)}"
    )
    sys.exit(bool(said) or killed < 0.9 * len(ends))


if __name__ == "__main__":
    sys.path.pop(0)  # the tests of the copy are imported, not those beside this file
    main(sys.argv[1], int(os.environ.get("SAMPLE", 0)), bool(os.environ.get("LIVING")))
