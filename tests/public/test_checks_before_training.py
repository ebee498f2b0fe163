"""Mistakes that Keras trains on in silence: the loss, the last layer, targets and validation."""

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError
from public.keras_helpers import EAGER, numbers

WRONG = (ArgumentError, UserWarning)  # warnings are errors here
SPARSE, CATEGORICAL, BINARY = (
    f"{kind}_crossentropy" for kind in ("sparse_categorical", "categorical", "binary")
)
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
TAGS = dfgen.MultiLabel("tags", ("fur", "paws", "wings"))
HOT = {"label_mode": "categorical"}


@pytest.fixture
def df(files):
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(8, 2)).astype("f4"), columns=["a", "b"])
    return df.assign(
        id=range(8), path=files[:8], share=np.arange(8) / 8, code=[0, 1, 2, 2] * 2,
        late=[1, 2, 3, 1] * 2, words=[*"abcdefgh"],
        kind=pd.Categorical(["cat", "dog", "owl", "cat"] * 2),
        tame=pd.Categorical(["no", "yes"] * 4),
        tags=[["fur", "paws", "wings"][: row % 4] for row in range(8)],
    )  # fmt: skip


def dense(units, activation=None, loss="mse", built=True):
    last = keras.layers.Dense(units, activation=activation, name="last")
    model = keras.Sequential([keras.Input((2,)), last] if built else [last])
    model.compile("sgd", loss, run_eagerly=EAGER)
    return model


MISTAKES = {  # units, activation, loss, y, options, key word
    "softmax over one unit": (1, "softmax", BINARY, "tame", {}, "softmax"),
    "no activation, no logits": (3, None, SPARSE, "kind", {}, "from_logits"),
    "no activation under a binary loss": (1, None, BINARY, "tame", {}, "from_logits"),
    "softmax and logits": (3, "softmax", LOGITS, "kind", {}, "from_logits"),
    "fewer units than classes": (2, "softmax", SPARSE, "kind", {}, "kind"),
    "fewer units than one-hot classes": (2, "softmax", CATEGORICAL, "kind", HOT, "kind"),
    "a class number beyond the units": (3, "softmax", SPARSE, "late", {}, "late"),
    "several labels under softmax": (3, "softmax", CATEGORICAL, TAGS, {}, "tags"),
    "class numbers under a regression loss": (1, None, "mse", "kind", {}, "kind"),
    "vectors for a sparse loss": (3, "softmax", SPARSE, "kind", HOT, "kind"),
    "numbers for a categorical loss": (3, "softmax", CATEGORICAL, "kind", {}, "kind"),
    "text targets": (3, "softmax", SPARSE, dfgen.Text("words"), {}, "words"),
    "no targets": (3, "softmax", SPARSE, None, {"label_mode": None}, "loss"),
}


@pytest.mark.parametrize("built", [True, False], ids=["built", "unbuilt"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_loss_and_targets_raise(df, name, built):
    *layer, y, options, word = MISTAKES[name]
    seq = numbers(df, y, batch_size=8, **options)
    with pytest.raises(WRONG, match=word):
        dense(*layer, built=built).fit(seq, verbose=0)


# Training against validation


def classifier(units=3):
    return dense(units, "softmax", SPARSE)


def other(df):
    return df.assign(id=df.id + 8)


def renamed(df, names):
    return other(df).assign(kind=pd.Categorical(df.kind, names))


def test_validation_with_other_class_indices_raises(df):
    val = numbers(renamed(df, ["owl", "dog", "cat"]), "kind")
    with pytest.raises(ArgumentError, match="owl"):
        classifier().fit(numbers(df, "kind"), validation_data=val, verbose=0)


@pytest.mark.parametrize("rows", [slice(2), slice(None)])
def test_validation_may_lack_classes(df, rows):
    few = other(df)[rows].assign(kind=lambda df: df.kind.cat.remove_unused_categories())
    classifier().fit(numbers(df, "kind"), validation_data=numbers(few, "kind"), verbose=0)


def test_validation_on_the_training_rows_warns(df):
    shuffled = df.sample(frac=1, random_state=1)
    for val in (numbers(df, "kind"), numbers(shuffled, "kind", batch_size=3)):
        with pytest.warns(UserWarning, match="validation_data"):
            classifier().fit(numbers(df, "kind"), validation_data=val, epochs=2, verbose=0)
    some = numbers(pd.concat([df[4:], other(df)[:4]]), "kind")
    classifier().fit(numbers(df, "kind"), validation_data=some, verbose=0)


# Class indices of later data of the same model


def trained(df):
    model = classifier()
    model.fit(numbers(df, "kind"), verbose=0)
    return model


@pytest.mark.parametrize("use", ["evaluate", "fit", "predict_frame"])
def test_later_data_with_other_class_indices_warn(df, use):
    model, seq = trained(df), numbers(renamed(df, ["owl", "dog", "cat"]), "kind")
    with pytest.warns(UserWarning, match=r"(?s)cat.*owl"):
        if use == "predict_frame":
            dfgen.predict_frame(model, seq)
        else:
            getattr(model, use)(seq, verbose=0)


@pytest.mark.filterwarnings("ignore:the output 'last'")
@pytest.mark.parametrize(
    "names",
    [
        ["cat", "dog", "owl", "yak"],
        ["cat", "dog"],
        ["cat", "yak", "owl"],
    ],
)
def test_new_and_missing_class_names_are_legal(df, names):
    kinds = df.kind.astype(str)
    later = df.assign(kind=pd.Categorical(kinds.where(kinds.isin(names), "cat"), names))
    model = classifier(4)
    model.fit(numbers(df, "kind"), verbose=0)
    model.fit(numbers(later, "kind"), verbose=0)
    model.evaluate(numbers(later, "kind"), verbose=0)
