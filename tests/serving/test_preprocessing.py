"""What training does to a row, done to one by hand; saved and loaded; and names of predictions."""

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from PIL import Image as Pillow

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.loading.loader import Loader
from dfgen.samples.features.base import Feature
from dfgen.serving.preprocessing import Preprocessing, preprocessing_of
from dfgen.serving.preprocessing_json import to_plain

ROWS = 6
NO_LABELS = {"label_mode": None}


@pytest.fixture(scope="module")
def df(tmp_path_factory):
    """Rows of images of different sizes, kinds and orientations, and what else models take."""
    folder, rows = tmp_path_factory.mktemp("served"), []
    generator = np.random.default_rng(0)
    for row, (height, width) in enumerate(
        [(40, 60), (61, 41), (30, 30), (80, 35), (33, 70), (50, 50)]
    ):
        pixels = cv2.resize(generator.integers(0, 256, (6, 6, 3), np.uint8), (width, height))
        path = f"{folder}/{row}{('.jpg', '.png')[row % 2]}"
        exif = Pillow.Exif()
        exif[0x0112] = 6 if row == 0 else 1
        Pillow.fromarray(pixels).save(path, exif=exif)
        upright = (width, height) if row == 0 else (height, width)
        Pillow.fromarray(generator.integers(0, 4, upright, np.uint8)).save(f"{folder}/{row}m.png")
        np.save(f"{folder}/{row}.npy", np.full(3, row, "float32"))
        rows.append({"id": row, "path": path, "mask": f"{folder}/{row}m.png",
                     "array": f"{folder}/{row}.npy", "age": row + 0.5, "count": row,
                     "kind": "ab"[row % 2], "tags": ["x", "y"][: row % 3], "text": f"t{row}",
                     "boxes": [[1, 1, 9, 9]] * (row % 2), "labels": [1] * (row % 2)})  # fmt: skip
    df = pd.DataFrame(rows)
    return df.assign(kind=df["kind"].astype("category"))


def bound(df, x, y=None, **options):
    return bind(SequenceArguments(df, x, y, **({} if y else NO_LABELS), **options))


def seen(binding):
    """Return what training sees of all rows, by the names of arrays, without shuffling."""
    return Loader(binding.reader, batch_size=ROWS, workers=0).batch(0, 0).arrays


def half(sample, rng):
    """A transform that is preprocessing."""
    return {**sample, "image": sample["image"] // 2}


IMAGES = {
    "stretch": dfgen.Image(size=(24, 24)),
    "crop": dfgen.Image(size=(24, 32), resize="crop", scale="0..1"),
    "pad": dfgen.Image(size=(24, 32), resize="pad", scale="standardize", dtype="float16"),
    "centre": dfgen.Image(size=(20, 20), load_size=(30, 30), crop="center", color_mode="rgba"),
    "torch": dfgen.Image(size=(24, 24), scale="torch", interpolation="area"),
    "gray": dfgen.Image(size=(16, 40), resize="crop_or_pad", color_mode="grayscale"),
    "own size": dfgen.Image(size=None, padding_mask=True),
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES.keys())
def test_paths_bytes_and_rows_match_training_inputs(df, image):
    binding = bound(df, image)
    preprocessing, expected = preprocessing_of(binding, "channels_last", None), seen(binding)
    paths = df["path"].tolist()
    data = [Path(path).read_bytes() for path in paths]
    rows = df.to_dict("records")
    bytes_in_rows = [{"path": one} for one in data]
    mixed = [Path(paths[0]), data[1], rows[2], df.iloc[3], memoryview(data[4]), {"path": paths[5]}]
    mixed[2]["path"] = {"bytes": data[2], "path": "named.so"}  # as Hugging Face's datasets have it
    kinds = str, object, getattr(np.dtypes, "StringDType", lambda: str)()  # that of NumPy 2
    arrays = [np.array(paths, kind) for kind in kinds]
    for given in (mixed, paths, tuple(paths), *arrays, data, rows, bytes_in_rows, df):
        found = preprocessing(given)
        found = found if isinstance(found, dict) else {"image": found}
        for key, name in {"images": "image", "padding_mask": "image_padding_mask"}.items():
            found = {name if each == key else each: array for each, array in found.items()}
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, name)
            assert found[name].dtype == array.dtype
    one = preprocessing(paths[3])
    one = one["images"] if isinstance(one, dict) else one
    if image.size is not None:
        np.testing.assert_array_equal(one, expected["image"][3:4])


