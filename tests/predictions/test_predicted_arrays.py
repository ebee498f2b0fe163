"""Masks, boxes and views: what has more axes than one, and what is left to chance."""

import os
from hashlib import blake2b

import cv2
import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
ROWS, BATCH = 11, 4


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """Images of 4x4 whose red is 20 times the row, and masks of whether it is above 100."""
    folder = tmp_path_factory.mktemp("masked")
    paths, masks = [], []
    for row in range(ROWS):
        pixels = np.zeros((4, 4, 3), np.uint8)
        pixels[:2, :, 2] = 20 * row  # OpenCV writes BGR
        for kind, paths_of, image in (("i", paths, pixels), ("m", masks, pixels[..., 2] // 101)):
            paths_of.append(f"{folder}/{kind}{row}.png")
            cv2.imwrite(paths_of[-1], image)
    return pd.DataFrame({"id": [f"a/{n}" for n in range(ROWS)], "path": paths, "mask": masks})


def segmenting(units=2, activation="softmax"):
    image = keras.Input((4, 4, 3))
    made = keras.layers.Conv2D(units, 1, activation=activation)
    model = keras.Model(image, made(image))
    kernel = np.zeros((1, 1, 3, units), np.float32)
    kernel[0, 0, 0, -1] = 1
    bias = np.full(units, -50.0, np.float32)
    bias[0], bias[-1] = 0, -100.5
    made.set_weights([kernel, bias])
    return model


def sequence(df, **options):
    x = dfgen.Image("path", size=(4, 4), **options)
    y = None if "mask" not in df else dfgen.Mask("mask")
    return dfgen.Sequence(df, x=x, y=y, batch_size=BATCH)


@pytest.mark.parametrize(("units", "activation", "loss"), [
    (2, "softmax", "sparse_categorical_crossentropy"), (1, "sigmoid", "binary_crossentropy"),
])  # fmt: skip
def test_masks_become_files_of_their_rows(masked, tmp_path, units, activation, loss):
    model = segmenting(units, activation)
    model.compile(loss=loss)
    found = dfgen.evaluate_frame(model, sequence(masked), arrays=tmp_path / "said")
    assert found.y_true.tolist() == masked["mask"].tolist()
    for row, path in enumerate(found.y_pred):
        assert path == f"{tmp_path}/said/a%2F{row}.png"
        np.testing.assert_array_equal(cv2.imread(path, -1), cv2.imread(masked["mask"][row], -1))
    assert "prob" not in found
    np.testing.assert_allclose(found.loss[[0, 10]], 0, atol=1e-4)
    whole = dfgen.Sequence(masked, x=dfgen.Image(size=(4, 4)), y=dfgen.Mask("mask"), batch_size=11)
    np.testing.assert_allclose(found.loss.mean(), model.evaluate(whole, verbose=0), rtol=1e-5)


def test_masks_become_lists_and_are_left_out_unless_asked_for(masked):
    model = segmenting()
    found = dfgen.predict_frame(model, sequence(masked), arrays="lists")
    masks = [[[*map(int, line)] for line in cv2.imread(path, -1)] for path in masked["mask"]]
    assert [[[*line] for line in rows] for rows in found.y_pred] == masks
    assert list(dfgen.predict_frame(model, sequence(masked))) == [
        *masked, "y_true", "problem"
    ]  # fmt: skip


def test_boxes_come_as_lists_with_names_of_their_classes(masked):
    lists = {"boxes": [[[0, 0, 2, 2]] * (n % 2) for n in range(ROWS)]}
    df = masked.assign(**lists, labels=[["cat"] * (n % 2) for n in range(ROWS)])
    image = keras.Input((4, 4, 3))
    flat = keras.layers.Flatten()(image)
    boxes = keras.layers.Reshape((2, 4))(keras.layers.Dense(8)(flat))
    model = keras.Model(image, {"boxes": boxes, "labels": keras.layers.Dense(2)(flat)})
    y = dfgen.Boxes(max_boxes=2, class_names=["cat", "dog"])
    seq = dfgen.Sequence(df, x=dfgen.Image("path", size=(4, 4)), y=y, batch_size=BATCH)
    found = dfgen.predict_frame(model, seq, arrays="lists")
    true = [[[*box] for box in boxes] for boxes in found.y_true_boxes]
    assert true == lists["boxes"]
    assert [*map(list, found.y_true_labels)] == [*df.labels]
    assert [np.shape([*map(list, boxes)]) for boxes in found.y_pred_boxes] == [(2, 4)] * ROWS


def test_views_are_passes_of_other_draws_and_their_mean_is_told(masked):
    """A model tells the mean red of the upper two lines: of a flip it is 0, else 20 * row."""
    image = keras.Input((4, 4, 3))
    upper = keras.layers.Cropping2D(((0, 2), (0, 0)))(image)
    made = keras.layers.Dense(1)
    model = keras.Model(image, made(keras.layers.GlobalAveragePooling2D()(upper)))
    made.set_weights([np.array([[1], [0], [0]], np.float32), np.zeros(1, np.float32)])
    df = masked.drop(columns="mask").iloc[1:]
    still = dfgen.predict_frame(model, sequence(df), views=1)
    np.testing.assert_allclose(still.y_pred, 20 * np.arange(1, ROWS))
    views = dfgen.predict_frame(model, sequence(df, flip="vertical"), views=4)
    upright = (views.y_pred / still.y_pred * 4).round(4)
    assert set(upright) <= {0, 1, 2, 3, 4}
    assert upright.nunique() > 2
    again = dfgen.predict_frame(model, sequence(df.iloc[::-1], flip="vertical"), views=4)
    assert again.y_pred[::-1].tolist() == views.y_pred.tolist()  # drawn by row, not by place


def test_what_cannot_be_is_told(masked, tmp_path):
    told = (
        "views=2 with arrays='lists': each view lies otherwise on the image, so that their mean "
        "means nothing: leave out one of the two"
    )
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(
            segmenting(), sequence(masked, flip="vertical"), views=2, arrays="lists"
        )
    assert str(caught.value) == told
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(segmenting(), sequence(masked), arrays=tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} holds files that predict_frame did not write. Give another arrays=, or remove "
        f"{tmp_path}"
    )


def test_more_classes_than_a_byte_has_are_told(masked, tmp_path):
    model = segmenting(300)
    found = dfgen.predict_frame(model, sequence(masked.drop(columns="mask")), arrays="lists")
    expected = [[[299 if 20 * row > 100.5 and y < 2 else 0 for _ in range(4)] for y in range(4)]
                for row in range(ROWS)]  # fmt: skip
    assert [[[*line] for line in rows] for rows in found.y_pred] == expected
    said = dfgen.predict_frame(model, sequence(masked.drop(columns="mask")), arrays=tmp_path / "s")
    assert cv2.imread(said.y_pred[10], -1).tolist() == expected[10]


def test_a_loss_that_adds_up_pixels_does_so_for_each_row(masked):
    model = segmenting()
    sums = keras.losses.SparseCategoricalCrossentropy(reduction="sum")
    model.compile(loss=sums)
    found = dfgen.evaluate_frame(model, sequence(masked))
    for row in (0, 5, 10):
        alone = dfgen.Sequence(
            masked.iloc[[row]], x=dfgen.Image(size=(4, 4)), y=dfgen.Mask("mask"), batch_size=1
        )
        expected = model.evaluate(alone, verbose=0)
        np.testing.assert_allclose(found.loss[row], expected, rtol=1e-4, atol=1e-5)
    assert found.loss[5] > 3.7  # of 8 pixels that are nearly undecided


def test_files_of_rows_that_cannot_be_read_are_not_written(masked, tmp_path):
    df = masked.copy()
    df.loc[[2, 3, 10], "path"] = "gone.png"
    model = segmenting()
    seq = dfgen.Sequence(
        df, x=dfgen.Image("path", size=(4, 4)), y=dfgen.Mask("mask"), batch_size=BATCH,
        on_error="skip",
    )  # fmt: skip
    found = dfgen.predict_frame(model, seq, arrays=tmp_path / "said")
    assert found.y_pred.isna().tolist() == [row in (2, 3, 10) for row in range(ROWS)]
    for row, path in enumerate(found.y_pred):
        if row not in (2, 3, 10):
            np.testing.assert_array_equal(cv2.imread(path, -1), cv2.imread(df["mask"][row], -1))
    assert len([*(tmp_path / "said").glob("*.png")]) == ROWS - 3


def test_files_are_called_by_ids_of_any_kind(masked, tmp_path):
    ids = ["a/0", ".hidden", "x" * 200, "y" * 201, "ä b", "..", *range(6, ROWS)]
    seq = sequence(masked.assign(id=list(map(str, ids))))
    found = dfgen.predict_frame(segmenting(), seq, arrays=tmp_path / "said")
    names = [path.removeprefix(f"{tmp_path}/said/").removesuffix(".png") for path in found.y_pred]
    assert names[0] == "a%2F0" and names[2] == "x" * 200 and names[4] == "%C3%A4 b"
    for place in (1, 3, 5):
        assert names[place] == blake2b(str(ids[place]).encode(), digest_size=16).hexdigest()
    assert names[6:] == [str(n) for n in range(6, ROWS)]


def test_paths_are_text_where_no_row_can_be_read(masked, tmp_path):
    (tmp_path / "bad.png").write_text("no image")
    df = masked.drop(columns="mask").assign(path=str(tmp_path / "bad.png"))
    seq = dfgen.Sequence(df, x=dfgen.Image(size=(4, 4)), label_mode=None, batch_size=4,
                         on_error="skip", limits=dfgen.Limits(problems=1.0))  # fmt: skip
    arrays = tmp_path / "said"
    out = dfgen.predict_frame(segmenting(), seq, arrays=arrays, out=tmp_path / "p.parquet")
    assert pq.read_schema(out).field("y_pred").type == pa.string()
    assert os.listdir(arrays) == ["run.json"]
