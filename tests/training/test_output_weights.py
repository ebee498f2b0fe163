"""Weights of each output of a model: losses and training as with arrays of weights by hand."""

import pickle

import keras
import numpy as np
import pandas as pd
import pytest
from messages import message_of
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, ManifestError

ROWS, SIZE = 10, 4  # so that the last batch is short
W = np.array([0, 1, 2, 3, 0.5, 4, 1, 2, 1, 3], np.float32)
V = np.array([1, 0, 0, 2, 3, 0.5, 1, 1, 5, 0.25], np.float32)
KIND = [*"xyxxxyxxyx"]
BALANCED = np.where(np.array(KIND) == "x", 10 / (2 * 7), 10 / (2 * 3)).astype("f4")
OWN = np.where(np.array(KIND) == "x", 1, 5).astype("f4")
ONES = np.ones(ROWS, np.float32)
Y = {"kind": "kind", "age": "age"}


@pytest.fixture
def df():
    numbers = np.random.default_rng(0).normal(size=(ROWS, 2)).astype("f4")
    df = pd.DataFrame(numbers, columns=["a", "b"]).assign(id=range(ROWS), w=W, v=V)
    return df.assign(kind=pd.Categorical(KIND), age=np.arange(ROWS, dtype="f4"))


def sequence(df, y=Y, **options):
    options = {"batch_size": SIZE, "shuffle": False, "workers": 1, **options}
    return dfgen.Sequence(df, dfgen.Number(["a", "b"]), y, **options)


def model(keyed=True):
    """Return two heads that share nothing, the same each time."""
    inputs = keras.Input((2,))
    heads = {}
    for name, size in {"kind": 2, "age": 1}.items():
        start = keras.initializers.RandomNormal(seed=size)
        heads[name] = keras.layers.Dense(size, kernel_initializer=start, name=name)(inputs)
    made = keras.Model(inputs, heads if keyed else list(heads.values()))
    losses = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "age": "mse"}
    made.compile("sgd", losses if keyed else list(losses.values()))
    return made


def by_hand(df, keyed, kind, age):
    x = df[["a", "b"]].to_numpy()
    y = {"kind": df.kind.cat.codes.to_numpy("i4"), "age": df.age.to_numpy()[:, None]}
    weights = {"kind": kind, "age": age}
    if keyed:
        return x, y, weights
    return x, list(y.values()), list(weights.values())


GIVEN = {
    "a column of one": ({"sample_weight": {"kind": "w"}}, W, ONES),
    "a column of each": ({"sample_weight": {"age": "v", "kind": "w"}}, W, V),
    "classes of one": ({"class_weight": {"kind": {"x": 1, "y": 5}}}, OWN, ONES),
    "balanced": ({"class_weight": {"kind": "balanced", "age": None}}, BALANCED, ONES),
    "both": (
        {"sample_weight": {"kind": "w", "age": "v"}, "class_weight": {"kind": {0: 1, 1: 5}}},
        W * OWN,
        V,
    ),
    "a column of all": (
        {"sample_weight": "w", "class_weight": {"kind": "balanced"}},
        W * BALANCED,
        W,
    ),
}  # fmt: skip


def nested(options, keyed):
    if keyed:
        return options
    lists = {}
    for name, given in options.items():
        lists[name] = given if isinstance(given, str) else [given.get(key) for key in Y]
    return lists


@pytest.mark.backend
@pytest.mark.parametrize(
    ("given", "keyed"),
    [
        *((given, True) for given in GIVEN),
        pytest.param("both", False, marks=pytest.mark.slow),
        ("a column of all", False),
    ],
)
def test_losses_and_training_are_those_of_weights_by_hand(df, given, keyed):
    options, kind, age = GIVEN[given]
    x, y, weights = by_hand(df, keyed, kind, age)
    with sequence(df, Y if keyed else [*Y.values()], **nested(options, keyed)) as seq:
        ours, theirs = model(keyed), model(keyed)
        logits, ages = (np.asarray(ours.predict(x, verbose=0)[k]) for k in (Y if keyed else (0, 1)))
        shares = np.log(np.exp(logits).sum(axis=1)) - logits[range(ROWS), df.kind.cat.codes]
        squares = (ages[:, 0] - df.age) ** 2
        exact = (shares * kind).mean() + (squares * age).mean()
        np.testing.assert_allclose(ours.evaluate(seq, verbose=0)[0], exact, rtol=1e-5)
        ours.fit(seq, epochs=2, verbose=0)
        theirs.fit(x, y, sample_weight=weights, batch_size=SIZE, epochs=2, shuffle=False, verbose=0)
    for found, expected in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rows_of_a_shared_and_padded_batch_weigh_alike_in_each_output(df):
    """Two processes with rows left out, and what a short batch is filled up with."""
    options = {"sample_weight": {"kind": "w"}, "class_weight": {"kind": "balanced"}}
    with sequence(df, shard=(1, 2), **options) as seq:
        assert len(seq) == 2
        for step in range(2):
            rows = [4 * step + 2, 4 * step + 3]
            found = seq[step][2]
            np.testing.assert_allclose(found["kind"], (W * BALANCED)[rows], rtol=1e-6)
            np.testing.assert_array_equal(found["age"], [1, 1])


