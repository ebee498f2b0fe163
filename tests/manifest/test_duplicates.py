"""Digests and perceptual hashes of files; their copies, and copies in several splits."""

import hashlib
import os
import shutil
import warnings

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.duplicates import duplicates, leaks, near_pairs, usual_within
from dfgen.manifest.metadata import fingerprint

DRAWS = np.random.default_rng(0)


def picture(height=120, width=160):
    """Return colours whose spectrum falls by the frequency, as that of photographs does."""
    across, down = np.fft.fftfreq(width), np.fft.fftfreq(height)
    falling = 1 / np.maximum(np.hypot(*np.meshgrid(across, down)), 1 / width)
    waves = np.fft.ifft2(np.fft.fft2(DRAWS.normal(size=(3, height, width))) * falling).real
    waves = waves[:1] + waves / 3  # colours go together
    low, high = waves.min(), waves.max()
    return ((waves - low) / (high - low) * 255).astype(np.uint8).transpose(1, 2, 0)


def cropped(pixels, left, top, right, bottom):
    height, width = pixels.shape[:2]
    return pixels[
        round(top * height) : round((1 - bottom) * height),
        round(left * width) : round((1 - right) * width),
    ]


def encoded(pixels, suffix=".jpg", quality=92):
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else []
    return cv2.imencode(suffix, pixels, options)[1].tobytes()


COPIES = {
    "copied": lambda pixels: encoded(pixels),
    "saved as JPEG again": lambda pixels: encoded(pixels, quality=60),
    "saved as PNG": lambda pixels: encoded(pixels, ".png"),
    "half as large": lambda pixels: encoded(cv2.resize(pixels, None, fx=0.5, fy=0.5)),
    "a square": lambda pixels: encoded(cv2.resize(pixels, (224, 224))),
    "cropped all around": lambda pixels: encoded(cropped(pixels, 0.01, 0.01, 0.01, 0.01)),
    "cropped at the left": lambda pixels: encoded(cropped(pixels, 0.02, 0, 0, 0)),
    "cropped below": lambda pixels: encoded(cropped(pixels, 0, 0, 0, 0.02)),
}


