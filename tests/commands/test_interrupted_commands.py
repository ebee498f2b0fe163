"""Ctrl-C at any line of a command: no half file, and the command can be given again."""

import io
import os
import random

import pyarrow.csv
import pytest
from command import run
from interrupting import Lines

import dfgen

COMMANDS = {
    "build-manifest": "imgs --out new.parquet",
    "verify": "m.parquet --decode",
    "diff": "m.parquet m.parquet",
    "split": "m.parquet --split train=0.5 --split val=0.5 --out new.parquet",
    "pack": "m.parquet --out new --image-size 4,4",
    "report": "m.parquet --out new.html",
}


@pytest.fixture(autouse=True, scope="module")
def pipe_of_pyarrow():
    """It opens a pipe with its first table of text, by which it hears of signals, and keeps it."""
    pyarrow.csv.read_csv(io.BytesIO(b"a\n1"))


@pytest.fixture
def folder(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imgs").mkdir()
    for path in frame(8)["path"]:
        os.link(path, f"imgs/{os.path.basename(path)}")
    dfgen.build_manifest("imgs", facts="full", out="m.parquet")
    return tmp_path


def files():
    """The bytes of each file, but for the locks, which hold nothing."""
    found = {}
    for place, _, names in os.walk("."):
        for name in names:
            path = os.path.join(place, name)
            if not name.endswith(".lock"):
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found


def remove(paths):
    for path in paths:
        os.remove(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_leaves_no_half_written_file(folder, name):
    command = [name, *COMMANDS[name].split()]
    before = files()
    expected = run(*command)  # which imports what it needs
    assert expected.returncode in (0, 1), expected.stderr
    whole = files()
    remove(whole.keys() - before.keys())
    with Lines() as lines:
        run(*command)
    draws = random.Random(name)
    for _ in range(2):
        remove(files().keys() - before.keys())
        with Lines(draws.randrange(lines.count // 10, lines.count * 9 // 10)):
            stopped = run(*command)
        assert stopped.returncode == 130, stopped.stderr
        assert "Traceback" not in stopped.stderr
        assert stopped.stderr.splitlines()[-1].startswith(f"dfgen {name}: stopped. ")
        if name != "pack":  # which continues after the shards that it has finished
            assert files().keys() <= whole.keys()
        again = run(*command)
        assert again.returncode == expected.returncode, again.stderr
        assert files().keys() == whole.keys()
