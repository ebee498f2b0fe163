import json
import re
import shlex
import subprocess
import sys

import annotated
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer.main
from command import run
from PIL import Image
from typer.testing import CliRunner

import dfgen
from dfgen.cli import app


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
    assert done.stderr == f'dfgen: there is no folder "nowhere". Looked in {data}\n'
    done = run("build-manifest", "imgs", "--out", "m.parquet", "--split", "train")
    assert done.returncode == 1
    assert done.stderr == "dfgen: --split train: expected NAME=SHARE, as in train=0.8\n"


def test_a_process_of_the_command_ends_with_its_code(data):
    command = [sys.executable, "-m", "dfgen", "build-manifest", "nowhere", "--out", "m.parquet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f'dfgen: there is no folder "nowhere". Looked in {data}\n'


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
    frameworks = ("keras", "tensorflow", "jax", "torch", "matplotlib")
    for heavy in (*frameworks, "pandas", "numpy", "pyarrow", "cv2"):
        assert f"'{heavy}'" not in modules


def test_every_source_of_the_function_is_one_of_the_command(data):
    annotated.xml("xml/000.xml", ("cat", 0, 0, 4, 3), size=None)
    for row in range(1, 6):
        annotated.xml(f"xml/{row:03d}.xml", size=None)
    annotated.coco("c.json", {1: "000.png"}, [annotated.box(1, 1, 0, 0, 2, 2)], {1: "cat"}, (4, 3))
    annotated.coco("d.json", {2: "001.png"}, size=(4, 3))
    for row in range(6):
        annotated.image(f"VOC/JPEGImages/{row:03d}.png", 4, 3)
        annotated.xml(f"VOC/Annotations/{row:03d}.xml", size=None)
    (data / "VOC/train.txt").write_text("\n".join(f"{row:03d}" for row in range(6)))
    (data / "names.txt").write_text("dog\ncat\n\n")
    for row in range(6):
        annotated.labelme(f"json/{row:03d}.json", name=f"{row:03d}.png", size=(4, 3))
    annotated.cvat("cvat.xml", {"000.png": []}, size=(4, 3))
    (data / "data.yaml").write_text("test: imgs\nnames: [cat]\n")
    pd.DataFrame({"file_name": ["imgs/000.png"]}).to_csv("metadata.csv", index=False)
    pd.DataFrame({"file": ["imgs/000.png"], "size": [7]}).to_csv("l.csv", index=False)
    np.save("x.npy", np.zeros((2, 2)))
    np.save("y.npy", np.zeros((2, 2)))
    for options, arguments in (
        ({"voc": "xml", "images": "imgs", "box_label": "first", "class_names": ["dog", "cat"]},
         ["--voc", "xml", "--images", "imgs", "--box-label", "first", "--class-names",
          "names.txt"]),
        ({"voc": "VOC", "image_sets": "VOC"}, ["--voc", "VOC", "--image-sets", "VOC"]),
        ({"voc": "xml", "images": "imgs", "pattern": "{number}.png"},
         ["--voc", "xml", "--images", "imgs", "--pattern", "{number}.png"]),
        ({"coco": "c.json", "images": "imgs"}, ["--coco", "c.json", "--images", "imgs"]),
        ({"coco": {"train": "c.json", "val": "d.json"}, "images": {"train": "imgs", "val": "imgs"}},
         ["--coco", "train=c.json", "--coco", "val=d.json", "--images", "train=imgs", "--images",
          "val=imgs"]),
        ({"yolo": "data.yaml"}, ["--yolo", "data.yaml"]),
        ({"labelme": "json", "images": "imgs"}, ["--labelme", "json", "--images", "imgs"]),
        ({"cvat": "cvat.xml", "images": "imgs"}, ["--cvat", "cvat.xml", "--images", "imgs"]),
        ({"metadata": "metadata.csv"}, ["--metadata", "metadata.csv"]),
        ({"listing": "l.csv", "path_column": "file"},
         ["--listing", "l.csv", "--path-column", "file"]),
        ({"arrays": "x.npy"}, ["--arrays", "x.npy"]),
        ({"arrays": ["x.npy", "y.npy"]}, ["--arrays", "x.npy", "--arrays", "y.npy"]),
    ):  # fmt: skip
        result = CliRunner().invoke(app, ["build-manifest", "--out", "m.parquet", *arguments])
        assert (result.exit_code, result.exception) == (0, None), (arguments, result.output)
        dfgen.build_manifest(**options, out="function.parquet")
        command, function = (pq.read_table(f"{name}.parquet") for name in ("m", "function"))
        assert command.equals(function, check_metadata=True)


def test_the_summary_as_json_is_for_scripts(data):
    (data / "imgs/x.txt").touch()
    (data / "imgs/006.png").touch()
    done = run(
        "build-manifest", "imgs", "--out", "m.parquet", "--pattern", "{kind}{n}.png", "--split",
        "train=1", "--json",
    )  # fmt: skip
    assert json.loads(done.stdout) == {
        "out": "m.parquet",
        "rows": 7,
        "columns": list(pd.read_parquet("m.parquet").columns),
        "splits": {"train": 7},
        "labels": {"kind": {"00": 7}, "n": {str(row): 1 for row in range(7)}},
        "problems": {"the file is empty (0 bytes)": [f"{data}/imgs/006.png"]},
        "left_out": {".txt": ["x.txt"]},
        "notes": [],
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--coco", "train=a.json", "--coco", "b.json"],
         "dfgen: --coco b.json: the others name a split. Name that of all\n"),
        (["--voc", "xml", "--images", "imgs", "--class-names", "x.txt"],
         "dfgen: --class-names x.txt cannot be read: [Errno 2] No such file or directory: "
         "'x.txt'\n"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(data, arguments, message):
    assert run("build-manifest", "--out", "m.parquet", *arguments).stderr == message


def test_the_summary_as_json_of_rows_without_problems(data):
    done = run("build-manifest", "imgs", "--out", "m.parquet", "--json")
    assert json.loads(done.stdout)["problems"] == {}


def test_python_m_dfgen_is_the_command():
    command = [sys.executable, "-m", "dfgen", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dfgen {dfgen.__version__}\n", "")


def test_the_version_is_an_option():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"dfgen {dfgen.__version__}\n")


def every_command(command, *names):
    """Return the words of each command and each group, beginning with `dfgen` itself."""
    inner = getattr(command, "commands", {}).items()
    return [names, *(words for name, one in inner for words in every_command(one, *names, name))]


@pytest.mark.parametrize(
    "names",
    every_command(typer.main.get_command(app)),
    ids=lambda names: " ".join(names) or "dfgen",
)
def test_the_help_of_every_command_ends_with_an_example_that_parses(names, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    example = run(*names, "--help").stdout.rsplit("╯", 1)[1].strip()
    command, words = typer.main.get_command(app), shlex.split(example)
    assert words[: len(names) + 2] == ["Example:", "dfgen", *names]
    for at, name in enumerate(words[2:], 3):
        command = command.commands[name]
        if not hasattr(command, "commands"):
            command.make_context(name, words[at:])
            break


def test_the_help_of_a_build_shows_what_matters_first_then_groups_and_choices(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("build-manifest", "--help").stdout
    panels = re.findall(r"^╭─ (.*?) ─", shown, re.MULTILINE)
    assert panels == [
        "Arguments", "Options", "Annotations and lists, instead of a folder", "Files and labels",
        "Splits", "A manifest that grows",
    ]  # fmt: skip
    first = shown[shown.index("─ Options ─") : shown.index("─ Annotations")]
    assert re.findall(r"--[a-z]+(?=\s)", first)[:5] == [
        "--pattern", "--labels", "--on", "--split", "--out",
    ]  # fmt: skip
    for choices in ("error|keep|drop", "none|header|full", "largest|first|all|each"):
        assert choices in shown
