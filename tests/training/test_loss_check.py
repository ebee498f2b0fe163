"""What fit compares before its first step: losses, units and targets; and what it leaves alone."""

import warnings

import cv2
import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError
from dfgen.training.checks.model_outputs import known_loss

layers, losses, ops = keras.layers, keras.losses, keras.ops
SPARSE, CATEGORICAL = "sparse_categorical_crossentropy", "categorical_crossentropy"
BINARY = "binary_crossentropy"
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rows = []
    for row in range(8):
        path, mask = folder / f"{row}.png", folder / f"mask{row}.png"
        cv2.imwrite(str(path), np.full((4, 4, 3), 20 * row, np.uint8))
        cv2.imwrite(str(mask), np.full((4, 4), row % 3, np.uint8))
        rows.append((row, str(path), str(mask), row / 8, row))
    df = pd.DataFrame(rows, columns=["id", "path", "mask", "share", "rank"])
    return df.assign(
        kind=pd.Categorical(["cat", "dog", "owl", "cat"] * 2),
        tame=pd.Categorical(["no", "yes"] * 4),
        tags=[["fur", "paws", "wings"][: row % 4] for row in range(8)],
        code=[0, 1, 2, 2] * 2,
        whole=[0.0, 1.0, 2.0, 1.0] * 2,
        bit=[0, 1] * 4,
        hinge=[-1, 1] * 4,
        signed=[-1, 0, 1, 2] * 2,
        late=[1, 2, 3, 1] * 2,
        weight=[1.0, 1.0, 1.0, 0.0] * 2,
        odd=[0, 1, 2, 9] * 2,
        one=[["fur"], [], ["paws", "paws"], ["wings"]] * 2,
        fur=[1, 0] * 4,
        paws=[0, 1, 1, 0] * 2,
        degrees=[-10.0, 20.0, 30.0, 5.0] * 2,
        noisy=[-0.005, 0.5, 1.005, 1.0] * 2,
        rare=[-9.0, *range(40), 41.0][:8],
        meters=[0.0, 1.0, 2.0, 40.0] * 2,
    )


def sequence(frame, y, **given):
    given = {"image_size": (4, 4), "batch_size": 4, **given}
    return dfgen.Sequence(frame, **{"x": "path", "y": y, **given})


def dense(units, activation=None):
    """The model of every tutorial, which is not built before `fit`."""
    return keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Flatten(),
            layers.Dense(units, activation=activation, name="last"),
        ]
    )


def pixels(units, activation=None):
    """A functional model with an output for each pixel."""
    image = keras.Input((4, 4, 3))
    last = layers.Conv2D(units, 1, activation=activation, name="last")
    return keras.Model(image, last(layers.Rescaling(1 / 255)(image)))


def two_images():
    """A model that scales the second of its images alone."""
    inputs = {name: keras.Input((4, 4, 3), name=name) for name in ("one", "two")}
    both = layers.concatenate([inputs["one"], layers.Rescaling(1 / 255)(inputs["two"])])
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(both)))


def ending(*last):
    return keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), *last])


class Begun(Exception):
    """Training has begun."""


class End(keras.callbacks.Callback):
    """Ends training before its first step, after all that is compared."""

    def on_train_begin(self, logs=None):
        raise Begun


def train(model, loss, data, validation=None, **given):
    """Fit, with all warnings as errors but one of NumPy's, by Keras, and that of a bad row."""
    model.compile("sgd", loss, run_eagerly=ON_TENSORFLOW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="__array__", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="1 of 8 rows turned out bad")
        model.fit(data, validation_data=validation, verbose=0, **given)


def begin(*given):
    """Fit as far as to the first step."""
    with pytest.raises(Begun):
        train(*given, callbacks=[End()])


def own_loss(true, made):
    return ops.mean(ops.square(ops.cast(ops.reshape(true, (-1, 1)), "float32") - made), axis=-1)


class OwnSparse(losses.SparseCategoricalCrossentropy):
    """Takes classes from 1."""

    def call(self, y_true, y_pred):
        return super().call(y_true - 1, y_pred)


