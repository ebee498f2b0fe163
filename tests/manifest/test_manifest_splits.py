import hashlib

import numpy as np
import pandas as pd
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st

from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.splitting.split_rules import (
    Splitting,
    assign_folds,
    lacking_rows,
    missing_classes,
)
from dfgen.manifest.splitting.splits import assign_splits, uniform

SHARES = {"train": 0.7, "val": 0.2, "test": 0.1}


def series(*values):
    return pd.Series(values)


def test_the_number_of_a_row_is_that_of_the_specification():
    digest = hashlib.blake2b("3\né".encode(), digest_size=8).digest()
    assert uniform(["é"], seed=3) == [int.from_bytes(digest, "little") / 2**64]
    assert len({*uniform(["\udcff", "\udcfe"], seed=3)}) == 2  # names that are not UTF-8


def test_splits_of_version_1_never_change():
    split = assign_splits(pd.Series(range(12)), SHARES, seed=1)
    assert split.codes.tolist() == [0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0]
    stratify = pd.Series(list("ab") * 6)
    split = assign_splits(pd.Series(range(12)), SHARES, seed=1, stratify=stratify)
    assert split.codes.tolist() == [0, 0, 0, 2, 0, 1, 2, 0, 0, 0, 1, 0]


def test_new_rows_move_no_old_ones():
    few = assign_splits(pd.Series([f"id{n}" for n in range(0, 500, 5)]), SHARES)
    many = assign_splits(pd.Series([f"id{n}" for n in range(500)]), SHARES)
    assert list(few) == list(many)[::5]


NUMBERS = st.lists(st.integers(0, 200), min_size=1, max_size=60, unique=True)


@settings(max_examples=60)
@given(ids=NUMBERS, seed=st.integers(0, 3), data=st.data(), grouped=st.booleans())
def test_new_rows_move_no_old_ones_wherever_they_stand(ids, seed, data, grouped):
    """Without `stratify`: in any order, with groups old and new, into splits and folds."""
    old = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    for divide in (lambda *given, **how: list(assign_splits(*given, SHARES, **how)),
                   lambda *given, **how: assign_folds(*given, 4, **how).tolist()):  # fmt: skip
        few, many = (
            dict(zip(rows, divide(series(*rows), seed=seed, group=series(*groups)), strict=True))
            for rows in (old, ids)
            for groups in [[row % 9 for row in rows] if grouped else rows]
        )
        assert few == {row: many[row] for row in old}


@settings(max_examples=40)
@given(
    rows=NUMBERS,
    how=st.fixed_dictionaries(
        {
            "stratify": st.sampled_from([None, "kind"]),
            "group": st.sampled_from([None, "scene"]),
            "group_duplicates": st.booleans(),
            "seed": st.integers(0, 3),
        }
    ),
    divide=st.sampled_from([{"split": SHARES}, {"split": {"new": 1.0}}, {"folds": 3}]),
    data=st.data(),
)
def test_rows_with_a_split_keep_it_whatever_is_divided(rows, how, divide, data):
    """`kept` is what `update=` hands over: old rows stay, also in groups that were mixed."""
    frame = pd.DataFrame({"id": rows, "path": [f"{row % 17}.png" for row in rows]})
    frame["kind"], frame["scene"] = frame.id % 3, frame.id % 7
    frame["digest"], frame["phash"] = None, pd.array([None] * len(rows), "UInt64")
    parts = [*divide.get("split", range(3)), "gone"] if "split" in divide else [0, 1, 2]
    known = data.draw(
        st.lists(st.sampled_from([None, *parts]), min_size=len(rows), max_size=len(rows))
    )
    kept = pd.Series(known, dtype=object if "split" in divide else "Int8")
    splitting = Splitting(**divide, **how)
    found = splitting.parts(frame, how["group"], kept)
    assert [part for part, old in zip(found, known, strict=True) if old is not None] == [
        old for old in known if old is not None
    ]
    new = {part for part, old in zip(found, known, strict=True) if old is None}
    alone = how["group"] is None and not how["group_duplicates"]
    assert not alone or new <= {*divide.get("split", range(3))}  # none that only old rows have


