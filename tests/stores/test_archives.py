"""Members of zip and tar archives are files: listed, looked at, verified and trained on."""

import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest
from contracts import StoreContract, png
from messages import message_of
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.samples.stores.archives import archive_index
from dfgen.samples.stores.archives.archive_paths import Member, archive_at
from dfgen.samples.stores.archives.members import Archives


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
                assert message_of(MissingFileError, ask, path) == message


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
    options = {"workers": 1, "use_multiprocessing": processes}
    assert pixels("moved/m/pets.parquet", **options) == frame["id"].tolist()
    dfgen.write_manifest(again[::2], "half.parquet")
    assert dfgen.read_manifest("half.parquet")["path"].tolist() == again["path"].tolist()[::2]


def test_root_may_be_an_archive_of_what_was_loose(pets):
    dfgen.build_manifest("pets", pattern=PATTERN, out="loose.parquet")
    frame = dfgen.read_manifest("loose.parquet", root="pets.tar")
    assert frame["path"][0].startswith("tar://cat/")
    assert pixels(frame) == frame["id"].tolist()
    for place in ("zip://pets::whole.zip", "zip://./pets/::whole.zip"):
        assert pixels("loose.parquet", root=place) == frame["id"].tolist()
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
    with pytest.warns(UserWarning, match="repeated name in the archive; the last one counts"):
        found = dfgen.verify("m.parquet").set_index("id")["change"].astype(str).to_dict()
        assert found == {1: "changed"}
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


def read(path):
    return Archives().read(str(path))


def problem_of(path):
    return Archives().head(str(path)).problem


DAMAGED = "the archive is damaged or cut short: {}. Fetch or make it again"
NO_END = DAMAGED.format("its end, where the names of its members stand, is missing")
CHECKSUM = DAMAGED.format("the member has another checksum (CRC-32) than it should have")


def changed(path, place, data):
    old = path.read_bytes()
    path.write_bytes(old[:place] + data + old[place + len(data) :])


@pytest.mark.parametrize("place", PLACES)
def test_images_of_coco_may_be_in_an_archive(pets, place):
    images = [{"id": row, "file_name": f"cat/{row}.png", "width": 8, "height": 6} for row in (1, 2)]
    box = {"id": 1, "image_id": 2, "category_id": 5, "bbox": [1, 1, 3, 3]}
    document = {"images": images, "annotations": [box], "categories": [{"id": 5, "name": "c"}]}
    (pets / "coco.json").write_text(json.dumps(document))
    frame = dfgen.build_manifest(coco="coco.json", images=place, out="m.parquet")
    assert frame["problem"].isna().all()
    assert pixels("m.parquet") == [1, 2]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_damage_of_a_zip_is_told(tmp_path, method):
    path = tmp_path / "a.zip"
    write_zip(path, {"a.bin": b"0123456789" * 50, "b.bin": b"b"}, method)
    whole = path.read_bytes()
    changed(path, 40, b"\0")  # of the member's bytes
    with pytest.raises(DecodeError, match=r"^the archive is damaged or cut short: the member"):
        read(f"zip://a.bin::{path}")
    with pytest.raises(DecodeError), Archives().open(f"zip://a.bin::{path}") as file:
        file.read()
    assert read(f"zip://b.bin::{path}") == b"b"
    for length, message in ((len(whole) - 5, NO_END), (60, NO_END)):
        path.write_bytes(whole[:length])
        assert message_of(DecodeError, read, f"zip://a.bin::{path}") == message
    path.write_bytes(whole[10:])
    with pytest.raises(DecodeError, match="the names of its members are not where they should be"):
        read(f"zip://a.bin::{path}")
    for none in (b"no archive" * 9, whole[-22:-1], b""):  # the second: an end that is cut short
        path.write_bytes(none)
        with pytest.raises(DecodeError, match=r"'.*a\.zip' is no zip archive$"):
            read(f"zip://a.bin::{path}")
    path.write_bytes(whole[:-18] + b"\1" + whole[-17:])
    with pytest.raises(DecodeError, match=r"^the archive is one of several parts: "):
        read(f"zip://a.bin::{path}")
    path.write_bytes(whole[:-12] + b"\3" + whole[-11:])
    with pytest.raises(DecodeError, match=r"it should have 3 members, of which 2 are there"):
        read(f"zip://a.bin::{path}")
    names = whole[: -22 - 20] + whole[-22:-10]  # the last of them is cut short
    nbytes = int.from_bytes(whole[-10:-6], "little") - 20
    path.write_bytes(names + nbytes.to_bytes(4, "little") + whole[-6:])
    with pytest.raises(DecodeError, match=r"it should have 2 members, of which 1 are there"):
        read(f"zip://a.bin::{path}")
    path.write_bytes(b"#!/bin/sh\n" + whole)  # one that unpacks itself
    assert read(f"zip://a.bin::{path}") == b"0123456789" * 50


