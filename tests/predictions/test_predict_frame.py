"""What a model says of each row: the right row, whatever the order, and the right words."""

import json

import keras
import numpy as np
import pandas as pd
import pytest
from keras.src.trainers.data_adapters import data_adapter

import dfgen
from dfgen.errors import ArgumentError, ManifestError

pytestmark = pytest.mark.backend
layers = keras.layers


def reading(**heads):
    """A model whose outputs are functions of the row number that the pixels hold."""
    image = keras.Input((4, 4, 3))
    row = layers.GlobalAveragePooling2D()(image)
    made = {}
    for name, (units, activation, kernel, bias) in heads.items():
        dense = layers.Dense(units, activation, name=name)
        made[name] = dense(row)
        weights = np.zeros((3, units), np.float32)
        weights[0] = kernel
        dense.set_weights([weights, np.array(bias, np.float32)])
    return keras.Model(image, made if len(made) > 1 else next(iter(made.values())))


PARITY = 1, "sigmoid", [0.1], [-3]  # odd above row 30
LOGITS = 2, None, [0, 0.1], [0, -3]
ROW = 1, None, [1], [0]


def reading_with_loss(model):
    model.compile(loss="binary_crossentropy")
    return model


def sequence(df, **options):
    return dfgen.Sequence(df, **{"y": "label", "image_size": (4, 4), "batch_size": 8, **options})


def probability(rows):
    return 1 / (1 + np.exp(3 - 0.1 * np.asarray(rows, np.float64)))


@pytest.mark.parametrize("heads", [{"label": PARITY}, {"label": LOGITS}])
def test_rows_keep_their_order_and_index_whatever_the_sequence_does(frame, heads):
    df = frame(61)
    df.index = [f"row {number}" for number in range(61)][::-1]
    df = df[df.id % 3 != 1].sample(frac=1, random_state=0)
    model = reading(**heads)
    logits = heads["label"][1] is None
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    many = {} if keras.backend.backend() == "torch" else {"steps_per_execution": 3}
    model.compile(loss=loss if logits else "binary_crossentropy", **many)
    found = dfgen.predict_frame(model, sequence(df, drop_remainder=True, seed=3))
    assert list(found) == [*df, "y_true", "y_pred", "prob", "loss", "problem"]
    pd.testing.assert_frame_equal(found[list(df)], df)
    p = probability(df.id)
    np.testing.assert_allclose(np.stack(found.prob), np.stack([1 - p, p], axis=1), atol=1e-6)
    names = np.array(["even", "odd"])
    assert found.y_true.tolist() == names[df.id % 2].tolist()
    assert found.y_pred.tolist() == names[(p > 0.5).astype(int)].tolist()
    assert found.y_pred.dtype == found.y_true.dtype == pd.CategoricalDtype(["even", "odd"])
    right = np.where(df.id % 2, p, 1 - p)
    np.testing.assert_allclose(found.loss, -np.log(right), rtol=1e-3, atol=1e-6)
    assert found.problem.isna().all()


def test_losses_and_weights_are_those_of_evaluate(frame):
    df = frame(50).assign(counts=np.linspace(0, 2, 50))
    model = reading(label=LOGITS)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = dfgen.evaluate_frame(model, sequence(df, sample_weight="counts"))
    whole = sequence(df, sample_weight="counts", batch_size=50)
    np.testing.assert_allclose(
        (found.loss * found.row_weight).mean(), model.evaluate(whole, verbose=0)
    )
    assert list(found)[-3:] == ["loss", "row_weight", "problem"]


def test_training_goes_on_where_it_was(frame):
    train = sequence(frame(20))
    next(iter(train))
    before = train.state_dict()
    dfgen.predict_frame(reading(label=PARITY), train)
    assert json.dumps(train.state_dict()) == json.dumps(before)
    assert len([*train]) == 3


