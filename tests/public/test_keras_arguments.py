"""Arguments that Keras would drop, nested x and y, `dfgen.sequences`, and lifetimes."""

import keras
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import dfgen
from public.keras_helpers import EAGER, SPARSE, assert_close, rows_of, sequence, weights_of
from public.permutation import epoch_rows
from public.watching import built_watcher, watcher

backend = pytest.mark.backend
LABELS, ONES = np.zeros(8, "int32"), np.ones(8)


@backend
@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("fit", {"y": LABELS}), ("fit", {"sample_weight": ONES}),
        ("fit", {"class_weight": {0: 1.0, 1: 2.0}}), ("fit", {"batch_size": 8}),
        ("fit", {"shuffle": False}), ("fit", {"validation_split": 0.5}),
        ("evaluate", {"y": LABELS}), ("evaluate", {"sample_weight": ONES}),
        ("evaluate", {"batch_size": 2}), ("predict", {"batch_size": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(value),
)  # fmt: skip
def test_arguments_that_keras_drops_raise(frame, method, argument):
    model, (name,) = built_watcher(), argument
    seq = sequence(frame(8), shuffle=method == "fit")
    with pytest.raises(ValueError, match=name):
        getattr(model, method)(seq, verbose=0, **argument)
    assert model.seen() + model.seen("tested") == []
    model.fit(seq, verbose=0)
    assert model.seen() == (epoch_rows(8, 0) if method == "fit" else [*range(8)])


@backend
def test_shuffled_sequences_cannot_predict(frame):
    model = built_watcher()
    with pytest.raises(ValueError, match="shuffle"):
        model.predict(sequence(frame(8)), verbose=0)
    assert model.seen("tested") == []


@backend
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_repeat_without_steps_raises(frame, method):
    seq, model = sequence(frame(8), shuffle=False), built_watcher()
    with pytest.raises(ValueError, match="steps"):
        getattr(model, method)(seq.repeat(), verbose=0)
    steps = {"steps_per_epoch" if method == "fit" else "steps": 3}
    getattr(model, method)(seq.repeat(), verbose=0, **steps)
    assert (model.seen() or model.seen("tested")) == [*range(8), *range(4)]


@backend
@pytest.mark.parametrize("same", [True, False])
def test_fit_within_fit_needs_another_sequence(frame, same):
    """Two training passes at once on one Sequence raise."""
    seq, inner, outer = sequence(frame(24)), watcher(run_eagerly=EAGER), built_watcher()
    other = seq if same else sequence(frame(10))
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batch or inner.fit(other, verbose=0)
    )
    if same:
        with pytest.raises(ValueError, match="fit"):
            outer.fit(seq, verbose=0, callbacks=[callback])
    else:
        outer.fit(seq, verbose=0, callbacks=[callback])
        assert (outer.seen(), inner.seen()) == (epoch_rows(24, 0), epoch_rows(10, 0))
        assert (seq.epoch, other.epoch) == (1, 1)


# Nested x and y: dicts match by name, lists by place


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(10, 3)).astype("f4"), columns=["a", "b", "age"])
    return df.assign(id=range(10), kind=pd.Categorical([*"xyzxxyzxyz"]))


def nest(kind, values):
    return values if kind is dict else [*values.values()]


def two_by_two(x, y, order="ab"):
    """Return a functional model with inputs a and b, outputs kind and age, nested as x and y."""
    inputs = {name: keras.Input((1,), name=name) for name in order}
    joined = keras.layers.Concatenate()([inputs["a"] * 3, inputs["b"]])
    outputs = {}
    for name, units in [("kind", 3), ("age", 1)][:: 1 if order == "ab" else -1]:
        start = keras.initializers.RandomNormal(seed=units)
        outputs[name] = keras.layers.Dense(units, kernel_initializer=start, name=name)(joined)
    model = keras.Model(nest(x, inputs), nest(y, outputs))
    losses = {"kind": SPARSE(from_logits=True), "age": "mse"}
    model.compile("sgd", nest(y, {n: losses[n] for n in outputs}), run_eagerly=EAGER)
    return model


