"""Folds and splits by time: which rows, and the same wherever they are asked for."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from cases import each
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.splitting.split_rules import assign_folds, split_by_time
from dfgen.manifest.splitting.splits import uniform

SHARES = {"train": 0.7, "val": 0.2, "test": 0.1}


def frame(rows=40, **columns):
    return pd.DataFrame(
        {"id": range(rows), "path": [f"{row}.png" for row in range(rows)], **columns}
    )


class TestFolds:
    def test_a_row_falls_by_the_number_behind_it(self):
        found = assign_folds(pd.Series(range(1000)), 5, seed=3)
        assert found.dtype == np.int8
        assert found.tolist() == [int(number * 5) for number in uniform(range(1000), seed=3)]

    def test_folds_of_version_1_never_change(self):
        ids, classes = pd.Series(range(12)), pd.Series(list("ab") * 6)
        assert assign_folds(ids, 3, seed=1).tolist() == [0, 1, 0, 2, 0, 2, 2, 1, 0, 1, 2, 1]
        found = assign_folds(ids, 3, seed=1, stratify=classes)
        assert found.tolist() == [1, 1, 0, 2, 0, 2, 2, 0, 1, 1, 2, 0]

    @settings(max_examples=40)
    @given(
        classes=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=60),
        folds=st.integers(2, 7),
        seed=st.integers(0, 5),
    )
    def test_stratified_folds_are_even_in_every_class_and_in_all(self, classes, folds, seed):
        ids, stratify = pd.Series(range(len(classes))), pd.Series(classes, dtype=object)
        found = assign_folds(ids, folds, seed=seed, stratify=stratify)
        assert np.ptp(np.bincount(found, minlength=folds)) <= 1
        for name in set(classes):
            of_class = [fold for fold, value in zip(found, classes, strict=True) if value == name]
            assert np.ptp(np.bincount(of_class, minlength=folds)) <= 1
        turned = assign_folds(ids[::-1], folds, seed=seed, stratify=stratify[::-1])
        assert (turned[::-1] == found).all()

    def test_split_puts_the_column_before_the_facts_and_replaces_a_split(self):
        df = frame(split="train", kind=pd.Categorical(["a", "b"] * 20), bytes=1)
        found = dfgen.split(df, folds=4, stratify="kind")
        assert list(found) == ["id", "path", "kind", "fold", "bytes"]
        assert found["fold"].dtype == np.int8
        assert found["fold"].value_counts().to_dict() == dict.fromkeys(range(4), 10)
        again = dfgen.split(found, {"train": 0.5, "val": 0.5}, stratify="kind")
        assert list(again) == ["id", "path", "kind", "split", "bytes"]


class TestByTime:
    def test_the_earliest_rows_are_trained_on_by_exact_shares(self):
        times = pd.Series(np.random.default_rng(0).permutation(40))
        found = dfgen.split(frame(taken=times), SHARES, order="taken")
        assert found["split"].value_counts().to_dict() == {"train": 28, "val": 8, "test": 4}
        assert found.groupby("split", observed=True)["taken"].max().to_dict() == {
            "train": 27, "val": 35, "test": 39,
        }  # fmt: skip

    @settings(max_examples=40)
    @given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
    def test_rows_of_one_time_stay_together_with_the_first_of_them(self, times):
        times = pd.Series(times)
        found = pd.Series(split_by_time(times, times.index.to_series(), SHARES))
        assert (found.groupby(times).nunique() == 1).all()
        exact = np.repeat([0, 1, 2], whole_rows(len(times)))
        in_order = times.sort_values(kind="stable").reset_index(drop=True)
        for time in times.unique():
            first = exact[in_order.eq(time).argmax()]
            assert {*found[times == time]} == {list(SHARES)[first]}

    @pytest.mark.parametrize(
        "times",
        [
            pd.date_range("2024-01-01", periods=10),
            pd.date_range("2024-01-01", periods=10, tz="Europe/Zurich"),
            [day.date() for day in pd.date_range("2024-01-01", periods=10)],
            pd.timedelta_range("1h", periods=10),
            np.linspace(0, 1, 10),
            np.linspace(0, 1, 10).astype("f2"),
            pd.Series([*pd.date_range("2024-01-01", periods=10)], dtype=object),
        ],
        ids=["times", "zone", "dates", "lengths", "numbers", "half", "objects"],
    )
    def test_dates_times_and_numbers_have_an_order(self, times):
        turned = pd.Series(times)[::-1]
        found = split_by_time(turned, pd.Series(range(10)), {"train": 0.8, "val": 0.2})
        assert list(found) == ["val"] * 2 + ["train"] * 8

    def test_a_group_stands_where_its_latest_row_does(self):
        df = frame(6, patient=list("aabbcc"), taken=[1, 9, 2, 3, 4, 5])
        found = dfgen.split(df, {"train": 0.6, "val": 0.4}, order="taken", group="patient")
        assert found["split"].tolist() == ["val", "val", *["train"] * 4]
        with pytest.raises(ManifestError, match=r"^1 rows have no \"patient\", .*: row 1 \(id 1\)"):
            dfgen.split(df.assign(patient=[1, None, *range(4)]), SHARES, order="taken",
                        group="patient")  # fmt: skip

    @pytest.mark.parametrize(
        ("times", "message"),
        [
            (
                ["3/1/2024"] * 40,
                'order="taken": the column holds str, expected dates, times or numbers. Make them '
                'first: df["taken"] = pandas.to_datetime(df["taken"])',
            ),
            (
                [1.0, None] * 20,
                '20 rows have no "taken", by which rows are put in order: row 1 (id 1), 3 (id 3), '
                "5 (id 5), 7 (id 7), 9 (id 9), 11 (id 11), 13 (id 13), 15 (id 15), 17 (id 17), 19 "
                "(id 19). Fill them in, or drop them",
            ),
        ],
        ids=["text", "missing"],
    )
    def test_what_has_no_order_is_refused(self, times, message):
        with pytest.raises(ManifestError) as caught:
            dfgen.split(frame(taken=times), SHARES, order="taken")
        assert str(caught.value).replace("holds object", "holds str") == message


def whole_rows(rows):
    from dfgen.manifest.splitting.splits import whole_shares

    return whole_shares(rows, np.array([*SHARES.values()]) / sum(SHARES.values()))


HOW = (
    'give split=, as in {"train": 0.8, "val": 0.2} (--split train=0.8 --split val=0.2), or folds=5'
)


@each(
    ("options", "message"),
    [
        ({}, 'say how to split: shares, as in {"train": 0.8, "val": 0.2} (--split train=0.8 '
         "--split val=0.2), or folds=5 (--folds 5)"),
        ({"shares": SHARES, "folds": 5},
         "split= and folds= (--split, --folds) both divide the rows: give one of them"),
        ({"order": "id"}, f"stratify=, group= and order= say how to split: {HOW} (--folds 5)"),
        ({"folds": 5, "order": "id"},
         "order= gives the earliest rows to the first split; folds have no order. Leave one of "
         "order= and folds= (--order, --folds) out"),
        ({"shares": SHARES, "order": "id", "stratify": "path"},
         "order= leaves to time how many rows of a class a split has: leave stratify= "
         "(--stratify) out"),
        ({"folds": 1}, "folds=1 is not a whole number from 2 to 127"),
        ({"folds": 2.0}, "folds=2.0 is not a whole number from 2 to 127: write folds=2"),
        ({"folds": 5, "stratify": ["path"]},
         "stratify=['path']: expected the name of one column, as in stratify=\"kind\""),
        ({"shares": SHARES, "order": "taken"},
         'order="taken" is not a column of the manifest. Columns: id, path'),
    ],
)  # fmt: skip
def test_arguments_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ArgumentError) as caught:
        dfgen.split(frame(), **options)
    assert str(caught.value) == message


ZONED = datetime(2024, 1, 1, tzinfo=UTC)


TIMES = pd.Series([ZONED, datetime(2024, 1, 1)], dtype=object)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"path": ["a.png"], "kind": ["a"]}, {"folds": 5},
         'the manifest has no column "id", by which rows fall into splits. Make one of what '
         'tells rows apart, such as df["id"] = df["path"]. Columns: path, kind'),
        ({"id": [0], "tags": [["a"]]}, {"folds": 5, "group": "tags"},
         '"tags" holds lists: rows cannot be grouped by it. Make a column of one group a row '
         "first"),
        ({"id": [0, 1], "at": TIMES}, {"shares": SHARES, "order": "at"},
         'order="at": the column holds object, expected dates, times or numbers. Make them first: '
         'df["at"] = pandas.to_datetime(df["at"])'),
    ],
    ids=["no id", "lists", "some times without zone"],
)  # fmt: skip
def test_rows_that_cannot_be_divided_are_refused(columns, options, message):
    with pytest.raises(ManifestError) as caught:
        dfgen.split(pd.DataFrame(columns), **options)
    assert str(caught.value) == message


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = range(30)
    days = [f"2024-01-{1 + row:02}" for row in rows]
    table = {"file": [f"{row}.png" for row in rows], "kind": ["a", "b", "c"] * 10, "taken": days}
    pd.DataFrame(table).to_csv("labels.csv", index=False)
    return {"labels": "labels.csv", "path_column": "file", "facts": "none"}


def recipe(path):
    return dfgen.read_manifest(path).attrs["dfgen"]["recipe"]


def test_folds_are_part_of_the_recipe_and_kept_as_the_manifest_grows(data, capfd):
    built = dfgen.build_manifest(**data, folds=5, stratify="kind", out="m.parquet")
    plain = dfgen.build_manifest(**data, out="plain.parquet")
    assert built.equals(dfgen.split("plain.parquet", folds=5, stratify="kind"))
    done = run("split", "plain.parquet", "--folds", "5", "--stratify", "kind", "--json")
    assert done.returncode == 0, done.stderr
    assert dfgen.read_manifest("plain.parquet").equals(dfgen.read_manifest("m.parquet"))
    assert recipe("plain.parquet") == recipe("m.parquet")
    assert len(plain) == 30
    table = pd.read_csv("labels.csv")
    new = table.iloc[:6].assign(file=[f"new{row}.png" for row in range(6)])
    pd.concat([table, new]).to_csv("labels.csv", index=False)
    grown = dfgen.build_manifest(update="m.parquet")
    assert grown["fold"].tolist()[:30] == built["fold"].tolist()
    assert grown["fold"].dtype == np.int8
    for _, rows in grown.groupby("kind", observed=True):
        assert np.ptp(np.bincount(rows["fold"])) <= 1


def test_a_recipe_splits_by_time_but_does_not_grow(data):
    built = dfgen.build_manifest(**data, split=SHARES, order="taken", out="m.parquet")
    assert built["split"].tolist() == ["train"] * 21 + ["val"] * 6 + ["test"] * 3
    dfgen.build_manifest(**data, out="plain.parquet")
    done = run("split", "plain.parquet", *shares(), "--order", "taken")
    assert done.returncode == 0, done.stderr
    assert recipe("plain.parquet") == recipe("m.parquet")
    assert dfgen.read_manifest("plain.parquet").equals(dfgen.read_manifest("m.parquet"))
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(update="m.parquet")
    assert str(caught.value) == (
        'order="taken" splits by time, by which new rows move old ones to another split, and a '
        "manifest that grows keeps those: build it anew, without update= (--update)"
    )


def shares():
    return [text for name, share in SHARES.items() for text in ("--split", f"{name}={share}")]


def test_parts_of_a_path_that_make_no_column(tmp_path):
    for row in range(3):
        path = tmp_path / f"site{row}" / "2024" / f"cat_{row}_v{row}.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    built = dfgen.build_manifest(tmp_path, pattern="{_}/{_:int}/{kind}_{id}_{_}.png", facts="none")
    assert list(built) == ["id", "path", "kind"]
    assert built["id"].tolist() == ["0", "1", "2"]