def test_free_rows_fill_up_what_a_class_lacks_though_one_split_has_too_many():
    kept = series(*["train"] * 8, None, None)
    split = assign_splits(series(*range(10)), {"train": 0.5, "val": 0.25, "test": 0.25},
                          stratify=series(*"a" * 10), kept=kept)  # fmt: skip
    assert sorted(split[8:]) == ["test", "val"]


def test_groups_that_have_a_split_count_before_larger_ones_are_dealt():
    group = series(*"aaabbbb")
    split = assign_splits(series(*range(7)), {"train": 0.5, "val": 0.5}, stratify=group * 0,
                          group=group, kept=series(*["train"] * 3, *[None] * 4))  # fmt: skip
    assert list(split) == ["train"] * 3 + ["val"] * 4


def test_rows_of_a_mixed_group_stay_and_new_ones_join_the_last():
    kept = series("val", "train", None)
    split = assign_splits(series(*range(3)), SHARES, group=series(*"aaa"), kept=kept)
    assert list(split) == ["val", "train", "train"]
    for name in SHARES:  # whatever the hash of the group says
        group, kept = pd.Series([*range(30)] * 2), series(*[name] * 30, *[None] * 30)
        assert {*assign_splits(pd.Series(range(60)), SHARES, group=group, kept=kept)} == {name}


def test_a_class_that_has_all_its_splits_does_not_end_the_others():
    kept = series(*["val"] * 4, *[None] * 10)
    split = assign_splits(series(*range(14)), {"train": 0.8, "val": 0.2},
                          stratify=series(*"aaaa", *"b" * 10), kept=kept)  # fmt: skip
    assert list(split[:4]) == ["val"] * 4
    assert list(split[4:]).count("val") == 2


def test_a_full_split_gets_no_free_row_and_new_rows_of_its_groups_alone():
    kept = series(*["train"] * 8, *[None] * 8)
    one, ids = series(*"a" * 16), series(*range(16))
    split = assign_splits(ids, {"train": 0.5, "val": 0.5}, stratify=one, kept=kept)
    assert list(split[8:]) == ["val"] * 8
    group = series(*["full"] * 9, *range(7))
    split = assign_splits(ids, {"train": 0.1, "val": 0.9}, stratify=one, kept=kept, group=group)
    assert list(split) == ["train"] * 9 + ["val"] * 7


def test_by_default_the_seed_is_0_and_first_splits_take_what_is_left_over():
    ids, classes = pd.Series(range(30)), pd.Series(list("abcde") * 6)
    for stratify in (None, classes):
        same, other = ({"seed": seed, "level": False, "stratify": stratify} for seed in (0, 1))
        found = list(assign_splits(ids, SHARES, stratify=stratify))
        assert found == list(assign_splits(ids, SHARES, **same))
        assert found != list(assign_splits(ids, SHARES, **other))
    left_over = assign_splits(ids[:5], {"a": 0.5, "b": 0.5}, stratify=classes[:5])
    assert list(left_over) == ["a"] * 5


def test_a_split_that_only_old_rows_have_gets_no_new_ones():
    kept = series(*["gone"] * 2, *[None] * 10)
    for group in (None, pd.Series(range(12))):
        split = assign_splits(pd.Series(range(12)), SHARES, stratify=series(*"a" * 12),
                              group=group, kept=kept)  # fmt: skip
        assert "gone" not in list(split[2:])


def test_whole_floats_are_classes():
    ids, classes = pd.Series(range(60)), pd.Series([1.0, 3.0, 0.0, None] * 15)
    codes = classes.fillna(7).astype(int)
    assert list(assign_splits(ids, SHARES, stratify=classes)) == list(
        assign_splits(ids, SHARES, stratify=codes)
    )