def test_rows_that_cannot_be_read_are_there_and_say_why(frame, tmp_path):
    df = frame(12)
    (tmp_path / "bad.png").write_bytes(b"no image")
    df["path"] = df["path"].where(df.id % 6 > 0, str(tmp_path / "bad.png"))
    model = reading(label=PARITY)
    model.compile(loss="binary_crossentropy")
    found = dfgen.evaluate_frame(model, sequence(df, on_error="skip", batch_size=1))
    bad = df.id % 6 == 0
    assert (found.problem.notna() == bad).all()
    assert found.problem[0].startswith("not an image, array or sound that dfgen opens: the file ")
    for name in ("y_pred", "prob", "loss"):
        assert (found[name].isna() == bad).all(), name
    assert found.y_true.tolist() == df.label.tolist()
    assert (found.row_weight == ~bad).all()


def test_several_heads_have_columns_of_their_own(frame):
    df = frame(20).assign(age=np.arange(20.0), tags=[["a"] * (n > 3) + ["b"] for n in range(20)])
    df["tags"] = df.tags.where(df.id != 5, None)
    model = reading(label=PARITY, age=ROW, tags=(2, None, [1, 0], [-3.5, 1]))
    bce = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(
        loss={"label": "binary_crossentropy", "age": "mse", "tags": bce},
        loss_weights={"age": 2.0},
    )
    y = {
        "label": dfgen.Category("label"),
        "tags": dfgen.MultiLabel("tags", class_names=["a", "b"], missing="ignore"),
        "age": dfgen.Number("age"),
    }
    found = dfgen.evaluate_frame(model, dfgen.Sequence(df, x=dfgen.Image(size=(4, 4)), y=y))
    kinds = ["y_true", "y_pred", "prob", "loss", "row_weight"]
    assert {*found} - {*df} == {
        "loss", "problem", *(f"{kind}_{name}" for kind in kinds for name in y)
    } - {"prob_age"}  # fmt: skip
    np.testing.assert_allclose(found.y_pred_age, df.id, atol=1e-5)
    assert [*map(list, found.y_pred_tags)] == [["a"] * (n > 3) + ["b"] for n in range(20)]
    assert found.y_true_tags.isna().tolist() == [n == 5 for n in range(20)]
    assert (found.loss_tags.isna() == found.y_true_tags.isna()).all()
    assert found.row_weight_tags.tolist() == [n != 5 for n in range(20)]
    assert found.loss_age.max() < 1e-9
    total = found.loss_label + 2 * found.loss_age + found.loss_tags.fillna(0)
    np.testing.assert_allclose(found.loss, total, rtol=1e-6)


def test_a_sequence_without_y_and_a_model_without_a_loss_still_predict(frame):
    df = frame(10)
    found = dfgen.predict_frame(reading(row=ROW), sequence(df, y=None, label_mode=None))
    assert list(found) == [*df, "y_pred", "problem"]
    np.testing.assert_allclose(found.y_pred, df.id, atol=1e-5)


def test_class_numbers_without_names_stay_numbers(frame):
    df = frame(10).assign(label=np.arange(10) % 2)
    model = reading(label=LOGITS)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = dfgen.predict_frame(model, sequence(df))
    assert found.y_true.tolist() == df.label.tolist()
    assert found.y_pred.tolist() == [0] * 10
    assert found.y_pred.dtype == pd.Int64Dtype()


def test_a_row_of_nan_says_so(frame):
    model = reading(label=(1, "sigmoid", [np.nan], [0]))
    found = dfgen.predict_frame(model, sequence(frame(3)))
    assert found.problem.tolist() == ["the model gave NaN"] * 3
    assert found.y_pred.isna().all()


def test_more_outputs_than_targets_are_refused_but_those_without_a_loss(frame):
    model = reading(label=PARITY, row=ROW)
    y, x = {"label": dfgen.Category("label")}, dfgen.Image(size=(4, 4))
    with pytest.raises(
        ArgumentError, match=r"^the model has 2 outputs \(label, row\), but y has 1 "
    ):
        dfgen.predict_frame(model, dfgen.Sequence(frame(9), x=x, y=y))
    model.compile(loss={"label": "binary_crossentropy", "row": None})
    found = dfgen.evaluate_frame(model, dfgen.Sequence(frame(9), x=x, y=y))
    np.testing.assert_allclose(found.y_pred_row, found.id, atol=1e-5)
    assert "loss_row" not in found and "row_weight_row" not in found


