"""Files that somebody else's table, recipe or manifest names: inside what was given, or told."""

import json
import os

import cv2
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from command import run

import dfgen
from dfgen.binding.frame_columns import open_manifest
from dfgen.errors import ManifestError
from dfgen.manifest.fingerprint import fingerprint

LOOK = "says so. Look first if it is not your own: it may name any file of this machine"
ADVICE = "Paths are stored relative to the manifest's root, or all of them absolute"


def told(who, folder, allow):
    far = "which is neither its folder nor the one above"
    return f'{who} names files in "{folder}", {far}. If you want that, {allow} {LOOK}'


def image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.zeros((4, 4, 3), np.uint8))
    return str(path)


def rewrite(path, /, **changes):
    """Change columns and keys of a manifest, as anybody can."""
    table = pq.read_table(path)
    key = json.loads(table.schema.metadata[b"dfgen"])
    for name, value in changes.items():
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.array(value, pa.string()))
        else:
            key[name] = value
    key = {b"dfgen": json.dumps({**key, "fingerprint": fingerprint(table)}).encode()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **key}), path)


@pytest.fixture(scope="module", autouse=True)
def threads_of_arrow(tmp_path_factory):
    """Begin the threads that Arrow reads text by, which it keeps, and their pipe."""
    table = tmp_path_factory.mktemp("first") / "t.csv"
    table.write_text("path\na.png\n")
    dfgen.build_manifest(labels=table, path_column="path", facts="none")


@pytest.fixture
def far(tmp_path):
    """Return a folder of an image that is below neither `sets/pets` nor `sets`."""
    image(tmp_path / "far/away/a.png")
    return tmp_path / "far/away"


@pytest.fixture
def near(tmp_path, monkeypatch):
    """Return `sets/pets`, which is the current folder, with images in it and beside it."""
    image(tmp_path / "sets/pets/imgs/a.png")
    image(tmp_path / "sets/imgs/b.png")
    monkeypatch.chdir(tmp_path / "sets/pets")
    return tmp_path / "sets/pets"


@pytest.fixture
def manifest(near):
    """Return the manifest of an image, with its recipe."""
    dfgen.build_manifest("imgs", out=near / "m.parquet")
    return str(near / "m.parquet")


RECIPE = {"unmatched": "error", "facts": "header", "seed": 0}
REFUSED = {
    "../../etc/passwd": 'leaves its root by ".."', "a/../../b": 'leaves its root by ".."',
    "/etc/passwd": "is absolute, but has a root", "a\0.png": "holds a NUL character",
}  # fmt: skip


@pytest.mark.parametrize("stored", REFUSED)
@pytest.mark.parametrize("read", [dfgen.read_manifest, dfgen.verify])
def test_fault_38_a_stored_path_out_of_its_root_is_refused_unread(manifest, stored, read):
    rewrite(manifest, path=[stored])
    with pytest.raises(ManifestError) as caught:
        read(manifest)
    assert str(caught.value) == (
        f"1 of 1 paths of {manifest} cannot be used: the path {REFUSED[stored]}. row 0 (id "
        f'"a.png"): {json.dumps(stored)}. {ADVICE}'
    )


