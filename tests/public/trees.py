"""Folders of the layouts that annotation tools write; the red of each image is its row number."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image

import dfgen

SIZES = (40, 30), (25, 35), (7, 5)
FACTS = [
    "bytes", "mtime_ns", "format", "width", "height", "channels", "orientation", "bits", "frames",
    "sample_rate", "digest", "phash", "problem",
]  # fmt: skip


def image(path, row=0, size=(40, 30), **save):
    """Write an image of (width, height) whose red is 20 * row + 5; return its path."""
    pixels = np.full((size[1], size[0], 3), (20 * row + 5, 200 - row, 7), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **save)
    return path


def rows_of(images):
    """Return the row numbers of a batch of images."""
    reds = np.asarray(images)[:, 1, 1, 0].astype(float)
    return np.rint((reds - 5) / 20).astype(int).tolist()


def images(folder, names, sizes=SIZES):
    return [image(folder / name, row, sizes[row % len(sizes)]) for row, name in enumerate(names)]


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def plain(value):
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    missing = value is None or value is pd.NA or value != value
    return None if missing else value.item() if isinstance(value, np.generic) else value


def values(frame, *without):
    """Return the rows of a frame as plain dicts of all columns but facts."""
    rows = frame.drop(columns=[*FACTS, *without], errors="ignore").to_dict("records")
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def pets(folder, rows=12, **options):
    """Write images `imgs/{kind}/{id}.png` of two kinds; build and return their manifest."""
    for row in range(rows):
        image(folder / "imgs" / ("cat", "dog")[row % 2] / f"{row:03}.png", row % 12, (4, 3))
    return dfgen.build_manifest(folder / "imgs", pattern="{kind}/{id}.png", **options)


def tree(folder, rows, classes, annotation=None, **arguments):
    """Return a source: the arguments of its build, and the rows, with paths below the folder."""
    return SimpleNamespace(**locals())


def of_table(folder, kind):
    """A table whose keys and classes look like numbers and missing values."""
    frame = pd.DataFrame(
        {
            "object_id": ["007", "08", "1e3", "1_0", "7"],
            "file": [f"{row % 2}/n{row}.png" for row in range(5)],
            "kind": ["cat", "NA", "None", "dog", "cat"],
            "age": [3, 14, 15, 92, 65],
            "score": [0.5, 1.25, -2.0, 1e-3, 7.0],
        }
    )
    images(folder / "imgs", frame["file"])
    path = folder / f"labels{kind}"
    match kind.removesuffix(".gz"):
        case ".csv" | ".tsv":
            frame.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
        case ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        case ".parquet":
            frame.to_parquet(path, index=False)
        case ".xlsx":
            frame.to_excel(path, index=False)
    labels = {"frame": frame, "arrow": pa.Table.from_pandas(frame)}.get(kind, path)
    rows = values(frame.rename(columns={"object_id": "id", "file": "path"}))
    return tree(
        folder, [{**row, "path": f"imgs/{row['path']}"} for row in rows],
        {"kind": ["NA", "None", "cat", "dog"]}, path if kind[0] == "." else None,
        labels=labels, path_column="file", id="object_id", root=folder / "imgs",
    )  # fmt: skip


def of_pattern(folder):
    names = ["cat/a/x01.png", "cat/b/x002.png", "dog/a/x3.png", "dog/b/x04.png", "owl/c/x5.png"]
    images(folder / "imgs", names)
    rows = [{"id": name[7:-4], "path": f"imgs/{name}", "kind": name[:3]} for name in names]
    pattern = "{kind}/{_}/x{id}.png"
    classes = {"kind": ["cat", "dog", "owl"]}
    return tree(folder, rows, classes, source=folder / "imgs", pattern=pattern)


def voc_xml(path, objects, size=(40, 30)):
    """Write an annotation of objects (name, xmin, ymin, xmax, ymax)."""
    content = "".join(
        f"<object><name>{name}</name><pose>Left</pose><bndbox><xmin>{a}</xmin><ymin>{b}</ymin>"
        f"<xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>\n"
        for name, a, b, c, d in objects
    )
    if size:
        content += f"<size><width>{size[0]}</width><height>{size[1]}</height></size>"
    return text(path, f"<annotation><folder>x</folder>{content}</annotation>")


def of_voc(folder, sizes=((40, 30),)):
    """Images and XML files in parallel trees, as of ImageNet DET."""
    objects = [
        [("dog", 1, 2, 10, 12), ("cat", 0, 0, 40, 30), ("dog", 1, 1, 2, 2)], [],
        [("cat", 5, 5, 35, 9), ("ant", 5, 5, 11, 29)], [("dog", 3, 4, 9, 8)],
    ]  # fmt: skip
    names, labels = ["s/a", "s/b", "t/c", "t/u/d"], ["cat", "background", "ant", "dog"]
    rows = []
    for row, (name, things, label) in enumerate(zip(names, objects, labels, strict=True)):
        size = sizes[row % len(sizes)]
        image(folder / f"images/{name}.JPEG", row, size, quality=100, subsampling=0)
        voc_xml(folder / f"xml/{name}.xml", things, size)
        one = {"id": f"{name}.JPEG", "path": f"images/{name}.JPEG", "label": label}
        boxes = [list(map(float, box)) for _, *box in things]
        rows.append(one | {"boxes": boxes, "labels": [name for name, *_ in things]})
    classes = {"label": ["background", "ant", "cat", "dog"], "labels": ["ant", "cat", "dog"]}
    both = {"voc": folder / "xml", "images": folder / "images"}
    return tree(folder, rows, classes, folder / "xml/t/c.xml", **both)


def box(image_id, category_id, *bbox, **more):
    """Return an annotation as COCO has it; a box is x, y, width, height."""
    polygon = {"segmentation": [[1, 2, 3, 4, 5, 6]], "iscrowd": 0}
    keys = {"id": 1, "image_id": image_id, "category_id": category_id}
    return keys | {"bbox": bbox, "area": 1.5} | polygon | more


def coco(path, images, annotations=(), categories=(), size=(40, 30)):
    """Write a JSON file of images {id: file name}, categories {id: name} and annotations."""
    sizes = {"width": size[0], "height": size[1]} if size else {}
    document = {
        "images": [{"id": key, "file_name": name, **sizes} for key, name in images.items()],
        "categories": [{"id": key, "name": name} for key, name in dict(categories).items()],
        "annotations": list(annotations),
    }
    return text(path, json.dumps(document, indent=1))


def of_coco(folder, splits=False):
    """Category ids with gaps, in another order than the names; one file, or one a split."""

    def row(key, path, *boxes):
        """Boxes are (class, crowd, left, top, right, bottom)."""
        columns = {"labels": [name for name, *_ in boxes], "iscrowd": [one for _, one, *_ in boxes]}
        columns["boxes"] = [list(map(float, box)) for _, _, *box in boxes]
        columns["segmentation"] = ["[[1,2,3,4,5,6]]"] * len(boxes)
        split = {"split": path.split("/")[0]} if splits else {}
        return {"id": key, "path": path, **columns, **split}

    images(folder / "train", ["b.png", "a/1.png", "c.png"], SIZES[:1])
    boxes = [box(7, 90, 1, 2, 3, 4), box(12, 90, 9.5, 0, 6, 30)]
    boxes.append(box(7, 18, 0, 0, 40, 30, iscrowd=1))
    names, files = {90: "dog", 18: "yak", 44: "bee"}, {7: "b.png", 3: "a/1.png", 12: "c.png"}
    path = coco(folder / "c.json", files, boxes, names)
    rows = [
        row(7, "train/b.png", ("dog", False, 1, 2, 4, 6), ("yak", True, 0, 0, 40, 30)),
        row(3, "train/a/1.png"), row(12, "train/c.png", ("dog", False, 9.5, 0, 15.5, 30)),
    ]  # fmt: skip
    classes = {"labels": ["yak", "bee", "dog"]}
    if not splits:
        return tree(folder, rows, classes, path, coco=path, images=folder / "train")
    image(folder / "val/b.png", 3)
    other = coco(folder / "v.json", {9: "b.png"}, [box(9, 5, 1, 1, 2, 3)], {5: "ant", 18: "yak"})
    rows.append(row(9, "val/b.png", ("ant", False, 1, 1, 3, 4)))
    folders = {name: folder / name for name in ("train", "val")}
    both = {"coco": {"train": path, "val": other}, "images": folders}
    return tree(folder, rows, {"labels": [*classes["labels"], "ant"]}, path, **both)


def of_yolo(folder):
    rows = [
        ("train/a.png", [[10, 3.75, 30, 11.25], [0, 0, 10, 30]], ["dog", "yes"], None),
        ("train/b.png", [], [], None),
        ("val/c.png", [[0, 6, 20, 24]], ["yes"], [[0, 6, 20, 6, 10, 24]]),
        ("val/d.png", [[20, 15, 40, 30]], ["dog"], None),
    ]  # fmt: skip
    images(folder / "images", [name for name, *_ in rows], SIZES[:1])
    text(folder / "labels/train/a.txt", "1 0.5 0.25 0.5 0.25\n0 0.125 0.5 0.25 1\n\n")
    text(folder / "labels/val/c.txt", "0 0 0.2 0.5 0.2 0.25 0.8\n")
    path = text(folder / "labels/val/d.txt", "1 0.75 0.75 0.5 0.5\n")
    text(folder / "data.yaml", "train: images/train\nval: images/val\nnames: [yes, dog]\n")
    keys = ("id", "path", "split", "boxes", "labels", "polygons")
    rows = [[f"images/{name}"] * 2 + [name.split("/")[0], *rest] for name, *rest in rows]
    rows = [dict(zip(keys, row, strict=True)) for row in rows]
    return tree(folder, rows, {"labels": ["yes", "dog"]}, path, yolo=folder / "data.yaml")


TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".csv.gz", "frame", "arrow")
SOURCES = {
    "pattern": of_pattern,
    "voc": of_voc,
    "coco": of_coco,
    "coco splits": lambda folder: of_coco(folder, splits=True),
    "yolo": of_yolo,
} | {f"table {kind}": lambda folder, kind=kind: of_table(folder, kind) for kind in TABLES}