def test_kept_folds_count_among_those_of_their_class_and_the_seed_is_0():
    ids = pd.Series(range(6))
    kept = pd.Series([0, 0, None, None, 1, None], dtype="Int8")
    found = assign_folds(ids, 2, stratify=series(*"aaaabb"), kept=kept)
    assert found.tolist() == [0, 0, 1, 1, 1, 0]
    kept = pd.Series([0, 1, None, 1, None, 0, None, 1, None, 0], dtype="Int8")
    found = assign_folds(pd.Series(range(10)), 3, stratify=series(*"bbbbaabbba"), kept=kept)
    assert found.tolist() == [0, 1, 2, 1, 2, 0, 0, 1, 0, 0]  # the rest to the least filled
    assert (assign_folds(ids, 3) == assign_folds(ids, 3, seed=0)).all()
    assert (assign_folds(ids, 3) != assign_folds(ids, 3, seed=1)).any()


def test_groups_of_any_keys_stay_beside_copies():
    """Keys of several types are not made one type, which has other hashes."""
    frame = pd.DataFrame({"id": range(40), "path": [f"{n}.png" for n in range(40)]})
    frame["digest"], frame["phash"] = None, pd.array([None] * 40, "UInt64")
    frame["scene"] = pd.Series([0.5, *range(1, 20)] * 2, dtype=object)
    alone, beside = (Splitting(SHARES, group="scene", group_duplicates=x) for x in (False, True))
    assert list(alone.parts(frame, "scene")) == list(beside.parts(frame, "scene"))


EMPTY = pd.DataFrame(
    {
        "split": pd.Categorical(["train"] * 14, ["train", "val"]),
        "fold": 0,
        "kind": pd.Categorical(list("abcdefghijklmn")),
    }
)


@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ({"split": {"train": 0.9, "val": 0.1}},
         ("Give it a larger share or more rows, or try another seed (--seed).",
          "Split with stratify=kind (--stratify kind), or give the class more rows.")),
        ({"split": {"train": 0.9, "val": 0.1}, "group": "g"},
         ("Give it a larger share or more groups, or try another seed (--seed).",
          "Split with stratify=kind (--stratify kind), or give the class more rows.")),
        ({"split": {"train": 0.9, "val": 0.1}, "order": "t"},
         ("Give it a larger share: rows of one time stay together, with the first of them.",
          "Time says which rows a split has: move the shares, or leave the class out.")),
        ({"split": {"train": 0.9, "val": 0.1}, "stratify": "kind"},
         ("Give it a larger share or more rows, or try another seed (--seed).",
          "Give the class more rows, or leave it out.")),
        ({"folds": 2},
         ("Take fewer folds, give it more rows, or try another seed (--seed).",
          "Split with stratify=kind (--stratify kind), take fewer folds, or give the class more "
          "rows.")),
        ({"folds": 2, "group": "g", "stratify": "kind"},
         ("Take fewer folds, give it more groups, or try another seed (--seed).",
          "Give the class more rows, take fewer folds, or leave it out.")),
    ],
)  # fmt: skip
def test_what_a_split_or_fold_lacks_is_told_with_what_mends_it(how, ends):
    how = Splitting(**how)
    called = ("Fold {}" if how.folds else 'Split "{}"').format
    names = (0, 1) if how.folds else ("train", "val")
    [empty] = lacking_rows(EMPTY[["split", "fold"]], ["kind"], how)
    assert empty == f"{called(names[1])} has no row. {ends[0]}"
    assert lacking_rows(EMPTY[["split", "fold"]], ["kind"], how, ours=False) == (
        f"{called(names[1])} has no row.",
    )
    both = EMPTY.assign(split=EMPTY.split.where(EMPTY.index % 2 == 0, "val"), fold=[0, 1] * 7)
    few = both[:4]
    assert lacking_rows(few, ["kind"], how)[0] == (
        f'{called(names[0])} has no row with kind = "b", "d". {ends[1]}'
    )
    many = both.assign(fold=[0] * 12 + [1] * 2)
    many["split"] = pd.Categorical(["train"] * 12 + ["val"] * 2)
    assert f'"j" and 2 more. {ends[1]}' in lacking_rows(many, ["kind"], how)[-1]
    assert lacking_rows(few, ["kind"], Splitting({"train": 1}, group="kind")) == ()
    assert lacking_rows(few.assign(kind=0), ["kind", "gone"], how) == ()
    other = few.assign(other=pd.Categorical([*"xyxy"]), number=1)
    named = " ".join(lacking_rows(other, ["gone", "number", "kind", "other"], how))
    assert "kind = " in named and ("other = " in named) == (how.stratify is None)
    ten = both.assign(fold=[0] * 10 + [1] * 4)
    ten["split"] = pd.Categorical(["train"] * 10 + ["val"] * 4)
    assert f'"j". {ends[1]}' in lacking_rows(ten, ["kind"], how)[-1]


