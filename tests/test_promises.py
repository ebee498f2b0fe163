"""Each test that docs/about/promises.md names is there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs/about/promises.md"


def named_in(tree, prefix):
    """The names of the tests of a module or class, as pytest has them."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from named_in(node, f"{prefix}::{node.name}")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}::{node.name}"


def test_each_promise_names_a_test_that_is_there():
    there = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in named_in(ast.parse(path.read_text("utf-8")), path.name)
    }
    promises = PAGE.read_text("utf-8").split("## Who survives what")[0].split("\n- ")[1:]
    for promise in promises:
        named = re.findall(r"`([\w.]+(?:::\w+)+)`", promise)
        assert named, promise
        assert [name for name in named if name not in there] == []
