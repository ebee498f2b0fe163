"""Manifests that hold the files themselves: no path, no file on a disk."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.building.build import build_manifest, split
from dfgen.manifest.building.file_facts import UNDECODABLE
from dfgen.manifest.diff import diff
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.io import read_manifest, write_manifest
from dfgen.manifest.table_reading import read_table
from dfgen.manifest.verify import verify
from dfgen.samples.features.image import Image
from dfgen.table.any_table import arrow_table


def png(row, height=4, width=6, **options):
    file = io.BytesIO()
    Pillow.fromarray(np.full((height, width, 3), row, np.uint8)).save(file, "PNG", **options)
    return file.getvalue()


def structs(rows):
    return [{"bytes": png(row), "path": f"{row}.png"} for row in range(rows)]


def frame(images, **columns):
    kinds = pd.Categorical(["cat", "dog"] * len(images))[: len(images)]
    rows = {"id": range(10, 10 + len(images)), "image": images, "kind": kinds, **columns}
    return pd.DataFrame(rows)


def of_bytes(rows):
    return [one["bytes"] for one in structs(rows)]


@pytest.fixture(params=[structs, of_bytes], ids=["structs", "bytes"])
def images(request):
    return request.param


def levels(manifest, rows):
    """Return the first pixel of each row, which is its number."""
    bound = bind(manifest, x=Image("image", size=(4, 6)), y="kind")
    found = []
    for row in range(rows):
        out = {name: np.empty(spec.shape, spec.dtype) for name, spec in bound.reader.specs.items()}
        bound.reader.read(row, out, None)
        found.append(int(out["image"][0, 0, 0]))
    return found


def test_a_manifest_that_holds_the_files_comes_back(images, tmp_path):
    path = tmp_path / "pets.parquet"
    write_manifest(frame(images(5)), path)
    df = read_manifest(path)
    assert list(df.columns) == ["id", "image", "kind"]
    assert df["image"].tolist() == images(5)
    assert isinstance(df["image"].dtype, pd.ArrowDtype)
    assert df["kind"].cat.categories.tolist() == ["cat", "dog"]
    assert levels(df[df["id"] > 12], 2) == [3, 4]
    assert levels(path, 5) == [0, 1, 2, 3, 4]
    write_manifest(df, tmp_path / "again.parquet")
    assert diff(path, tmp_path / "again.parquet").empty
    one, other = (read_table(tmp_path / f"{name}.parquet")[1] for name in ("pets", "again"))
    assert one.fingerprint == other.fingerprint
    assert one.root is None


def test_row_groups_are_small_where_files_are_large(tmp_path, monkeypatch):
    monkeypatch.setattr("dfgen.manifest.writing._GROUP_BYTES", 1000)
    write_manifest(frame(structs(20)), tmp_path / "pets.parquet")
    with pq.ParquetFile(tmp_path / "pets.parquet") as file:
        assert file.num_row_groups > 2
    assert levels(tmp_path / "pets.parquet", 20) == [*range(20)]


def test_the_fingerprint_is_that_of_the_bytes_and_paths(images):
    def told(images):
        return fingerprint(arrow_table(frame(images)))

    assert told(images(3)) == told(images(3))
    changed = images(3)
    changed[1] = images(9)[8]
    assert told(changed) != told(images(3))
    small = pa.table({"id": [1, 2], "image": pa.array([b"a", None], pa.binary())})
    large = pa.table({"id": [1, 2], "image": pa.array([b"a", None], pa.large_binary())})
    assert fingerprint(small) == fingerprint(large) == "efad5f810e3797e5bb53a95fae4ae396"


def test_differences_of_files_are_changes_told_by_size_and_digest(images):
    old, new = frame(images(3)), frame(images(3))
    new.at[1, "image"] = images(8)[7]
    found = diff(old, new)
    assert found[["change", "id", "column"]].values.tolist() == [["changed", 11, "image"]]
    name = "'{}.png' " if images is structs else ""
    for text, row in ((found["old"][0], 1), (found["new"][0], 7)):
        begin = f"{name.format(row)}({len(png(row)):,} bytes), "
        assert text.startswith(begin)
        assert len(text) == len(begin) + 16


def test_a_manifest_that_holds_the_files_is_split(images, tmp_path):
    write_manifest(frame(images(6)), tmp_path / "pets.parquet")
    shares = {"train": 0.5, "val": 0.5}
    found = split(tmp_path / "pets.parquet", shares, stratify="kind", out=tmp_path / "s.parquet")
    assert found["split"].value_counts().tolist() == [4, 2]
    assert read_manifest(tmp_path / "s.parquet")["split"].tolist() == found["split"].tolist()
    assert levels(found, 6) == [*range(6)]


def test_files_in_a_manifest_are_verified_against_its_facts(images, tmp_path):
    path = tmp_path / "pets.parquet"
    build_manifest(labels=frame(images(4)), path_column="image", out=path)
    assert verify(path).empty
    changed = read_manifest(path).assign(width=7)
    broken = images(4)
    broken[2] = {"bytes": b"no image", "path": "2.png"} if images is structs else b"no image"
    changed["image"] = broken
    found = verify(changed)
    assert found["change"].tolist() == ["broken", "changed", "changed", "changed"]
    assert found["id"].tolist() == [12, 10, 11, 13]
    assert found["detail"].tolist()[1] == "width 7 -> 6"
    paths = ["2.png", "0.png", "1.png", "3.png"] if images is structs else [None] * 4
    assert found["path"].astype(object).where(found["path"].notna(), None).tolist() == paths


def test_what_decoding_found_stays_with_the_same_bytes_alone(images, tmp_path):
    path = tmp_path / "pets.parquet"
    build_manifest(labels=frame(images(3)), path_column="image", out=path)
    known = read_manifest(path).assign(problem=[f"{UNDECODABLE}: cut short"] * 3)
    known.loc[1, "bytes"] += 1
    found = verify(known).set_index("id")["change"].to_dict()
    assert found == {10: "broken", 11: "changed", 12: "broken"}


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_facts_of_the_files_of_a_table_are_read(images, tmp_path):
    rows = images(4)
    turned = Pillow.Exif()
    turned[0x0112] = 6
    rows[1] = {"bytes": png(1, 3, 5, exif=turned), "path": "1.png"}
    rows[3] = {"bytes": b"no image", "path": "3.png"}
    rows = rows if images is structs else [*rows[:1], rows[1]["bytes"], rows[2], b"no image"]
    table = pa.Table.from_pandas(frame(rows))
    df = build_manifest(labels=table, path_column="image", split={"train": 0.5, "val": 0.5})
    assert list(df.columns[:4]) == ["id", "image", "kind", "split"]
    assert df["id"].tolist() == [10, 11, 12, 13]
    assert df["width"].tolist()[:3] == [6, 5, 6]
    assert df["orientation"].tolist()[:3] == [1, 6, 1]
    assert df["bytes"].tolist()[0] == len(png(0))
    assert df["mtime_ns"].isna().all()
    assert df["format"].tolist()[:3] == ["png"] * 3
    assert df["problem"].notna().tolist() == [False, False, False, True]
    with pytest.raises(ManifestError, match=r"1 of 4 rows have a problem, by the facts of the man"):
        bind(df, x=Image("image"), y="kind")
    bound = bind(df, x=Image("image", size=None), y="kind", on_error="skip")
    assert bound.reader.sizes["image"].tolist()[:3] == [[4, 6], [5, 3], [4, 6]]


def test_a_folder_of_parquet_files_of_datasets_becomes_a_manifest(tmp_path):
    for part, rows in enumerate((structs(5)[:2], structs(5)[2:])):
        table = pa.Table.from_pandas(frame(rows)[["image", "kind"]])
        pq.write_table(table, tmp_path / f"train-{part:05}-of-00002.parquet")
    df = build_manifest(labels=pq.read_table(tmp_path), path_column="image")
    assert df["id"].tolist() == [f"{row}.png" for row in range(5)]
    assert levels(df, 5) == [*range(5)]


def test_a_path_without_bytes_is_absolute_in_a_built_manifest(tmp_path):
    (tmp_path / "one.png").write_bytes(png(1))
    rows = [*structs(1), {"bytes": None, "path": "one.png"}]
    pq.write_table(pa.Table.from_pandas(frame(rows)), tmp_path / "rows.parquet")
    df = build_manifest(labels=tmp_path / "rows.parquet", path_column="image")
    assert [one["path"] for one in df["image"]] == ["0.png", str(tmp_path / "one.png")]
    assert df["width"].tolist() == [6, 6]
    assert levels(df, 2) == [0, 1]


def built(tmp_path, **arguments):
    return build_manifest(labels=frame(of_bytes(2)), path_column="image", **arguments)


def test_what_holds_files_does_not_grow(tmp_path):
    (tmp_path / "imgs").mkdir()
    (tmp_path / "imgs" / "a.png").write_bytes(png(0))
    build_manifest(tmp_path / "imgs", out=tmp_path / "files.parquet")
    built(tmp_path, out=tmp_path / "held.parquet")
    with pytest.raises(ArgumentError) as error:
        built(tmp_path, update=tmp_path / "files.parquet")
    assert str(error.value) == (
        "update= (--update) compares files by their paths and times, and the table holds the "
        "files themselves: build the manifest anew"
    )
    with pytest.raises(ManifestError) as error:
        build_manifest(tmp_path / "imgs", update=tmp_path / "held.parquet")
    assert str(error.value) == (
        f"{tmp_path}/held.parquet holds the files themselves, and update= (--update) compares "
        "files by their paths and times: build the manifest anew"
    )


def test_rows_without_ids_are_refused():
    with pytest.raises(ManifestError) as error:
        build_manifest(labels=frame(of_bytes(2))[["image", "kind"]], path_column="image")
    assert str(error.value) == (
        "the rows have no ids: there is no column id, and no path beside the bytes of each that is "
        "its own. Name the column that tells them apart, id= (--id). Columns: image, kind"
    )


def test_a_fact_is_no_place_for_files(tmp_path):
    with pytest.raises(ManifestError) as error:
        write_manifest(frame(of_bytes(2)).rename(columns={"image": "bytes"}), tmp_path / "m")
    assert str(error.value) == (
        'column "bytes" of the frame holds files, but in a manifest that is a fact of a file. '
        'Rename it: df = df.rename(columns={"bytes": "image"})'
    )


def test_ids_that_are_missing_are_told_without_paths(tmp_path):
    with pytest.raises(ManifestError) as error:
        write_manifest(frame(of_bytes(2)).assign(id=["a", None]), tmp_path / "m.parquet")
    assert "have no id: row 1" in str(error.value)
