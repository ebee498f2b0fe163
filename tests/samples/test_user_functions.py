"""Functions of the user: which are taken, and that their own lines show where they fail."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
from public.first_batch import batch_of

import dfgen
from dfgen.errors import ArgumentError, TransformError

SCRIPT = """
import sys
import cv2, keras, numpy as np, pandas as pd
import dfgen

pytestmark = pytest.mark.filterwarnings("ignore:.* is not categorical")

paths = [f"{number}.png" for number in range(4)]
for path in paths:
    cv2.imwrite(path, np.full((8, 8, 3), 7, np.uint8))
df = pd.DataFrame({"id": range(4), "path": paths, "age": 0.5})

def brighten(image):
    return image + missing_name  # of brighten

def augment(sample, rng):
    sample["image"] = brighten(sample["image"])  # of augment
    return sample

def mixed(batch, rng):
    return brighten(0) if batch["image"].any() else batch  # of mixed

def decoded(data):
    return brighten(data)  # of decoded

def filled(age):
    return brighten(age)  # of filled

class Own(dfgen.Feature):
    column = "path"
    kind = "image"
    of_files = True
    spec = dfgen.Spec((8, 8, 3), np.dtype(np.uint8))

    def read(self, value, out, reading):
        brighten(reading.store.read(value))  # of Own

FUNCTIONS = {
    "augment": {"transform": augment},
    "mixed": {"batch_transform": mixed},
    "decoded": {"x": dfgen.Array("path", (8, 8, 3), decode=decoded)},
    "filled": {"x": dfgen.Column("age", filled, shape=(8, 8, 3))},
    "Own": {"x": Own()},
}
WORKERS = {
    "threads": {"workers": 2},
    "none": {"workers": 0},
    "processes": {"workers": 1, "use_multiprocessing": True},
}

layers = [keras.layers.Rescaling(1.0), keras.layers.Flatten(), keras.layers.Dense(1)]
model = keras.Sequential(layers)
model.build((None, 8, 8, 3))
model.compile("sgd", "mse", run_eagerly=True)  # nothing is traced, which takes long

def train(name, workers):
    given = FUNCTIONS[name]
    size = {} if "x" in given else {"image_size": (8, 8)}
    options = {"y": "age", "batch_size": 2, "shuffle": False, **size, **given, **workers}
    with dfgen.Sequence(df, **options) as seq:
        model.fit(seq, verbose=0)

for case in sys.argv[1:]:
    name, kind = case.split()
    sys.stderr.write(f"<<< {case}\\n")
    try:
        train(name, WORKERS[kind])
    except Exception:
        sys.excepthook(*sys.exc_info())  # as where nobody catches it
"""
CASES = [f"{name} threads" for name in ("augment", "mixed", "decoded", "filled", "Own")]
CASES += ["augment none", "augment processes", "Own processes"]
SAID = {
    "augment": "row id=0, path='0.png': the transform raised NameError: name 'missing_name'",
    "mixed": "batch 0 of epoch 0: the batch_transform raised NameError: name 'missing_name'",
    "decoded": "row id=0, path='0.png': Array('path'): decoded raised NameError: name 'missing_",
    "filled": "row id=0: Column('age'): filled raised NameError: name 'missing_name'",
    "Own": "while reading row id=0, path='0.png'",
}


@pytest.mark.backend
@pytest.mark.slow
def test_python_shows_user_lines_of_fit_errors(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    run = subprocess.run(
        [sys.executable, script, *CASES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    lines = SCRIPT.splitlines()
    for case, shown in zip(CASES, run.stderr.split("<<< ")[1:], strict=True):
        name = case.split()[0]
        assert SAID[name] in shown, case
        for inner in ("brighten", name):
            line = next(n for n, text in enumerate(lines, 1) if text.endswith(f"# of {inner}"))
            function = "read" if inner == "Own" else inner
            assert (
                f'File "{script}", line {line}, in {function}\n    {lines[line - 1].strip()}'
                in (shown)
            ), case


def plain(sample, rng):
    return sample


class Augment:
    def __call__(self, sample, rng):
        return sample

    def method(self, sample, rng):
        return sample


@pytest.mark.parametrize(
    "function",
    [
        None,
        plain,
        lambda *args: args[0],
        lambda s, rng=None, *, k=3: s,
        Augment(),
        Augment().method,
        functools.partial(lambda strength, sample, rng: sample, 3),
    ],
)
def test_any_function_of_two_arguments_is_a_transform(frame, function):
    options = {"transform": function, "batch_transform": function}
    with dfgen.Sequence(frame(2), image_size=(4, 4), **options):
        pass


@pytest.mark.parametrize("wrong", [5, "flip", lambda sample: sample, len, [plain]])
def test_others_are_refused(frame, wrong):
    for name in ("transform", "batch_transform"):
        with pytest.raises(ArgumentError, match=name):
            dfgen.Sequence(frame(2), image_size=(4, 4), **{name: wrong})


@pytest.mark.parametrize(
    ("transform", "word"),
    [
        (lambda s, rng: None, "dict"),
        (lambda s, rng: {}, "keys"),
        (lambda s, rng: {**s, "image": 1}, "shape"),
        (lambda s, rng: {**s, "image": s["image"][:2]}, "shape"),
        (lambda s, rng: {**s, "image": s["image"] / 2}, "float64"),
        (lambda s, rng: {**s, "image": [[1], [1, 2]]}, "array"),
        (lambda s, rng: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_invalid_transform_result_names_the_row(frame, transform, word):
    with pytest.raises(TransformError, match=f"id=0.*{word}"):
        batch_of(frame(2), dfgen.Image(size=(4, 4)), "label", transform=transform)


def test_transform_sees_unscaled_pixels_and_changes_labels(frame):
    def change(sample, rng):
        assert sample["image"].dtype == np.uint8 and sample["label"].shape == ()
        return {"image": 255 - sample["image"], "label": sample["label"] + np.int32(1)}

    image = dfgen.Image(size=(4, 4), scale="0..1")
    x, y = batch_of(frame(2), image, "label", transform=change)
    np.testing.assert_allclose(x[:, 0, 0, 0], [1, 254 / 255])
    assert y.tolist() == [1, 2]
