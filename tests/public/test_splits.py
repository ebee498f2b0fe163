"""Splits: shares, classes, groups and folds, and rows that keep their split."""

import numpy as np
import pandas as pd
import pytest

import dfgen
from public.trees import pets

SHARES, HALVES = {"train": 0.7, "val": 0.2, "test": 0.1}, {"a": 0.5, "b": 0.5}


def table(rows, **columns):
    """Return rows whose ids are their row numbers times 3."""
    ids = 3 * np.arange(rows)
    return pd.DataFrame({"id": ids, "path": [f"/x/{row}.png" for row in ids], **columns})


def split_of(frame, *shares, **options):
    found = dfgen.split(frame, *shares, **options)
    assert found["id"].tolist() == frame["id"].tolist()
    return found["fold" if "folds" in options else "split"].tolist()


def test_shares_hold_and_depend_on_seed():
    frame = table(3000)
    first, other = split_of(frame, SHARES), split_of(frame, SHARES, seed=1)
    for name, share in SHARES.items():
        assert abs(first.count(name) - 3000 * share) < 4 * np.sqrt(3000 * share * (1 - share))
    assert split_of(frame, SHARES, seed=0) == first and "split" not in frame
    assert abs(np.mean(np.equal(first, other)) - 0.54) < 0.04  # 0.7**2 + 0.2**2 + 0.1**2
    assert dfgen.split(frame, SHARES)["split"].cat.categories.tolist() == [*SHARES]


@pytest.mark.parametrize("how", [{}, {"group": "scene"}, {"seed": 7}])
def test_added_rows_move_no_older_ones(how):
    frame = table(500, scene=np.arange(500) % 91)
    new = pd.Series(split_of(frame, SHARES, **how))
    assert split_of(frame[::-5], SHARES, **how) == new[::-5].tolist() and new.nunique() == 3


@pytest.mark.parametrize("counts", [(10, 20, 30), (7, 13, 4)])
def test_stratified_shares_are_exact_in_each_class(counts):
    kinds = np.random.default_rng(0).permutation(np.repeat(["ant", "bee", "cat"], counts))
    split = np.array(split_of(table(len(kinds), kind=kinds), SHARES, stratify="kind"))
    for kind, count in zip(["ant", "bee", "cat"], counts, strict=True):
        found = [(split[kinds == kind] == name).sum() for name in SHARES]
        ideal = count * np.array([*SHARES.values()])
        assert sum(found) == count and (np.abs(found - ideal) < 1 - 1e-6).all()


@pytest.mark.parametrize("how", [{}, {"stratify": "kind"}, {"seed": 5}])
def test_groups_are_never_divided(how):
    frame = table(600, scene=[f"s{row % 83}" for row in range(600)], kind=[*"abc"] * 200)
    frame["split"] = split_of(frame, SHARES, group="scene", **how)
    assert (frame.groupby("scene")["split"].nunique() == 1).all()
    shares = pd.crosstab(frame["kind"], frame["split"], normalize="index")[[*SHARES]]
    errors = np.abs(shares.to_numpy() - [*SHARES.values()])
    assert errors.max() < (0.06 if "stratify" in how else 0.2)


def test_groups_1_and_1_0_are_the_same():
    whole = table(100, scene=np.arange(100) % 50)
    floats = whole.assign(scene=whole["scene"].astype(float))
    assert split_of(whole, HALVES, group="scene") == split_of(floats, HALVES, group="scene")


def test_folds_are_even_and_keep_classes_and_groups(files):
    frame = table(103, kind=pd.Categorical(["a", "b", "b"] * 34 + ["a"]), scene=np.arange(103) // 2)
    plain = dfgen.split(frame, folds=4).assign(path=files[:103])
    assert set(plain["fold"]) == {0, 1, 2, 3} and plain["fold"].dtype == "int8"
    counts = pd.crosstab(frame["kind"], np.array(split_of(frame, folds=4, stratify="kind")))
    assert counts.shape == (2, 4) and np.ptp(counts, axis=1).max() <= 1
    assert np.ptp(counts.sum()) <= 1
    frame["fold"] = split_of(frame, folds=4, group="scene")
    assert (frame.groupby("scene")["fold"].nunique() == 1).all()
    seqs = dfgen.sequences(plain, "path", "kind", fold=2)
    for name, rows in {"val": plain["fold"] == 2, "train": plain["fold"] != 2}.items():
        assert seqs[name].manifest["id"].tolist() == plain["id"][rows].tolist()


def test_splits_of_path_and_frame_are_equal(tmp_path):
    path, out, how = tmp_path / "m.parquet", tmp_path / "n.parquet", {"stratify": "kind", "seed": 3}
    pets(tmp_path, 40, out=path, facts="none")
    found = dfgen.split(path, HALVES, out=out, **how)
    built = pets(tmp_path, 40, split=HALVES, **how, facts="none")
    frame = dfgen.split(dfgen.read_manifest(path), HALVES, **how)
    for other in (frame, built, dfgen.read_manifest(out)):
        pd.testing.assert_frame_equal(other, found)
    assert "split" not in dfgen.read_manifest(path)
    assert pd.crosstab(found["kind"], found["split"]).values.tolist() == [[10, 10], [10, 10]]


def test_split_without_id_uses_the_paths():
    frame = table(50).drop(columns="id")
    found = dfgen.split(frame, HALVES)["split"].tolist()
    assert found == split_of(frame.assign(id=frame["path"]), HALVES)


def test_split_without_rows_is_warned_of():
    with pytest.warns(UserWarning, match='"b"'):
        assert split_of(table(1, kind="x"), HALVES, stratify="kind") == ["a"]
