"""Figures and tables that show what is in a manifest, in a batch and in predictions."""

import cv2
import matplotlib
import numpy as np
import pandas as pd
import pytest

import dfgen
import dfgen.explore
from dfgen.errors import DfgenError

matplotlib.use("Agg")


@pytest.fixture
def rows(frame):
    return frame(10).assign(split=pd.Categorical(["train"] * 6 + ["val"] * 4))


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Six photographs: 4 has the pixels of 1, and 5 is a smaller version of 2."""
    folder, rng = tmp_path_factory.mktemp("copies"), np.random.default_rng(0)
    coarse = [rng.integers(0, 256, (6, 8, 3), np.uint8) for _ in range(4)]
    photos = [cv2.resize(pixels, (120, 90), interpolation=cv2.INTER_CUBIC) for pixels in coarse]
    for row, photo in enumerate([*photos, photos[1], cv2.resize(photos[2], (100, 75))]):
        cv2.imwrite(f"{folder}/{row}.png", photo)
    frame = dfgen.build_manifest(folder, pattern="{id:int}.png", facts="full")
    return frame.assign(split=["train"] * 4 + ["val"] * 2)


def red(figure):
    """Return the red value in the middle of each picture: the number of the row."""
    pictures = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    return [int(pixels[len(pixels) // 2, pixels.shape[1] // 2, 0]) for pixels in pictures]


def captions(figure):
    return ["\n".join(text.get_text() for text in axes.texts) for axes in figure.axes]


def words(figure):
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_show_draws_pictures_and_captions_of_rows(rows):
    figure = dfgen.explore.show(rows)
    assert red(figure) == figure.table.id.tolist() == list(range(10))
    assert all(f"{row}" in text for row, text in enumerate(captions(figure)))
    assert ["odd" in text for text in captions(figure)] == [False, True] * 5


def test_show_chooses_rows_by_seed_order_and_value(rows):
    rows["age"] = [5, np.nan, 3, 9, 1, 7, 8, 2, 4, 6]
    drawn = rows.dfgen.show(3).table.id.tolist()
    assert drawn == rows.dfgen.show(3).table.id.tolist() and len(set(drawn)) == 3
    assert drawn != rows.dfgen.show(3, seed=1).table.id.tolist()
    assert red(rows.dfgen.show(3, sort="age")) == [4, 7, 2]
    assert red(rows.dfgen.show(2, sort="-age")) == [3, 6]
    assert red(rows.dfgen.show(10, sort="age"))[-1] == 1
    figure = rows.dfgen.show(4, by="label", sort="-age", caption="age")
    assert red(figure) == [6, 0, 3, 5]
    assert all(text in words(figure) for text in ("even", "odd", "5 rows"))
    assert ["9" in text for text in captions(figure)] == [False, False, True, False]
    with pytest.raises(DfgenError, match="lable"):
        rows.dfgen.show(by="lable")


def test_show_draws_masks_boxes_and_problems(rows, tmp_path):
    cv2.imwrite(f"{tmp_path}/mask.png", np.array([[0, 0, 0, 3]] * 4, np.uint8))
    rows = rows[:3].assign(mask=f"{tmp_path}/mask.png", boxes=[[[1, 1, 3, 2]], [], []])
    rows = rows.assign(labels=[["cat"], [], []], path=[*rows.path[:2], f"{tmp_path}/none.png"])
    first, second, bad = rows.dfgen.show().axes
    [box] = first.patches
    height, width = first.images[0].get_array().shape[:2]
    corners = (np.array(box.get_bbox().extents) + 0.5) / np.tile([width, height], 2)
    np.testing.assert_allclose(corners, [0.25, 0.25, 0.75, 0.5], atol=0.01)
    alpha = np.asarray(first.images[1].get_array())[..., 3]
    assert alpha[:, -1].all() and np.count_nonzero(alpha) == alpha.size // 4
    assert not second.patches and "cat" in captions(first.figure)[0]
    assert "exist" in captions(bad.figure)[2]


def test_classes_and_balance_count_each_split(rows):
    rows["label"] = pd.Categorical(["a"] * 8 + ["b", None], ["a", "b", "c"])
    table = dfgen.explore.classes(rows)
    assert table.rows.tolist() == [8, 1, 0, 1] and table.index[:3].tolist() == ["a", "b", "c"]
    assert (table.train.tolist(), table.val.tolist()) == ([6, 0, 0, 0], [2, 1, 0, 1])
    figure = rows.dfgen.show_balance()
    assert figure.table.equals(table) and {*"abc", "train", "val"} <= {*words(figure).split("\n")}
    problems = rows.assign(problem=[None] * 8 + ["empty", None]).dfgen.problems()
    assert (problems.id.tolist(), problems.problem.tolist()) == ([8], ["empty"])


def test_sizes_list_unusual_rows():
    rows = pd.DataFrame({"id": range(40), "path": "a.png", "height": 300, "orientation": 1})
    rows = rows.assign(width=[400] * 39 + [4000], bytes=range(9_000, 9_400, 10))
    assert rows.dfgen.show_sizes().table.id.tolist() == [39]


def test_duplicates_and_leaks_are_side_by_side(copies):
    figure = copies.dfgen.show_duplicates()
    assert figure.table.id.tolist() == [1, 4, 2, 5]
    assert figure.table.kind.tolist() == ["exact", "exact", "near", "near"]
    first, second, *_ = (np.asarray(axes.images[0].get_array()) for axes in figure.axes)
    np.testing.assert_array_equal(first, second)
    assert len(dfgen.explore.show_duplicates(copies, 1).axes) == 2
    figure = dfgen.explore.show_leaks(copies)
    assert list(zip(figure.table.id, figure.table.other_id, strict=True)) == [(4, 1), (5, 2)]
    assert len(figure.axes) == 4 and len(copies[:4].dfgen.show_leaks().table) == 0


def test_mistakes_list_wrong_predictions_and_labels(files, tmp_path):
    names, true = ["cat", "dog", "emu"], np.arange(60) % 3
    labels = true.copy()
    labels[[7, 8]] = 0, 1  # wrong labels
    prob = np.full((60, 3), 0.05, np.float32)
    prob[np.arange(60), true] = 0.9
    prob[11] = 0.3, 0.4, 0.3  # an unsure prediction
    kind, pred = (pd.Categorical.from_codes(codes, names) for codes in (labels, prob.argmax(1)))
    loss = -np.log(prob[np.arange(60), labels])
    df = pd.DataFrame({"id": range(60), "path": files[:60], "kind": kind})
    wrong = dfgen.explore.mistakes(df.assign(y_true=kind, y_pred=pred, prob=[*prob], loss=loss))
    assert wrong.worst.id.tolist() == [7, 8, 11]
    assert wrong.classes.rows.tolist() == [21, 20, 19]
    np.testing.assert_allclose(wrong.classes.recall, [20 / 21, 19 / 20, 18 / 19])
    np.testing.assert_allclose(wrong.classes.precision, [1, 19 / 21, 18 / 19])
    assert wrong.mislabels.id.tolist() == [7, 8]
    assert wrong.mislabels.suggested.tolist() == ["dog", "emu"]
    matrix = wrong.show_confusion().table
    assert matrix.to_numpy().tolist() == [[20, 1, 0], [0, 19, 1], [0, 1, 18]]
    assert red(wrong.show(2)) == red(wrong.show_mislabels(9)) == [7, 8]
    assert wrong.show(3, by="y_true").table.id.tolist() == [7, 8, 11]
    wrong.write(tmp_path / "fix.csv")
    fixed = dfgen.update_labels(df, tmp_path / "fix.csv").kind
    assert fixed.tolist()[6:10] == ["cat", "dog", "emu", "cat"]


def test_classes_count_lists_after_many_missing_ones(frame):
    tags = frame(105).assign(tags=[None] * 100 + [["a"]] * 3 + [["a", "b"]] * 2)
    assert tags.dfgen.classes("tags").rows.to_dict() == {"a": 5, "b": 2}
