"""The public names, what an import loads, and that these tests use public names alone."""

import ast
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dfgen
import dfgen.errors
import dfgen.explore

MODULES = {"errors", "explore", "migrate"}
PUBLIC = {
    *("duplicates", "leaks"),
    *("read_manifest", "write_manifest", "build_manifest", "verify", "split", "sequences", "diff"),
    *("update_labels", "pack", "predict_frame", "load_preprocessing", "BackupAndRestore"),
    *("InputMonitor", "Limits", "DfgenError", "albumentations", "Feature", "Spec", "Sequence"),
    *("Preprocessing", "Array", "Audio", "Boxes", "Bytes", "Category", "Column", "Image"),
    *("Keypoints", "Mask", "MultiLabel", "Number", "Segmentation", "Text"),
}
ERRORS = {
    OSError: ["WriteError", "ReadError"],
    ValueError: ["ArgumentError", "ManifestError", "DecodeError"],
    RuntimeError: ["ProblemsError", "TransformError", "WorkerError"],
    TypeError: ["UnknownArgumentError"],
    ImportError: ["MissingPackageError"],
    FileNotFoundError: ["MissingFileError"],
    TimeoutError: ["ReadTimeoutError"],
}
FILES = sorted(Path(__file__).parent.glob("*.py"))


def uses(tree):
    """Yield the dotted names of dfgen that a module imports, reads or has in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = re.sub(r"from (dfgen[\w.]*) import ", r"\1.", node.value)
            yield from re.findall(r"\bdfgen(?:\.\w+)+", text)


def is_public(name):
    first, _, rest = name.removeprefix("dfgen.").partition(".")
    known = first in PUBLIC | MODULES | {"__version__", "__all__", "__file__"}
    return known and not (first in MODULES and rest.startswith("_"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tests_use_public_names_alone(path):
    names = {name for name in uses(ast.parse(path.read_text())) if name.startswith("dfgen.")}
    assert [name for name in sorted(names) if not is_public(name)] == []


@pytest.mark.parametrize("name", ["loading", "errors._x", "check", "cli"])
def test_internal_names_are_noticed(name):
    package, _, last = f"dfgen.{name}".rpartition(".")
    for code in (f"import {package}.{last}", f"from {package} import {last}"):
        assert not all(map(is_public, uses(ast.parse(code))))
        assert not all(map(is_public, uses(ast.parse(f"run('x; {code}')"))))


def test_imports_and_builds_load_no_keras(tmp_path):
    code = """if True:
        import json, sys
        heavy = ["keras", "tensorflow", "jax", "torch", "matplotlib", "pandas", "numpy", "pyarrow"]
        loaded = lambda: [name for name in heavy if name in sys.modules]
        import dfgen, dfgen.errors
        first = dir(dfgen), loaded()
        df = dfgen.build_manifest(sys.argv[1])
        dfgen.split(df, folds=2), dfgen.Limits(), dfgen.Image("path")
        print(json.dumps([*first, loaded()]))"""
    for row in range(2):
        (tmp_path / f"{row}.pgm").write_bytes(b"P5 1 1 255 " + bytes([row]))
    command = [sys.executable, "-c", code, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names, at_once, later = json.loads(done.stdout)
    assert names == sorted([*dfgen.__all__, "__version__"]) and not hasattr(dfgen, "Sequense")
    assert at_once == [] and not {*later} & {"keras", "tensorflow", "jax", "torch", "matplotlib"}


def test_public_names_are_those_of_the_design():
    assert {*dfgen.__all__} == PUBLIC


FIGURES = ["show", "show_balance", "show_sizes", "show_duplicates", "show_leaks"]
FRAMES = ["classes", "problems", "mistakes"]


@pytest.mark.parametrize("name", [*sorted(PUBLIC), *FIGURES, *FRAMES])
def test_public_names_are_documented(name):
    documentation = getattr(dfgen if name in PUBLIC else dfgen.explore, name).__doc__
    assert documentation and not documentation.startswith(f"{name}("), "written by dataclass"
    assert ">>>" in documentation or name in ("DfgenError", "Feature", "Spec")


@pytest.mark.parametrize("builtin", ERRORS, ids=lambda error: error.__name__)
def test_errors_are_those_of_dfgen_and_of_python(builtin):
    for name in ERRORS[builtin]:
        error = getattr(dfgen.errors, name)
        assert issubclass(error, dfgen.DfgenError) and issubclass(error, builtin) and error.__doc__
        copy = pickle.loads(pickle.dumps(error("row id=3")))
        assert type(copy) is error and str(copy) == "row id=3"


def test_these_tests_have_at_most_7000_lines():
    assert sum(len(path.read_text().splitlines()) for path in FILES) <= 7000