def plain_pictures():
    """Pictures that say little, and are no copies: flat ones, a hair each, digits of 8 pixels."""
    flat = [np.full((96, 96, 3), 20 * number, np.uint8) for number in range(10)]
    hairs = [np.full((96, 96, 3), 255, np.uint8) for _ in range(10)]
    for number, hair in enumerate(hairs):
        cv2.line(hair, (5, 9 * number), (90, 90 - 9 * number), (0, 0, 0))
    small = [cv2.resize(picture(32, 32), (8, 8)) for _ in range(10)]
    return [encoded(pixels, ".png") for pixels in (*flat, *hairs, *small)]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The manifest of pictures that are no copies, and of one copy of each kind of the first."""
    folder = tmp_path_factory.mktemp("planted")
    pictures = [picture() for _ in range(24)]
    files = {f"{number:02}.jpg": encoded(pixels) for number, pixels in enumerate(pictures)}
    for number, (name, copy) in enumerate(COPIES.items()):
        files[f"{number:02} {name}.jpg"] = copy(pictures[number])
    files |= {f"plain {number}.png": data for number, data in enumerate(plain_pictures())}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return dfgen.build_manifest(folder, facts="full")


def test_copies_are_found_but_unlike_pictures_are_not(planted):
    found = duplicates(planted)
    names = found.groupby("group")["id"].apply(list).tolist()
    assert sorted(names) == [
        [f"{number:02} {name}.jpg", f"{number:02}.jpg"] for number, name in enumerate(COPIES)
    ]
    assert found["kind"].tolist() == ["exact"] * 2 + ["near"] * 14
    assert found["distance"].max() <= 8


def test_digest_covers_bytes_and_plain_pictures_lack_hash(planted):
    for row in planted.itertuples():
        with open(row.path, "rb") as file:
            assert row.digest == hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    plain = planted["id"].str.startswith("plain")
    assert planted["phash"].isna().tolist() == plain.tolist()
    assert planted["phash"].dtype == pd.UInt64Dtype()


def test_leaks_name_the_row_of_the_earlier_split(planted):
    frame = planted[planted["id"].str[:2].isin(["00", "05"])]
    frame = frame.assign(split=np.where(frame["id"].str.contains(" "), "val", "train"))
    again = frame[frame["id"] == "05.jpg"].assign(id="again", split="val")
    later = again.assign(id="later", split="train")  # the first of several copies is named
    found = leaks(pd.concat([frame, again, later]))
    columns = ["id", "split", "other_id", "other_split", "kind"]
    assert found[columns].values.tolist() == [
        ["00 copied.jpg", "val", "00.jpg", "train", "exact"],
        ["05 cropped all around.jpg", "val", "05.jpg", "train", "near"],
        ["again", "val", "05.jpg", "train", "same file"],
    ]
    assert found.index.tolist() == [*frame.index[[0, 2]], *again.index]
    assert found["distance"].tolist()[::2] == [0, 0]
    assert leaks(frame.assign(split="train")).columns.tolist() == found.columns.tolist()


def test_leak_names_nearest_copy_in_each_earlier_split():
    frame = pd.DataFrame(
        {
            "id": list("abcde"),
            "path": list("abcde"),
            "digest": list("abcde"),
            "phash": pd.array([0b1111, 0b111, 0, 0b1, None], "UInt64"),
            "split": pd.Categorical(["train", "train", "test", "val", "val"]),
        }
    )
    found = leaks(frame, within=3)
    assert found[["id", "other_id", "other_split", "distance"]].values.tolist() == [
        ["c", "b", "train", 3],
        ["d", "b", "train", 2],
        ["d", "c", "test", 1],
    ]
    assert duplicates(frame, within=1)["id"].tolist() == ["a", "b", "c", "d"]
    assert leaks(frame, within=0).empty
    folds = frame.drop(columns="split").assign(fold=[0, 1, 0, 1, 1])
    assert leaks(folds, within=1)["other_fold"].tolist() == [0, 0]


def test_foreign_table_keeps_all_hash_digits(planted):
    """Of whole numbers that are missing pandas makes floats."""
    table = pa.Table.from_pandas(planted).replace_schema_metadata()
    assert duplicates(table).equals(duplicates(planted))
    parts = dfgen.split(table, {"train": 0.5, "val": 0.5}, group_duplicates=True)
    assert leaks(parts).empty and parts["phash"].dtype == pd.UInt64Dtype()


def test_rows_of_one_file_are_no_copies():
    frame = pd.DataFrame({"id": range(3), "path": ["a", "a", "b"], "digest": "f", "phash": None})
    assert duplicates(frame[:2]).empty
    assert duplicates(frame)["id"].tolist() == [0, 1, 2]
    assert duplicates(frame.assign(index=range(3))).empty  # rows of arrays
    assert duplicates(frame.drop(columns="path"))["group"].tolist() == [0, 0, 0]
    alike = frame.assign(digest=None, phash=pd.array([1] * 3, "UInt64"))  # of unknown bytes
    assert duplicates(alike)["kind"].tolist() == ["near"] * 3


def test_columns_and_bits_are_checked(planted):
    for change, find, word in (
        (planted[["id", "path"]], duplicates, "digest"),
        (planted.drop(columns="split", errors="ignore"), leaks, "split"),
        (planted.assign(phash=planted["phash"].astype(float)), duplicates, "phash"),
    ):
        with pytest.raises(ManifestError, match=word):
            find(change)
    with pytest.raises(ArgumentError, match="within"):
        duplicates(planted, within=20)


@pytest.mark.parametrize("within", [0, 1, 4])
def test_near_pairs_match_a_full_comparison(within):
    hashes = DRAWS.integers(0, 2**64, 1200, dtype=np.uint64)
    for row in range(400):  # differs in 1 to 7 bits from another one
        bits = DRAWS.choice(64, 1 + row % 7, replace=False).astype(np.uint64)
        hashes[row] = hashes[row + 400] ^ np.bitwise_xor.reduce(np.uint64(1) << bits)
    one, other = np.triu_indices(1200, 1)
    near = np.array(
        [int(a ^ b).bit_count() for a, b in zip(hashes[one], hashes[other], strict=True)]
    )
    near = near <= within
    found = np.array(near_pairs(hashes, within)).T.tolist()
    assert sorted(found) == np.array([one[near], other[near]]).T.tolist()


def test_pictures_that_are_all_alike_are_no_copies():
    """Of hashes that have 44 bits in common."""
    alike = DRAWS.integers(0, 2**20, 3000, dtype=np.uint64)
    assert usual_within(np.unique(alike)) <= 1
    assert usual_within(DRAWS.integers(0, 2**64, 3000, dtype=np.uint64)) == 4


def test_undecodable_file_has_a_problem_and_digest(tmp_path):
    data = encoded(picture())
    for name, bytes in {"whole": data, "cut": data[:-2000], "none": b"", "no": b"text" * 9}.items():
        (tmp_path / f"{name}.jpg").write_bytes(bytes)
    limits = dfgen.Limits(decoded_bytes=50_000)
    with pytest.warns(UserWarning, match="3 problems"):
        frame = dfgen.build_manifest(tmp_path, facts="full").set_index("id")
    assert frame["problem"].dropna().str.split(":").str[0].to_dict() == {
        "cut.jpg": "cannot be decoded",
        "no.jpg": "not an image, array or sound that dfgen opens",
        "none.jpg": "the file is empty (0 bytes)",
    }
    assert frame["digest"].notna().to_dict() == {
        "cut.jpg": True, "no.jpg": False, "none.jpg": False, "whole.jpg": True
    }  # fmt: skip
    assert frame["phash"].notna().tolist() == [False, False, False, True]
    with pytest.warns(UserWarning, match="4 problems"):
        frame = dfgen.build_manifest(tmp_path, facts="full", limits=limits).set_index("id")
    assert frame["problem"]["whole.jpg"].startswith(
        "cannot be decoded: the image is 160 x 120, 57,600 bytes decoded"
    )


def in_pairs(rows):
    """Return a frame of which each two rows are copies, but for every fifth pair."""
    ids = np.arange(rows)
    apart = (ids // 2 % 5 == 0) * ids
    hashes = np.random.default_rng(1).integers(0, 2**64, rows, dtype=np.uint64)
    return pd.DataFrame(
        {
            "id": ids,
            "path": [f"{row}.png" for row in ids],
            "kind": pd.Categorical(np.where(ids % 3, "cat", "dog")),
            "digest": [f"{row // 2} {other}" for row, other in zip(ids, apart, strict=True)],
            "phash": pd.array(hashes, "UInt64"),
        }
    )


SHARES = {"train": 0.7, "val": 0.3}


@pytest.mark.parametrize(
    "how",
    [
        {"shares": SHARES},
        {"shares": SHARES, "stratify": "kind"},
        {"shares": SHARES, "group": "scene"},
        {"folds": 3},
        {"folds": 3, "stratify": "kind"},
    ],
)
def test_copies_stay_in_one_split(how):
    frame = in_pairs(300).assign(scene=lambda df: df["id"] // 3, time=lambda df: df["id"] * 7 % 300)
    with pytest.warns(UserWarning, match="with a picture of an earlier split too"):
        dfgen.split(frame, **how)
    found = dfgen.split(frame, **how, group_duplicates=True)
    assert leaks(found).empty
    part = found["split" if "shares" in how else "fold"]
    assert (part.value_counts(normalize=True) > 0.2).all()
    if "stratify" in how and "shares" in how:
        counts = pd.crosstab(found["kind"], part)
        assert counts.values.tolist() == [[140, 60], [70, 30]]
    if "group" in how:
        assert (part.astype(str).groupby(found["scene"]).nunique() == 1).all()


def test_grouping_without_copies_keeps_the_same_split():
    frame = in_pairs(300)[::2]
    for how in ({"shares": SHARES}, {"shares": SHARES, "stratify": "kind"}, {"folds": 4}):
        pd.testing.assert_frame_equal(
            dfgen.split(frame, **how), dfgen.split(frame, **how, group_duplicates=True)
        )


LEAK = (
    "2 rows with a picture of an earlier split too, as id {} of {} that of id {} of {}: "
    "they are trained on and measured on. Keep copies in one split, group_duplicates=True "
    "(--group-duplicates), or drop them: df.drop(dfgen.leaks(df).index)"
)
OF_VAL = LEAK.format('"val/0.png"', '"val"', '"train/0.png"', '"train"')


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    """A folder of train/ and val/, of which two pictures stand in both."""
    folder = tmp_path_factory.mktemp("leaking")
    pictures = [encoded(picture(48, 64), ".png") for _ in range(10)]
    for name, numbers in {"train": range(8), "val": (0, 1, 8, 9)}.items():
        (folder / "imgs" / name).mkdir(parents=True)
        for number in numbers:
            (folder / "imgs" / name / f"{number}.png").write_bytes(pictures[number])
    return folder


def built(folder, **how):
    """Build the manifest of a folder of splits, and return with it the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = dfgen.build_manifest(folder / "imgs", facts="full", **how)
    return frame, [str(one.message) for one in caught]


