"""A model remembers what the numbers that it was trained on mean: other ones are told."""

import copy
import gc
import pickle
import weakref

import keras
import numpy as np
import pandas as pd
import pytest
from watching import EAGER

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
LAYERS = keras.layers
SPARSE = "sparse_categorical_crossentropy"
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
ROWS = 24
NAMES = ["a", "b", "c"]
PALETTE = {level: level % 3 for level in range(ROWS)}


def image(**options):
    return dfgen.Image("path", **{"size": (4, 4), **options})


@pytest.fixture
def rows(frame):
    """Real images, whose pixels tell the row, and labels of every kind."""
    kinds = [NAMES[row % 3] for row in range(ROWS)]
    return frame(ROWS).assign(
        kind=pd.Categorical(kinds, NAMES),
        other=pd.Categorical(kinds[::-1], NAMES),
        tame=pd.Categorical([("no", "yes")[row % 2] for row in range(ROWS)]),
        tags=[[NAMES[row % 3]] for row in range(ROWS)],
        grade=[row % 3 for row in range(ROWS)],
        size=np.arange(ROWS, dtype=np.float32),
        age=np.arange(ROWS, dtype=np.float32),
        mask=lambda df: df["path"],
    )


def sequence(rows, y="kind", x=None, **options):
    x = image() if x is None else x
    options = {"batch_size": 8, "workers": 0, "shuffle": False, **options}
    return dfgen.Sequence(rows, x, y, **options)


def model(units=3, loss=SPARSE, activation="softmax", layers=(), last=LAYERS.Dense):
    pooled = [LAYERS.Rescaling(1 / 255), LAYERS.GlobalAveragePooling2D()]
    end = last(
        units,
        activation=activation,
        **({} if last is LAYERS.Dense else {"kernel_size": 3, "padding": "same"}),
    )
    made = keras.Sequential([keras.Input((4, 4, 3)), *(layers or pooled), end])
    made.compile("sgd", loss, run_eagerly=EAGER)
    return made


def two_heads(as_dict=True):
    x = keras.Input((4, 4, 3), name="image")
    pooled = LAYERS.GlobalAveragePooling2D()(LAYERS.Rescaling(1 / 255)(x))
    heads = {name: LAYERS.Dense(3, "softmax", name=name)(pooled) for name in ("kind", "other")}
    made = keras.Model(x, heads if as_dict else list(heads.values()))
    losses = dict.fromkeys(heads, SPARSE) if as_dict else [SPARSE, SPARSE]
    made.compile("sgd", losses, run_eagerly=EAGER)
    return made


def with_input(kind, shape=(), layer=None):
    """A model of an image and something else."""
    x, more = keras.Input((4, 4, 3), name="image"), keras.Input(shape, name="more")
    seen = (layer or LAYERS.Reshape((-1,)))(more)
    pooled = LAYERS.GlobalAveragePooling2D()(LAYERS.Rescaling(1 / 255)(x))
    both = LAYERS.Concatenate()([pooled, LAYERS.Flatten()(seen)])
    made = keras.Model({"image": x, "more": more}, LAYERS.Dense(3, "softmax")(both))
    made.compile("sgd", SPARSE, run_eagerly=EAGER)
    return made, {"image": image(), "more": kind}


def category(column="kind", names=NAMES, **options):
    return dfgen.Category(column, class_names=names, **options)


def heads(kind=NAMES, other=NAMES):
    return {"kind": category(names=kind), "other": category("other", other)}


