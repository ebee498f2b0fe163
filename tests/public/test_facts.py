"""Facts of files: sizes, headers, digests, and hashes by which copies are recognised."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import dfgen
from public.trees import FACTS

FORMATS = {  # name -> mode, format, channels, bits
    "a.png": ("RGB", "png", 3, 8), "b.png": ("L", "png", 1, 8), "c.webp": ("RGBA", "webp", 4, 8),
    "d.bmp": ("RGB", "bmp", 3, 8), "e.jpg": ("RGB", "jpeg", 3, 8), "f.png": ("I;16", "png", 1, 16),
    "g.gif": ("L", "gif", None, 8), "h.tif": ("RGB", "tiff", 3, 8), "i.jpg": ("L", "jpeg", 1, 8),
    "j.jpg": ("RGB", "png", 3, 8),  # the content counts, not the extension
}  # fmt: skip


def test_header_facts_of_each_format(tmp_path):
    for row, (name, (mode, kind, *_)) in enumerate(FORMATS.items()):
        Image.new(mode, (7 + row, 5)).save(tmp_path / name, kind)
    np.save(tmp_path / "k.npy", np.zeros((3, 4)))
    frame = dfgen.build_manifest(tmp_path)
    assert frame["problem"].isna().all()
    for row, (name, (_, kind, channels, bits)) in enumerate(FORMATS.items()):
        facts, status = frame.iloc[row], os.stat(tmp_path / name)
        assert (facts["id"], facts["format"], facts["bits"]) == (name, kind, bits)
        assert channels in (None, facts["channels"]) and facts["frames"] == 1
        assert (facts["width"], facts["height"], facts["orientation"]) == (7 + row, 5, 1)
        assert (facts["bytes"], facts["mtime_ns"]) == (status.st_size, status.st_mtime_ns)
    array = frame.iloc[-1]
    assert array["format"] == "npy" and array[["width", "height"]].isna().all()


COPIES = [("0.jpg", "copy 0.jpg"), ("1.jpg", "copy 1.jpg"), ("2.jpg", "copy 2.png")]


@pytest.fixture
def copies(tmp_path):
    """Six photographs, and copies of 0 (same bytes), 1 (quality) and 2 (size)."""
    photographs = []
    for number in range(6):
        draws = np.random.default_rng(number).integers(0, 256, (6, 8, 3), np.uint8)
        photographs.append(Image.fromarray(draws).resize((160, 120), Image.Resampling.BICUBIC))
        photographs[-1].save(tmp_path / f"{number}.jpg", quality=92)
    (tmp_path / "copy 0.jpg").write_bytes((tmp_path / "0.jpg").read_bytes())
    photographs[1].save(tmp_path / "copy 1.jpg", quality=60)
    photographs[2].resize((80, 60)).save(tmp_path / "copy 2.png")
    return tmp_path


def test_none_header_and_full_differ_by_their_columns(copies):
    (copies / "3.jpg").write_bytes((copies / "3.jpg").read_bytes()[:-1500])
    assert [*dfgen.build_manifest(copies, facts="none")] == ["id", "path"]
    header = dfgen.build_manifest(copies).set_index("id")
    assert header["problem"].isna().all() and not {"digest", "phash"} & set(header)
    with pytest.warns(UserWarning, match=r"1 problem(.|\n)*3\.jpg"):
        full = dfgen.build_manifest(copies, facts="full").set_index("id")
    assert full.index[full["problem"].notna()].tolist() == ["3.jpg"]
    same = [name for name in header if name in FACTS and name != "problem"]
    pd.testing.assert_frame_equal(full[same], header[same])
    contents = full["path"].map(lambda path: Path(path).read_bytes())
    for content, digest in zip(contents, full["digest"], strict=True):
        assert (full["digest"] == digest).tolist() == (contents == content).tolist()
    bits = full["phash"].drop("3.jpg").astype("uint64").to_dict()
    pairs = [(a, b) for a in bits for b in bits if a < b and (bits[a] ^ bits[b]).bit_count() < 9]
    assert pairs == COPIES


def test_duplicates_and_leaks_name_copies(copies):
    frame = dfgen.build_manifest(copies, facts="full")
    groups = dfgen.duplicates(frame).groupby("group")["id"].apply(lambda ids: tuple(sorted(ids)))
    assert sorted(groups) == COPIES
    frame["split"] = np.where(frame["id"].str.startswith("copy"), "val", "train")
    found = dfgen.leaks(frame)[["id", "split", "other_id", "other_split"]]
    assert found.values.tolist() == [[copy, "val", first, "train"] for first, copy in COPIES]
    assert dfgen.leaks(frame.assign(split="train")).empty
    assert dfgen.duplicates(frame[frame["split"] == "train"]).empty


def test_group_duplicates_keeps_copies_in_one_split(copies):
    frame, used = dfgen.build_manifest(copies, facts="full"), 0
    for seed in range(8):
        found = dfgen.split(frame, {"a": 0.5, "b": 0.5}, group_duplicates=True, seed=seed)
        split = dict(zip(found["id"], found["split"], strict=True))
        assert all(split[first] == split[copy] for first, copy in COPIES)
        used += len(set(split.values())) == 2
    assert used > 4
