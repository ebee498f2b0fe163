"""`seq.show()`: a batch as the model gets it."""

import json

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from public.test_explore import captions as captions

import dfgen
from dfgen.errors import ArgumentError


def pixels(axes):
    return np.asarray(axes.images[0].get_array())


def texts(figure):
    return [text.get_text() for text in figure.texts if text.get_text()]


def test_batch_is_shown_with_ids_labels_and_range(frame):
    seq = dfgen.Sequence(frame(10), y="label", image_size=(4, 4), batch_size=6)
    figure, rows = seq.show(1), seq.rows(1)
    title = "batch 1 of 2, epoch 0: 4 of 4 rows"
    assert texts(figure) == [title, f"image: uint8 4 x 4 x 3, 0 to {rows.max()}"]
    assert [pixels(axes)[0, 0, 0] for axes in figure.axes] == figure.table.id.tolist()
    assert captions(figure) == [f"{row}\n{('even', 'odd')[row % 2]}" for row in rows]
    assert captions(seq.show(1, caption=["label", "id"]))[0].endswith(f"\n{rows[0]}")
    assert len(seq.show(n=3).axes) == 3
    with pytest.raises(ArgumentError, match="expected images"):
        dfgen.Sequence(frame(4).assign(age=1.0), x="age", y="label").show()


@pytest.mark.parametrize(("scale", "said"), [("-1..1", "-1 to "), ("caffe", "-123.7 to ")])
def test_scaled_pixels_and_weights_are_shown(frame, scale, said):
    rows = frame(8).assign(weight=[1.0, 0.5] * 4)
    options = {"y": "label", "sample_weight": "weight", "label_mode": "categorical"}
    seq = dfgen.Sequence(rows, image_size=(4, 4), scale=scale, shuffle=False, **options)
    figure = seq.show()
    assert f"image: float32 4 x 4 x 3, {said}" in texts(figure)[1]
    assert captions(figure)[:2] == ["0\neven", "1\nodd\nweight 0.5"]
    if scale != "caffe":  # it is drawn from its lowest to its highest number
        assert [pixels(axes)[0, 0, 0] for axes in figure.axes] == list(range(8))


@pytest.mark.parametrize("format", ["xyxy", "xywh", "rel_xyxy"])
def test_boxes_and_masks_follow_each_random_crop(tmp_path, format):
    white = np.zeros((40, 60, 3), np.uint8)
    white[10:20, 30:50] = 255
    cv2.imwrite(f"{tmp_path}/a.png", white)
    cv2.imwrite(f"{tmp_path}/m.png", (white[..., 0] > 0) * np.uint8(3))
    rows = pd.DataFrame({"id": [0], "path": f"{tmp_path}/a.png", "mask": f"{tmp_path}/m.png"})
    rows = rows.assign(boxes=[[[30, 10, 50, 20]]], labels=[["cat"]])
    image = dfgen.Image("path", size=(30, 50), load_size=(40, 60), crop="random", flip="horizontal")
    boxes = dfgen.Boxes("boxes", format=format, class_names=("cat",))
    figure = dfgen.Sequence(rows, x=image, y={"m": dfgen.Mask("mask"), "b": boxes}).show(draws=4)
    assert texts(figure)[2:] == ["image of row id=0, in 4 draws"]
    assert captions(figure)[1:] == [f"cat\nepoch {epoch}" for epoch in range(4)]
    assert (pixels(figure.axes[0]) == pixels(figure.axes[1])).all()  # the draw of this epoch
    for axes in figure.axes:
        left, top, right, bottom = (axes.patches[0].get_bbox().extents + 0.5).round().astype(int)
        is_white = pixels(axes)[..., 0] > 200
        assert is_white[top:bottom, left:right].all() and is_white.sum() == (right - left) * 10
        assert ((axes.images[1].get_array()[..., 3] > 0) == is_white).all()


