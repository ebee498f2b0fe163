"""Digests and perceptual hashes of files; their copies, and copies in several splits."""

import hashlib

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ManifestError
from dfgen.manifest.duplicates import duplicates, leaks, usual_within
from dfgen.manifest.near_hashes import bits_between, near_pairs

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


def test_planted_copies_are_found_and_unlike_pictures_are_not(planted):
    found = duplicates(planted)
    names = found.groupby("group")["id"].apply(list).tolist()
    assert sorted(names) == [
        [f"{number:02} {name}.jpg", f"{number:02}.jpg"] for number, name in enumerate(COPIES)
    ]
    assert found["kind"].tolist() == ["exact"] * 2 + ["near"] * 14
    assert found["distance"].max() <= 8


def test_a_digest_is_that_of_the_bytes_and_plain_pictures_have_no_hash(planted):
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
    found = leaks(pd.concat([frame, again]))
    columns = ["id", "split", "other_id", "other_split", "kind"]
    assert found[columns].values.tolist() == [
        ["00 copied.jpg", "val", "00.jpg", "train", "exact"],
        ["05 cropped all around.jpg", "val", "05.jpg", "train", "near"],
        ["again", "val", "05.jpg", "train", "same file"],
    ]
    assert found.index.tolist() == [*frame.index[[0, 2]], *again.index]
    assert found["distance"].tolist()[::2] == [0, 0]
    assert leaks(frame.assign(split="train")).columns.tolist() == found.columns.tolist()


def test_of_several_copies_a_leak_names_the_nearest_in_each_earlier_split():
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


def test_rows_of_one_file_are_no_copies_of_each_other():
    frame = pd.DataFrame({"id": range(3), "path": ["a", "a", "b"], "digest": "f", "phash": None})
    assert duplicates(frame[:2]).empty
    assert duplicates(frame)["id"].tolist() == [0, 1, 2]
    assert duplicates(frame.assign(index=range(3))).empty  # rows of arrays
    assert duplicates(frame.drop(columns="path"))["group"].tolist() == [0, 0, 0]


def test_what_copies_are_found_by_must_be_there(planted):
    with pytest.raises(ManifestError) as caught:
        duplicates(planted[["id", "path"]])
    assert str(caught.value) == (
        'the manifest has no column "digest", by which copies are found. Build it, or let it grow, '
        'with facts="full" (--facts full), which decodes every file once. Columns: id, path'
    )
    with pytest.raises(ManifestError) as caught:
        leaks(planted[["id", "path", "digest", "phash"]])
    assert str(caught.value) == (
        'the manifest has neither "split" nor "fold", between which copies could leak. Make one: '
        "dfgen.split. Columns: id, path, digest, phash"
    )
    with pytest.raises(ManifestError) as caught:
        duplicates(planted.assign(phash=planted["phash"].astype(float)))
    assert str(caught.value) == (
        'the column "phash" holds double, expected whole numbers of 64 bits: as it is read from '
        "Parquet"
    )


def test_near_pairs_are_those_of_comparing_all_with_all():
    hashes = DRAWS.integers(0, 2**64, 400, dtype=np.uint64)
    for row in range(200):  # in 1 to 13 bits another than one before
        bits = DRAWS.choice(64, 1 + row % 13, replace=False).astype(np.uint64)
        hashes[row] = hashes[row + 200] ^ np.bitwise_xor.reduce(np.uint64(1) << bits)
    one, other = np.triu_indices(400, 1)
    apart = bits_between(hashes[one], hashes[other])
    assert apart.tolist() == [
        int(a ^ b).bit_count() for a, b in zip(hashes[one], hashes[other], strict=True)
    ]
    for within in (0, 1, 3, 8):
        pairs = np.array(near_pairs(hashes, within)).T.tolist()
        near = apart <= within
        assert sorted(pairs) == np.array([one[near], other[near], apart[near]]).T.tolist()


def test_pictures_that_are_all_alike_are_no_copies():
    """Of hashes that have 44 bits in common."""
    alike = DRAWS.integers(0, 2**20, 3000, dtype=np.uint64)
    assert usual_within(np.unique(alike)) <= 1
    assert usual_within(DRAWS.integers(0, 2**64, 3000, dtype=np.uint64)) == 8


def test_what_cannot_be_decoded_is_a_problem_and_has_a_digest(tmp_path):
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
