import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dfgen
from dfgen.demo import write_digits
from dfgen.errors import ArgumentError, MissingFileError
from dfgen.manifest.io import read_table
from dfgen.manifest.recipe_file import read_recipe, resolve, to_toml, write_recipe

SHIPPED = Path(__file__).parents[1] / "manifests"
FINGERPRINT = "39245b576a8f76bcd763b7fda75d43a0"


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
    table, metadata = read_table(tmp_path / "manifests/new.parquet")
    shipped, known = read_table(tmp_path / "manifests/digits.parquet")
    assert metadata["fingerprint"] == known["fingerprint"] == FINGERPRINT
    assert metadata["recipe"] == known["recipe"]
    assert table.drop_columns(["mtime_ns", "bytes"]) == shipped.drop_columns(["mtime_ns", "bytes"])


def test_the_recipe_of_a_listing_builds(data):
    files = [f"{('cat', 'dog')[row % 2]}/{row}.png" for row in range(6)]
    table = pd.DataFrame({"file": files, "kind": ["cat", "dog"] * 3})
    table.to_csv(data / "listing.csv", index=False)
    shutil.copy(SHIPPED / "listing.toml", data / "recipes")
    frame = dfgen.build_manifest(data / "recipes/listing.toml")
    assert frame["path"].tolist() == [f"{data}/pets/{file}" for file in files]
    assert frame["split"].value_counts().to_dict() == {"train": 4, "val": 2}


def test_paths_begin_at_the_folder_of_the_recipe(data, monkeypatch):
    monkeypatch.chdir("/")
    frame = dfgen.build_manifest(data / "recipes/pets.toml")
    assert frame["id"].tolist() == [0, 2, 4, 1, 3, 5]
    assert frame.attrs["dfgen"]["recipe"]["source"] == f"{data}/pets"


def test_arguments_replace_those_of_the_recipe_even_by_a_default(data):
    recipe = resolve({"source": str(data / "recipes/pets.toml"), "seed": 0, "facts": "none"})
    assert (recipe.seed, recipe.facts, recipe.split) == (0, "none", {"train": 0.5, "val": 0.5})
    recipe = resolve({"source": str(data / "recipes/pets.toml")})
    assert (recipe.seed, recipe.facts) == (3, "header")


def test_a_source_of_another_kind_takes_nothing_from_the_old_recipe(data):
    old = read_recipe(str(data / "recipes/pets.toml"))
    recipe = resolve({"labels": "t.csv", "path_column": "file"}, old)
    assert (recipe.source, recipe.pattern, recipe.seed) == (None, None, 0)


def test_the_recipe_in_a_manifest_moves_with_it(data):
    dfgen.build_manifest(data / "recipes/pets.toml", out=data / "m.parquet")
    shutil.copytree(data, data.with_name("moved"))
    frame = dfgen.build_manifest(update=data.with_name("moved") / "m.parquet")
    assert frame["path"][0] == f"{data.with_name('moved')}/pets/cat/0.png"


def test_a_written_recipe_rebuilds_the_same_bytes(data):
    dfgen.build_manifest(data / "recipes/pets.toml", out=data / "a.parquet")
    frame = dfgen.read_manifest(data / "a.parquet")
    write_recipe(frame.attrs["dfgen"]["recipe"], str(data / "a.toml"))
    assert (data / "a.toml").read_text() == (
        'source = "pets"\npattern = "{kind}/{id:int}.png"\nunmatched = "error"\n'
        'facts = "header"\nsplit = {train = 0.5, val = 0.5}\nseed = 3\n'
    )
    dfgen.build_manifest(data / "a.toml", out=data / "b.parquet")
    assert (data / "a.parquet").read_bytes() == (data / "b.parquet").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'patern = "{id}.png"',
            '{path} has the unknown key "patern". Did you mean "pattern"? Keys: source, ',
        ),
        ('seed = "3"', "{path}: seed = '3': expected a whole number."),
        ("seed = true", "{path}: seed = True: expected a whole number."),
        ('label = "kind"', "{path}: label = 'kind': expected a list."),
        ("split = 3", "{path}: split = 3: expected a table."),
        ("pattern = 3", "{path}: pattern = 3: expected text."),
        ("seed = ", "{path} cannot be read as TOML: Invalid value (at end of document)."),
        (
            'unmatched = "kep"\nsource = "x"',
            'unmatched="kep": expected "error" or "keep" or "drop"',
        ),
    ],
)
def test_a_wrong_recipe_is_named(tmp_path, text, message):
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError) as caught:
        dfgen.build_manifest(path)
    assert str(caught.value).startswith(message.format(path=path))


def test_a_missing_recipe_is_named(tmp_path):
    with pytest.raises(MissingFileError) as caught:
        dfgen.build_manifest(tmp_path / "r.toml")
    assert str(caught.value) == f"There is no recipe {tmp_path}/r.toml. Looked in {os.getcwd()}."


def test_what_no_recipe_can_say_is_refused():
    with pytest.raises(ArgumentError, match=r"^The manifest has no recipe: it was made by hand\."):
        to_toml(None, "/")
    with pytest.raises(ArgumentError, match="came from a DataFrame, which no recipe can name"):
        to_toml({"labels": "a DataFrame"}, "/")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=50, deadline=None)
@given(
    pattern=TEXT,
    category=st.lists(TEXT),
    split=st.dictionaries(TEXT, st.floats(1e-9, 1)),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_what_is_written_is_what_is_read(tmp_path_factory, pattern, category, split, seed):
    arguments = {"pattern": pattern, "category": category, "split": split, "seed": seed}
    path = str(tmp_path_factory.getbasetemp() / "r.toml")
    write_recipe(arguments, path)
    assert read_recipe(path) == arguments
