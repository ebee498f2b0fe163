"""Members of zip and tar archives are files: listed, looked at, verified and trained on."""

import io
import os
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from contracts import StoreContract
from PIL import Image

import dfgen
from dfgen.errors import MissingFileError
from dfgen.samples.storage.archives import Archives


def write_zip(path, contents, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def write_tar(path, contents, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000.25
            archive.addfile(info, io.BytesIO(data))


class ArchiveContract(StoreContract):
    kind = "zip"

    def write(self, path, contents):
        write_zip(path, contents)

    def make(self, folder, contents):
        self.write(folder / "held", contents)
        return Archives(), {name: f"{self.kind}://{name}::{folder}/held" for name in contents}

    def missing(self, folder):
        return f"{self.kind}://a::{folder}/none"

    def test_missing_bytes_are_refused(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1"})
        for path, message in (
            (self.missing(tmp_path), f"there is no archive '{tmp_path}/none'"),
            (paths["a"].replace("a", "b", 1), f"the archive '{tmp_path}/held' has no member 'b'"),
        ):
            path = path if "//b" in path or "none" in path else f"{self.kind}://b::{tmp_path}/held"
            for ask in (store.read, store.head, lambda path: store.row(path, 0), store.open):
                with pytest.raises(MissingFileError) as caught:
                    ask(path)
                assert str(caught.value) == message


class TestStored(ArchiveContract):
    pass


class TestDeflated(ArchiveContract):
    def write(self, path, contents):
        write_zip(path, contents, zipfile.ZIP_DEFLATED)


class TestTar(ArchiveContract):
    kind = "tar"

    def write(self, path, contents):
        write_tar(path, contents)


PATTERN = "{kind}/{id:int}.png"
ROWS = 12


def png(value, size=(6, 8)):
    file = io.BytesIO()
    Image.new("L", size[::-1], value).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """A folder of images, and archives of it that Python's shutil made."""
    monkeypatch.chdir(tmp_path)
    for row in range(ROWS):
        path = tmp_path / "pets" / ("cat" if row % 3 else "dog") / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(row))
    for kind in ("zip", "tar"):
        shutil.make_archive("pets", kind, "pets")  # with ./ in front of the names of a tar
    shutil.make_archive("whole", "zip", ".", "pets")
    return tmp_path


def pixels(frame, **options):
    x = dfgen.Image("path", size=(6, 8), color_mode="grayscale")
    options = {"label_mode": None, "shuffle": False, "batch_size": 4, **options}
    with dfgen.Sequence(frame, x, **options) as seq:
        batches = [np.asarray(seq[batch][0]) for batch in range(len(seq))]
    return [int(image[0, 0, 0]) for batch in batches for image in batch]


PLACES = ["pets.zip", "pets.tar", "zip://::pets.zip", "tar://::pets.tar", "zip://pets::whole.zip"]


@pytest.mark.parametrize("place", PLACES)
def test_an_archive_makes_the_rows_of_the_folder_that_it_holds(pets, place):
    loose = dfgen.build_manifest("pets", pattern=PATTERN, out="loose.parquet")
    frame = dfgen.build_manifest(place, pattern=PATTERN, out="packed.parquet")
    same = [name for name in loose.columns if name not in ("path", "mtime_ns")]
    assert frame[same].equals(loose[same])
    assert frame["problem"].isna().all()
    apart = (frame["mtime_ns"] - loose["mtime_ns"]).abs() % (900 * 10**9)  # a zip has no zone
    assert (apart.clip(upper=900 * 10**9 - apart) <= 2 * 10**9).all()
    assert pixels(frame) == frame["id"].tolist() == loose["id"].tolist()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_its_manifest_is_read_moved_verified_and_trained(pets, place, processes):
    (pets / "m").mkdir()
    frame = dfgen.build_manifest(place, pattern=PATTERN, out="m/pets.parquet")
    moved = pets / "moved"
    moved.mkdir()
    for name in ("pets.zip", "pets.tar", "whole.zip", "m"):
        os.rename(pets / name, moved / name)
    again = dfgen.read_manifest("moved/m/pets.parquet")
    assert again["path"].tolist() == [path.replace(str(pets), str(moved)) for path in frame["path"]]
    assert again.attrs["dfgen"]["root"].endswith(f"::{moved}/" + place.rpartition(":")[2])
    assert dfgen.verify("moved/m/pets.parquet", decode=True).empty
    options = {"workers": 2, "use_multiprocessing": processes}
    assert pixels("moved/m/pets.parquet", **options) == frame["id"].tolist()
    dfgen.write_manifest(again[::2], "half.parquet")
    assert dfgen.read_manifest("half.parquet")["path"].tolist() == again["path"].tolist()[::2]


def test_root_may_be_an_archive_of_what_was_loose(pets):
    dfgen.build_manifest("pets", pattern=PATTERN, out="loose.parquet")
    frame = dfgen.read_manifest("loose.parquet", root="pets.tar")
    assert frame["path"][0].startswith("tar://cat/")
    assert pixels(frame) == frame["id"].tolist()
    assert pixels("loose.parquet", root="zip://pets::whole.zip") == frame["id"].tolist()
    relative = frame.assign(
        path=[f"{kind}/{id}.png" for kind, id in frame[["kind", "id"]].to_numpy()]
    )
    assert pixels(relative[["id", "path"]], root="pets.tar") == frame["id"].tolist()
    assert dfgen.verify("loose.parquet", root="pets.tar").empty


def test_a_changed_archive_is_verified_and_updated(pets):
    dfgen.build_manifest("pets.tar", pattern=PATTERN, out="m.parquet")
    before = dfgen.read_manifest("m.parquet")
    with tarfile.open("pets.tar", "a") as archive:
        for name, data in {"cat/1.png": png(1, (7, 8)), "cat/99.png": png(99)}.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_800_000_000
            archive.addfile(info, io.BytesIO(data))
    with pytest.warns(UserWarning, match="repeated name in the archive, of which the last counts"):
        found = dfgen.verify("m.parquet").set_index("id")["change"].astype(str).to_dict()
        assert found == {1: "changed", 99: "new"}
        after = dfgen.build_manifest(update="m.parquet", out="m.parquet")
    assert after["id"].tolist() == [*before["id"], 99]
    assert after.set_index("id").loc[1, "height"] == 7


def test_a_table_may_name_members_of_several_archives(pets):
    with open("labels.csv", "w") as file:
        file.write("id,file\n1,zip://cat/1.png::pets.zip\n3,tar://dog/3.png::pets.tar\n")
    frame = dfgen.build_manifest(labels="labels.csv", path_column="file", out="m.parquet")
    assert frame["path"].tolist() == [
        f"zip://cat/1.png::{pets}/pets.zip",
        f"tar://dog/3.png::{pets}/pets.tar",
    ]
    assert pixels("m.parquet") == [1, 3]