TURNED = ["c", "b", "a"]
NO_YES = ["no", "yes"]
# the head: the model, y in training, y of other numbers
HEADS = {
    "int": (model, category(), category(names=TURNED)),
    "one-hot": (lambda: model(loss="categorical_crossentropy"), category(label_mode="categorical"),
        category(names=TURNED, label_mode="categorical")),
    "binary": (lambda: model(1, "binary_crossentropy", "sigmoid"),
        category("tame", NO_YES, label_mode="binary"),
        category("tame", NO_YES[::-1], label_mode="binary")),
    "several labels": (lambda: model(3, "binary_crossentropy", "sigmoid"),
        dfgen.MultiLabel("tags", NAMES), dfgen.MultiLabel("tags", TURNED)),
    "a dict": (two_heads, heads(), heads(other=TURNED)),
    "a list": (lambda: two_heads(as_dict=False), list(heads().values()),
        list(heads(other=TURNED).values())),
    "numbers for classes": (model, dfgen.Number("grade"), category("grade", [2, 1, 0])),
    "classes for numbers": (model, category("grade", [2, 1, 0]), dfgen.Number("grade")),
    "columns that change places": (lambda: model(2, "mse", None), dfgen.Number(["size", "age"]),
        dfgen.Number(["age", "size"])),
    "heads that change columns": (two_heads,
        {"kind": dfgen.Number("grade"), "other": dfgen.Number("row")},
        {"kind": dfgen.Number("row"), "other": dfgen.Number("grade")}),
    "a mask": (lambda: model(3, LOGITS, None, [LAYERS.Rescaling(1 / 255)], LAYERS.Conv2D),
        dfgen.Mask("mask", palette=PALETTE),
        dfgen.Mask("mask", palette={level: 2 - number for level, number in PALETTE.items()})),
}  # fmt: skip


@pytest.fixture
def gray(rows, tmp_path):
    """The same rows with masks whose gray level is the number of the row."""
    import cv2

    for row in range(ROWS):
        cv2.imwrite(f"{tmp_path}/{row}.png", np.full((4, 4), row, np.uint8))
    return rows.assign(mask=[f"{tmp_path}/{row}.png" for row in range(ROWS)], row=rows.grade)


def some(cases, *quick):
    """All cases, of which the default run takes a few."""
    return [pytest.param(n, marks=[] if n in quick else pytest.mark.slow) for n in cases]


@pytest.mark.parametrize("name", some(HEADS, "int", "a dict"))
def test_other_numbers_are_refused_by_all_that_reads_labels(gray, name):
    make, trained, other = HEADS[name]
    made, as_trained, otherwise = make(), sequence(gray, trained), sequence(gray, other)
    made.fit(as_trained, verbose=0)
    before = made.evaluate(as_trained, verbose=0)
    weights = made.get_weights()
    for wrong in (
        lambda: made.evaluate(otherwise, verbose=0),
        lambda: dfgen.predict_frame(made, otherwise),
        lambda: dfgen.evaluate_frame(made, otherwise),
        lambda: made.fit(otherwise, verbose=0),
        lambda: made.fit(otherwise.repeat(), steps_per_epoch=1, verbose=0),
    ):
        with pytest.raises(ArgumentError, match=r"in training"):
            wrong()
    for now, then in zip(made.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, then)
    np.testing.assert_allclose(made.evaluate(as_trained, verbose=0), before, rtol=1e-6)
    assert len(made.predict(sequence(gray, other), verbose=0)) > 0  # which reads no labels


def test_a_palette_may_lack_levels_that_its_rows_do_not_have(gray):
    make, trained, _ = HEADS["a mask"]
    made = make()
    made.fit(sequence(gray, trained), verbose=0)
    fewer = {level: PALETTE[level] for level in range(ROWS - 1)}
    made.evaluate(sequence(gray[:-1], dfgen.Mask("mask", palette=fewer)), verbose=0)


