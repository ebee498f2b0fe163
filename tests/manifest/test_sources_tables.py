"""Metadata of Hugging Face, and listings in place of a folder."""

import csv
import gzip
import json
import os

import annotated
import pandas as pd
import pytest
from contracts import SourceContract

import dfgen
from dfgen.errors import ManifestError, MissingFileError
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.path_pattern import parse_pattern


class TestMetadata(SourceContract):
    name = "metadata.csv"
    expected = [  # noqa: RUF012
        {"path": "b.png", "id": "007", "kind": "cat"},
        {"path": "a/1.png", "id": "8", "kind": None},
    ]

    def source(self, *arguments):
        return SOURCES["metadata"].read(*arguments)

    def frame(self):
        return pd.DataFrame(self.expected).rename(columns={"path": "file_name"})

    def make(self, folder):
        self.frame().to_csv(folder / self.name, index=False)
        return (f"{folder}/{self.name}",)

    def missing(self, folder):
        return (f"{folder}/nowhere.csv",)


class TestMetadataOfJsonLines(TestMetadata):
    name = "metadata.jsonl"

    def make(self, folder):
        self.frame().to_json(folder / self.name, orient="records", lines=True)
        return (str(folder),)


class TestMetadataOfSplits(TestMetadata):
    expected = [  # noqa: RUF012
        {"path": "test/x.png", "kind": "cat", "split": "test"},
        {"path": "train/x.png", "kind": "dog", "split": "train"},
    ]

    def make(self, folder):
        for row in self.expected:
            (folder / row["split"]).mkdir()
            table = pd.DataFrame({"file_name": ["x.png"], "kind": [row["kind"]]})
            table.to_parquet(folder / row["split"] / "metadata.parquet")
        return (str(folder),)


class TestListing(SourceContract):
    expected = [  # noqa: RUF012
        {"path": "cat/a.PNG", "bytes": 10, "mtime_ns": 10**18, "kind": "cat", "id": "a"},
        {"path": "dog/b.PNG", "bytes": 20, "mtime_ns": 10**18, "kind": "dog", "id": "b"},
    ]

    def source(self, *arguments):
        return SOURCES["listing"].read(*arguments)

    def make(self, folder):
        table = pd.DataFrame(
            {
                "Path": ["cat/a.PNG", "dog/b.PNG", "cat/.c.png", "x/", "notes.txt"],
                "Size": [10, 20, 30, 0, 40],
                "LastModifiedDate": ["2001-09-09T01:46:40.000Z"] * 5,
            }
        )
        table.to_csv(folder / "l.csv", index=False)
        return f"{folder}/l.csv", None, None, parse_pattern("{kind}/{id}.PNG")

    def missing(self, folder):
        return (f"{folder}/nowhere.csv",)


class TestInventory(TestListing):
    expected = [{"path": "a b+c.jpg", "bytes": 10, "mtime_ns": 10**18}]  # noqa: RUF012

    def make(self, folder):
        return (inventory(folder),)

    def missing(self, folder):
        return (f"{folder}/nowhere.json",)


