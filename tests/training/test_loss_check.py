"""Losses, units and targets that go together train without a warning; others raise or warn."""

import keras
import numpy as np
import pandas as pd
import pytest
from public.keras_helpers import EAGER, numbers
from public.test_checks_before_training import BINARY, CATEGORICAL, HOT, LOGITS, SPARSE, WRONG

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
layers, losses, ops = keras.layers, keras.losses, keras.ops
TAGS = "fur", "paws", "wings"


@pytest.fixture
def df(files, tmp_path):
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(8, 2)).astype("f4"), columns=["a", "b"])
    for value in range(3):
        mask = np.full((4, 4, 1), value, np.uint8)
        keras.utils.save_img(tmp_path / f"{value}.png", mask, scale=False)
    return df.assign(
        id=range(8), path=files[:8], mask=[f"{tmp_path}/{row % 3}.png" for row in range(8)],
        kind=pd.Categorical(["cat", "dog", "owl", "cat"] * 2),
        tame=pd.Categorical(["no", "yes"] * 4),
        tags=[[*TAGS][: row % 4] for row in range(8)],
        tag=[["fur"], [], ["paws", "paws"], ["wings"]] * 2,
        fur=[1, 0] * 4, paws=[0, 1, 1, 0] * 2, other=[0, 1] * 4,
        whole=[0.0, 1.0, 2.0, 1.0] * 2, share=np.arange(8) / 8, rank=range(8),
        signed=[-1, 0, 1, 2] * 2, late=[1, 2, 3, 1] * 2, odd=[0, 1, 2, 9] * 2,
        mark=[0, 1, 1, 9] * 2, weight=[1.0, 1.0, 1.0, 0.0] * 2,
        code=pd.Categorical([0, 1, 2, 2] * 2),
    )  # fmt: skip


def ending(*last):
    return keras.Sequential([layers.Dense(4), *last])


def dense(units, activation=None):
    return ending(layers.Dense(units, activation, name="last"))


def pixels(units, activation=None):
    """Return a functional model with an output for each pixel."""
    image = keras.Input((4, 4, 3))
    last = layers.Conv2D(units, 1, activation=activation, name="last")
    return keras.Model(image, last(layers.Rescaling(1 / 255)(image)))


def images(df, y, **options):
    return dfgen.Sequence(df, dfgen.Image(size=(4, 4)), y, batch_size=8, workers=0, **options)


def train(model, loss, data):
    model.compile("sgd", loss, run_eagerly=EAGER)
    return model.fit(data, verbose=0).history["loss"][0]


def own_loss(true, made):
    return ops.mean(ops.square(ops.cast(ops.reshape(true, (-1, 1)), "float32") - made), axis=-1)


class OwnSparse(losses.SparseCategoricalCrossentropy):
    """Takes classes from 1."""

    def call(self, y_true, y_pred):
        return super().call(y_true - 1, y_pred)


def soft(batch, rng):
    return {**batch, "label": (batch["label"] * 0.9 + 0.1 / 3).astype("float32")}


