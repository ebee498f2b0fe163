"""Manifests that hold the files themselves: no path, no file on a disk."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError


def png(row, height=4, width=6, **options):
    file = io.BytesIO()
    Pillow.fromarray(np.full((height, width, 3), row, np.uint8)).save(file, "PNG", **options)
    return file.getvalue()


def structs(rows):
    return [{"bytes": png(row), "path": f"{row}.png"} for row in range(rows)]


def of_bytes(rows):
    return [one["bytes"] for one in structs(rows)]


def frame(images, **columns):
    kinds = pd.Categorical(["cat", "dog"] * len(images))[: len(images)]
    rows = {"id": range(10, 10 + len(images)), "image": images, "kind": kinds, **columns}
    return pd.DataFrame(rows)


@pytest.fixture(params=[structs, of_bytes], ids=["structs", "bytes"])
def images(request):
    return request.param


def levels(manifest):
    """Return the first pixel of each row, which is its number."""
    x = dfgen.Image("image", size=(4, 6))
    with dfgen.Sequence(manifest, x, "kind", shuffle=False, batch_size=3) as seq:
        return [int(pixels[0, 0, 0]) for batch, _ in seq for pixels in np.asarray(batch)]


def test_a_manifest_that_holds_the_files_comes_back(images, tmp_path):
    path = tmp_path / "pets.parquet"
    dfgen.write_manifest(frame(images(5)), path)
    df = dfgen.read_manifest(path)
    assert [*df] == ["id", "image", "kind"] and df["image"].tolist() == images(5)
    assert isinstance(df["image"].dtype, pd.ArrowDtype)
    assert levels(df[df["id"] > 12]) == [3, 4] and levels(path) == [0, 1, 2, 3, 4]
    dfgen.write_manifest(df, tmp_path / "again.parquet")
    assert dfgen.diff(path, tmp_path / "again.parquet").empty
    assert df.attrs["dfgen"]["root"] is None


def test_file_differences_show_size_and_digest(images):
    old, new = frame(images(3)), frame(images(3))
    new.at[1, "image"] = images(8)[7]
    found = dfgen.diff(old, new)
    assert found[["change", "id", "column"]].values.tolist() == [["changed", 11, "image"]]
    for text, row in ((found["old"][0], 1), (found["new"][0], 7)):
        assert f"({len(png(row)):,} bytes), " in text and (images is of_bytes or f"{row}.p" in text)


def test_a_manifest_that_holds_the_files_is_split(images, tmp_path):
    dfgen.write_manifest(frame(images(6)), tmp_path / "pets.parquet")
    shares = {"train": 0.5, "val": 0.5}
    out = tmp_path / "s.parquet"
    found = dfgen.split(tmp_path / "pets.parquet", shares, stratify="kind", out=out)
    assert found["split"].value_counts().tolist() == [4, 2] and levels(found) == [*range(6)]
    assert dfgen.read_manifest(out)["split"].tolist() == found["split"].tolist()


def test_embedded_files_are_verified_against_facts(images, tmp_path):
    path = tmp_path / "pets.parquet"
    dfgen.build_manifest(labels=frame(images(4)), path_column="image", out=path)
    assert dfgen.verify(path).empty
    changed, broken = dfgen.read_manifest(path).assign(width=7), images(4)
    broken[2] = {"bytes": b"no image", "path": "2.png"} if images is structs else b"no image"
    changed["image"] = broken
    found = dfgen.verify(changed)
    assert found["change"].tolist() == ["broken", "changed", "changed", "changed"]
    assert found["id"].tolist() == [12, 10, 11, 13] and found["detail"][1] == "width 7 -> 6"


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_facts_of_embedded_files_are_read(images):
    rows, exif = images(4), Pillow.Exif()
    exif[0x0112] = 6
    for row, data in ((1, png(1, 3, 5, exif=exif)), (3, b"no image")):
        rows[row] = {"bytes": data, "path": f"{row}.png"} if images is structs else data
    table = pa.Table.from_pandas(frame(rows))
    df = dfgen.build_manifest(labels=table, path_column="image", split={"a": 0.5, "b": 0.5})
    assert [*df][:4] == ["id", "image", "kind", "split"] and df["id"].tolist() == [10, 11, 12, 13]
    assert df["width"].tolist()[:3] == [6, 5, 6] and df["orientation"].tolist()[:3] == [1, 6, 1]
    assert df["bytes"][0] == len(png(0)) and df["mtime_ns"].isna().all()
    assert df["problem"].notna().tolist() == [False, False, False, True]
    with pytest.raises(DfgenError, match="1 of 4"):
        dfgen.Sequence(df, dfgen.Image("image"), "kind")


def test_parquet_files_of_datasets_become_a_manifest(tmp_path):
    for part, rows in enumerate((structs(5)[:2], structs(5)[2:])):
        table = pa.Table.from_pandas(frame(rows)[["image", "kind"]])
        pq.write_table(table, tmp_path / f"train-{part:05}-of-00002.parquet")
    df = dfgen.build_manifest(labels=pq.read_table(tmp_path), path_column="image")
    assert df["id"].tolist() == [f"{row}.png" for row in range(5)] and levels(df) == [*range(5)]


def test_path_without_bytes_becomes_absolute_in_built_manifest(tmp_path):
    (tmp_path / "one.png").write_bytes(png(1))
    rows = [*structs(1), {"bytes": None, "path": "one.png"}]
    pq.write_table(pa.Table.from_pandas(frame(rows)), tmp_path / "rows.parquet")
    df = dfgen.build_manifest(labels=tmp_path / "rows.parquet", path_column="image")
    assert [one["path"] for one in df["image"]] == ["0.png", str(tmp_path / "one.png")]
    assert df["width"].tolist() == [6, 6] and levels(df) == [0, 1]


def test_rows_without_ids_and_updates_are_refused(tmp_path):
    (tmp_path / "imgs").mkdir()
    (tmp_path / "imgs/a.png").write_bytes(png(0))
    files, held = tmp_path / "files.parquet", tmp_path / "held.parquet"
    dfgen.build_manifest(tmp_path / "imgs", out=files)
    table = {"labels": frame(of_bytes(2)), "path_column": "image"}
    dfgen.build_manifest(**table, out=held)
    with pytest.raises(ArgumentError, match="update="):
        dfgen.build_manifest(**table, update=files)
    with pytest.raises(ManifestError, match=r"held\.parquet(.|\n)*update="):
        dfgen.build_manifest(tmp_path / "imgs", update=held)
    with pytest.raises(ManifestError, match="id="):
        dfgen.build_manifest(labels=frame(of_bytes(2))[["image", "kind"]], path_column="image")
    with pytest.raises(ManifestError, match='"bytes"'):
        dfgen.write_manifest(frame(of_bytes(2)).rename(columns={"image": "bytes"}), held)
