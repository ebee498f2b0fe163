"""Habits from tutorials of other libraries: what their authors' readers write first."""

import cv2
import keras
import numpy as np
from keras import layers

import dfgen
from dfgen.errors import ArgumentError
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
        frame = pets.frame.assign(
            kind=pets.frame["kind"].astype("category"),
            even=0, odd=1, years=["20", "21", "35"] * 4, stars=[1, 2, 3, 4] * 3,
        )  # fmt: skip
        make().fit(dfgen.Sequence(frame, **given), verbose=0)

    return WrongCall(what, call, raises, received, expected, advice)


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
    attribute("cache", "leave it out"),
    attribute("take", "df[:100]"),
    attribute("cardinality", "len(seq) is the number of batches"),
    attribute("class_to_idx", "enumerate(seq.class_names)"),
    attribute("targets", "seq.manifest"),
    attribute("vocab", "seq.class_names"),
    attribute("show_batch", "seq[0]"),
    attribute("with_transform", "transform=function"),
    attribute("to_tf_dataset", "seq.get_tf_dataset()"),
    attribute("train_test_split", "dfgen.split(df"),
    WrongCall("a subclass without super().__init__", subclass, AttributeError, "'Batches'",
              "__init__ of dfgen.Sequence has not run", "super().__init__(df, ...)"),
]  # fmt: skip