def one_number(y_true, y_pred):
    return keras.ops.max(keras.ops.abs(keras.ops.cast(y_true, "float32") - y_pred))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (one_number, lambda row: abs(row - 2)),  # of a batch: asked row by row
        (keras.losses.MeanSquaredError(reduction="sum"), lambda row: (row - 2) ** 2),
    ],
)
def test_losses_of_every_kind_are_of_one_row(frame, loss, expected):
    df = frame(9).assign(label=2.0)
    model = reading(row=ROW)
    model.compile(loss=loss)
    found = dfgen.evaluate_frame(model, sequence(df))
    np.testing.assert_allclose(found.loss, expected(df.id.to_numpy()), atol=1e-4)


def test_a_row_whose_class_the_loss_ignores_has_no_loss(frame):
    model = reading(label=LOGITS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    model.compile(loss=loss)
    found = dfgen.evaluate_frame(model, sequence(frame(6)))
    assert found.loss.isna().tolist() == [False, True] * 3


def test_images_that_keep_their_sizes_are_predicted_batch_by_batch(sized_folder):
    df = dfgen.build_manifest(sized_folder / "images", pattern="{id}.png")
    image = keras.Input((None, None, 3))
    model = keras.Model(image, keras.layers.MaxPooling2D(2)(image))
    seq = dfgen.Sequence(df, x=dfgen.Image(size=None), label_mode=None, batch_size=2)
    found = dfgen.predict_frame(model, seq, arrays="lists")
    assert len({np.shape([*map(list, one)]) for one in found.y_pred}) > 1


def test_draws_that_nobody_asked_for_are_told(frame):
    seq = dfgen.Sequence(frame(4), x=dfgen.Image(size=(4, 4), flip="horizontal"), y="label")
    told = "the Sequence draws Image"
    with pytest.warns(UserWarning, match=told):
        dfgen.predict_frame(reading(label=PARITY), seq)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda df, model: dfgen.predict_frame("pets.keras", sequence(df)),
            "model must be a keras.Model, got 'pets.keras'",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, df.iloc[:2]),
            "sequence must be a dfgen.Sequence, got a pandas.DataFrame of shape (2, 3)",
        ),
        (
            lambda df, model: dfgen.evaluate_frame(model, sequence(df)),
            "evaluate_frame needs a loss that tells rows apart, but the model is not compiled with "
            "one: model.compile(loss=...)",
        ),
        (
            lambda df, model: dfgen.evaluate_frame(model, sequence(df, y=None, label_mode=None)),
            "evaluate_frame needs labels, but the Sequence has inputs alone: give it y=, the "
            "column of the labels, or take predict_frame",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, sequence(df), views=0),
            "views=0 is not a whole number of 1 or more",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, sequence(df), views=2),
            "views=2 would be alike, as the Sequence leaves nothing to chance: give it an "
            'Image(crop="random", flip="horizontal", ...) or a transform, or leave out views',
        ),
        (
            lambda df, model: dfgen.predict_frame(
                model, sequence(df, y=dfgen.Category("label", class_names=["even", "odd", "none"]))
            ),
            "the output 'of the model' has 1 unit, but y has 3 classes, 'even', 'odd', 'none': "
            "expected a unit for each, or one alone for two classes",
        ),
        (
            lambda df, model: dfgen.predict_frame(
                model, sequence(df, batch_transform=lambda batch, rng: batch)
            ),
            "the Sequence has a batch_transform, which may mix rows, so that no prediction is of "
            "one row: make one for predictions without it",
        ),
        (
            lambda df, model: dfgen.predict_frame(
                reading_with_loss(model), sequence(df.assign(word="a"), y=dfgen.Text("word"))
            ),
            "y has text or bytes, 'text', which no output is compared with: for classes write "
            "y=dfgen.Category(...); else leave y out, label_mode=None, as the columns of the "
            "manifest are beside the predictions anyhow",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, sequence(df), out=3),
            "out must be a path, got 3",
        ),
        (
            lambda df, model: dfgen.evaluate_frame(
                reading_with_loss(model), sequence(df), out=["p.parquet"]
            ),
            "out must be a path, got ['p.parquet']",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, sequence(df), arrays=3),
            "arrays must be a path, got 3",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, sequence(df), from_logits="yes"),
            "from_logits must be True or False, got 'yes': leave it out where the loss tells it",
        ),
        (
            lambda df, model: dfgen.predict_frame(reading(label=ROW, row=ROW), sequence(df)),
            "the model has 2 outputs (label, row), but y has 1 (without a name): write "
            "y={'label': ..., ...}, a feature for each output by its name, or predict with a model "
            "of those outputs alone, keras.Model(model.input, ...)",
        ),
        (
            lambda df, model: dfgen.predict_frame(
                reading(label=LOGITS), sequence(df), from_logits=False
            ),
            "the output 'of the model' goes from -3 to 0, which are no probabilities, and the loss "
            "does not say that they are logits: give from_logits=True if they are, or end the "
            "model in a softmax or a sigmoid",
        ),
        (
            lambda df, model: dfgen.predict_frame(model, sequence(df.assign(prob=0.5), y="label")),
            "the manifest has the columns ['prob'] already, which predictions would be called: "
            "rename them, or leave them out, df.drop(columns=['prob'])",
        ),
    ],
)
def test_what_cannot_be_is_told(frame, call, told):
    model = reading(label=PARITY)
    with pytest.raises((ArgumentError, ManifestError)) as caught:
        call(frame(6), model)
    assert str(caught.value) == told