def test_bad_rows_weigh_nothing_in_any_output_and_the_others_of_their_batch_more(df, tmp_path):
    for row in range(ROWS):
        Image.new("RGB", (4, 4), (row, 0, 0)).save(tmp_path / f"{row}.png")
    (tmp_path / "2.png").write_bytes(b"no image")
    df["path"] = [str(tmp_path / f"{row}.png") for row in range(ROWS)]
    with dfgen.Sequence(
        df, y=Y, image_size=(4, 4), batch_size=5, shuffle=False, on_error="skip",
        sample_weight={"age": "v"},
    ) as seq:  # fmt: skip
        kind, age = seq[0][2]["kind"], seq[0][2]["age"]
        np.testing.assert_allclose(kind, np.array([1, 1, 0, 1, 1]) * 5 / 4)
        np.testing.assert_allclose(age, np.array([1, 1, 0, 1, 1]) * V[:5] * 5 / 4)
        copy = pickle.loads(pickle.dumps(seq))
        np.testing.assert_array_equal(copy[0][2]["age"], age)


def test_rows_without_a_label_weigh_nothing_beside_weights_of_their_own(df):
    df["kind"] = df.kind.where(df.index != 1)
    y = {"kind": dfgen.Category("kind", missing="ignore"), "age": "age"}
    with sequence(df, y, sample_weight={"kind": "w", "age": "v"}) as seq:
        np.testing.assert_array_equal(seq[0][2]["kind"], W[:4] * [1, 0, 1, 1])
        np.testing.assert_array_equal(seq[0][2]["age"], V[:4])


@pytest.mark.backend
def test_evaluate_frame_tells_what_each_row_weighs_in_each_output(df, tmp_path):
    made, options = model(), {"class_weight": {"kind": "balanced"}, "sample_weight": {"age": "v"}}
    with sequence(df, **options) as seq:
        frame = dfgen.evaluate_frame(made, seq)
        np.testing.assert_allclose(frame.row_weight_kind, BALANCED, rtol=1e-6)
        np.testing.assert_allclose(frame.row_weight_age, V)
        total = sum((frame[f"loss_{k}"] * frame[f"row_weight_{k}"]).mean() for k in Y)
        np.testing.assert_allclose(total, made.evaluate(seq, verbose=0)[0], rtol=1e-5)
        out = dfgen.evaluate_frame(made, seq, out=tmp_path / "p.parquet")
    with (
        sequence(df, sample_weight={"age": "v"}) as seq,
        pytest.raises(ArgumentError, match="other weights of rows, by sample_weight"),
    ):
        dfgen.evaluate_frame(made, seq, out=out)


def test_a_frame_of_splits_weighs_each_output_and_validates_without_class_weights(df):
    df["split"] = ["train"] * 7 + ["val"] * 3
    options = {"class_weight": {"kind": "balanced"}, "sample_weight": {"age": "v"}}
    parts = dfgen.sequences(df, dfgen.Number(["a", "b"]), Y, batch_size=3, **options)
    _, _, weights = parts["val"][0]
    np.testing.assert_array_equal(weights["kind"], [1, 1, 1])
    np.testing.assert_array_equal(weights["age"], V[7:])
    assert set(parts["train"][0][2]["kind"].round(2)) <= {*np.float32([0.7, 1.75])}


