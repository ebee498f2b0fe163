"""Manifests that are updated: which files are opened, which rows and labels stay, what is said."""

import os
import shutil
import warnings

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from public.trees import coco, image, images, pets, plain

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError

HALVES = {"a": 0.5, "b": 0.5}


@pytest.fixture
def out(tmp_path):
    pets(tmp_path, out=tmp_path / "m.parquet", split=HALVES, stratify="kind")
    return tmp_path / "m.parquet"


def unreadable(path):
    """Make a file that has a problem once it is opened, with its size and time unchanged."""
    status = os.stat(path)
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("facts", ["header", "full"])
@pytest.mark.filterwarnings("ignore:.*have a copy")
def test_only_new_and_changed_files_are_opened(tmp_path, facts):
    out, imgs = tmp_path / "m.parquet", tmp_path / "imgs"
    pets(tmp_path, out=out, facts=facts)
    for name in ("cat/002.png", "dog/003.png", "dog/005.png"):
        unreadable(imgs / name)
    os.utime(imgs / "dog/003.png", ns=(1, 1))
    image(imgs / "cat/100.png", 9, (5, 6))
    with pytest.warns(UserWarning, match="1 problem"):
        grown = dfgen.build_manifest(update=out, out=out)
    assert grown["id"][grown["problem"].notna()].tolist() == ["003"]
    assert grown.set_index("id").loc["100", ["width", "height"]].tolist() == [5, 6]
    image(imgs / "dog/003.png", 5, (8, 8))  # a file with a problem is opened again
    os.utime(imgs / "dog/003.png", ns=(1, 1))
    again = dfgen.build_manifest(update=out)
    assert again["problem"].isna().all() and again.set_index("id").loc["003", "width"] == 8


def test_full_facts_are_read_of_files_without_them(out):
    with warnings.catch_warnings(action="ignore"):
        whole = dfgen.build_manifest(update=out, facts="full", out=out)
        image(out.parent / "imgs/cat/100.png", 9)
        grown = dfgen.build_manifest(update=out)
    assert whole["digest"].notna().all() and grown["digest"].notna().all()


def test_rows_match_by_id_then_unique_path(tmp_path):
    names = ["0.png", "1.png", "1.png", "2.png", "3.png"]
    images(tmp_path, ["0.png", "1.png", "2.png", "3.png"])

    def build(keys, names, **options):
        rows = pd.DataFrame({"key": [*keys], "file": names})
        options |= {"root": tmp_path, "out": tmp_path / "m.parquet"}
        return dfgen.build_manifest(labels=rows, path_column="file", id="key", **options)

    build("abcde", names)
    with pytest.warns(UserWarning, match="Kept 3 rows"):
        grown = build("avxyz", ["0.png", "1.png", "2.png", "3.png", "3.png"],
                      update=tmp_path / "m.parquet")  # fmt: skip
    assert grown["id"].tolist() == [*"abcde", *"vyz"]
    assert [path[-5:] for path in grown["path"]] == [*names, "1.png", "3.png", "3.png"]


@pytest.mark.filterwarnings("ignore:Old rows")
def test_other_arguments_replace_those_of_the_recipe(out):
    before = dfgen.read_manifest(out)
    with pytest.warns(UserWarning, match="Kept kind"):
        grown = dfgen.build_manifest(update=out, pattern="{kinds}/{name}.png", stratify="kinds")
    assert grown["id"].tolist() == before["id"].tolist()
    assert grown["name"].tolist() == before["id"].tolist()
    assert grown["split"].tolist() == before["split"].tolist()
    assert grown.attrs["dfgen"]["recipe"]["pattern"] == "{kinds}/{name}.png"


@pytest.mark.filterwarnings("ignore:Split", "ignore:Kept", "ignore:1 path")
def test_a_source_of_another_kind_replaces_the_recipe(out):
    rows = pd.DataFrame({"id": ["000", "777"], "file": "imgs/cat/000.png", "x": [1, 2]})
    with pytest.warns(UserWarning, match="Kept 11 rows|Kept kind"):
        grown = dfgen.build_manifest(
            update=out, labels=rows, path_column="file", root=out.parent, facts="none"
        )
    assert grown["id"].iloc[-1] == "777" and "pattern" not in grown.attrs["dfgen"]["recipe"]
    with pytest.raises(ArgumentError, match="labels=df"):
        dfgen.write_manifest(grown, out)
        dfgen.build_manifest(update=out)


def test_a_moved_data_set_keeps_its_rows(out):
    before = dfgen.read_manifest(out)
    shutil.move(out.parent / "imgs", out.parent / "moved")
    grown = dfgen.build_manifest(out.parent / "moved", update=out, pattern="{kind}/{id}.png")
    assert grown["path"].tolist() == before["path"].str.replace("/imgs/", "/moved/").tolist()
    assert grown["split"].tolist() == before["split"].tolist()
    assert grown.attrs["dfgen"]["root"] == str(out.parent / "moved")


def test_columns_of_the_user_are_kept(out):
    frame = dfgen.read_manifest(out).assign(fold=range(12), note=["n", None] * 6)
    dfgen.write_manifest(frame, out)
    image(out.parent / "imgs/cat/100.png")
    with pytest.warns(UserWarning, match="Kept note"):
        grown = dfgen.build_manifest(update=out)
    assert plain(grown["fold"].tolist()) == [*range(12), None]
    assert plain(grown["note"].tolist()) == [*["n", None] * 6, None]