def test_pixel_arrays_match_inputs_read_from_files(df):
    for image in (IMAGES["crop"], IMAGES["centre"], IMAGES["gray"]):
        binding = bound(df, image)
        preprocessing, expected = preprocessing_of(binding, "channels_last", None), seen(binding)
        for row in (1, 3, 5):  # which are PNG
            pixels = np.asarray(Pillow.open(df["path"][row]))
            np.testing.assert_array_equal(preprocessing(pixels), expected["image"][row : row + 1])
    gray = np.arange(16 * 40, dtype=np.uint8).reshape(16, 40)
    np.testing.assert_array_equal(preprocessing(gray)[0, ..., 0], gray)
    np.testing.assert_array_equal(preprocessing(gray[..., None])[0, ..., 0], gray)
    deep = preprocessing_of(
        bound(df, dfgen.Image(size=(2, 2), dtype="uint16")), "channels_last", None
    )
    colours = np.arange(12, dtype=np.uint16).reshape(2, 2, 3) * 5000
    np.testing.assert_array_equal(deep(colours)[0], colours)


X = {
    "image": IMAGES["stretch"],
    "mask": dfgen.Mask("mask", like="path"),
    "array": dfgen.Array("array", (3,)),
    "age": dfgen.Number("age"),
    "count": dfgen.Number("count"),
    "both": dfgen.Number(["age", "count"]),
    "kind": dfgen.Category("kind", "categorical"),
    "tags": dfgen.MultiLabel("tags", ("x", "y")),
    "text": dfgen.Text("text"),
    "boxes": dfgen.Boxes(max_items=2, like="path"),
    "file": dfgen.Bytes("array"),
}


def test_several_inputs_are_made_of_rows(df):
    binding = bound(df, X)
    preprocessing, expected = preprocessing_of(binding, "channels_last", None), seen(binding)
    for found in (preprocessing(df), preprocessing(df.to_dict("records"))):
        boxes = found.pop("boxes")
        assert found.keys() == X.keys() - {"boxes"}
        for name, array in (found | boxes).items():
            np.testing.assert_array_equal(array, expected[name], name)
            assert array.dtype == expected[name].dtype
    one = preprocessing({**df.iloc[2], "age": 2, "mask": np.asarray(Pillow.open(df["mask"][2])),
                         "array": np.full(3, 2.0, "float32")})  # fmt: skip
    for name in ("mask", "array"):
        np.testing.assert_array_equal(one[name], expected[name][2:3])
    assert (one["age"].dtype, one["age"].tolist()) == (np.float32, [2])  # as training had floats


def test_lists_of_inputs_and_channels_first(df):
    x = [IMAGES["stretch"], dfgen.Number("age")]
    image, age = preprocessing_of(bound(df, x), "channels_first", None)(df[:2])
    expected = seen(bound(df, x))
    np.testing.assert_array_equal(image, np.moveaxis(expected["image"][:2], -1, 1))
    np.testing.assert_array_equal(age, [0.5, 1.5])


@pytest.mark.parametrize(
    "options",
    [
        {"load_size": (30, 30), "crop": "random", "flip": "horizontal"},
        {"resize": "crop", "crop": "random", "flip": "horizontal_and_vertical"},
    ],
)
def test_chance_becomes_the_centre(df, options):
    still = {name: value for name, value in options.items() if name not in ("crop", "flip")}
    found, expected = (
        preprocessing_of(bound(df, dfgen.Image(size=(20, 20), **given)), "channels_last", None)(df)
        for given in (options, {**still, "crop": "center"})
    )
    np.testing.assert_array_equal(found, expected)


