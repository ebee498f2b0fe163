"""Bars of commands in a real terminal, none elsewhere, and what Ctrl-C leaves behind."""

import errno
import os
import subprocess
import sys

import annotated
import pytest
from command import run

import dfgen
from dfgen.progress_bars import progress

pytestmark = pytest.mark.skipif(os.name != "posix", reason="terminals and signals are of POSIX")
COMMAND = (sys.executable, "-m", "dfgen")
INTERRUPTED = """
import os, signal
import tqdm.auto
from dfgen.cli import app

signal.signal(signal.SIGINT, signal.default_int_handler)  # what `&` in a shell turns off
tqdm.auto.tqdm.update = lambda bar, n=1: os.kill(os.getpid(), signal.SIGINT)
app(prog_name="dfgen")
"""


@pytest.fixture(autouse=True)
def manifest(tmp_path, monkeypatch):
    """Twelve images, and their manifest."""
    monkeypatch.chdir(tmp_path)
    for row in range(12):
        annotated.image(f"imgs/{row}.png")
    dfgen.build_manifest("imgs", facts="full", out="m.parquet")


def shown(*command):
    """Return what a process writes to a terminal, and its exit code."""
    import termios  # of POSIX

    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while data := os.read(ours, 1 << 16):
            written += data
    except OSError as error:  # so Linux ends what nobody writes to
        assert error.errno == errno.EIO
    os.close(ours)
    return written.decode(), process.wait()


COMMANDS = {
    "build-manifest": (("build-manifest", "imgs", "--out", "new.parquet"), "Reading headers: 100%"),
    "verify": (("verify", "m.parquet"), "Comparing files: 100%"),
    "pack": (("pack", "m.parquet", "--out", "new"), "Packing: 100%"),
}
NAMES = [
    name if name == "build-manifest" else pytest.param(name, marks=pytest.mark.slow)
    for name in COMMANDS
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_command_shows_bars_in_a_terminal_alone(name):
    command, bar = COMMANDS[name]
    written, code = shown(*COMMAND, *command)
    assert bar in written
    assert "12/12" in written
    assert code == 0
    assert "%|" not in run(*command).stderr


@pytest.mark.slow
def test_comparing_many_pictures_shows_a_bar():
    code = """
import numpy as np, pandas as pd
from dfgen.manifest.duplicates import duplicates
hashes = np.random.default_rng(0).integers(0, 2**63, 1100, np.uint64)
rows = pd.DataFrame({"id": range(1100), "phash": hashes})
rows["path"] = rows["digest"] = rows["id"].astype(str)
duplicates(rows)
"""
    written, status = shown(sys.executable, "-c", code)
    assert "Comparing pictures: 100%" in written
    assert status == 0


def test_nothing_to_do_has_no_bar():
    code = "from dfgen.progress_bars import progress\nwith progress(0, 'Doing', ' things'): pass"
    assert shown(sys.executable, "-c", code) == ("", 0)


def test_notebook_shows_bars_without_a_terminal(monkeypatch):
    IPython = pytest.importorskip("IPython")
    shell = type("Shell", (), {"config": {"IPKernelApp": {}}})()
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    with progress(3, "Doing", " things") as bar:
        assert not bar.disable


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ctrl_c_reports_state_and_command_can_rerun(name):
    command, _ = COMMANDS[name]
    before = {*os.listdir()}
    stopped = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *command], capture_output=True, text=True, check=False
    )
    assert stopped.stderr.splitlines()[-1].startswith(f"dfgen {name}: stopped. ")
    assert "Traceback" not in stopped.stderr
    assert stopped.returncode == 130
    assert name == "pack" or {*os.listdir()} - {".m.parquet.lock"} == before
    assert run(*command).returncode == 0


def test_ctrl_c_drops_work_not_yet_begun():
    code = """
import os, signal, time
from dfgen.machine import threads
signal.signal(signal.SIGINT, signal.default_int_handler)
begun = []
def work(number):
    begun.append(number)
    os.kill(os.getpid(), signal.SIGINT)
try:
    with threads(1) as pool:
        for found in pool.map(work, range(1000)):
            pass
except KeyboardInterrupt:
    print(len(begun) < 1000)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "True\n"


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["closed", "None", "closed later"])
def test_builds_work_whatever_stderr_is(broken):
    change = {"None": "sys.stderr = sys.__stderr__ = None", "closed later": "sys.stderr.close()"}
    code = f"""
import sys, dfgen
{change.get(broken, "")}
dfgen.build_manifest("imgs", out="new.parquet")
print(len(dfgen.read_manifest("new.parquet")))
"""
    close = " 2>&-" if broken == "closed" else ""
    command = ["sh", "-c", f'"$0" -c "$1"{close}', sys.executable, code]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "12\n"
