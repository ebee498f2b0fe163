"""A model that was saved, on rows made as in training: the command, and what it refuses."""

import json
import shutil

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from command import run

import dfgen
from dfgen.errors import ArgumentError
from dfgen.explore import mistakes, report, show
from dfgen.training.predictions.predict_frame import predict_saved
from dfgen.training.predictions.saved_preprocessing import sequence_as_trained

ROWS = 12
NAMES = ["red", "green", "blue"]
ENDINGS = ("parquet", "manifest")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with images, a model that tells their colour, and a manifest of these."""
    folder = tmp_path_factory.mktemp("trained")
    kinds = [NAMES[row * 7 % 3] for row in range(ROWS)]
    for row, kind in enumerate(kinds):
        pixels = np.zeros((6, 6, 3), np.uint8)
        pixels[..., 2 - NAMES.index(kind)] = 200  # OpenCV writes BGR
        cv2.imwrite(f"{folder}/{row}.png", pixels)
    frame = pd.DataFrame({"id": range(ROWS), "path": [f"{folder}/{n}.png" for n in range(ROWS)]})
    frame["kind"] = pd.Categorical(kinds, NAMES)
    frame["split"] = pd.Categorical(np.where(frame.id < 4, "test", "train"))
    image = keras.Input((4, 4, 3))
    made = keras.layers.Dense(3)
    model = keras.Model(image, made(keras.layers.GlobalAveragePooling2D()(image)))
    made.set_weights([10 * np.eye(3, dtype=np.float32), np.zeros(3, np.float32)])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = dfgen.Image("path", size=(4, 4), scale="0..1")
    seq = dfgen.Sequence(frame, x=x, y=dfgen.Category("kind"))
    beside = dfgen.SavePreprocessing(folder / "model.keras.json", seq)
    beside.on_train_begin()
    model.save(folder / "model.keras")
    dfgen.write_manifest(frame, folder / "all.parquet")
    dfgen.write_manifest(frame, folder / "all.manifest")
    frame["kind"] = frame.kind.cat.reorder_categories(NAMES[::-1])
    dfgen.write_manifest(frame, folder / "otherwise.parquet")
    dfgen.write_manifest(frame.drop(columns="kind"), folder / "bare.parquet")
    return folder, model, frame, seq


def predicted(folder, name, *options):
    out = folder / f"{name}{len(options)}.out.parquet"
    ended = run("predict", folder / "model.keras", folder / name, "--out", out, *options)
    assert ended.stderr == ""
    assert ended.returncode == 0
    return pd.read_parquet(out), ended.stdout


def test_names_of_classes_are_those_of_training_however_the_manifest_numbers_them(trained):
    for name in ("all.parquet", "otherwise.parquet"):
        found, told = predicted(trained[0], name)
        assert found.y_pred.tolist() == found.kind.tolist() == found.y_true.tolist()
        assert found.y_pred.cat.categories.tolist() == NAMES
        right = np.exp(10 * 200 / 255) / (np.exp(10 * 200 / 255) + 2)
        np.testing.assert_allclose(np.stack(found.prob).max(axis=1), right, rtol=1e-6)
        assert told == f"Wrote {trained[0]}/{name}0.out.parquet: 12 rows\n"


def test_rows_of_a_manifest_in_parts_are_predicted_as_those_of_one_file(trained):
    for options in ((), ("--split", "test")):
        one, parts = (predicted(trained[0], f"all.{end}", *options)[0] for end in ENDINGS)
        pd.testing.assert_frame_equal(parts, one)


def test_rows_without_labels_are_named_too(trained):
    found, told = predicted(trained[0], "bare.parquet", "--json")
    assert found.y_pred.tolist() == trained[2].kind.tolist()
    assert not {"y_true", "loss"} & {*found}
    out = f"{trained[0]}/bare.parquet1.out.parquet"
    assert json.loads(told) == {"out": out, "rows": ROWS, "problems": 0}


def test_a_split_and_a_part_of_it_can_be_predicted(trained):
    found, _ = predicted(
        trained[0], "all.parquet", "--split", "test", "--shard", "1/2", "--batch-size", "2"
    )
    assert found.id.tolist() == [1, 3] or found.id.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.keras", "all.parquet"],
         'there is no model {0}/none.keras. Looked in {0}. Did you mean "model.keras"?'),
        (["all.parquet", "all.parquet"],
         "{0}/all.parquet is a manifest, expected a model saved by Keras: it comes first, dfgen "
         "predict model.keras {0}/all.parquet"),
        (["model.keras", "all.parquet", "--split", "val"],
         "no row of {}/all.parquet has the split 'val', but 'test', 'train'"),
        (["model.keras", "all.parquet", "--shard", "one"],
         "--shard one: expected I/N, as 0/4 of the first of 4"),
        (["model.keras", "0123456789.parquet"], "there is no manifest {}/0123456789.parquet"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(trained, tmp_path, arguments, told):
    folder = trained[0]
    paths = [folder / one if "." in one else one for one in arguments]
    ended = run("predict", *paths, "--out", tmp_path / "p.parquet")
    assert ended.returncode == 1
    assert ended.stderr == f"dfgen: {told.format(folder)}\n"


def several_heads(folder, frame):
    """Save a model of three heads that are sure of the colour, and what goes with it."""
    image = keras.Input((4, 4, 3), name="image")
    seen = keras.layers.GlobalAveragePooling2D()(image)
    units = {"kind": 3, "is_red": 1, "tags": 3}
    made = {
        name: keras.layers.Dense(count, "softmax" if name == "kind" else "sigmoid", name=name)
        for name, count in units.items()
    }
    model = keras.Model(image, {name: layer(seen) for name, layer in made.items()})
    sure = 40 * np.eye(3, dtype=np.float32)
    made["kind"].set_weights([sure, np.zeros(3, np.float32)])
    made["tags"].set_weights([sure, np.full(3, -10, np.float32)])
    made["is_red"].set_weights([sure[:, :1], np.full(1, -10, np.float32)])
    losses = dict.fromkeys(units, "binary_crossentropy")
    model.compile(loss=losses | {"kind": "sparse_categorical_crossentropy"})
    y = {
        "kind": dfgen.Category("kind", class_names=NAMES),
        "is_red": dfgen.Category("is_red", "binary", class_names=["other", "red"]),
        "tags": dfgen.MultiLabel("tags", NAMES),
    }
    x = dfgen.Image("path", size=(4, 4), scale="0..1")
    seq = dfgen.Sequence(frame, x, y, workers=0)
    dfgen.SavePreprocessing(folder / "heads.keras.json", seq).on_train_begin()
    model.save(folder / "heads.keras")


def turned(df):
    """Categories in another order, and lists and text whose first row is another."""
    kinds = [
        df.kind.cat.reorder_categories(NAMES[::-1]),
        df.is_red.cat.reorder_categories(["red", "other"]),
    ]
    return df[::-1].assign(kind=kinds[0], is_red=kinds[1])


FRAMES = {
    "turned": turned,
    "text": lambda df: df.assign(kind=df.kind.astype(str), is_red=df.is_red.astype(str)),
    "one class alone": lambda df: df[df.kind == "blue"].assign(
        kind=lambda rows: rows.kind.cat.remove_unused_categories(),
        is_red=lambda rows: rows.is_red.cat.remove_unused_categories(),
    ),
    "without a label": lambda df: df.drop(columns="tags"),
}


@pytest.mark.backend
@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_of_head_is_named_as_in_training(trained, tmp_path, name):
    frame = trained[2].assign(
        kind=lambda df: df.kind.cat.reorder_categories(NAMES),
        is_red=lambda df: pd.Categorical(np.where(df.kind == "red", "red", "other")),
        tags=lambda df: [[kind] for kind in df.kind],
    )
    several_heads(tmp_path, frame)
    rows = FRAMES[name](frame)
    dfgen.write_manifest(rows, tmp_path / "m.parquet")
    predict_saved(
        str(tmp_path / "heads.keras"), str(tmp_path / "m.parquet"), str(tmp_path / "p.parquet")
    )
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert found.y_pred_kind.tolist() == rows.kind.tolist()
    assert found.y_pred_is_red.tolist() == rows.is_red.tolist()
    assert [list(one) for one in found.y_pred_tags] == [[kind] for kind in rows.kind]
    if name != "without a label":
        assert found.y_true_kind.tolist() == rows.kind.tolist()
        assert (found.loss < 0.1).all()


def test_a_class_that_the_model_does_not_know_is_refused_by_name(trained, tmp_path):
    strange = trained[2].assign(kind=lambda df: df.kind.astype(str).where(df.id != 5, "violet"))
    dfgen.write_manifest(strange, tmp_path / "m.parquet")
    with pytest.raises(dfgen.DfgenError) as caught:
        predict_saved(str(trained[0] / "model.keras"), str(tmp_path / "m.parquet"), "p.parquet")
    assert str(caught.value) == (
        "column 'kind' holds 'violet' (1 in all), not among its class names: 'red', 'green', "
        "'blue'. Mend the values, drop such rows, or add them to class_names="
    )


@pytest.mark.parametrize("nested", [lambda y: {"kind": y}, lambda y: [y]], ids=["dict", "list"])
def test_a_sequence_that_nests_its_labels_otherwise_is_refused_too(trained, nested):
    folder, model, frame, _ = trained
    x = dfgen.Image("path", size=(4, 4), scale="0..1")
    other = dfgen.Sequence(frame, x=x, y=nested(dfgen.Category("kind")))
    with pytest.raises(ArgumentError, match=r"^the model numbers the classes of 'label' as 'red'"):
        dfgen.predict_frame(model, other, preprocessing=folder / "model.keras.json")


def test_columns_in_another_order_than_saved_are_refused(trained):
    frame = trained[2].assign(a=1.0, b=2.0)
    image = keras.Input((2,))
    model = keras.Model(image, keras.layers.Dense(1)(image))
    one, other = (
        dfgen.Sequence(frame, dfgen.Number(names), None, label_mode=None, workers=0)
        for names in (["a", "b"], ["b", "a"])
    )
    assert len(dfgen.predict_frame(model, one, preprocessing=one.preprocessing())) == ROWS
    with pytest.raises(ArgumentError, match=r"^x of the Sequence has 'number' as Number\("):
        dfgen.predict_frame(model, other, preprocessing=one.preprocessing())


def test_a_sequence_that_is_not_as_in_training_is_refused(trained):
    folder, model, frame, seq = trained
    saved = folder / "model.keras.json"
    assert len(dfgen.predict_frame(model, seq, preprocessing=saved)) == ROWS
    x = dfgen.Image("path", size=(4, 4), scale="0..1")
    told = {
        "the model numbers the classes of 'label' as 'red', 'green', 'blue', but the Sequence as "
        "'blue', 'green', 'red': give it class_names=['red', 'green', 'blue']":
            dfgen.Sequence(frame, x=x, y="kind"),
        "x of the Sequence has 'image' as Image(size=(4, 4)), but the model was trained on "
        "Image(size=(4, 4), scale='0..1'): make it alike, or give the model that goes with "
        "it": dfgen.Sequence(frame, y="kind", image_size=(4, 4)),
    }  # fmt: skip
    for text, other in told.items():
        with pytest.raises(ArgumentError) as caught:
            dfgen.predict_frame(model, other, preprocessing=dfgen.load_preprocessing(saved))
        assert str(caught.value) == text
    with pytest.raises(ArgumentError, match=r"^preprocessing must be a dfgen\.Preprocessing or "):
        dfgen.predict_frame(model, seq, preprocessing=3)


@pytest.mark.backend
@pytest.mark.parametrize("kinds", [
    pd.Categorical(["blue"] * ROWS, ["blue"]),
    pd.Categorical(["green"] * ROWS, ["zebra", "blue", "green", "red"]),
    ["green", "blue"] * 6,
    [None, "red", "blue"] * 4,
], ids=["one class", "classes of no row", "text", "missing"])  # fmt: skip
def test_attack_classes_of_other_manifests_are_named_as_in_training(trained, tmp_path, kinds):
    folder, _, frame, _ = trained
    other = tmp_path / "other.parquet"
    dfgen.write_manifest(frame[["id", "path"]].assign(kind=kinds), other)
    out = tmp_path / "p.parquet"
    ended = run("predict", folder / "model.keras", other, "--out", out)
    if pd.Series(kinds).isna().any():
        assert ended.returncode == 1
        assert "column 'kind'" in ended.stderr
        return
    assert ended.stderr == ""
    found = pd.read_parquet(out)
    colours = pd.read_parquet(folder / "all.parquet").kind.tolist()
    assert found.y_pred.tolist() == colours
    assert found.y_pred.cat.categories.tolist() == found.y_true.cat.categories.tolist() == NAMES
    assert found.y_true.tolist() == found.kind.tolist()
    assert [NAMES[one.argmax()] for one in found.prob] == colours
    at = [NAMES.index(name) for name in found.kind]
    np.testing.assert_allclose(
        found.loss, -np.log(np.stack(found.prob)[range(ROWS), at]), rtol=1e-3
    )


@pytest.mark.backend
def test_attack_a_class_that_the_model_has_not_is_refused(trained, tmp_path):
    folder, _, frame, _ = trained
    other = tmp_path / "other.parquet"
    kinds = ["red", "zebra", *["blue"] * (ROWS - 2)]
    dfgen.write_manifest(frame[["id", "path"]].assign(kind=kinds), other)
    ended = run("predict", folder / "model.keras", other, "--out", tmp_path / "p.parquet")
    assert ended.returncode == 1
    assert "'zebra'" in ended.stderr
    assert not (tmp_path / "p.parquet").exists()


@pytest.mark.backend
def test_rows_that_cannot_be_read_are_left_out_by_the_command_and_by_mistakes(trained, tmp_path):
    folder, _, frame, _ = trained
    other, out = tmp_path / "other.parquet", tmp_path / "p.parquet"
    bad = frame.id.isin([0, 4, 5, ROWS - 1])
    paths = frame.path.where(~bad, str(tmp_path / "gone.png"))
    dfgen.write_manifest(frame[["id", "kind"]].assign(path=paths), other, root="/")
    options = ["--on-error", "skip", "--batch-size", "2", "--json"]
    ended = run("predict", folder / "model.keras", other, "--out", out, *options)
    assert json.loads(ended.stdout) == {"out": str(out), "rows": ROWS, "problems": 4}
    found = pd.read_parquet(out)
    whole, _ = predicted(folder, "all.parquet")
    assert found.problem.notna().tolist() == bad.tolist()
    for name in ("y_pred", "prob", "loss"):
        assert found[name].isna().tolist() == bad.tolist()
    np.testing.assert_allclose(np.stack(found.prob[~bad]), np.stack(whole.prob[~bad]), rtol=1e-5)
    assert mistakes(found).said.startswith("8 rows, 100.0% right, 0 wrong; 4 without a label or a ")
    assert show(found, ROWS, sort="-loss").table.id.tolist()[-4:] == [0, 4, 5, ROWS - 1]
    page = tmp_path / "page.html"
    report(frame, page, predictions=found)
    assert "8 rows, 100.0% right, 0 wrong; 4 without a label or a prediction" in page.read_text()


def test_however_many_rows_cannot_be_read_all_are_told(trained, tmp_path):
    folder, _, frame, _ = trained
    other, out = tmp_path / "other.parquet", tmp_path / "p.parquet"
    shutil.copy(frame.path[3], tmp_path / "3.png")
    (tmp_path / "bad.png").write_text("no image")
    paths = [str(tmp_path / ("3.png" if row == 3 else "bad.png")) for row in frame.id]
    dfgen.write_manifest(frame[["id", "kind"]].assign(path=paths), other)
    ended = run("predict", folder / "model.keras", other, "--out", out)
    assert (ended.stderr, ended.stdout) == ("", f"Wrote {out}: 12 rows, 11 without a prediction\n")
    out = tmp_path / "q.parquet"
    ended = run("predict", folder / "model.keras", other, "--out", out, "--on-error", "raise")
    assert ended.returncode == 1
    assert "bad.png" in ended.stderr


def test_a_manifest_without_splits_and_a_file_that_is_no_model_are_told(trained, tmp_path):
    folder, _, frame, _ = trained
    plain, broken = tmp_path / "plain.parquet", tmp_path / "broken.keras"
    dfgen.write_manifest(frame.drop(columns="split"), plain)
    broken.write_text("no model")
    saved = ("--preprocessing", folder / "model.keras.json")
    ended = run("predict", folder / "model.keras", plain, "--out", tmp_path / "p.parquet",
                "--split", "val")  # fmt: skip
    assert ended.stderr == f"dfgen: {plain} has no column split: leave out --split val\n"
    ended = run("predict", broken, plain, "--out", tmp_path / "p.parquet", *saved)
    assert ended.stderr.startswith(f"dfgen: {broken} cannot be loaded as a model of Keras: ")
    ended = run("predict", folder / "model.keras", plain, "--out", tmp_path / "q.parquet", *saved)
    assert (ended.stderr, len(pd.read_parquet(tmp_path / "q.parquet"))) == ("", ROWS)


def test_a_folder_that_was_moved_is_named(trained, tmp_path):
    folder, _, frame, _ = trained
    for name in frame.path:
        shutil.copy(name, tmp_path)
    frame = frame.assign(path=[f"{tmp_path}/{n}.png" for n in frame.id])
    dfgen.write_manifest(frame, folder / "moved.parquet", root=tmp_path)
    (tmp_path / "inside").mkdir()
    for name in frame.path:
        shutil.move(name, tmp_path / "inside")
    for number, split in enumerate([(), ("--split", "test")]):
        out = tmp_path / f"{number}.parquet"
        ended = run("predict", folder / "model.keras", folder / "moved.parquet", "--out", out,
                    "--root", tmp_path / "inside", *split)  # fmt: skip
        assert ended.stderr == ""
        assert pd.read_parquet(out).problem.isna().all()


def negative(sample, rng):
    assert rng is None
    assert set(sample) == {"image"}
    return {**sample, "image": 255 - sample["image"]}


def test_rows_are_made_as_in_training_with_what_chance_and_functions_did(trained, tmp_path):
    _, model, frame, _ = trained
    flipped = dfgen.Image("path", size=(4, 4), scale="0..1", flip="horizontal")
    frame = frame.assign(tags=[[kind, "all"] for kind in frame.kind])
    tags = dfgen.MultiLabel("tags", class_names=["all", *NAMES])
    y = {"kind": dfgen.Category("kind", class_names=NAMES), "tags": tags}
    seq = dfgen.Sequence(frame, x=flipped, y=y)
    saved = seq.preprocessing(transform=negative)
    with sequence_as_trained(saved, frame, batch_size=ROWS) as still:
        [[image, target]] = [*still]
    assert target["kind"].tolist() == [NAMES.index(kind) for kind in frame.kind]
    assert (target["tags"].argmax(axis=1) == 0).all()
    expected = [1 - (np.arange(3) == NAMES.index(kind)) * 200 / 255 for kind in frame.kind]
    np.testing.assert_allclose(image.mean(axis=(1, 2)), expected, atol=1e-6)
    for other in (frame.drop(columns="tags"), frame[["id", "path"]]):
        with sequence_as_trained(saved, other, batch_size=ROWS) as bare:
            [[found]] = [*bare]
            np.testing.assert_allclose(found, image)
    with sequence_as_trained(saved, frame, chance=True, shuffle=True) as drawn:
        assert drawn._loader.reader.is_random
        assert drawn._loader.shuffle
    with sequence_as_trained(saved, frame) as still:
        assert not still._loader.reader.features[0].feature.is_random
    beside = dfgen.Sequence(frame, x=flipped, y=y["kind"]).preprocessing()
    bare = dfgen.Sequence(frame[["id", "path"]], x=flipped)
    found = dfgen.predict_frame(model, bare, preprocessing=beside, views=2)
    assert found.y_pred.tolist() == frame.kind.map(str).tolist()


def test_images_of_another_data_format_are_refused(trained, monkeypatch):
    folder, model, _, seq = trained
    monkeypatch.setattr(keras.config, "image_data_format", lambda: "channels_first")
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model, seq, preprocessing=folder / "model.keras.json")
    assert str(caught.value) == (
        "the model was trained on channels_last, but keras.config.image_data_format() is "
        'channels_first: keras.config.set_image_data_format("channels_last")'
    )


def test_a_column_may_be_called_otherwise_than_in_training(trained):
    folder, model, frame, _ = trained
    x = dfgen.Image("file", size=(4, 4), scale="0..1")
    kind = dfgen.Category("kind", class_names=NAMES)
    seq = dfgen.Sequence(frame.rename(columns={"path": "file"}), x=x, y=kind)
    found = dfgen.predict_frame(model, seq, preprocessing=folder / "model.keras.json")
    assert found.y_pred.tolist() == frame.kind.tolist()
