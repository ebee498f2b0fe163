"""Splits and folds: the specified numbers, drawn frames, recipes, warnings, copies."""

import hashlib
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from public.trees import pets

import dfgen
from dfgen.errors import ManifestError

SHARES = {"train": 0.7, "val": 0.2, "test": 0.1}
NAMES = [*SHARES]


def table(ids, **columns):
    return pd.DataFrame({"id": ids, "path": [f"/x/{key}.png" for key in ids], **columns})


def split(frame, *shares, **options):
    with warnings.catch_warnings(action="ignore"):  # of classes that a split lacks
        return dfgen.split(frame, *shares, **options)


def codes(frame, *shares, **options):
    found = split(frame, *shares, **options)
    return found["fold"].tolist() if "folds" in options else found["split"].cat.codes.tolist()


def numbers(ids, seed):
    """The numbers that docs/reference/manifests.md specifies."""
    digests = [hashlib.blake2b(f"{seed}\n{key}".encode(), digest_size=8).digest() for key in ids]
    return np.array([int.from_bytes(one, "little") / 2**64 for one in digests])


def test_rows_are_split_by_the_specified_numbers():
    ids = [f"é {row}" for row in range(300)]
    for seed in (0, 7):
        expected = np.searchsorted([0.7, 0.9], numbers(ids, seed), side="right")
        assert codes(table(ids), SHARES, seed=seed) == expected.tolist()
        expected = (5 * numbers(ids, seed)).astype(int)
        assert codes(table(ids), folds=5, seed=seed) == expected.tolist()


def test_splits_of_format_1_never_change():
    frame = table(range(12), kind=[*"ab"] * 6)
    assert codes(frame, SHARES, seed=1) == [0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0]
    found = codes(frame, SHARES, seed=1, stratify="kind")
    assert found == [0, 0, 0, 2, 0, 1, 2, 0, 0, 0, 1, 0]
    assert codes(frame, folds=3, seed=1) == [0, 1, 0, 2, 0, 2, 2, 1, 0, 1, 2, 1]
    assert codes(frame, folds=3, seed=1, stratify="kind") == [1, 1, 0, 2, 0, 2, 2, 0, 1, 1, 2, 0]


IDS = st.lists(st.integers(0, 200), min_size=1, max_size=60, unique=True)
HOW = st.sampled_from([{"shares": SHARES}, {"shares": {"all": 1.0}}, {"folds": 3}])


@settings(max_examples=60, deadline=None)
@given(ids=IDS, how=HOW, seed=st.integers(0, 3), grouped=st.booleans(), data=st.data())
def test_new_rows_move_no_old_rows(ids, how, seed, grouped, data):
    old = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    group = {"group": "scene"} if grouped else {}
    few, many = (
        dict(zip(rows, codes(table(rows, scene=[row % 9 for row in rows]), seed=seed, **group,
                             **how), strict=True))
        for rows in (old, ids)
    )  # fmt: skip
    assert few == {row: many[row] for row in old}


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=60),
    how=HOW,
    seed=st.integers(0, 5),
)
def test_stratified_parts_are_exact_in_each_class(kinds, how, seed):
    frame = table(range(len(kinds)), kind=kinds)
    found = np.array(codes(frame, stratify="kind", seed=seed, **how))
    shares = list(how["shares"].values()) if "shares" in how else [1 / 3] * 3
    for kind in {*kinds}:
        rows = [row for row, one in enumerate(kinds) if one == kind]
        counts = np.bincount(found[rows], minlength=len(shares))
        assert (np.abs(counts - len(rows) * np.array(shares)) < 1).all()
    if "folds" in how:
        assert np.ptp(np.bincount(found, minlength=3)) <= 1
    assert codes(frame[::-1], stratify="kind", seed=seed, **how) == found[::-1].tolist()