def smoothed(batch, rng):
    """Soft labels, as mixup makes them of one-hot ones."""
    batch["label"] = (batch["label"] * 0.9 + 0.1 / 3).astype("float32")
    return batch


def doubled(batch, rng):
    """Class numbers of a coarser kind, of two classes instead of three."""
    batch["label"] = batch["label"] // 2
    return batch


def coarser(sample, rng):
    sample["label"] = sample["label"] // 2
    return sample


def from_zero(sample, rng):
    sample["number"] = sample["number"] - 1
    return sample


LOGITS = losses.SparseCategoricalCrossentropy(from_logits=True)
TAGS = ("fur", "paws", "wings")
PALETTE = {0: 0, 1: 1, 2: 2}
UNKNOWN = {0: 0, 1: 1, 2: 255}
HOT = {"label_mode": "categorical"}
OF_DENSE = {
    "classes by a name": (3, "softmax", SPARSE, "kind"),
    "classes by a function": (3, "softmax", losses.sparse_categorical_crossentropy, "kind"),
    "classes by a class": (3, "softmax", losses.SparseCategoricalCrossentropy, "kind"),
    "logits": (3, None, LOGITS, "kind"),
    "a unit for each class that is to come":
        (4, "softmax", SPARSE, "kind", {"class_names": ["cat", "dog", "owl", "yak"]}),
    "more units than class numbers": (7, "softmax", SPARSE, "code"),
    "two units for two classes": (2, "softmax", SPARSE, "tame"),
    "class numbers from 0": (3, "softmax", SPARSE, "code"),
    "whole numbers in a column of floats": (3, "softmax", SPARSE, "whole"),
    "an ignored class":
        (3, "softmax", losses.SparseCategoricalCrossentropy(ignore_class=-1), "signed"),
    "one-hot classes": (3, "softmax", CATEGORICAL, "kind", HOT),
    "one-hot classes under a binary loss": (3, "sigmoid", BINARY, "kind", HOT),
    "one-hot classes under a loss of numbers": (3, "softmax", "mse", "kind", HOT),
    "soft labels": (3, "softmax", CATEGORICAL, "kind", HOT | {"batch_transform": smoothed}),
    "smoothing": (3, "softmax", losses.CategoricalCrossentropy(label_smoothing=0.1), "kind", HOT),
    "focal": (3, "softmax", losses.CategoricalFocalCrossentropy(), "kind", HOT),
    "binary": (1, "sigmoid", BINARY, "tame", {"label_mode": "binary"}),
    "binary class numbers": (1, "sigmoid", "bce", "tame"),
    "binary logit": (1, None, losses.BinaryCrossentropy(from_logits=True), "bit"),
    "binary focal": (1, "sigmoid", losses.binary_focal_crossentropy, "bit"),
    "shares under a binary loss": (1, "sigmoid", BINARY, "share"),
    "several labels": (3, "sigmoid", BINARY, dfgen.MultiLabel("tags", TAGS)),
    "lists of one label at most under a softmax":
        (3, "softmax", CATEGORICAL, dfgen.MultiLabel("one", TAGS)),
    "one-hot classes under a softmax and a binary loss": (3, "softmax", BINARY, "kind", HOT),
    "a number": (1, None, "mse", "share"),
    "ranks as numbers": (1, None, losses.Huber(), "rank"),
    "shares under a sigmoid": (1, "sigmoid", "mse", "share"),
    "shares with some noise under a sigmoid": (1, "sigmoid", "mse", "noisy"),
    "degrees that a transform scales": (1, "sigmoid", "mse", "degrees", {"transform": from_zero}),
    "degrees under a loss of one's own": (1, "sigmoid", own_loss, "degrees"),
    "a class as a number of 0 and 1": (1, "sigmoid", "mse", "tame"),
    "two numbers": (2, None, "mse", dfgen.Number(["share", "rank"])),
    "two measurements of one number": (1, None, "mse", dfgen.Number(["share", "rank"])),
    "hinge of 0 and 1": (1, None, losses.Hinge(), "bit"),
    "overlap": (1, "sigmoid", losses.Dice(), "bit"),
    "hinge": (1, "tanh", "hinge", "hinge"),
    "categorical hinge": (3, None, "categorical_hinge", "kind", HOT),
    "cosine similarity": (2, None, losses.CosineSimilarity(), dfgen.Number(["share", "rank"])),
    "poisson": (1, "exponential", "poisson", "rank"),
    "divergence": (3, "softmax", "kl_divergence", "kind", HOT),
    "a function of one's own": (3, None, own_loss, "late"),
    "a class of one's own": (3, "softmax", OwnSparse(), "late"),
    "labels that a transform changes": (2, "softmax", SPARSE, "kind", {"transform": coarser}),
    "numbers that a transform changes": (3, "softmax", SPARSE, "late", {"transform": from_zero}),
    "labels that a batch_transform changes":
        (2, "softmax", SPARSE, "kind", {"batch_transform": doubled}),
}  # fmt: skip
"""Units and activation of the last layer, the loss, y and options of the Sequence."""


