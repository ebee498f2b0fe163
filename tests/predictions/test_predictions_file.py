"""Predictions in files: parts of a killed run, of other runs, of several processes."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import each

import dfgen
from dfgen.errors import ArgumentError, WriteError
from dfgen.loading.state import ids_digest
from dfgen.system import only_writer
from dfgen.training.predictions.predicted_rows import OrderedPasses, Prediction
from dfgen.training.predictions.run_identity import refuse_other

ROWS, BATCH = 90, 3
OTHERWISE = dfgen.Category("kind", class_names=["c", "a", "b"])


@cache
def model(shift=0.0, activation=None):
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(3, activation)])
    made.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    made.set_weights([np.array([[1, 0, -1]], "f4"), np.array([0, 0.1, shift], "f4")])
    return made


def table(rows=ROWS):
    numbers = np.linspace(-1, 1, rows)
    labels = pd.Categorical(np.array(["a", "b", "c"])[np.arange(rows) % 3])
    return pd.DataFrame({"id": [f"r{n}" for n in range(rows)], "n": numbers, "kind": labels})


def sequence(rows=ROWS, **options):
    frame = table(rows) if isinstance(rows, int) else rows
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
    out, env = tmp_path / "p.parquet", {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in itertools.count():
        command = [sys.executable, __file__, str(out), str(number)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=150, env=env)
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
def test_fault_64_a_file_of_another_run_is_refused(written, other, told):
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
    with pytest.raises(
        ArgumentError, match=r"holds files of another run: another version of dfgen; "
    ):
        dfgen.predict_frame(model(), sequence(), out=out)
    out.write_text("text")
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model(), sequence(), out=out)
    assert str(caught.value) == (
        f"{out} is no file of predictions, as predict_frame(out=...) writes them"
    )
    with pytest.raises(WriteError, match=r"called \.csv, and a file of predictions is"):
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
    said = json.loads(pq.read_schema(out).metadata[b"dfgen_predictions"])
    assert (said["shard"], said["part"], said["id"]) == ([0, 1], [0, 91], "id")
    assert said["part_ids"] == said["ids"] == ids_digest(whole.id)
    assert joined.attrs["dfgen_predictions"] == said


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


def interrupted(*given):
    raise KeyboardInterrupt


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """The path of a file whose run ended just before its parts were joined."""
    out = tmp_path / "p.parquet"
    monkeypatch.setattr("dfgen.training.predictions.predicted_rows.next_steps", lambda *_: 4)
    with monkeypatch.context() as patch:
        patch.setattr("dfgen.training.predictions.predict_frame.write_joined", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dfgen.predict_frame(model(), sequence(), out=out)
    return out


def parts_of(out):
    return sorted(Path(f"{out}.parts").glob("*.parquet"))


def edited(path):
    pd.read_parquet(path).assign(y_pred="c").to_parquet(path)


def reordered(path):
    told = pq.read_table(path)
    pq.write_table(told.take(list(range(len(told)))[::-1]), path)  # with all that its schema says


def damaged(path):
    held = bytearray(path.read_bytes())
    held[len(held) // 3] ^= 1
    path.write_bytes(held)


@pytest.mark.backend
@pytest.mark.parametrize(("place", "harm"), [
    (0, Path.unlink), (2, edited),
    *[pytest.param(*one, marks=pytest.mark.slow) for one in itertools.product(
        [0, 2, -1], [Path.unlink, edited, reordered, damaged])],
])  # fmt: skip
def test_attack_parts_that_lack_or_were_changed_are_predicted_anew(killed, harm, place):
    assert len(parts_of(killed)) == 5
    harm(parts_of(killed)[place])
    found = dfgen.predict_frame(model(), sequence(), out=killed)
    pd.testing.assert_frame_equal(pd.read_parquet(found), dfgen.predict_frame(model(), sequence()))


def test_parts_that_are_whole_are_not_predicted_again(killed, monkeypatch):
    def counted(self, made, part, view, until):
        steps.extend(part)
        return predict(self, made, part, view, until)

    steps, predict = [], OrderedPasses.predict
    monkeypatch.setattr(OrderedPasses, "predict", counted)
    parts_of(killed)[3].unlink()
    dfgen.predict_frame(model(), sequence(), out=killed)
    assert steps == [*range(24, 30)]


def scaled(number):
    """A model with a function in it, which is another object each time."""
    functions = [lambda x: 2 * x, lambda x: x * 2]
    image = keras.Input((1,))
    made = keras.Model(image, keras.layers.Lambda(functions[number], (1,))(image))
    return keras.Sequential([made, keras.layers.Dense(3)])


@pytest.mark.backend
def test_functions_in_layers_do_not_make_another_model(tmp_path):
    out, weights = tmp_path / "p.parquet", model().get_weights()
    for number in (0, 1):
        made = scaled(number)
        made.build((None, 1))
        made.set_weights(weights)
        bare = sequence(6, y=None, label_mode=None)
        assert dfgen.predict_frame(made, bare, out=out) == str(out)


def with_statistics(mean):
    """A model whose last layer has weights that no optimizer trains."""
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(3)])
    made.add(keras.layers.BatchNormalization())
    made.set_weights(
        [*model().get_weights(), np.ones(3), np.zeros(3), np.full(3, mean), np.ones(3)]
    )
    return made


def branched(swapped):
    """A model of two branches with equal weights; which is subtracted from which tells them."""
    image = keras.Input((1,))
    one = keras.layers.Dense(3, "tanh")
    other = keras.layers.Dense(3)
    pair = [one(image), other(image)]
    made = keras.Model(image, keras.layers.Subtract()(pair[::-1] if swapped else pair))
    for layer in (one, other):
        layer.set_weights(model().get_weights())
    return made


def with_heads(*names):
    image = keras.Input((1,))
    return keras.Model(image, [keras.layers.Dense(1, name=name)(image) for name in names])


@pytest.mark.backend
def test_attack_outputs_of_other_names_are_refused(tmp_path):
    out, first = tmp_path / "p.parquet", with_heads("age", "size")
    bare = sequence(6, y=None, label_mode=None)
    dfgen.predict_frame(first, bare, out=out)
    other = with_heads("age", "width")
    other.set_weights(first.get_weights())
    with pytest.raises(ArgumentError, match=r"of another run: another model, or other weights of"):
        dfgen.predict_frame(other, bare, out=out)


@pytest.mark.backend
@pytest.mark.parametrize(
    ("made", "other"),
    [
        (model, lambda: model(activation="softmax")),
        (lambda: with_statistics(0.0), lambda: with_statistics(1.0)),
        (lambda: branched(False), lambda: branched(True)),
    ],
    ids=["activation", "statistics", "branches"],
)
def test_attack_another_model_of_equal_weights_is_refused_and_one_made_alike_is_not(
    tmp_path, made, other
):
    out, logits = tmp_path / "p.parquet", {"from_logits": True}
    first = made()
    dfgen.predict_frame(first, sequence(12), out=out, **logits)
    with pytest.raises(ArgumentError, match=r"of another run: another model, or other weights of"):
        dfgen.predict_frame(other(), sequence(12), out=out, **logits)
    first.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras", compile=False)
    if first.compiled:
        loaded.compile(loss=first.loss)
    for alike in (made(), loaded):
        assert dfgen.predict_frame(alike, sequence(12), out=out, **logits) == str(out)


def with_value(column, place, value):
    frame = table()
    frame.loc[place, column] = value
    return frame


@pytest.mark.backend
@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (table().sample(frac=1, random_state=0), "other rows, or in another order; other labels; "),
        (with_value("n", ROWS - 1, 0.5), ""),
        (table().assign(n=table().n.to_numpy()[::-1]), ""),
        (with_value("id", 3, "another"), "other rows, or in another order"),
        (table().assign(note="new"), "other columns of the manifest; "),
    ],
    ids=["order", "one number", "numbers of other rows", "an id", "a column"],
)
def test_attack_rows_that_were_changed_between_runs_are_not_gone_on_with(written, frame, told):
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model(), sequence(frame), out=written)
    values = "" if told.endswith("order") else "other values in columns of the manifest"
    assert f"p.parquet holds predictions of another run: {told}{values}. Give" in str(caught.value)


@pytest.mark.backend
def test_attack_other_paths_are_refused_but_not_a_folder_that_was_moved(frame, tmp_path):
    made = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.GlobalAveragePooling2D()])
    (tmp_path / "a").mkdir()
    for name in frame(6).path:
        shutil.copy(name, tmp_path / "a")
    df = dfgen.build_manifest(tmp_path / "a", pattern="{id}.png", out=tmp_path / "m.parquet")
    options = {"label_mode": None, "image_size": (4, 4)}
    out = tmp_path / "p.parquet"
    dfgen.predict_frame(made, dfgen.Sequence(df, **options), out=out)
    (tmp_path / "a").rename(tmp_path / "b")
    moved = dfgen.read_manifest(tmp_path / "m.parquet", root=tmp_path / "b")
    assert dfgen.predict_frame(made, dfgen.Sequence(moved, **options), out=out) == str(out)
    moved["path"] = moved["path"].to_numpy()[::-1]
    with pytest.raises(ArgumentError, match=r"of another run: other paths of files\. Give another"):
        dfgen.predict_frame(made, dfgen.Sequence(moved, **options), out=out)


@pytest.mark.backend
def test_attack_other_class_names_saved_beside_a_model_are_refused(tmp_path):
    out = tmp_path / "p.parquet"
    saved = sequence(y=dfgen.Category("kind", class_names=["a", "b", "c"])).preprocessing()
    other = sequence(y=OTHERWISE).preprocessing()
    bare = sequence(y=None, label_mode=None)
    dfgen.predict_frame(model(), bare, preprocessing=saved, out=out)
    with pytest.raises(ArgumentError, match=r"of another run: other targets or class names\. Give"):
        dfgen.predict_frame(model(), bare, preprocessing=other, out=out)
    assert dfgen.predict_frame(model(), bare, preprocessing=saved, out=out) == str(out)


def test_attack_a_file_whose_rows_were_edited_is_not_taken_for_the_whole(written, tmp_path):
    out = tmp_path / "p.parquet"
    advice = f"it was edited since. Give another out=, or remove {out}"
    for change, told in (
        (lambda rows: rows[3:], f"87 rows, but {ROWS} were predicted in it"),
        (lambda rows: rows.take([0, *range(ROWS - 1)]),
         "other rows than were predicted in it, or in another order, as its column 'id' says"),
    ):  # fmt: skip
        pq.write_table(change(pq.read_table(written)), out)
        with pytest.raises(ArgumentError) as caught:
            dfgen.predict_frame(model(), sequence(), out=out)
        assert str(caught.value) == f"{out} has {told}: {advice}"


def test_a_file_that_another_run_writes_is_left_alone(tmp_path):
    out = str(tmp_path / "p.parquet")
    with only_writer(out), pytest.raises(WriteError, match=r"p\.parquet is being written"):
        dfgen.predict_frame(model(), sequence(12), out=out)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.sort_values("n", ascending=False),
        lambda frame: pd.concat([frame.iloc[:1], frame.iloc[:-1]]),
        lambda frame: frame.assign(id=["x", *frame.id[1:]]),
        lambda frame: frame.rename(columns={"id": "name"}),
    ],
    ids=["another order", "a row twice", "an id", "no ids"],
)
def test_attack_parts_whose_rows_were_changed_are_not_joined(shares, tmp_path, change):
    frames, paths = shares
    told = (
        " has other rows than were predicted in it, or in another order, as its column 'id' says: "
        "join parts as they were made, and filter afterwards"
    )
    changed = change(frames[1])
    with pytest.raises(ArgumentError) as caught:
        dfgen.join_predictions([frames[0], changed, frames[2]])
    assert str(caught.value) == f"parts[1]{told}"
    path = str(tmp_path / "1.parquet")
    schema = pq.read_schema(paths[1]).metadata
    pq.write_table(pa.Table.from_pandas(changed).replace_schema_metadata(schema), path)
    with pytest.raises(ArgumentError) as caught:
        dfgen.join_predictions([paths[0], path, paths[2]])
    assert str(caught.value) == f"{path}{told}"


def test_attack_parts_of_other_numbers_are_not_joined_and_other_columns_may_be_added(shares):
    frames, _ = shares
    other = sequence(table(91).assign(n=0.0), shard=(1, 3), batch_size=12)
    with pytest.raises(ArgumentError, match=r"of another run: other values in columns of the mani"):
        dfgen.join_predictions([frames[0], dfgen.predict_frame(model(), other), frames[2]])
    joined = dfgen.join_predictions([frame.assign(seen=True) for frame in frames])
    assert joined.id.tolist() == table(91).id.tolist()


def twice(sample, rng):
    return sample


def run(rows=12, made=None, **options):
    """What tells a run from others, of which one thing may be otherwise."""
    kinds = ("views", "logits", "arrays", "weighs")
    of_run = {name: options.pop(name) for name in kinds if name in options}
    return Prediction(made or model(), sequence(rows, **options), **of_run).run


def compiled(loss):
    made = model.__wrapped__()
    made.compile(loss=loss)
    return made


FACTS = table(12).assign(index=range(12), digest="a", split="val", width=3, problem=None)


@each(
    ("one", "other", "told"),
    [
        ({}, {}, ""),
        ({}, {"transform": twice}, "other inputs"),
        ({}, {"x": dfgen.Number(["n"], dtype="float64")}, "other inputs"),
        ({}, {"y": dfgen.Category("kind", label_mode="categorical")},
         "other labels; other targets or class names"),
        ({}, {"seed": 1}, "another seed"),
        ({}, {"batch_size": 4}, "another batch size"),
        ({}, {"shard": (0, 3)}, "another batch size; another part of the rows"),
        ({}, {"made": compiled("sparse_categorical_crossentropy")}, "another loss"),
        ({"made": compiled("mse")}, {"made": compiled("mae")}, "another loss"),
        ({}, {"views": 2}, "another number of views"),
        ({}, {"logits": True}, "another from_logits"),
        ({}, {"arrays": "lists"}, "arrays in another place"),
        ({}, {"weighs": True}, "predict_frame, or evaluate_frame, the other of the two"),
        ({"rows": FACTS}, {"rows": FACTS.assign(split="test", width=4, problem="bad")}, ""),
        ({"rows": FACTS}, {"rows": FACTS.drop(columns="problem")}, ""),
        ({"rows": FACTS}, {"rows": FACTS.assign(index=range(1, 13))},
         "other values in columns of the manifest"),
        ({"rows": FACTS}, {"rows": FACTS.assign(digest="b")},
         "other values in columns of the manifest"),
        ({"rows": table(12).assign(box=[{"a": 1}] * 12)},
         {"rows": table(12).assign(box=[{"a": "b"}] * 12)},
         "other values in columns of the manifest"),
    ],
)  # fmt: skip
def test_a_run_is_told_from_others_by_what_makes_its_numbers(one, other, told):
    first, second = run(**one), json.loads(json.dumps(run(**other)))
    if not told:
        assert refuse_other(second, first, "p", "Go") is None
        return
    with pytest.raises(ArgumentError) as caught:
        refuse_other(second, first, "p", "Go")
    assert str(caught.value) == f"p of another run: {told}. Go"


@pytest.mark.parametrize(
    ("frame", "options", "name"),
    [
        (table(40), {}, "id"),
        (table(40).assign(id=range(40)), {}, "id"),
        (table(40).assign(name=[f"x{n}" for n in range(40)]), {"id": "name"}, "name"),
        (table(40).assign(at=range(40)).drop(columns="id"), {"id": "at"}, "at"),
        (table(40).rename(columns={"id": "a"}).assign(id=lambda rows: rows["a"]), {}, "id"),
    ],
)
def test_predictions_say_which_column_has_their_ids(tmp_path, frame, options, name):
    for shard in ((0, 1), (1, 2)):
        seq = sequence(frame, shard=shard, batch_size=4, **options)
        path = dfgen.predict_frame(model(), seq, out=tmp_path / f"{shard[1]}.parquet")
        said = json.loads(pq.read_schema(path).metadata[b"dfgen_predictions"])
        assert (said["id"], said["rows"], said["shard"]) == (name, 40, list(shard))
        assert said["part"] == ([0, 40] if shard == (0, 1) else [20, 40])
        assert said["part_ids"] == ids_digest(frame[name].iloc[slice(*said["part"])])


def test_files_of_many_rows_are_joined_a_group_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("dfgen.training.predictions.predictions_file._GROUP", 20)
    monkeypatch.setattr("dfgen.training.predictions.predicted_rows.next_steps", lambda *_: 4)
    path = dfgen.predict_frame(model(), sequence(100), out=tmp_path / "p.parquet")
    found = pq.ParquetFile(path).metadata
    assert [found.row_group(n).num_rows for n in range(found.num_row_groups)] == [48, 24, 24, 4]
    whole = dfgen.predict_frame(model(), sequence(100))
    pd.testing.assert_frame_equal(pd.read_parquet(path), whole)


if __name__ == "__main__":
    replaced(int(sys.argv[2]))
    dfgen.predict_frame(model(), sequence(), out=Path(sys.argv[1]))
