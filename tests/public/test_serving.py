"""seq.preprocessing(): one row by hand becomes what training saw, also once saved and loaded."""

from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pytest

import dfgen
from dfgen.errors import ArgumentError
from public.first_batch import equal

ROWS = 4


@pytest.fixture(scope="module")
def df(tmp_path_factory):
    """Rows of images of different sizes, of which the first is a JPEG that EXIF turns."""
    folder, rows = tmp_path_factory.mktemp("served"), []
    rng = np.random.default_rng(0)
    for row, (height, width) in enumerate([(40, 60), (61, 41), (33, 70), (50, 50)]):
        small = PIL.Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8))
        path, exif = f"{folder}/{row}.{'png' if row else 'jpg'}", PIL.Image.Exif()
        exif[0x0112] = 1 if row else 6
        small.resize((width, height)).save(path, exif=exif)
        upright = (height, width) if row else (width, height)
        PIL.Image.fromarray(rng.integers(0, 4, upright, np.uint8)).save(f"{folder}/{row}m.png")
        rows.append({"id": row, "path": path, "mask": f"{folder}/{row}m.png", "age": row + 0.5})
    kinds = pd.Categorical(["cat", "dog", "cat", "dog"], ["dog", "cat", "owl"])
    tags = [["x"], [], ["y", "x"], ["y"]]
    return pd.DataFrame(rows).assign(kind=kinds, tame=[True, False, True, True], tags=tags)


IMAGES = {
    "stretch": dfgen.Image(size=(24, 27)),
    "crop": dfgen.Image(size=(24, 32), resize="crop", scale="0..1"),
    "pad": dfgen.Image(size=(24, 32), resize="pad", scale="standardize", dtype="float16"),
    "center": dfgen.Image(size=(20, 21), load_size=(30, 30), crop="center", color_mode="rgba"),
    "torch": dfgen.Image(size=(24, 24), scale="torch", interpolation="area"),
    "own size": dfgen.Image(size=None, color_mode="grayscale"),
}


def served(df, x, y="kind", **options):
    with dfgen.Sequence(df, x, y, batch_size=ROWS, shuffle=False, workers=0, **options) as seq:
        return seq[0][0], seq.preprocessing()


@pytest.mark.parametrize("name", IMAGES)
def test_rows_paths_and_bytes_become_what_training_saw(df, name):
    expected, preprocessing = served(df, IMAGES[name])
    paths = df["path"].tolist()
    data = [Path(path).read_bytes() for path in paths]
    mixed = [Path(paths[0]), data[1], df.iloc[2], {"path": paths[3]}]
    for given in (df, paths, tuple(paths), np.array(paths), data, df.to_dict("records"), mixed):
        equal(preprocessing(given), expected)
    for one in (paths[3], Path(paths[3]), data[3], df.iloc[3], dict(df.iloc[3]), df[3:]):
        shape = expected[3:, :50, :50]  # of its own size it is not padded
        equal(preprocessing(one), shape)


def test_pixels_become_what_their_file_does(df):
    for name in ("crop", "center", "torch"):
        expected, preprocessing = served(df, IMAGES[name])
        pixels = [np.asarray(PIL.Image.open(path)) for path in df["path"][1:]]
        equal(preprocessing(pixels[0]), expected[1:2])
        equal(preprocessing(pixels), expected[1:])


def test_chance_becomes_the_centre(df):
    random = dfgen.Image(size=(20, 21), load_size=(30, 30), crop="random", flip="horizontal")
    centre = dfgen.Image(size=(20, 21), load_size=(30, 30), crop="center")
    equal(served(df, random)[1](df), served(df, centre)[0])


Y = {
    "kind": dfgen.Category("kind"), "hot": dfgen.Category("kind", "categorical"),
    "tame": dfgen.Category("tame", "binary"), "tags": dfgen.MultiLabel("tags", ("x", "y")),
    "age": dfgen.Number("age"),
}  # fmt: skip


def test_decode_gives_names_of_predictions(df):
    _, preprocessing = served(df, IMAGES["crop"], Y)
    scores = np.array([[0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.6, 0.4, 0]])
    predictions = {
        "kind": scores, "hot": scores[::-1], "tame": np.array([[0.5], [0.51], [0.2]]),
        "tags": np.array([[0.4, 0.6], [0.9, 0.8], [0.1, 0.5]]), "age": np.array([1, 2.5, 3]),
    }  # fmt: skip
    found = preprocessing.decode(predictions)
    assert found["kind"] == ["cat", "owl", "dog"] == found["hot"][::-1]
    assert found["tame"] == [False, True, False] and found["tags"] == [["y"], ["x", "y"], []]
    np.testing.assert_array_equal(found["age"], predictions["age"])
    names = {"kind": ["dog", "cat", "owl"], "tame": [False, True], "tags": ["x", "y"]}
    assert {name: preprocessing.class_names[name] for name in names} == names
    alone = served(df, IMAGES["crop"])[1]
    assert alone.class_names == ["dog", "cat", "owl"] and alone.decode(scores)[0] == "cat"
    for wrong in (scores[:, :2], np.array([0, 1]), scores * np.nan):
        with pytest.raises(ArgumentError):
            alone.decode(wrong)


@pytest.mark.parametrize("name", IMAGES)
def test_saved_preprocessing_is_loaded_equal(df, tmp_path, name):
    expected, preprocessing = served(df, {"image": IMAGES[name], "years": dfgen.Number("age")}, Y)
    preprocessing.save(tmp_path / "p.json")
    loaded = dfgen.load_preprocessing(tmp_path / "p.json")
    assert loaded.to_json() == preprocessing.to_json() and loaded == preprocessing
    assert loaded.class_names == preprocessing.class_names
    equal(loaded(df), expected)