def test_random_resized_becomes_largest_centre_crop(df):
    image = dfgen.Image(size=(20, 20), crop="random_resized")
    found = preprocessing_of(bound(df, image), "channels_last", None)(df["path"][3])
    assert found.shape == (1, 20, 20, 3)


@pytest.mark.parametrize("size", [(20, 20), None])
def test_a_pair_in_x_is_made_together(df, size):
    x = {"a": dfgen.Image("path", size=size), "b": dfgen.Image("again", like="a")}
    df = df.assign(again=df["path"])
    found = preprocessing_of(bound(df, x), "channels_last", None)(df)
    np.testing.assert_array_equal(found["a"], found["b"])


def test_transform_is_included_only_on_request(df):
    binding = bound(df, IMAGES["crop"], transform=half)
    expected = seen(binding)["image"]
    np.testing.assert_array_equal(preprocessing_of(binding, "channels_last", half)(df), expected)
    assert (preprocessing_of(binding, "channels_last", None)(df) != expected).any()


SAVED = {
    "images": list(IMAGES.values()),
    "inputs": X,
    "random": dfgen.Image(size=(8, 8), crop="random_resized", area=(0.5, 1), ratio=(1, 2)),
    "mean": dfgen.Image(size=(8, 8), scale=((0.1, 0.2, 0.3), (0.4, 0.5, 1 / 3))),
    "palette": {"a": dfgen.Image(), "m": dfgen.Mask("mask", palette={(0, 0, 0): 0, (9, 9, 9): 1})},
}


Y = {
    "sure": dfgen.Category("kind", "binary"),
    "marks": dfgen.MultiLabel("tags", ("x", "y", "é\n")),
    "years": dfgen.Number("age", missing="ignore"),
}


@pytest.mark.parametrize("x", SAVED.values(), ids=SAVED.keys())
def test_what_is_saved_is_loaded_equal(df, x):
    made = preprocessing_of(bound(df, x, Y), "channels_first", None)
    text = made.to_json()
    loaded = Preprocessing.from_json(text)
    assert loaded == made
    assert loaded.to_json() == text == Preprocessing.from_json(text.encode()).to_json()
    assert loaded.class_names == made.class_names
    for name, feature in made.inputs.items():
        for field in dataclasses.fields(feature):
            values = [getattr(one, field.name) for one in (feature, loaded.inputs[name])]
            assert values[0] == values[1] and repr(values[0]) == repr(values[1])


@pytest.mark.parametrize(
    "feature",
    [
        dfgen.Category("kind", class_names=(1, 2, 3)),
        dfgen.Category("kind", class_names=(False, True)),
        dfgen.Category("kind", class_names=(0.1, float("inf"), np.float64(0.5))),
        dfgen.Category("kind", class_names=(np.int64(7), np.str_("8"))),
    ],
)
def test_class_names_of_any_plain_type_come_back(feature):
    made = Preprocessing((), "kind", {}, {"kind": feature})
    text = made.to_json()
    json.loads(text, parse_constant=pytest.fail)  # JSON has no Infinity
    loaded = Preprocessing.from_json(text)
    assert loaded == made
    for found, given in zip(loaded.class_names, feature.class_names, strict=True):
        plain = given.item() if isinstance(given, np.generic) else given
        assert (type(found), found) == (type(plain), plain)


def area(width, height):
    """A function that another process can import, under tests at least."""
    return width * height


def test_functions_saved_by_name_load_only_on_request(df):
    x = {"image": IMAGES["crop"], "area": dfgen.Column(["count", "age"], area)}
    made = preprocessing_of(bound(df, x), "channels_last", half)
    text = made.to_json()
    assert f'"{__name__}:area"' in text and f'"function": "{__name__}:half"' in text
    loaded = Preprocessing.from_json(text, allow_functions=True)
    assert loaded == made
    np.testing.assert_array_equal(loaded(df)["area"], df["count"] * df["age"])
    with pytest.raises(ArgumentError, match="allow_functions"):
        Preprocessing.from_json(text)


