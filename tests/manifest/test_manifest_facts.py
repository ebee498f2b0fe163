import os

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import dfgen
from dfgen.manifest.building import file_facts as reading
from dfgen.manifest.building.file_facts import UNDECODABLE, Access
from dfgen.manifest.building.scan import problems_now, read_facts
from dfgen.manifest.schema import SCHEMA, Fact

PROBLEMS = {
    "missing.jpg": "the file does not exist",
    "empty.jpg": "the file is empty (0 bytes)",
    "truncated.jpg": "broken jpeg header: ",
    "text.jpg": "not an image, array or sound that dfgen opens: ",
    "folder/inside.jpg": "the file does not exist",
}


@pytest.fixture
def folder(tmp_path):
    """Good files of several formats, and broken ones."""
    rgb = Image.new("RGB", (7, 5))
    exif = Image.Exif()
    exif[0x0112] = 6
    rgb.save(tmp_path / "turned.jpg", exif=exif)
    rgb.convert("L").save(tmp_path / "gray.png")
    Image.new("RGBA", (7, 5), (1, 2, 3, 4)).save(tmp_path / "alpha.webp")
    rgb.save(tmp_path / "truly_png.jpg", format="PNG")
    np.save(tmp_path / "array.npy", np.zeros((3, 4)))
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "truncated.jpg").write_bytes((tmp_path / "turned.jpg").read_bytes()[:20])
    (tmp_path / "text.jpg").write_text("not an image")
    (tmp_path / "folder").touch()
    return tmp_path


def facts_of(folder, *names, workers=None):
    return read_facts([f"{folder}/{name}" for name in names], Access(workers)).to_pylist()


def test_headers_are_read(folder):
    names = ("turned.jpg", "gray.png", "alpha.webp", "truly_png.jpg", "array.npy")
    keys = ("format", "width", "height", "channels", "orientation", "problem")
    facts = facts_of(folder, *names)
    assert [tuple(row[key] for key in keys) for row in facts] == [
        ("jpeg", 7, 5, 3, 6, None),
        ("png", 7, 5, 1, 1, None),
        ("webp", 7, 5, 4, 1, None),
        ("png", 7, 5, 3, 1, None),
        ("npy", None, None, None, 1, None),
    ]
    status = os.stat(folder / "gray.png")
    assert (facts[1]["bytes"], facts[1]["mtime_ns"]) == (status.st_size, status.st_mtime_ns)


@pytest.mark.parametrize(("name", "problem"), PROBLEMS.items())
def test_problems_are_named(folder, name, problem):
    [facts] = facts_of(folder, name)
    assert facts["problem"].startswith(problem)
    assert facts["format"] is None and facts["width"] is None
    assert (facts["bytes"] is None) == problem.startswith("the file does not")


@pytest.mark.parametrize("workers", [1, 2, 7, None])
def test_order_and_rows_are_the_same_for_any_number_of_workers(folder, workers):
    names = ["turned.jpg", "gray.png", "missing.jpg"] * 300
    facts = facts_of(folder, *names, workers=workers)
    assert [row["format"] for row in facts] == ["jpeg", "png", None] * 300


@pytest.mark.parametrize("first", [0, 2])
def test_problems_of_labels_stay_with_their_rows_in_columns_of_several_chunks(first):
    problems = [f"no label {row}" if row % 2 else None for row in range(9)]
    chunks = [pa.array(problems)[first:], pa.array([UNDECODABLE, "no label", None])]
    column = pa.chunked_array(chunks)
    rows = pa.table({"problem": column, "format": ["png"] * len(column)})
    facts = pa.table({"problem": pa.nulls(len(column), pa.string())})
    expected = [*problems[first:], None, "no label", None]
    assert problems_now(rows, facts).to_pylist() == expected


def test_an_impossible_name_is_a_problem():
    assert read_facts(["a\0b.jpg"])["problem"].to_pylist() == ["embedded null byte"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_a_problem_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.png")
    [facts] = facts_of(tmp_path, "x.png")
    assert facts["problem"] == "not a regular file"


@pytest.fixture
def pixels(monkeypatch):
    """A fact from outside, made of a header; and one of what the store says."""
    new = {
        "pixels": Fact(pa.int64(), of_header=lambda header: header.width and header.size[0] * 100),
        "kilobytes": Fact(pa.float32(), of_head=lambda head: head.size / 1000),
    }
    return lambda: [monkeypatch.setitem(SCHEMA, name, fact) for name, fact in new.items()]


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_fact_from_outside_is_one_line(folder, pixels):
    pixels()
    names = ["turned.jpg", "array.npy", "missing.jpg", "text.jpg"]
    found = facts_of(folder, *names)
    assert [row["pixels"] for row in found] == [700, None, None, None]
    sizes = [os.path.getsize(folder / name) if name[0] != "m" else None for name in names]
    assert [row["kilobytes"] for row in found] == [
        size and pytest.approx(size / 1000) for size in sizes
    ]
    os.unlink(folder / "folder")
    frame = dfgen.build_manifest(folder, out=f"{folder}.parquet")
    assert list(frame.columns[-3:]) == ["problem", "pixels", "kilobytes"]
    assert frame.set_index("id").loc["turned.jpg", "pixels"] == 700
    assert dfgen.read_manifest(f"{folder}.parquet")["pixels"].tolist() == frame["pixels"].tolist()
    found = dfgen.verify(f"{folder}.parquet")
    assert found["id"].tolist() == frame["id"][frame["problem"].notna()].tolist()
    assert set(found["change"]) == {"broken"}


def test_manifests_older_than_a_fact_read_only_what_is_new(folder, pixels, monkeypatch):
    for name in ("empty.jpg", "truncated.jpg", "text.jpg", "folder"):
        os.unlink(folder / name)
    dfgen.build_manifest(folder, out=f"{folder}.parquet")
    pixels()
    Image.new("RGB", (9, 4)).save(folder / "new.png")
    Image.new("RGB", (9, 5)).save(folder / "gray.png")
    opened, read = [], reading.header_of
    monkeypatch.setattr(
        reading,
        "header_of",
        lambda file, limits: opened.append(os.path.basename(file.name)) or read(file, limits),
    )
    assert dfgen.verify(f"{folder}.parquet")["change"].tolist() == ["changed"]
    frame = dfgen.build_manifest(update=f"{folder}.parquet", out=f"{folder}.parquet")
    assert opened == ["gray.png", "gray.png", "new.png"]
    known = frame.set_index("id")["pixels"].dropna()
    assert known.to_dict() == {"gray.png": 500, "new.png": 400}
    assert dfgen.verify(f"{folder}.parquet").empty
    assert opened == ["gray.png", "gray.png", "new.png"]
    assert frame["width"].notna().sum() == 5
