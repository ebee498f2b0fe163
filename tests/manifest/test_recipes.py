"""Recipes: TOML files of the arguments of a build, and the recipes of the repository."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from public.trees import box, coco, image, pets, text, values, voc_xml

import dfgen
from dfgen.demo import write_digits
from dfgen.errors import ArgumentError, MissingFileError

SHIPPED = Path(__file__).parents[2] / "manifests"


@pytest.fixture
def recipe(tmp_path):
    """A recipe in a folder beside the images."""
    pets(tmp_path, 6)
    content = 'source = "../imgs"\npattern = "{kind}/{id:int}.png"\nseed = 3\n'
    return text(tmp_path / "recipes/pets.toml", f"{content}split = {{a = 0.5, b = 0.5}}\n")


def shipped(folder, name, **options):
    """Build a copy of a recipe of the repository."""
    path = text(folder / "manifests" / name, (SHIPPED / name).read_text())
    return dfgen.build_manifest(path, out=path.with_suffix(".parquet"), **options)


def test_every_shipped_recipe_is_built_here():
    names = {"digits.toml", "listing.toml", "voc.toml", "coco.toml"}
    assert {path.name for path in SHIPPED.glob("*.toml")} == names


def test_digits(tmp_path):
    write_digits(tmp_path / "digits")
    frame = shipped(tmp_path, "digits.toml")
    assert len(frame) > 500 and frame["problem"].isna().all()
    assert frame["digit"].cat.categories.tolist() == [*"0123456789"]
    shares = pd.crosstab(frame["digit"], frame["split"], normalize="index")
    assert shares["train"].between(0.79, 0.81).all()


def test_listing(tmp_path):
    files = [f"{('cat', 'dog')[row % 2]}/{row}.png" for row in range(10)]
    for row, file in enumerate(files):
        image(tmp_path / "pets" / file, row)
    rows = pd.DataFrame({"file": files, "kind": ["cat", "dog"] * 5})
    rows.to_csv(tmp_path / "listing.csv", index=False)
    frame = shipped(tmp_path, "listing.toml")
    assert frame["path"].tolist() == [f"{tmp_path}/pets/{file}" for file in files]
    assert frame["split"].value_counts().to_dict() == {"train": 8, "val": 2}


def test_voc(tmp_path):
    root, kinds = tmp_path / "VOCdevkit/VOC2012", ["aeroplane", "dog", "tvmonitor"]
    for row in range(12):
        image(root / f"JPEGImages/2007_{row:06}.jpg", row)
        things = [(kinds[row % 3], 1, 2, 30, 20), ("cat", 1, 2, 3, 4)]
        voc_xml(root / f"Annotations/2007_{row:06}.xml", things)
    for split, rows in (("train", range(9)), ("val", range(9, 12))):
        lines = "".join(f"2007_{row:06}\n" for row in rows)
        text(root / f"ImageSets/Main/{split}.txt", lines)
    image(root / "SegmentationClass/2007_000002.png")
    frame = shipped(tmp_path, "voc.toml")
    assert frame["label"].tolist() == kinds * 4 and len(frame["label"].cat.categories) == 4
    assert frame["split"].value_counts().to_dict() == {"train": 9, "val": 3}
    assert frame["class_mask"].notna().tolist() == [row == 2 for row in range(12)]


def test_coco(tmp_path):
    for number, split in ((1, "train"), (2, "val")):
        names = {row: f"COCO_{split}2014_{row:012}.jpg" for row in (number, number + 10)}
        for name in names.values():
            image(tmp_path / f"coco/{split}2014" / name)
        path = tmp_path / f"coco/annotations/instances_{split}2014.json"
        coco(path, names, [box(number, 18, 1, 2, 3, 4)], {1: "person", 18: "dog"})
    frame = shipped(tmp_path, "coco.toml")
    assert [(row["id"], row["split"], row["labels"]) for row in values(frame)] == [
        (1, "train", ["dog"]), (11, "train", []), (2, "val", ["dog"]), (12, "val", [])
    ]  # fmt: skip


def test_call_arguments_replace_recipe_arguments(recipe, monkeypatch):
    monkeypatch.chdir("/")
    frame = dfgen.build_manifest(recipe)
    assert frame["id"].tolist() == [0, 2, 4, 1, 3, 5]
    assert frame.attrs["dfgen"]["recipe"]["source"] == f"{recipe.parents[1]}/imgs"
    other = dfgen.build_manifest(recipe, seed=0, facts="none", pattern="{kind}/{_}{n:int}.png")
    assert other.attrs["dfgen"]["recipe"]["seed"] == 0 and "bytes" not in other
    rows = pd.DataFrame({"file": ["cat/000.png"], "id": ["x"]})
    build = {"labels": rows, "path_column": "file", "root": recipe.parents[1] / "imgs"}
    assert "split" not in dfgen.build_manifest(recipe, **build)  # another kind of source


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_are_no_keys(recipe, encoding):
    recipe.write_text(recipe.read_text(), encoding)
    assert len(dfgen.build_manifest(recipe)) == 6


def test_moved_manifest_is_updated_by_its_recipe(recipe, tmp_path):
    out = tmp_path / "far/away/m.parquet"
    out.parent.mkdir(parents=True)
    before = dfgen.build_manifest(recipe, out=out)
    image(tmp_path / "imgs/cat/777.png")
    shutil.move(out, tmp_path / "n.parquet")
    grown = dfgen.build_manifest(update=tmp_path / "n.parquet")
    assert grown["id"].tolist() == [*before["id"], 777]
    assert json.dumps(grown.attrs["dfgen"]["recipe"]) == json.dumps(before.attrs["dfgen"]["recipe"])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('patern = "{id}.png"', '"patern"(.|\n)*"pattern"'), ('seed = "3"', "seed='3'"),
        ("seed = true", "seed=True"), ("label = 3", "label=3"), ("split = 3", "split=3"),
        ('out = "m.parquet"', '"out"'), ("coco = 3", "coco=3"), ("seed = ", "TOML"),
        ('source = "x"\nsplit = {train = 0.5}', "0.5"), ('voc = "x"\nyolo = "y"', "voc= and yolo="),
        ('source = "x"\nunmatched = "no"', "unmatched='no'"), ("workers = 3", '"workers"'),
    ],
)  # fmt: skip
def test_wrong_recipe_is_named(tmp_path, content, word):
    path = text(tmp_path / "r.toml", content)
    with pytest.raises(ArgumentError, match=word):
        dfgen.build_manifest(path)
    with pytest.raises(MissingFileError, match=r"q\.toml"):
        dfgen.build_manifest(tmp_path / "q.toml")
