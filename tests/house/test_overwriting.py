"""No command replaces a file that is not of its own kind, but with --force."""

import json
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest
import typer
from command import run
from PIL import Image

import dfgen
import dfgen.explore
from dfgen.cli import app
from dfgen.errors import WriteError

STRANGERS = {
    "model": b"PK\x03\x04 a model of Keras",
    "text": b'{"mine": 1}\n',
    "page": b"<!doctype html><p>mine</p>",
    "toml": b"[project]\nname = 'mine'\n",
    "csv": b"id,path,kind\n0,0.png,cat\n",
    "line": b"x",
}
BUILD = ("build-manifest", "imgs", "--pattern", "{kind}_{id}.png", "--out")
WRITES = {  # command -> words before the path of the file that it writes
    "build-manifest": BUILD,
    "split": ("split", "m.parquet", "--folds", "2", "--out"),
    "update-labels": ("update-labels", "m.parquet", "fix.csv", "--out"),
    "recipe": ("recipe", "m.parquet", "--out"),
    "report": ("report", "m.parquet", "--out"),
    "bench": ("bench", "m.parquet", "--json"),
    "predict": ("predict", "model.keras", "m.parquet", "--out"),
}
NAMES = {"recipe": "o.toml", "report": "o.html", "bench": "o.json"}
FOLDERS = {  # command -> words before the path of the folder that it fills, or clears
    "pack": ("pack", "m.parquet", "--out"),
    "predict": ("predict", "model.keras", "m.parquet", "--out", "p.parquet", "--arrays"),
    "cache clear": ("cache", "clear"),
    "demo": ("demo", "--keep"),
}
READS = {"check", "diff", "cache info", "verify"}  # verify --write writes into what it read


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four images, their manifest, corrections, and a model that takes them."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "imgs").mkdir()
    for row in range(4):
        Image.new("RGB", (4, 3), (row, 0, 0)).save(folder / f"imgs/{'ab'[row % 2]}_{row}.png")
    frame = dfgen.build_manifest(
        folder / "imgs", pattern="{kind}_{id}.png", out=folder / "m.parquet"
    )
    (folder / "fix.csv").write_text("id,kind\n0,b\n")
    model = keras.Sequential([keras.Input((3, 4, 3)), keras.layers.Flatten()])
    model.save(folder / "model.keras")
    seq = dfgen.Sequence(frame, x=dfgen.Image("path", size=(3, 4)), y="kind")
    dfgen.SavePreprocessing(folder / "model.keras.json", seq).on_train_begin()
    return folder


def commands(group, *names):
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, *names, name)
        else:
            yield " ".join([*names, name])


def test_every_command_is_one_of_those_that_are_tried_here():
    writes = {name.removesuffix(" chart") for name in WRITES}
    assert {*commands(typer.main.get_command(app))} == writes | {*FOLDERS} | READS


@pytest.mark.parametrize("command", WRITES)
def test_a_file_of_another_kind_stays_but_with_force(data, tmp_path, monkeypatch, command):
    monkeypatch.chdir(data)
    out = tmp_path / NAMES.get(command, "o.parquet")
    plain = tmp_path / "plain.parquet"
    pd.DataFrame({"id": [1], "path": ["a.png"]}).to_parquet(plain)
    strangers = [plain.read_bytes(), *STRANGERS.values()]
    for content in strangers[: 2 if command in ("bench chart", "build-manifest", "predict") else 9]:
        out.write_bytes(content)
        ended = run(*WRITES[command], out)
        assert (ended.returncode, out.read_bytes()) == (1, content)
        assert f"{out} is" in ended.stderr
        if command != "predict":  # which has no --force
            assert " is there already, and is no " in ended.stderr
    if command.startswith(("bench", "predict")):
        return
    assert run(*WRITES[command], out, "--force").returncode == 0
    assert run(*WRITES[command], out).returncode == 0  # its own kind
    made = out.read_bytes()
    assert made not in STRANGERS.values()
    out.write_bytes(b"")
    assert run(*WRITES[command], out).returncode == 0
    if out.suffix == ".parquet":  # damaged: nothing can be read of it
        out.write_bytes(made[:-9])
        assert run(*WRITES[command], out).returncode == 0


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_of_another_kind_stays(data, tmp_path, monkeypatch, command):
    monkeypatch.chdir(data)
    (tmp_path / "labels.csv").write_text("id,kind\n0,cat\n")
    (tmp_path / "index").write_bytes(b"mine")
    ended = run(*FOLDERS[command], tmp_path)
    assert ended.returncode == 1 and str(tmp_path) in ended.stderr
    assert {path.name for path in tmp_path.rglob("*")} == {"labels.csv", "index"}
    assert (tmp_path / "labels.csv").read_text() == "id,kind\n0,cat\n"


def test_functions_replace_their_own_kind_alone(data, tmp_path):
    from dfgen.bench import report as of_bench

    frame = dfgen.read_manifest(data / "m.parquet")
    out = tmp_path / "o.parquet"
    out.write_bytes(STRANGERS["model"])
    said = (
        f"{out} is there already, and is no manifest of dfgen: it would be lost. Choose another "
        "place, or remove it first; commands replace it with --force"
    )
    for write in (
        lambda: dfgen.write_manifest(frame, out),
        lambda: dfgen.build_manifest(data / "imgs", out=out),
        lambda: dfgen.split(frame, folds=2, out=out),
        lambda: dfgen.update_labels(frame, data / "fix.csv", out=out),
    ):
        with pytest.raises(WriteError) as caught:
            write()
        assert str(caught.value) == said
    assert out.read_bytes() == STRANGERS["model"]
    figures = tmp_path / "o.json"
    figures.write_text(json.dumps({"versions": {"dfgen": "1"}}))
    of_bench.check_output(str(figures))
    figures.write_text(json.dumps(["dfgen"]))
    with pytest.raises(WriteError, match="no figures of dfgen bench"):
        of_bench.check_output(str(figures))


def test_corrections_replace_corrections_and_no_table_of_labels(tmp_path):
    rng = np.random.default_rng(0)
    true = np.array(["a", "b"])[np.arange(40) % 2]
    probabilities = np.where((true == "a")[:, None], [0.9, 0.1], [0.1, 0.9])
    probabilities[:2] = probabilities[1::-1]
    frame = pd.DataFrame({"id": range(40), "kind": true, "y_true": true})
    frame["y_pred"] = np.array(["a", "b"])[probabilities.argmax(1)]
    frame["prob"] = [*probabilities + rng.random((40, 1)) * 1e-3]
    for name in ("y_true", "y_pred"):
        frame[name] = pd.Categorical(frame[name], ["a", "b"])
    wrong = dfgen.explore.mistakes(frame)
    out = Path(tmp_path / "to_fix.csv")
    wrong.write(out)
    wrong.write(out)  # its own
    for content in ("id,kind\n" + "".join(f"{n},a\n" for n in range(40)), "id,age\n1,2\n"):
        out.write_text(content)
        with pytest.raises(WriteError, match="no table of corrections"):
            wrong.write(out)
        assert out.read_text() == content
