"""The command `dfgen`: each command does what its function does, and names what is wrong."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib.metadata import entry_points
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import dfgen

COMMANDS = {
    "build-manifest": ["--pattern", "--labels", "--on", "--split", "--update", "--json", "--out"],
    "split": ["--folds", "--stratify", "--group", "--seed"], "verify": ["--decode", "--root"],
    "update-labels": ["--label", "--out"], "diff": ["--json"], "demo": ["--keep", "--no-train"],
    "pack": ["--image-size", "--format", "--quality"], "report": ["--predictions", "--out"],
    "bench": ["--image-size", "--batch-size", "--model", "--json"],
}  # fmt: skip
SHARES = ["--split", "train=0.5", "--split", "val=0.5", "--stratify", "kind", "--seed", "3"]
SPLIT = {"split": {"train": 0.5, "val": 0.5}, "stratify": "kind", "seed": 3}
BUILD = ["build-manifest", "imgs", "--pattern", "{id}.png", "--labels", "l.csv", "--on", "id=key"]


def run(*arguments):
    """Run the console script in this process; return its exit code, output and errors."""
    script = entry_points(group="console_scripts")["dfgen"].load()
    out, err = StringIO(), StringIO()
    argv = mock.patch.object(sys, "argv", ["dfgen", *arguments])
    with argv, redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        sys.exit(script())
    return ended.value.code or 0, out.getvalue(), err.getvalue()


def done(*arguments, code=0):
    """Return the output of a command without errors, parsed if it is JSON."""
    *result, err = run(*arguments)
    assert (result[0], err) == (code, "")
    return json.loads(result[1]) if "--json" in arguments else result[1]


@pytest.fixture
def df(tmp_path, monkeypatch):
    """A manifest m.parquet of nine images imgs/{id}.png of three kinds in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    os.mkdir("imgs")
    for row in range(9):
        Image.fromarray(np.full((7, 5 + row, 3), 20 * row, np.uint8)).save(f"imgs/{row:03}.png")
    labels = pd.DataFrame({"key": [f"{row:03}" for row in range(9)], "kind": ["a", "b", "<c>"] * 3})
    labels.to_csv("l.csv", index=False)
    labels.assign(key="x" + labels.key).to_csv("u.csv", index=False)
    return dfgen.build_manifest(
        "imgs", pattern="{id}.png", labels="l.csv", on="id=key", category="kind", out="m.parquet"
    )


def equal(path, frame):
    pd.testing.assert_frame_equal(dfgen.read_manifest(path), frame)


def test_build_manifest_equals_the_function(df):
    result = done(*BUILD, "--category", "kind", *SHARES, "--out", "c.parquet", "--json")
    options = {"pattern": "{id}.png", "labels": "l.csv", "on": "id=key", "category": "kind"}
    frame = dfgen.build_manifest("imgs", **options, **SPLIT)
    equal("c.parquet", frame)
    assert (result["rows"], result["splits"]) == (9, frame.split.value_counts().to_dict())
    assert result["problems"] == {} and result["labels"]["kind"] == {"a": 3, "b": 3, "<c>": 3}
    os.truncate("imgs/004.png", 0)
    Path("c.parquet").write_text("my notes")
    assert "--force" in run(*BUILD, "--out", "c.parquet")[2]
    assert Path("c.parquet").read_text() == "my notes"
    text = done(*BUILD, "--out", "c.parquet", "--update", "m.parquet", "--force")
    assert all(word in text for word in ("c.parquet", "9 rows", "004.png"))
    assert dfgen.read_manifest("c.parquet").problem.notna().tolist() == [n == 4 for n in range(9)]


def test_split_equals_the_function(df):
    done("split", "m.parquet", *SHARES, "--out", "c.parquet")
    equal("c.parquet", dfgen.split("m.parquet", SPLIT["split"], stratify="kind", seed=3))
    result = done("split", "m.parquet", "--folds", "3", "--stratify", "kind", "--json")
    folds = dfgen.read_manifest("m.parquet").fold.value_counts()
    assert result["folds"] == {str(fold): count for fold, count in folds.items()}
    assert sorted(folds.index) == [0, 1, 2]


def test_verify_lists_damaged_files(df):
    assert done("verify", "m.parquet", "--json")["rows"] == []
    os.remove("imgs/003.png")
    assert done("verify", "m.parquet", "--json", code=1)["rows"][0]["id"] == "003"
    os.truncate("imgs/005.png", 20)
    result = done("verify", "m.parquet", "--json", "--decode", code=1)
    assert {row["id"] for row in result["rows"]} == {"003", "005"}
    assert {*dfgen.verify("m.parquet", decode=True).id} == {"003", "005"}
    text = done("verify", "m.parquet", code=1)
    assert "1 missing" in text and "1 broken" in text