WRONG = {
    "a dict for one target": (
        "kind", {"sample_weight": {"kind": "w"}}, ArgumentError,
        "sample_weight={'kind': 'w'} gives outputs their own, but y is one target, 'label' (column "
        "'kind'): write sample_weight='w', or y as a dict",
    ),
    "classes by output for one target": (
        "kind", {"class_weight": {"kind": "balanced"}}, ArgumentError,
        "class_weight={'kind': 'balanced'} gives outputs their own, but y is one target, 'label' "
        "(column 'kind'): write class_weight='balanced', or y as a dict",
    ),
    "an output that is not there": (
        Y, {"sample_weight": {"kin": "w"}}, ArgumentError,
        "sample_weight has 'kin', but y has 2 targets, 'kind' (column 'kind'), 'age' (column "
        "'age'): give each weighted target its own, sample_weight={'kind': \"column\"}. Did "
        'you mean "kind"?',
    ),
    "classes without an output": (
        Y, {"class_weight": {"x": 1, "y": 2}}, ArgumentError,
        "class_weight has 'x', 'y', but y has 2 targets, 'kind' (column 'kind'), 'age' (column "
        "'age'): give each weighted target its own, class_weight={'kind': \"balanced\"}.",
    ),
    "balanced without an output": (
        Y, {"class_weight": "balanced"}, ArgumentError,
        "class_weight is 'balanced', but y has 2 targets",
    ),
    "a dict for a list": (
        ["kind", "age"], {"sample_weight": {"kind": "w"}}, ArgumentError,
        "sample_weight is {'kind': 'w'}, but y has 2 targets, 'label' (column 'kind'), "
        "'number_1' (column 'age'): give each weighted target its own, "
        "sample_weight=[\"column\", None]",
    ),
    "a list that is too short": (
        ["kind", "age"], {"sample_weight": ["w"]}, ArgumentError,
        "sample_weight is ['w'], but y has 2 targets",
    ),
    "a list for a dict": (Y, {"sample_weight": ["w", None]}, ArgumentError,
                          "sample_weight is ['w', None], but y has 2 targets"),
    "balanced numbers": (
        Y, {"class_weight": {"age": "balanced"}}, ArgumentError,
        "class_weight['age']='balanced' weighs classes, but the target 'age' (column 'age') is "
        "Number, not one class a row: give sample_weight, a column of weights, or make it "
        "dfgen.Category(...)",
    ),
    "a class that is not there": (
        Y, {"class_weight": {"kind": {"z": 2}}}, ArgumentError,
        "class_weight['kind'] names the class 'z'. Classes: 'x', 'y', or 0 to 1",
    ),
    "a number for an output": (
        Y, {"class_weight": {"kind": 2.0}}, ArgumentError,
        "class_weight['kind'] must be class -> weight or \"balanced\", got 2.0",
    ),
    "a column that is not there": (Y, {"sample_weight": {"kind": "ww"}}, ManifestError,
                                   "sample_weight['kind']=\"ww\" is not a column"),
    "a number for a column": (Y, {"sample_weight": {"kind": 2.0}}, ManifestError,
                              "sample_weight"),
    "an output of which nothing counts": (
        Y, {"sample_weight": {"age": "zero"}}, ManifestError,
        "all 10 rows weigh 0 for 'age' by sample_weight={'age': 'zero'}",
    ),
    "weights below 0": (Y, {"sample_weight": {"age": "a"}}, ManifestError, 'sample_weight="a" is'),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_weights_say_how_to_write_them(df, wrong):
    y, options, error, message = WRONG[wrong]
    with pytest.raises(error) as raised:
        sequence(df.assign(zero=0.0), y, **options)
    assert message in str(raised.value)


def test_weights_of_no_output_are_none(df):
    with sequence(df, sample_weight={"kind": None}, class_weight={}) as seq:
        assert len(seq[0]) == 2


def test_a_class_without_a_weight_is_told_by_its_output(df):
    with pytest.warns(UserWarning, match=r"class_weight\['kind'\] has no weight for 'y'"):
        sequence(df, class_weight={"kind": {"x": 2.0}}).close()


@pytest.mark.backend
def test_weights_of_two_outputs_survive_a_backup(df):
    """A state of a run with such weights goes on from its batch, with the same weights."""
    options = {"class_weight": {"kind": "balanced"}, "shuffle": True, "seed": 3}
    with sequence(df, **options) as whole, sequence(df, **options) as resumed:
        batches = iter(whole)
        next(batches)
        resumed.load_state_dict(whole.state_dict())
        for left, right in zip(batches, resumed, strict=False):
            np.testing.assert_array_equal(left[2]["kind"], right[2]["kind"])


def cross_entropy(logits, classes):
    picked = np.take_along_axis(logits, classes[..., None], -1)[..., 0]
    return np.log(np.exp(logits).sum(-1)) - picked


@pytest.mark.backend
def test_a_class_that_one_loss_ignores_leaves_the_weights_of_other_losses_alone(df):
    ours, sparse = model(), keras.losses.SparseCategoricalCrossentropy
    ours.compile("sgd", {"kind": sparse(from_logits=True, ignore_class=0), "age": "mse"})
    with sequence(df, sample_weight="w", batch_size=ROWS) as seq:
        said = ours.predict(seq, verbose=0)
        found = ours.evaluate(seq, verbose=0, return_dict=True)
    classes = df.kind.cat.codes.to_numpy("i8")
    kinds = cross_entropy(said["kind"], classes)[classes > 0] * W[classes > 0]
    np.testing.assert_allclose(found["kind_loss"], kinds.mean(), rtol=1e-5)
    ages = W * (said["age"][:, 0] - df.age) ** 2
    np.testing.assert_allclose(found["age_loss"], ages.mean(), rtol=1e-5)


@pytest.mark.backend
def test_rows_have_weights_beside_a_loss_that_ignores_some_of_their_pixels(df):
    inputs = keras.Input((2,))
    ours = keras.Model(inputs, keras.layers.Reshape((2, 3))(keras.layers.Dense(6)(inputs)))
    ours.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0))
    y = dfgen.Column("id", lambda row: [row % 3, 2], shape=(2,), dtype="int32")
    with sequence(df, y, sample_weight="w", batch_size=ROWS) as seq:
        said, found = ours.predict(seq, verbose=0), ours.evaluate(seq, verbose=0)
    pixels = np.stack([df.id % 3, np.full(ROWS, 2)], axis=1)
    losses = cross_entropy(said, pixels) * W[:, None]
    np.testing.assert_allclose(found, losses[pixels > 0].mean(), rtol=1e-5)