@pytest.mark.parametrize(("by_name", "weight"), [(True, 10.0), (False, 10.0), (True, 0.0)])
def test_lists_of_losses_and_weights_are_in_the_order_that_keras_has_for_a_dict(
    frame, by_name, weight
):
    model = reading(row=ROW, half=(1, None, [0.5], [0]))
    assert list(model.output) == ["row", "half"]  # Keras sorts them where a list is given
    given = {"half": weight, "row": 1.0}
    losses = {"half": "mean_absolute_error", "row": "mean_squared_error"}
    if by_name:
        model.compile(loss=losses, loss_weights=given)
    else:
        model.compile(loss=[*losses.values()], loss_weights=[*given.values()])
    df = frame(6).assign(zero=0.0)
    y = {"row": dfgen.Number("zero"), "half": dfgen.Number("zero")}
    found = dfgen.evaluate_frame(model, sequence(df, y=y))
    row = df.id.to_numpy(float)
    np.testing.assert_allclose(found.loss_row, row**2, atol=1e-4)
    np.testing.assert_allclose(found.loss_half, row / 2, atol=1e-4)
    np.testing.assert_allclose(found.loss, row**2 + weight * row / 2, atol=1e-3)
    assert model.evaluate(sequence(df, y=y), verbose=0, return_dict=True)["loss"] == pytest.approx(
        found.loss.mean(), rel=1e-4
    )


@pytest.mark.parametrize("number", [5, 2, -1])
def test_numbers_of_classes_that_the_model_has_no_unit_for_are_told(frame, number):
    model = reading(label=LOGITS)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ArgumentError) as caught:
        dfgen.predict_frame(
            model, sequence(frame(6).assign(kind=[0, 1, number, 1, 0, 1]), y="kind")
        )
    assert str(caught.value) == (
        f"column 'kind' holds the class {number}, but the output 'of the model' has 2 units, which "
        "sparse_categorical_crossentropy takes for the classes 0 to 1: write "
        "y=dfgen.Category('kind'), which numbers its values from 0, or predict without y"
    )
    kinds = frame(6).assign(kind=pd.Categorical([*"abcabc"]))
    with pytest.raises(ArgumentError, match="has a unit for each of its 3 classes, or predict"):
        dfgen.predict_frame(model, sequence(kinds, y="kind"))


