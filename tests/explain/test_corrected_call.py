"""Arguments of other libraries: where each went, and the call to paste instead."""

import inspect
import re

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from dfgen.training.renamed_arguments import RENAMED

import dfgen
from dfgen.errors import UnknownArgumentError


@pytest.fixture
def df(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imgs").mkdir()
    rows = []
    for row in range(6):
        cv2.imwrite(f"imgs/{row}.jpg", np.full((8, 8, 3), 40 * row, np.uint8))
        rows.append((f"{row}.jpg", ("cat", "dog")[row % 2], row / 2, ("train", "val")[row // 4]))
    frame = pd.DataFrame(rows, columns=["file", "kind", "age", "split"])
    return frame.astype({"kind": "category"})


def told(function, *args, **options):
    with pytest.raises(UnknownArgumentError) as caught:
        function(*args, **options)
    return str(caught.value)


def flatten(sample, rng):
    return sample


@pytest.mark.parametrize("name", RENAMED)
def test_every_place_that_an_argument_went_to_exists(name):
    to, advice, _ = RENAMED[name]
    feature, _, argument = to.rpartition(".")
    home = getattr(dfgen, feature) if feature else dfgen.Sequence
    assert not to or argument in inspect.signature(home).parameters
    assert name not in inspect.signature(dfgen.Sequence).parameters
    assert to or advice
    for public in re.findall(r"dfgen\.(\w+)", advice):
        assert public in dfgen.__all__
    for layer in re.findall(r"keras\.layers\.(\w+)", advice):
        assert hasattr(keras.layers, layer)
    for argument in re.findall(r"(\w+)=\"\w[^{}]*\"$", advice):
        assert argument in inspect.signature(home).parameters


def test_all_arguments_are_translated_in_one_error(df):
    message = told(
        dfgen.Sequence,
        dataframe=df,
        directory="imgs",
        x_col="file",
        y_col="kind",
        target_size=(4, 4),
        class_mode="sparse",
        rescale=1 / 255,
        horizontal_flip=True,
        vertical_flip=True,
        rotation_range=20,
        validation_split=0.2,
        subset="training",
        batch_size=2,
    )
    split = (
        'a split is a column: df = dfgen.split(df, {"train": 0.8, "val": 0.2}), then '
        'dfgen.Sequence(df[df.split == "train"], ...)'
    )
    assert message.splitlines() == [
        "Sequence has no argument dataframe, directory, x_col, y_col, target_size, class_mode, "
        "rescale, horizontal_flip, vertical_flip, rotation_range, validation_split, subset:",
        "  dataframe is now manifest: the first argument",
        "  directory is now root: paths of the frame begin there; of a folder alone: "
        'df = dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg")',
        "  x_col is now x",
        "  y_col is now y",
        "  target_size is now image_size: (height, width)",
        '  class_mode is now label_mode: numbers of class_mode="raw" are y="age" by itself, '
        'several outputs y=["kind", "age"]',
        '  rescale is now scale: 1/255 is scale="0..1"',
        '  horizontal_flip is now flip of dfgen.Image: flip="horizontal"',
        '  vertical_flip is now flip of dfgen.Image: flip="vertical"',
        "  rotation_range: augmentation is part of the model, keras.layers.RandomRotation, or of "
        "transform=dfgen.albumentations(...)",
        f"  validation_split: {split}",
        f"  subset: {split}",
        'Write dfgen.Sequence(df[df.split == "train"], x=dfgen.Image("file", size=(4, 4), '
        'scale="0..1", flip="horizontal_and_vertical"), y="kind", batch_size=2, root="imgs", '
        'label_mode="int")',
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"x_col": "file", "y_col": "kind", "target_size": (4, 4), "rescale": 1 / 255},
        {"x_col": "file", "y_col": "age", "class_mode": "raw", "rescale": 1 / 127.5},
        {"x_col": "file", "y_col": "kind", "class_mode": "categorical", "classes": ["cat", "dog"]},
        {"x_col": "file", "class_mode": "input", "interpolation": "nearest", "dtype": "float32"},
        {"x": "file", "y": "kind", "crop_to_aspect_ratio": True, "interpolation": "lanczos"},
        {"x": "file", "y": "kind", "flip": "horizontal", "dim": (4, 4), "subset": "validation"},
        {"x": "file", "y": "kind", "num_workers": 2, "drop_last": False, "collate_fn": flatten},
        {"fn_col": "file", "label_col": "kind", "bs": 3, "item_tfms": [flatten], "valid_pct": 0.2},
        {"x": "file", "y": "kind", "transform": flatten, "capacity": 9, "num_threads": 1},
        {"x": "file", "y": "kind", "samplewise_center": True, "horizontal_flip": False},
        {"x": dfgen.Image("file", size=(4, 4)), "y": {"kind": "kind"}, "prefetch": 2},
    ],
    ids=lambda options: ", ".join(options),
)  # fmt: skip
def test_the_corrected_call_runs_as_it_is_pasted(df, options):
    call = told(dfgen.Sequence, df, root="imgs", **options).rpartition("\nWrite ")[2]
    with eval(call, {"df": df, "dfgen": dfgen, "flatten": flatten}) as sequence:
        assert len(sequence.manifest) == (2 if "subset" in options else 6)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (keras.applications.resnet.preprocess_input, 'scale="caffe"'),
        (keras.applications.mobilenet_v2.preprocess_input, 'scale="tf"'),
        (keras.applications.densenet.preprocess_input, 'scale="torch"'),
    ],
)
def test_preprocess_input_of_a_known_model_becomes_its_scale(df, function, expected):
    message = told(dfgen.Sequence, df, "file", "kind", preprocessing_function=function)
    assert message.splitlines()[1:] == [
        "  preprocessing_function is now scale",
        f'Write dfgen.Sequence(df, x="file", y="kind", {expected})',
    ]
    pixels = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
    scale = expected.split('"')[1]
    scaled = keras.applications.imagenet_utils.preprocess_input(pixels.copy(), mode=scale)
    assert np.allclose(function(pixels.copy()), scaled)


