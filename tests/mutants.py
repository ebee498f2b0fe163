"""`make mutants ROOM=loading/order`: changes a room's code, and says which changes no test sees.

mutmut makes the mutants, in a copy in build/mutants, and tries each with the tests that call its
function, the fastest first. `tests/mutants.toml` says which tests try a room, and which mutants may
live. mutmut leaves constants of a module and decorated functions as they are.

`SAMPLE=200` tries as many, always the same ones, and 201 others; `LIVING=1` those that lived last
time and may not.
"""

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
KILLED = ("killed", "timeout", "segfault", "suspicious")
CONFIG = """
[tool.mutmut]
source_paths = ["dfgen"]
also_copy = ["benchmarks", "docs", "manifests"]
only_mutate = {files}
do_not_mutate_patterns = ['^ *raise ', '^ *f"']  # the texts of errors, which tests hold in full
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "tests.mutants"]
pytest_add_cli_args_test_selection = {tests}
process_isolation = "forkserver"  # imports once
timeout_multiplier = 10.0
timeout_constant = 5.0
"""


def pytest_sessionstart():
    """As a plugin of pytest in the copy: an example that kills a mutant is not made smaller.

    Processes that tests start do not tell mutmut which functions they call: in another folder they
    would not find its settings. Mutants of a module are told by its name, which `-m` takes from it.
    The code between a function and its mutants counts as dfgen's, for code that looks at its
    callers.
    """
    from hypothesis import Phase, settings
    from mutmut.mutation import trampoline

    class Popen(subprocess.Popen):
        def __init__(self, args, *rest, env=None, **options):
            env = {**(os.environ if env is None else env), "MUTMUT_DEPENDENCY_DEPTH": "0"}
            match args:
                case [python, "-P", "-m", module, *given] if module.startswith("dfgen."):
                    args = [python, "-P", "-c", f"from {module} import main; main()", *given]
            super().__init__(args, *rest, env=env, **options)

    subprocess.Popen = Popen
    trampoline.__name__ = "dfgen.trampoline"

    phases, own = [Phase.explicit, Phase.generate], settings.get_profile("dfgen")
    settings.register_profile("mutants", own, phases=phases)
    settings.load_profile("mutants")


def pytest_collection_modifyitems(items):
    """Have the fastest tests first."""
    times = Path("mutmut-stats.json")
    seconds = json.loads(times.read_text())["duration_by_test"] if times.exists() else {}
    items.sort(key=lambda item: seconds.get(item.nodeid, 0))


def copied(room, tests, anew):
    """A folder with what mutmut needs: the files of the checkout stay as they are."""
    stage = HERE / "build/mutants" / room.replace("/", ".")
    if anew:
        shutil.rmtree(stage, ignore_errors=True)
    for folder in ("dfgen", "tests", "docs", "manifests", "benchmarks"):
        shutil.rmtree(stage / folder, ignore_errors=True)
        shutil.copytree(HERE / folder, stage / folder, ignore=shutil.ignore_patterns("__pycache__"))
    files = [*stage.glob(f"dfgen/{room}/*.py")] or [stage / f"dfgen/{room}.py"]
    config = CONFIG.format(
        files=json.dumps([str(file.relative_to(stage)) for file in files]),
        tests=json.dumps([f"tests/{t}" for t in tests]),
    )
    (stage / "pyproject.toml").write_text((HERE / "pyproject.toml").read_text("utf-8") + config)
    return stage


def line_of(path, function, removed):
    """The line of the first of the removed lines, in a function `name` or `Class.name`."""
    owner, _, name = function.rpartition(".")
    tree = ast.parse(path.read_text("utf-8"))
    owners = [node for node in tree.body if getattr(node, "name", None) == owner] or [tree]
    start = next(n.lineno for n in owners[0].body if getattr(n, "name", None) == name)
    lines = path.read_text("utf-8").splitlines()
    at = (i for i, line in enumerate(lines, 1) if i >= start and line.strip() == removed[0])
    return next(at, start)