def masked(df, folder):
    """The frame with an image and a mask for each row, which has as many ones as its number."""
    df["image"] = [str(folder / f"{row}.png") for row in range(ROWS)]
    df["mask"] = [str(folder / f"mask{row}.png") for row in range(ROWS)]
    for row in range(ROWS):
        Image.fromarray(np.full((SIZE, SIZE, 3), 20 * row, np.uint8)).save(df["image"][row])
        ones = (np.arange(SIZE * SIZE) <= row).astype(np.uint8)
        Image.fromarray(ones.reshape(SIZE, SIZE)).save(df["mask"][row])
    return df


def of_pixels(df, folder, **options):
    x = dfgen.Image("image", size=(SIZE, SIZE), scale="0..1")
    options = {"batch_size": 5, "shuffle": False, "workers": 1, **options}
    return dfgen.Sequence(masked(df, folder), x, dfgen.Mask("mask"), **options)


def pixel_model(loss, built=True, size=SIZE):
    start = keras.initializers.RandomNormal(seed=1)
    last = keras.layers.Conv2D(1, 1, activation="sigmoid", kernel_initializer=start)
    made = keras.Sequential([keras.Input((size, size, 3)), last] if built else [last])
    made.compile("sgd", loss)
    return made


class OfOwn(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=(1, 2, 3))


PIXEL_LOSSES = {
    "of one's own": (OfOwn(), OfOwn(reduction=None)),
    "of each pixel": ("binary_crossentropy", keras.losses.BinaryCrossentropy(reduction=None)),
    "of each row": (
        keras.losses.Dice(axis=(1, 2, 3)),
        keras.losses.Dice(axis=(1, 2, 3), reduction=None),
    ),
}


@pytest.mark.backend
@pytest.mark.parametrize("built", ["built", "not built", "of any size"])
@pytest.mark.parametrize("kind", PIXEL_LOSSES)
def test_the_loss_of_a_mask_is_weighed_by_its_row_whatever_axes_it_has(df, tmp_path, kind, built):
    """(batch, 1, 1) times (batch,) would weigh each row by the mean of all."""
    given, alone = PIXEL_LOSSES[kind]
    trained = pixel_model(given, built != "not built", SIZE if built == "built" else None)
    with of_pixels(df, tmp_path, sample_weight="w") as seq:
        found = trained.evaluate(seq, verbose=0)
        expected = []
        for step, (x, y, _) in enumerate(seq):
            made = alone(np.asarray(y, "f4"), trained(x))
            rows = keras.ops.convert_to_numpy(made).reshape(len(x), -1).mean(1)
            expected.append(np.mean(rows * W[5 * step : 5 * step + 5]))
    assert found == pytest.approx(np.mean(expected), rel=1e-5)