def copies(rows):
    """Rows in pairs of the same bytes, all of other pictures."""
    draw = np.random.default_rng(0).integers(0, 2**63, rows // 2, np.uint64)
    columns = {"digest": [f"{row // 2:032x}" for row in range(rows)], "phash": np.repeat(draw, 2)}
    return table(range(rows), kind=[*"abc" * (rows // 3)], scene=np.arange(rows) // 4, **columns)


@pytest.mark.parametrize("group", [{}, {"group": "scene"}])
@pytest.mark.parametrize("stratify", [{}, {"stratify": "kind"}])
@pytest.mark.parametrize("how", [{"shares": SHARES}, {"folds": 3}])
def test_groups_and_copies_stay_together(group, stratify, how):
    frame = copies(120)
    found = split(frame, **how, **group, **stratify, group_duplicates=True, seed=2)
    part = "fold" if "folds" in how else "split"
    assert (found.groupby("digest")[part].nunique() == 1).all()
    assert not group or (found.groupby("scene")[part].nunique() == 1).all()
    counts = found[part].value_counts()
    ideal = 40 if "folds" in how else 120 * pd.Series(SHARES)
    assert len(counts) == 3 and (abs(counts - ideal) < (4 if stratify else 30)).all()
    assert split(found, **how, **group, **stratify, seed=2, group_duplicates=True).equals(found)


def test_split_replaces_older_parts_before_the_facts():
    frame = table(range(40), fold=1, split="x", kind=pd.Categorical([*"ab"] * 20), bytes=1)
    found = dfgen.split(frame, folds=4, stratify="kind")
    assert [*found] == ["id", "path", "kind", "fold", "bytes"] and found["fold"].dtype == "int8"
    found = dfgen.split(found, {"a": 0.5, "b": 0.5})
    assert [*found] == ["id", "path", "kind", "split", "bytes"]


def test_groups_and_classes_of_any_type():
    frame = table(range(60), group=np.arange(60) // 3)
    frame["float"] = frame["group"].astype(float)
    frame["text"] = frame["group"].astype(str)
    frame["nullable"] = frame["group"].astype("Int64")
    frame["class"] = frame["group"].astype("category")
    parts = [codes(frame, SHARES, group=name) for name in frame.columns[2:]]
    assert all(part == parts[0] for part in parts)
    frame["tags"], frame["half"] = [["a"]] * 60, frame["id"] / 2
    for argument, name in (("group", "tags"), ("stratify", "tags"), ("stratify", "half")):
        with pytest.raises(ManifestError, match=name):
            dfgen.split(frame, SHARES, **{argument: name})
    assert split(frame[:0], SHARES)["split"].cat.categories.tolist() == NAMES
    with pytest.raises(ManifestError, match='"id" nor "path"'):
        dfgen.split(frame[["group"]], SHARES)


def test_recipe_takes_new_split_for_new_rows(tmp_path):
    out = tmp_path / "m.parquet"
    pets(tmp_path, 20, split={"a": 1.0}, out=out)
    dfgen.split(out, {"t": 0.5, "v": 0.5}, stratify="kind", seed=5, out=out)
    recipe = dfgen.read_manifest(out).attrs["dfgen"]["recipe"]
    assert (recipe["split"], recipe["seed"]) == ({"t": 0.5, "v": 0.5}, 5)
    before = dfgen.read_manifest(out)["split"].tolist()
    pets(tmp_path, 40)
    after = dfgen.build_manifest(update=out)
    assert after["split"].tolist()[:20] == before
    assert pd.crosstab(after["kind"], after["split"]).to_numpy().tolist() == [[10, 10]] * 2
    with pytest.warns(UserWarning, match="keep their split"):
        other = dfgen.build_manifest(update=out, split={"new": 1.0}, stratify=None)
    assert other["split"].tolist() == [*before, *["new"] * 20]


@pytest.mark.filterwarnings("ignore:Split")
def test_split_of_the_source_stays_in_recipe(tmp_path):
    out = tmp_path / "m.parquet"
    pets(tmp_path, 20)
    build = {"pattern": "{split}/{id}.png", "out": out, "facts": "none"}
    dfgen.build_manifest(tmp_path / "imgs", **build)
    halves = dfgen.split(out, {"t": 0.5, "v": 0.5}, out=out)["split"].tolist()
    with pytest.warns(UserWarning, match="20 old rows kept the split"):
        after = dfgen.build_manifest(update=out)
    assert after["split"].tolist() == halves


def test_part_that_lacks_a_class_is_warned_of():
    frame = table(range(30), kind=["x", *"y" * 29])
    for how, word in (({"shares": SHARES}, "Split"), ({"folds": 3}, "Fold")):
        with pytest.warns(UserWarning, match=f'{word} .* has no row with kind = "x"'):
            dfgen.split(frame.astype({"kind": "category"}), **how)