def test_a_member_is_whole_however_much_stands_in_front_of_it(tmp_path):
    """As an archiver that aligns members writes it: a field that the directory does not have."""
    data, extra = bytes(range(256)) * 8, struct.pack("<2H", 0xD935, 4000) + bytes(4000)
    info = zipfile.ZipInfo("a.bin")
    info.extra = extra
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, data)
    assert read(f"zip://a.bin::{tmp_path}/a.zip") == data


def test_a_checksum_that_differs_is_told(tmp_path):
    write_zip(tmp_path / "a.zip", {"a.bin": b"0123456789"})
    changed(tmp_path / "a.zip", 38, b"X")
    assert message_of(DecodeError, read, f"zip://a.bin::{tmp_path}/a.zip") == CHECKSUM
    image = io.BytesIO()
    Image.new("RGB", (100, 100)).save(image, "BMP")
    write_zip(tmp_path / "b.zip", {"a.bmp": image.getvalue()})
    changed(tmp_path / "b.zip", 20_000, b"X")  # behind what headers read
    frame = dfgen.build_manifest(tmp_path / "b.zip")
    found = dfgen.verify(frame, decode=True)
    assert found[["change", "detail"]].values.tolist() == [["broken", CHECKSUM]]


def test_what_a_zip_packs_otherwise_is_refused_by_its_method(tmp_path):
    write_zip(tmp_path / "a.zip", {"a.bin": b"1" * 99}, zipfile.ZIP_LZMA)
    with pytest.raises(DecodeError) as error:
        read(f"zip://a.bin::{tmp_path}/a.zip")
    assert str(error.value) == problem_of(f"zip://a.bin::{tmp_path}/a.zip")
    assert str(error.value) == (
        "it is packed by the method lzma, which is not read: pack it again by deflate, or with "
        "zip -0, as images are packed already"
    )


def test_a_bomb_is_not_unpacked(tmp_path):
    write_zip(tmp_path / "a.zip", {"a.bin": bytes(1 << 20)}, zipfile.ZIP_DEFLATED)
    path = f"zip://a.bin::{tmp_path}/a.zip"
    for name, begin in (
        ("decoded_bytes", "the member has 1,048,576 bytes, of 1,"),
        ("file_bytes", "the file has 1,048,576 bytes, more than limits."),
    ):
        store = Archives().within(dfgen.Limits(**{name: 10_000}))
        for ask in (store.read, store.open):
            with pytest.raises(DecodeError) as error:
                ask(path)
            assert str(error.value).startswith(begin)
            assert f"limits=dfgen.Limits({name}=1048576)" in str(error.value)
    data = (tmp_path / "a.zip").read_bytes()  # it says that it is small
    small = data.replace((1 << 20).to_bytes(4, "little"), (5000).to_bytes(4, "little"))
    (tmp_path / "a.zip").write_bytes(small)
    with pytest.raises(DecodeError, match="it says that the member has 5,000 bytes, it has other"):
        read(path)


def test_names_that_leave_an_archive_or_come_twice_are_left_out_by_name(tmp_path):
    path = tmp_path / "a.zip"
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "w") as archive:
        for value, name in enumerate(
            ("../a.png", "/b.png", "c/../../d.png", "e.png", "e.png", "std::f.png", ".h/g.png",
             "__MACOSX/._e.png", "i.txt", "j")
        ):  # fmt: skip
            archive.writestr(name, png(value))
    with pytest.warns(UserWarning) as told:
        frame = dfgen.build_manifest(path)
    assert frame["id"].tolist() == ["e.png", "std::f.png"]
    assert pixels(frame) == [4, 5]
    assert str(told[0].message).splitlines() == [
        "Left out: 1 path, .txt: i.txt",
        "Left out: 2 paths, hidden: .h, __MACOSX/._e.png",
        "Left out: 3 paths, name that leaves the archive, or cannot be one in it: /b.png, "
        "../a.png, c/../../d.png",
        "Left out: 1 path, repeated name in the archive; the last one counts: e.png",
        "Left out: 1 path, without extension: j",
        "Move files that are no samples elsewhere.",
    ]


