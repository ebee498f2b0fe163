"""Habits from tutorials of other libraries: what their authors' readers write first."""

from pathlib import Path

import cv2
import keras
import numpy as np
import pandas as pd
from keras import layers
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError
from wrong_calls import WrongCall


def small(*layers_after, shape=(8, 8, 3), loss="sparse_categorical_crossentropy"):
    """A Sequential with an Input, compiled."""
    model = keras.Sequential([keras.Input(shape), *layers_after])
    model.compile("sgd", loss)
    return model


def fitting(what, make, received, expected, advice, raises=ArgumentError, **options):
    """`fit` of a model on a Sequence of `pets.frame`."""

    def call(pets):
        given = {"y": "kind", "image_size": (8, 8), "workers": 0, **options}
        arguments = given.pop("fit", {})
        frame = pets.frame.assign(
            kind=pets.frame["kind"].astype("category"),
            even=0, odd=1, years=["20", "21", "35"] * 4, stars=[1, 2, 3, 4] * 3,
        )  # fmt: skip
        make().fit(dfgen.Sequence(frame, **given), verbose=0, **arguments)

    return WrongCall(what, call, raises, received, expected, advice)


def opening(what, arguments, received, expected, advice, **columns):
    """A Sequence of `pets.frame` with some more columns, made by functions of it."""

    def call(pets):
        frame = pets.frame.assign(**columns)
        dfgen.Sequence(frame, **{"y": "kind", **arguments(frame)})

    return WrongCall(what, call, DfgenError, received, expected, advice)


def pixels_table():
    columns = ["label", *(f"pixel{i}" for i in range(784))]
    return pd.DataFrame(np.zeros((8, 785), np.int64), columns=columns)


def folder_of_scans(pets):
    for row in range(3):
        (pets.folder / "imgs" / f"{row}.dcm").write_bytes(bytes(128) + b"DICM")
    for path in pets.frame["path"]:
        Path(path).unlink()
    dfgen.build_manifest("imgs")


def same_names(pets):
    for kind in ("Cat", "Dog"):
        for row in range(2):
            (pets.folder / "PetImages" / kind).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(f"PetImages/{kind}/{row}.jpg", np.zeros((8, 8, 3), np.uint8))
    dfgen.build_manifest("PetImages", pattern="{label}/{id}.jpg")


def flat(units=3):
    return [layers.Flatten(), layers.Dense(units, activation="softmax")]


def functional(shape):
    inputs = keras.Input(shape)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(layers.Flatten()(inputs)))
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def attribute(name, advice, what=""):
    """What a data set of another library has, and a Sequence has otherwise."""

    def call(pets):
        getattr(dfgen.Sequence(pets.frame, y="kind", workers=0), name)

    return WrongCall(what or f"sequence.{name}", call, AttributeError, f"{name!r}",
                     "'Sequence' object has no attribute", advice)  # fmt: skip


def subclass(pets):
    class Batches(dfgen.Sequence):
        def __init__(self, frame):
            self.frame = frame

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return None

    small(*flat()).fit(Batches(pets.frame), verbose=0)


def masked(what, levels, units, loss, received, expected, advice):
    """`fit` of a model for segmentation on masks of some gray levels."""

    def call(pets):
        for row in range(12):
            cv2.imwrite(f"{row}.png", np.resize(np.array(levels, np.uint8), (24, 32)))
        frame = pets.frame.assign(mask=[f"{row}.png" for row in range(12)])
        activation = "sigmoid" if units == 1 else "softmax"
        model = small(layers.Conv2D(units, 1, activation=activation), loss=loss)
        size = {"image_size": (8, 8), "workers": 0}
        model.fit(dfgen.Sequence(frame, y=dfgen.Mask("mask"), **size), verbose=0)

    return WrongCall(what, call, ArgumentError, received, expected, advice)


