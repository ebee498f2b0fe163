"""Small things that predictions say: halves, shapes, names of files, and what joins whom."""

import os

import cv2
import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.errors import ArgumentError, WriteError
from dfgen.training.predictions.predict_frame import predict_saved

pytestmark = pytest.mark.backend
ROWS = 7


def frame_of_numbers():
    numbers = np.arange(ROWS, dtype=float)
    return pd.DataFrame({"id": [f"r/{n}" for n in range(ROWS)], "n": numbers})


def constant(*units, shape=(), activation=None, loss=None):
    """A model that says the same of each row: `units`, in all places of `shape`."""
    number = keras.Input((1,))
    bias = np.tile(np.array(units, np.float32), int(np.prod(shape, dtype=int)))
    dense = keras.layers.Dense(len(bias), activation)
    said = dense(number)
    model = keras.Model(number, keras.layers.Reshape((*shape, len(units)))(said) if shape else said)
    dense.set_weights([np.zeros((1, len(bias)), np.float32), bias])
    if loss:
        model.compile(loss=loss)
    return model


def sequence(frame, **options):
    return dfgen.Sequence(frame, x=dfgen.Number(["n"]), batch_size=3, **options)


def test_a_probability_of_exactly_one_half_chooses_no_label_and_no_pixel(tmp_path):
    frame = frame_of_numbers().assign(tags=[["a"]] * ROWS)
    y = dfgen.MultiLabel("tags", class_names=["a", "b"])
    model = constant(0, 1, activation="sigmoid", loss="binary_crossentropy")
    assert [*map(list, dfgen.predict_frame(model, sequence(frame, y=y)).y_pred)] == [["b"]] * ROWS
    pixels = constant(0, shape=(2, 2), loss="binary_crossentropy")
    seq = sequence(frame_of_numbers(), label_mode=None)
    said = dfgen.predict_frame(pixels, seq, arrays="lists", from_logits=True).y_pred[0]
    assert [[*line] for line in said] == [[0, 0], [0, 0]]


@pytest.mark.parametrize("units", [1, 3])
def test_an_output_has_a_unit_for_each_label_and_one_alone_is_none_for_two(units):
    frame = frame_of_numbers().assign(tags=[["a"]] * ROWS)
    y = dfgen.MultiLabel("tags", class_names=["a", "b"])
    model = constant(*[0] * units, activation="sigmoid")
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(model, sequence(frame, y=y))
    assert str(caught.value) == (
        f"the output 'of the model' has {units} unit{'s' * (units > 1)}, but y has 2 "
        "classes, 'a', 'b': expected a unit for each"
    )


def test_several_numbers_of_a_row_are_a_list():
    found = dfgen.predict_frame(constant(1.5, -2), sequence(frame_of_numbers(), label_mode=None))
    assert [*map(list, found.y_pred)] == [[1.5, -2]] * ROWS


def test_arrays_of_numbers_are_files_of_numpy_called_by_the_id_of_their_row(tmp_path):
    number = keras.Input((1,))
    model = keras.Model(
        number, keras.layers.Reshape((2, 2, 3))(keras.layers.RepeatVector(12)(number))
    )
    seq = sequence(frame_of_numbers(), label_mode=None)
    found = dfgen.predict_frame(model, seq, arrays=tmp_path / "said")
    for row, path in enumerate(found.y_pred):
        assert path == f"{tmp_path}/said/r%2F{row}.npy"
        np.testing.assert_array_equal(np.load(path), np.full((2, 2, 3), row, np.float32))


def test_each_output_has_a_folder_of_its_own_for_arrays(tmp_path):
    number = keras.Input((1,))
    pair = keras.layers.Reshape((2, 2), name="pair")(keras.layers.RepeatVector(4)(number))
    line = keras.layers.Reshape((1, 3), name="line")(keras.layers.RepeatVector(3)(number))
    model = keras.Model(number, {"pair": pair, "line": line})
    seq = sequence(frame_of_numbers(), label_mode=None)
    found = dfgen.predict_frame(model, seq, arrays=tmp_path / "said")
    for name, shape in (("pair", (2, 2)), ("line", (1, 3))):
        for row, path in enumerate(found[f"y_pred_{name}"]):
            assert path == f"{tmp_path}/said/{name}/r%2F{row}.npy"
            np.testing.assert_array_equal(np.load(path), np.full(shape, row, np.float32))


