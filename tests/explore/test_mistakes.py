"""Where a model is wrong: confusion, classes, the worst rows, and labels that are likely wrong."""

import csv

import numpy as np
import pandas as pd
import pytest
from messages import message_of

import dfgen
import dfgen.explore
from dfgen.errors import ArgumentError, ManifestError
from dfgen.explore import mistakes
from dfgen.explore.mistakes import suspected
from dfgen.explore.predicted import caption_columns, caption_lines, own_labels

NAMES = ["cat", "dog", "emu"]


@pytest.fixture
def predicted(files):
    """60 rows of three classes, as predict_frame has them: row 7 and 8 have another's label."""
    true = np.arange(60) % 3
    labels = true.copy()
    labels[[7, 8]] = 0, 1
    prob = np.full((60, 3), 0.05, np.float32)
    prob[np.arange(60), true] = 0.9
    prob[11] = 0.3, 0.4, 0.3  # of an emu, taken for a dog, but not for sure
    kind = pd.Categorical.from_codes(labels, NAMES)
    return pd.DataFrame(
        {
            "id": np.arange(60) + 100, "path": files[:60], "kind": kind, "split": "val",
            "y_true": kind, "y_pred": pd.Categorical.from_codes(prob.argmax(axis=1), NAMES),
            "prob": list(prob), "loss": -np.log(prob[np.arange(60), labels]),
            "problem": pd.Series([None] * 60, dtype="object"),
        }
    )  # fmt: skip


def test_what_is_taken_for_what_is_counted(predicted):
    wrong = mistakes(predicted)
    assert wrong.confusion.to_numpy().tolist() == [[20, 1, 0], [0, 19, 1], [0, 1, 18]]
    assert wrong.confusion.index.tolist() == wrong.confusion.columns.tolist() == NAMES
    assert wrong.classes["rows"].tolist() == [21, 20, 19]
    assert wrong.classes["recall"].tolist() == [20 / 21, 19 / 20, 18 / 19]
    assert wrong.classes["precision"].tolist() == [1, 19 / 21, 18 / 19]
    assert wrong.classes["f1"].tolist() == [40 / 41, 38 / 41, 36 / 38]
    assert wrong.classes["taken_for"].tolist() == ["dog", "emu", "dog"]
    assert wrong.worst["id"].tolist() == [107, 108, 111]


def test_labels_that_are_likely_wrong_are_found_and_update_labels_takes_them(predicted, tmp_path):
    wrong = mistakes(predicted)
    found = wrong.mislabels
    assert found["id"].tolist() == [107, 108]  # not 111, of which the model is not sure
    assert found["suggested"].tolist() == ["dog", "emu"]
    assert found["prob_own"].tolist() == pytest.approx([0.05, 0.05])
    assert found["prob_suggested"].tolist() == pytest.approx([0.9, 0.9])
    surer = predicted["prob"].to_list()
    surer[8] = np.array([0.03, 0.05, 0.92], np.float32)  # as unlikely, and surer of another
    assert mistakes(predicted.assign(prob=surer)).mislabels["id"].tolist() == [108, 107]
    with pytest.raises(ArgumentError, match=r"fix.xlsx'\): corrections are written as .csv alone"):
        wrong.write(tmp_path / "to_fix.xlsx")
    rows = predicted.loc[found.index].assign(suggested=found["suggested"])
    assert caption_lines(rows.iloc[0], caption_columns(rows)) == ["107", "suggested dog"]
    wrong.write(tmp_path / "to_fix.csv")
    assert (tmp_path / "to_fix.csv").read_text() == "id,kind\n107,dog\n108,emu\n"
    manifest = predicted[["id", "path", "kind", "split"]]
    mended = dfgen.update_labels(manifest, tmp_path / "to_fix.csv")
    assert mended["kind"].tolist()[6:10] == ["cat", "dog", "emu", "cat"]


def test_a_model_that_doubts_a_third_of_all_labels_is_called_weak(predicted, tmp_path):
    weak = ". These are too many to be wrong: the model is too weak to judge labels"
    guesses = predicted.assign(prob=[*np.random.default_rng(0).dirichlet(np.ones(3), 60)])
    assert mistakes(guesses).said.endswith(weak)
    with pytest.warns(UserWarning, match="of 60 labels are to be corrected. These are too many"):
        mistakes(guesses).write(tmp_path / "to_fix.csv")
    assert not mistakes(predicted).said.endswith(weak)