def test_update_labels_and_diff_list_changes(df):
    pd.DataFrame({"id": ["001"], "kind": ["a"]}).to_csv("c.csv", index=False)
    done("update-labels", "m.parquet", "c.csv", "--out", "c.parquet")
    assert dfgen.read_manifest("c.parquet").kind.tolist() == ["a", "a", *df.kind[2:]]
    assert done("diff", "m.parquet", "m.parquet", "--json")["rows"] == []
    result = done("diff", "m.parquet", "c.parquet", "--json", code=1)["rows"]
    assert result == dfgen.diff("m.parquet", "c.parquet").to_dict("records")
    assert [(row["id"], row["old"], row["new"]) for row in result] == [("001", "b", "a")]


def test_pack_equals_the_function(df):
    options = ["--image-size", "4,6", "--color-mode", "grayscale", "--seed", "7"]
    result = done("pack", "m.parquet", "--out", "c", *options, "--json")
    assert result["rows"] == 9 and result["problems"] == []
    dfgen.pack("m.parquet", "f", image_size=(4, 6), color_mode="grayscale", seed=7)
    options = {"image_size": (4, 6), "color_mode": "grayscale", "shuffle": False}
    one, other = (dfgen.Sequence(path, y="kind", **options)[0][0] for path in ("c", "f"))
    assert one.shape == (9, 4, 6, 1)
    np.testing.assert_array_equal(one, other)


def test_report_is_one_escaped_file(df):
    done("report", "m.parquet", "--out", "r.html")
    html = Path("r.html").read_text()
    assert "<c>" not in html and "data:image/" in html
    assert "src=" not in html.replace('src="data:', "") and '<link rel="stylesheet"' not in html


def test_demo_needs_no_training_and_no_folder(df):
    done("demo", "--no-train")


def test_bench_measures_files_and_packs(df):
    dfgen.pack("m.parquet", "packed", image_size=(8, 8))
    options = ["--image-size", "8,8", "--batch-size", "4", "--seconds", "0.2", "--json"]
    assert json.loads(run("bench", "m.parquet", *options)[1])
    shutil.rmtree("imgs")
    assert json.loads(run("bench", "packed", *options)[1])


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("imgz", "build-manifest imgz --out x.parquet"), ("--out", "build-manifest imgs"),
        ("NAME=SHARE", "build-manifest imgs --out x.parquet --split 0.8"),
        ("x.csv", "build-manifest imgs --out x.csv"), ("--outt", "build-manifest imgs --outt x"),
        ("facts", "build-manifest imgs --out x.parquet --facts some"),
        ("kee", "build-manifest imgs --labels u.csv --on stem=kee --out x.parquet"),
        ("workers", "build-manifest imgs --out x.parquet --workers -1"),
        ("l.csv", "split l.csv --folds 2 --out x.parquet"),
        ("1.2", "split m.parquet --split a=0.6 --split b=0.6 --out x.parquet"),
        ("knd", "split m.parquet --folds 2 --stratify knd --out x.parquet"),
        ("imgs", "verify imgs"), ("gone.parquet", "verify gone.parquet"),
        ("gone.csv", "update-labels m.parquet gone.csv --out x.parquet"),
        ("key", "update-labels m.parquet l.csv --out x.parquet"), ("l.csv", "diff m.parquet l.csv"),
        ("image", "pack m.parquet --out x --image-size 8"),
        ("l.csv", "pack l.csv --out x --image-size 8,8"), ("l.csv", "report l.csv --out x.html"),
        ("imgs", "bench imgs"), ("--kept", "demo --kept x"), ("chek", "chek m.parquet"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_message(df, word, command):
    code, out, err = run(*command.split())
    assert code in ((2,) if command.startswith("diff") else (1, 2)) and out == ""
    assert word in err and "Traceback" not in err
    assert not any(name[0] == "x" for name in os.listdir())
    equal("m.parquet", df)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_main_options(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = done(command, "--help")
    assert [option for option in COMMANDS[command] if option not in text] == []
    assert command in done("--help") and dfgen.__version__ in done("--version")


def test_ctrl_c_ends_with_130(df):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.png"
        dfgen.write_manifest(df[:1].assign(path=url), "far.parquet")
        command = [sys.executable, "-m", "dfgen", "verify", "far.parquet", "--workers", "1"]
        heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also under nohup
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
        connection, _ = server.accept()
        process.send_signal(signal.SIGINT)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        _, err = process.communicate(timeout=60)
        connection.close()
    assert process.returncode == 130 and "Traceback" not in err