def test_what_is_told_names_both_numberings_and_the_way_out(rows):
    made, turned = model(), sequence(rows, class_names=TURNED)
    made.fit(sequence(rows), verbose=0)
    fault = (
        "number 0 is class 'a' of 'kind' in training and 'c' in this Sequence: training numbers "
        "'a', 'b', 'c', this Sequence 'c', 'b', 'a'. Give {} a Sequence with the numbers of "
        "training: class_names=['a', 'b', 'c']"
    )
    anew = (
        ". To train a model on other classes, make it anew, give it a new last layer, copy it with "
        "keras.models.clone_model, or put back the weights that it had before its first fit"
    )
    for call, told in (
        (made.evaluate, fault.format("evaluate")),
        (made.fit, fault.format("fit") + anew),
    ):
        with pytest.raises(ArgumentError) as caught:
            call(turned, verbose=0)
        assert str(caught.value) == told
    with pytest.raises(ArgumentError) as caught:
        dfgen.evaluate_frame(made, turned)
    assert str(caught.value) == fault.format("evaluate_frame")


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        lambda rows: rows[rows.kind != "a"].assign(kind=lambda df: df.kind.astype(str)),
        lambda rows: rows.assign(kind=rows.kind.cat.reorder_categories(TURNED)),
        lambda rows: rows.assign(kind=rows.kind.cat.remove_categories("a"))[rows.kind != "a"],
    ],
    ids=["text that lacks the first class", "categories in another order", "one removed"],
)
@pytest.mark.filterwarnings("ignore:column 'kind' is not categorical")
def test_frames_that_number_otherwise_are_refused(rows, data):
    made = model()
    made.fit(sequence(rows), verbose=0)
    with pytest.raises(ArgumentError, match=r"^number 0 is class 'a' of 'kind' in training and "):
        made.evaluate(sequence(data(rows)), verbose=0)
    right = sequence(data(rows), class_names=NAMES)
    assert np.isfinite(made.evaluate(right, verbose=0))


