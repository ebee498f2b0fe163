import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

import dfgen


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Six images and their labels, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imgs").mkdir()
    for row in range(6):
        Image.new("L", (4, 3)).save(f"imgs/{row:03d}.png")
    labels = pd.DataFrame({"key": [f"{row:03d}" for row in range(6)], "grade": [1, 2] * 3})
    labels.to_csv("labels.csv", index=False)
    return tmp_path


def run(*arguments):
    """Run the command in its own process, as a user does."""
    command = [sys.executable, "-c", "from dfgen.cli import app; app()", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_command_and_function_build_the_same(data):
    done = run(
        "build-manifest", "imgs", "--out", "command.parquet", "--pattern", "{id}.png",
        "--labels", "labels.csv", "--on", "id=key", "--category", "grade", "--seed", "3",
        "--split", "train=0.5", "--split", "val=0.5", "--stratify", "grade", "--workers", "1",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "6 rows: 4 train (66.7%), 2 val (33.3%)\n"
        "grade: 2 classes\n"
        "     train  val\n"
        "  1      2    1\n"
        "  2      2    1\n"
        "Wrote command.parquet\n"
    )
    dfgen.build_manifest(
        "imgs", pattern="{id}.png", labels="labels.csv", on="id=key", category=["grade"], seed=3,
        split={"train": 0.5, "val": 0.5}, stratify="grade", out="function.parquet",
    )  # fmt: skip
    command, function = (pq.read_table(f"{name}.parquet") for name in ("command", "function"))
    assert command.equals(function, check_metadata=True)


def test_every_option_of_the_function_is_one_of_the_command(data):
    table = pd.DataFrame({"key": ["a", "b"], "file": ["000.png", "001.png"], "kind": ["x", "y"]})
    table.to_csv("t.csv", index=False)
    done = run(
        "build-manifest", "--out", "m.parquet", "--labels", "t.csv", "--path-column", "file",
        "--root", "imgs", "--id", "key", "--label", "kind", "--unmatched", "keep",
        "--facts", "none", "--split", "train=1", "--group", "kind",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    frame = dfgen.build_manifest(
        labels="t.csv", path_column="file", root="imgs", id="key", label=["kind"],
        unmatched="keep", facts="none", split={"train": 1.0}, group="kind",
    )  # fmt: skip
    back = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(back, frame)
    assert back.attrs == frame.attrs
    assert back["path"].tolist() == [str(data / "imgs/000.png"), str(data / "imgs/001.png")]


def test_an_error_is_one_message_and_exit_code_1(data):
    done = run("build-manifest", "nowhere", "--out", "m.parquet")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f'dfgen: There is no folder "nowhere". Looked in {data}.\n'
    done = run("build-manifest", "imgs", "--out", "m.parquet", "--split", "train")
    assert done.returncode == 1
    assert done.stderr == "dfgen: --split train: expected NAME=SHARE, as in train=0.8.\n"


def test_help_is_light():
    code = """if True:
        import atexit, sys
        from dfgen.cli import app
        atexit.register(lambda: print(sorted({name.split(".")[0] for name in sys.modules})))
        app()"""
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "build-manifest" in done.stdout
    modules = done.stdout.splitlines()[-1]
    for heavy in ("keras", "tensorflow", "matplotlib", "pandas", "numpy", "pyarrow", "cv2"):
        assert f"'{heavy}'" not in modules
