import os
import shutil
from pathlib import Path

import annotated
import pandas as pd
import pytest
from hypothesis import strategies as st
from PIL import Image

import dfgen
from dfgen.demo import write_digits
from dfgen.errors import ArgumentError, MissingFileError
from dfgen.manifest.building.recipe_file import read_recipe, resolve
from dfgen.manifest.table_reading import read_table

SHIPPED = Path(__file__).parents[2] / "manifests"
FINGERPRINT = "853f5891f9b109ffd246d090df6fcb92"


@pytest.fixture
def data(tmp_path):
    """Six images of two kinds in `pets`, and a recipe in `recipes` beside it."""
    for row in range(6):
        path = tmp_path / "pets" / ("cat", "dog")[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 3)).save(path)
    (tmp_path / "recipes").mkdir()
    text = 'source = "../pets"\npattern = "{kind}/{id:int}.png"\nseed = 3\n'
    (tmp_path / "recipes/pets.toml").write_text(text + "split = {train = 0.5, val = 0.5}\n")
    return tmp_path


def test_the_recipe_of_the_digits_rebuilds_their_fingerprint(tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "manifests")
    write_digits(tmp_path / "digits")
    dfgen.build_manifest(tmp_path / "manifests/digits.toml", out=tmp_path / "manifests/new.parquet")
    metadata = read_table(tmp_path / "manifests/new.parquet")[1]
    assert metadata.fingerprint == FINGERPRINT


def test_the_recipe_of_a_listing_builds(data):
    files = [f"{('cat', 'dog')[row % 2]}/{row}.png" for row in range(6)]
    table = pd.DataFrame({"file": files, "kind": ["cat", "dog"] * 3})
    table.to_csv(data / "listing.csv", index=False)
    shutil.copy(SHIPPED / "listing.toml", data / "recipes")
    frame = dfgen.build_manifest(data / "recipes/listing.toml")
    assert frame["path"].tolist() == [f"{data}/pets/{file}" for file in files]
    assert frame["split"].value_counts().to_dict() == {"train": 4, "val": 2}


VOC_CLASSES = ["aeroplane", "dog", "tvmonitor"]


def test_the_recipe_of_voc_builds_a_tree_like_that_of_voc(tmp_path):
    root = tmp_path / "VOCdevkit/VOC2012"
    for row in range(12):
        annotated.image(root / f"JPEGImages/2007_{row:06}.jpg")
        kind = VOC_CLASSES[row % 3]
        annotated.xml(
            root / f"Annotations/2007_{row:06}.xml", (kind, 1, 2, 30, 20), ("cat", 1, 2, 3, 4)
        )
    (root / "ImageSets/Main").mkdir(parents=True)
    for split, rows in (("train", range(9)), ("val", range(9, 12))):
        text = "".join(f"2007_{row:06}\n" for row in rows)
        (root / f"ImageSets/Main/{split}.txt").write_text(text)
    (tmp_path / "manifests").mkdir()
    shutil.copy(SHIPPED / "voc.toml", tmp_path / "manifests")
    frame = dfgen.build_manifest(tmp_path / "manifests/voc.toml", out=tmp_path / "voc.parquet")
    assert frame["label"].tolist() == VOC_CLASSES * 4
    assert len(frame["label"].cat.categories) == 4
    assert frame["label"].cat.codes[:3].tolist() == [0, 2, 3]
    assert frame["split"].value_counts().to_dict() == {"train": 9, "val": 3}
    assert not frame["problem"].notna().any()


def test_the_recipe_of_coco_builds_a_tree_like_that_of_coco(tmp_path):
    for first, split in enumerate(("train", "val")):
        names = {row: f"COCO_{split}2014_{row:012}.jpg" for row in (first + 1, first + 11)}
        for name in names.values():
            annotated.image(tmp_path / f"coco/{split}2014" / name)
        boxes = [annotated.box(first + 1, 18, 1, 2, 3, 4)]
        texts = [{"id": 1, "image_id": row, "caption": f"number {row}"} for row in names]
        where = tmp_path / "coco/annotations"
        annotated.coco(
            where / f"instances_{split}2014.json", names, boxes, {1: "person", 18: "dog"}
        )
        annotated.coco(where / f"captions_{split}2014.json", names, texts)
    (tmp_path / "manifests").mkdir()
    shutil.copy(SHIPPED / "coco.toml", tmp_path / "manifests")
    frame = dfgen.build_manifest(tmp_path / "manifests/coco.toml", out=tmp_path / "coco.parquet")
    assert frame["split"].tolist() == ["train", "train", "val", "val"]
    assert frame["id"].tolist() == [1, 11, 2, 12]
    assert frame["captions"].map(list).tolist() == [[f"number {row}"] for row in (1, 11, 2, 12)]
    assert frame["labels"].map(list).tolist() == [["dog"], [], ["dog"], []]
    assert not frame["problem"].notna().any()


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.name)
def test_shipped_recipes_are_read(path):
    arguments = resolve({"source": str(path)}).arguments()
    assert arguments
    assert str(SHIPPED.parent) not in path.read_text()


def test_paths_begin_at_the_folder_of_the_recipe(data, monkeypatch):
    monkeypatch.chdir("/")
    frame = dfgen.build_manifest(data / "recipes/pets.toml")
    assert frame["id"].tolist() == [0, 2, 4, 1, 3, 5]
    assert frame.attrs["dfgen"]["recipe"]["source"] == f"{data}/pets"


def test_arguments_replace_those_of_the_recipe_even_by_a_default(data):
    recipe = resolve({"source": str(data / "recipes/pets.toml"), "seed": 0, "facts": "none"})
    assert (recipe.splitting.seed, recipe.facts) == (0, "none")
    assert recipe.splitting.split == {"train": 0.5, "val": 0.5}
    recipe = resolve({"source": str(data / "recipes/pets.toml")})
    assert (recipe.splitting.seed, recipe.facts) == (3, "header")


def test_a_source_of_another_kind_takes_nothing_from_the_old_recipe(data):
    old = read_recipe(str(data / "recipes/pets.toml"))
    recipe = resolve({"labels": "t.csv", "path_column": "file"}, old)
    assert recipe.kind == "labels"
    assert (dict(recipe.own), recipe.pattern, recipe.splitting.seed) == ({}, None, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('patern = "{id}.png"',
         '{path} has the unknown key "patern". Did you mean "pattern"? Keys: source, '),
        ('seed = "3"', "{path}: seed = '3': expected a whole number"),
        ("seed = true", "{path}: seed = True: expected a whole number"),
        ('label = "kind"', "{path}: label = 'kind': expected a list"),
        ("split = 3", "{path}: split = 3: expected a table"),
        ("coco = 3", "{path}: coco = 3: expected text or a list or a table"),
        ('coco = {train = ["a.json", 3]}', "{path}: coco holds 3: expected text"),
        ('source = "x"\nsplit = {train = 0.5}', "split: train=0.5 add up to 0.5."),
        ('voc = "x"\nyolo = "y"', "voc= and yolo= both say where the rows come from: give one of"),
        ("seed = ", "{path} cannot be read as TOML: Invalid value (at end of document)"),
    ],
)  # fmt: skip
def test_a_wrong_recipe_is_named(tmp_path, text, message):
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(path)
    assert str(caught.value).startswith(message.format(path=path))


def test_a_missing_recipe_is_named(tmp_path):
    with pytest.raises(MissingFileError) as caught:
        dfgen.build_manifest(tmp_path / "r.toml")
    assert str(caught.value) == f"there is no recipe {tmp_path}/r.toml. Looked in {os.getcwd()}"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