def change_of(name, path):
    """Return (line, "what was -> what stands there now") of a mutant."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    lines = get_diff_for_mutant(name, path=path).splitlines()[3:]
    was, now = ([line[1:].strip() for line in lines if line[0] == sign] for sign in "-+")
    function, owner = orig_function_and_class_names_from_key(name)
    line = line_of(path, f"{owner or ''}.{function}".lstrip("."), was)
    return line, f"{' '.join(was)} -> {' '.join(now)}"


def tried(sample, living, jobs, allowed):
    """Run mutmut; return mutant -> (file, how it ended), of those that were to be tried."""
    from mutmut import __main__ as mutmut
    from mutmut.state import state
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.format_utils import mangled_name_from_mutant_name

    def collect(*args, found=mutmut.collect_or_load_stats, **options):
        """Have all tests try what none calls in its own process: a worker of theirs may call it."""
        found(*args, **options)
        for function in {mangled_name_from_mutant_name(name) for name in names}:
            callers = state().tests_by_mangled_function_name[function]
            callers |= set() if callers else set(state().duration_by_test)

    mutmut.collect_or_load_stats = collect

    def ends():
        found, _ = mutmut.collect_source_file_mutation_data(mutant_names=())
        said = status_by_exit_code | {255: "not tried: pytest finds not all the tests"}
        return {name: (data.path, said[code]) for data, name, code in found}

    def lived(name, path, end):
        lives = end == "survived" and (str(path), change_of(name, path)[1]) not in allowed
        return lives or end not in ("survived", "not checked", *KILLED)

    mutmut.copy_src_dir()
    mutmut.create_mutants(jobs)
    names = sorted(name for name, end in ends().items() if not living or lived(name, *end))
    if sample and sample < len(names):
        names = sorted(random.Random(sample).sample(names, sample))
    if names:
        mutmut._run(names if sample or living else (), jobs)
    return {name: end for name, end in ends().items() if living or name in set(names)}


def main(room, sample=0, living=False):
    table = tomllib.loads((HERE / "tests/mutants.toml").read_text("utf-8"))
    tests = next((t for r, t in table["tests"].items() if f"{room}/".startswith(f"{r}/")), None)
    if tests is None or not list((HERE / "dfgen").glob(f"{room}*")):
        rooms = ", ".join(table["tests"])
        sys.exit(f"ROOM={room} is no room of tests/mutants.toml, nor a module in one: {rooms}")
    # TensorFlow and JAX wait for ever in a process that was forked from one that has used them.
    os.environ |= {"KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"}
    os.chdir(copied(room, tests, anew=not living))
    allowed = {(f"dfgen/{a['file']}", c) for a in table["accepted"] for c in a["changes"]}
    ends = tried(sample, living, os.cpu_count(), allowed)
    said, met = [], set()
    for name, (path, end) in ends.items():
        if end not in KILLED:
            line, change = change_of(name, path)
            met.add((str(path), change))
            if (str(path), change) not in allowed:
                said.append(f"{path}:{line}: {change}{'' if end == 'survived' else f'  [{end}]'}")
    killed, late = (sum(end in of for _, end in ends.values()) for of in (KILLED, ["timeout"]))
    lives = len(said)
    if not sample and not living:
        files = {str(path) for path, _ in ends.values()}
        gone = sorted((path, change) for path, change in allowed - met if path in files)
        said += [f"{path}: accepted, yet killed or not there: {change}" for path, change in gone]
    print(*said, "", sep="\n")
    print(
        f"{room}: killed {killed} of {len(ends)} ({killed / len(ends):.1%}), {late} by time, "
        f"accepted {len(ends) - killed - lives}, living {lives}"
    )
    sys.exit(lives > 0 or killed < 0.9 * len(ends))


if __name__ == "__main__":
    sys.path.pop(0)  # the tests of the copy are imported, not those beside this file
    main(sys.argv[1], int(os.environ.get("SAMPLE", 0)), bool(os.environ.get("LIVING")))
