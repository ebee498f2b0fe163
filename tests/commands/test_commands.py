"""Commands are made from functions: each argument is an option, and results are the function's."""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import annotated
import numpy as np
import pandas as pd
import pytest
import typer
from command import run
from PIL import Image

import dfgen
from dfgen.cli import COMMANDS, app
from dfgen.errors import WriteError

BUILD = ("build-manifest", "imgs", "--pattern", "{kind}_{id}.png")
SPLIT = ("--split", "train=0.5", "--split", "val=0.5")
WRITES = {  # command -> words before the path of the file that it writes
    "build-manifest": (*BUILD, "--out"),
    "split": ("split", "m.parquet", "--folds", "2", "--out"),
    "update-labels": ("update-labels", "m.parquet", "fix.csv", "--out"),
    "report": ("report", "m.parquet", "--out"),
}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Four images, their manifest, and corrections, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    Path("imgs").mkdir()
    for row in range(4):
        Image.new("RGB", (8, 6), (row, 0, 0)).save(f"imgs/{'ab'[row % 2]}_{row}.png")
    dfgen.build_manifest("imgs", pattern="{kind}_{id}.png", out="m.parquet")
    Path("fix.csv").write_text("id,kind\n0,b\n")
    return tmp_path


def done(*arguments, code=0):
    """Return what a command prints, and that it prints no error."""
    ended = run(*arguments)
    assert (ended.returncode, ended.stderr) == (code, "")
    return ended.stdout


def refused(*arguments, code=1):
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    return ended.stderr


