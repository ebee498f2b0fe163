"""Every row's prediction is that of the row alone, whatever stands beside it, in every column."""

from functools import cache
from itertools import product
from pathlib import Path

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dfgen
from dfgen.explore import mistakes

pytestmark = pytest.mark.backend
layers = keras.layers
ROWS, SIDE = 9, 4
SPARSE = keras.losses.SparseCategoricalCrossentropy
ALL = dfgen.Limits(problems=1.0)
HAS_STRINGS = keras.backend.backend() == "tensorflow"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Images of noise with labels of every kind, and files that cannot be read."""
    folder, random = tmp_path_factory.mktemp("noise"), np.random.default_rng(0)
    for n in range(ROWS):
        cv2.imwrite(f"{folder}/{n}.png", random.integers(0, 256, (SIDE, SIDE, 3), np.uint8))
        cv2.imwrite(f"{folder}/m{n}.png", random.integers(0, 2, (SIDE, SIDE), np.uint8))
    Path(f"{folder}/text.png").write_text("no image")
    Path(f"{folder}/cut.png").write_bytes(Path(f"{folder}/0.png").read_bytes()[:60])
    numbers = random.normal(size=(ROWS, 4)).astype(np.float32)
    numbers[3, :] = np.nan  # a row without that label
    return pd.DataFrame({
        "id": [f"r{n}" for n in range(ROWS)],
        "path": [f"{folder}/{n}.png" for n in range(ROWS)],
        "kind": pd.Categorical.from_codes(np.arange(ROWS) * 2 % 3, ["a", "b", "c"]),
        "two": pd.Categorical.from_codes(np.arange(ROWS) % 2, ["no", "yes"]),
        "age": random.normal(size=ROWS).astype(np.float32),
        "tags": [["x", "y", "z"][: n % 4] for n in range(ROWS)],
        "mask": [f"{folder}/m{n}.png" for n in range(ROWS)],
        "words": [" ".join(["cat", "dog"] * (n % 3) + ["emu"] * (n % 2)) for n in range(ROWS)],
        **{f"n{n}": numbers[:, n] for n in range(4)},
    })  # fmt: skip


def dense(units, activation=None):
    return lambda: layers.Dense(units, activation)


VECTOR = [f"n{n}" for n in range(4)]
HEADS = {  # name -> how it is made, what y has for it, its loss
    "softmax": (dense(3, "softmax"), dfgen.Category("kind"), SPARSE()),
    "logits": (dense(3), dfgen.Category("kind"), SPARSE(from_logits=True)),
    "ignored": (dense(3), dfgen.Category("kind"), SPARSE(from_logits=True, ignore_class=1)),
    "sigmoid": (dense(1, "sigmoid"), dfgen.Category("two"), "binary_crossentropy"),
    "number": (dense(1), dfgen.Number("age"), "mse"),
    "vector": (dense(4), dfgen.Number(VECTOR, missing="ignore"), "mae"),
    "tags": (
        dense(3, "sigmoid"),
        dfgen.MultiLabel("tags", class_names=["x", "y", "z"]),
        "binary_crossentropy",
    ),
    "mask": (lambda: layers.Conv2D(2, 1, activation="softmax"), dfgen.Mask("mask"), SPARSE()),
    "map": (lambda: layers.Conv2D(2, 1), None, None),
}
KINDS = [[name] for name in HEADS] + [["softmax", "number", "tags"], ["vector", "mask"]]


@cache
def model(names, as_list, text):
    """A model of noise in its weights: an output, or a dict or list of them."""
    keras.utils.set_random_seed(len(names))
    image = inputs = keras.Input((SIDE, SIDE, 3), name="image")
    pixels = layers.Rescaling(1 / 50)(image)
    flat = layers.Flatten()(pixels)
    if text:
        words = keras.Input((), dtype="string", name="words")
        counts = layers.TextVectorization(vocabulary=["cat", "dog", "emu"], output_mode="count")
        inputs, flat = [image, words], layers.Concatenate()([flat, counts(words)])
    made = {}
    for name in names:
        layer = HEADS[name][0]()
        layer.name = name
        made[name] = layer(pixels if isinstance(layer, layers.Conv2D) else flat)
    outputs = [*made.values()] if as_list else made
    found = keras.Model(inputs, outputs if len(names) > 1 else made[names[0]])
    if HEADS[names[0]][2] is not None:
        losses = {name: HEADS[name][2] for name in names}
        found.compile(loss=losses if len(names) > 1 else losses[names[0]])
    return found


def predicted(frame, names, as_list, text, views, out=None, **options):
    """What `evaluate_frame` returns, or has written; without a loss `predict_frame`."""
    y = {name: HEADS[name][1] for name in names}
    y = y if len(names) > 1 else y[names[0]]
    image = dfgen.Image(size=(SIDE, SIDE), flip="horizontal" if views else None)
    seq = dfgen.Sequence(
        frame, x={"image": image, "words": dfgen.Text("words")} if text else image,
        workers=0, on_error="skip", limits=dfgen.Limits(problems=1.0),
        **({"label_mode": None} if y is None else {"y": y}), **options,
    )  # fmt: skip
    does = dfgen.predict_frame if y is None else dfgen.evaluate_frame
    made = model(tuple(names), as_list, text)
    return does(made, seq, arrays=None if views else "lists", views=views, out=out)


def plain(value):
    """A value of any column as nested lists, None where there is none."""
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    return None if pd.isna(value) else value


def same(found, expected, where):
    if isinstance(expected, float | np.floating):
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5), where
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for one, other in zip(found, expected, strict=True):
            same(one, other, where)
    else:
        assert found == expected, where


_alone: dict = {}


def check(
    rows, names, order, bad, as_list=False, text=False, views=None, size=3, count=1, out=None
):
    key = tuple(names), as_list, text, views
    if key not in _alone:
        _alone[key] = predicted(rows, *key, batch_size=1).astype(object)
    frame = rows.iloc[order].reset_index(drop=True)
    for place, file in bad.items():
        frame.loc[place, "path"] = f"{frame.path[place].rpartition('/')[0]}/{file}.png"
    count = min(count, -(-len(order) // size))
    parts = [
        predicted(frame, *key, out and out / f"{index}.parquet",
                  batch_size=size * count, shard=(index, count))
        for index in range(count)
    ]  # fmt: skip
    if count > 1:
        found = dfgen.join_predictions(parts)
    else:
        found = parts[0] if out is None else pd.read_parquet(parts[0])
    assert found.id.tolist() == frame.id.tolist()
    assert sorted(found) == sorted(_alone[key])
    assert found.problem.notna().tolist() == [place in bad for place in range(len(order))]
    for name in found.columns.difference([*frame, "problem"]):
        for place, row in enumerate(order):
            value, where = plain(found[name].iloc[place]), (name, place)
            if place not in bad or name.startswith("y_true"):
                same(value, plain(_alone[key][name].iloc[row]), where)
            else:
                assert value == (0 if name.startswith("row_weight") else None), where
    if "prob" in found and names != ["tags"] and len(bad) < len(order):
        assert len(mistakes(found).frame) == len(order) - len(bad)


CASES = {
    "names": st.sampled_from(KINDS),
    "as_list": st.booleans(),
    "text": st.booleans() if HAS_STRINGS else st.just(False),
    "views": st.sampled_from([None, None, 2]),
    "order": st.permutations(range(ROWS)).flatmap(
        lambda rows: st.integers(1, ROWS).map(lambda n: list(rows[:n]))
    ),
    "drawn": st.data(),
    "size": st.integers(1, 4),
    "count": st.integers(1, 3),
    "written": st.booleans(),
}


def drawn_case(rows, folder, names, as_list, order, drawn, written, **case):
    files = st.sampled_from(["gone", "text", "cut"])
    bad = drawn.draw(st.dictionaries(st.integers(0, len(order) - 1), files), "bad")
    if len(bad) == len(order):
        bad[0] = "text"  # where no file is there at all, a Sequence is refused
    out = folder.mktemp("out") if written else None
    check(rows, names, order, bad, as_list and len(names) > 1, out=out, **case)


@pytest.mark.slow
@settings(max_examples=3, phases=[Phase.generate])
@given(**CASES)
def test_every_row_is_predicted_as_if_it_were_alone(rows, tmp_path_factory, **case):
    drawn_case(rows, tmp_path_factory, **case)


@pytest.mark.slow
@settings(max_examples=60, phases=[Phase.generate])
@given(**CASES)
def test_every_row_of_many_frames_is_predicted_as_if_it_were_alone(rows, tmp_path_factory, **case):
    drawn_case(rows, tmp_path_factory, **case)


@pytest.mark.slow
@pytest.mark.parametrize("names", KINDS, ids="+".join)
def test_a_batch_of_one_row_is_as_a_frame_of_one_row(rows, names):
    for row in range(ROWS):
        check(rows, names, [row], {})


BAD = {
    "neighbours, and all of a batch": {2: "cut", 3: "gone", 4: "text", 5: "cut", 7: "gone"},
    "first and last": {0: "gone", 8: "cut"},
    "all": dict.fromkeys(range(ROWS), "text"),
}
TOGETHER = [name for name in HEADS if name != "map"]


@pytest.mark.parametrize(("names", "bad"), [
    (TOGETHER, "neighbours, and all of a batch"), (["map"], "first and last"),
    *[pytest.param(*one, marks=pytest.mark.slow) for one in product([TOGETHER, ["map"]], BAD)],
])  # fmt: skip
def test_no_prediction_is_that_of_a_row_that_cannot_be_read(rows, tmp_path, names, bad):
    check(rows, names, [*range(ROWS)], BAD[bad])
    check(rows, names, [*range(ROWS)], BAD[bad], count=2, out=tmp_path)