@backend
@pytest.mark.parametrize(
    ("x", "y", "order"), [(dict, dict, "ba"), (list, list, "ab"), (dict, list, "ba")]
)
def test_nested_x_and_y_train_as_their_arrays(table, x, y, order):
    """In dicts, the keys of the Sequence come in another order than the model's."""
    values = {name: table[name].to_numpy() for name in ("a", "b", "age")}
    values["kind"] = table.kind.cat.codes.to_numpy("i4")
    outputs = ["kind", "age"][:: 1 if order == "ab" else -1]
    inputs, targets = [*"ab"], outputs if y is list else outputs[::-1]
    ours, theirs = two_by_two(x, y, order), two_by_two(x, y, order)
    features = [nest(x, {n: n for n in inputs}), nest(y, {n: n for n in targets})]
    seq = dfgen.Sequence(table, *features, batch_size=4, shuffle=False, workers=0)
    ours.fit(seq, epochs=2, verbose=0)
    data = nest(x, {n: values[n] for n in inputs}), nest(y, {n: values[n] for n in outputs})
    theirs.fit(*data, batch_size=4, epochs=2, shuffle=False, verbose=0)
    assert_close(weights_of(ours), weights_of(theirs))
    predictions = ours.predict(seq, verbose=0), theirs.predict(data[0], verbose=0)
    assert_close(*([p[n] for n in outputs] if y is dict else p for p in predictions))


# dfgen.sequences


@pytest.fixture
def split(frame):
    splits = pd.Categorical(["train"] * 28 + ["val"] * 2 + ["train"] * 10, ["train", "val", "test"])
    return frame(40).assign(label=["b"] * 30 + ["a"] * 10, split=splits)


SMALL = {"y": "label", "batch_size": 4, "image_size": (4, 4), "workers": 0}


@pytest.mark.parametrize("source", ["frame", "path"])
def test_sequences_of_each_split(split, source, tmp_path):
    dfgen.write_manifest(split, tmp_path / "m.parquet")
    data = dfgen.sequences(split if source == "frame" else tmp_path / "m.parquet", **SMALL)
    train, val = data["train"], data["val"]
    assert [*data] == ["train", "val"]
    assert train.class_names == val.class_names == ["a", "b"]
    ids = train.manifest["id"]
    assert ids.tolist() == [*range(28), *range(30, 40)]
    assert [row for x, _ in train for row in rows_of(x)] == ids.iloc[epoch_rows(38, 0)].tolist()
    assert [(rows_of(x), y.tolist()) for x, y in val] == [([28, 29], [1, 1])]


def test_sequences_give_chance_and_weights_to_training_alone(split):
    def dark(sample, rng):
        return {**sample, "image": sample["image"] * 0}

    options = SMALL | {"class_weight": "balanced", "drop_remainder": True, "seed": 3}
    data = dfgen.sequences(split, train={"transform": dark, "batch_size": 6}, **options)
    train, val = data["train"], data["val"]
    assert (len(train), train.batch_size, val.batch_size, train.seed) == (6, 6, 4, 3)
    x, y, weights = train[0]
    assert not x.any()
    np.testing.assert_allclose(weights, np.where(y == 0, 38 / (2 * 10), 38 / (2 * 28)), rtol=1e-6)
    assert rows_of(val[0][0]) == [28, 29]
    assert len(val[0]) == 2 or (val[0][2] == 1).all()


def test_sequences_crop_at_random_in_training_alone(split, tmp_path):
    ramp = Image.fromarray(np.arange(300).reshape(10, 10, 3).astype(np.uint8))
    paths = {name: str(tmp_path / f"{name}.png") for name in ("train", "val")}
    for path in paths.values():
        ramp.save(path)
    x = dfgen.Image("path", size=(4, 4), load_size=(10, 10), crop="random")
    df = split.assign(path=split["split"].astype(str).map(paths))
    data = dfgen.sequences(df, x, "label", batch_size=2, workers=0)
    equal = {name: (seq[0][0][0] == seq[0][0][1]).all() for name, seq in data.items()}
    assert equal["val"] and not equal["train"]


def test_sequences_of_a_fold(split):
    folds, seen = dfgen.split(split.drop(columns="split"), folds=4, stratify="label"), []
    for fold in range(4):
        data = dfgen.sequences(folds, fold=fold, **SMALL)
        val, train = (data[name].manifest["id"].tolist() for name in ("val", "train"))
        assert (sorted(val + train), len(val)) == ([*range(40)], 10)
        seen += val
    assert sorted(seen) == [*range(40)]


# Lifetimes
