"""Words of other libraries: what each is here, and that it is there."""

import inspect
import re
from functools import partial

import keras
import numpy as np
import pandas as pd
import pytest
from cases import each

import dfgen
from dfgen.errors import UnknownArgumentError
from dfgen.explain.other_libraries import HERE, OF_IMAGE, RENAMED, VALUES

FUNCTIONS = [
    dfgen.Sequence, dfgen.build_manifest, dfgen.split, dfgen.read_manifest, dfgen.write_manifest,
    dfgen.verify, dfgen.pack, dfgen.update_labels,
]  # fmt: skip
SEQUENCE = inspect.signature(dfgen.Sequence).parameters
IMAGE = inspect.signature(dfgen.Image).parameters


def refused(function, *args, **options):
    with pytest.raises(UnknownArgumentError) as caught:
        function(*args, **options)
    return str(caught.value)


def test_every_place_that_an_argument_went_to_exists():
    for name, word in [(old, word) for old in RENAMED for word in RENAMED[old].split(" | ")]:
        to, _, note = word.partition(": ")
        feature, _, argument = to.rpartition(".")
        homes = [getattr(dfgen, feature)] if feature else FUNCTIONS
        assert to or note, name
        assert not to or any(argument in inspect.signature(home).parameters for home in homes), name
        for public in re.findall(r"dfgen\.(\w+)", note):
            assert public in dfgen.__all__, name
        for layer in re.findall(r"keras\.layers\.(\w+)", note):
            assert hasattr(keras.layers, layer), name
        assert any(name not in inspect.signature(function).parameters for function in FUNCTIONS)


def test_arguments_of_the_image_are_those_that_a_sequence_lacks():
    lacks = {name for name in IMAGE if name not in SEQUENCE} - {"column", "size", "dataset"}
    assert {*OF_IMAGE} == lacks


def test_no_attribute_of_a_sequence_is_told_to_be_another():
    assert not [name for name in HERE if hasattr(dfgen.Sequence, name)]


@each("argument", VALUES)
def test_every_value_leads_to_one_that_is_taken(argument):
    homes = {"dtype of a mask": dfgen.Mask, "format of boxes": dfgen.Boxes}
    name = argument.partition(" ")[0]
    for value in {value for value in VALUES[argument].values() if " " not in value}:
        if name in SEQUENCE:
            taken = refused_values(partial(dfgen.Sequence, FRAME, **{name: "no"}))
        else:
            taken = refused_values(
                partial(homes.get(argument, dfgen.Image), "path", **{name: "no"})
            )
        assert repr(value) in taken


FRAME = pd.DataFrame({"id": [1], "path": ["a.jpg"], "n": [1.0]})


def refused_values(call):
    with pytest.raises(dfgen.DfgenError, match="must be one of") as caught:
        call()
    return str(caught.value)


def test_all_arguments_are_translated_in_one_error():
    message = refused(
        dfgen.Sequence, dataframe=FRAME, directory="imgs", x_col="file", target_size=(4, 4),
        class_mode="sparse", rescale=1 / 255, horizontal_flip=True, rotation_range=20,
        validation_split=0.2, flip="horizontal", bacth_size=2, nothing=1,
    )  # fmt: skip
    assert message.splitlines() == [
        "Sequence has no argument dataframe, directory, x_col, target_size, class_mode, rescale, "
        "horizontal_flip, rotation_range, validation_split, flip, bacth_size, nothing:",
        "  dataframe is now manifest: the first argument",
        "  directory is now root: paths of the frame begin there; of a folder alone: "
        'df = dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg")',
        "  x_col is now x",
        "  target_size is now image_size: (height, width)",
        '  class_mode is now label_mode: "sparse" is "int"; numbers of class_mode="raw" are '
        'y="age" by itself, several outputs y=["kind", "age"]',
        '  rescale is now scale: 1/255 is scale="0..1"',
        '  horizontal_flip is now flip of dfgen.Image: flip="horizontal"',
        "  rotation_range: augmentation is part of the model, keras.layers.RandomRotation, or of "
        "transform=dfgen.albumentations(...)",
        '  validation_split: name each split with its share: df = dfgen.split(df, {"train": 0.8, '
        '"val": 0.2}), or split= of build_manifest; a split is a column: '
        'dfgen.Sequence(df[df.split == "train"], ...)',
        "  flip is an argument of the image: x=dfgen.Image(..., flip=...)",
        '  bacth_size is no argument. Did you mean "batch_size"?',
        "  nothing is no argument. Leave it out",
    ]


@pytest.mark.parametrize(
    ("function", "options", "meaning"),
    [
        (dfgen.sequences, {"y_col": "kind"}, "y_col is now y"),
        (dfgen.build_manifest, {"y_col": "kind"}, "y_col is now label"),
        (dfgen.build_manifest, {"directory": "imgs"}, "directory is now source"),
        (dfgen.build_manifest, {"df": FRAME}, "df is now labels"),
        (dfgen.build_manifest, {"rescale": 1}, "rescale: it belongs to dfgen.Sequence, which"),
        (dfgen.build_manifest, {"crop": "random"}, "crop: it belongs to dfgen.Sequence, which"),
        (dfgen.split, {"split": {}}, "split is now shares"),
        (dfgen.split, {"n_splits": 5}, "n_splits is now folds"),
    ],
)
def test_an_argument_becomes_what_its_function_has(function, options, meaning):
    assert f"\n  {meaning}" in refused(function, FRAME, **options)


OF_APPLICATIONS = {
    "caffe": ("resnet", "vgg16", "vgg19"),
    "tf": ("inception_v3", "mobilenet", "mobilenet_v2", "nasnet", "resnet_v2", "xception"),
    "torch": ("densenet",),
}
UNSCALED = ("efficientnet", "efficientnet_v2", "convnext", "mobilenet_v3")


def test_the_scales_of_preprocess_input_are_those_that_are_said():
    pixels = np.arange(48, dtype=np.float32).reshape(1, 4, 4, 3)
    for mode, models in OF_APPLICATIONS.items():
        assert f'"{mode}" for ' in RENAMED["preprocessing_function"]
        for name in models:
            own = getattr(keras.applications, name).preprocess_input(pixels.copy())
            scaled = keras.applications.imagenet_utils.preprocess_input(pixels.copy(), mode=mode)
            assert np.allclose(own, scaled)
    for name in UNSCALED:
        assert getattr(keras.applications, name).preprocess_input(5.0) == 5.0