class Softmaxed(keras.Model):
    """Tells probabilities to `predict`, and logits to its loss."""

    def predict_step(self, *given):
        made = super().predict_step(*given)
        if isinstance(made, tuple):  # of JAX, with the state
            return (keras.ops.softmax(made[0]), *made[1:])
        return keras.ops.softmax(made)


def test_outputs_of_a_predict_step_are_taken_as_they_are(frame):
    plain = reading(label=LOGITS)
    model = Softmaxed(plain.input, plain.output)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    df = frame(6)
    found = dfgen.predict_frame(model, sequence(df))
    assert "loss" not in found
    np.testing.assert_allclose(np.stack(found.prob)[:, 1], probability(df.id), atol=1e-6)
    with pytest.raises(ArgumentError) as caught:
        dfgen.evaluate_frame(model, sequence(df))
    assert str(caught.value) == (
        "evaluate_frame needs the outputs that the loss gets, but the model makes its own "
        "(predict_step): take predict_frame"
    )


class FiniteLoss(keras.losses.Loss):
    """A number even of NaN."""

    def call(self, y_true, y_pred):
        return keras.ops.nan_to_num(y_pred[:, 0])


class Detector(keras.Model):
    """Finds as many boxes as the number of the row says, filled up with -1 as KerasHub's do."""

    def preprocess_samples(self, x, y=None):
        return keras.utils.pack_x_y_sample_weight(x, y)

    def call(self, image):
        return image

    def predict_step(self, *state_and_data):
        *state, data = state_and_data  # on JAX there is a state
        row = keras.ops.cast((data[0] if isinstance(data, tuple) else data)[:, 0, 0, :1], "float32")
        place = keras.ops.reshape(keras.ops.arange(3, dtype="float32"), (1, 3))
        label = keras.ops.where(place < row, place, -1.0)
        boxes = keras.ops.repeat(label[..., None], 4, axis=2)
        made = {"boxes": boxes, "labels": label, "confidence": keras.ops.minimum(label, 0.5)}
        return (made, (state[0][1], [])) if state else made


def test_what_a_detector_finds_is_listed_without_what_fills_it_up(frame):
    df = frame(3).assign(boxes=[[[0.0, 0.0, 4.0, 4.0]]] * 3, labels=[["b"]] * 3)
    y = dfgen.Boxes(max_boxes=2, class_names=["a", "b", "c"])
    found = dfgen.predict_frame(Detector(), sequence(df, y=y, batch_size=2))
    assert found.y_pred_labels.map(list).tolist() == [[], ["a"], ["a", "b"]]
    assert found.y_true_labels.map(list).tolist() == [["b"]] * 3
    assert [[[*box] for box in row] for row in found.y_pred_boxes] == [
        [],
        [[0] * 4],
        [[0] * 4, [1] * 4],
    ]
    assert found.y_pred_confidence.map(list).tolist() == [[], [0], [0, 0.5]]
    bare = dfgen.predict_frame(Detector(), sequence(df, y=None, label_mode=None, batch_size=2))
    assert bare.y_pred_labels.map(list).tolist() == [[], [0], [0, 1]]
    few = dfgen.Boxes(max_boxes=2, class_names=["b"])
    with pytest.raises(ArgumentError, match="has found the class 1, but y has 1 classes, 'b'"):
        dfgen.predict_frame(Detector(), sequence(df, y=few))
    drawn = dfgen.Image(size=(4, 4), load_size=(6, 6), crop="random")
    with pytest.raises(ArgumentError, match="views=2 with a detector, expected one"):
        dfgen.predict_frame(Detector(), dfgen.Sequence(df, drawn, y), views=2)