CALLS = [
    # keras: image_classification_from_scratch, image_ocr, EfficientNet
    fitting("another size than the Input's, of a Sequential", lambda: small(*flat()),
            "x gives 'image' as (batch, 16, 16, 3)", "the model takes (batch, 8, 8, 3)",
            "write image_size=(8, 8)", image_size=(16, 16)),
    fitting("another size than the Input's, functional", lambda: functional((8, 8, 3)),
            "(batch, 16, 16, 3)", "the model takes (batch, 8, 8, 3)",
            "let the model begin with keras.Input((16, 16, 3))", image_size=(16, 16)),
    fitting("(width, height), which a Flatten would take",
            lambda: small(*flat(), shape=(4, 8, 3)), "(batch, 8, 4, 3)",
            "takes (batch, 4, 8, 3), height and width exchanged", "write image_size=(4, 8)",
            image_size=(8, 4)),
    fitting("grayscale for a model of three channels", lambda: small(*flat()),
            "(batch, 8, 8, 1)", "the model takes (batch, 8, 8, 3)", 'write color_mode="rgb"',
            color_mode="grayscale"),
    fitting("RGB for a model of one channel", lambda: functional((8, 8, 1)),
            "(batch, 8, 8, 3)", "the model takes (batch, 8, 8, 1)",
            'write color_mode="grayscale"'),
    fitting("scale= before a model that rescales",
            lambda: small(layers.Rescaling(1 / 255), *flat()), "scale='0..1' makes pixels about 1",
            "Rescaling, multiplies them by 0.003922 again", "leave out scale=, or the layer",
            UserWarning, scale="0..1"),
    fitting("scale= before a model of keras.applications, which rescales within",
            lambda: small(keras.Sequential([layers.Rescaling(1 / 127.5, -1)]), *flat()),
            "scale='torch' makes", "multiplies them by 0.007843 again", "leave out scale=",
            UserWarning, scale="torch"),
    # notebooks: the age of a face
    fitting("ages as text under a regression",
            lambda: small(layers.GlobalAveragePooling2D(), layers.Dense(1), loss="mse"),
            "'20' is number 0 in batches", "learns that number, not 20",
            "df['years'] = df['years'].astype(float)", UserWarning, y="years"),
    fitting("ratings as categories under a regression",
            lambda: small(layers.GlobalAveragePooling2D(), layers.Dense(1), loss="mae"),
            "1 is number 0 in batches", "learns that number, not 1", ".astype(float)",
            UserWarning, y=dfgen.Category("stars")),
    # keras: oxford_pets_image_segmentation; U-Net notebooks
    masked("trimaps of 1 to 3, without target -= 1", [1, 2, 3], 3,
           "sparse_categorical_crossentropy", "holds the numbers 1 to 3",
           "takes for the classes 0 to 2", "dfgen.Mask('mask', palette={1: 0, 2: 1, 3: 2})"),
    masked("masks of 0 and 255 under a sigmoid", [0, 255], 1, "binary_crossentropy",
           "holds the numbers 0 to 255", "takes 0 and 1", "palette={0: 0, 255: 1}"),
    masked("masks with soft edges under a sigmoid", [0, 90, 255], 1, "binary_crossentropy",
           "holds the numbers 0 to 255", "takes 0 and 1", "for soft masks write y=dfgen.Image("),
    masked("Pascal's border of 255", [0, 1, 2, 255], 3, "sparse_categorical_crossentropy",
           "holds the numbers 0 to 255", "takes for the classes 0 to 2", "ignore_class=255"),
    # Kaggle: plant pathology; fastai: PLANET as columns
    fitting("one-hot columns as a list, for one output",
            lambda: small(*flat(2), loss="categorical_crossentropy"), "y gives 2",
            "the model has one output", "y=dfgen.Number([...])", y=["even", "odd"]),
    fitting("one-hot columns as a list, functional", lambda: functional((8, 8, 3)),
            "y gives 2", "the model has one output", "y=dfgen.Number([...])", y=["even", "odd"]),
    fitting("several columns of numbers beside the image, for one input",
            lambda: small(*flat()), "x gives 3", "the model has one input",
            "keras.Model(inputs, outputs) with 3 inputs", x=["path", "age", "legs"]),
    # keras: flow_from_dataframe
    attribute("class_indices", "enumerate(seq.class_names)"),
    attribute("classes", "seq.class_names has the names in the order of their numbers"),
    attribute("filenames", 'seq.manifest["path"]'),
    attribute("samples", "len(seq.manifest)"),
    attribute("n", "len(seq.manifest)"),
    attribute("next", "next(iter(seq))"),
    attribute("reset", "leave it out"),
    # tf.data, torch, fastai, Hugging Face
    attribute("map", "transform=function"),
    attribute("batch", "batch_size=32"),
    attribute("prefetch", "made ahead by themselves"),
    attribute("cache", 'cache="memory"'),
    attribute("take", "df[:100]"),
    attribute("cardinality", "len(seq) is the number of batches"),
    attribute("class_to_idx", "enumerate(seq.class_names)"),
    attribute("targets", "seq.manifest"),
    attribute("vocab", "seq.class_names"),
    attribute("show_batch", "seq.show()"),
    attribute("with_transform", "transform=function"),
    attribute("to_tf_dataset", "seq.get_tf_dataset()"),
    attribute("train_test_split", "dfgen.split(df"),
    WrongCall("a subclass without super().__init__", subclass, AttributeError, "'Batches'",
              "__init__ of dfgen.Sequence has not run", "super().__init__(df, ...)"),
    # keras: flow_from_dataframe, predict_generator, timeseries_dataset_from_array
    fitting("steps_per_epoch of a division", lambda: small(*flat()), "fit(steps_per_epoch",
            "expected a whole number", "leave it out", fit={"steps_per_epoch": 12 / 4}),
    fitting("steps_per_epoch of np.ceil", lambda: small(*flat()), "fit(steps_per_epoch=3)",
            "expected a whole number", "write steps_per_epoch=3",
            fit={"steps_per_epoch": np.ceil(12 / 4)}),
    opening("sequence_length", lambda frame: {"x": "age", "sequence_length": 10},
            "no argument sequence_length", "a row is a sample", "into a column"),
    # Hugging Face
    opening("numbers of classes, and their names beside them",
            lambda frame: {"y": "legs", "class_names": list("abcde")},
            "column 'legs' holds numbers", "'a', 'b', 'c', 'd', 'e' are text",
            "pd.Categorical.from_codes(df['legs'], class_names)"),
    opening("Category of numbers, and their names",
            lambda frame: {"y": dfgen.Category("legs", class_names=list("abcde"))},
            "class_names of column 'legs' are 'a', 'b', 'c', 'd', 'e'", "names of that type",
            "but the column holds int64"),
    opening("images of Pillow in a column", lambda frame: {"x": "image"},
            "'image' holds a PIL.", "expected a number, a text or a list", "image.save(buffer",
            image=lambda frame: [Image.new("RGB", (8, 8))] * len(frame)),
    opening("arrays of pixels in a column", lambda frame: {"x": "image"},
            "'image' holds a numpy.ndarray of shape (8, 8, 3)", "expected a number",
            "cv2.imencode", image=lambda frame: [np.zeros((8, 8, 3), np.uint8)] * len(frame)),
    WrongCall("the split that is called validation", lambda pets: dfgen.sequences(
        pets.frame.assign(split=["train", "validation"] * 6), y="kind")["val"], KeyError,
        "no split 'val'", "expected one of", "'validation'"),
    # Kaggle: APTOS, HAM10000, MNIST, facial keypoints, RSNA, steel
    opening("names without their extension", lambda frame: {"x": "id_code"}, "'a0' has no suffix",
            "has no suffix of an image", 'df["id_code"] = df["id_code"] + ".jpg"',
            id_code=lambda frame: [f"a{row}" for row in range(len(frame))]),
    opening("pixels as text", lambda frame: {"x": "Image"}, 'x="Image" is text',
            "has no suffix of an image", "dfgen.Column(\"Image\", lambda text: "
            "np.array(text.split(), \"float32\").reshape(8, 8, 1), shape=(8, 8, 1))",
            Image=lambda frame: [" ".join(map(str, range(64)))] * len(frame)),
    WrongCall("MNIST's table of pixels, without an id", lambda pets: dfgen.Sequence(
        pixels_table(), dfgen.Number([f"pixel{i}" for i in range(784)]), "label"), ManifestError,
        "no column 'id'", "tells the rows apart", 'df["id"] = range(len(df))'),
    WrongCall("MNIST's table of pixels, without a path", lambda pets: dfgen.Sequence(
        pixels_table(), y="label"), ManifestError, "pixel18, ... (785 in all)",
        'x="path" is not a column', "Columns: label"),
    opening("DICOM files", lambda frame: {}, 'x="path" names .dcm files', "does not know",
            "dfgen.Array(\"path\", shape=..., decode=function)",
            path=lambda frame: [f"{row}.dcm" for row in range(len(frame))]),
    opening("a CSV file a sample", lambda frame: {}, 'x="path" names .csv files', "does not know",
            "decode=function", path=lambda frame: [f"{row}.csv" for row in range(len(frame))]),
    opening("TFRecord files", lambda frame: {}, 'x="path" names .tfrecord', "a file for each row",
            "tf.data.TFRecordDataset", path=lambda frame: [f"{row}.tfrecord" for row in
                                                           range(len(frame))]),
    WrongCall("a folder of DICOM files", folder_of_scans, ManifestError, "3 .dcm",
              "Extensions that are opened", "dfgen.Array(..., decode=function)"),
    WrongCall("a mask of run lengths without its shape", lambda pets: dfgen.Sequence(
        pets.frame, y=dfgen.Column("legs", lambda legs: np.zeros((24, 32, 1))), workers=0)[0],
        DecodeError, "shape (24, 32, 1)", "expected ()", "shape=(24, 32, 1)"),
    WrongCall("Cat/0.jpg and Dog/0.jpg as {id}", same_names, ManifestError,
              'as "0" in 2', "expected the id of one row", '"{label}/{file}.jpg"'),
    # fastai
    WrongCall("is_valid as the split", lambda pets: dfgen.sequences(
        pets.frame.assign(split=[True, False] * 6), y="kind"), ManifestError, "holds bool",
        "expected names", 'np.where(df["split"], "val", "train")'),
    WrongCall("CropPad's size as crop", lambda pets: dfgen.Image("path", crop=224), ArgumentError,
              "crop=224 is a size", "expected how to crop", "size=(224, 224)"),
    WrongCall("Resize's size as resize", lambda pets: dfgen.Image("path", resize=(256, 256)),
              ArgumentError, "resize=(256, 256) is a size", "expected how to resize",
              "load_size=(256, 256)"),
    opening("label_mode=None for numbers", lambda frame: {"y": "age", "label_mode": None},
            "y='age' names some", "asks for no targets", "numbers need no label_mode"),
]  # fmt: skip