def test_fault_38_odd_names_work_and_links_are_followed(tmp_path):
    names = ["a\nb.png", "x" * 250 + ".png", "Case.png", "case.png", "ü ' \" \\ $(id).png"]
    for name in names:
        image(tmp_path / "imgs" / "deep" / name)
    image(tmp_path / "elsewhere/linked.png")
    (tmp_path / "imgs/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "imgs/link.png").symlink_to(tmp_path / "elsewhere/linked.png")
    built = dfgen.build_manifest(tmp_path / "imgs", out=tmp_path / "m.parquet")
    found = [f"deep/{name}" for name in names] + ["link/linked.png", "link.png"]
    assert sorted(built["id"]) == sorted(found)
    back = dfgen.read_manifest(tmp_path / "m.parquet")
    assert sorted(back["path"]) == sorted(f"{tmp_path}/imgs/{name}" for name in found)
    assert len(dfgen.verify(tmp_path / "m.parquet", decode=True)) == 0


def test_fault_38_names_that_cannot_be_are_named(tmp_path):
    image(tmp_path / "a.png")
    os.rename(tmp_path / "a.png", os.fsencode(tmp_path) + b"/\xff.png")
    image(tmp_path / "a.png")
    with pytest.warns(UserWarning, match="name not UTF-8") as caught:
        assert dfgen.build_manifest(tmp_path)["id"].tolist() == ["a.png"]
    assert "\\xff.png" in str(caught[0].message)
    frame = pd.DataFrame({"id": [1, 2, 3], "path": ["a.png", "x" * 5_000 + ".png", "a\0.png"]})
    with pytest.warns(UserWarning, match="2 rows have a problem|problem"):
        built = dfgen.build_manifest(
            labels=frame, path_column="path", root=tmp_path, id="id", facts="header"
        )
    assert built["problem"].tolist()[1:] == [
        f"[Errno 36] File name too long: '{tmp_path}/{'x' * 5_000}.png'",
        "embedded null byte",
    ]


@pytest.mark.parametrize("stored", ["far", "../../far/away"])
def test_a_root_far_from_the_manifest_is_told_unless_it_is_given(manifest, far, stored):
    rewrite(manifest, root=str(far) if stored == "far" else stored)
    for read in (dfgen.read_manifest, lambda path: open_manifest(path, None)):
        with pytest.warns(UserWarning) as caught:
            read(manifest)
        assert [str(each.message) for each in caught] == [told(manifest, far, f'root="{far}"')]
        assert caught[0].filename == __file__
    assert dfgen.read_manifest(manifest, root=far)["path"].tolist() == [f"{far}/a.png"]


@pytest.mark.parametrize("stored", ["imgs", "../imgs", ".."])
def test_a_root_in_the_folder_of_the_manifest_or_the_one_above_is_taken(manifest, stored):
    rewrite(manifest, root=stored)
    path = os.path.normpath(f"{os.path.dirname(manifest)}/{stored}/a.png")
    assert [os.path.normpath(p) for p in dfgen.read_manifest(manifest)["path"]] == [path]


def test_absolute_paths_of_a_manifest_are_told_and_lie_in_the_root_that_is_given(manifest, far):
    rewrite(manifest, root=None, path=[f"{far}/a.png"])
    with pytest.warns(UserWarning) as caught:
        dfgen.read_manifest(manifest)
    assert [str(each.message) for each in caught] == [told(manifest, far, f'root="{far}"')]
    assert dfgen.read_manifest(manifest, root=far)["path"].tolist() == [f"{far}/a.png"]
    with pytest.raises(ManifestError) as refused:
        dfgen.read_manifest(manifest, root="imgs")
    assert str(refused.value) == (
        f"1 of 1 paths of {manifest} cannot be used: the path is not in "
        f'root="{os.getcwd()}/imgs". row 0 (id "a.png"): "{far}/a.png". {ADVICE}'
    )


def test_other_columns_of_files_of_a_manifest_are_told(manifest, far):
    frame = dfgen.read_manifest(manifest).assign(mask=f"{far}/a.png", other=["imgs/../../../x"])
    dfgen.write_manifest(frame, manifest)
    for column, folder in (("mask", far), ("other", "imgs/../../..")):
        with pytest.warns(UserWarning) as caught:
            open_manifest(manifest, None).files(column)
        give = "to give the frame, dfgen.read_manifest(path),"
        who = f"the column {column!r} of {manifest}"
        assert [str(each.message) for each in caught] == [told(who, folder, give)]
        open_manifest(dfgen.read_manifest(manifest), None).files(column)
    dfgen.write_manifest(frame.drop(columns="other").assign(path=f"{far}/a.png"), manifest)
    open_manifest(manifest, os.path.relpath(far)).files("mask")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_far_files_of_a_table_are_told_once_and_refused_out_of_a_given_root(near, far, kind):
    frame = pd.DataFrame({"path": ["imgs/a.png", "../imgs/b.png", f"{far}/a.png"]})
    csv = f"{kind}.{'jsonl' if kind == 'jsonl' else 'csv'}"
    save = frame.to_json if kind == "jsonl" else frame.to_csv
    save(csv, **({"orient": "records", "lines": True} if kind == "jsonl" else {"index": False}))
    rows = {"labels": csv, "path_column": "path"}
    with pytest.warns(UserWarning) as caught:
        built = dfgen.build_manifest(**rows)
    expected = told(csv, far, f'root="{far}" (--root)')
    assert [str(each.message) for each in caught] == [expected]
    assert not built["problem"].notna().any()
    with pytest.raises(ManifestError, match='the path is not in root="'):
        dfgen.build_manifest(**rows, root=near)
    dfgen.build_manifest(labels=frame, path_column="path")  # a frame in hand is the caller's


def test_a_data_yaml_may_climb_one_folder_and_what_is_farther_is_told(near, far):
    image(near.parent / "coco/images/a.png")
    image(far / "images/a.png")
    for folder in (near.parent / "coco", far):
        (folder / "labels").mkdir()
        (folder / "labels/a.txt").touch()
    (far / "list.txt").write_text("images/a.png\n")
    data = {"path": "../coco", "train": "images", "names": ["cat"], "download": "rm -r /"}
    (near / "data.yaml").write_text(yaml.dump(data))
    assert len(dfgen.build_manifest(yolo="data.yaml")) == 1
    for train, within in (("images", "/images"), ("list.txt", "")):
        (near / "data.yaml").write_text(yaml.dump({**data, "path": str(far), "train": train}))
        with pytest.warns(UserWarning) as caught:
            dfgen.build_manifest(yolo="data.yaml")
        first, *_ = [str(each.message) for each in caught]
        allow = "moving it there" if train == "list.txt" else f'root="{far}/images" (--root)'
        assert first == told("data.yaml", f"{far}{within}", allow)


def test_what_a_stored_recipe_reads_far_away_is_told_unless_the_caller_names_it(manifest, far):
    rewrite(manifest, recipe={**RECIPE, "source": str(far)})
    allow = f'to give its arguments yourself, root="{far}" among them,'
    expected = told(f"the recipe of {manifest}", far, allow)
    for use in (dfgen.verify, lambda path: dfgen.build_manifest(update=path)):
        with pytest.warns(UserWarning) as caught:
            use(manifest)
        assert str(caught[0].message) == expected
    shown = run("build-manifest", "--update", manifest, "--out", "new.parquet")
    assert f"Warning: {expected}\n" in shown.stdout
    with pytest.warns(UserWarning, match="has its files in .* dfgen looks for them in") as caught:
        frame = dfgen.build_manifest(far, update=manifest)
    assert len(caught) == 1
    assert frame["path"].tolist() == [f"{far}/a.png"]


def test_a_recipe_file_that_reads_far_away_is_told(near, far):
    (near / "near.toml").write_text('source = "../imgs"\n')
    dfgen.build_manifest("near.toml")
    (near / "far.toml").write_text(f'source = "{far}"\n')
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest("far.toml")
    allow = f'to give its arguments yourself, root="{far}" among them,'
    assert [str(each.message) for each in caught] == [told("far.toml", far, allow)]
    dfgen.build_manifest("far.toml", root=far)


def test_arrays_of_a_table_far_away_are_told(near, far):
    with h5py.File(far / "x.h5", "w") as file:
        file["x"] = np.zeros((3, 2))
    pd.DataFrame({"path": [f"{far}/x.h5"], "index": [0]}).to_csv("rows.csv", index=False)
    with pytest.warns(UserWarning, match="^rows.csv names files in "):
        dfgen.build_manifest(labels="rows.csv", path_column="path")


def test_a_file_that_a_table_holds_lies_nowhere_whatever_its_name_is(near, far):
    row = {"bytes": (far / "a.png").read_bytes(), "path": f"{far}/a.png"}
    for name, image in (("held", row), ("named", {**row, "bytes": None})):
        pq.write_table(pa.table({"image": [image]}), f"{name}.parquet")
    dfgen.build_manifest(labels="held.parquet", path_column="image")
    with pytest.warns(UserWarning, match="^named.parquet names files in "):
        dfgen.build_manifest(labels="named.parquet", path_column="image")
