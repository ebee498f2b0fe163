"""The house rules that no single module can keep: layers, light imports, one name one meaning."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import dfgen

PACKAGE = Path(dfgen.__file__).parent
HEAVY = {"keras", "tensorflow", "jax", "torch", "matplotlib"}

# What each room may import of dfgen. Rooms not named here sit on top and may import all.
LOW = {"errors", "spec", "files"}
LOW |= {"machine", "progress_bars", "limits", "table"}
LAYERS = {
    "errors": set(),
    "spec": {"errors"},
    "files": {"errors", "machine"},
    "machine": set(),
    "progress_bars": set(),
    "limits": {"errors"},
    "table": {"errors", "spec", "limits"},
    "stores": LOW,
    "samples": LOW | {"stores"},
    "packs": LOW | {"stores", "samples"},  # workers read by it
    "loading": LOW | {"stores", "samples", "packs"},
    "explain": {"errors", "table"},
    "executors": LOW,
    "manifest": LOW | {"stores", "samples", "packs", "explain", "executors"},
    "binding": LOW | {"stores", "samples", "packs", "loading", "explain", "manifest"},
    "packing": LOW
    | {"stores", "samples", "packs", "loading", "explain", "executors", "manifest", "binding"},
    "serving": LOW | {"stores", "samples", "packs", "binding"},
    "training": LOW
    | {"stores", "samples", "packs", "loading", "explain", "manifest", "binding", "serving"},
}
# The only rooms that may import a library.
ROOMS_OF = {
    "keras": {"training"},  # whose import says how to install a backend; others take it from there
    "tensorflow": {"training", "bench"},  # bench measures the loaders of these three as peers
    "jax": {"training", "bench"},
    "torch": {"training", "bench"},
    "matplotlib": {"explore", "bench"},
}
# The only import that points up, within a method: `Sequence.show` is a way to `dfgen.explore`.
DOORS = {("dfgen.training.sequence", "dfgen.explore.show.show_batch")}
# Folders that are one with the room around them, as each imports the other.
PARTS = {
    "loading/workers": "loading",  # the loader starts workers, which make its batches
    "manifest/building": "manifest",  # to build is to write; to verify is to build again
    "manifest/sources": "manifest",
    "samples/features": "samples",  # features run functions of the user's, which stand above
    "training/checks": "training",
}
NO_PANDAS = LOW - {"table"} | {"stores", "samples", "packs", "loading"}
NO_PANDAS |= {"table.arrow_types"}

MODULES = {
    ".".join(["dfgen", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}


@cache
def imports(name: str) -> tuple[str, ...]:
    """Return the full name of all that a module imports, wherever in it, for types alone too.

    Names in texts count, such as those that `import_module` is given.
    """
    return tuple(_imports(name))


def _imports(name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            texts = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            yield from (text for text in texts if text.startswith("dfgen."))
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            origin = resolve_name(origin, name.rpartition(".")[0])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """Return the second part of a dotted name: samples, of dfgen.samples.reader."""
    return f"{name}.".split(".")[1]


def module_of(name: str) -> str | None:
    """Return the module of dfgen that a full name is, or belongs to."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def loaded_by(code: str) -> set[str]:
    """Return the packages that a fresh Python has loaded after running `code`."""
    code += "\nimport sys; print('\\n', *{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    return set(run.stdout.splitlines()[-1].split())


def test_imports_point_back_only() -> None:
    assert [
        (name, target)
        for name in MODULES
        if room(name) in LAYERS
        for target in imports(name)
        if target.partition(".")[0] == "dfgen"
        and room(target) not in LAYERS[room(name)] | {room(name), "__version__"}
        and (name, target) not in DOORS
    ] == []


def test_no_circle_of_imports() -> None:
    """Neither of modules nor, below the top, through imports within functions."""
    named = {name: {one for one in imports(name) if (name, one) not in DOORS} for name in MODULES}
    ours = {name: sorted(filter(None, map(module_of, found))) for name, found in named.items()}
    assert set(TopologicalSorter(ours).static_order()) >= set(MODULES)  # CycleError shows a circle