def coarser(arrays, rng):
    """Return the labels of two classes instead of three."""
    return {**arrays, "label": (arrays["label"] // 2).astype(arrays["label"].dtype)}


def from_zero(sample, rng):
    return {name: value - (value.dtype.kind == "i") for name, value in sample.items()}


IGNORED = losses.SparseCategoricalCrossentropy(ignore_class=-1)
SMOOTH = losses.CategoricalCrossentropy(label_smoothing=0.1)
BINARY_LOGITS = losses.BinaryCrossentropy(from_logits=True)
COLUMNS = dfgen.Number(["share", "rank"])
UNKNOWN = dfgen.Mask("mask", palette={0: 0, 1: 1, 2: 255})
RIGHT = {  # model, loss, y, options
    "a loss function": (dense(3, "softmax"), losses.sparse_categorical_crossentropy, "kind"),
    "a loss class": (dense(3, "softmax"), losses.SparseCategoricalCrossentropy, "kind"),
    "units of later classes":
        (dense(4, "softmax"), SPARSE, "kind", {"class_names": ["cat", "dog", "owl", "yak"]}),
    "two units of two classes": (dense(2, "softmax"), SPARSE, "tame"),
    "whole floats": (dense(3, "softmax"), SPARSE, "whole"),
    "an ignored class": (dense(3, "softmax"), IGNORED, "signed"),
    "one-hot classes under mse": (dense(3, "softmax"), "mse", "kind", HOT),
    "soft labels": (dense(3, "softmax"), CATEGORICAL, "kind", HOT | {"batch_transform": soft}),
    "smoothing": (dense(3, "softmax"), SMOOTH, "kind", HOT),
    "focal": (dense(3, "softmax"), losses.CategoricalFocalCrossentropy(), "kind", HOT),
    "binary logits": (dense(1), BINARY_LOGITS, "other"),
    "binary focal": (dense(1, "sigmoid"), losses.binary_focal_crossentropy, "other"),
    "shares under a binary loss": (dense(1, "sigmoid"), BINARY, "share"),
    "one tag at most": (dense(3, "softmax"), CATEGORICAL, dfgen.MultiLabel("tag", TAGS)),
    "one-hot columns": (dense(2, "softmax"), CATEGORICAL, dfgen.Number(["fur", "other"])),
    "a class as 0 and 1": (dense(1, "sigmoid"), "mse", "tame"),
    "class names that are numbers": (dense(1), "mae", "code"),
    "categorical hinge": (dense(3), "categorical_hinge", "kind", HOT),
    "cosine similarity": (dense(2), losses.CosineSimilarity(), COLUMNS),
    "poisson": (dense(1, "exponential"), "poisson", "rank"),
    "divergence": (dense(3, "softmax"), "kl_divergence", "kind", HOT),
    "a function of the user": (dense(3), own_loss, "late"),
    "a class of the user": (dense(3, "softmax"), OwnSparse(), "late"),
    "a transform of labels": (dense(2, "softmax"), SPARSE, "kind", {"transform": coarser}),
    "a transform of numbers": (dense(3, "softmax"), SPARSE, "late", {"transform": from_zero}),
    "a batch_transform": (dense(2, "softmax"), SPARSE, "kind", {"batch_transform": coarser}),
    "rows of weight 0": (dense(1), BINARY_LOGITS, "mark", {"sample_weight": "weight"}),
    "missing labels": (dense(3, "softmax"), SPARSE, dfgen.Category("none", missing="ignore")),
    "a class per column": (
        ending(layers.Dense(6), layers.Reshape((2, 3)), layers.Softmax()), SPARSE,
        dfgen.Number(["fur", "other"])),
    "classes along another axis": (
        ending(layers.Dense(6), layers.Reshape((3, 2)), layers.Softmax(axis=1)),
        losses.CategoricalCrossentropy(axis=1),
        dfgen.Column("share", lambda value: np.full((3, 2), value), shape=(3, 2))),
    "an activation of the user": (dense(3, lambda x: ops.softmax(x)), SPARSE, "kind"),
    "a layer of the user":
        (ending(layers.Lambda(lambda x: ops.softmax(x[:, :3]))), SPARSE, "kind"),
    "a softmax in float32":
        (ending(layers.Dense(3), layers.Activation("softmax", dtype="float32")), SPARSE, "kind"),
    "a softmax cast to float32": (
        ending(layers.Dense(3, "softmax"), layers.Activation("linear", dtype="float32")), SPARSE,
        "kind"),
    "an autoencoder":
        (pixels(3, "sigmoid"), BINARY, dfgen.Image("path", size=(4, 4), scale="0..1")),
    "masks": (pixels(3), LOGITS, dfgen.Mask("mask")),
    "masks of two classes":
        (pixels(1), BINARY_LOGITS, dfgen.Mask("mask", palette={0: 0, 1: 1, 2: 1})),
    "masks with an unknown class": (
        pixels(2), losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255),
        UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_matching_losses_and_targets_train_without_a_warning(df, name):
    model, loss, y, *options = RIGHT[name]
    df["none"] = df.kind.where(df.id > 1)
    sequence = images if getattr(model, "input_shape", (0,))[1:] == (4, 4, 3) else numbers
    options = options[0] if options else {}
    seq = sequence(df, y, **({} if sequence is images else {"batch_size": 8}), **options)
    assert np.isfinite(train(model, loss, seq))


MISTAKES = {  # model, loss, y, key word
    "tags under softmax and a binary loss":
        (ending(layers.Dense(3), layers.Softmax()), BINARY, dfgen.MultiLabel("tags", TAGS), "tags"),
    "tags in columns": (dense(2, "softmax"), CATEGORICAL, dfgen.Number(["fur", "paws"]), "sigmoid"),
    "sigmoid for one of several": (dense(3, "sigmoid"), SPARSE, "kind", "sigmoid"),
    "relu before logits": (dense(3, "relu"), LOGITS, "kind", "relu"),
    "tanh under a binary loss": (dense(1, "tanh"), BINARY, "tame", "tanh"),
    "three classes under a binary loss": (dense(1, "sigmoid"), BINARY, "whole", "whole"),
    "fractions under a sparse loss": (dense(3, "softmax"), SPARSE, "share", "fractions"),
    "one number for two units": (dense(2), "mse", "share", "units"),
    "nested Sequentials": (keras.Sequential([dense(2, "softmax")]), SPARSE, "kind", "kind"),
    "a mask class beyond the units": (pixels(2), LOGITS, dfgen.Mask("mask"), "mask"),
    "a loss of the user without targets": (dense(1), own_loss, None, "y="),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise(df, name):
    model, loss, y, word = MISTAKES[name]
    options = {"label_mode": None} if y is None else {}
    seq = (images if isinstance(y, dfgen.Mask) else numbers)(df, y, **options)
    with pytest.raises(WRONG, match=word):
        train(model, loss, seq)


def test_the_check_does_not_build_a_model(df):
    model = dense(3, "softmax")
    with pytest.raises(ArgumentError):
        train(model, SPARSE, numbers(df, "kind", **HOT))
    assert not model.built


def test_evaluate_rejects_class_index_without_a_unit(df):
    model = dense(3, "softmax")
    train(model, SPARSE, numbers(df, "whole"))
    with pytest.raises(ArgumentError, match="odd"):
        model.evaluate(numbers(df, "odd"), verbose=0)
    val = numbers(df.assign(id=df.id + 8), "odd")
    with pytest.raises(ArgumentError, match="odd"):
        model.fit(numbers(df, "whole"), validation_data=val, verbose=0)
    assert np.isfinite(train(model, SPARSE, numbers(df, "whole")))


def heads(kind, nested):
    inputs = keras.Input((2,))
    outputs = {
        "kind": layers.Dense(kind, "softmax", name="kind")(inputs),
        "share": layers.Dense(1, name="share")(inputs),
    }
    return keras.Model(inputs, outputs if nested is dict else [*outputs.values()])


@pytest.mark.parametrize("nested", [dict, list])
@pytest.mark.parametrize("loss", [{"kind": SPARSE, "share": "mse"}, [SPARSE, "mse"]])
def test_outputs_are_compared_with_own_losses_and_targets(df, nested, loss):
    seq = numbers(df, {"share": "share", "kind": "kind"})
    assert np.isfinite(train(heads(3, nested), loss, seq))
    with pytest.raises(ArgumentError, match="kind"):
        train(heads(2, nested), loss, seq)


def test_an_output_without_a_loss_needs_no_target(df):
    model = heads(3, list)
    model.compile("sgd", [None, "mse"])
    assert np.isfinite(model.evaluate(numbers(df, {"share": "share"}), verbose=0))


def test_model_with_own_compute_loss_takes_any_targets(df):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.last = layers.Dense(2)

        def call(self, x):
            return self.last(x)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return ops.mean(ops.square(y_pred))

    train(Own(), SPARSE, numbers(df, None, label_mode=None))
    train(Own(), SPARSE, numbers(df, "kind"))


def test_model_adding_its_loss_needs_no_targets(df):
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(ops.mean(ops.square(x)))
            return x

    train(ending(layers.Dense(2), Penalty()), None, numbers(df, None, label_mode=None))


def test_prediction_needs_no_targets(df):
    model = dense(3, "softmax")
    model.compile("sgd", SPARSE)
    assert model.predict(numbers(df, None, label_mode=None), verbose=0).shape == (8, 3)