@pytest.mark.parametrize("name", ["efficientnet", "efficientnet_v2", "convnext", "mobilenet_v3"])
def test_preprocess_input_that_does_nothing_is_left_out(df, name):
    function = getattr(keras.applications, name).preprocess_input
    message = told(dfgen.Sequence, df, "file", "kind", preprocessing_function=function)
    assert message.splitlines()[1:] == [
        "  preprocessing_function is now scale: leave it out: that model scales pixels itself",
        'Write dfgen.Sequence(df, x="file", y="kind")',
    ]
    assert function(5.0) == 5.0


def test_sequences_translates_arguments_too(df):
    message = told(
        dfgen.sequences, df, "file", y="kind", root="imgs", target_size=(4, 4), worker=True
    )
    assert message == (
        "sequences has no argument target_size, worker:\n"
        "  target_size is now image_size: (height, width)\n"
        '  worker is no argument. Did you mean "workers"?\n'
        'Write dfgen.sequences(df, x="file", y="kind", root="imgs", image_size=(4, 4))'
    )


def test_what_has_no_source_is_named_and_the_rest_can_be_pasted(df):
    def called(sample, rng):
        return sample

    for given, call in [
        ({"transform": called}, "transform=called"),
        ({"transform": lambda sample, rng: sample}, "transform=transform"),
        ({"y": dfgen.Column("kind", len, shape=(1,))}, "y=y"),
        ({"class_weight": {0: np.float32(2)}, "y": "kind"}, 'y="kind", class_weight={0: 2.0}'),
        ({"root": 'a "b"\n\\c'}, 'root="a \\"b\\"\\n\\\\c"'),
    ]:
        message = told(dfgen.Sequence, df, num_workers=0, **given)
        assert message.splitlines()[-1] == f"Write dfgen.Sequence(df, {call}, workers=0)"


def test_no_call_is_written_where_it_is_not_known_which_image_is_meant(df):
    assert told(dfgen.Sequence, df, {"a": "path"}, horizontal_flip=True) == (
        "Sequence has no argument horizontal_flip:\n"
        '  horizontal_flip is now flip of dfgen.Image: flip="horizontal"'
    )