@pytest.mark.parametrize(
    ("change", "options", "word"),
    [
        (lambda f: f.assign(id=range(12)), {"pattern": "{kind}/{id}.png"}, "int64"),
        (lambda f: f, {"source": "other"}, "none of the 12 rows"),
        (lambda f: f.set_attrs({}), {}, "recipe"),
        (lambda f: f, {"update": "gone.parquet"}, "gone.parquet"),
    ],
)
def test_updates_that_cannot_be_are_named(out, change, options, word, monkeypatch):
    monkeypatch.chdir(out.parent)
    image(out.parent / "other/cow/x9.png")
    os.remove(out.parent / "imgs/cat/000.png")
    image(out.parent / "imgs/cat/new.png")
    frame = dfgen.read_manifest(out)
    frame.__class__.set_attrs = lambda f, attrs: [f.attrs.clear(), f][1]
    dfgen.write_manifest(change(frame), out)
    del frame.__class__.set_attrs
    with pytest.raises(DfgenError, match=word), warnings.catch_warnings(action="ignore"):
        dfgen.build_manifest(**{"update": out, **options})


def test_handmade_manifest_grows_from_a_source(out):
    frame = dfgen.read_manifest(out)[["id", "path", "split"]]
    frame.attrs = {}
    dfgen.write_manifest(frame, out)
    image(out.parent / "imgs/cat/100.png")
    grown = dfgen.build_manifest(out.parent / "imgs", update=out)
    assert grown["id"].tolist() == [*frame["id"], "cat/100.png"]
    assert plain(grown["split"].tolist()) == [*frame["split"], None]


def of_table(folder, kinds, **options):
    rows = pd.DataFrame({"file": [f"{row}.png" for row in range(len(kinds))], "kind": kinds})
    rows["tags"] = [[kind] for kind in kinds]
    build = {"path_column": "file", "root": folder, "out": folder / "m.parquet"}
    return dfgen.build_manifest(labels=rows, **build, **options)


def test_changed_labels_cause_warnings_and_corrections_stay(tmp_path):
    images(tmp_path, [f"{row}.png" for row in range(8)])
    out = tmp_path / "m.parquet"
    of_table(tmp_path, [*"aabbab"])
    dfgen.update_labels(out, pd.DataFrame({"id": ["0.png"], "tags": [["b"]]}), out=out)
    with pytest.warns(UserWarning) as caught:
        grown = of_table(tmp_path, [*"babbbaab"], update=out)
    told = [str(one.message) for one in caught]
    assert len(told) == 2 and any(
        "kind of 3 rows" in one and "0.png (a -> b)" in one for one in told
    )
    assert any(one.startswith("Kept the tags of 2 rows") for one in told)
    assert grown["kind"].tolist() == [*"babbbaab"]
    assert [*map(list, grown["tags"])] == [[kind] for kind in "babbabab"]
    for frame in (grown, dfgen.read_manifest(out)):
        assert frame.attrs["dfgen"]["labels"]["tags"]["corrected"] is True


def test_class_names_of_lists_keep_their_order(tmp_path):
    image(tmp_path / "a.png")
    person = {"image_id": 1, "category_id": 2, "bbox": [1, 1, 2, 2]}
    path = coco(tmp_path / "c.json", {1: "a.png"}, [person], {2: "b"})
    dfgen.build_manifest(coco=path, out=tmp_path / "m.parquet")
    coco(tmp_path / "c.json", {1: "a.png"}, [person], {1: "a", 2: "b"})
    with pytest.warns(UserWarning, match=r"labels has new classes(.|\n)*'a'"):
        grown = dfgen.build_manifest(update=tmp_path / "m.parquet")
    assert grown.attrs["dfgen"]["labels"]["labels"]["class_names"] == ["b", "a"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=2, max_size=4))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_row_is_lost_moved_or_split_again(tmp_path, steps):
    """Each step is the set of files that exist then."""
    folder, out, seen, old = tmp_path / "imgs", tmp_path / "m.parquet", [], None
    for numbers in steps:
        shutil.rmtree(folder, ignore_errors=True)
        for number in numbers:
            image(folder / ("cat", "dog")[number % 2] / f"{number}.png")
        try:
            frame = dfgen.build_manifest(
                folder, pattern="{kind}/{id:int}.png", split=HALVES, stratify="kind", out=out,
                update=None if old is None else out,
            )  # fmt: skip
        except ManifestError as error:  # no row in common
            assert "none of the " in str(error) and not numbers & {*seen}
            return
        seen += [row for row in frame["id"] if row not in seen]
        assert frame["id"].tolist() == seen
        assert {*frame.loc[frame["problem"].isna(), "id"]} == numbers
        if old is not None:
            assert frame["split"].astype(str)[: len(old)].tolist() == old["split"].tolist()
        old = frame


@pytest.mark.parametrize("how", [{"group": "scene"}, {"stratify": "kind", "group": "scene"}])
@pytest.mark.parametrize("divide", [{"split": HALVES}, {"folds": 3}])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_row_moves_though_groups_and_classes_change(tmp_path, how, divide):
    labels = pd.DataFrame({"id": range(40), "file": [f"{n}.png" for n in range(40)]})
    labels["kind"], labels["scene"] = [*"aabac" * 8], labels["id"] * 7 % 40 // 4
    part, before, out = "split" if "split" in divide else "fold", {}, tmp_path / "m.parquet"
    for rows in (labels[10:30], labels[5:30], labels):
        frame = dfgen.build_manifest(
            labels=rows[::-1], path_column="file", facts="none", out=out, **how, **divide,
            **({"update": out} if before else {}),
        )  # fmt: skip
        after = dict(zip(frame["id"], frame[part], strict=True))
        assert before == {key: after[key] for key in before} and len(after) == len(rows)
        before = after
    assert (frame.groupby("scene")[part].nunique() == 1).all()
