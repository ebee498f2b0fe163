"""What decoding to the end finds in files whose headers are fine."""

import hashlib
import io
import os

import cv2
import h5py
import numpy as np
import pandas as pd
import pytest
import soundfile
from command import run
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError
from dfgen.manifest.building import file_facts
from dfgen.manifest.building.file_facts import decode_whole
from dfgen.stores.stores import Stores

NOISE = np.random.default_rng(0).integers(0, 255, (64, 96, 3), np.uint8)


def by_pillow(format, **options):
    file = io.BytesIO()
    Image.fromarray(NOISE).save(file, format, **options)
    return file.getvalue()


def by_soundfile(format, subtype):
    file = io.BytesIO()
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, (30_000, 2))
    soundfile.write(file, sound, 8000, format=format, subtype=subtype)
    return file.getvalue()


def hdf5():
    file = io.BytesIO()
    with h5py.File(file, "w") as arrays:
        rows = np.random.default_rng(0).integers(0, 99, (50, 40))
        arrays.create_dataset("x", data=rows, chunks=(5, 40), compression="gzip", fletcher32=True)
    return file.getvalue()


def npy():
    file = io.BytesIO()
    np.save(file, NOISE)
    return file.getvalue()


WHOLE = {
    "jpg": by_pillow("JPEG"),
    "progressive.jpg": by_pillow("JPEG", progressive=True),
    "png": by_pillow("PNG"),
    "opencv.png": cv2.imencode(".png", NOISE)[1].tobytes(),
    "webp": by_pillow("WEBP"),
    "lossless.webp": by_pillow("WEBP", lossless=True),
    "tif": by_pillow("TIFF"),
    "deflated.tif": by_pillow("TIFF", compression="tiff_adobe_deflate"),
    "gif": by_pillow("GIF"),
    "bmp": by_pillow("BMP"),
    "flac": by_soundfile("FLAC", "PCM_16"),
    "wav": by_soundfile("WAV", "PCM_16"),
    "npy": npy(),
    "h5": hdf5(),
}