def of_dense(units, activation, loss, y, options=None):
    return lambda df: (dense(units, activation), loss, sequence(df, y, **(options or {})))


# masks by logits: of probabilities of pixels Keras 3.15 on torch finds no gradient
RIGHT = {name: of_dense(*one) for name, one in OF_DENSE.items()} | {
    "classes that no row has":
        lambda df: (dense(2, "softmax"), SPARSE, sequence(df[df["kind"] != "owl"], "kind")),
    "one-hot columns under a softmax": lambda df: (dense(2, "softmax"), CATEGORICAL,
        sequence(df.assign(other=1 - df["fur"]), dfgen.Number(["fur", "other"]))),
    "classes whose names are their numbers":
        lambda df: (dense(1), "mae", sequence(df.assign(code=pd.Categorical(df["code"])), "code")),
    "ranks under a relu":
        lambda df: (ending(layers.Dense(1), layers.ReLU()), "mae", sequence(df, "rank")),
    "numbers of either sign under a relu that leaks":
        lambda df: (ending(layers.Dense(1), layers.ReLU(negative_slope=0.1)), "mse",
        sequence(df, "degrees")),
    "a sigmoid that is made larger":
        lambda df: (ending(layers.Dense(1, activation="sigmoid"), layers.Rescaling(50, -10)), "mse",
        sequence(df, "degrees")),
    "a class for each of two columns":
        lambda df: (ending(layers.Dense(6), layers.Reshape((2, 3)), layers.Softmax()), SPARSE,
        sequence(df, dfgen.Number(["code", "bit"]))),
    "a softmax along another axis":
        lambda df: (ending(layers.Dense(3), layers.Reshape((3, 1)), layers.Softmax(axis=1)), "mse",
        sequence(df, dfgen.Number(["share", "rank", "code"]))),
    "autoencoder": lambda df: (pixels(3, "sigmoid"), BINARY,
        sequence(df, dfgen.Image("path", size=(4, 4), scale="0..1"), image_size=(4, 4))),
    "masks of two classes": lambda df: (pixels(1), losses.BinaryCrossentropy(from_logits=True),
        sequence(df, dfgen.Mask("mask", palette={0: 0, 1: 1, 2: 1}))),
    "masks": lambda df: (pixels(3), LOGITS, sequence(df, dfgen.Mask("mask"))),
    "masks of a palette":
        lambda df: (pixels(3), LOGITS, sequence(df, dfgen.Mask("mask", palette=PALETTE))),
    "masks with an unknown class": lambda df: (pixels(2),
        losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255),
        sequence(df, dfgen.Mask("mask", palette=UNKNOWN))),
    "another axis of classes":
        lambda df: (ending(layers.Dense(6), layers.Reshape((3, 2)), layers.Softmax(axis=1)),
        losses.CategoricalCrossentropy(axis=1),
        sequence(df, dfgen.Column("share", lambda v: np.full((3, 2), v), shape=(3, 2)))),
    "a mask that is not there": lambda df: (pixels(3), LOGITS,
        sequence(df.assign(mask=["gone.png", *df["mask"][1:]]), dfgen.Mask("mask"),
        on_error="skip")),
    "one image of two that the model scales": lambda df: (two_images(), "mse",
        sequence(df, "share", x={"one": dfgen.Image(size=(4, 4), scale="0..1"), "two": "path"})),
    "an activation in float32":
        lambda df: (ending(layers.Dense(3), layers.Activation("softmax", dtype="float32")), SPARSE,
        sequence(df, "kind")),
    "a softmax cast to float32": lambda df: (ending(layers.Dense(3, activation="softmax"),
        layers.Activation("linear", dtype="float32")), SPARSE, sequence(df, "kind")),
    "a last layer of one's own":
        lambda df: (ending(layers.Dense(9), layers.Lambda(lambda x: ops.softmax(x[:, :3]))), SPARSE,
        sequence(df, "kind")),
    "an activation of one's own":
        lambda df: (dense(3, lambda x: ops.softmax(x)), SPARSE, sequence(df, "kind")),
    "labels that are missing": lambda df: (dense(3, "softmax"), SPARSE,
        sequence(df.assign(kind=df["kind"].where(df["id"] > 1)),
        dfgen.Category("kind", missing="ignore"))),
    "validation": lambda df: (dense(3, "softmax"), SPARSE, sequence(df, "kind"),
        sequence(df[:4], "kind", shuffle=False)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("right", RIGHT.values(), ids=RIGHT)
def test_what_goes_together_begins_to_train_without_a_word(right, frame):
    begin(*right(frame))


def test_a_shard_that_nothing_connects_to_others_is_told_of_that_alone(frame):
    model, loss, data = of_dense(3, "softmax", SPARSE, "code", {"shard": (0, 2)})(frame)
    model.compile("sgd", loss, run_eagerly=ON_TENSORFLOW)
    with pytest.warns(UserWarning) as told, pytest.raises(Begun):
        model.fit(data, verbose=0, callbacks=[End()])
    [one] = [each for each in told if each.category is UserWarning]
    assert "nothing connects this process to the others" in str(one.message)


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("right", RIGHT.values(), ids=RIGHT)
def test_what_goes_together_trains_without_a_word(right, frame):
    model, *given = right(frame)
    train(model, *given)
    assert model.built


def test_no_rule_is_known_of_a_loss_along_another_axis():
    assert known_loss(losses.SparseCategoricalCrossentropy()).kind == "sparse"
    assert known_loss(losses.SparseCategoricalCrossentropy(axis=1)) is None


MISTAKES = {
    "several labels under a softmax":
        (of_dense(3, "softmax", CATEGORICAL, dfgen.MultiLabel("tags", TAGS)), "several labels"),
    "several labels under a softmax and a binary loss":
        (lambda df: (ending(layers.Dense(3), layers.Softmax()), BINARY,
        sequence(df, dfgen.MultiLabel("tags", TAGS))), "several labels"),
    "several labels in columns":
        (of_dense(2, "softmax", CATEGORICAL, dfgen.Number(["fur", "paws"])), r"Dense\(2, .*sigm"),
    "class indices as numbers": (of_dense(1, None, "mse", "kind"), "learns their indices"),
    "pixels of 0 to 255 under a sigmoid":
        (lambda df: (pixels(3, "sigmoid"), "mse", sequence(df, dfgen.Image("path", size=(4, 4)))),
        'scale="0..1"'),
    "a sigmoid for one class of several": (of_dense(3, "sigmoid", SPARSE, "kind"), "ends in sigm"),
    "a relu before logits": (of_dense(3, "relu", LOGITS, "kind"), "from_logits=True"),
    "a tanh under a binary loss": (of_dense(1, "tanh", BINARY, "tame"), "ends in tanh"),
    "three classes under a binary loss": (of_dense(1, "sigmoid", BINARY, "code"), "0 to 2, but"),
    "fractions under a sparse loss": (of_dense(3, "softmax", SPARSE, "share"), "fractions"),
    "a mask with a class beyond the units":
        (lambda df: (pixels(2), LOGITS, sequence(df, dfgen.Mask("mask"))), "palette="),
}  # fmt: skip


@pytest.mark.backend
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_errors_or_warnings(name, frame):
    made, word = MISTAKES[name]
    with pytest.raises((ArgumentError, UserWarning), match=word):
        train(*made(frame))


@pytest.mark.backend
def test_rows_that_weigh_nothing_may_hold_any_class_number(frame):
    begin(dense(3, "softmax"), SPARSE, sequence(frame, "odd", sample_weight="weight"))
    drawn = sequence(frame, "odd", balance="weight")
    begin(dense(3, "softmax"), SPARSE, drawn)


def heads(kind, share):
    image = keras.Input((4, 4, 3))
    flat = layers.Flatten()(layers.Rescaling(1 / 255)(image))
    made = [
        layers.Dense(kind, activation="softmax", name="kind")(flat),
        layers.Dense(share, name="share")(flat),
    ]
    return image, made


@pytest.mark.backend
@pytest.mark.parametrize("nested", ["dict", "list"])
@pytest.mark.parametrize("loss", [{"kind": SPARSE, "share": "mse"}, [SPARSE, "mse"]])
def test_each_output_is_compared_with_its_own_loss_and_target(nested, loss, frame):
    y = {"kind": "kind", "share": "share"}
    for units in (3, 2):
        image, made = heads(units, 1)
        outputs = made if nested == "list" else dict(zip(y, made, strict=True))
        if nested == "dict" and isinstance(loss, list):
            loss = {"share": "mse", "kind": SPARSE}  # in an order of its own
        model = keras.Model(image, outputs)
        if units == 3:
            begin(model, loss, sequence(frame, y))
        else:
            with pytest.raises(ArgumentError, match="the output 'kind' of the model has 2 units"):
                train(model, loss, sequence(frame, y))


@pytest.mark.backend
def test_targets_of_some_outputs_are_enough_where_others_have_no_loss(frame):
    image, made = heads(3, 1)
    model = keras.Model(image, made)
    begin(model, [None, "mse"], sequence(frame, {"share": "share"}))


@pytest.mark.backend
def test_a_model_with_a_step_or_loss_of_its_own_does_with_targets_what_it_likes(frame):
    class Own(keras.Model):
        """Learns without targets."""

        def __init__(self):
            super().__init__()
            self.last = layers.Dense(2)

        def call(self, x):
            return self.last(ops.reshape(ops.cast(x, "float32"), (-1, 48)) / 255)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return ops.mean(ops.square(y_pred))

    begin(Own(), SPARSE, sequence(frame, None, label_mode=None))
    begin(Own(), SPARSE, sequence(frame, "kind"))


@pytest.mark.backend
def test_a_model_that_adds_its_loss_needs_no_targets(frame):
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(ops.mean(ops.square(x)))
            return x

    model = ending(layers.Dense(2), Penalty())
    begin(model, None, sequence(frame, None, label_mode=None))


@pytest.mark.backend
def test_prediction_needs_no_targets(frame):
    model = dense(3, "softmax")
    model.compile("sgd", SPARSE)
    rows = sequence(frame, None, label_mode=None, shuffle=False)
    assert model.predict(rows, verbose=0).shape == (8, 3)


@pytest.mark.backend
@pytest.mark.parametrize(
    "model",
    [
        lambda: keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), layers.Dense(2)]),
        lambda: keras.Sequential([layers.Flatten(), keras.Sequential([layers.Dense(2)])]),
        lambda: ending(layers.Dense(2), layers.Dropout(0.1), layers.Activation("softmax")),
        lambda: pooled(keras.Sequential([layers.Dense(4), layers.Dense(2)])),
        lambda: pooled(layers.Dense(2, dtype="float32")),
    ],
    ids=["built", "nested", "activation apart", "functional of a Sequential", "functional"],
)
def test_units_are_found_in_models_that_are_built_and_that_are_not(model, frame):
    with pytest.raises(ArgumentError) as raised:
        train(model(), LOGITS, sequence(frame, "kind"))
    assert "of the model has 2 units, but column 'kind' has 3 classes" in str(raised.value)