def test_a_number_that_binary_crossentropy_is_trained_on_is_no_class():
    """Of fractions as targets, an output is a number; of whole numbers and booleans, a class."""
    model = constant(0, activation="sigmoid", loss="binary_crossentropy")
    share = frame_of_numbers().assign(share=0.25)
    found = dfgen.predict_frame(model, sequence(share, y=dfgen.Number("share")))
    assert found.y_pred.tolist() == [0.5] * ROWS and "prob" not in found
    for column in (1, True):
        whole = frame_of_numbers().assign(won=column)
        y = dfgen.Number("won", dtype="int32" if column is not True else "bool")
        found = dfgen.predict_frame(model, sequence(whole, y=y))
        assert found.y_pred.tolist() == [0] * ROWS
        assert [*map(list, found.prob)] == [[0.5, 0.5]] * ROWS


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model that tells the mean red of the upper line, what made its rows, and a manifest."""
    folder = tmp_path_factory.mktemp("saved")
    for row in range(ROWS):
        pixels = np.zeros((2, 2, 3), np.uint8)
        pixels[0, :, 2] = 10 * row  # OpenCV writes BGR
        cv2.imwrite(f"{folder}/{row}.png", pixels)
    frame = pd.DataFrame({"id": range(ROWS), "path": [f"{folder}/{n}.png" for n in range(ROWS)]})
    frame["split"] = ["a", "b"] * 3 + ["b"]
    dfgen.write_manifest(frame, folder / "all.parquet")
    image = keras.Input((2, 2, 3))
    upper = keras.layers.Cropping2D(((0, 1), (0, 0)))(image)
    dense = keras.layers.Dense(1)
    model = keras.Model(image, dense(keras.layers.GlobalAveragePooling2D()(upper)))
    dense.set_weights([np.array([[1], [0], [0]], np.float32), np.zeros(1, np.float32)])
    model.save(folder / "model.keras")
    x = dfgen.Image("path", size=(2, 2), flip="vertical")
    with dfgen.Sequence(frame, x=x, label_mode=None) as seq:
        dfgen.SavePreprocessing(folder / "model.keras.json", seq).on_train_begin()
        dfgen.SavePreprocessing(folder / "with.json", seq, brightened).on_train_begin()
    return folder


def brightened(sample, rng):
    return {**sample, "image": sample["image"] + 1}


def predicted(folder, out, **options):
    told = predict_saved(f"{folder}/model.keras", f"{folder}/all.parquet", str(out), **options)
    return told, pd.read_parquet(out)


def test_a_saved_model_draws_nothing_by_chance_unless_views_are_asked_for(saved, tmp_path):
    told, still = predicted(saved, tmp_path / "1.parquet")
    assert told == {"rows": ROWS, "problems": 0}
    np.testing.assert_allclose(still.y_pred, 10 * np.arange(ROWS))
    _, views = predicted(saved, tmp_path / "2.parquet", views=8)
    assert 0 < views.y_pred[1:].sum() < still.y_pred[1:].sum()


def test_functions_of_a_saved_model_run_if_they_are_allowed(saved, tmp_path):
    path = f"{saved}/with.json"
    with pytest.raises(ArgumentError, match="allow_functions"):
        predicted(saved, tmp_path / "1.parquet", preprocessing=path)
    _, found = predicted(saved, tmp_path / "2.parquet", preprocessing=path, allow_functions=True)
    np.testing.assert_allclose(found.y_pred, 10 * np.arange(ROWS) + 1)


def test_a_split_of_a_saved_model_is_read_from_the_root_that_is_given(saved, tmp_path):
    _, found = predicted(saved, tmp_path / "1.parquet", split="a", root=str(saved))
    assert found.id.tolist() == [0, 2, 4]
    np.testing.assert_allclose(found.y_pred, [0, 20, 40])


def test_arrays_of_a_saved_model_become_files(saved, tmp_path):
    image = keras.Input((2, 2, 3))
    keras.Model(image, keras.layers.Rescaling(1.0)(image)).save(saved / "same.keras")
    out = str(tmp_path / "1.parquet")
    where = {"preprocessing": f"{saved}/model.keras.json", "arrays": f"{tmp_path}/said"}
    predict_saved(f"{saved}/same.keras", f"{saved}/all.parquet", out, **where)
    for row, path in enumerate(pd.read_parquet(out).y_pred):
        assert path == f"{tmp_path}/said/{row}.npy"
        assert np.load(path)[..., 0].tolist() == [[10 * row] * 2, [0, 0]]


def test_a_model_whose_optimizer_has_no_weights_yet_is_loaded_without_a_warning(saved, tmp_path):
    model = keras.saving.load_model(saved / "model.keras")
    model.compile(optimizer="adam", loss="mse")
    model.save(tmp_path / "model.keras")
    told = predict_saved(
        f"{tmp_path}/model.keras",
        f"{saved}/all.parquet",
        f"{tmp_path}/p.parquet",
        preprocessing=f"{saved}/model.keras.json",
    )
    assert told == {"rows": ROWS, "problems": 0}


def part_files(folder, shift=1.0):
    """Write what two processes say of six rows; return the files."""
    paths = []
    for index in range(2):
        seq = dfgen.Sequence(
            frame_of_numbers(), x=dfgen.Number(["n"]), label_mode=None, batch_size=2,
            shard=(index, 2),
        )  # fmt: skip
        path = folder / f"{index}-{shift}.parquet"
        paths.append(dfgen.predict_frame(constant(shift), seq, out=path))
    return paths


def test_parts_by_relative_paths_are_named_in_full(tmp_path, monkeypatch):
    paths = part_files(tmp_path)
    whole = dfgen.join_predictions(paths)
    monkeypatch.chdir(tmp_path)
    pd.testing.assert_frame_equal(dfgen.join_predictions(map(os.path.basename, paths)), whole)
    with pytest.raises(ArgumentError) as caught:
        dfgen.join_predictions([os.path.basename(paths[0])] * 2)
    assert str(caught.value) == f"part 0 of 2 is there twice: {paths[0]} and {paths[0]}"


def test_processes_may_have_their_files_in_folders_of_their_own(tmp_path):
    parts = []
    for index in range(2):
        (tmp_path / str(index)).mkdir()
        paths = [f"{tmp_path}/{index}/{n}.png" for n in range(4)]
        for n, path in enumerate(paths):
            cv2.imwrite(path, np.full((2, 2, 3), n, np.uint8))
        frame = pd.DataFrame({"id": range(4), "path": paths})
        image = keras.Input((2, 2, 3))
        model = keras.Model(image, keras.layers.GlobalMaxPooling2D()(image))
        with dfgen.Sequence(
            frame, x=dfgen.Image(size=(2, 2)), label_mode=None, batch_size=2, shard=(index, 2)
        ) as seq:
            parts.append(dfgen.predict_frame(model, seq))
    joined = dfgen.join_predictions(parts)
    assert [*map(list, joined.y_pred)] == [[n] * 3 for n in range(4)]


def test_the_first_part_is_the_one_that_others_must_go_with(tmp_path):
    one, other = part_files(tmp_path), part_files(tmp_path, 2.0)
    with pytest.raises(ArgumentError) as caught:
        dfgen.join_predictions([one[0], other[1]])
    assert str(caught.value) == (
        f"{other[1]} holds predictions of another run: another model, or other weights of it. Join "
        f"what goes with {one[0]}"
    )


def test_parts_are_joined_into_no_file_of_another_kind(tmp_path):
    out = tmp_path / "mine.parquet"
    dfgen.write_manifest(frame_of_numbers().assign(path="a.png"), out)
    with pytest.raises(WriteError, match="is no file of predictions"):
        dfgen.join_predictions(part_files(tmp_path), out=out)
    out = dfgen.join_predictions(part_files(tmp_path), out=tmp_path / "all.parquet")
    assert dfgen.join_predictions(part_files(tmp_path), out=out) == out  # it is replaced


def test_frames_that_are_joined_stay_as_they_were(tmp_path):
    frames = [pd.read_parquet(path) for path in part_files(tmp_path)]
    before = [dict(frame.attrs) for frame in frames]
    joined = dfgen.join_predictions(part_files(tmp_path))
    assert len(joined) == ROWS
    assert [dict(frame.attrs) for frame in frames] == before


def test_lists_of_lists_hold_no_row_more_than_there_are():
    found = dfgen.predict_frame(
        constant(1, 2, 3, shape=(2,)), sequence(frame_of_numbers(), label_mode=None), arrays="lists"
    )
    assert [[[*line] for line in row] for row in found.y_pred] == [[[1, 2, 3]] * 2] * ROWS
    assert pa.Table.from_pandas(found)["y_pred"].type.value_type.value_type == pa.float32()


def test_the_probabilities_of_a_row_do_not_depend_on_logits_of_others():
    dense = keras.layers.Dense(2)
    number = keras.Input((1,))
    model = keras.Model(number, dense(number))
    dense.set_weights([np.array([[1000, 0]], np.float32), np.zeros(2, np.float32)])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    frame = pd.DataFrame({"id": [0, 1], "n": [-1.0, 1.0], "kind": ["a", "b"]})
    y = dfgen.Category("kind", class_names=["a", "b"])
    found = dfgen.predict_frame(model, sequence(frame, y=y))
    assert [*map(list, found.prob)] == [[0, 1], [1, 0]]
    assert found.y_pred.tolist() == ["b", "a"]


def test_evaluate_frame_heeds_logits_and_what_was_saved_beside_the_model():
    frame = frame_of_numbers().assign(kind=["a", "b"] * 3 + ["b"])
    model = constant(0, 1, loss="sparse_categorical_crossentropy")
    seq = sequence(frame, y=dfgen.Category("kind", class_names=["a", "b"]))
    assert [*dfgen.evaluate_frame(model, seq).prob[0]] == [0, 1]
    found = dfgen.evaluate_frame(model, seq, from_logits=True)
    np.testing.assert_allclose(found.prob[0], [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-6)
    turned = sequence(frame, y=dfgen.Category("kind", class_names=["b", "a"])).preprocessing()
    with pytest.raises(ArgumentError, match=r"^the model numbers the classes of 'label' as 'b'"):
        dfgen.evaluate_frame(model, seq, preprocessing=turned)


def test_evaluate_frame_says_of_a_model_that_computes_its_loss_to_take_predict_frame():
    class Own(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return keras.ops.mean(y_pred)

    inner = constant(0, 1)
    model = Own(inner.inputs, inner.outputs)
    model.compile(loss="mse")
    with pytest.raises(ArgumentError) as caught:
        dfgen.evaluate_frame(model, sequence(frame_of_numbers(), y=dfgen.Number("n")))
    assert str(caught.value) == (
        "evaluate_frame needs a loss that tells rows apart, but the model computes its own "
        "(compute_loss): take predict_frame"
    )


@pytest.fixture
def with_a_bad_row_in_the_second_part(tmp_path):
    """Rows one a batch, of which that after the first part of 16 has no file."""
    rows = range(20)
    for row in rows:
        cv2.imwrite(f"{tmp_path}/{row}.png", np.full((2, 2, 3), row, np.uint8))
    (tmp_path / "16.png").write_bytes(b"no image")
    frame = pd.DataFrame({"id": rows, "path": [f"{tmp_path}/{n}.png" for n in rows]})
    options = {"x": dfgen.Image(size=(2, 2)), "batch_size": 1, "on_error": "skip"}
    return frame.assign(grade=1), options


@pytest.mark.filterwarnings("ignore:skipping")
def test_a_bad_row_that_begins_a_later_part_lacks_there_alone(
    with_a_bad_row_in_the_second_part, tmp_path
):
    frame, options = with_a_bad_row_in_the_second_part
    image = keras.Input((2, 2, 3))
    model = keras.Model(image, keras.layers.Rescaling(1.0)(image))
    with dfgen.Sequence(frame, label_mode=None, **options) as seq:
        dfgen.predict_frame(model, seq)  # from now on it is known that the row is bad
        found = dfgen.predict_frame(model, seq, arrays=tmp_path / "said")
    assert found.problem.notna().tolist() == [row == 16 for row in range(20)]
    for row, path in enumerate(found.y_pred):
        assert pd.isna(path) if row == 16 else path == f"{tmp_path}/said/{row}.npy"
        assert row == 16 or (np.load(path) == row).all()


@pytest.mark.filterwarnings("ignore:skipping")
def test_a_skipped_row_has_no_class_number_and_no_loss(with_a_bad_row_in_the_second_part, tmp_path):
    frame, options = with_a_bad_row_in_the_second_part
    image = keras.Input((2, 2, 3))
    pooled = keras.layers.GlobalMaxPooling2D()(image)
    model = keras.Model(image, keras.layers.Softmax()(pooled))
    model.compile(loss="sparse_categorical_crossentropy")
    with dfgen.Sequence(frame, y=dfgen.Number("grade", dtype="int32"), **options) as seq:
        out = dfgen.evaluate_frame(model, seq, out=tmp_path / "said.parquet")
    table = pq.read_table(out)
    lacks = [row == 16 for row in range(20)]
    assert [one is None for one in table["y_pred"].to_pylist()] == lacks
    assert [one is None for one in table["loss"].to_pylist()] == lacks


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 1)])
def test_lists_may_hold_one_list_of_one_number(shape):
    model, seq = constant(1.5, shape=shape), sequence(frame_of_numbers(), label_mode=None)
    found = dfgen.predict_frame(model, seq, arrays="lists").y_pred
    expected = np.full((*shape, 1), 1.5).tolist()
    assert pa.array(found).to_pylist() == [expected] * ROWS


def test_several_columns_of_numbers_that_are_no_classes_are_all_named():
    frame = frame_of_numbers().assign(one=0, two=7)
    model = constant(0, 0, 0, 0, shape=(2,), loss="sparse_categorical_crossentropy")
    known = dfgen.Number(["one", "three"], dtype="int32")
    assert len(dfgen.predict_frame(model, sequence(frame.assign(three=3), y=known))) == ROWS
    with pytest.raises(ArgumentError, match=r"^column 'one, two' holds the class 7"):
        dfgen.predict_frame(model, sequence(frame, y=dfgen.Number(["one", "two"], dtype="int32")))


def test_a_frame_tells_what_each_output_says_and_no_more():
    model = constant(0, 1, activation="softmax")
    frame = dfgen.predict_frame(model, sequence(frame_of_numbers(), label_mode=None))
    assert frame.attrs["dfgen_predictions"] == {
        "heads": {"": {"kind": "classes", "class_names": None}}
    }


def test_the_loss_of_several_views_is_their_mean(saved):
    model = keras.saving.load_model(saved / "model.keras")
    model.compile(loss="mse")
    frame = dfgen.read_manifest(saved / "all.parquet").assign(n=0.0)
    image = dfgen.Image("path", size=(2, 2), flip="horizontal")  # which changes none of these
    with dfgen.Sequence(frame, x=image, y=dfgen.Number("n"), batch_size=4) as seq:
        for views in (1, 3):
            found = dfgen.evaluate_frame(model, seq, views=views)
            np.testing.assert_allclose(found.y_pred, 10 * np.arange(ROWS), rtol=1e-6)
            np.testing.assert_allclose(found.loss, (10 * np.arange(ROWS)) ** 2, rtol=1e-6)


def test_problems_are_text_where_no_row_has_one(tmp_path):
    seq = sequence(frame_of_numbers(), label_mode=None)
    out = dfgen.predict_frame(constant(1), seq, out=tmp_path / "said.parquet")
    assert pq.read_schema(out).field("problem").type == pa.string()


def test_a_saved_list_of_targets_goes_to_the_outputs_of_its_columns():
    number = keras.Input((1,))
    outputs = {name: keras.layers.Dense(2, "softmax", name=name)(number) for name in "ba"}
    model = keras.Model(number, outputs)
    frame = frame_of_numbers().assign(a="x", b="p")
    y = [dfgen.Category("a", class_names=["x", "y"]), dfgen.Category("b", class_names=["p", "q"])]
    saved = sequence(frame, y=y).preprocessing()
    bare = sequence(frame_of_numbers(), label_mode=None)
    found = dfgen.predict_frame(model, bare, preprocessing=saved)
    assert found.y_pred_a.isin(["x", "y"]).all() and found.y_pred_b.isin(["p", "q"]).all()