def halved(data):
    return data[: len(data) // 2]


def garbled(data):
    """Return a file of the same length with other bytes within."""
    place = 3 * len(data) // 4
    return data[:place] + bytes([255]) * 64 + data[place + 64 :]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    return tmp_path


def build(folder, files):
    """Write files, and build a manifest of them that has their ids, names without dots."""
    for name, data in files.items():
        (folder / "files" / f"a.{name}").write_bytes(data)
    names = pd.DataFrame({"id": list(files), "file": [f"files/a.{name}" for name in files]})
    return dfgen.build_manifest(labels=names, path_column="file", out="m.parquet")


def cut_in_silence(path, change):
    """Damage a file, and give it the time that it had."""
    before = os.stat(path)
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_decodes_to_its_end(folder, name):
    path = folder / f"a.{name}"
    path.write_bytes(WHOLE[name])
    header, fault, *_ = decode_whole(str(path), Stores())
    assert (header.format, fault) == (build(folder, {name: WHOLE[name]})["format"][0], None)


def test_whole_files_have_no_finding(folder):
    build(folder, WHOLE)
    assert dfgen.verify("m.parquet", decode=True).empty
    done = run("verify", "m.parquet", "--decode")
    assert (done.returncode, done.stdout) == (0, "no difference\n")


CUT = ["jpg", "progressive.jpg", "png", "opencv.png", "tif", "gif", "bmp", "flac"]
CUT_IN_HEADER = ["webp", "lossless.webp", "deflated.tif", "wav", "npy", "h5"]


def test_only_decoding_finds_truncation_behind_good_headers(folder):
    frame = build(folder, {name: halved(WHOLE[name]) for name in CUT} | {"whole.png": WHOLE["png"]})
    assert frame["problem"].isna().all()
    assert dfgen.verify("m.parquet").empty
    found = dfgen.verify("m.parquet", decode=True)
    assert found["id"].tolist() == CUT
    assert set(found["change"]) == {"broken"}
    assert found["detail"].str.startswith("cannot be decoded: ").all()
    details = found.set_index("id")["detail"]
    assert details["jpg"] == "cannot be decoded: broken jpeg file: Premature end of JPEG file"
    assert details["png"] == "cannot be decoded: the PNG is cut short"
    assert details["gif"].startswith("cannot be decoded: broken gif file: image file is truncated")


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize("name", CUT_IN_HEADER)
def test_truncation_is_found_in_formats_with_length(folder, name):
    build(folder, {name: halved(WHOLE[name])})
    assert dfgen.verify("m.parquet", decode=True)["change"].tolist() == ["broken"]


@pytest.mark.parametrize("name", ["png", "deflated.tif", "flac", "h5"])
def test_decoding_finds_changed_bytes_despite_size_and_time(folder, name):
    build(folder, {name: WHOLE[name]})
    cut_in_silence(folder / f"files/a.{name}", garbled)
    assert dfgen.verify("m.parquet").empty
    assert dfgen.verify("m.parquet", decode=True)["change"].tolist() == ["broken"]


def test_decoding_problem_stays_for_the_unchanged_file(folder):
    frame = build(folder, {"jpg": halved(WHOLE["jpg"]), "png": WHOLE["png"]})
    problem = "cannot be decoded: broken jpeg file: Premature end of JPEG file"
    [found] = dfgen.verify("m.parquet", decode=True, write=True).to_dict("records")
    assert found == {
        "change": "broken", "id": "jpg", "path": frame["path"][0], "detail": problem
    }  # fmt: skip
    after = dfgen.read_manifest("m.parquet")
    assert after["problem"].tolist()[0] == problem
    assert after["width"].tolist() == [96, 96]
    for decode in (False, True):
        [again] = dfgen.verify("m.parquet", decode=decode, write=True).to_dict("records")
        assert again["detail"] == problem
        pd.testing.assert_frame_equal(dfgen.read_manifest("m.parquet"), after)
    (folder / "files/a.jpg").write_bytes(WHOLE["jpg"])
    [mended] = dfgen.verify("m.parquet", write=True).to_dict("records")
    assert (mended["change"], mended["id"]) == ("changed", "jpg")
    assert dfgen.read_manifest("m.parquet")["problem"].isna().all()


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_manifest_that_grows_keeps_what_decoding_found(folder):
    (folder / "files/a.jpg").write_bytes(halved(WHOLE["jpg"]))
    dfgen.build_manifest("files", out="m.parquet")
    dfgen.verify("m.parquet", decode=True, write=True)
    (folder / "files/b.png").write_bytes(WHOLE["png"])
    grown = dfgen.build_manifest(update="m.parquet")
    assert grown["problem"].str.startswith("cannot be decoded: ").tolist()[0]
    assert grown["problem"].isna().tolist() == [False, True]


def test_decodable_file_is_no_longer_broken(folder):
    frame = build(folder, {"jpg": WHOLE["jpg"]})
    dfgen.write_manifest(frame.assign(problem="cannot be decoded: no such codec"), "m.parquet")
    assert dfgen.verify("m.parquet")["detail"].tolist() == ["cannot be decoded: no such codec"]
    [found] = dfgen.verify("m.parquet", decode=True, write=True).to_dict("records")
    assert (found["change"], found["detail"]) == ("changed", "it can be decoded")
    assert dfgen.read_manifest("m.parquet")["problem"].isna().all()
    assert dfgen.verify("m.parquet").empty


def test_files_that_a_table_holds_are_decoded(folder):
    frame = pd.DataFrame({"id": [1, 2, 3], "image": [WHOLE["png"], halved(WHOLE["png"]), npy()]})
    dfgen.build_manifest(labels=frame, path_column="image", out="m.parquet")
    assert dfgen.verify("m.parquet").empty
    found = dfgen.verify("m.parquet", decode=True, write=True)
    assert found[["change", "id"]].to_numpy().tolist() == [["broken", 2]]
    [again] = dfgen.verify("m.parquet").to_dict("records")
    assert again["detail"] == found["detail"][0]


def test_missing_facts_of_older_manifests_are_accepted(folder):
    frame = build(folder, {"jpg": WHOLE["jpg"]})
    assert dfgen.verify(frame.drop(columns=["bits", "frames"]), decode=True).empty
    assert dfgen.verify(frame.assign(bits=pd.array([None], "Int16")), decode=True).empty


def test_decoding_sounds_needs_the_sound_package(folder, monkeypatch):
    build(folder, {"flac": WHOLE["flac"]})

    def none():
        raise ArgumentError("dfgen.Audio needs the package soundfile")

    monkeypatch.setattr(file_facts, "load_soundfile", none)
    with pytest.raises(ArgumentError, match="needs the package soundfile"):
        dfgen.verify("m.parquet", decode=True, write=True)


def test_verify_writes_nothing_by_default(folder):
    build(folder, {"jpg": halved(WHOLE["jpg"])})
    before = hashlib.sha256((folder / "m.parquet").read_bytes()).hexdigest()
    dfgen.verify("m.parquet", decode=True)
    assert hashlib.sha256((folder / "m.parquet").read_bytes()).hexdigest() == before
