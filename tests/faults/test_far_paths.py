"""Files that somebody else's table, recipe or manifest names: inside what was given, or told."""

import json
import os

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.errors import ManifestError
from dfgen.manifest.metadata import fingerprint

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
def test_stored_path_outside_its_root_is_rejected_unread(manifest, stored, read):
    rewrite(manifest, path=[stored])
    with pytest.raises(ManifestError) as caught:
        read(manifest)
    assert str(caught.value) == (
        f"1 of 1 paths of {manifest} cannot be used: the path {REFUSED[stored]}. row 0 (id "
        f'"a.png"): {json.dumps(stored)}. {ADVICE}'
    )


def test_odd_names_work_and_links_are_followed(tmp_path):
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


def test_impossible_file_names_are_reported(tmp_path):
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
    _, long, null = built["problem"]
    assert long == f"[Errno 36] File name too long: '{tmp_path}/{'x' * 5_000}.png'"
    assert "embedded null" in null


@pytest.mark.parametrize("stored", ["imgs", "../imgs", ".."])
def test_root_beside_or_above_the_manifest_is_accepted(manifest, stored):
    rewrite(manifest, root=stored)
    path = os.path.normpath(f"{os.path.dirname(manifest)}/{stored}/a.png")
    assert [os.path.normpath(p) for p in dfgen.read_manifest(manifest)["path"]] == [path]


def test_absolute_paths_must_lie_in_given_root(manifest, far):
    rewrite(manifest, root=None, path=[f"{far}/a.png"])
    assert dfgen.read_manifest(manifest, root=far)["path"].tolist() == [f"{far}/a.png"]
    with pytest.raises(ManifestError, match="is not in root="):
        dfgen.read_manifest(manifest, root="imgs")
