"""CONTRIBUTING and the code map name files and folders that are there."""

import re
import tomllib
from pathlib import Path

import dfgen

PACKAGE = Path(dfgen.__file__).parent
HOUSE = PACKAGE.parent
PAGE = (HOUSE / "CONTRIBUTING.md").read_text("utf-8")
TREE = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
MAP = (HOUSE / "docs/about/code-map.md").read_text("utf-8")
NAMED = re.findall(r"`([\w./-]+(?:\.py|\.toml|\.md|/))`", PAGE + MAP)


def is_there(name):
    """Whether a name is a path in the repository or in dfgen/, or the name of one module of it."""
    paths = [root / name for root in (HOUSE, PACKAGE)]
    return any(path.exists() for path in paths) or len([*PACKAGE.rglob(name)]) == 1


def test_each_file_and_folder_that_contributing_names_is_there():
    names = {*NAMED, *(line.split()[0] for line in TREE.splitlines())}
    assert [name for name in sorted(names) if not is_there(name)] == []


def test_contributing_names_files_at_all():
    assert len(NAMED) > 60 and len(TREE.splitlines()) > 12


def test_mutants_are_told_of_files_that_are_there():
    table = tomllib.loads((HOUSE / "tests/mutants.toml").read_text("utf-8"))
    modules = {one["file"] for one in table["accepted"]} | {f"{m}.py" for m in table["processes"]}
    assert [name for name in sorted(modules) if not (PACKAGE / name).exists()] == []
    tests = {name for named in table["processes"].values() for name in named}
    assert [name for name in sorted(tests) if not (HOUSE / name).exists()] == []
