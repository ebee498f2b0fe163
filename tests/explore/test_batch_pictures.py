"""What the model sees: batches, draws and pixel ranges, in figures and in notebooks."""

import json

import cv2
import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
import dfgen.explore
from dfgen.errors import ArgumentError


def texts(figure):
    return [text.get_text() for text in figure.texts]


def captions(figure):
    return [axes.texts[-1].get_text() for axes in figure.axes]


def shown(axes):
    return np.asarray(axes.images[0].get_array())


def test_a_batch_is_shown_as_the_model_gets_it(frame):
    seq = dfgen.Sequence(frame(10), image_size=(4, 4), batch_size=6, sample_weight=None)
    figure = seq.show(1)
    rows = seq.rows(1)
    assert texts(figure) == [
        "batch 1 of 2, epoch 0: 4 of 4 rows",
        f"image: uint8 4 x 4 x 3, 0 to {rows.max()}, mean {rows.mean() / 3:.4g}",
    ]
    assert [shown(axes)[0, 0, 0] for axes in figure.axes] == rows.tolist()
    assert captions(figure) == [f"{row}\n{('even', 'odd')[row % 2]}" for row in rows]
    assert (
        captions(seq.show(1, caption=["label", "id"]))[0]
        == f"label {('even', 'odd')[rows[0] % 2]}\nid {rows[0]}"
    )
    assert figure.table["id"].tolist() == rows.tolist()
    assert len(seq.show(n=3).axes) == 3
    assert seq.epoch == 0


def test_scaled_pixels_labels_and_weights_are_shown(frame):
    rows = frame(8).assign(weight=[1.0, 0.5] * 4)
    for scale, said in (("0..1", "0 to "), ("-1..1", "-1 to "), ("caffe", "-123.7 to ")):
        seq = dfgen.Sequence(
            rows, image_size=(4, 4), scale=scale, label_mode="categorical", sample_weight="weight",
            y="label", shuffle=False,
        )  # fmt: skip
        figure = seq.show()
        assert texts(figure)[1].startswith(
            f"image: float32 4 x 4 x 3{', BGR' * (scale == 'caffe')}"
        )
        assert said in texts(figure)[1]
        assert captions(figure)[:2] == ["0\neven", "1\nodd\nweight 0.5"]
        if scale != "caffe":  # which is stretched from its least to its most
            assert [shown(axes)[0, 0, 0] for axes in figure.axes] == list(range(8))


def test_boxes_and_masks_move_with_the_crops_that_are_shown(tmp_path):
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[10:20, 30:50] = 255
    cv2.imwrite(f"{tmp_path}/a.png", pixels)
    cv2.imwrite(f"{tmp_path}/m.png", (pixels[..., 0] > 0) * np.uint8(3))
    rows = pd.DataFrame(
        {"id": [0], "path": f"{tmp_path}/a.png", "mask": f"{tmp_path}/m.png",
         "boxes": [[[30, 10, 50, 20]]], "labels": [["cat"]]}
    )  # fmt: skip
    image = dfgen.Image("path", size=(30, 50), load_size=(40, 60), crop="random", flip="horizontal")
    for format in ("xyxy", "xywh", "rel_xyxy"):
        boxes = dfgen.Boxes("boxes", format=format, class_names=("cat",))
        seq = dfgen.Sequence(rows, x=image, y={"mask": dfgen.Mask("mask"), "boxes": boxes})
        figure = seq.show(draws=4)
        assert texts(figure)[2:] == ["image of row id=0, in 4 draws"]
        assert captions(figure)[1:] == [f"epoch {epoch}" for epoch in range(4)]
        assert (shown(figure.axes[0]) == shown(figure.axes[1])).all()  # the draw of this epoch
        for axes in figure.axes:
            [box] = axes.patches
            left, top, right, bottom = (box.get_bbox().extents + 0.5).round().astype(int)
            is_white = shown(axes)[..., 0] > 200
            marked = axes.images[1].get_array()[..., 3] > 0
            assert (np.argwhere(is_white).min(0) == (top, left)).all()
            assert (np.argwhere(is_white).max(0) == (bottom - 1, right - 1)).all()
            assert (marked == is_white).all()
            assert axes.texts[0].get_text() == "cat"


