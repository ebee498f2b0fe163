import os
import shutil

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import message_of
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.building import file_facts, scan
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.sources import file_tree

SPLIT = {"train": 0.5, "val": 0.5}


def draw(path, width=4):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (width, 3)).save(path)


@pytest.fixture
def data(tmp_path):
    """Twelve images of two kinds, and their stratified manifest."""
    for row in range(12):
        draw(tmp_path / "imgs" / ("cat", "dog")[row % 2] / f"{row:03d}.png")
    dfgen.build_manifest(
        tmp_path / "imgs", pattern="{kind}/{id}.png", split=SPLIT, stratify="kind",
        out=tmp_path / "m.parquet",
    )  # fmt: skip
    return tmp_path


@pytest.fixture
def opened(monkeypatch):
    """Names of the files whose headers are read."""
    names = []
    read = file_facts.header_of
    monkeypatch.setattr(
        file_facts,
        "header_of",
        lambda file, limits: names.append(os.path.basename(file.name)) or read(file, limits),
    )
    return names


def update(data, *arguments, **options):
    return dfgen.build_manifest(*arguments, update=data / "m.parquet", workers=1, **options)


def test_only_new_and_changed_files_are_opened(data, opened):
    draw(data / "imgs/cat/100.png")
    draw(data / "imgs/cat/002.png", width=5)
    os.utime(data / "imgs/dog/003.png", ns=(1, 1))
    frame = update(data).set_index("id")
    assert sorted(opened) == ["002.png", "003.png", "100.png"]
    assert frame["width"].to_dict() == {**dict.fromkeys(frame.index, 4), "002": 5}
    assert frame.loc["003", "mtime_ns"] == 1


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_file_with_a_problem_is_opened_again(data, opened):
    path = data / "imgs/cat/002.png"
    good = path.read_bytes()
    path.write_bytes(b"x" * len(good))
    update(data, out=data / "m.parquet")
    opened.clear()
    update(data)
    assert opened == ["002.png"]


def test_a_row_whose_file_is_gone_stays_with_its_problem(data):
    before = dfgen.read_manifest(data / "m.parquet")
    os.remove(data / "imgs/dog/003.png")
    with pytest.warns(UserWarning) as caught:
        frame = update(data, out=data / "m.parquet")
    path = f"{data}/imgs/dog/003.png"
    assert [str(warning.message) for warning in caught] == [
        f"1 problem:\n  1  the file does not exist: {path}\n"
        'They keep their rows: df[df["problem"].notna()].',
        f'Kept 1 row of {data}/m.parquet that the source no longer gives: "{path}". If the '
        "file is gone, the column problem says so.",
    ]
    assert frame["id"].tolist() == before["id"].tolist()
    row = frame.set_index("id").loc["003"]
    assert (row["kind"], row["path"]) == ("dog", path)
    assert row["problem"] == "the file does not exist"
    assert row[["bytes", "width"]].isna().all()
    assert frame["split"].tolist() == before["split"].tolist()
    pd.testing.assert_frame_equal(dfgen.read_manifest(data / "m.parquet"), frame)


def test_a_file_that_moved_keeps_its_row_by_its_id(data):
    before = dfgen.read_manifest(data / "m.parquet").set_index("id")
    os.rename(data / "imgs/dog/003.png", data / "imgs/cat/003.png")
    frame = update(data).set_index("id")
    assert len(frame) == 12
    assert frame.loc["003", "path"] == f"{data}/imgs/cat/003.png"
    assert frame.loc["003", "kind"] == "cat"
    assert frame.loc["003", "split"] == before.loc["003", "split"]


def test_changed_ids_are_matched_by_paths_that_stand_in_one_row_alone(data):
    """Of two rows of one file nothing says which is which."""
    files = ["000.png", "001.png", "001.png", "002.png", "003.png"]

    def write(keys, files):
        for row in files:
            (data / "two" / row).parent.mkdir(exist_ok=True)
            draw(data / "two" / row)
        pd.DataFrame({"key": list(keys), "file": files}).to_csv(data / "t.csv", index=False)

    write("abcde", files)
    dfgen.build_manifest(
        labels=data / "t.csv", path_column="file", root=data / "two", id="key",
        out=data / "m.parquet",
    )  # fmt: skip
    write("avxyz", ["000.png", "001.png", "002.png", "003.png", "003.png"])
    with pytest.warns(UserWarning, match="^Kept 3 rows of "):
        frame = update(data)
    assert frame["id"].tolist() == [*"abcde", *"vyz"]
    names = frame["path"].str.rpartition("/")[2].tolist()
    assert names == [*files, "001.png", "003.png", "003.png"]