class TwoHeads(keras.Model):
    def __init__(self):
        super().__init__()
        start = keras.initializers.RandomNormal(seed=1)
        self.pixels = keras.layers.Conv2D(1, 1, activation="sigmoid", kernel_initializer=start)
        self.flat, self.kinds = keras.layers.Flatten(), keras.layers.Dense(2)

    def call(self, x):
        return {"kind": self.kinds(self.flat(x)), "mask": self.pixels(x)}


@pytest.mark.backend
def test_a_loss_of_each_row_beside_another_head_of_a_subclassed_model_is_weighed(df, tmp_path):
    trained, x = TwoHeads(), dfgen.Image("image", size=(SIZE, SIZE), scale="0..1")
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained.compile("sgd", {"kind": sparse, "mask": keras.losses.Dice(axis=(1, 2, 3))})
    y = {"kind": "kind", "mask": dfgen.Mask("mask")}
    options = {"batch_size": ROWS, "shuffle": False, "workers": 1, "sample_weight": "w"}
    with dfgen.Sequence(masked(df, tmp_path), x, y, **options) as seq:
        found = trained.evaluate(seq, verbose=0, return_dict=True)
        said = trained.predict(seq, verbose=0)["mask"]
        true = np.asarray(seq[0][1]["mask"], "f4")
    np.testing.assert_allclose(found["mask_loss"], (dice(true, said) * W).mean(), rtol=1e-5)


def dice(true, said, axes=(1, 2, 3)):
    return 1 - 2 * (true * said).sum(axes) / (true.sum(axes) + said.sum(axes))


def cross_entropy_of_pixels(true, said):
    return -(true * np.log(said) + (1 - true) * np.log(1 - said))


@pytest.mark.backend
@pytest.mark.parametrize("kind", ["sums channels", "divides by weights"])
def test_a_loss_that_sums_or_divides_by_its_weights_has_as_many_as_it_has_numbers(
    df, tmp_path, kind
):
    given, by_hand = {
        "sums channels": (
            keras.losses.Dice(axis=(1, 2), reduction="sum"),
            lambda *both: (dice(*both, (1, 2)) * W[:, None]).sum(),
        ),
        "divides by weights": (
            keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight"),
            lambda *both: np.average(cross_entropy_of_pixels(*both).mean((1, 2, 3)), weights=W),
        ),
    }[kind]
    trained = pixel_model(given)
    with of_pixels(df, tmp_path, sample_weight="w", batch_size=ROWS) as seq:
        found, said = trained.evaluate(seq, verbose=0), trained.predict(seq, verbose=0)
        true = np.asarray(seq[0][1], "f4")
    np.testing.assert_allclose(found, by_hand(true, said), rtol=1e-5)


@pytest.fixture
def channels_first():
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format("channels_last")


@pytest.mark.backend
def test_a_loss_that_needs_values_is_tried_with_few_rows(df, tmp_path):
    rows = []

    class Own(keras.losses.Loss):
        def call(self, true, said):
            rows.append(true.shape[0] or ROWS)
            if "meta" in str(getattr(said, "device", "")):  # of torch, without values
                raise NotImplementedError
            return keras.losses.binary_crossentropy(true, said)

    with of_pixels(df, tmp_path, sample_weight="w") as seq:
        pixel_model(Own()).evaluate(seq, verbose=0)
    assert rows and max(rows) <= ROWS


