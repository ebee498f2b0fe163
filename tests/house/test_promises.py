"""Each test that docs/about/promises.md names is there, and each promise is attacked by one."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/about/promises.md"


def named_in(tree, prefix):
    """The names of the tests of a module or class, as pytest has them."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from named_in(node, f"{prefix}::{node.name}")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield f"{prefix}::{node.name}"


def test_each_promise_names_tests_that_are_there_and_one_that_attacks_it():
    there = {
        name
        for path in TESTS.rglob("test_*.py")
        for name in named_in(ast.parse(path.read_text("utf-8")), path.name)
    }
    promises = PAGE.read_text("utf-8").split("## On your own data")[0].split("\n- ")[1:]
    for promise in promises:
        first, *attacks = (
            re.findall(r"test_\w+\.py(?:::\w+)+", tests) for tests in promise.split("attacked by")
        )
        assert first and len(attacks) == 1 and attacks[0], promise
        assert [name for name in (*first, *attacks[0]) if name not in there] == []
        assert not {*first} & {*attacks[0]}, promise
