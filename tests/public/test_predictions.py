"""Predictions next to their rows: classes, probabilities, losses and problems."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import DfgenError

pytestmark = pytest.mark.backend
EAGER = keras.backend.backend() == "tensorflow"
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
NAMES = np.array(["even", "odd"])

SIGMOID = 1, "sigmoid", [0.1], [-3]  # 0.5 at row 30
LOGITS = 2, None, [0, 0.1], [0, -3]
SOFTMAX = 2, "softmax", [0, 0.1], [0, -3]
ROW = 1, None, [1], [0]
IMAGE = dfgen.Image("path", size=(4, 4))


def reading(loss=None, loss_weights=None, **outputs):
    """Return a model whose outputs are functions of the row number in the pixels."""
    image = keras.Input((4, 4, 3))
    row = keras.layers.GlobalAveragePooling2D()(image)
    ends = {}
    for name, (units, activation, kernel, bias) in outputs.items():
        layer = keras.layers.Dense(units, activation, name=name)
        ends[name] = layer(row)
        weights = np.zeros((3, units), np.float32)
        weights[0] = kernel
        layer.set_weights([weights, np.array(bias, np.float32)])
    model = keras.Model(image, ends if len(ends) > 1 else ends.popitem()[1])
    if loss is not None:
        model.compile("sgd", loss, loss_weights, run_eagerly=EAGER)
    model.run_eagerly = EAGER
    return model


def sequence(df, **options):
    return dfgen.Sequence(df, **{"y": "label", "image_size": (4, 4), "batch_size": 8, **options})


def odd(rows):
    """Return the probability of the class odd, of SIGMOID, LOGITS and SOFTMAX."""
    return 1 / (1 + np.exp(3 - 0.1 * np.asarray(rows, np.float64)))


def losses(df):
    """Return the crossentropy of each row."""
    return -np.log(np.where(df.label == "odd", odd(df.id), 1 - odd(df.id)))


@pytest.mark.parametrize(
    ("output", "loss", "label_mode"),
    [(SIGMOID, "binary_crossentropy", "binary"), (LOGITS, SPARSE, "int"),
     (SOFTMAX, "categorical_crossentropy", "categorical")],
)  # fmt: skip
def test_predictions_keep_order_and_index_of_rows(frame, output, loss, label_mode):
    df = frame(61)
    df.index = [f"row {number}" for number in range(61)][::-1]
    df = df[df.id % 3 != 1].sample(frac=1, random_state=0)
    seq = sequence(df, label_mode=label_mode, drop_remainder=True, seed=3, balance="label")
    next(iter(seq))
    state = json.dumps(seq.state_dict())
    predicted = dfgen.predict_frame(reading(loss, label=output), seq)
    assert json.dumps(seq.state_dict()) == state
    assert list(predicted) == [*df, "y_true", "y_pred", "prob", "loss", "problem"]
    pd.testing.assert_frame_equal(predicted[list(df)], df)
    p = odd(df.id)
    np.testing.assert_allclose(np.stack(predicted.prob), np.stack([1 - p, p], axis=1), atol=1e-6)
    assert predicted.y_true.tolist() == df.label.tolist()
    assert predicted.y_pred.tolist() == NAMES[(p > 0.5).astype(int)].tolist()
    assert predicted.y_pred.dtype == predicted.y_true.dtype == pd.CategoricalDtype(NAMES)
    np.testing.assert_allclose(predicted.loss, losses(df), rtol=1e-3, atol=1e-6)
    assert predicted.problem.isna().all()


@pytest.mark.parametrize("rows", [1, 8, 13])
def test_mean_loss_is_that_of_evaluate(frame, rows):
    model, df = reading(SPARSE, label=LOGITS), frame(20)[:rows]
    predicted = dfgen.predict_frame(model, sequence(df))
    assert predicted.id.tolist() == [*range(rows)]
    np.testing.assert_allclose(predicted.loss, losses(df), rtol=1e-4)
    assert predicted.loss.mean() == pytest.approx(model.evaluate(sequence(df), verbose=0), rel=1e-5)


def test_weighted_mean_loss_is_that_of_evaluate(frame):
    df = frame(13).assign(counts=np.linspace(0, 3, 13))
    model = reading(SPARSE, label=LOGITS)
    weights = {"sample_weight": "counts", "class_weight": {"even": 0.5, "odd": 2.0}}
    predicted = dfgen.predict_frame(model, sequence(df, **weights))
    np.testing.assert_allclose(predicted.loss, losses(df), rtol=1e-4)
    np.testing.assert_allclose(predicted.row_weight, df.counts * np.tile([0.5, 2.0], 7)[:13])
    mean = (predicted.loss * predicted.row_weight).mean()
    assert mean == pytest.approx(model.evaluate(sequence(df, **weights), verbose=0), rel=1e-5)


def test_skipped_rows_are_listed_with_their_problem(frame, tmp_path):
    df = frame(13)
    (tmp_path / "bad.png").write_bytes(b"no image")
    bad = df.id % 6 == 0
    df["path"] = df.path.where(~bad, f"{tmp_path}/bad.png")
    model = reading("binary_crossentropy", label=SIGMOID)
    predicted = dfgen.predict_frame(model, sequence(df, on_error="skip", batch_size=3))
    assert predicted.problem.notna().tolist() == bad.tolist()
    assert len(set(predicted.problem[bad])) == 1 and predicted.problem[12]
    for name in ("y_pred", "prob", "loss"):
        assert predicted[name].isna().tolist() == bad.tolist(), name
    assert predicted.y_true.tolist() == df.label.tolist()
    np.testing.assert_allclose(predicted.loss[~bad], losses(df)[~bad], rtol=1e-3)
    nan = reading(label=(1, "sigmoid", [np.nan], [0]))
    assert dfgen.predict_frame(nan, sequence(frame(3))).problem.str.contains("NaN").all()


def test_each_output_has_its_own_columns(frame):
    tags = [["a"] * (n > 3) + ["b"] for n in range(20)]
    df = frame(20).assign(age=np.arange(20.0) + 1, tags=tags)
    df["tags"] = df.tags.where(df.id != 5, None)
    bce = keras.losses.BinaryCrossentropy(from_logits=True)
    loss = {"label": "binary_crossentropy", "age": "mse", "tags": bce}
    outputs = {"label": SIGMOID, "age": ROW, "tags": (2, None, [1, 0], [-3.5, 1])}
    tag = dfgen.MultiLabel("tags", class_names=["a", "b"], missing="ignore")
    y = {"label": dfgen.Category("label"), "tags": tag, "age": dfgen.Number("age")}
    predicted = dfgen.predict_frame(
        reading(loss, {"age": 2.0}, **outputs), dfgen.Sequence(df, IMAGE, y, batch_size=8)
    )
    kinds = ("y_true", "y_pred", "prob", "loss")
    columns = {"loss", "problem", *(f"{kind}_{name}" for kind in kinds for name in y)}
    assert columns - {"prob_age"} <= {*predicted} - {*df} and "prob_age" not in predicted
    assert predicted.y_true_label.tolist() == df.label.tolist()
    assert [*map(list, predicted.y_pred_tags)] == tags
    assert predicted.y_true_tags.isna().tolist() == [n == 5 for n in range(20)]
    assert predicted.loss_tags.isna().tolist() == [n == 5 for n in range(20)]
    p = 1 / (1 + np.exp([3.5 - df.id, np.full(20, -1)]))
    np.testing.assert_allclose(np.stack(predicted.prob_tags), p.T, rtol=1e-4)
    np.testing.assert_allclose(predicted.y_true_age, df.age)
    np.testing.assert_allclose(predicted.y_pred_age, df.id, atol=1e-5)
    np.testing.assert_allclose(predicted.loss_age, 1, rtol=1e-4)
    np.testing.assert_allclose(predicted.loss_label, losses(df), rtol=1e-3)
    total = predicted.loss_label + 2 * predicted.loss_age + predicted.loss_tags.fillna(0)
    np.testing.assert_allclose(predicted.loss, total, rtol=1e-6)


@pytest.mark.parametrize(
    ("output", "loss", "from_logits"),
    [
        (LOGITS, None, None), (LOGITS, "sparse_categorical_crossentropy", True),
        (SOFTMAX, None, None), (SOFTMAX, None, False), ((1, None, [0.1], [-3]), None, True),
    ],
)  # fmt: skip
def test_from_logits_decides_probabilities(frame, output, loss, from_logits):
    df = frame(40)
    model = reading(loss, label=output)
    predicted = dfgen.predict_frame(model, sequence(df), from_logits=from_logits)
    np.testing.assert_allclose(np.stack(predicted.prob)[:, 1], odd(df.id), atol=1e-5)
    assert predicted.y_pred.tolist() == NAMES[(df.id > 30).astype(int)].tolist()


def read(folder):
    return pd.read_parquet(folder).sort_values("id", ignore_index=True)


def test_predictions_in_a_folder_continue_after_an_error(frame, tmp_path):
    df, out, files = frame(61), tmp_path / "predictions", tmp_path / "files"
    shutil.copytree(Path(df.path[0]).parent, files)
    df["path"] = [f"{files}/{row}.png" for row in range(61)]
    model = reading(SPARSE, label=LOGITS)
    whole = dfgen.predict_frame(model, sequence(df))
    (files / "45.png").rename(files / "lost.png")
    with pytest.raises(DfgenError, match="45"):
        dfgen.predict_frame(model, sequence(df), out=out)
    (files / "lost.png").rename(files / "45.png")
    dfgen.predict_frame(model, sequence(df), out=out)
    again = sequence(df)
    shutil.rmtree(files)  # finished parts are not predicted again
    dfgen.predict_frame(model, again, out=out)
    assert all(path.name[:5] == "part-" or path.name[0] == "_" for path in out.iterdir())
    for name in ("id", "label", "y_true", "y_pred"):
        assert read(out)[name].tolist() == whole[name].tolist(), name
    np.testing.assert_allclose(read(out).loss, whole.loss, rtol=1e-5)
    np.testing.assert_allclose(np.stack(read(out).prob), np.stack(whole.prob), atol=1e-6)