def inventory(folder):
    """Write an S3 Inventory as S3 does, CSV with quoted keys; return its manifest."""
    rows = [
        ("pets", "a+b%2Bc.jpg", "TRUE", "FALSE", "10", "2001-09-09T01:46:40.000Z"),
        ("pets", "old.jpg", "FALSE", "False", "10", "2001-09-09T01:46:40.000Z"),
        ("pets", "gone.jpg", "true", "True", "", "2001-09-09T01:46:40.000Z"),
    ]
    (folder / "data").mkdir(exist_ok=True)
    with gzip.open(folder / "data/1.csv.gz", "wt", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    schema = "Bucket, Key, IsLatest, IsDeleteMarker, Size, LastModifiedDate"
    content = {
        "sourceBucket": "pets", "destinationBucket": "arn:aws:s3:::lists", "fileFormat": "CSV",
        "fileSchema": schema, "files": [{"key": "pets/all/data/1.csv.gz", "size": 1}],
    }  # fmt: skip
    (folder / "2026-01-01T00-00Z").mkdir(exist_ok=True)
    path = folder / "2026-01-01T00-00Z/manifest.json"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two images in folders, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for path in ("cat/a.png", "dog/b.png"):
        annotated.image(f"imgs/{path}")
    return tmp_path


def refused(error, **options):
    with pytest.raises(error) as caught:
        dfgen.build_manifest(**options)
    return str(caught.value)


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_metadata_becomes_a_manifest(data):
    table = pd.DataFrame(
        {"file_name": ["cat/a.png", "dog/b.png", "x.png"], "kind": ["c", "d", "c"]}
    )
    table.to_csv("imgs/metadata.csv", index=False)
    frame = dfgen.build_manifest(metadata="imgs")
    assert frame["id"].tolist() == ["cat/a.png", "dog/b.png", "x.png"]
    assert frame["path"].tolist()[0] == f"{data}/imgs/cat/a.png"
    assert frame["kind"].tolist() == ["c", "d", "c"]
    assert frame["problem"].fillna("").tolist() == ["", "", "the file does not exist"]


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_objects_of_metadata_become_boxes(data):
    objects = {"bbox": [[1, 2, 3, 4], [30, 2, 20, 4]], "categories": [0, 1]}
    rows = [
        {"file_name": "cat/a.png", "objects": {"bbox": [], "categories": []}},
        {"file_name": "dog/b.png", "objects": objects},
    ]
    (data / "imgs/metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    frame = dfgen.build_manifest(metadata="imgs/metadata.jsonl", out="m.parquet")
    assert [box.tolist() for box in frame["boxes"][1]] == [[1, 2, 4, 6], [30, 2, 50, 6]]
    assert frame["labels"][1].tolist() == [0, 1]
    assert frame["problem"][1] == (
        "a box is outside the image: 1 (30, 2, 50, 6), the image is 40 x 30 pixels"
    )
    pd.testing.assert_frame_equal(dfgen.read_manifest("m.parquet"), frame)


def test_metadata_that_cannot_be_used_is_refused(data):
    assert refused(MissingFileError, metadata="imgs") == (
        "imgs has no metadata.csv, metadata.jsonl, metadata.parquet, neither in itself nor in a "
        "folder a split"
    )
    pd.DataFrame({"filename": ["a.png"]}).to_csv("imgs/metadata.csv", index=False)
    assert refused(ManifestError, metadata="imgs") == (
        'imgs/metadata.csv has no column file_name. Did you mean "filename"? Columns: filename'
    )
    pd.DataFrame({"file_name": ["../../a.png"]}).to_csv("imgs/metadata.csv", index=False)
    assert refused(ManifestError, metadata="imgs").startswith(
        '1 of 1 paths of imgs/metadata.csv cannot be used: the path leaves its root by "..". '
    )
    pd.DataFrame({"file_name": ["a.png"], "width": [3]}).to_csv("imgs/metadata.csv", index=False)
    assert refused(ManifestError, metadata="imgs") == (
        'the column "width" of imgs is one that dfgen fills from the files. Rename it, name '
        "the columns that you want with label= (--label), or let dfgen fill none with "
        'facts="none" (--facts none)'
    )
    for folder, age in (("cat", 3), ("dog", "old")):
        rows = pd.DataFrame({"file_name": ["a.png"], "age": [age]})
        rows.to_parquet(f"imgs/{folder}/metadata.parquet")
    os.remove("imgs/metadata.csv")
    assert refused(ManifestError, metadata="imgs").startswith(
        "the tables imgs/cat/metadata.parquet, imgs/dog/metadata.parquet differ: "
    )
    (data / "imgs/metadata.csv").write_text("file_name")
    (data / "imgs/metadata.jsonl").write_text("{}")
    assert refused(ManifestError, metadata="imgs") == (
        "imgs has imgs/metadata.csv and imgs/metadata.jsonl: name the one that you mean"
    )


def test_a_listing_stands_in_for_the_folder(data):
    table = pd.DataFrame({"key": ["cat/a.png", "dog/b.png"], "size": [1, 2]})
    table.to_csv("l.csv", index=False)
    labels = pd.DataFrame({"name": ["a", "b"], "age": [3, 4]})
    options = {"pattern": "{kind}/{name}.png", "labels": labels, "on": "name", "root": "imgs"}
    frame = dfgen.build_manifest(listing="l.csv", facts="none", **options)
    assert frame["path"].tolist() == [f"{data}/imgs/cat/a.png", f"{data}/imgs/dog/b.png"]
    assert frame["kind"].tolist() == ["cat", "dog"]
    assert frame["age"].tolist() == [3, 4]
    assert frame["bytes"].tolist() == [1, 2]
    read = dfgen.build_manifest(listing="l.csv", **options)
    assert read["bytes"].tolist() == [os.path.getsize(path) for path in read["path"]]
    assert read["width"].tolist() == [40, 40]


def test_what_a_listing_has_beside_images_is_left_out_and_named(tmp_path):
    [chunk] = SOURCES["listing"].read(*TestListing().make(tmp_path))
    assert chunk.skipped == {"hidden": ["cat/.c.png"], "folder": ["x/"], ".txt": ["notes.txt"]}


def test_an_inventory_gives_addresses_or_paths_of_a_mounted_bucket(data):
    path = inventory(data)
    frame = dfgen.build_manifest(listing=path, facts="none", out="m.parquet")
    assert frame["id"].tolist() == ["a b+c.jpg"]
    assert frame["path"].tolist() == ["s3://pets/a b+c.jpg"]
    assert dfgen.read_manifest("m.parquet")["path"].tolist() == ["s3://pets/a b+c.jpg"]
    frame = dfgen.build_manifest(listing=path, facts="none", root="mnt")
    assert frame["path"].tolist() == [f"{data}/mnt/a b+c.jpg"]


def test_listings_that_cannot_be_used_are_refused(data):
    path = inventory(data)
    os.remove("data/1.csv.gz")
    assert refused(MissingFileError, listing=path, facts="none") == (
        f"{path} names pets/all/data/1.csv.gz, which is neither beside it nor in data/ beside it "
        "or one folder up"
    )
    for text, fault in (
        ('{"sourceBucket": "b"', "is broken JSON, "),
        ('{"sourceBucket": "b", "files": []}', "is JSON, but not as S3 writes the manifest.json "),
    ):
        (data / "x.json").write_text(text)
        assert refused(ManifestError, listing="x.json").startswith(f"x.json {fault}")
    pd.DataFrame({"pth": ["a.png"]}).to_csv("l.csv", index=False)
    assert refused(ManifestError, listing="l.csv") == (
        'l.csv has no column of paths. Columns: pth. Did you mean "pth"? Name it with path_column= '
        "(--path-column)"
    )
    assert dfgen.build_manifest(listing="l.csv", path_column="pth", facts="none").shape == (1, 2)
    pd.DataFrame({"path": ["../a.png"]}).to_csv("l.csv", index=False)
    assert refused(ManifestError, listing="l.csv").startswith(
        '1 of 1 paths of l.csv cannot be used: the path leaves its root by "..". '
    )
    pd.DataFrame({"path": ["a.png"], "size": ["big"]}).to_csv("l.csv", index=False)
    assert refused(ManifestError, listing="l.csv").startswith(
        "l.csv: paths, sizes or times are something else: "
    )


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"bbox": [[1, 2, 3, 4]], "categories": ["x", "y"]},
         "the objects of row 1 have 1 bbox and 2 categories"),
        ({"bbox": [None, [1, 2, 3, 4]], "categories": ["x", "y"]},
         "a bbox of row 1 is not x, y, width, height"),
        ({"bbox": [[[1, 2], [3, 4]]], "categories": ["x"]},
         "objects are not lists of bbox and categories: "),
        ({"bbox": [[1, 2, 3]], "categories": ["x"]},
         "a bbox of row 1 is not x, y, width, height"),
    ],
)  # fmt: skip
def test_objects_that_make_no_boxes_are_refused(tmp_path, objects, message):
    rows = [{"bbox": [], "categories": []}, objects]
    with open(tmp_path / "metadata.jsonl", "w") as file:
        for number, row in enumerate(rows):
            print(json.dumps({"file_name": f"{number}.png", "objects": row}), file=file)
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(metadata=tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/metadata.jsonl: {message}")


def test_objects_of_which_there_are_none_make_empty_boxes(tmp_path):
    row = {"file_name": "a.png", "objects": {"bbox": [], "categories": []}}
    (tmp_path / "metadata.jsonl").write_text(json.dumps(row))
    frame = dfgen.build_manifest(metadata=tmp_path, out=tmp_path / "m.parquet", facts="none")
    assert [len(frame[name][0]) for name in ("boxes", "labels")] == [0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not gzip", "cannot be read: Not a gzipped file (b'no'). Fetch it again"),
        (gzip.compress(b"x" * 99, mtime=0)[:-9],
         "cannot be read: Compressed file ended before the end-of-stream marker was reached. "
         "Fetch it again"),
        (gzip.compress(b'"pets","a.jpg"\n', mtime=0),
         "row 1 has 2 columns, expected 6: Bucket, Key, IsLatest, IsDeleteMarker, Size, "
         "LastModifiedDate"),
    ],
)  # fmt: skip
def test_broken_tables_of_an_inventory_are_named(tmp_path, content, message):
    path = inventory(tmp_path)
    (tmp_path / "data/1.csv.gz").write_bytes(content)
    with pytest.raises(ManifestError) as caught:
        dfgen.build_manifest(listing=path, facts="none")
    said = str(caught.value).removeprefix(f"{tmp_path}/data/1.csv.gz")
    assert said in (f" {message}", f", {message}")


def test_an_empty_table_of_an_inventory_has_no_rows(tmp_path):
    path = inventory(tmp_path)
    (tmp_path / "data/1.csv.gz").write_bytes(gzip.compress(b""))
    assert [len(chunk.rows) for chunk in SOURCES["listing"].read(path)] == [0]


@pytest.mark.parametrize(("digits", "kind"), [(18, int), (19, str)])
def test_ids_of_a_table_are_whole_numbers_where_64_bits_hold_each(tmp_path, digits, kind):
    ids = ["9" * digits, "7"]
    pd.DataFrame({"id": ids, "file": ["a.png", "b.png"]}).to_csv(tmp_path / "l.csv", index=False)
    labels = str(tmp_path / "l.csv")
    frame = dfgen.build_manifest(labels=labels, path_column="file", facts="none")
    assert frame["id"].tolist() == [*map(kind, ids)]
