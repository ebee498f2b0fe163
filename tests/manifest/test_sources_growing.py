"""What holds for every source: its manifest is rebuilt from its recipe, grows, and is verified."""

import os
from pathlib import Path

import annotated
import h5py
import numpy as np
import pandas as pd
import pytest
from annotated import box

import dfgen
from dfgen.errors import ManifestError
from dfgen.manifest.building import file_facts

pytestmark = pytest.mark.filterwarnings("ignore:Split")  # they are too small

NAMES = ["b", "d", "c"]  # the one that follows later sorts between the others
HALVES = {"split": {"train": 0.5, "val": 0.5}}


def images(folder, count):
    for name in NAMES[:count]:
        if not os.path.exists(f"{folder}/{name}.png"):  # what is there stays unchanged
            annotated.image(f"{folder}/{name}.png")


def of_files(count):
    images("images/cat", count)
    return {"source": "images", "pattern": "{kind}/{name}.png"}


def of_table(count):
    images("images", count)
    kinds = ["cat", "dog", "ant"][:count]
    table = pd.DataFrame({"file": [f"{n}.png" for n in NAMES[:count]], "kind": kinds})
    table.to_csv("t.csv", index=False)
    return {"labels": "t.csv", "path_column": "file", "root": "images"}


def of_voc(count, **options):
    images("images", count)
    for name, kind in list(zip(NAMES, ["cat", "dog", "ant"], strict=True))[:count]:
        annotated.xml(f"xml/{name}.xml", (kind, 1, 2, 3, 4), ("cat", 5, 6, 7, 9))
    return {"voc": "xml", "images": "images", **options}


def of_boxes(count):
    return of_voc(count, box_label="each")


def of_year(count):
    images("VOC2007/JPEGImages", count)
    images("VOC2007/SegmentationClass", count)
    os.makedirs("VOC2007/ImageSets/Main", exist_ok=True)
    for name in NAMES[:count]:
        annotated.xml(f"VOC2007/Annotations/{name}.xml", ("cat", 1, 2, 3, 4))
    Path("VOC2007/ImageSets/Main/train.txt").write_text("\n".join(NAMES[:count]))
    return {"voc": "VOC2007", "image_sets": "VOC2007/ImageSets/Main"}


def of_named_voc(count):
    return of_voc(count, class_names=["dog", "cat", "ant"])


def of_coco(count, path="c.json"):
    images("images", count)
    files = {10 * row: f"{name}.png" for row, name in enumerate(NAMES[:count])}
    boxes = [box(key, 5 - row, 1, 2, 3, 4) for row, key in enumerate(files)]
    names = {5: "cat", 4: "dog", 3: "ant"}
    known = {number: names[number] for number in sorted(names)[3 - count :]}
    annotated.coco(path, files, boxes, known)
    return {"coco": path, "images": "images"}


def of_coco_splits(count):
    of_coco(count, "train.json")
    if not os.path.exists("more"):
        annotated.image("more/z.png")
    annotated.coco("val.json", {7: "z.png"}, [box(7, 5, 1, 2, 3, 4)], {5: "cat"})
    files = {"train": "train.json", "val": "val.json"}
    return {"coco": files, "images": {"train": "images", "val": "more"}}


def of_yolo(count):
    images("images/train", count)
    os.makedirs("labels/train", exist_ok=True)
    for row, name in enumerate(NAMES[:count]):
        Path(f"labels/train/{name}.txt").write_text(f"{row} 0.5 0.25 0.5 0.25\n")
    Path("data.yaml").write_text(f"train: images/train\nnames: {['cat', 'dog', 'ant'][:count]}\n")
    return {"yolo": "data.yaml"}


def of_yolo_folders(count):
    images("pets/train/cat", count)
    return {"yolo": "pets"}


def of_labelme(count):
    images("pets", count)
    for name, kind in list(zip(NAMES, ["cat", "dog", "ant"], strict=True))[:count]:
        corners = [(1, 2), (9, 2), (9, 8)]
        annotated.labelme(f"pets/{name}.json", annotated.drawn(kind, "polygon", *corners))
    return {"labelme": "pets"}


def of_cvat(count):
    images("images", count)
    shapes = {
        f"{name}.png": [annotated.cvat_shape("polygon", kind, points=[(1, 2), (9, 2), (9, 8)])]
        for name, kind in list(zip(NAMES, ["cat", "dog", "ant"], strict=True))[:count]
    }
    return {"cvat": annotated.cvat("annotations.xml", shapes)}


def of_metadata(count):
    images("pets", count)
    table = pd.DataFrame({"file_name": [f"{n}.png" for n in NAMES[:count]], "age": range(count)})
    table.to_csv("pets/metadata.csv", index=False)
    return {"metadata": "pets"}


def of_listing(count):
    images("images", count)
    paths = [f"images/{name}.png" for name in NAMES[:count]]
    sizes = [os.stat(path).st_size for path in paths]
    pd.DataFrame({"path": paths, "size": sizes}).to_csv("files.csv", index=False)
    return {"listing": "files.csv"}


def of_addresses(count):
    paths = [f"gopher://bucket/{name}.png" for name in NAMES[:count]]
    pd.DataFrame({"path": paths, "size": 5}).to_csv("files.csv", index=False)
    return {"listing": "files.csv", "facts": "none"}


def of_npy(count):
    np.save("x.npy", np.zeros((count, 2)))
    return {"arrays": "x.npy"}


def of_hdf5(count):
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.zeros((count, 5, 5))
        file["kind"] = ["cat", "dog", "ant"][:count]
    return {"arrays": ["x.h5"]}