def test_key_points_and_masks_of_objects_lie_on_what_is_shown(tmp_path):
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[10, 30] = pixels[20, 50] = 255
    cv2.imwrite(f"{tmp_path}/a.png", pixels)
    squares = [[[x, 5, x + 4, 5, x + 4, 9, x, 9]] for x in (10, 20)]
    rows = pd.DataFrame(
        {"id": [0], "path": f"{tmp_path}/a.png", "segmentation": [list(map(json.dumps, squares))],
         "labels": [["cat", "cat"]], "width": 60, "height": 40,
         "keypoints": [[[30.5, 10.5, 2, 50.5, 20.5, 1, 7, 7, 0]]]}
    )  # fmt: skip
    image = dfgen.Image("path", size=(40, 60), flip="horizontal")
    objects = dfgen.Segmentation(max_items=3, class_names=["cat"])
    points = dfgen.Keypoints(count=3, max_items=2)
    figure = dfgen.Sequence(rows, x=image, y={"m": objects, "p": points}).show(draws=4)
    for axes in figure.axes:
        marked = {(round(float(x)), round(float(y))) for x, y in axes.lines[0].get_xydata()}
        assert marked == {(x, y) for y, x in np.argwhere(shown(axes)[..., 0] > 128).tolist()}
        tints = axes.images[1].get_array()
        held = np.unique(tints[tints[..., 3] > 0][:, :3], axis=0)
        assert len(held) == 2  # a colour an object
        assert np.count_nonzero(tints[..., 3]) == 32
    assert len({tuple(axes.lines[0].get_xdata()) for axes in figure.axes}) == 2  # flipped or not


def test_one_row_is_shown_as_each_epoch_draws_it(frame):
    def brighter(sample, rng):
        return {**sample, "image": sample["image"] + np.uint8(rng.integers(100, 200))}

    seq = dfgen.Sequence(frame(6), image_size=(4, 4), transform=brighter, shuffle=False)
    figure = dfgen.explore.show_draws(seq, row=2, n=10)
    values = [shown(axes)[0, 0, 2] for axes in figure.axes]
    assert len(set(values)) > 5
    assert figure.table["id"].tolist() == [2]
    seen = []
    for _ in range(3):
        x, _ = next(iter(seq))
        seen.append(x[2, 0, 0, 2])
        later = {"epoch": seq.epoch + 1, "positions": 0, "ended": False, "receipt": "0"}
        later["checksum"] = None
        seq.load_state_dict({**seq.state_dict(), **later})
    assert seen == values[:3]
    with pytest.raises(ArgumentError) as caught:
        dfgen.explore.show_draws(seq, row=6)
    assert str(caught.value) == "row=6 is not a whole number from 0 to 5"


def test_rows_that_were_skipped_are_shown_as_such(frame):
    rows = frame(4)
    rows.loc[1, "path"] = "none.png"
    seq = dfgen.Sequence(rows, image_size=(4, 4), on_error="skip", shuffle=False, batch_size=4)
    bad = seq.show().axes[1]
    assert [text.get_text() for text in bad.texts] == [
        "skipped: the file does\nnot exist", "1\nweight 0"
    ]  # fmt: skip


def test_mixed_labels_several_images_and_own_sizes_are_shown(sized_folder, frame):
    def mixed(batch, rng):
        return {**batch, "label": 0.75 * batch["label"] + 0.25 * batch["label"][::-1]}

    seq = dfgen.Sequence(
        frame(4), y="label", image_size=(4, 4), label_mode="categorical", shuffle=False,
        batch_transform=mixed,
    )  # fmt: skip
    assert captions(seq.show())[0] == "0\neven 75%, odd 25%"
    rows = frame(4).assign(other=lambda rows: rows["path"][::-1].to_numpy(), age=[0.5, 2, 3, 4])
    two = dfgen.Sequence(rows, x=["path", "other"], y=["label", "age"], image_size=None)
    figure = two.show(n=2)
    assert [text.partition(":")[0] for text in texts(figure)[1:]] == ["image_0", "image_1"]
    assert len(figure.axes) == 4
    _, label, age = captions(figure)[0].split("\n")
    assert label in ("even", "odd")
    assert age in ("0.5", "2", "3", "4")
    pairs = rows.assign(path=[*map(list, zip(rows["path"], rows["other"], strict=True))])
    several = dfgen.Image("path", size=(4, 4), max_items=2)
    pictured = dfgen.Sequence(pairs, x=several, y="label", shuffle=False).show()
    assert [shown(axes)[0, 0, 0] for axes in pictured.axes] == [0, 1, 2, 3]  # the first of each