def test_the_thresholds_are_those_of_confident_learning():
    # the example of Figure 1 of the paper in small: each class has a threshold of its own
    prob = np.array([[0.7, 0.3]] * 4 + [[0.45, 0.55]] + [[0.4, 0.6]] * 4 + [[0.68, 0.32]])
    labels = np.array([0] * 5 + [1] * 5)
    assert prob[labels == 0, 0].mean() == pytest.approx(0.65)
    assert prob[labels == 1, 1].mean() == pytest.approx(0.544)
    suggested, has_thresholds = suspected(labels, prob)
    assert has_thresholds
    assert suggested.tolist() == [-1, -1, -1, -1, 1, -1, -1, -1, -1, 0]
    prob = np.array([[0.75, 0.25]] * 5 + [[0.25, 0.75]] * 6)  # the thresholds are reached exactly
    assert suspected(np.array([0] * 6 + [1] * 5), prob)[0].tolist() == [-1] * 5 + [1] + [-1] * 5


def test_of_few_rows_the_likeliest_class_is_taken(predicted):
    wrong = mistakes(predicted.iloc[6:12])
    assert wrong.mislabels["id"].tolist() == [107, 108, 111]
    assert wrong.said == (
        "6 rows, 50.0% right, 3 wrong; 3 labels likely wrong, by the likeliest class"
    )


def test_a_figure_shows_the_matrix(predicted):
    figure = mistakes(predicted).show_confusion()
    [axes] = figure.axes
    assert [text.get_text() for text in axes.texts] == ["20", "1", "19", "1", "1", "18"]
    assert [label.get_text() for label in axes.get_xticklabels()] == NAMES
    assert axes.images[0].get_array()[0].tolist() == [20 / 21, 1 / 21, 0]
    assert figure.table.shape == (3, 3)
    many = [f"c{number:02}" for number in range(40)]
    rows = pd.DataFrame(
        {"id": range(80), "y_true": pd.Categorical(many * 2),
         "y_pred": pd.Categorical([*many, *many[:35], "c00", "c01", "c02", "c03", "c04"])}
    )  # fmt: skip
    [axes] = mistakes(rows).show_confusion().axes
    assert axes.get_title("left") == "40 classes, the 30 confused most"
    assert len(axes.get_yticklabels()) == 30
    assert not axes.texts


def test_grids_show_the_worst_rows_and_the_likely_mislabels(predicted):
    wrong = mistakes(predicted)
    figure = wrong.show(2)
    assert figure.table["id"].tolist() == [107, 108]
    assert figure.axes[0].texts[-1].get_text() == "107\ncat → dog 90%\nloss 3"
    assert figure.axes[0].texts[-1].get_color() == "firebrick"
    assert wrong.show(3, by="y_true").table["id"].tolist() == [107, 108, 111]
    assert wrong.show_mislabels(9).table["id"].tolist() == [107, 108]


def test_an_index_that_repeats_itself_tells_no_rows_apart_and_does_not_matter(predicted):
    wrong, plain = mistakes(predicted.set_axis([0, 1] * 30)), mistakes(predicted)
    pd.testing.assert_frame_equal(wrong.mislabels, plain.mislabels)
    assert wrong.show_mislabels(9).table["id"].tolist() == [107, 108]


def test_it_is_short_in_a_terminal_and_escaped_in_a_notebook(predicted):
    for name in ("kind", "y_true", "y_pred"):
        predicted[name] = predicted[name].cat.rename_categories({"dog": "<b>dog"})
    wrong = mistakes(predicted)
    assert repr(wrong).splitlines()[0] == (
        "60 rows, 95.0% right, 3 wrong; 2 labels likely wrong, by confident learning"
    )
    assert "&lt;b&gt;dog" in wrong._repr_html_()
    assert "<b>dog" not in wrong._repr_html_()


def test_rows_without_a_prediction_are_counted_and_left_out(predicted):
    predicted.loc[predicted.index[:5], ["y_pred", "prob", "loss"]] = None
    predicted.loc[predicted.index[5], "y_true"] = None
    wrong = mistakes(predicted)
    assert (len(wrong.frame), wrong.confusion.to_numpy().sum()) == (54, 54)
    assert ", 6 without" not in wrong.said
    assert "; 6 without a label or a prediction; " in wrong.said
    with pytest.raises(ManifestError) as caught:
        mistakes(predicted.iloc[:6])
    assert str(caught.value) == "none of the 6 rows has a label and a prediction"


def test_a_mean_loss_is_of_the_rows_whose_loss_is_known(predicted):
    losses = predicted["loss"].where(predicted["y_true"] != "dog").where(predicted.index > 29)
    classes = mistakes(predicted.assign(loss=losses)).classes
    assert classes["loss"].tolist() == pytest.approx(
        [-np.log(0.9), np.nan, -np.log(0.9)], nan_ok=True
    )