def test_no_two_modules_of_one_name() -> None:
    files = (path.stem for path in MODULES.values())
    shared = "__init__", "processes"  # of workers, and of a training
    names = Counter(stem for stem in files if stem not in shared)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_name_with_two_meanings() -> None:
    """Classes, aliases of types, constants and public functions, each defined in one module."""
    homes: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                homes.setdefault(node.name, []).append(module)
            elif isinstance(node, ast.Assign):
                for target in filter(lambda to: isinstance(to, ast.Name), node.targets):
                    homes.setdefault(target.id, []).append(module)
    public = {name: found for name, found in homes.items() if not name.startswith("_")}
    assert {name: found for name, found in public.items() if len(found) > 1} == {}


def test_libraries_stay_in_their_rooms() -> None:
    astray = {}
    for name in MODULES:
        libraries = {target.partition(".")[0] for target in imports(name)}
        barred = {library for library, rooms in ROOMS_OF.items() if room(name) not in rooms}
        if {room(name), name.removeprefix("dfgen.")} & NO_PANDAS:
            barred.add("pandas")
        astray[name] = libraries & barred
    assert {name: found for name, found in astray.items() if found} == {}


def test_importing_dfgen_loads_no_library() -> None:
    assert loaded_by("import dfgen") & (HEAVY | {"numpy", "pandas", "pyarrow", "cv2"}) == set()


def test_workers_load_neither_pandas_nor_a_framework() -> None:
    names = [n for n in MODULES if {room(n), n.removeprefix("dfgen.")} & NO_PANDAS]
    code = "\n".join(f"import {name}" for name in names)
    code += "\nimport sys; assert 'dfgen.explain' not in sys.modules"
    assert loaded_by(code) & (HEAVY | {"pandas", "soundfile"}) == set()
    tasks = "import dfgen.manifest.building.scan, dfgen.packing.write_shard"
    assert loaded_by(tasks) & (HEAVY | {"pandas"}) == set()  # workers of an executor


def test_manifest_binding_packing_and_explore_need_no_framework() -> None:
    rooms = {"manifest", "binding", "packing", "explore"}  # which loads matplotlib to draw
    code = "\n".join(f"import {name}" for name in MODULES if room(name) in rooms)
    assert loaded_by(code) & HEAVY == set()


def test_no_room_uses_private_parts_of_another() -> None:
    """A name with an underscore that one room gives its objects is used in that room alone."""
    homes: dict[str, set[str]] = {}
    uses: list[tuple[str, str]] = []
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                homes.setdefault(node.name, set()).add(room(name))
            elif isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
                if ast.unparse(node.value) in ("self", "cls"):
                    homes.setdefault(node.attr, set()).add(room(name))
                else:
                    uses.append((name, node.attr))
    of_named_tuples = {"_replace", "_asdict"}
    assert [
        (name, attribute)
        for name, attribute in uses
        if room(name) not in homes.get(attribute, {room(name)}) and attribute not in of_named_tuples
    ] == []


def arrows() -> set[tuple[str, str]]:
    """Return which folder imports from which other; a module beside folders is one by itself."""

    def folder(name: str) -> str:
        path = MODULES[name].relative_to(PACKAGE)
        return path.parent.as_posix() if path.parent.name else path.stem

    doors = {(name, module_of(target)) for name, target in DOORS}
    pairs = {(name, module_of(target)) for name in MODULES for target in imports(name)} - doors
    ends = {(folder(name), folder(target)) for name, target in pairs if target}
    return {(here, there) for here, there in ends if here != there}


def test_folders_import_without_circles_outside_named_parts() -> None:
    merged = {(PARTS.get(here, here), PARTS.get(there, there)) for here, there in arrows()}
    graph: dict[str, set[str]] = {}
    for here, there in merged:
        graph.setdefault(here, set()).update({there} - {here})
    assert [*TopologicalSorter(graph).static_order()]  # CycleError shows a circle


def test_named_parts_and_their_rooms_import_each_other() -> None:
    into_parts = {(PARTS.get(here, here), there) for here, there in arrows()}
    assert {*PARTS.items()} <= {(here, PARTS.get(there, there)) for here, there in arrows()}
    assert {(whole, part) for part, whole in PARTS.items()} <= into_parts