INPUTS = {
    "a category": (category(), category(names=TURNED), (), None),
    "an embedded one": (category(), category(names=TURNED), (), LAYERS.Embedding(3, 2)),
    "several labels": (
        dfgen.MultiLabel("tags", NAMES), dfgen.MultiLabel("tags", TURNED), (3,), None,
    ),
    "numbers in another order": (
        dfgen.Number(["size", "age"]), dfgen.Number(["age", "size"]), (2,), None,
    ),
    "another range": (
        dfgen.Image("mask", size=(4, 4)),
        dfgen.Image("mask", size=(4, 4), scale="0..1"), (4, 4, 3), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", some(INPUTS, "a category"))
def test_inputs_that_mean_something_else_are_refused_by_predict_too(rows, name):
    trained, other, shape, layer = INPUTS[name]
    layer = layer and type(layer).from_config(layer.get_config())
    made, x = with_input(trained, shape, layer)
    made.fit(sequence(rows, "grade", x), verbose=0)
    otherwise = sequence(rows, None, {**x, "more": other}, label_mode=None)
    for wrong in (
        lambda: made.predict(otherwise, verbose=0),
        lambda: dfgen.predict_frame(made, otherwise),
        lambda: made.evaluate(sequence(rows, "grade", {**x, "more": other}), verbose=0),
    ):
        with pytest.raises(ArgumentError, match=r"in training|that of training"):
            wrong()
    assert len(made.predict(sequence(rows, None, x, label_mode=None), verbose=0)) == ROWS


LEGITIMATE = {
    "the same": sequence,
    "the same by hand": lambda rows: sequence(rows, class_names=NAMES),
    "fewer rows that keep the categories": lambda rows: sequence(rows[rows.kind == "c"]),
    "the last class missing": lambda rows: sequence(rows[rows.kind != "c"], class_names=NAMES[:2]),
    "one class more": lambda rows: sequence(rows, class_names=[*NAMES, "d"]),
    "in a list": lambda rows: sequence(rows, [category()]),
    "another column of the same classes": lambda rows: sequence(rows, "other"),
    "no labels": lambda rows: sequence(rows, None, label_mode=None),
    "another size and resize": lambda rows: sequence(rows, x=image(resize="pad")),
    "a scale in other words": lambda rows: sequence(rows, x=image(scale=(1.0, 0.0))),
}


@pytest.mark.parametrize("name", some(LEGITIMATE, "no labels", "one class more"))
@pytest.mark.filterwarnings("ignore:the output .* has 3 units, but column 'kind' has 2 classes")
def test_what_means_the_same_is_left_alone(rows, name):
    made, other = model(), LEGITIMATE[name](rows)
    made.fit(sequence(rows), verbose=0)
    assert len(made.predict(other, verbose=0)) == len(other.manifest)
    if other.class_names is None or len(other.class_names) == 3:  # else it asks for a unit each
        dfgen.predict_frame(made, other)
    if name != "no labels":
        made.evaluate(other, verbose=0)
        made.fit(other, verbose=0)


@pytest.mark.slow
def test_text_for_numbers_is_the_same_class(rows):
    made = model()
    made.fit(sequence(rows, dfgen.Category("grade", class_names=[0, 1, 2])), verbose=0)
    text = rows.assign(grade=rows.grade.astype(str))
    alike = sequence(text, category("grade", ["0", "1", "2"]))
    assert np.isfinite(made.evaluate(alike, verbose=0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the output .* has 3 units, but column 'kind' has 2 classes")
def test_what_a_model_knows_outlives_a_fit_on_fewer_classes_or_none(rows):
    made, few = model(), rows[rows.kind != "c"]
    made.fit(sequence(rows), verbose=0)
    made.fit(sequence(few, class_names=["a", "b"]), verbose=0)
    with pytest.raises(ArgumentError, match=r"^number 2 is class 'c' .* and 'd' in this Sequence"):
        made.evaluate(sequence(few, class_names=["a", "b", "d"]), verbose=0)


def test_classes_that_the_model_knows_none_of_are_another_task_with_a_warning(rows):
    made, tasks = model(), rows.assign(task=pd.Categorical(["left", "up", "right"] * 8))
    made.fit(sequence(rows), verbose=0)
    with pytest.raises(ArgumentError, match=r"^number 0 is class 'a' of 'kind' in training"):
        made.evaluate(sequence(tasks, "task"), verbose=0)
    with pytest.warns(UserWarning, match=r"^fit goes on") as told:
        made.fit(sequence(tasks, "task"), verbose=0)
    assert [str(one.message) for one in told if "__array__" not in str(one.message)] == [
        "fit goes on with classes that the model was not trained on: number 0 is class 'a' of "
        "'kind' in training and 'left' in this Sequence: training numbers 'a', 'b', 'c', this "
        "Sequence 'left', 'right', 'up'. Give fit a Sequence with the numbers of training: "
        "class_names=['a', 'b', 'c']. To train a model on other classes, make it anew, give it a "
        "new last layer, copy it with keras.models.clone_model, or put back the weights that it "
        "had before its first fit"
    ]
    made.evaluate(sequence(tasks, "task"), verbose=0)
    with pytest.raises(ArgumentError, match=r"^number 0 is class 'left' of 'task' in training"):
        made.evaluate(sequence(rows), verbose=0)


class TestBeginningAnew:
    """A model that is another one, or that no step was done with, knows no classes."""

    @pytest.fixture
    def turned(self, rows):
        return sequence(rows, class_names=TURNED)

    @pytest.fixture
    def trained(self, rows):
        made = model()
        made.fit(sequence(rows), verbose=0)
        return made

    def fits(self, made, sequence):
        made.compile("sgd", SPARSE)
        made.fit(sequence, verbose=0)
        assert np.isfinite(made.evaluate(sequence, verbose=0))

    @pytest.mark.slow
    def test_a_copy(self, trained, turned):
        other = keras.models.clone_model(trained)
        other.set_weights(trained.get_weights())
        self.fits(other, turned)

    @pytest.mark.slow
    def test_a_new_head_on_the_layers_of_the_old_model(self, trained, turned):
        body = keras.Sequential(trained.layers[:-1])
        self.fits(keras.Sequential([body, LAYERS.Dense(3, "softmax")]), turned)

    @pytest.mark.slow
    def test_a_head_that_is_exchanged_in_place(self, trained, turned):
        trained.pop()
        trained.add(LAYERS.Dense(3, "softmax"))
        self.fits(trained, turned)

    @pytest.mark.slow
    def test_a_saved_model_and_one_that_travelled(self, trained, turned, tmp_path):
        trained.save(tmp_path / "model.keras")
        self.fits(keras.saving.load_model(tmp_path / "model.keras"), turned)
        self.fits(pickle.loads(pickle.dumps(trained)), turned)
        self.fits(copy.deepcopy(trained), turned)

    def test_a_fit_of_no_step(self, rows, turned):
        made = model()
        made.fit(sequence(rows), epochs=0, verbose=0)
        missing = rows.assign(path=[*rows.path[:2], "none.png", *rows.path[3:]])
        with pytest.raises(dfgen.errors.DfgenError, match=r"none\.png"):
            made.fit(sequence(missing, on_error="raise"), verbose=0)
        made.evaluate(turned, verbose=0)
        made.fit(turned, verbose=0)
        with pytest.raises(ArgumentError, match=r"^number 0 is class 'c' of 'kind' in training"):
            made.evaluate(sequence(rows), verbose=0)

    def test_the_weights_of_before_its_first_fit(self, rows, turned, tmp_path):
        made = model()
        made.save_weights(tmp_path / "first.weights.h5")
        for names in (NAMES, TURNED, ["b", "a", "c"]):
            made.load_weights(tmp_path / "first.weights.h5")
            parts = [sequence(part, class_names=names) for part in (rows[:16], rows[16:])]
            made.fit(parts[0], validation_data=parts[1], verbose=0)
        with pytest.raises(ArgumentError, match=r"^number 0 is class 'b' of 'kind' in training"):
            made.evaluate(turned, verbose=0)
        with pytest.raises(ArgumentError, match=r"^number 0 is class 'b' of 'kind' in training"):
            made.fit(turned, verbose=0)

    def test_weights_of_an_epoch_or_made_by_hand_are_the_same_model(self, rows, trained, turned):
        best = trained.get_weights()
        trained.fit(sequence(rows), verbose=0)
        for weights in (best, [weight * 0 for weight in best], model().get_weights()):
            trained.set_weights(weights)
            with pytest.raises(ArgumentError, match=r"^number 0 is class 'a'"):
                trained.fit(turned, verbose=0)

    @pytest.mark.slow
    def test_weights_frozen_and_compiled_anew_are_the_same_model(self, trained, turned):
        trained.layers[0].trainable = False
        trained.compile("adam", SPARSE)
        with pytest.raises(ArgumentError, match=r"^number 0 is class 'a'"):
            trained.fit(turned, verbose=0)


def test_a_model_around_a_trained_one_and_a_part_of_it_know_what_it_knows(rows):
    turned = rows.assign(kind=pd.Categorical(rows["kind"].astype(str), NAMES[::-1]))
    inner, keyed = model(loss=LOGITS, activation=None), two_heads()
    inner.fit(sequence(rows), verbose=0)
    keyed.fit(sequence(rows, {"kind": "kind", "other": "other"}), verbose=0)
    around = keras.Sequential([inner, LAYERS.Softmax()])
    for made in (around, keras.Model(keyed.input, keyed.output["kind"])):
        dfgen.predict_frame(made, sequence(rows))
        with pytest.raises(ArgumentError, match="number 0 is class 'a' of 'kind' in training and"):
            dfgen.predict_frame(made, sequence(turned))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.flat, self.last = LAYERS.Flatten(), LAYERS.Dense(3, "softmax")

    def call(self, x):
        return self.last(self.flat(keras.ops.cast(x, "float32") / 255))


@pytest.mark.slow
def test_models_that_are_built_by_their_first_batch_remember_too(rows):
    unbuilt = keras.Sequential(
        [LAYERS.Rescaling(1 / 255), LAYERS.Flatten(), LAYERS.Dense(3, "softmax")]
    )
    for made in (unbuilt, Subclassed()):
        made.compile("sgd", SPARSE)
        made.fit(sequence(rows), verbose=0)
        with pytest.raises(ArgumentError, match=r"^number 0 is class 'a' of 'kind' in training"):
            made.evaluate(sequence(rows, class_names=TURNED), verbose=0)


def test_neither_model_nor_sequence_is_kept(rows):
    made, seq = model(), sequence(rows)
    made.compile("sgd", SPARSE)  # what is traced may hold more
    made.fit(seq, verbose=0)
    held, loader = weakref.ref(made), weakref.ref(seq._loader)
    del seq
    gc.collect()
    assert loader() is None
    made.evaluate(sequence(rows), verbose=0)
    del made
    keras.utils.clear_session()
    gc.collect()
    assert held() is None