def test_numbered_classes_and_models_without_a_loss_do(predicted):
    plain = predicted.drop(columns=["loss", "kind"]).assign(
        y_true=predicted["y_true"].cat.codes, y_pred=predicted["y_pred"].cat.codes.astype("Int64")
    )
    wrong = mistakes(plain)
    assert wrong.mislabels["suggested"].tolist() == [1, 2]
    assert wrong.worst["loss"].tolist() == pytest.approx(-np.log([0.05, 0.05, 0.3]))
    assert message_of(ManifestError, wrong.write, "nowhere.csv") == (
        "the frame has no label column that is y_true: name it, as in "
        "dfgen.explore.mistakes(frame, label=...). Columns: id, path, split, y_true, y_pred, prob, "
        "problem, loss"
    )


def test_a_label_may_be_called_nearly_as_a_column_of_predictions(predicted):
    named = predicted.rename(columns={"kind": "probable_kind"})
    assert mistakes(named).label == "probable_kind"


def test_of_several_outputs_one_is_named(predicted):
    several = predicted.rename(
        columns={name: f"{name}_kind" for name in ("y_true", "y_pred", "prob", "loss")}
    )
    several["y_pred_age"] = several["y_true_age"] = several["loss"] = 1.5
    assert own_labels(several) == ["kind"]
    assert mistakes(several, head="kind").mislabels["id"].tolist() == [107, 108]
    for how, error, message in (
        ({}, ArgumentError, "head=None: expected one of the outputs of the model, 'kind'"),
        ({"head": "age"}, ManifestError, "y_pred_age holds no classes, one in each row: "
         'df.dfgen.show(sort="-loss") shows the worst rows of any model'),
    ):  # fmt: skip
        assert message_of(error, mistakes, several, **how) == message


def test_classes_that_were_taken_away_do_not_move_the_probabilities_of_others(predicted):
    without = predicted[(predicted["y_true"] != "cat") & (predicted["y_pred"] != "cat")]
    assert mistakes(without).mislabels["suggested"].tolist() == ["emu"]
    fewer = without.assign(y_pred=without["y_pred"].cat.remove_unused_categories())
    stranger = predicted.assign(y_true=predicted["y_true"].cat.rename_categories({"cat": "cow"}))
    for frame, classes in ((fewer, NAMES[1:]), (stranger, NAMES)):
        said = f"y_true, y_pred and prob are not of the same classes, {classes}"
        assert message_of(ManifestError, mistakes, frame).startswith(said)


def test_frames_of_something_else_are_refused(predicted):
    for frame, how, message in (
        (predicted[["id", "path"]], {}, "expected the frame of dfgen.predict_frame, got one "
         "without y_pred. Columns: id, path"),
        (predicted.drop(columns=["y_pred", "prob"]), {}, "the frame holds no classes, one in each "
         'row: df.dfgen.show(sort="-loss") shows the worst rows of any model'),
        (predicted[["id"]].assign(y_pred_boxes=[[]] * len(predicted), y_pred_age=1.5), {},
         "y_pred_boxes holds no classes, one in each row: df.dfgen.show() shows what a model says"),
        (predicted.drop(columns="y_true"), {}, "the frame has no labels, y_true: predict rows of "
         "a Sequence with y"),
        (predicted, {"label": "knd"}, 'label="knd" is not a column of the manifest. Columns: id'),
    ):  # fmt: skip
        assert message_of(ManifestError, mistakes, frame, **how).startswith(message)


@pytest.mark.parametrize(
    "names", [["=1+1", "@A1", "-x"], ["'=2", "''-y", "\t=3"], ["-3.5", "+4", "'"]]
)
def test_fault_98_no_spreadsheet_runs_a_cell_of_the_corrections_and_all_come_back(
    predicted, tmp_path, names
):
    renamed = {
        name: predicted[name].cat.rename_categories(names) for name in ("kind", "y_true", "y_pred")
    }
    ids = [f"{'=+-@'[row % 4]}{row}x" for row in range(60)]
    ids[8] += "\r"
    frame = predicted.assign(**renamed, id=ids).rename(columns={"kind": "=kind"})
    wrong = mistakes(frame, label="=kind")
    wrong.write(tmp_path / "to_fix.csv")
    wrong.write(tmp_path / "to_fix.csv")  # over itself
    with open(tmp_path / "to_fix.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert (head, [row[0] for row in rows]) == (["id", "'=kind"], ["'@7x", "'=8x\r"])
    assert not [row[1] for row in rows if row[1][0] in "=@\t" or row[1] == "-x"]
    manifest = frame[["id", "path", "=kind"]]
    mended = dfgen.update_labels(manifest, tmp_path / "to_fix.csv")
    assert mended["=kind"].tolist()[6:10] == [names[0], names[1], names[2], names[0]]