def test_large_groups_are_dealt_first_and_small_ones_even_the_shares():
    group, kind = pd.Series([0] * 50 + [*range(1, 51)]), pd.Series(["a"] * 100)
    found = assign_splits(group.index.to_series(), {"a": 0.5, "b": 0.5}, stratify=kind, group=group)
    assert found.value_counts().tolist() == [50, 50]


def test_a_stratified_split_that_is_made_anew_may_move_old_rows():
    """The exact shares ask for it; a promise that none moves would be false."""
    rows = pd.DataFrame({"id": range(1200)}).assign(kind=lambda df: df.id % 5)
    rows["group"] = rows.id // 4

    def moved(**by):
        few, many = (
            assign_splits(part.id, SHARES, **{how: part[name] for how, name in by.items()})
            for part in (rows[:1000], rows)
        )
        return (np.array(few) != np.array(many)[:1000]).sum()

    assert (moved(), moved(group="group")) == (0, 0)
    assert 0 < moved(stratify="kind") < 30 < moved(stratify="kind", group="group")


def test_shares_come_out_roughly_and_differ_by_seed():
    ids = pd.Series(range(10_000))
    first, second = (assign_splits(ids, SHARES, seed=seed) for seed in (0, 1))
    assert list(first) != list(second)
    for split in (first, second):
        counts = pd.Series(split).value_counts(normalize=True)
        assert all(abs(counts[name] - share) < 0.02 for name, share in SHARES.items())


@given(
    classes=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=60),
    seed=st.integers(0, 5),
)
def test_stratified_shares_are_exact_in_every_class(classes, seed):
    stratify = pd.Series(classes, dtype=object)
    split = assign_splits(pd.Series(range(len(classes))), SHARES, seed=seed, stratify=stratify)
    for name in set(classes):
        rows = [row for row, value in enumerate(classes) if value == name]
        for part, share in SHARES.items():
            assert abs(sum(split[row] == part for row in rows) - share * len(rows)) < 1


def test_stratified_splits_do_not_depend_on_the_order_of_rows():
    ids, stratify = pd.Series(range(100)), pd.Series(list("aabbb") * 20)
    straight = assign_splits(ids, SHARES, stratify=stratify)
    turned = assign_splits(ids[::-1], SHARES, stratify=stratify[::-1])
    assert list(turned)[::-1] == list(straight)


@pytest.mark.parametrize("stratified", [False, True])
@given(groups=st.lists(st.sampled_from("pqrstuvw"), min_size=1, max_size=60))
def test_groups_stay_whole(stratified, groups):
    frame = pd.DataFrame({"id": range(len(groups)), "group": groups})
    stratify = frame["id"] % 3 if stratified else None
    frame["split"] = assign_splits(frame["id"], SHARES, stratify=stratify, group=frame["group"])
    assert (frame.groupby("group")["split"].nunique() == 1).all()


