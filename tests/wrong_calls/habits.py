"""Habits from tutorials of other libraries: what their authors' readers write first."""

import keras
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
        frame = pets.frame.assign(kind=pets.frame["kind"].astype("category"), even=0, odd=1)
        make().fit(dfgen.Sequence(frame, **given), verbose=0)

    return WrongCall(what, call, raises, received, expected, advice)


def flat(units=3):
    return [layers.Flatten(), layers.Dense(units, activation="softmax")]


def functional(shape):
    inputs = keras.Input(shape)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(layers.Flatten()(inputs)))
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


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
    # Kaggle: plant pathology; fastai: PLANET as columns
    fitting("one-hot columns as a list, for one output",
            lambda: small(*flat(2), loss="categorical_crossentropy"), "y gives 2",
            "the model has one output", "y=dfgen.Number([...])", y=["even", "odd"]),
    fitting("one-hot columns as a list, functional", lambda: functional((8, 8, 3)),
            "y gives 2", "the model has one output", "y=dfgen.Number([...])", y=["even", "odd"]),
    fitting("several columns of numbers beside the image, for one input",
            lambda: small(*flat()), "x gives 3", "the model has one input",
            "keras.Model(inputs, outputs) with 3 inputs", x=["path", "age", "legs"]),
]  # fmt: skip
