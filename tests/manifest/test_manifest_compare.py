import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError


def draw(path, width=4):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (width, 3)).save(path)


@pytest.fixture
def data(tmp_path):
    """Six images of two kinds, and their manifest."""
    for row in range(6):
        draw(tmp_path / "imgs" / ("cat", "dog")[row % 2] / f"{row}.png")
    dfgen.build_manifest(
        tmp_path / "imgs", pattern="{kind}/{id:int}.png", split={"train": 0.5, "val": 0.5},
        stratify="kind", out=tmp_path / "m.parquet",
    )  # fmt: skip
    return tmp_path


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "id": [1, 2, 3],
            "path": ["/x/a.png", "/x/b.png", "/x/c.png"],
            "kind": pd.Categorical(["cat", "dog", None]),
            "age": [1.0, np.nan, 3.0],
            "boxes": [[[0.0, 1.0]], [], None],
            "split": pd.Categorical(["train", "train", "val"]),
            "bytes": pd.array([7, 8, None], "Int64"),
        }
    )


def rows(found):
    """Return the rows of a diff as tuples, missing values as None."""
    return [tuple(None if pd.isna(v) else v for v in row) for row in found.itertuples(index=False)]


def findings(found):
    return {change: part["id"].tolist() for change, part in found.groupby("change", observed=True)}


def test_a_manifest_differs_in_nothing_from_itself(frame):
    found = dfgen.diff(frame, frame.sample(frac=1, random_state=0))
    assert list(found.columns) == ["change", "id", "column", "old", "new"]
    assert len(found) == 0


def test_every_kind_of_difference_is_told(frame):
    new = frame.copy()
    new["kind"] = pd.Categorical(["cat", "cat", None], categories=["cat", "dog"])
    new["age"] = [np.nan, np.nan, 3.0]
    new.at[0, "boxes"] = [[0.0, 2.0]]
    new.at[1, "boxes"] = None
    new["split"] = ["train", "val", "val"]
    new.loc[2, "bytes"] = 9
    new.loc[0, "path"] = "/x/z.png"
    new = pd.concat([new.drop(columns="age").assign(fold=1), new[:1].assign(id=9, fold=2)])
    new = new[new["id"] != 3]
    new = pd.concat([new, frame[2:].assign(bytes=9, fold=1).drop(columns="age")])
    found = dfgen.diff(frame, new.drop(columns="age"))
    assert rows(found) == [
        ("columns", None, "age", "double", None),
        ("columns", None, "fold", None, "int64"),
        ("added", 9, None, None, None),
        ("changed", 1, "path", "a.png", "z.png"),
        ("changed", 3, "bytes", None, "9"),
        ("relabelled", 2, "kind", "dog", "cat"),
        ("relabelled", 1, "boxes", "[[0.0, 1.0]]", "[[0.0, 2.0]]"),
        ("relabelled", 2, "boxes", "[]", None),
        ("moved", 2, "split", "train", "val"),
    ]


def test_numbers_are_compared_exactly_and_nan_is_missing():
    nan, many = float("nan"), 2**53
    one = {"id": [1, 2, 3], "n": pa.array([many, many + 1, 5]), "x": [nan, 1.0, None]}
    other = {"id": [1, 2, 3], "n": pa.array([many, many, 5], pa.uint64()), "x": [None, 1.0, nan]}
    sides = (pa.table({**side, "path": [*"abc"]}) for side in (one, other))
    assert rows(dfgen.diff(*sides)) == [("relabelled", 2, "n", str(many + 1), str(many))]


def test_another_order_of_classes_is_told(frame):
    new = frame.assign(kind=frame["kind"].cat.reorder_categories(["dog", "cat"]))
    assert rows(dfgen.diff(frame, new)) == [
        ("classes", None, "kind", '["cat", "dog"]', '["dog", "cat"]')
    ]


def test_changed_order_of_list_classes_is_reported(frame):
    one, other = (frame.assign(tags=[["cat"], ["dog"], []]) for _ in range(2))
    for tagged, names in ((one, ["cat", "dog"]), (other, ["dog", "cat"])):
        tagged.attrs = {"dfgen": {"labels": {"tags": {"kind": "list", "class_names": names}}}}
    expected = [("classes", None, "tags", '["cat", "dog"]', '["dog", "cat"]')]
    assert rows(dfgen.diff(one, other)) == expected


def test_ids_of_another_type_are_compared_as_text(frame):
    assert len(dfgen.diff(frame, frame.assign(id=frame["id"].astype(str)))) == 0


def test_data_set_moved_as_a_whole_is_unchanged(data):
    frame = dfgen.read_manifest(data / "m.parquet")
    moved = frame.assign(path=frame["path"].str.replace("/imgs/", "/moved/"))
    moved.attrs["dfgen"] = {**frame.attrs["dfgen"], "root": f"{data}/moved"}
    assert len(dfgen.diff(data / "m.parquet", moved)) == 0


IDS = st.sets(st.integers(0, 20), min_size=1)


@settings(max_examples=50)
@given(old=IDS, new=IDS, relabelled=IDS, moved=IDS)
def test_diff_finds_what_was_done(old, new, relabelled, moved):
    def make(ids):
        ids = sorted(ids)
        return pd.DataFrame(
            {"id": ids, "path": [f"/x/{i}" for i in ids], "kind": "a", "split": "train"}
        )

    after = make(new)
    after.loc[after["id"].isin(relabelled), "kind"] = "b"
    after.loc[after["id"].isin(moved), "split"] = "val"
    found = dfgen.diff(make(old), after[::-1])
    expected = {
        "added": sorted(new - old),
        "removed": sorted(old - new),
        "relabelled": sorted(old & new & relabelled),
        "moved": sorted(old & new & moved),
    }
    assert {k: sorted(v) for k, v in findings(found).items()} == {
        change: ids for change, ids in expected.items() if ids
    }