FILES = [
    of_files, of_table, of_voc, of_year, of_named_voc, of_boxes, of_coco, of_coco_splits, of_yolo,
    of_yolo_folders, of_labelme, of_cvat, of_metadata, of_listing,
]  # fmt: skip
ALL = [*FILES, of_addresses, of_npy, of_hdf5]


@pytest.fixture(params=ALL, ids=lambda make: make.__name__[3:])
def make(request, tmp_path, monkeypatch):
    """Writes a source of so many rows into the current folder; returns its arguments."""
    monkeypatch.chdir(tmp_path)
    return request.param


def build(make, count, **options):
    arguments = make(count)
    splits = {} if make in (of_year, of_coco_splits, of_yolo, of_yolo_folders) else HALVES
    return dfgen.build_manifest(**arguments, **{"out": "m.parquet", **splits, **options})


def test_an_update_without_news_gives_the_same_bytes_and_opens_nothing(make, monkeypatch):
    build(make, 3)
    monkeypatch.setattr(file_facts, "read_header", None)
    dfgen.build_manifest(update="m.parquet", out="again.parquet")
    assert Path("again.parquet").read_bytes() == Path("m.parquet").read_bytes()


@pytest.mark.filterwarnings("ignore:.* has new classes")
def test_an_update_adds_rows_and_moves_none(make):
    old = build(make, 2)
    make(3)
    new = dfgen.build_manifest(update="m.parquet", out="new.parquet")
    assert len(new) > len(old)
    columns = ["id", "path", *(["split"] if "split" in old else [])]
    pd.testing.assert_frame_equal(
        new[columns].head(len(old)).astype(object), old[columns].astype(object)
    )
    for name, label in old.attrs["dfgen"]["labels"].items():
        known = label.get("class_names", [])
        assert new.attrs["dfgen"]["labels"][name].get("class_names", [])[: len(known)] == known
    found = dfgen.diff("m.parquet", "new.parquet")
    assert set(found["change"]) <= {"added", "classes", "changed"}
    assert (found["change"] == "added").sum() == len(new) - len(old)
    pd.testing.assert_frame_equal(dfgen.read_manifest("new.parquet"), new)


@pytest.mark.slow
def test_verify_finds_what_the_manifest_lacks(make):
    frame = build(make, 2)
    if make is of_addresses:
        with pytest.raises(ManifestError, match="not on a disk, which dfgen does not look for"):
            dfgen.verify("m.parquet")
        return
    assert dfgen.verify("m.parquet").empty
    grown = make(3)
    found = dfgen.verify("m.parquet")
    new = found[found["change"] == "new"]
    whole = dfgen.build_manifest(**grown, facts="header")
    assert set(new["id"]) == set(whole["id"]) - set(frame["id"])
    changed = found[found["change"] != "new"]
    assert set(changed["path"]) <= {f"{Path.cwd()}/{name}" for name in ("x.npy", "x.h5")}


@pytest.mark.parametrize("make", FILES, indirect=True, ids=lambda make: make.__name__[3:])
def test_verify_finds_what_is_missing_broken_and_changed(make):
    frame = build(make, 3)
    lost, broken, changed = frame["path"].drop_duplicates()[:3]
    os.unlink(lost)
    Path(broken).write_bytes(b"x")
    annotated.image(changed, 50, 30)
    found = dfgen.verify("m.parquet", write=True)
    changes = dict(zip(found["path"], found["change"], strict=True))
    assert changes == {lost: "missing", broken: "broken", changed: "changed"}
    mended = dfgen.read_manifest("m.parquet")
    assert mended["id"].tolist() == frame["id"].tolist()
    assert mended["problem"].notna().sum() == frame["path"].isin([lost, broken]).sum()
    again = dfgen.verify("m.parquet")
    assert dict(zip(again["path"], again["change"], strict=True)) == {
        lost: "missing", broken: "broken"
    }  # fmt: skip
    assert again["detail"].str.endswith(" (as the manifest says)").all()


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_problem_of_the_labels_outlives_verify_and_update(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images("images", 2)
    annotated.xml("xml/b.xml", ("cat", 1, 2, 1, 4))
    annotated.xml("xml/d.xml", ("cat", 1, 2, 3, 4))
    frame = dfgen.build_manifest(voc="xml", images="images", out="m.parquet")
    problem = "a box is empty: cat (1, 2, 1, 4), the image is 40 x 30 pixels"
    assert frame["problem"].fillna("").tolist() == [problem, ""]
    assert dfgen.verify("m.parquet").empty
    os.utime("images/b.png", ns=(1, 1))
    assert dfgen.verify("m.parquet", write=True)["change"].tolist() == ["changed"]
    assert dfgen.read_manifest("m.parquet")["problem"].fillna("").tolist() == [problem, ""]
    annotated.xml("xml/b.xml", ("cat", 1, 2, 3, 4))
    assert dfgen.build_manifest(update="m.parquet")["problem"].isna().all()


def test_a_new_split_keeps_the_boxes_of_an_image_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build(of_boxes, 3)
    for seed in range(9):
        frame = dfgen.split("m.parquet", HALVES["split"], seed=seed, out="new.parquet")
        assert (frame.groupby("path")["split"].nunique() == 1).all()
        again = dfgen.build_manifest(update="new.parquet")
        pd.testing.assert_frame_equal(again, frame)
        again = dfgen.build_manifest(**again.attrs["dfgen"]["recipe"])
        pd.testing.assert_frame_equal(again, frame)