def test_names_of_zips_are_utf8_or_of_code_page_437(tmp_path):
    path = tmp_path / "a.zip"
    write_zip(path, {"Aaaa.bin": b"1", "Bbbb.bin": b"2", "\u4e2d.bin": b"3"})
    data = path.read_bytes()
    data = data.replace(b"Aaaa", "\u00e4\u00e4".encode())  # as macOS writes it, without the flag
    path.write_bytes(data.replace(b"Bbbb", b"\x84\x84\x84\x84"))  # as MS-DOS does
    for name in ("\u00e4\u00e4.bin", "\u00e4" * 4 + ".bin", "\u4e2d.bin"):
        assert len(read(f"zip://{name}::{path}")) == 1
    path.write_bytes(data.replace("\u4e2d".encode(), b"\xff\xfe\xfd"))  # no UTF-8 though it says so
    assert read(f"zip://\udcff\udcfe\udcfd.bin::{path}") == b"3"


def test_backslashes_are_slashes_in_zips_of_ms_dos_and_nowhere_else(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for row, (name, system) in enumerate(
            [("cat\\1.png", 0), ("cat\\", 0), ("cat/b\\2.png", 0), ("cat\\3.png", 3)]
        ):
            info = zipfile.ZipInfo("name")
            info.filename, info.create_system = name, system
            archive.writestr(info, png(row))
    frame = dfgen.build_manifest(path)
    assert frame["id"].tolist() == ["cat\\3.png", "cat/1.png", "cat/b\\2.png"]
    assert pixels(frame) == [3, 0, 2]


def test_several_tars_in_one_file_are_refused(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, {"0.png": png(0)})
    whole = path.read_bytes()
    path.write_bytes(whole + b"garbage" * 100)  # tar does not look at it
    assert read(f"tar://0.png::{path}") == png(0)
    path.write_bytes(whole + whole)
    assert message_of(DecodeError, read, f"tar://0.png::{path}") == (
        "the file holds several tar archives, and one begins at byte 10,240: unpack it with "
        "tar --ignore-zeros -xf a.tar and make one of them"
    )


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_of_all_kinds_with_long_names_and_links(tmp_path, form):
    long = "f" * 90 + "/" + "n" * 90 + ".png"
    contents = {"./a.png": png(1), long: png(2), "\u00e4.png": png(3)}
    path = tmp_path / "a.tar"
    write_tar(path, contents, form)
    with tarfile.open(path, "a", format=form) as archive:
        for name, kind, target in (
            ("x/hard.png", tarfile.LNKTYPE, "./a.png"),
            ("x/soft.png", tarfile.SYMTYPE, "../a.png"),
            ("x/again.png", tarfile.SYMTYPE, "soft.png"),
            ("x/loop.png", tarfile.SYMTYPE, "loop.png"),
            ("x/out.png", tarfile.SYMTYPE, "/etc/passwd"), ("folder", tarfile.DIRTYPE, ""),
            ("pipe.png", tarfile.FIFOTYPE, ""),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    for name, value in (("a.png", 1), (long, 2), ("\u00e4.png", 3), ("x/hard.png", 1),
                        ("x/soft.png", 1), ("x/again.png", 1)):  # fmt: skip
        assert read(f"tar://{name}::{path}") == png(value)
    for name, target in (("x/loop.png", "x/loop.png"), ("x/out.png", "/etc/passwd")):
        with pytest.raises(DecodeError) as error:
            read(f"tar://{name}::{path}")
        told = f"it is a link to {target!r}, which is no file of the archive"
        assert str(error.value) == problem_of(f"tar://{name}::{path}") == told
    with pytest.raises(MissingFileError):
        read(f"tar://pipe.png::{path}")


def test_damage_of_a_tar_is_told(tmp_path):
    path = tmp_path / "a.tar"
    write_tar(path, {f"{row}.png": png(row) for row in range(5)}, tarfile.USTAR_FORMAT)
    whole = path.read_bytes()
    not_end = "there is no header of a member at byte {}, and not its end either"
    zeros = (
        "it ends without the zeros that end a tar archive, and may lack members; if it is whole, "
        "add them: head -c 1024 /dev/zero >> FILE"
    )
    for data, message in (
        (whole[:1024], zeros),
        (whole[:1100], not_end.format("1,024")),
        (whole[:1024] + b"x" * 512 + whole[1536:], not_end.format("1,024")),
        (whole[: 512 + 20], "unexpected end of data"),
    ):
        path.write_bytes(data)
        assert message_of(DecodeError, read, f"tar://0.png::{path}") == DAMAGED.format(message)
        with pytest.raises(ManifestError, match="the archive is damaged or cut short"):
            dfgen.build_manifest(path)


@pytest.mark.parametrize(
    ("kind", "size", "time", "message"),
    [
        (b"0", -512, 7, "the member 'a' has -512 bytes, of the time 7, and ends 0 bytes after the "
                        "one before"),
        (b"S", -1024, 7, "the member 'a' has 0 bytes, of the time 7, and ends -512 bytes after the "
                         "one before"),
        (b"0", 0, 2**62, f"the member 'a' has 0 bytes, of the time {2**62}, and ends 512 bytes "
                         "after the one before"),
        (b"x", -512, 7, "read length must be non-negative or -1"),
        (b"L", 2**62, 7, "a header says that it has more bytes than memory"),
    ],
)  # fmt: skip
def test_numbers_that_no_member_has_are_damage_and_end_no_process(
    tmp_path, kind, size, time, message
):
    head = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    head[156:157] = kind
    for place, number in ((124, size), (136, time)):  # as GNU writes what is not in octal digits
        head[place : place + 12] = number.to_bytes(12, "big", signed=True)
        head[place] |= 0x80
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    write_tar(tmp_path / "b.tar", {"b.png": png(1)}, tarfile.GNU_FORMAT)
    before = (tmp_path / "b.tar").read_bytes()[:1024]
    (tmp_path / "a.tar").write_bytes(before + head + bytes(2048))
    with pytest.raises(DecodeError) as error:
        read(f"tar://b.png::{tmp_path}/a.tar")
    assert str(error.value) == DAMAGED.format(message)


def test_a_compressed_tar_is_refused_with_advice(pets):
    shutil.make_archive("pets", "gztar", "pets")
    assert message_of(ManifestError, dfgen.build_manifest, "pets.tar.gz") == (
        "source=pets.tar.gz cannot be read: the tar archive is compressed as a whole, so that no "
        "member can be read without all before it: make a plain one, gunzip -k pets.tar.gz"
    )
    frame = pd.DataFrame({"path": ["tar://0.png::pets.tar.gz"]})
    with pytest.raises(DecodeError, match=r"compressed as a whole, .* gunzip -k pets\.tar\.gz"):
        dfgen.Sequence(frame, image_size=(8, 8))[0]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("zip://a.png", "'zip://a.png' names no archive, expected the member and then the "
         'archive: "zip://a.png::photos.zip"'),
        ("zip://a.png::s3://b/c.zip", "'zip://a.png::s3://b/c.zip' is in an archive that is not on "
         "a disk, and archives are read from disks alone: copy it to one, or give the files as "
         "they are, unpacked in the store"),
        ("tar://a.png::zip://b.tar::c.zip", "'tar://a.png::zip://b.tar::c.zip' is in an archive "
         "within an archive, which cannot be read at random: unpack the outer one"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_path_of_a_member_is_refused(path, message):
    assert message_of(DecodeError, read, path) == message
    with pytest.raises(ArgumentError):
        dfgen.build_manifest(path)


def test_a_member_or_archive_that_is_missing_is_named_with_what_is_near(pets):
    frame = dfgen.build_manifest("pets.zip", pattern=PATTERN)
    frame["path"] = [path.replace("//cat/", "//cats/") for path in frame["path"]]
    assert message_of(MissingFileError, pixels, frame).endswith(
        f"the archive '{pets}/pets.zip' has no member 'cats/1.png'"
    )
    os.rename("pets.zip", "there.zip")
    with pytest.raises(MissingFileError, match=f"there is no archive '{pets}/pets.zip'"):
        pixels(frame)
    with pytest.raises(MissingFileError):
        dfgen.build_manifest("zip://::pets.zip")


def test_an_archive_that_is_replaced_is_opened_anew(tmp_path):
    store, path = Archives(), f"zip://a.bin::{tmp_path}/a.zip"
    for data in (b"one", b"three"):
        write_zip(tmp_path / "new.zip", {"b": b"x", "a.bin": data})
        os.replace(tmp_path / "new.zip", tmp_path / "a.zip")
        assert store.read(path) == data
    (tmp_path / "a.zip").unlink()
    with pytest.raises(MissingFileError):
        store.read(path)
    store.close()


def test_archives_are_known_by_how_they_begin_then_by_their_names(tmp_path):
    write_zip(tmp_path / "zip", {"a": b"1"})
    write_zip(tmp_path / "empty", {})
    write_tar(tmp_path / "tar", {"a": b"1"}, tarfile.USTAR_FORMAT)
    begins = {name: (tmp_path / name).read_bytes() for name in ("zip", "empty", "tar")}
    begins |= {"spanned": b"PK\x07\x08", "packed": b"\x1f\x8b", "text": b"text"}
    for begin, name, kind in (
        ("zip", "a", "zip"), ("empty", "b.jar", "zip"), ("spanned", "c", "zip"),
        ("zip", "d.npz", None), ("zip", "e.NPZ", None), ("zip", "f.tar", "zip"),
        ("tar", "g", "tar"), ("tar", "h.npz", "tar"), ("tar", "i.zip", "tar"),
        ("packed", "j.tgz", "tar"), ("packed", "k.csv.gz", None), ("packed", "l.zip", "tar"),
        ("text", "m.ZIP", "zip"), ("text", "n.tar.xz", "tar"), ("text", "o.png", None),
    ):  # fmt: skip
        place = str(tmp_path / name)
        (tmp_path / name).write_bytes(begins[begin])
        assert archive_at(place) == (kind and Member(kind, "", place)), name
    assert archive_at(str(tmp_path)) is None and archive_at("zip://a::b") == ("zip", "a", "b")
    (tmp_path / "a::b.zip").write_bytes(begins["zip"])
    with pytest.raises(ArgumentError, match=r"^the path of the archive '.*' has :: in it: rename"):
        archive_at(str(tmp_path / "a::b.zip"))


def test_times_of_zips_are_those_of_ms_dos_or_of_unix_where_they_have_it(tmp_path):
    whole = struct.pack("<2HBi", 0x5455, 5, 1, 1_700_000_001)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, date, extra in (
            ("first", (1980, 1, 1, 0, 0, 0), b""),
            ("leap", (2024, 2, 29, 13, 44, 58), b""),
            ("last", (2107, 12, 31, 23, 59, 58), b""),
            ("before 1970", (1980, 1, 1, 0, 0, 0), struct.pack("<2HBi", 0x5455, 5, 1, -86_400)),
            ("unix", (2024, 2, 29, 13, 44, 58), struct.pack("<2H3s", 9, 3, b"abc") + whole),
            ("other", (1980, 1, 1, 0, 0, 2), struct.pack("<2HBi", 0x5455, 5, 2, 7)),
            ("short", (1980, 1, 1, 0, 0, 4), struct.pack("<2HB", 0x5455, 1, 1)),
        ):
            info = zipfile.ZipInfo(name, date)
            info.extra = extra
            archive.writestr(info, b"1")
    start = 315_532_800
    wanted = {"first": start, "leap": 1_709_214_298, "last": 4_354_819_198}
    wanted |= {
        "before 1970": -86_400,
        "unix": 1_700_000_001,
        "other": start + 2,
        "short": start + 4,
    }
    store = Archives()
    for name, seconds in wanted.items():
        assert store.head(f"zip://{name}::{tmp_path}/a.zip").mtime_ns == seconds * 10**9, name


@pytest.mark.parametrize("front", [b"", b"#!/bin/sh\n" * 9])
def test_large_zips_are_read_with_something_in_front_too(tmp_path, monkeypatch, front):
    """As zipfile writes archives of more than 4 GB: their numbers stand in other fields."""
    for name in ("ZIP64_LIMIT", "ZIP_FILECOUNT_LIMIT"):
        monkeypatch.setattr(zipfile, name, 3)
    path, data = tmp_path / "a.zip", {f"{row}": b"%d" % row * 50 for row in range(5)}
    write_zip(path, data, zipfile.ZIP_DEFLATED)
    whole = path.read_bytes()
    path.write_bytes(front + whole)
    for name, content in data.items():
        assert read(f"zip://{name}::{path}") == content
        assert Archives().head(f"zip://{name}::{path}").size == 50
    end = whole.index(b"PK\6\6")
    path.write_bytes(front + whole[:end] + b"PK\6\5" + whole[end + 4 :])
    with pytest.raises(DecodeError, match="the end that large archives have is missing"):
        read(f"zip://0::{path}")
    place = whole.index(b"\1\0\x18\0", whole.index(b"PK\1\2"))
    path.write_bytes(whole[: place + 2] + b"\x07" + whole[place + 3 :])
    with pytest.raises(DecodeError, match="a large member does not say how large it is"):
        read(f"zip://0::{path}")


@pytest.mark.parametrize("count", [10, pytest.param(66_000, marks=pytest.mark.slow)])
def test_zips_of_more_and_larger_members_than_old_ones_can_have(tmp_path, count):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for row in range(count):
            archive.writestr(zipfile.ZipInfo(f"{row}"), f"{row}")
        with archive.open("large", "w", force_zip64=True) as file:
            file.write(b"large")
    store = Archives()
    for name in ("0", f"{count - 1}", "large"):
        assert store.read(f"zip://{name}::{tmp_path}/a.zip") == name.encode()
    assert len(store.contents(Member("zip", "", f"{tmp_path}/a.zip")).names) == count + 1
    assert store.range(f"zip://large::{tmp_path}/a.zip", 1, 3) == b"ar"


def test_old_programs_count_more_than_65_535_members_of_a_zip_without_the_upper_digits(tmp_path):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("00000", b"same")
        start = archive.start_dir
    data = written.getvalue()
    records = b"".join(data[start : start + 46] + b"%05d" % row for row in range(65_537))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(records), start, 0)
    (tmp_path / "a.zip").write_bytes(data[:start] + records + end)
    assert Archives().read(f"zip://65536::{tmp_path}/a.zip") == b"same"


@pytest.mark.skipif(not shutil.which("zip"), reason="there is no zip")
def test_archives_of_info_zip(pets):
    os.symlink("1.png", "pets/cat/link.png")
    run = {"cwd": pets / "pets", "check": True}
    for options in (["-r"], ["-r0"], ["-rfz"], ["-ry"], ["-rP", "secret"]):
        subprocess.run(["zip", "-q", *options, f"../{options[0]}.zip", "."], **run)
    for name in ("-r", "-r0", "-rfz"):
        frame = dfgen.build_manifest(f"./{name}.zip", pattern="{_}/{name}.png")
        assert pixels(frame)[:3] == [1, 10, 11]
        loose = os.stat(pets / "pets/cat/1.png").st_mtime_ns
        assert frame["mtime_ns"][0] == loose // 10**9 * 10**9
    path = f"::{pets}/-ry.zip"
    assert problem_of(f"zip://cat/link.png{path}").startswith("it is a symbolic link: ")
    assert read(f"zip://cat/1.png{path}") == png(1)
    with pytest.raises(DecodeError, match=r"^it is encrypted: unpack the archive with"):
        read(f"zip://cat/1.png::{pets}/-rP.zip")


@pytest.mark.skipif(not shutil.which("tar"), reason="there is no tar")
def test_a_file_with_holes_is_the_problem_of_its_row(tmp_path):
    with open(tmp_path / "a.bin", "wb") as file:
        file.truncate(1 << 20)
    subprocess.run(["tar", "-cSf", tmp_path / "a.tar", "-C", tmp_path, "a.bin"], check=True)
    assert problem_of(f"tar://a.bin::{tmp_path}/a.tar") == (
        "it has holes (GNU's sparse format): write it without --sparse"
    )


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_file_system_that_gives_few_bytes_at_a_time_gives_all(pets, monkeypatch, kind):
    def few(file, nbytes, start, turns):
        return os.pread(file, min(nbytes, 7), start)

    monkeypatch.setattr(archive_index, "read_at", few)
    assert read(f"{kind}://cat/1.png::{pets}/pets.{kind}") == png(1)


@pytest.mark.skipif(not shutil.which("tar"), reason="there is no tar")
def test_archives_of_a_systems_tar(pets):
    os.link("pets/cat/1.png", "pets/cat/hard.png")
    for form in ("gnu", "pax", "ustar", "v7"):
        subprocess.run(["tar", f"--format={form}", "-cf", f"{form}.tar", "-C", "pets", "."])
        frame = dfgen.build_manifest(f"{form}.tar")
        assert frame["problem"].isna().all()
        assert pixels(frame) == pixels(dfgen.build_manifest("pets"))


def test_an_archive_is_closed_when_python_has_let_go_of_its_modules(tmp_path, monkeypatch):
    write_zip(tmp_path / "a.zip", {"a.png": png(0)})
    file = archive_index.ArchiveFile(str(tmp_path / "a.zip"))
    descriptor = file.descriptor
    monkeypatch.setattr(archive_index, "os", None)  # as at the end of Python
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