def test_new_classes_are_numbered_after_the_old_ones(data):
    draw(data / "imgs/ant/300.png")
    with pytest.warns(UserWarning) as caught:
        frame = update(data, out=data / "n.parquet")
    assert str(caught[0].message) == ('kind has new classes, numbered after the 2 old ones: "ant".')
    assert list(frame["kind"].cat.categories) == ["cat", "dog", "ant"]
    back = dfgen.read_manifest(data / "n.parquet")
    assert back.attrs == frame.attrs
    assert back.attrs["dfgen"]["labels"]["kind"]["class_names"] == ["cat", "dog", "ant"]


def test_other_arguments_replace_those_of_the_recipe_and_that_is_said(data):
    with pytest.warns(UserWarning) as caught:
        frame = update(data, pattern="{kind}/{name}.png")
    messages = [str(warning.message) for warning in caught]
    assert messages[0] == (
        f'The recipe is not that of {data}/m.parquet: pattern was "{{kind}}/{{id}}.png", is '
        '"{kind}/{name}.png". Old rows keep their id, split and class numbers, and the facts of '
        "files that did not change; labels are those of the new recipe."
    )
    before = dfgen.read_manifest(data / "m.parquet")
    assert frame["id"].tolist() == before["id"].tolist()
    assert frame["split"].tolist() == before["split"].tolist()
    assert frame["name"].astype(str).tolist() == before["id"].tolist()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_split_that_is_asked_for_is_for_new_rows_and_that_is_said(data, by_hand):
    before = dfgen.read_manifest(data / "m.parquet")
    if by_hand:  # without a recipe to compare with
        before.attrs = {}
        dfgen.write_manifest(before, data / "m.parquet")
    draw(data / "imgs/cat/100.png")
    with pytest.warns(UserWarning) as caught:
        frame = update(
            data, source=data / "imgs", pattern="{kind}/{id}.png", split={"new": 1.0}, stratify=None
        )
    assert (
        f"Old rows of {data}/m.parquet keep their split: split= and what goes with it are for new "
        "rows alone. To give all rows a new one, dfgen.split (dfgen split)."
    ) in [str(warning.message) for warning in caught]
    assert frame["split"].tolist() == [*before["split"], "new"]


def test_a_column_that_the_user_added_is_kept(data):
    frame = dfgen.read_manifest(data / "m.parquet").assign(fold=range(12), digest="abc")
    dfgen.write_manifest(frame, data / "m.parquet")
    draw(data / "imgs/cat/100.png")
    draw(data / "imgs/cat/002.png", width=5)
    with pytest.warns(UserWarning, match="^Kept ") as caught:
        frame = update(data).set_index("id")
    assert str(caught[0].message) == (
        f'Kept "fold", "digest" of {data}/m.parquet: the recipe does not make it, so new rows have '
        "none."
    )
    assert frame["fold"].tolist()[:12] == list(range(12))
    assert frame["fold"].isna().tolist() == [False] * 12 + [True]
    assert frame.index[frame["digest"].isna()].tolist() == ["100"]


def test_a_data_set_that_moved_is_looked_for_in_its_new_folder(data, opened):
    before = dfgen.read_manifest(data / "m.parquet")
    shutil.move(data / "imgs", data / "moved")
    with pytest.warns(UserWarning) as caught:
        frame = update(data, data / "moved")
    assert (
        f"{data}/m.parquet has its files in {data}/imgs; dfgen looks for them in {data}/moved from "
        "now on."
    ) in [str(warning.message) for warning in caught]
    assert opened == []
    assert frame["path"].tolist() == before["path"].str.replace("/imgs/", "/moved/").tolist()
    assert frame["split"].tolist() == before["split"].tolist()
    assert frame.attrs["dfgen"]["root"] == f"{data}/moved"


def test_the_manifest_of_another_data_set_is_refused(data):
    draw(data / "other/cow/900.png")
    assert message_of(ManifestError, update, data, data / "other") == (
        f"none of the 12 rows of {data}/m.parquet is in the source, neither by id nor by path: it "
        f"is the manifest of other files, below {data}/imgs. Check the source, or build the "
        "manifest anew, without update= (--update)"
    )


def test_a_manifest_made_by_hand_needs_a_source(data):
    frame = dfgen.read_manifest(data / "m.parquet")
    frame.attrs = {}
    dfgen.write_manifest(frame, data / "m.parquet")
    assert message_of(ArgumentError, update, data) == (
        "the manifest was made by hand: it has no recipe. Name its source: a folder, or another one"
    )
    draw(data / "imgs/cat/100.png")
    with pytest.warns(UserWarning, match='Kept "kind" of'):
        again = update(data, data / "imgs")
    assert again["id"].tolist() == [*frame["id"], "cat/100.png"]
    assert again["split"].tolist()[:12] == frame["split"].tolist()
    assert again["split"].isna().tolist() == [False] * 12 + [True]