def warned(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make().close()
    return [str(one.message) for one in caught]


def test_handmade_splits_that_leak_are_warned_of(leaking):
    frame, _ = built(leaking, pattern="{place}/{file:int}.png")
    frame["split"] = frame.pop("place").astype(str)
    frame.loc[frame["id"].isin(["train/7.png", "val/9.png"]), "phash"] = None  # no copies
    with pytest.warns(UserWarning) as caught:
        dfgen.sequences(frame, image_size=(8, 8), y="file")
    assert [str(one.message) for one in caught] == [OF_VAL]
    folds = frame.drop(columns="split").assign(fold=(frame["split"] == "train") * 1)
    with pytest.warns(UserWarning, match='as id "val/0.png" of "val" that of id "train/0.png" of'):
        dfgen.sequences(folds, image_size=(8, 8), y="file", fold=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dfgen.sequences(frame.drop(dfgen.leaks(frame).index), image_size=(8, 8), y="file")


def test_recipe_keeps_copies_together_in_growing_manifest(leaking, tmp_path):
    how = {"split": {"train": 0.5, "val": 0.5}, "group_duplicates": True}
    shutil.copytree(leaking / "imgs", tmp_path / "imgs")
    frame, messages = built(tmp_path, out=tmp_path / "m.parquet", **how)
    assert messages == []
    assert frame.attrs["dfgen"]["recipe"]["group_duplicates"] is True
    for split, number in (("val", 8), ("val", 9), ("train", 3), ("train", 4)):
        shutil.copy(leaking / f"imgs/{split}/{number}.png", tmp_path / f"imgs/again {number}.png")
    grown = dfgen.build_manifest(update=tmp_path / "m.parquet")
    assert len(grown) == 16 and leaks(grown).empty
    assert len(duplicates(grown)) == 12
    assert grown["split"].tolist()[:12] == frame["split"].tolist()


def test_digest_finds_changed_byte_despite_size_and_time(tmp_path):
    noise = DRAWS.integers(0, 255, (40, 40, 3), np.uint8)
    (tmp_path / "imgs").mkdir()
    path = tmp_path / "imgs/a.bmp"
    path.write_bytes(encoded(noise, ".bmp"))
    before = os.stat(path)
    first = dfgen.build_manifest(tmp_path / "imgs", facts="full", out=tmp_path / "m.parquet")
    path.write_bytes(encoded(noise ^ 1, ".bmp"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert dfgen.verify(tmp_path / "m.parquet").empty
    [found] = dfgen.verify(tmp_path / "m.parquet", decode=True, write=True).to_dict("records")
    after = dfgen.read_manifest(tmp_path / "m.parquet")["digest"][0]
    assert (found["change"], found["detail"]) == (
        "changed",
        f"digest {first['digest'][0]} -> {after}",
    )
    assert dfgen.verify(tmp_path / "m.parquet", decode=True).empty


def test_fingerprint_differs_for_other_bytes_at_same_paths(planted):
    table = pa.table({"id": [1], "path": ["a"], "digest": ["0f"], "phash": [7]})
    assert fingerprint(table) != fingerprint(table.drop_columns(["digest"]))
    assert fingerprint(table) == fingerprint(table.drop_columns(["phash"]))
