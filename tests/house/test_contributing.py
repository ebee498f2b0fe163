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


def test_each_room_has_tests_that_try_its_mutants():
    table = tomllib.loads((HOUSE / "tests/mutants.toml").read_text("utf-8"))["tests"]
    rooms = {path.stem for path in PACKAGE.iterdir() if [*path.glob("*.py")]}
    modules = {path.stem for path in PACKAGE.glob("[a-z]*.py")}
    tried = {room.partition("/")[0] for room in table}
    assert (rooms | modules) - tried == {"commands", "explain"}
    named = {name.partition("::")[0] for tests in table.values() for name in tests}
    assert [name for name in sorted(named) if not (HOUSE / "tests" / name).exists()] == []
