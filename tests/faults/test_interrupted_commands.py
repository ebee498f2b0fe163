"""Ctrl-C and SIGTERM at any line of a command: no half file, and the command can be given again."""

import io
import os
import random
import signal

import keras  # in no time of a case
import pyarrow.csv
import pytest
from command import run
from interrupting import Lines

import dfgen

COMMANDS = {
    "build-manifest": "imgs --out new.parquet",
    "check": "labels.csv imgs",
    "verify": "m.parquet --decode",
    "diff": "m.parquet m.parquet",
    "split": "m.parquet --split train=0.5 --split val=0.5 --out new.parquet",
    "recipe": "m.parquet --out new.toml",
    "pack": "m.parquet --out new --image-size 4,4",
    "report": "m.parquet --out new.html",
    "predict": "model.keras m.parquet --out new.parquet",
}


@pytest.fixture(autouse=True, scope="module")
def pipe_of_pyarrow():
    """It opens a pipe with its first table of text, by which it hears of signals, and keeps it."""
    pyarrow.csv.read_csv(io.BytesIO(b"a\n1"))


@pytest.fixture
def folder(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imgs").mkdir()
    df = frame(8)
    for path in df["path"]:
        os.link(path, f"imgs/{os.path.basename(path)}")
    df.assign(name=[f"{row}.png" for row in range(8)])[["name", "label"]].to_csv("labels.csv")
    dfgen.build_manifest("imgs", facts="full", out="m.parquet")
    return tmp_path


def save_model():
    image = keras.Input((4, 4, 3))
    pooled = keras.layers.GlobalAveragePooling2D()(image)
    keras.Model(image, keras.layers.Dense(1)(pooled)).save("model.keras")
    df = dfgen.read_manifest("m.parquet").assign(y=1.0)
    seq = dfgen.Sequence(df, y="y", image_size=(4, 4))
    dfgen.SavePreprocessing("model.keras.json", seq).on_train_begin()


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
def test_fault_82_a_signal_at_any_line_of_a_command_leaves_no_half_file(folder, name):
    command = [name, *COMMANDS[name].split()]
    if name == "predict":
        save_model()
    before = files()
    expected = run(*command)  # which imports what it needs
    assert expected.returncode in (0, 1), expected.stderr
    whole = files()
    remove(whole.keys() - before.keys())
    with Lines() as lines:
        run(*command)
    draws = random.Random(name)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        remove(files().keys() - before.keys())
        with Lines(draws.randrange(lines.count // 10, lines.count * 9 // 10), number):
            stopped = run(*command)
        assert stopped.returncode == code, stopped.stderr
        assert "Traceback" not in stopped.stderr
        assert stopped.stderr.splitlines()[-1].startswith(f"dfgen {name}: stopped. ")
        if name not in ("pack", "predict"):  # these go on after what they have finished
            assert files().keys() <= whole.keys()
        again = run(*command)
        assert again.returncode == expected.returncode, again.stderr
        assert files().keys() == whole.keys()