@pytest.fixture
def changed(data):
    """The data after a file was deleted, broken, touched and grown."""
    os.remove(data / "imgs/cat/0.png")
    size = (data / "imgs/dog/1.png").stat().st_size
    (data / "imgs/dog/1.png").write_bytes(b"x" * size)
    os.utime(data / "imgs/dog/1.png", ns=(5, 5))
    os.utime(data / "imgs/cat/2.png", ns=(7, 7))
    draw(data / "imgs/dog/3.png", width=5)
    return data


def test_what_differs_from_the_disk_is_found(changed):
    found = dfgen.verify(changed / "m.parquet").set_index("id")
    assert found["change"].to_dict() == {
        0: "missing",
        1: "broken",
        2: "changed",
        3: "changed",
    }
    assert found.loc[0, "detail"] == "the file does not exist"
    assert found.loc[1, "detail"].startswith("not an image, array or sound that dfgen opens")
    assert found.loc[2, "detail"].startswith("mtime_ns ")
    assert found.loc[2, "detail"].endswith(" -> 7")
    assert "width 4 -> 5" in found.loc[3, "detail"]


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_corrected_manifest_keeps_rows_and_gets_new_facts(changed):
    before = dfgen.read_manifest(changed / "m.parquet")
    dfgen.verify(changed / "m.parquet", write=True)
    after = dfgen.read_manifest(changed / "m.parquet")
    same = ["id", "path", "kind", "split"]
    pd.testing.assert_frame_equal(before[same], after[same])
    assert after.attrs == before.attrs
    fresh = dfgen.build_manifest(
        changed / "imgs", pattern="{kind}/{id:int}.png", facts="header"
    ).set_index("id")
    after = after.set_index("id").sort_index()
    facts = ["bytes", "mtime_ns", "format", "width", "problem"]
    pd.testing.assert_frame_equal(after.loc[1:, facts], fresh.loc[after.loc[1:].index, facts])
    assert after.loc[0, "problem"] == "the file does not exist"
    again = dfgen.verify(changed / "m.parquet")
    assert findings(again) == {"missing": [0], "broken": [1]}


def test_user_column_named_digest_stays_unchanged(changed):
    frame = dfgen.read_manifest(changed / "m.parquet")
    frame["digest"] = [f"{row:032x}" for row in frame["id"]]
    dfgen.write_manifest(frame, changed / "m.parquet")
    dfgen.verify(changed / "m.parquet", write=True)
    after = dfgen.read_manifest(changed / "m.parquet").set_index("id")["digest"]
    assert after.to_dict() == {row: f"{row:032x}" for row in frame["id"]}


def test_restored_file_is_found_and_its_problem_cleared(data):
    path = data / "imgs/cat/0.png"
    os.rename(path, data / "aside")
    dfgen.verify(data / "m.parquet", write=True)
    [found] = dfgen.verify(data / "m.parquet").to_dict("records")
    assert (found["change"], found["id"]) == ("missing", 0)
    assert found["detail"] == "the file does not exist"
    os.rename(data / "aside", path)
    assert findings(dfgen.verify(data / "m.parquet", write=True)) == {"changed": [0]}
    assert dfgen.read_manifest(data / "m.parquet")["problem"].isna().all()


def test_manifest_without_facts_checks_file_existence_only(data):
    dfgen.build_manifest(data / "imgs", facts="none", out=data / "m.parquet")
    assert len(dfgen.verify(data / "m.parquet")) == 0
    os.remove(data / "imgs/cat/0.png")
    assert findings(dfgen.verify(data / "m.parquet", write=True)) == {"missing": ["cat/0.png"]}
    assert dfgen.read_manifest(data / "m.parquet")["width"].tolist()[1:] == [4] * 5


def test_only_a_file_can_be_corrected(data):
    frame = dfgen.read_manifest(data / "m.parquet")
    assert len(dfgen.verify(frame)) == 0
    with pytest.raises(ArgumentError, match="write=True"):
        dfgen.verify(frame, write=True)


def test_unusable_split_column_is_named(data):
    with pytest.raises(ArgumentError) as caught:
        dfgen.split(data / "m.parquet", {"a": 1}, stratify="knd")
    assert str(caught.value) == (
        'stratify="knd" is not a column of the manifest. Did you mean "kind"? Columns: id, path, '
        "kind, split, bytes, mtime_ns, format, width, height, channels, orientation, bits, "
        "frames, sample_rate, problem"
    )


def test_diff_exits_as_diff_does(data):
    m, n = data / "m.parquet", data / "n.parquet"
    done = run("split", m, "--split", "val=0.5", "--split", "train=0.5", "--out", n)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"Wrote {n}"
    assert run("diff", m, m).returncode == 0
    again = run("split", m, "--split", "val=0.5", "--split", "train=0.5", "--out", n, "--json")
    sizes = dfgen.read_manifest(n)["split"].value_counts().to_dict()
    assert json.loads(again.stdout)["splits"] == sizes
    moved = dfgen.diff(m, n)
    done = run("diff", m, n, "--json")
    assert (done.returncode, len(json.loads(done.stdout)["rows"])) == (1, len(moved))
    assert json.loads(done.stdout)["counts"]["moved"] == len(moved)
    done = run("diff", m, n)
    assert done.returncode == 1
    assert done.stdout.endswith(f"{len(moved)} moved\n")
    done = run("diff", m, data / "none.parquet")
    assert done.returncode == 2
    assert done.stderr.startswith(f"dfgen: there is no manifest {data}/none.parquet.")
