"""Models with named inputs and heads, trained on columns of every kind, and what they refuse."""

import keras
import numpy as np
import pandas as pd
import pytest
from watching import EAGER

import dfgen

pytestmark = pytest.mark.backend
BACKEND = keras.backend.backend()
ROWS = 32
WORDS = ("red", "green", "blue")


@pytest.fixture
def df(files, tmp_path):
    """Return rows whose columns all tell their class."""
    classes = [row % 3 for row in range(ROWS)]
    for row in classes[:3]:
        np.save(tmp_path / f"{row}.npy", np.full(2, row))
        keras.utils.save_img(tmp_path / f"{row}.png", np.full((4, 4, 1), row), scale=False)
    return pd.DataFrame(
        {
            "id": range(ROWS),
            "path": files[:ROWS],
            "array": [f"{tmp_path}/{row}.npy" for row in classes],
            "mask": [f"{tmp_path}/{row}.png" for row in classes],
            "a": [row / 2 for row in classes],
            "b": [row == 1 for row in classes],
            "text": [f"a {WORDS[row]} thing" for row in classes],
            "blob": [bytes([row, 0]) for row in classes],
            "kind": pd.Categorical([WORDS[row] for row in classes]),
            "tags": [list(WORDS[:row]) for row in classes],
            "boxes": [[[0, 0, 2, 2]] * (row % 2) for row in classes],
            "labels": [[1] * (row % 2) for row in classes],
            "weight": 1.0,
        }
    )


X = {
    "image": dfgen.Image(size=(4, 4), scale="0..1"),
    "array": dfgen.Array("array", (2,)),
    "vector": dfgen.Number(["a", "b"]),
    "made": dfgen.Column(["a", "b"], lambda a, b: [a, b, a * b], (3,)),
}
Y = {
    "kind": dfgen.Category("kind"),
    "tags": dfgen.MultiLabel("tags", WORDS),
    "a": dfgen.Number("a"),
}
LOSS = {
    "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "tags": keras.losses.BinaryCrossentropy(from_logits=True),
    "a": "mse",
}


def sequence(df, x=X, y=Y, **options):
    return dfgen.Sequence(df, x, y, **{"batch_size": 8, "workers": 2, **options})


def model(shapes, heads=(("kind", 3), ("tags", 3), ("a", 1)), keyed=True, run_eagerly=EAGER):
    keras.utils.set_random_seed(0)
    inputs = {name: keras.Input(shape, name=name) for name, shape in shapes.items()}
    flat = [keras.layers.Flatten()(tensor) for tensor in inputs.values()]
    hidden = keras.layers.Dense(16, activation="relu")(keras.layers.concatenate(flat))
    outputs = {name: keras.layers.Dense(size, name=name)(hidden) for name, size in heads}
    if not keyed:
        inputs, outputs = list(inputs.values()), list(outputs.values())
    made = keras.Model(inputs, outputs)
    losses = {name: LOSS[name] for name, _ in heads}
    made.compile("adam", losses, run_eagerly=run_eagerly)
    return made


SHAPES = {"image": (4, 4, 3), "array": (2,), "vector": (2,), "made": (3,)}


@pytest.mark.parametrize(
    "keyed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["dicts", "lists"]
)
@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_four_inputs_and_three_heads_train_together(df, keyed):
    made = model(SHAPES, keyed=keyed, run_eagerly=EAGER and not keyed)
    with sequence(df) as seq, sequence(df, shuffle=False) as val:
        history = made.fit(seq, validation_data=val, epochs=3, verbose=0).history
        assert made.evaluate(val, verbose=0, return_dict=True)["loss"] < history["loss"][0]
        predicted = made.predict(val, verbose=0)
    assert history["loss"][-1] < history["loss"][0] and "val_tags_loss" in history
    kind = predicted["kind"] if keyed else predicted[0]
    assert kind.shape == (ROWS, 3)