def test_ids_of_another_type_are_made_of_the_old_one_or_refused(data):
    dfgen.build_manifest(data / "imgs", pattern="{kind}/{id:int}.png", out=data / "m.parquet")
    with pytest.warns(UserWarning, match="The recipe is not that of"):
        assert update(data, pattern="{kind}/{id}.png")["id"].tolist()[:2] == [0, 2]
    draw(data / "imgs/cat/new.png")
    assert message_of(ManifestError, update, data, pattern="{kind}/{id}.png") == (
        f"{data}/m.parquet has ids of type int64, and the source gives other ones: Failed to parse "
        "string: 'new' as a scalar of type int64. Give the arguments that make ids of that type "
        "(pattern=, id=), or build the manifest anew, without update= (--update)"
    )


@pytest.mark.filterwarnings("ignore:The recipe is not that of", "ignore:[0-9]+ rows have a copy")
def test_full_facts_are_read_of_files_that_have_none_yet(data, monkeypatch):
    asked, read = [], scan.read_facts
    monkeypatch.setattr(
        scan, "read_facts", lambda files, *how: asked.append(len(files)) or read(files, *how)
    )
    whole = update(data, facts="full", out=data / "m.parquet")
    draw(data / "imgs/cat/002.png", width=5)
    again = update(data)
    assert asked == [12, 1]
    assert whole["digest"].notna().all()
    assert (again["digest"] == whole["digest"]).tolist() == [row != 1 for row in range(12)]


def test_a_folder_that_vanishes_during_the_scan_is_named(data, monkeypatch):
    listed = file_tree._list

    def vanishing(*arguments):
        found = listed(*arguments)
        if (data / "imgs/dog").exists():
            shutil.rmtree(data / "imgs/dog")
        return found

    monkeypatch.setattr(file_tree, "_list", vanishing)
    assert message_of(ManifestError, update, data) == (
        f'the folder "{data}/imgs/dog" cannot be read: [Errno 2] No such file or directory: '
        f"'{data}/imgs/dog'. Nothing is left out in silence: mend it, or move it elsewhere"
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_file_that_vanishes_after_the_scan_is_a_row_with_a_problem(data, monkeypatch):
    refresh = scan.stat_files

    def late(paths, *more):
        (data / "imgs/cat/002.png").unlink(missing_ok=True)
        return refresh(paths, *more)

    monkeypatch.setattr(scan, "stat_files", late)
    frame = update(data).set_index("id")
    assert frame.loc["002", "problem"] == "the file does not exist"


@pytest.mark.parametrize("slow", [0, 1e9], ids=["threads", "alone"])
def test_files_are_compared_in_order_however_quick_the_disk_is(data, monkeypatch, slow):
    paths = sorted(map(str, (data / "imgs").rglob("*.png")))
    for row, path in enumerate(paths):
        os.utime(path, ns=(row, row))
    monkeypatch.setattr(scan, "SLOW", slow)
    monkeypatch.setattr(scan, "STATS", 2)
    sizes, times = scan.stat_files([*paths, "gone"], Access(3))
    assert times.to_pylist() == [*range(len(paths)), -1]
    assert sizes.to_pylist() == [*map(os.path.getsize, paths), -1]


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=2, max_size=4))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_row_is_ever_lost_moved_or_split_anew(tmp_path, steps):
    """Each step is the set of files that exist then."""
    folder = tmp_path / "imgs"
    out = tmp_path / "m.parquet"
    seen, old = [], None
    for numbers in steps:
        shutil.rmtree(folder, ignore_errors=True)
        for number in numbers:
            draw(folder / ("cat", "dog")[number % 2] / f"{number}.png")
        try:
            frame = dfgen.build_manifest(
                folder, pattern="{kind}/{id:int}.png", split=SPLIT, stratify="kind", out=out,
                update=None if old is None else out, workers=1,
            )  # fmt: skip
        except ManifestError as error:  # no row in common
            assert "none of the " in str(error)
            assert old is not None and not numbers & set(seen)
            return
        seen += [row for row in frame["id"] if row not in seen]
        assert frame["id"].tolist() == seen
        assert set(frame.loc[frame["problem"].isna(), "id"]) == numbers
        if old is not None:
            pd.testing.assert_series_equal(
                frame["split"].astype(str)[: len(old)], old["split"].astype(str)
            )
        old = frame
