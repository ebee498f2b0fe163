"""Each tutorial runs as written, on the files that it tells of, and what it trains has learnt."""

import warnings

import own_table
import pandas as pd
import pytest
from test_readme import TUTORIALS, run


@pytest.mark.backend
def test_a_messy_table_becomes_corrected_labels_without_a_second_try(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own_table.write(tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        names = run(TUTORIALS / "your-own-table.md")
    said = [str(one.message) for one in told if issubclass(one.category, UserWarning)]
    named = ["2 problems:", "Left out 2 files", "Left out 1 row of the label table"]
    assert [any(word in one for one in said) for word in named] == [True] * 3
    kinds = dict(zip(names["rows"]["id"], names["rows"]["Art"], strict=True))
    corrected = dict(zip(names["mended"]["id"], names["mended"]["Art"], strict=True))
    changed = {id for id in kinds if kinds[id] != corrected[id]}
    wrong = {f"{row:05}" for row in own_table.WRONG}
    assert changed <= wrong and len(changed) >= len(wrong) - 1
    for id in changed:
        assert corrected[id] == own_table.KINDS[int(id) % 3]
    assert names["again"].history["val_accuracy"][-1] > 0.97


@pytest.mark.slow
@pytest.mark.backend
def test_a_model_of_tags_finds_each_of_them_on_parts_it_never_saw(typed):
    names = typed("multi-label")
    parts = names["df"].groupby("split", observed=True)["part"].agg(set)
    assert not parts["train"] & parts["test"] and not parts["val"] & parts["test"]
    assert names["measured"]["auc"] > 0.8  # a guess has 0.5
    assert names["tuned"]["f1"].mean() > 0.65  # finding all tags on each sheet has 0.48
    assert names["tagged"]["id"].tolist() == names["rows"]["id"].tolist()


@pytest.mark.slow
@pytest.mark.backend
def test_diameters_of_coins_never_seen_are_nearer_than_their_mean(typed):
    names = typed("regression")
    assert len(names["error"]) == 96
    assert names["error"].mean() < 0.85 * names["guess"]


@pytest.mark.slow
@pytest.mark.backend
def test_rare_classes_are_found_once_they_are_balanced_or_weighted(typed):
    names = typed("imbalanced")
    plain, balance, weighted = names["recalls"].loc[names["rare"]].mean()
    assert balance > plain + 0.25 and weighted > plain + 0.1
    assert balance > 0.5  # a guess has 0.17


@pytest.mark.slow
@pytest.mark.backend
def test_folds_predict_every_row_once_and_find_labels_that_are_wrong(typed, photographs):
    with pytest.warns(UserWarning, match="Left out 2 files"):
        names = typed("cross-validation")
    assert len(names["rows"]) == 592 and names["rows"]["y_pred"].notna().all()
    assert names["df"].groupby("part", observed=True)["fold"].nunique().eq(1).all()
    assert names["by_fold"].mean() > 0.7  # a guess has 0.17
    true = pd.read_csv(photographs / "labels.csv", index_col="photo")["thing"]
    given = names["df"].set_index("id")["thing"].astype(str)
    wrong = {*given.index[given != true[given.index]]}
    assert len(wrong) == 6 and len(wrong & {*names["suspects"]["id"]}) >= 3
    assert len(names["suspects"]) < 592 / 6


@pytest.mark.slow
@pytest.mark.backend
def test_callbacks_keep_the_best_epoch_and_a_second_run_has_equal_weights(typed):
    names = typed("callbacks")  # which compares the weights
    log = names["log"]
    assert names["measured"]["loss"] == pytest.approx(log["val_loss"].min(), rel=1e-3)
    assert names["measured"]["accuracy"] > 0.7  # a guess has 0.17
    assert 4 < len(log) <= 20 and log["epoch"].tolist() == [*range(len(log))]