def refused(use):
    with pytest.raises(dfgen.DfgenError) as error:
        use()
    return type(error.value), str(error.value)


def test_unimportable_functions_are_named_on_saving(df):
    nameless = lambda count: count  # noqa: E731
    made = preprocessing_of(bound(df, dfgen.Column("count", nameless)), "channels_last", None)
    with pytest.raises(ArgumentError, match="module"):
        made.to_json()
    np.testing.assert_array_equal(made({"count": 3}), [3])
    twin = functools.wraps(half)(lambda sample, rng: sample)  # the name stands for half itself
    for transform in (lambda sample, rng: sample, twin):
        made = preprocessing_of(bound(df, IMAGES["crop"]), "channels_last", transform)
        assert refused(made.to_json)[1].startswith("transform is <function ")
    odd = dfgen.Category("kind", class_names=(b"x",))
    with pytest.raises(ArgumentError, match=r"class_names.*JSON"):
        Preprocessing((), "kind", {}, {"kind": odd}).to_json()


def changed(text, **values):
    return json.dumps({**json.loads(text), **values})


def test_wrong_json_is_refused(df, tmp_path):
    text = preprocessing_of(bound(df, IMAGES["crop"], "kind"), "channels_last", None).to_json()
    path = tmp_path / "p.json"
    for content, word in (
        (changed(text, format=2, dfgen="9.0"), "update"),
        (text[:40], "JSON"),
        ("[1]", "JSON"),
        ('{"format": 1}', "JSON"),
        (changed(text, format="1"), "JSON"),
        (changed(text, data_format="channels_first"), "edited"),
        (text.replace('"crop"', '"pad"'), "edited"),
    ):
        path.write_text(content)
        with pytest.raises(ArgumentError, match=rf"p\.json: .*{word}"):
            dfgen.load_preprocessing(path)
    with pytest.raises(MissingFileError, match=r"gone\.json"):
        dfgen.load_preprocessing(tmp_path / "gone.json")
    path.write_text(text)
    assert dfgen.load_preprocessing(path) == Preprocessing.from_json(text)


def test_feature_without_fields_cannot_be_saved():
    class Bare(Feature):
        column = "n"

    with pytest.raises(ArgumentError, match="dataclass"):
        to_plain(Bare(), "x")


def test_what_cannot_be_given_is_refused(df, tmp_path):
    image = preprocessing_of(bound(df, IMAGES["crop"]), "channels_last", None)
    several = preprocessing_of(bound(df, X), "channels_last", None)
    vector = preprocessing_of(bound(df, dfgen.Array("array", (3,), index="count")), "x", None)
    number = preprocessing_of(bound(df, dfgen.Number("count")), "channels_last", None)
    floats, coded = np.zeros((4, 4, 3), np.float32), bound(df, dfgen.Bytes("array"))
    follower = bound(df, [dfgen.Mask("mask", like="y")], {"y": IMAGES["crop"]})
    for use, kind, message in (
        (lambda: image([]), ArgumentError, "an empty list makes no batch"),
        (lambda: image(7), ArgumentError,
         "path=7: expected a path, bytes or an array, or a row of these"),
        (lambda: image("gone.jpg"), MissingFileError,
         "row id=0, path='gone.jpg': the file does not exist"),
        (lambda: image([df["path"][0], b""]), DecodeError,
         "row id=1, path=(0 bytes): the file is empty (0 bytes)"),
        (lambda: image(floats), ArgumentError,
         "an image must be an array (height, width, channels)"),
        (lambda: image(np.zeros((2, 4, 4, 3), np.uint8)), ArgumentError,
         "an image must be an array (height, width, channels) of 1, 3 or 4 channels"),
        (lambda: image({"file": "a.jpg"}), ManifestError,
         "row 0 has no 'path'"),
        (lambda: image(df["path"][:2]), ManifestError,
         "row 0 has no 'path'"),
        (lambda: image({"path": None}), ArgumentError,
         "path=None: expected a path, bytes or an array"),
        (lambda: vector("a.npy"), ArgumentError,
         "x is made of the columns 'array', 'count': give a row, {column: value, ...}"),
        (lambda: number("a.npy"), ArgumentError,
         "x is made of the columns 'count': give a row, {column: value, ...}"),
        (lambda: number({"count": 1.5}), ManifestError,
         "column 'count' holds floats, int32 cannot hold them"),
        (lambda: several({**df.iloc[0], "mask": b"?", "path": df["path"][2]}), DecodeError,
         f"row id=0, path={df['path'][2]!r}, array={df['array'][0]!r}, mask=(1 bytes): "),
        (lambda: preprocessing_of(coded, "x", None)(floats), ArgumentError,
         "Bytes(column='array') takes no array: give the path or the bytes of a file"),
        (lambda: preprocessing_of(follower, "channels_last", None), ArgumentError,
         "'mask' in x follows 'y' in y"),
    ):  # fmt: skip
        found = refused(use)
        assert found[0] is kind and found[1].startswith(message), found
    own = preprocessing_of(bound(df, dfgen.Image(size=None)), "channels_last", None)
    kind, message = refused(lambda: own(b"nothing"))
    assert kind is DecodeError and message.startswith("row id=0, path=(7 bytes): ")