def pooled(last):
    image = keras.Input((None, None, 3))
    return keras.Model(image, last(layers.GlobalAveragePooling2D()(image)))


def test_square_images_of_other_channels_have_no_sides_to_exchange(frame):
    image = keras.Input((4, 4, 1))
    with pytest.raises(ArgumentError) as raised:
        train(keras.Model(image, layers.Flatten()(image)), "mse", sequence(frame, "share"))
    assert str(raised.value) == (
        "x gives 'image' as (batch, 4, 4, 3), but the model takes (batch, 4, 4, 1): write "
        'color_mode="grayscale", or let the model begin with keras.Input((4, 4, 3))'
    )


@pytest.mark.backend
def test_model_is_not_built_by_the_check(frame):
    model = dense(2, "softmax")
    with pytest.raises(ArgumentError):
        train(model, SPARSE, sequence(frame, "kind"))
    assert not model.built


class Subclassed(keras.Model):
    """Makes its layers when it is first called, as many a tutorial does, and tells no outputs."""

    def __init__(self, units, activation=None):
        super().__init__(name="mine")
        self.last = layers.Dense(units, activation=activation)

    def call(self, x):
        return self.last(ops.mean(ops.cast(x, "float32") / 255, axis=(1, 2)))


@pytest.mark.backend
def test_model_that_tells_no_outputs_is_compared_as_keras_builds_it(frame):
    data = sequence(frame, "kind")
    for model in (Subclassed(2), ending(layers.Dense(2), layers.Lambda(lambda x: x * 2))):
        with pytest.raises(ArgumentError) as raised:
            train(model, LOGITS, data)
        assert (
            f"the output {model.name!r} of the model has 2 units, but column 'kind' has 3"
            in str(raised.value)
        )
    train(Subclassed(3), LOGITS, data, sequence(frame[:4], "kind", shuffle=False))
    with pytest.raises(ArgumentError, match="validation_data: column 'late'"):
        train(Subclassed(3), LOGITS, data, sequence(frame[:6], "late"))