@pytest.mark.slow
def test_functions_train_from_processes(df):
    with sequence(df, use_multiprocessing=True) as seq:
        made = model(SHAPES)
        history = made.fit(seq, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


def texts_model(layer, dtype):
    words = keras.Input(() if dtype == "string" else (3,), dtype=dtype, name="text")
    tokens = layer(words) if dtype == "string" else words
    embedded = keras.layers.Embedding(10, 8)(tokens)
    made = keras.Model({"text": words}, keras.layers.Dense(3)(keras.layers.Flatten()(embedded)))
    made.compile("adam", LOSS["kind"], run_eagerly=EAGER)
    return made


@pytest.fixture
def vectorization(df):
    layer = keras.layers.TextVectorization(max_tokens=10, output_sequence_length=3)
    layer.adapt(df["text"].tolist())
    return layer


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_text_trains_where_there_are_strings(df, vectorization, processes):
    options = {"workers": 1, "use_multiprocessing": processes}
    with sequence(df, {"text": dfgen.Text("text")}, "kind", **options) as seq:
        if BACKEND == "tensorflow":
            history = texts_model(vectorization, "string").fit(seq, epochs=4, verbose=0).history
            assert history["loss"][-1] < history["loss"][0]
            return
        with pytest.raises(dfgen.DfgenError) as error:
            texts_model(vectorization, "int32").fit(seq, verbose=0)
    assert str(error.value) == (
        f"x has text or bytes, 'text', which models on {BACKEND} cannot take: make numbers of them "
        "before, with dfgen.Column, or train on TensorFlow (KERAS_BACKEND=tensorflow)"
    )


def test_text_made_numbers_before_trains_everywhere(df, vectorization):
    tokens = keras.ops.convert_to_numpy(vectorization(df["text"].tolist()))
    df = df.assign(tokens=tokens.tolist())
    x = {"text": dfgen.Column("tokens", np.array, shape=(3,), dtype="int32")}
    with sequence(df, x, "kind") as seq:
        history = texts_model(vectorization, "int32").fit(seq, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


def test_custom_loops_get_strings_on_every_backend(df):
    x = {"text": dfgen.Text("text"), "file": dfgen.Bytes(), "a": dfgen.Number("a")}
    seq = sequence(df, x, "kind", shuffle=False)
    adapters = {
        "tensorflow": seq.get_tf_dataset,
        "jax": seq.get_jax_iterator,
        "torch": seq.get_torch_dataloader,
    }
    batch, _ = next(iter(adapters[BACKEND]()))
    texts, files = (np.asarray(batch[name]).tolist() for name in ("text", "file"))
    texts = [text.decode() if isinstance(text, bytes) else text for text in texts]
    assert texts == df["text"].tolist()[:8]
    assert all(file.startswith(b"\x89PNG") for file in files)


@pytest.mark.xfail(BACKEND != "tensorflow", reason="models there take no bytes", strict=True)
def test_bytes_are_decoded_by_a_model_of_tensorflow(df):
    import tensorflow as tf

    class Decode(keras.layers.Layer):
        def call(self, x):
            return keras.ops.cast(tf.io.decode_raw(x, tf.uint8), "float32")

    blob = keras.Input((), dtype="string", name="blob")
    hidden = keras.layers.Dense(8, activation="relu")(keras.ops.reshape(Decode()(blob), (-1, 2)))
    made = keras.Model({"blob": blob}, keras.layers.Dense(3)(hidden))
    made.compile(keras.optimizers.Adam(0.05), LOSS["kind"])
    with sequence(df, {"blob": dfgen.Bytes("blob")}, "kind") as seq:
        history = made.fit(seq, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


FEATURES = {
    **X,
    "crop": dfgen.Image(size=(2, 3), load_size=(4, 4), crop="random", dtype="float16"),
    "mask": dfgen.Mask("mask", like=X["image"]),
    "text": dfgen.Text("text"),
    "file": dfgen.Bytes(),
    "blob": dfgen.Bytes("blob"),
    "one_hot": dfgen.Category("kind", "categorical"),
    "flag": dfgen.Number("b", dtype="float16"),
}


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        ({**FEATURES}, Y, {}),
        (list(FEATURES.values()), list(Y.values()), {"sample_weight": "weight"}),
        (X["image"], dfgen.Boxes(max_items=3, like=X["image"]), {"on_error": "skip"}),
        (X["vector"], "kind", {"label_mode": "binary", "class_names": ("red", "green")}),
        ("path", None, {"label_mode": None, "image_size": (4, 4), "color_mode": "grayscale"}),
    ],
    ids=["dicts", "lists", "boxes", "binary", "inputs alone"],
)
def test_element_spec_describes_batches_without_reading_files(df, x, y, options):
    df = df[df["kind"] != "blue"] if "class_names" in options else df
    seq = sequence(df, x, y, **options)
    specs = seq.element_spec
    assert seq.metrics.samples == 0
    for batch in (seq[0], seq[len(seq) - 1]):
        keras.tree.assert_same_structure(specs, batch)
        for spec, array in zip(*map(keras.tree.flatten, (specs, batch)), strict=True):
            dtype = "string" if array.dtype == object else array.dtype.name
            assert (spec.shape, spec.dtype) == ((None, *array.shape[1:]), dtype)


def test_a_model_is_built_from_element_spec_alone(df, tmp_path):
    df = df.assign(path=f"{tmp_path}/0.png", array=f"{tmp_path}/0.npy")
    for name in ("0.png", "0.npy"):
        (tmp_path / name).touch()  # an empty file, which is refused where it is read
    seq = sequence(df)
    assert repr(seq.element_spec[0]["image"]) == (
        "<KerasTensor shape=(None, 4, 4, 3), dtype=float32, sparse=False, ragged=False, name=image>"
    )
    made = model(SHAPES)
    assert made(seq.element_spec[0])["kind"].shape == (None, 3)
    lazy = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    lazy(sequence(df, X["image"], "kind").element_spec[0])
    assert lazy.count_params() == 48 * 2 + 2


def refused(use, df, x, y):
    with sequence(df, x, y, shuffle=False) as seq, pytest.raises(dfgen.DfgenError) as error:
        use(seq)
    assert seq.metrics.samples == 0, "nothing was read before"
    return str(error.value)


def without(tree, name):
    return {key: value for key, value in tree.items() if key != name}


@pytest.mark.parametrize("keyed", [True, False], ids=["dicts", "lists"])
def test_unfed_input_or_head_is_named_before_reading(df, keyed):
    made = model(SHAPES, keyed=keyed)
    renamed = {**without(X, "vector"), "vectors": X["vector"]}
    for use in (
        lambda seq: made.fit(seq, verbose=0),
        lambda seq: made.evaluate(seq, verbose=0),
        lambda seq: made.predict(seq, verbose=0),
    ):
        with (
            sequence(df, renamed, shuffle=False) as seq,
            pytest.raises(ValueError, match="vectors"),
        ):
            use(seq)
    fit = lambda seq: made.fit(seq, verbose=0)  # noqa: E731
    assert "'tags'" in refused(fit, df, X, without(Y, "tags"))
    assert "'age'" in refused(fit, df, X, {**Y, "age": Y["a"]})
    with sequence(df) as train:
        validated = lambda seq: made.fit(train, validation_data=seq, verbose=0)  # noqa: E731
        assert "'tags'" in refused(validated, df, X, without(Y, "tags"))
        assert train.metrics.samples == 0
    with sequence(df, X, without(Y, "tags"), shuffle=False) as seq:
        made.predict(seq, verbose=0)  # which needs no targets


def test_surplus_inputs_in_a_dict_are_rejected(df):
    made = model(without(SHAPES, "array"))
    assert "'array'" in refused(lambda seq: made.fit(seq, verbose=0), df, X, Y)


def test_input_list_takes_its_entries_from_a_dict(df):
    made = model(without(SHAPES, "array"), keyed=False)
    with sequence(df) as seq:
        assert made.fit(seq, verbose=0).history["loss"][0] > 0


@pytest.mark.parametrize("other", [{}, {"tags": None}], ids=["not named", "None"])
def test_an_output_without_a_loss_needs_no_target(df, other):
    made = model(SHAPES)
    made.compile("adam", {"kind": LOSS["kind"], "a": "mse", **other}, run_eagerly=EAGER)
    with sequence(df, X, without(Y, "tags")) as seq:
        assert made.evaluate(seq, verbose=0, return_dict=True)["loss"] > 0


def test_model_with_own_train_step_is_not_checked(df):
    class Own(keras.Model):
        def train_step(self, *arguments):
            raise RuntimeError("reached")

    inputs = keras.Input((2,), name="other")
    made = Own(inputs, keras.layers.Dense(1)(inputs))
    made.compile("sgd", "mse", run_eagerly=True, jit_compile=False)
    with sequence(df) as seq, pytest.raises((RuntimeError, ValueError)) as error:
        made.fit(seq, verbose=0)
    assert not isinstance(error.value, dfgen.DfgenError)


def test_a_sequential_model_takes_one_input(df):
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    made.compile("sgd", LOSS["kind"])
    with sequence(df, X["vector"], "kind") as seq:
        assert made.fit(seq, verbose=0).history["loss"][0] > 0


def of_pixels(df, **options):
    """Return a Sequence of masks and classes, whose rows weigh as `df` says, and its model."""
    y = {"mask": dfgen.Mask("mask"), "kind": "kind"}
    seq = dfgen.Sequence(df, X["image"], y, batch_size=4, shuffle=False, workers=0, **options)
    keras.utils.set_random_seed(0)
    pixels = keras.Input((4, 4, 3))
    dense = keras.layers.Dense(3)(keras.layers.Flatten()(pixels))
    heads = {"mask": keras.layers.Dense(3)(pixels), "kind": dense}
    made = keras.Model(pixels, heads)
    losses = dict.fromkeys(heads, LOSS["kind"])
    weighted = {name: ["accuracy"] for name in heads}
    made.compile("sgd", losses, weighted_metrics=weighted, run_eagerly=EAGER)
    return seq, made


def test_row_weights_apply_in_pixel_losses(df):
    """Batches are as long as images are wide: NumPy would take one for the other."""
    seq, made = of_pixels(df.assign(weight=[0.0, 0.0, 0.0, 4.0] * 8), sample_weight="weight")
    assert [spec.shape for spec in seq.element_spec[2].values()] == [(None, 1, 1), (None,)]
    assert {name: w.shape for name, w in seq[0][2].items()} == {"mask": (4, 1, 1), "kind": (4,)}
    only, same = of_pixels(df.iloc[3::4])
    weighed = made.evaluate(seq, verbose=0, return_dict=True)
    for name, value in same.evaluate(only, verbose=0, return_dict=True).items():
        assert weighed[name] == pytest.approx(value, rel=1e-5), name


def test_bad_row_does_not_count_in_pixel_loss(df):
    df = df.iloc[:4].assign(path=["gone.png", *df["path"][1:4]])
    seq, made = of_pixels(df, on_error="skip")
    only, same = of_pixels(df.iloc[1:])
    found, expected = (m.evaluate(s, verbose=0) for m, s in ((made, seq), (same, only)))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", "mse"])
def test_rows_weigh_in_a_loss_of_each_number(df, loss):
    """Batches have as many rows as targets have numbers: NumPy would take one for the other."""
    numbers = dfgen.Column("id", lambda id: [id % 3, (id + 1) % 3, 1, 2], (4,), "int32")
    head = [keras.layers.Dense(12), keras.layers.Reshape((4, 3)), keras.layers.Softmax()]
    head = [keras.layers.Dense(4)] if loss == "mse" else head

    def evaluated(df, **options):
        keras.utils.set_random_seed(0)
        made = keras.Sequential([keras.Input((2,)), *head])
        made.compile("sgd", loss, weighted_metrics=[loss], run_eagerly=EAGER)
        with sequence(df, X["vector"], numbers, batch_size=4, shuffle=False, **options) as seq:
            return made.evaluate(seq, verbose=0)

    df["weight"] = [0.0, 0.0, 0.0, 4.0] * 8
    found, expected = evaluated(df, sample_weight="weight"), evaluated(df[3::4])
    assert found == pytest.approx(expected, rel=1e-5)


def test_weights_of_pixels_alone_are_not_nested(df):
    boxes = dfgen.Boxes(max_items=3)
    for y, shape in ((dfgen.Mask("mask"), (8, 1, 1)), ({"m": dfgen.Mask("mask")}, (8, 1, 1)),
                     (boxes, (8, 1)), (["kind", "a"], (8,))):  # fmt: skip
        assert sequence(df, X["image"], y, on_error="skip")[0][2].shape == shape