@pytest.mark.backend
def test_what_looks_wrong_for_the_model_is_told(frame):
    layers = keras.layers
    plain = keras.Sequential([keras.Input((4, 4, 3)), layers.Conv2D(2, 3, name="first")])
    scaled = keras.Sequential([keras.Input((4, 4, 3)), layers.Rescaling(1 / 255), *plain.layers])
    seq = dfgen.Sequence(frame(8), image_size=(4, 4))
    assert texts(seq.show(model=plain))[1].replace("\n", " ") == (
        "Looks wrong: pixels of 0 to 255 reach the layer 'first' of the model, Conv2D, as they "
        'are: give the Sequence scale="0..1", or begin the model with keras.layers.Rescaling(1 / '
        "255)"
    )
    assert len(texts(seq.show(model=scaled))) == 2
    small = dfgen.Sequence(frame(8), image_size=(4, 4), scale="0..1")
    assert len(texts(small.show(model=plain))) == 2
    assert texts(small.show(model=scaled))[1].startswith(
        "Looks wrong: scale='0..1' makes pixels about 1 at most, and the layer"
    )
    normed = keras.Sequential([keras.Input((4, 4, 3)), layers.BatchNormalization(), *plain.layers])
    assert len(texts(seq.show(model=normed))) == 2


def test_pixels_that_are_none_or_all_the_same_look_wrong(frame):
    image = dfgen.Image("path", size=(4, 4), dtype="float32")
    rows = frame(4).assign(path=frame(4)["path"].iloc[0])
    same = dfgen.Sequence(rows, x=image, y="label")
    assert texts(same.show())[1] == "Looks wrong: all pixels of the batch are 0.0"

    def nothing(batch, rng):
        return {**batch, "image": batch["image"] * np.float32(np.nan)}

    deep = dfgen.Sequence(frame(4), x=image, y="label", batch_transform=nothing)
    assert texts(deep.show())[1:] == [
        "Looks wrong: pixels are NaN or infinite", "image: float32 4 x 4 x 3, no finite number"
    ]  # fmt: skip


def test_what_has_no_images_is_told(frame):
    rows = frame(4).assign(age=[1.0, 2, 3, 4])
    with pytest.raises(ArgumentError) as caught:
        dfgen.Sequence(rows, x="age", y="label").show()
    assert str(caught.value) == (
        "the Sequence has no images, sounds, arrays or texts, but number, label: look at seq[0]"
    )
    with pytest.raises(ArgumentError) as caught:
        dfgen.explore.show_batch(rows)
    assert str(caught.value) == "expected a dfgen.Sequence, got a pandas.DataFrame of shape (4, 4)"


def test_a_sequence_is_a_table_in_a_notebook_with_its_text_escaped(frame):
    rows = frame(10)
    rows["label"] = rows["label"].cat.rename_categories(["<b>", "odd"])
    seq = dfgen.Sequence(rows, image_size=(4, 4), batch_size=4, max_queue_size=3)
    cells = {
        "rows": "10", "steps": "3 of 4 rows", "image": "4 x 4 x 3 uint8", "label": "scalar int32",
        "classes": "2: &lt;b&gt;, odd", "in flight": "3 batches, about 0.0 MB",
    }  # fmt: skip
    line = repr(seq).replace("<", "&lt;").replace(">", "&gt;")
    table = "".join(f"<tr><th>{name}</th><td>{held}</td></tr>" for name, held in cells.items())
    assert seq._repr_html_() == f"<table>{table}</table><small>{line}</small>"