def test_rows_of_nan_weigh_nothing_and_of_several_outputs_say_so_of_one(frame):
    df = frame(6).assign(age=np.arange(6.0), counts=np.arange(6.0) + 1)
    image = keras.Input((4, 4, 3))
    red = layers.GlobalAveragePooling2D()(image)[:, :1]
    made = {"age": keras.ops.where(keras.ops.abs(red - 2) < 0.1, np.nan, red), "label": red / 10}
    model = keras.Model(image, made)
    model.compile(loss={"age": FiniteLoss(), "label": "binary_crossentropy"})
    y = {"age": dfgen.Number("age"), "label": dfgen.Category("label")}
    found = dfgen.evaluate_frame(model, sequence(df, y=y, sample_weight="counts"))
    nan = df.id == 2
    assert found.problem.fillna("").tolist() == ["", "", "the model gave NaN", "", "", ""]
    for name in ("y_pred_age", "loss_age", "loss"):
        assert (found[name].isna() == nan).all(), name
    assert found.row_weight_age.tolist() == [1, 2, 0, 4, 5, 6]
    assert found.row_weight_label.tolist() == [1, 2, 3, 4, 5, 6]
    assert found[["y_pred_label", "prob_label", "loss_label"]].notna().all(axis=None)


def test_weights_of_later_parts_are_those_of_their_rows(frame):
    df = frame(40).assign(counts=np.arange(40.0))
    model = reading(label=PARITY)
    model.compile(loss="binary_crossentropy")
    found = dfgen.evaluate_frame(model, sequence(df, sample_weight="counts", batch_size=1))
    assert found.row_weight.tolist() == df.counts.tolist()  # 16 batches come first, then others


def test_a_row_without_any_label_has_no_loss_at_all(frame):
    df = frame(4).assign(age=[1.0, np.nan, np.nan, 1.0], size=[1.0, 1.0, np.nan, np.nan])
    model = reading(age=ROW, size=ROW)
    model.compile(loss="mse")
    y = {name: dfgen.Number(name, missing="ignore") for name in ("age", "size")}
    found = dfgen.evaluate_frame(model, sequence(df, y=y))
    assert found.loss.isna().tolist() == [False, False, True, False]
    np.testing.assert_allclose(found.loss.dropna(), [2, 0, 4], atol=1e-4)


def test_labels_of_rows_that_lack_theirs_are_missing_and_of_no_other_row(frame):
    df = frame(6).assign(tags=[["a", "b"], None, ["b"], None, None, []], size=np.arange(6.0))
    df["width"] = df["size"].where(df.id != 3)
    model = reading(tags=(2, "sigmoid", [0, 0], [0, 0]), size=(2, None, [1, 1], [0, 0]))
    y = {
        "tags": dfgen.MultiLabel("tags", class_names=["a", "b"], missing="ignore"),
        "size": dfgen.Number(["size", "width"], missing="ignore"),
    }
    found = dfgen.predict_frame(model, sequence(df, y=y))
    tags = [["a", "b"], None, ["b"], None, None, []]
    assert [one if one is None else [*one] for one in found.y_true_tags] == tags
    sizes = [None if one is None else [*one] for one in found.y_true_size]
    assert sizes == [[n, n] if n != 3 else None for n in range(6)]


def test_labels_that_no_row_has_are_missing(frame):
    text = pd.Series([None] * 3, dtype="string")
    df = frame(3).assign(kind=text, age=pd.Series([np.nan] * 3), tags=text)
    model = reading(kind=LOGITS, age=ROW, tags=(2, "sigmoid", [0, 0], [0, 0]))
    ignore = {"missing": "ignore"}
    y = {
        "kind": dfgen.Category("kind", class_names=["a", "b"], **ignore),
        "age": dfgen.Number("age", **ignore),
        "tags": dfgen.MultiLabel("tags", class_names=["a", "b"], sep=",", **ignore),
    }
    found = dfgen.predict_frame(model, sequence(df, y=y), from_logits=True)
    assert found[[f"y_true_{name}" for name in y]].isna().all(axis=None)
    assert found.y_true_kind.cat.categories.tolist() == ["a", "b"]
    assert found.y_pred_age.notna().all()


