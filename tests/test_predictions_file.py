"""Predictions in files: parts of a killed run, of other runs, of several processes."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.errors import ArgumentError, WriteError

ROWS, BATCH = 90, 3
OTHERWISE = dfgen.Category("kind", class_names=["c", "a", "b"])


def model(shift=0.0):
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(3)])
    made.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    made.set_weights([np.array([[1, 0, -1]], "f4"), np.array([0, 0.1, shift], "f4")])
    return made


def sequence(rows=ROWS, **options):
    numbers = np.linspace(-1, 1, rows)
    labels = pd.Categorical(np.array(["a", "b", "c"])[np.arange(rows) % 3])
    frame = pd.DataFrame({"id": [f"r{n}" for n in range(rows)], "n": numbers, "kind": labels})
    options = {"x": dfgen.Number(["n"]), "y": "kind", "batch_size": BATCH, **options}
    return dfgen.Sequence(frame, **options)


def replaced(number):
    """Kill this process when a file is about to get its name for the so-many-th time."""
    replace, count = os.replace, itertools.count()

    def replacing(old, new):
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(old, new)
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replacing


def test_a_file_holds_what_the_frame_does(tmp_path):
    frame = dfgen.evaluate_frame(model(), sequence(on_error="skip"))
    path = dfgen.evaluate_frame(model(), sequence(on_error="skip"), out=tmp_path / "p.parquet")
    assert path == str(tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(path), frame)
    run = json.loads(pq.read_schema(path).metadata[b"dfgen_predictions"])
    assert run["heads"] == {"": {"kind": "classes", "class_names": ["a", "b", "c"]}}
    parts = tmp_path / "p.parquet.parts"  # as a kill just before its end leaves them
    parts.mkdir()
    (parts / "run.json").write_text(json.dumps(run))
    assert dfgen.evaluate_frame(model(), sequence(on_error="skip"), out=path) == path
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".lock")] == ["p.parquet"]


@pytest.mark.slow
@pytest.mark.backend
def test_killed_at_any_write_it_goes_on_with_what_is_there(tmp_path):
    """Each of its runs is killed one write later than the one before, until one ends."""
    out = tmp_path / "p.parquet"
    for number in itertools.count():
        command = [sys.executable, __file__, str(out), str(number)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=150)
        if ended.returncode != -signal.SIGKILL:
            break
    assert ended.returncode == 0, ended.stderr
    assert number > 3
    expected = dfgen.predict_frame(model(), sequence())
    pd.testing.assert_frame_equal(pd.read_parquet(out), expected)
    assert not [name for name in os.listdir(tmp_path) if name.endswith((".tmp", ".parts"))]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (lambda out: dfgen.predict_frame(model(1.0), sequence(), out=out),
         "another model, or other weights of it"),
        (lambda out: dfgen.predict_frame(model(), sequence(91), out=out),
         "another number of rows; other rows, or in another order; other labels; other values in "
         "columns of the manifest"),
        (lambda out: dfgen.predict_frame(model(), sequence(y=OTHERWISE), out=out),
         "other labels; other targets or class names"),
        (lambda out: dfgen.predict_frame(model(), sequence(shard=(1, 3)), out=out),
         "another batch size; another part of the rows"),
        (lambda out: dfgen.evaluate_frame(model(), sequence(), out=out),
         "predict_frame, or evaluate_frame, the other of the two"),
    ],
)  # fmt: skip
def test_a_file_of_another_run_is_refused(written, other, told):
    with pytest.raises(ArgumentError) as caught:
        other(written)
    assert str(caught.value) == (
        f"{written} holds predictions of another run: {told}. Give another out=, or remove "
        f"{written}"
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "p.parquet"
    return dfgen.predict_frame(model(), sequence(), out=path)


def test_parts_of_another_run_and_strangers_are_refused(tmp_path):
    out = tmp_path / "p.parquet"
    folder = tmp_path / "p.parquet.parts"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model(), sequence(), out=out)
    assert str(caught.value) == (
        f"{folder} holds files that predict_frame did not write. Give another out=, or remove "
        f"{folder}"
    )
    (folder / "run.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(ArgumentError, match=r"holds files of another run: another number of rows"):
        dfgen.predict_frame(model(), sequence(), out=out)
    out.write_text("text")
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model(), sequence(), out=out)
    assert str(caught.value) == (
        f"{out} is no file of predictions, as predict_frame(out=...) writes them"
    )
    with pytest.raises(WriteError, match=r"is called \.csv"):
        dfgen.predict_frame(model(), sequence(), out=tmp_path / "p.csv")


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """Frames and files of three processes."""
    folder, made = tmp_path_factory.mktemp("shares"), []
    for index in range(3):
        seq = sequence(91, shard=(index, 3), batch_size=12)
        path = dfgen.predict_frame(model(), seq, out=folder / f"{index}.parquet")
        made.append((dfgen.predict_frame(model(), seq), path))
    return [*map(list, zip(*made, strict=True))]


def test_parts_of_several_processes_join_to_the_whole(shares, tmp_path):
    frames, paths = shares
    whole = dfgen.predict_frame(model(), sequence(91))
    assert [len(frame) for frame in frames] == [28, 32, 31]
    joined = dfgen.join_predictions([frames[2], frames[0], frames[1]])
    pd.testing.assert_frame_equal(joined, whole)
    pd.testing.assert_frame_equal(dfgen.join_predictions(paths[::-1]), whole)
    out = dfgen.join_predictions(paths, out=tmp_path / "all.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(out), whole)


def wrong_joins(frames, paths):
    other = dfgen.predict_frame(model(1.0), sequence(91, shard=(1, 3), batch_size=12))
    two = dfgen.predict_frame(model(), sequence(91, shard=(1, 2), batch_size=8))
    return {
        "parts is an empty list, expected the predictions of each process": [],
        f"parts must be a list of frames or paths, got {paths[0]!r}": paths[0],
        "of 3 parts 1 (from 0) are missing: expected the predictions of each process": frames[::2],
        f"part 0 of 3 is there twice: {paths[0]} and parts[2]": [paths[0], frames[1], frames[0]],
        "parts[1] has 31 rows, but 32 were predicted in it: join parts as they were made, and "
        "filter afterwards": [frames[0], frames[1].iloc[1:], frames[2]],
        "parts[1] holds predictions of another run: another model, or other weights of it. Join "
        "what goes with parts[0]": [frames[0], other],
        "parts[0] is one of 3 parts, parts[1] one of 2: they are not parts of the same run":
            [frames[0], two],
        "parts[1] does not say of which run it is: expected a frame as predict_frame returns it "
        "for a Sequence with shard=(index, count), whose attrs have 'dfgen_predictions'":
            [frames[0], pd.DataFrame({"id": [1]})],
    }  # fmt: skip


def test_what_cannot_be_joined_is_told(shares):
    for told, parts in wrong_joins(*shares).items():
        with pytest.raises(ArgumentError) as caught:
            dfgen.join_predictions(parts)
        assert str(caught.value) == told


def test_processes_without_rows_are_told():
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model(), sequence(3, shard=(0, 4), batch_size=4))
    assert str(caught.value) == (
        "3 batches of 1 rows are too few for 4 processes: make the batches smaller, or predict in "
        "fewer"
    )


if __name__ == "__main__":
    replaced(int(sys.argv[2]))
    dfgen.predict_frame(model(), sequence(), out=Path(sys.argv[1]))
