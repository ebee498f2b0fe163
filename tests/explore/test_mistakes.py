"""Mistakes of a classifier, and labels that are likely wrong."""

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError, WriteError
from dfgen.explore import mistakes

NAMES = ["cat", "dog", "emu"]


@pytest.fixture
def predicted(files):
    """60 rows of three classes; the labels of 7 and 8 are wrong, the prediction of 11 is."""
    true = np.arange(60) % 3
    labels = true.copy()
    labels[[7, 8]] = 0, 1
    prob = np.full((60, 3), 0.05, np.float32)
    prob[np.arange(60), true] = 0.9
    prob[11] = 0.3, 0.4, 0.3
    kind = pd.Categorical.from_codes(labels, NAMES)
    frame = pd.DataFrame({"id": np.arange(60) + 100, "path": files[:60], "kind": kind})
    pred = pd.Categorical.from_codes(prob.argmax(axis=1), NAMES)
    loss = -np.log(prob[np.arange(60), labels])
    return frame.assign(y_true=kind, y_pred=pred, prob=[*prob], loss=loss, problem=None)


def test_summary_and_captions(predicted):
    wrong = mistakes(predicted)
    assert repr(wrong).startswith("60 rows, 95.0% right, 3 wrong; 2 labels likely wrong\n")
    assert wrong.classes.taken_for.tolist() == ["dog", "emu", "dog"]
    assert wrong.show(2).axes[0].texts[-1].get_text() == "107\ncat → dog 90%\nloss 3"
    below = wrong.show_mislabels(9).axes[0].texts[-1].get_text()
    assert below.startswith("107\nsuggested dog")


def test_each_class_has_its_own_threshold():
    """The example of Figure 1 of the paper in small: thresholds of 0.65 and 0.544."""
    prob = np.array([[0.7, 0.3]] * 4 + [[0.45, 0.55]] + [[0.4, 0.6]] * 4 + [[0.68, 0.32]])
    true = pd.Categorical(["a"] * 5 + ["b"] * 5)
    frame = pd.DataFrame({"id": range(10), "y_true": true, "prob": [*prob]})
    frame["y_pred"] = pd.Categorical.from_codes(prob.argmax(1), ["a", "b"])
    assert sorted(mistakes(frame).mislabels.id) == [4, 9]


def test_few_rows_and_weak_models_are_judged(predicted):
    assert mistakes(predicted[6:12]).mislabels.id.tolist() == [107, 108, 111]  # most probable class
    guesses = [*np.random.default_rng(0).dirichlet(np.ones(3), 60)]
    assert "too weak" in mistakes(predicted.assign(prob=guesses)).summary


def test_unlabelled_rows_and_repeated_index_are_harmless(predicted):
    plain = mistakes(predicted).mislabels
    repeated = mistakes(predicted.set_axis([0, 1] * 30))
    pd.testing.assert_frame_equal(repeated.mislabels, plain)
    predicted.loc[:4, ["y_pred", "prob", "loss"]] = None
    predicted.loc[5, "y_true"] = None
    wrong = mistakes(predicted)
    assert wrong.confusion.to_numpy().sum() == 54 and "; 6 without a label" in wrong.summary
    with pytest.raises(ManifestError, match="none of the 6 rows"):
        mistakes(predicted[:6])


def test_class_indices_without_loss_and_label_column(predicted):
    codes = {name: predicted[name].cat.codes for name in ("y_true", "y_pred")}
    wrong = mistakes(predicted.drop(columns=["loss", "kind"]).assign(**codes))
    assert wrong.mislabels.suggested.tolist() == [1, 2]
    np.testing.assert_allclose(wrong.worst.loss, -np.log([0.05, 0.05, 0.3]), rtol=1e-6)
    with pytest.raises(ManifestError, match="label="):
        wrong.write("nowhere.csv")


def test_output_of_a_model_with_several_is_chosen(predicted):
    columns = ("y_true", "y_pred", "prob", "loss")
    several = predicted.rename(columns={name: f"{name}_kind" for name in columns})
    several = several.assign(y_pred_age=1.5, y_true_age=1.5, loss=1.0)
    assert mistakes(several, head="kind").mislabels.id.tolist() == [107, 108]
    for head in (None, "age"):
        with pytest.raises(ArgumentError, match="got \\['kind'\\]"):
            mistakes(several, head=head)


def test_other_frames_raise(predicted):
    cow = predicted.y_true.cat.rename_categories({"cat": "cow"})
    for frame, options, message in (
        (predicted[["id", "path"]], {}, "predict_frame"),
        (predicted.assign(y_pred=1.5).drop(columns="prob"), {}, "sort="),
        (predicted.drop(columns="y_true"), {}, "y_true"),
        (predicted, {"label": "knd"}, 'label="knd"'),
        (predicted.assign(y_true=cow), {}, "the same classes"),
    ):
        with pytest.raises(DfgenError, match=message):
            mistakes(frame, **options)


def test_confusion_shows_the_most_confused_of_many_classes(predicted):
    [axes] = mistakes(predicted).show_confusion().axes
    assert [text.get_text() for text in axes.texts] == ["20", "1", "19", "1", "1", "18"]
    assert axes.images[0].get_array()[0].tolist() == [20 / 21, 1 / 21, 0]
    many = [f"c{number:02}" for number in range(40)]
    true, pred = pd.Categorical(many * 2), pd.Categorical([*many, *many[:35], *many[:5]])
    [axes] = mistakes(pd.DataFrame({"y_true": true, "y_pred": pred})).show_confusion().axes
    assert axes.get_title("left") == "30 of 40 classes" and not axes.texts


def test_corrections_replace_corrections_only(predicted, tmp_path):
    wrong, path = mistakes(predicted), tmp_path / "to_fix.csv"
    for _ in range(2):
        wrong.write(path)
    mended = dfgen.update_labels(predicted[["id", "path", "kind"]], path).kind
    assert mended.tolist()[6:10] == ["cat", "dog", "emu", "cat"]
    path.write_text("id,age\n1,2\n")
    with pytest.raises(WriteError, match="corrections"):
        wrong.write(path)
    with pytest.raises(ArgumentError, match="csv"):
        wrong.write(tmp_path / "to_fix.xlsx")
