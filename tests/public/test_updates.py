"""A manifest that grows keeps ids, splits and corrected labels; diff lists every change."""

import os

import pandas as pd
import pytest

import dfgen
from public.trees import image, pets, plain

SPLIT = {"split": {"train": 0.5, "val": 0.5}, "stratify": "kind"}


@pytest.fixture
def out(tmp_path):
    pets(tmp_path, out=tmp_path / "m.parquet", **SPLIT)
    return tmp_path / "m.parquet"


def changes(a, b):
    """Return the differences of two manifests, without those of sizes and times."""
    rows = dfgen.diff(a, b)
    rows = rows[~rows["column"].isin(["bytes", "mtime_ns"])]
    return [tuple(row) for row in plain(rows.astype(object).to_numpy())]


def test_update_adds_new_files_and_keeps_old_rows(out):
    before, imgs = dfgen.read_manifest(out), out.parent / "imgs"
    image(imgs / "cat/0000.png", 3, (5, 6))
    image(imgs / "dog/003.png", 3, (9, 8))
    os.remove(imgs / "dog/005.png")
    os.rename(imgs / "cat/002.png", imgs / "dog/002.png")
    with pytest.warns(UserWarning, match=r"005\.png"):
        after = dfgen.build_manifest(update=out, out=out)
    pd.testing.assert_frame_equal(dfgen.read_manifest(out), after)
    assert after["id"].tolist() == [*before["id"], "0000"]
    assert after["split"].tolist()[:-1] == before["split"].tolist()
    assert after["split"].iloc[-1] in ("train", "val")
    assert after["id"][after["problem"].notna()].tolist() == ["005"]
    after = after.set_index("id")
    assert (after.loc["003", "width"], after.loc["0000", "height"]) == (9, 6)
    assert after.loc["002", ["kind", "path"]].tolist() == ["dog", f"{imgs}/dog/002.png"]
    assert after.loc["005", "kind"] == "dog" and after.loc["005", ["bytes", "width"]].isna().all()
    found = changes(before, out)
    assert [row[1] for row in found if row[0] == "added"] == ["0000"]
    assert [row[1:] for row in found if row[0] == "relabelled"] == [("002", "kind", "cat", "dog")]
    assert not {row[0] for row in found} & {"moved", "removed", "classes"}


def test_rows_found_by_path_keep_their_ids(out):
    before = dfgen.read_manifest(out)
    dfgen.write_manifest(before.assign(id="old " + before["id"]), out)
    image(out.parent / "imgs/cat/0000.png")
    after = dfgen.build_manifest(update=out)
    assert after["id"].tolist() == [*("old " + before["id"]), "0000"]


def test_new_class_follows_the_old_ones(out):
    image(out.parent / "imgs/ant/300.png")
    with pytest.warns(UserWarning, match="ant"):
        dfgen.build_manifest(update=out, out=out)
    after = dfgen.read_manifest(out)
    assert after["kind"].cat.categories.tolist() == ["cat", "dog", "ant"]
    assert after.attrs["dfgen"]["labels"]["kind"]["class_names"] == ["cat", "dog", "ant"]


def test_new_rows_of_a_group_join_its_split(tmp_path):
    options = {"pattern": "{scene}/{id}.png", "split": SPLIT["split"], "group": "scene"}
    for first, update in ((0, None), (30, tmp_path / "m.parquet")):
        for number in range(first, first + 30):
            image(tmp_path / f"imgs/g{number % 10}/{number}.png")
        build = {"source": tmp_path / "imgs", **options} if update is None else {"update": update}
        frame = dfgen.build_manifest(**build, out=tmp_path / "m.parquet")
        assert len(frame) == first + 30 and frame["split"].nunique() == 2
        assert (frame.groupby("scene", observed=True)["split"].nunique() == 1).all()


def test_corrected_labels_survive_updates(out):
    fixes, fixed = pd.DataFrame({"id": ["002", "001"], "kind": "dog"}), out.with_name("n.parquet")
    before = dfgen.read_manifest(out)
    dfgen.update_labels(out, fixes, out=fixed)
    assert changes(before, fixed) == [("relabelled", "002", "kind", "cat", "dog")]
    assert changes(out, before) == []
    image(out.parent / "imgs/cat/100.png")
    for _ in range(2):
        with pytest.warns(UserWarning, match="kind"):
            grown = dfgen.build_manifest(update=fixed, out=fixed)
        kinds = grown.set_index("id")["kind"]
        assert kinds[["002", "000", "100"]].tolist() == ["dog", "cat", "cat"]
        assert kinds.cat.categories.tolist() == ["cat", "dog"]


def test_table_wins_in_other_columns_with_warning(out):
    frame = dfgen.read_manifest(out)
    frame.loc[frame["id"].isin(["002", "004"]), "kind"] = "dog"
    dfgen.write_manifest(frame, out)
    with pytest.warns(UserWarning, match=r"kind(.|\n)*2(.|\n)*002"):
        grown = dfgen.build_manifest(update=out)
    assert grown.set_index("id")["kind"]["002"] == "cat"


def test_update_labels_changes_a_new_frame_only(out):
    frame = dfgen.read_manifest(out).assign(age=range(12), tags=[["a"], ["b", "a"]] * 6)
    frame.index, before = range(100, 112), frame.copy()
    fixes = pd.DataFrame({"id": ["011", "000"], "age": [5, 6], "tags": [["b"], []]})
    for label in ((), "age"):
        fixed = dfgen.update_labels(frame, fixes, label=label)
        assert fixed["age"].tolist() == [6, *range(1, 11), 5]
        tags = [[], *before["tags"][1:-1], ["b"]] if label == () else before["tags"].tolist()
        assert plain(fixed["tags"].tolist()) == tags
        others = before.columns.drop(["age", "tags"])
        assert plain(fixed[others].values.tolist()) == plain(before[others].values.tolist())
    assert frame[["age", "tags"]].values.tolist() == before[["age", "tags"]].values.tolist()


def test_diff_lists_each_kind_of_change():
    old = pd.DataFrame({"id": [1, 2, 3, 4], "path": [f"/a/{n}.png" for n in range(4)]})
    old = old.assign(kind=pd.Categorical([*"abab"]), split="train", width=[4, 5, None, 7], x=1.5)
    assert dfgen.diff(old, old[::-1]).empty
    new = old.iloc[1:].copy()
    new["kind"] = pd.Categorical(["b", "b", "b"], ["b", "a"])
    new.loc[3, "split"], new.loc[1, "width"], new.loc[2, "path"] = "val", 6, "/a/9.png"
    new = pd.concat([new, new.tail(1).assign(id=9)]).drop(columns="x")
    assert {(change, str(key), name) for change, key, name, *_ in changes(old, new)} == {
        ("removed", "1", None), ("added", "9", None), ("relabelled", "3", "kind"),
        ("moved", "4", "split"), ("changed", "2", "width"), ("changed", "3", "path"),
        ("columns", "None", "x"), ("classes", "None", "kind"),
    }  # fmt: skip


def test_diff_ignores_a_moved_data_set(out):
    frame, moved = dfgen.read_manifest(out), out.parent.with_name("moved")
    os.rename(out.parent, moved)
    assert dfgen.read_manifest(moved / "m.parquet")["path"][0] == f"{moved}/imgs/cat/000.png"
    assert changes(frame, moved / "m.parquet") == []