@pytest.mark.slow
@given(
    groups=st.lists(st.tuples(st.integers(1, 9), st.sampled_from("abc")), min_size=1, max_size=40),
    seed=st.integers(0, 5),
)
def test_dealt_groups_come_within_one_group_of_their_shares_in_every_class(groups, seed):
    sizes = [size for size, _ in groups]
    group = pd.Series(np.repeat(np.arange(len(sizes)), sizes))
    stratify = pd.Series(np.repeat([name for _, name in groups], sizes))
    ids = group.index.to_series()
    split = assign_splits(ids, SHARES, seed=seed, stratify=stratify, group=group)
    for name in set(stratify):
        largest = max(size for size, its in groups if its == name)
        for part, share in SHARES.items():
            found = ((split == part) & (stratify == name)).sum()
            assert abs(found - share * (stratify == name).sum()) <= largest


def test_groups_of_several_classes_are_dealt_so_that_each_class_has_its_shares():
    rng = np.random.default_rng(0)
    group = pd.Series(np.repeat(np.arange(300), rng.integers(1, 6, 300)))
    stratify = pd.Series(rng.choice(list("aab"), len(group)))
    split = assign_splits(group.index.to_series(), SHARES, stratify=stratify, group=group)
    for name in "ab":
        shares = pd.Series(split)[stratify == name].value_counts(normalize=True)
        assert shares.to_dict() == pytest.approx(SHARES, abs=0.005)


@each(
    ("shares", "message"),
    [
        ({"train": 0.8, "val": 0.1},
         "split: train=0.8, val=0.1 add up to 0.9. Shares must add up to 1, as in train=0.8 "
         "val=0.2. These would be {'train': 0.8888889, 'val': 0.1111111}"),
        ({"train": 0.5},
         "split: train=0.5 add up to 0.5. Shares must add up to 1, as in train=0.8 val=0.2. "
         "Name the rest too, as in val=0.5"),
        ({"train": 1.5},
         "split: train=1.5 add up to 1.5. Shares must add up to 1, as in train=0.8 val=0.2. "
         "These would be {'train': 1.0}"),
        *((shares, f"split: {shown}. Each split has a name and a share above 0, as in train=0.8 "
           "val=0.2")
          for shares, shown in (
              ({"train": 1.2, "val": -0.2}, "train=1.2, val=-0.2"),
              ({"train": 0.8, "": 0.2}, "train=0.8, =0.2"),
              ({"train": 1, "val": 0}, "train=1, val=0"),
              ({"train": "1"}, 'train="1"'),
              ({1: 1.0}, "1=1.0"),
          )),
        *((shares, f'split={shares!r}: expected split -> share, as in {{"train": 0.8, "val": 0.2}} '
           "(--split train=0.8 --split val=0.2)")
          for shares in (["train"], 0.8)),
    ],
)  # fmt: skip
def test_shares_must_be_shares(shares, message):
    with pytest.raises(ArgumentError) as caught:
        assign_splits(series(1), shares)
    assert str(caught.value) == message


def test_classes_that_a_split_lacks_are_found():
    split = pd.Series(pd.Categorical(["train", "train", "val"], categories=["train", "val"]))
    assert missing_classes(split, series("cat", "dog", "cat")) == {"val": ["dog"]}
    assert missing_classes(split, series("cat", None, "cat")) == {}


@pytest.mark.parametrize(
    ("how", "values", "message"),
    [
        ("group", ["p", None, None],
         '2 rows have no "x", by which rows are grouped: row 1 (id "b"), 2 (id "c"). Fill them in, '
         "or leave group (--group) out"),
        ("stratify", [0.5, 1.5, 1],
         '"x" holds fractions, not classes: it cannot be stratified by. Make classes first: '
         'df["age_band"] = pandas.cut(df["x"], 5)'),
        ("stratify", [["x"], [], []],
         '"x" holds lists, not classes: it cannot be stratified by. Make a column of one class a '
         "row first"),
    ],
)  # fmt: skip
def test_what_rows_cannot_be_divided_by_is_named(how, values, message):
    with pytest.raises(ManifestError) as caught:
        assign_splits(series(*"abc"), SHARES, **{how: pd.Series(values, name="x")})
    assert str(caught.value) == message