def test_keypoints_and_masks_of_objects_are_drawn(tmp_path):
    dots = np.zeros((40, 60, 3), np.uint8)
    dots[10, 30] = dots[20, 50] = 255
    cv2.imwrite(f"{tmp_path}/a.png", dots)
    squares = [json.dumps([[x, 5, x + 4, 5, x + 4, 9, x, 9]]) for x in (10, 20)]
    rows = pd.DataFrame({"id": [0], "path": f"{tmp_path}/a.png", "width": 60, "height": 40})
    points = [[30, 10, 2, 50, 20, 1, 7, 7, 0]]
    rows = rows.assign(segmentation=[squares], labels=[["cat", "cat"]], keypoints=[points])
    image = dfgen.Image("path", size=(40, 60), flip="horizontal")
    objects = dfgen.Segmentation(max_items=3, class_names=["cat"])
    y = {"m": objects, "p": dfgen.Keypoints(count=3, max_items=2)}
    for axes in dfgen.Sequence(rows, x=image, y=y).show(draws=4).axes:
        marked = {(round(float(x)), round(float(y))) for x, y in axes.lines[0].get_xydata()}
        assert marked == {(x, y) for y, x in np.argwhere(pixels(axes)[..., 0] > 128).tolist()}
        tints = axes.images[1].get_array()
        assert len(np.unique(tints[tints[..., 3] > 0], axis=0)) == 2  # a colour for each object


def test_skipped_rows_show_the_reason(frame):
    rows = frame(4)
    rows.loc[0, "path"] = "none.png"
    options = {"image_size": (4, 4), "y": "label", "on_error": "skip", "shuffle": False}
    rng = {"transform": lambda sample, rng: sample}
    for axes in dfgen.Sequence(rows, **options, **rng).show(draws=2).axes[::4]:
        assert "not exist" in axes.texts[0].get_text().replace("\n", " ")
    assert dfgen.Sequence(rows, **options).show().axes[0].texts[1].get_text() == "0\nweight 0"


def test_mixed_labels_and_several_inputs_are_shown(frame):
    def mixed(batch, rng):
        return {**batch, "label": 0.75 * batch["label"] + 0.25 * batch["label"][::-1]}

    options = {"y": "label", "image_size": (4, 4), "shuffle": False}
    soft = dfgen.Sequence(frame(4), **options, label_mode="categorical", batch_transform=mixed)
    assert captions(soft.show())[0] == "0\neven 75%, odd 25%"
    rows = frame(4).assign(other=frame(4).path[::-1].to_numpy(), age=[0.5, 2, 3, 4])
    x = {"a": "path", "pulse": dfgen.Column("age", lambda age: np.full(9, age), shape=(9,))}
    x |= {"text": dfgen.Text("label"), "b": dfgen.Image("other", None), "age": "age"}
    figure = dfgen.Sequence(rows, x=x, y="label", shuffle=False).show(n=2)
    assert [text.partition(":")[0] for text in texts(figure)[1:]] == ["a", "pulse", "text", "b"]
    assert captions(figure)[0] == "0\neven\n0.5" and len(figure.axes) == 8
    assert figure.axes[2].lines[0].get_ydata().tolist() == [0.5] * 9


@pytest.mark.backend
def test_pixels_unexpected_by_the_model_are_reported(frame):
    layers = keras.layers
    plain = keras.Sequential([keras.Input((4, 4, 3)), layers.Conv2D(2, 3, name="first")])
    scaled = keras.Sequential([keras.Input((4, 4, 3)), layers.Rescaling(1 / 255), *plain.layers])
    seq = dfgen.Sequence(frame(8), y="label", image_size=(4, 4))
    assert "pixels of 0 to 255" in texts(seq.show(model=plain))[1]
    assert len(texts(seq.show(model=scaled))) == 2
    small = dfgen.Sequence(frame(8), y="label", image_size=(4, 4), scale="0..1")
    assert "Looks wrong: scale='0..1'" in texts(small.show(model=scaled))[1]


@pytest.mark.parametrize(("factor", "said"), [(0, "all pixels"), (np.nan, "NaN")])
def test_constant_and_nan_pixels_look_wrong(frame, factor, said):
    def changed(batch, rng):
        return {**batch, "image": batch["image"] * np.float32(factor)}

    image = dfgen.Image("path", size=(4, 4), dtype="float32")
    figure = dfgen.Sequence(frame(4), x=image, y="label", batch_transform=changed).show()
    assert texts(figure)[1].startswith("Looks wrong") and said in texts(figure)[1]