@pytest.mark.backend
def test_data_of_a_fit_that_failed_are_not_compared_in_the_next(frame):
    model = Subclassed(2)
    model.compile("sgd", LOGITS, run_eagerly=ON_TENSORFLOW)
    broken = frame.assign(path=frame["mask"].where(frame["id"] > 9, str(frame["path"][0]) + "x"))
    with pytest.raises(dfgen.DfgenError):
        model.fit(sequence(broken, "kind"), verbose=0)
    model.fit(np.zeros((4, 4, 4, 3)), np.zeros(4), verbose=0)


@pytest.mark.backend
def test_weights_that_training_starts_with_are_the_same_with_the_check(frame, monkeypatch):
    found = []
    for checked in (True, False):
        if not checked:
            monkeypatch.setattr("dfgen.training.keras_data.check_loss", lambda *given: None)
        keras.utils.set_random_seed(7)
        model = Subclassed(3)
        train(model, LOGITS, sequence(frame, "kind"))
        found.append([np.asarray(keras.ops.convert_to_numpy(one)) for one in model.weights])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_pixels_that_are_scaled_twice_are_told(frame):
    data = sequence(frame, "tame", scale="0..1")
    with pytest.raises(UserWarning, match=r"multiplies them by 0\.003922 again"):
        train(dense(1, "sigmoid"), BINARY, data)


@pytest.mark.parametrize(
    ("loss", "name"), [(own_loss, "own_loss"), ("mse", "mse"), (LOGITS, LOGITS.name)]
)
def test_a_loss_without_targets_is_named(frame, loss, name):
    data = sequence(frame, None, label_mode=None)
    with pytest.raises(ArgumentError, match=f"the loss {name} of the model needs targets, but the"):
        train(dense(1), loss, data)


@pytest.mark.slow
def test_pixels_that_the_model_makes_larger_before_it_scales_them_are_left_alone(frame):
    image = keras.Input((4, 4, 3))
    scaled = layers.Flatten()(layers.Rescaling(1 / 255)(image * 255.0))
    made = keras.Model(image, layers.Dense(1, activation="sigmoid")(scaled))
    begin(made, BINARY, sequence(frame, "tame", scale="0..1"))
