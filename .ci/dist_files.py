"""Looks into the sdist and the wheel in a folder: `dist_files.py DIST`.

A wheel holds what dfgen/ holds, its licences and nothing else. `twine check` looks at the
text of both.
"""

import email
import sys
import tarfile
import zipfile
from pathlib import Path

from trove_classifiers import classifiers

HOUSE = Path(__file__).parent.parent
WHEEL = [*Path(sys.argv[1]).glob("*.whl")]
SDIST = [*Path(sys.argv[1]).glob("*.tar.gz")]
IN_WHEEL = {"METADATA", "WHEEL", "RECORD", "entry_points.txt"}
LICENCES = {f"licenses/{name}" for name in ("LICENSE", "dfgen/data/LICENSE")}
NEEDED = {
    "dfgen/py.typed",
    "dfgen/__init__.pyi",
    "dfgen/data/digits.csv.gz",
    "dfgen/data/photographs.zip",
}
OF_SOURCES = {
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "Makefile",
    "tests/conftest.py",
}


def expect(what: str, found: set[str], wanted: set[str]) -> None:
    """Leave with the difference, if there is one."""
    if found != wanted:
        sys.exit(f"{what}: too much {sorted(found - wanted)}, missing {sorted(wanted - found)}")


def main() -> None:
    """Look into both, and print a line for each."""
    if len(WHEEL) != 1 or len(SDIST) != 1:
        sys.exit(f"one wheel and one sdist are wanted in {sys.argv[1]}, not {WHEEL + SDIST}")
    ours = {
        path.relative_to(HOUSE).as_posix()
        for path in (HOUSE / "dfgen").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(WHEEL[0]) as wheel:
        names = set(wheel.namelist())
        info = next(name.partition("/")[0] for name in names if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    expect(WHEEL[0].name, names, ours | {f"{info}/{name}" for name in IN_WHEEL | LICENCES})
    expect("what dfgen needs to run", names & NEEDED, NEEDED)
    expect("classifiers", set(metadata.get_all("Classifier")) - classifiers, set())
    print(f"{WHEEL[0].name}: {len(ours)} files of dfgen/, {len(LICENCES)} licences, no tests")
    with tarfile.open(SDIST[0]) as sdist:
        top = SDIST[0].name.removesuffix(".tar.gz")
        held = {one.name.removeprefix(f"{top}/") for one in sdist if not one.isdir()}
    expect(SDIST[0].name, held & (ours | OF_SOURCES), ours | OF_SOURCES)
    print(f"{SDIST[0].name}: {len(held)} files, what builds the wheel and the tests among them")


main()