def test_predictions_become_names_of_classes(df):
    y = {"kind": "kind", "sure": dfgen.Category("kind", "binary"),
         "tags": dfgen.MultiLabel("tags", ("x", "y")), "age": "age"}  # fmt: skip
    several = preprocessing_of(bound(df, IMAGES["crop"], y), "channels_last", None)
    predictions = {"kind": [[2.0, -1], [0, 3]], "sure": np.array([[0.5], [0.51]]),
                   "tags": [[0.9, 0.2], [0.6, 0.7]], "age": np.array([[1.0], [2]])}  # fmt: skip
    found = several.decode(predictions)
    assert found.pop("age") is predictions["age"]
    assert found == {"kind": ["a", "b"], "sure": ["a", "b"], "tags": [["x"], ["x", "y"]]}
    assert several.class_names == {"kind": ["a", "b"], "sure": ["a", "b"], "tags": ["x", "y"]}
    listed = preprocessing_of(bound(df, IMAGES["crop"], list(y.values())), "channels_last", None)
    assert listed.decode([*predictions.values()])[:3] == [*found.values()]
    one = preprocessing_of(bound(df, IMAGES["crop"], "kind"), "channels_last", None)
    assert one.decode(np.eye(2)) == ["a", "b"] == one.class_names
    binary = preprocessing_of(bound(df, IMAGES["crop"], y["sure"]), "channels_last", None)
    assert binary.decode(np.array([0.2, 0.9])) == ["a", "b"]
    for use, message in (
        (lambda: one.decode({"kind": np.eye(2)}),
         "predictions are a dict, but y is 'label'"),
        (lambda: listed.decode([1]), "predictions are a list, but y is ("),
        (lambda: one.decode(np.eye(3)),
         "predictions of 'kind' have the shape (3, 3), expected numbers of shape (rows, 2)"),
        (lambda: one.decode([[0.1, np.nan]]),
         "predictions of 'kind' have the shape (1, 2)"),
        (lambda: binary.decode([[-2.5], [3.0]]),
         "predictions of 'kind' are from -2.5 to 3, expected probabilities from 0 to 1: "
         "convert logits by keras.ops.sigmoid"),
        (lambda: binary.decode(np.zeros((2, 2))),
         "predictions of 'kind' have the shape (2, 2), expected numbers of shape (rows, 1)"),
        (lambda: several.decode({"tags": np.zeros((2, 3))}),
         "predictions of 'tags' have the shape (2, 3), expected numbers of shape (rows, 2)"),
    ):  # fmt: skip
        found = refused(use)
        assert found[0] is ArgumentError and found[1].startswith(message), found


def test_loading_needs_neither_keras_nor_pandas():
    code = "import sys, dfgen; dfgen.load_preprocessing; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pandas", "keras"} & set(run.stdout.split()) == set()