@pytest.mark.backend
@pytest.mark.parametrize("kind", ["of each row", "of each pixel", "divides by weights"])
def test_losses_of_pictures_with_channels_first_are_weighed_by_row(
    df, tmp_path, channels_first, kind
):
    given, by_hand = {
        "of each row": (keras.losses.Dice(axis=(1, 2, 3)), lambda *both: (dice(*both) * W).mean()),
        "of each pixel": (
            keras.losses.BinaryCrossentropy(axis=1),
            lambda *both: (cross_entropy_of_pixels(*both).mean((1, 2, 3)) * W).mean(),
        ),
        "divides by weights": (
            keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight"),
            lambda *both: np.average(cross_entropy_of_pixels(*both).mean((1, 2, 3)), weights=W),
        ),
    }[kind]
    image = keras.Input((3, SIZE, SIZE - 2), name="x")
    made = keras.ops.sigmoid(keras.ops.mean(image, 1, keepdims=True))
    trained = keras.Model({"x": image}, {"y": made})
    trained.compile("sgd", {"y": given})
    x = dfgen.Image("image", size=(SIZE, SIZE - 2), scale="0..1")
    y = dfgen.Image("mask", size=(SIZE, SIZE - 2), color_mode="grayscale", scale=(1, 0))
    options = {"shuffle": False, "workers": 1, "batch_size": ROWS, "sample_weight": "w"}
    with dfgen.Sequence(masked(df, tmp_path), {"x": x}, {"y": y}, **options) as seq:
        found, said = trained.evaluate(seq, verbose=0), trained.predict(seq, verbose=0)["y"]
        true = np.asarray(seq[0][1]["y"], "f4")
    assert true.shape == (ROWS, 1, SIZE, SIZE - 2)
    np.testing.assert_allclose(found, by_hand(true, said), rtol=1e-5)


def test_a_loss_that_reduces_the_axis_of_the_batch_and_leaves_others_has_no_weighed_rows(
    df, tmp_path
):
    trained = pixel_model(keras.losses.BinaryCrossentropy(axis=0))
    with of_pixels(df, tmp_path) as seq:
        assert trained.evaluate(seq, verbose=0) > 0
    with of_pixels(df, tmp_path, sample_weight="w") as seq:
        assert message_of(ArgumentError, trained.evaluate, seq) == (
            "the loss of 'mask' reduces the axis of the batch, so that Keras cannot weigh the rows "
            "in it: let it reduce other axes, as BinaryCrossentropy(axis=-1) does, or leave out "
            'what weighs rows, sample_weight=, class_weight= and on_error="skip"'
        )


def likelihood(true, said):
    return -np.log(np.take_along_axis(said, true.astype("i8")[..., None], -1)[..., 0])


@pytest.mark.backend
@pytest.mark.parametrize("built", [True, False], ids=["built", "not built"])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_loss_of_each_token_is_weighed_by_its_row_whatever_type_tokens_have(df, dtype, built):
    """(batch, length) times (batch,) would weigh each place where both are alike."""
    dense = keras.layers.Dense(ROWS * 3, kernel_initializer=keras.initializers.RandomNormal(seed=1))
    layers = [dense, keras.layers.Reshape((ROWS, 3)), keras.layers.Softmax()]
    trained = keras.Sequential([keras.Input((2,)), *layers] if built else layers)
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    trained.compile(loss=loss)
    y = dfgen.Column("id", lambda row: [row % 3] * ROWS, shape=(ROWS,), dtype=dtype)
    with sequence(df, y, sample_weight="w", batch_size=ROWS) as seq:
        found, said = trained.evaluate(seq, verbose=0), trained.predict(seq, verbose=0)
        rows = likelihood(seq[0][1], said).mean(1)
    np.testing.assert_allclose(found, np.average(rows, weights=W), rtol=1e-5)


LOST = {
    "weights": ({"sample_weight": "w"}, "those with another sample_weight= or class_weight="),
    "a bad row": ({"on_error": "skip"}, '1 that cannot be read, as zeros (on_error="skip")'),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_loss_that_is_one_number_of_a_batch_warns_of_rows_that_weigh_otherwise(
    df, tmp_path, kind
):
    options, why = LOST[kind]
    with of_pixels(df, tmp_path, **options) as seq:
        if kind == "a bad row":
            (tmp_path / "3.png").write_bytes(b"")
            list(seq)
        with pytest.warns(UserWarning) as caught:
            pixel_model(keras.losses.Dice()).fit(seq, verbose=0)
    assert (
        "the loss of 'mask' makes one number of a whole batch, and Keras cannot weigh the rows in "
        f"it: {why} count as the others do. For one number a row let the loss reduce the axes "
        "(1, 2, 3) alone, as Dice(axis=(1, 2, 3)) does"
    ) in [str(one.message) for one in caught]


def test_a_loss_that_is_one_number_of_a_batch_of_like_rows_is_taken_as_it_is(df, tmp_path):
    with of_pixels(df, tmp_path, on_error="skip") as seq:
        pixel_model(keras.losses.Dice()).fit(seq, verbose=0)
