"""`make mutants ROOM=loading/order`: changes a room's code, and says which changes no test sees.

mutmut makes the mutants. Each is tried in a process of its own, in a copy of the checkout, by the
quick tests that run the function it is in, the fastest first. A run of all quick tests tells which
these are: the first time, and later for files of tests that have changed; after code has moved to
another module, delete build/mutants. `tests/mutants.toml` says which mutants may live. mutmut
leaves constants of a module and decorated functions as they are.

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
import signal
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue

import psutil

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
        lines, place = text.split("\n"), slice(self.line - 1, self.line - 1 + len(self.was))
        assert lines[place] == [*self.was], self
        lines[place] = self.now
        return "\n".join(lines)


# Which tests run a function


def pytest(arguments, folder, seconds=None):
    """Run pytest in a copy of the checkout; return how it ended, and what it said.

    Whatever it leaves behind is ended; None: it was, after so many seconds.
    """
    more = {"PYTHONPATH": str(folder), "COVERAGE_FILE": str(STAGE / "coverage")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    options = {"cwd": folder, "env": os.environ | more, "encoding": "utf-8"}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, said


def functions(path):
    """Each function of a file with its name."""
    for node in ast.parse(path.read_text("utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner:
            if isinstance(each, ast.FunctionDef):
                yield each, owner + each.name


def measured(folder):
    """Return "file::function" -> tests that run it, and test -> seconds.

    Files of tests that are not known as they are, are measured in a copy of the checkout.
    """
    kept = STAGE / "tests.json.gz"
    known = json.loads(gzip.decompress(kept.read_bytes())) if kept.exists() else {}
    digests, tests, seconds = (known.get(one, {}) for one in ("digests", "tests", "seconds"))
    now = {
        str(path.relative_to(HERE)): sha256(path.read_bytes()).hexdigest()
        for path in HERE.glob("tests/*/test_*.py")
    }
    same = {file for file, digest in digests.items() if now.get(file) == digest}
    tests = {of: [one for one in by if file_of(one) in same] for of, by in tests.items()}
    seconds = {one: took for one, took in seconds.items() if file_of(one) in same}
    if changed := sorted(now.keys() - same):
        for test in sorted(measure(changed, folder, tests, seconds)):
            print(f"{test} fails without any change, and tries none")
            now.pop(file_of(test), None)  # it is measured again
        known = {"digests": now, "tests": tests, "seconds": seconds}
        kept.write_bytes(gzip.compress(json.dumps(known).encode()))
    return tests, seconds


def measure(files, folder, tests, seconds):
    """Add what files of tests run, all cases of a test as one; return the tests that fail."""
    from coverage import CoverageData

    print(f"measures which functions {len(files)} files of tests run", flush=True)
    arguments = ["--cov=dfgen", "--cov-context=test", "--cov-report=", "--durations=0"]
    code, said = pytest(["-n", str(os.cpu_count()), *arguments, *files], folder)
    if code not in (0, 1):
        sys.exit(said)
    failed = {*re.findall(r"^(?:FAILED|ERROR) ([^[\s]+)", said, re.M)}
    for took, test in re.findall(r"^ *([\d.]+)s (?:call|setup|teardown) +([^[\n]+)", said, re.M):
        seconds[test] = seconds.get(test, 0) + float(took)
    data = CoverageData(str(STAGE / "coverage"))
    data.read()
    for path in map(Path, data.measured_files()):
        by_line = data.contexts_by_lineno(str(path))
        for node, name in functions(path):
            body = range(node.body[0].lineno, node.end_lineno + 1)
            found = {re.split(r"[|[]", test)[0] for n in body for test in by_line.get(n, ())}
            of = f"{path.relative_to(folder)}::{name}"
            tests[of] = sorted({*tests.get(of, ())} | found - failed - {""})
    return failed


def file_of(test):
    """The file of a test."""
    return test.partition("::")[0]


def tests_of(mutant, processes, tests, seconds):
    """The tests that try a mutant, the fastest first.

    Those of its function; else those that start processes of its module; else all of its module.
    """
    here = f"{mutant.file}::"
    found = tests.get(here + mutant.function)
    found = found or processes.get(mutant.file.removeprefix("dfgen/").removesuffix(".py"))
    found = found or {t for one, by in tests.items() if one.startswith(here) for t in by}
    chosen = sorted(found, key=lambda test: seconds.get(test, 0))
    totals = accumulate(seconds.get(test, 0) for test in chosen)
    return chosen[: max(1, sum(total < MOST for total in totals))]


# The mutants


def mutants(files):
    """Have mutmut make all mutants of some files, in a copy of dfgen."""
    folder = STAGE / "made"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "dfgen", folder / "dfgen", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").write_text(CONFIG.format(files=json.dumps(files)))
    os.chdir(folder)  # where mutmut looks for its settings as it is imported
    from mutmut import __main__ as mutmut
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    with redirect_stdout(io.StringIO()):  # a line for each file
        mutmut.copy_src_dir()
        mutmut.create_mutants(os.cpu_count())
    made, _ = mutmut.collect_source_file_mutation_data(mutant_names=())
    for data, name, _ in sorted(made, key=lambda one: one[1]):
        diff = get_diff_for_mutant(name, path=data.path).splitlines()[2:]
        function, owner = orig_function_and_class_names_from_key(name)
        yield placed(str(data.path), f"{owner or ''}.{function}".lstrip("."), diff)


def placed(file, function, diff):
    """A mutant by how mutmut shows it: the change of its function without its indentation."""
    text = Path(file).read_text("utf-8").split("\n")
    node = next(node for node, name in functions(Path(file)) if name == function)
    was, now = ([line[1:] for line in diff if line[0] == sign] for sign in "-+")
    bare = [line.strip() for line in was]
    near = int(re.match(r"@@ -(\d+)", diff[0])[1]) + [line[0] for line in diff].index("-")
    near += node.lineno - 2  # if no comment stands above the function
    found = [
        at
        for at in range(node.lineno, node.end_lineno + 1)
        if [line.strip() for line in text[at - 1 :][: len(was)]] == bare
    ]
    line = min(found, key=lambda at: abs(at - near))
    lines = text[line - 1 :][: len(was)]
    indent = lines[0].removesuffix(was[0])
    return Mutant(file, function, line, tuple(lines), tuple(indent + one for one in now))


def tree(number):
    """A copy of what git knows of the checkout, in which a mutant is tried."""
    folder = STAGE / f"tree{number}"
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=HERE)
    for name in filter(None, listed.decode().split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # it was deleted, and git is not told yet
            shutil.copy2(HERE / name, folder / name, follow_symlinks=False)
    return folder


def tried(mutant, tests, free):
    """How a mutant ended: killed, survived, by time, or why it could not be tried."""
    if not tests:
        return "no test runs it"
    folder = free.get()
    path = folder / mutant.file
    text = path.read_text("utf-8")
    try:
        path.write_text(mutant.of(text), "utf-8")
        # in a process below pytest's own, since a mutant may end it as if all were well
        code, _ = pytest(["-x", "-n", "1", *tests], folder, PATIENCE)
    finally:
        path.write_text(text, "utf-8")
        free.put(folder)
    ends = {None: "by time", 0: "survived", 5: "pytest does not find all its tests"}
    return ends.get(code, "killed")


def each_tried(mutants, tests, folders):
    """Try mutants, each by its tests, as many at once as there are copies; yield how they end."""
    free = SimpleQueue()
    for folder in folders:
        free.put(folder)
    with ThreadPoolExecutor(len(folders)) as pool:
        try:
            yield from pool.map(partial(tried, free=free), mutants, tests)
        except BaseException:  # as of Ctrl-C, which does not reach their sessions
            for process in psutil.Process().children():
                process.kill()
            raise


def main(room, sample=0, living=False):
    files = [*HERE.glob(f"dfgen/{room}/*.py")] or [*HERE.glob(f"dfgen/{room}.py")]
    if not files:
        sys.exit(f"ROOM={room} is neither a folder nor a module of dfgen")
    toml = tomllib.loads((HERE / "tests/mutants.toml").read_text("utf-8"))
    allowed = {(f"dfgen/{a['file']}", c) for a in toml["accepted"] for c in a["changes"]}
    made = [*mutants([str(file.relative_to(HERE)) for file in files])]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folders = [tree(number) for number in range(os.cpu_count())]
    tests, seconds = measured(folders[0])
    kept = STAGE / f"{room.replace('/', '.')}.json"
    if living:
        last = {tuple(one) for one in json.loads(kept.read_text())}
        made = [one for one in made if (one.file, one.function, one.change) in last]
    elif sample and sample < len(made):
        made = random.Random(sample).sample(made, sample)
    chosen = [tests_of(mutant, toml["processes"], tests, seconds) for mutant in made]
    said, ends, lived = [], [], set()
    for mutant, how in zip(made, each_tried(made, chosen, folders), strict=True):
        ends.append(how)
        if how in KILLED:
            continue
        lived.add((mutant.file, mutant.change))
        if (mutant.file, mutant.change) not in allowed:
            said.append((mutant.file, mutant.function, mutant.change))
            shown = "" if how == "survived" else f"  [{how}]"
            print(f"{mutant.file}:{mutant.line}: {mutant.change}{shown}", flush=True)
    kept.write_text(json.dumps(said))
    if not sample and not living:
        tried_files = {mutant.file for mutant in made}
        for file, change in sorted(allowed - lived):
            if file in tried_files:
                print(f"{file}: accepted, yet killed or not there: {change}")
    killed = sum(how in KILLED for how in ends)
    print(
        f"{room}: killed {killed} of {len(ends)} ({killed / max(1, len(ends)):.1%}), "
        f"{ends.count('by time')} by time, accepted {len(ends) - killed - len(said)}, "
        f"living {len(said)}"
    )
    sys.exit(bool(said) or killed < 0.9 * len(ends))


if __name__ == "__main__":
    options = {"sample": int(os.environ.get("SAMPLE", 0)), "living": bool(os.environ.get("LIVING"))}
    main(*sys.argv[1:], **options)