@pytest.mark.parametrize("command", ["", "build-manifest", "pack", "verify"])
def test_help_imports_no_library(command):
    code = f"""
import sys
from dfgen.cli import app
try:
    app({[*filter(None, [command]), "--help"]})
finally:
    print([name for name in ("numpy", "pandas", "pyarrow", "keras") if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_argument_is_an_option_with_help(name):
    module, _, function = COMMANDS[name].function.rpartition(".")
    arguments = inspect.signature(getattr(import_module(module), function)).parameters.values()
    expected = {each.name for each in arguments if each.kind is not each.VAR_KEYWORD}
    expected -= {"executor", "limits", "storage_options"}
    group = typer.main.get_command(app)
    options = {option.name: option for option in group.get_command(None, name).params}
    assert expected <= {*options}
    assert {*options} - expected <= {"processes", "dask", "force", "as_json", "help"}
    assert all(option.help for option in options.values())


def test_choices_are_those_of_the_docstring(data):
    text = refused(*BUILD, "--facts", "some", "--out", "x.parquet", code=2)
    assert all(choice in text for choice in ("header", "none", "full"))
    done(*BUILD, "--facts", "none", "--out", "x.parquet")
    assert "width" not in dfgen.read_manifest("x.parquet")
    assert re.search("pixels.original.jpeg", done("pack", "--help"))


def test_annotations_of_each_split_equal_the_function(data):
    for name, image in {"one": "a_0.png", "other": "b_1.png"}.items():
        annotated.coco(f"{name}.json", {1: image}, categories={1: "cat"}, size=(8, 6))
    splits = {"train": "one.json", "val": "other.json"}
    options = [text for item in splits.items() for text in ("--coco", "=".join(item))]
    done("build-manifest", *options, "--images", "imgs", "--out", "c.parquet")
    expected = dfgen.build_manifest(coco=splits, images="imgs")
    pd.testing.assert_frame_equal(dfgen.read_manifest("c.parquet"), expected)
    mixed = refused("build-manifest", *options, "--coco", "third.json", "--out", "c.parquet")
    assert "--coco SPLIT=PATH: some paths have no split" in mixed


def test_a_recipe_builds_next_to_itself(data):
    Path("pets.toml").write_text('source = "imgs"\npattern = "{kind}_{id}.png"\n')
    assert done("build-manifest", "pets.toml").splitlines()[-1] == "Wrote pets.parquet"
    expected = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(dfgen.read_manifest("pets.parquet"), expected)


def test_an_update_lists_changes_and_writes_in_place(data):
    Image.new("RGB", (8, 6)).save("imgs/a_9.png")
    result = json.loads(done("build-manifest", "--update", "m.parquet", "--json"))
    assert (result["out"], result["rows"], result["changes"]) == ("m.parquet", 5, {"added": 1})
    assert "Since m.parquet: no difference" in done("build-manifest", "--update", "m.parquet")


def test_warnings_are_part_of_the_result(data):
    Path("imgs/notes.txt").write_text("mine")
    assert re.search(r"^Warning: .*notes\.txt", done(*BUILD, "--out", "x.parquet"), re.M | re.S)
    [message] = json.loads(done(*BUILD, "--out", "x.parquet", "--json"))["warnings"]
    assert "notes.txt" in message


def test_texts_say_what_was_written(data):
    assert done("split", "m.parquet", *SPLIT).splitlines()[-1] == "Wrote m.parquet"
    text = done("update-labels", "m.parquet", "fix.csv", "--out", "n.parquet")
    assert text.splitlines()[-2:] == ["1 relabelled", "Wrote n.parquet"]
    Path("imgs/a_2.png").write_bytes(b"")
    text = done("pack", "m.parquet", "--out", "packed", "--image-size", "4,4")
    assert re.search(r"a_2\.png.*Wrote packed: 4 rows, \d+\.\d MB in 1 shard", text, re.S)
    text = done("verify", "m.parquet", "--write", code=1)
    assert text.splitlines()[-2:] == ["1 broken", "Wrote m.parquet"]
    assert dfgen.read_manifest("m.parquet")["problem"].notna().sum() == 1
    assert done("report", "m.parquet", "--out", "m.html").startswith("Wrote m.html: ")


def test_long_lists_are_cut_in_texts_alone(data):
    frame = pd.DataFrame({"id": range(30), "path": [f"/gone/{row}.png" for row in range(30)]})
    dfgen.write_manifest(frame.assign(kind=frame["path"].astype("category")), "gone.parquet")
    assert "and 10 more; --json lists all" in done("verify", "gone.parquet", code=1)
    assert len(json.loads(done("verify", "gone.parquet", "--json", code=1))["rows"]) == 30
    assert "and 10 more" in done("split", "gone.parquet", *SPLIT)


@pytest.mark.slow
def test_processes_give_the_same_result(data):
    done(*BUILD, "--out", "p.parquet", "--processes", "2")
    expected = dfgen.read_manifest("m.parquet")
    pd.testing.assert_frame_equal(dfgen.read_manifest("p.parquet"), expected)
    assert "no difference" in done("verify", "p.parquet", "--processes", "2")
    done("pack", "m.parquet", "--out", "p", "--image-size", "4,4", "--processes", "2")
    dfgen.pack("m.parquet", "t", image_size=(4, 4))
    one, other = (dfgen.Sequence(path, shuffle=False)[0][0] for path in ("p", "t"))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("processes=0", ["--processes", "0"]),
        ("leave one out", ["--processes", "2", "--dask", "tcp://127.0.0.1:1"]),
        ("address of a scheduler", ["--dask", "nonsense"]),
    ],
)
def test_wrong_executors_are_one_message(data, word, options):
    assert word in refused(*BUILD, "--out", "x.parquet", *options)


@pytest.mark.parametrize("command", WRITES)
def test_only_force_replaces_files_of_another_kind(data, command):
    out = data / ("o.html" if command == "report" else "o.parquet")
    for content in (b"PK\x03\x04 a model of Keras", b"id,path,kind\n0,0.png,cat\n", b"x"):
        out.write_bytes(content)
        assert f"{out.name} already exists" in refused(*WRITES[command], out)
        assert out.read_bytes() == content
    done(*WRITES[command], out, "--force")
    done(*WRITES[command], out)  # its own kind
    out.write_bytes(b"")
    done(*WRITES[command], out)


def test_functions_replace_their_own_kind_alone(data):
    frame, out = dfgen.read_manifest("m.parquet"), data / "o.parquet"
    out.write_bytes(b"PK\x03\x04 a model of Keras")
    for write in (
        lambda: dfgen.write_manifest(frame, out),
        lambda: dfgen.build_manifest("imgs", out=out),
        lambda: dfgen.split(frame, folds=2, out=out),
        lambda: dfgen.update_labels(frame, "fix.csv", out=out),
    ):
        with pytest.raises(WriteError, match="no manifest of dfgen"):
            write()


def test_a_pack_leaves_folders_of_others(data):
    Path("mine").mkdir()
    Path("mine/index").write_bytes(b"mine")
    assert "mine" in refused("pack", "m.parquet", "--out", "mine", "--image-size", "4,4")
    assert [path.name for path in Path("mine").iterdir()] == ["index"]
