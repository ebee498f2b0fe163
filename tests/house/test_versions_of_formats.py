"""Every later version reads what this one has written: files of format 1 lie in tests/data."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from data.make_formats_1 import CLASSES, FOLDER, IDS, KINDS, frame, pixels_of

import dfgen
from dfgen.binding.preprocessing_json import FORMAT as PREPROCESSING_FORMAT
from dfgen.loading.state import _VERSION as STATE_VERSION
from dfgen.manifest.parts import PARTS_FORMAT
from dfgen.manifest.schema import MANIFEST_FORMAT
from dfgen.packs.pack_index import PACK_FORMAT

PAGE = Path(__file__).parents[2] / "docs/about/versions.md"
WRITTEN = {
    "manifest, one file": MANIFEST_FORMAT,
    "manifest in parts": PARTS_FORMAT,
    "pack": PACK_FORMAT,
    "state of a training": STATE_VERSION,
    "preprocessing beside a model": PREPROCESSING_FORMAT,
}


@pytest.fixture
def old(tmp_path):
    """A copy of the files, where more may be written beside them."""
    return shutil.copytree(FOLDER, tmp_path / "old")


def test_the_page_names_the_versions_that_are_written():
    lines = re.findall(r"^\| ([\w, ]+) \| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {name: int(version) for name, version in lines} == WRITTEN


def test_a_manifest_in_parts_is_read(old):
    df = dfgen.read_manifest(old / "pets.manifest", root=old)
    assert df["id"].tolist() == IDS
    assert df["kind"].tolist() == KINDS and [*df["kind"].cat.categories] == CLASSES
    assert [Path(path).name for path in df["path"]] == [f"{row}.png" for row in range(6)]


@pytest.mark.parametrize("kind", ["pixels", "original"])
def test_a_pack_is_read(old, kind):
    seq = dfgen.Sequence(old / kind, y="kind", image_size=(4, 4), batch_size=6, shuffle=False)
    images, labels = seq[0]
    rows = [IDS.index(one) for one in seq.ids(0)]  # a pack has an order of its own
    assert sorted(rows) == [*range(6)] and seq.class_names == CLASSES
    assert np.array_equal(images, np.stack([pixels_of(row) for row in rows]))
    assert [CLASSES[label] for label in labels] == [KINDS[row] for row in rows]
    assert dfgen.verify(old / kind).empty


def test_a_state_goes_on_after_the_rows_that_it_had(old, tmp_path):
    seq = dfgen.Sequence(frame(tmp_path), y="kind", image_size=(4, 4), batch_size=2, seed=3)
    seq.load_state_dict(json.loads((old / "state.json").read_text("utf-8")))
    rest = [*seq]
    assert [images[:, 0, 0, 0].tolist() for images, _ in rest] == [[2, 0]]


def test_a_preprocessing_does_to_a_row_what_training_did(old, tmp_path):
    path = frame(tmp_path)["path"][4]
    preprocessing = dfgen.load_preprocessing(old / "preprocessing.json")
    assert preprocessing.class_names == CLASSES
    assert np.array_equal(preprocessing(path), pixels_of(4)[None])