@pytest.mark.parametrize("options", [
    {"balance": "label"}, {"drop_remainder": True, "workers": 3}, {"sample_weight": "counts"},
])  # fmt: skip
def test_attack_rows_of_one_file_and_of_a_sequence_in_the_middle_keep_their_predictions(
    frame, options
):
    df = frame(21).assign(counts=[0.0] * 20 + [3.0])
    df["path"] = df.path.to_numpy()[np.arange(21) // 2]  # two rows a file
    df = df.iloc[np.random.default_rng(0).permutation(21)]
    model = reading(label=PARITY, row=ROW)
    model.compile(loss={"label": "binary_crossentropy", "row": None})
    seq = sequence(df, y={"label": dfgen.Category("label")}, on_error="skip", **options)
    for _ in range(2):
        next(iter(seq))
        found = dfgen.predict_frame(model, seq)
        assert found.id.tolist() == df.id.tolist()
        np.testing.assert_allclose(found.y_pred_row, df.id // 2, atol=1e-4)
        prob = np.stack(found.prob_label)[:, 1]
        np.testing.assert_allclose(prob, probability(df.id // 2), atol=1e-6)


def test_where_keras_takes_a_sequence_for_the_pydataset_that_it_is_rows_are_the_same(
    frame, monkeypatch
):
    model = reading_with_loss(reading(label=PARITY))
    df = frame(21)
    expected = dfgen.evaluate_frame(model, sequence(df, batch_size=2))
    monkeypatch.setattr(data_adapter, "DataAdapter", type("DataAdapter", (), {}))
    found = dfgen.evaluate_frame(model, sequence(df, batch_size=2))
    pd.testing.assert_frame_equal(found, expected)


def test_a_row_of_several_views_is_their_mean_in_every_column(frame):
    df = frame(5)
    image = keras.Input((4, 4, 3))
    made = keras.Model(image, {"a": image[:, 0, 0, :1] / 10, "b": image[:, 0, 0, :1]})
    made.compile(loss="mse", loss_weights={"a": 2.0, "b": 1.0})
    y = {name: dfgen.Number(f"zero_{name}") for name in "ab"}
    df = df.assign(zero_a=0.0, zero_b=0.0)
    drawn = {"x": dfgen.Image(size=(4, 4)), "y": y, "transform": one_or_two, "seed": 3}
    each = [
        dfgen.evaluate_frame(made, dfgen.Sequence(df, **drawn), views=n)[["y_pred_b", "loss_b"]]
        for n in (1, 2, 3)
    ]
    factor = (each[0].y_pred_b / df.id)[1:]
    assert set(factor.round(3)) <= {1, 2}
    for count, found in enumerate(each, 1):
        sums = (found.y_pred_b / df.id * count)[1:]
        assert (abs(sums - sums.round()) < 1e-3).all()
        assert (found.loss_b + 1e-6 >= found.y_pred_b**2).all()  # a mean of squares
    again = dfgen.evaluate_frame(made, dfgen.Sequence(df, **drawn), views=3)
    np.testing.assert_allclose(again.loss, 2 * again.loss_a + again.loss_b, rtol=1e-5)
    np.testing.assert_allclose(again.y_pred_a * 10, again.y_pred_b, rtol=1e-5)


def one_or_two(sample, rng):
    return {**sample, "image": sample["image"] * np.uint8(rng.integers(1, 3))}


@pytest.mark.parametrize("function", [dfgen.predict_frame, dfgen.evaluate_frame])
def test_arguments_of_predict_are_told_with_what_to_write_instead(frame, function):
    with pytest.raises(TypeError) as told:
        function(reading(label=PARITY), sequence(frame(8)), steps=2, batch_size=4)
    assert str(told.value) == (
        f"{function.__name__} has no argument steps, batch_size:\n"
        "  steps: each row comes once: for fewer rows write dfgen.Sequence(df[:100], ...)\n"
        "  batch_size: it belongs to dfgen.Sequence, which makes the batches"
    )
